"""`Synthesizer`: from one task any number of others with the same profile: other worlds, people, words and tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import immutables
import numpy as np

from rods_env.apis.api import World
from rods_env.apis.draw import Draw
from rods_env.apis.registry import APIS, TOOLS, Services, Tool, check_apis, tools_of
from rods_env.apis.worlds import WorldSeries
from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.graph import isomorphic
from rods_env.tasks.maker import fill
from rods_env.tasks.plans import assign_tools
from rods_env.tasks.recipes import CASTINGS, Casting, Recipe, Story, luck
from rods_env.tasks.resampling import Renamer, Renaming, Template, people_of
from rods_env.tasks.shapes import Shape
from rods_env.tasks.task import Kind, Task, fingerprint
from rods_env.tasks.transforms import LONG_CONTEXT_SIZE, transformed
from rods_env.tasks.validation import validate

_ATTEMPTS = 80  # attempts at one variant before it is given up
_LOOKS, _LOOKING = 16, 0.6  # how often further choices of tools are looked for; in which share of new stories
_LUCK = 0.4  # the share of attempts that choices of tools must have worked in, if any did
_RETRIES = 2  # how often a wish that fails sends the planner back, in one attempt
_TELLINGS = 16  # how often a story is told before it is forgotten
_REMEMBERED = 4096  # shapes whose tools are remembered
_USES, _WORLDS = 1000, 4  # how many new stories play in a world, on average; how many worlds are in use at a time
_RENAMERS = 64  # for how many worlds the names are kept
_RENAMINGS = 256  # how many renamed worlds are kept
_KEYS = 1 << 40


class Synthesizer:
    """Makes variants: tasks with the profile of a given one, and everything else new.

    A variant has the same dependency graph (up to isomorphism, with skills, turns, spokenness and kinds of edges), the
    same kind, depth and calls per turn; other people, another world and story, and, where the type graph allows, other
    tools and APIs of the same skills. Each is executed, checked by `validate`, and compared by networkx.

    Equal seeds and equal sequences of calls give equal variants.

    Args:
        seed: a whole number of at least 0.
        keep_tools: whether variants keep the tools of the task, so that only entities, world and words are new.
        new: the share of attempts at a new story, with tools chosen, a world searched and all turns phrased anew; the
            others tell one of at most eight stories of the same task again, in another world, about other people,
            places, days and ids, which takes a third of the time. 1: every variant is a new story.
        apis: the services that variants may play in beside the task's own; None for all. A policy that knows some
            services only needs variants that stay in them.

    Attributes:
        rejected: how many attempts came to nothing, by reason: `assign` (no other tools fit), `plan` (nothing in the
            world fits the tools), `ambiguous`, `phrasing` (it cannot be said well), `edges`, `profile` (other calls
            depend on each other than in the task), `transform` (nothing can be left out), `invalid`, `duplicate`.
        made: how many variants were made.
    """

    def __init__(
        self, seed: int = 0, *, keep_tools: bool = False, new: float = 0.25, apis: Sequence[str] | None = None
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise RodsError(f"seed: expected a whole number of at least 0; got {seed!r}.")
        if not 0 <= new <= 1:
            raise RodsError(f"new: expected a share between 0 and 1; got {new!r}.")
        self.seed = int(seed)
        self.new = float(new)
        self.keep_tools = keep_tools
        self.apis = check_apis(APIS if apis is None else apis)
        self.rejected: Counter[str] = Counter()
        self.made = 0
        self._draw = Draw(np.random.default_rng((self.seed, 0)))
        self._worlds = WorldSeries(self.seed, uses=_USES, worlds=_WORLDS)
        self._long_worlds = WorldSeries(self.seed, size=LONG_CONTEXT_SIZE, uses=_USES, worlds=_WORLDS)
        self._renamers: dict[tuple[int, int], Renamer] = {}
        self._renamings: dict[tuple[int, int, int, str], Renaming] = {}
        self._services = Services(World("", immutables.Map()))
        self._recipes: dict[tuple[Shape, Kind, int], Recipe] = {}  # by shape, kind, and turn of asking
        self._seen: dict[int, None] = {}  # the texts of all variants so far

    def variant(self, task: Task, rng: np.random.Generator | None = None) -> Task:
        """A new valid variant of a task, whose `parent` it is.

        Args:
            task: any valid task.
            rng: the source of chance; the synthesizer's own stream when not given.

        Raises:
            SynthesisError: if 80 attempts found none; `reason` is the most frequent reason of their rejection.
            RodsError: if the task's gold calls do not replay.
        """
        draw = self._draw if rng is None else Draw(rng)
        recipe = self._recipe(task)
        failed: Counter[str] = Counter()
        for _ in range(_ATTEMPTS):
            try:
                variant = self._attempt(task, recipe, draw)
            except SynthesisError as error:
                failed[error.reason] += 1
                self.rejected[error.reason] += 1
                continue
            self.made += 1
            return variant
        reasons = ", ".join(f"{reason}: {n}" for reason, n in failed.most_common())
        raise SynthesisError(
            f"no variant of {task.id} in {_ATTEMPTS} attempts ({reasons}).", reason=failed.most_common(1)[0][0]
        )

    def variants(self, task: Task, n: int) -> list[Task]:
        """Up to `n` variants of a task, no two with equal texts; fewer if the task has no more."""
        found: list[Task] = []
        while len(found) < n:
            try:
                found.append(self.variant(task))
            except SynthesisError:
                break
        return found

    def _attempt(self, task: Task, recipe: Recipe, draw: Draw) -> Task:
        """One variant, made anew or told again; checked, whichever it is."""
        story = self._known_story(task, recipe, draw)
        told = story is not None
        if story is None:
            story, made = self._new(task, recipe, draw)
        else:
            made = self._again(task, recipe, story)
        text = fingerprint(made)
        if text in self._seen or text == fingerprint(task):
            raise SynthesisError("a variant with these texts was made before.", reason="duplicate")
        if validate(made):
            raise SynthesisError("the variant is not valid.", reason="invalid")
        if not isomorphic(made, task):
            raise SynthesisError("other calls depend on each other than in the task.", reason="profile")
        self._seen[text] = None
        if not told:
            story.template = Template(made, self._renamer(recipe, story))
            if story.template.names:
                recipe.remember(story)
        variant = Task(made.id, made.kind, made.apis, made.turns, made.world, task.id)  # without what `made` has cached
        variant.__dict__["profile"] = task.profile  # `isomorphic` has seen that they are equal
        return variant

    def _known_story(self, task: Task, recipe: Recipe, draw: Draw) -> Story | None:
        """A story to be told again; None if it is time for a new one."""
        stories = [story for story in recipe.stories if story.of in ("", task.id)]
        castings = recipe.castings
        if self.keep_tools:
            own = _tools(task)
            stories = [story for story in stories if story.of or story.tools == own]
            castings = [casting for casting in castings if casting.tools == own]
        if not stories and recipe.looks >= _LOOKS and not castings:  # no tools fit, not even its own
            recipe.remember(Story(0, (), 0, 0, of=task.id))
            return recipe.stories[-1]
        if stories and stories[0].of:
            return stories[0]
        if len(stories) < 2 or draw.chance(self.new):
            return None
        return draw.choice(stories)

    def _new(self, task: Task, recipe: Recipe, draw: Draw) -> tuple[Story, Task]:
        casting, new = self._casting(task, recipe, draw)
        casting.tries += 1
        extra = len(task.apis) - len(casting.apis)
        story = Story(draw.index(_KEYS), casting.tools, self._series(recipe).next_number(draw), extra)
        made = self._filled(recipe, casting, story)
        casting.hits += 1
        if new:
            recipe.keep(casting)
        return story, made

    def _filled(self, recipe: Recipe, casting: Casting, story: Story) -> Task:
        """The new task that a story's key, tools and world say; the same whenever it is asked for."""
        draw = Draw(np.random.default_rng((self.seed, story.key)))
        others = [name for name in self.apis if name not in casting.apis]
        apis = check_apis((*casting.apis, *draw.sample(others, story.extra)))
        world, cast = self._series(recipe).get(story.world, apis)
        long = recipe.kind == "long_context"
        plans = casting.plans(draw)
        made = fill(recipe.shape, plans, apis, world, cast, draw, long=long, services=self._services, retries=_RETRIES)
        return transformed(made, recipe.kind, draw, recipe.asking)

    def _again(self, task: Task, recipe: Recipe, story: Story) -> Task:
        """The story once more, about other entities."""
        template = story.template
        if template is None:
            template = story.template = self._template(task, recipe, story)
        renaming = self._renaming(recipe, story, template)
        story.told += 1
        if story.told >= _TELLINGS and not story.of:
            recipe.stories.remove(story)
        return template.renamed(renaming, task.id)

    def _template(self, task: Task, recipe: Recipe, story: Story) -> Template:
        if story.of:
            return Template(task, Renamer(people_of(task.world)))
        known = next((c for c in recipe.castings if c.tools == story.tools), None)
        casting = known or Casting(recipe.shape, story.tools)
        return Template(self._filled(recipe, casting, story), self._renamer(recipe, story))

    def _renamer(self, recipe: Recipe, story: Story) -> Renamer:
        series = self._series(recipe)
        at = (series.size, story.world)
        renamer = self._renamers.get(at)
        if renamer is None:
            if len(self._renamers) >= _RENAMERS:
                del self._renamers[next(iter(self._renamers))]
            world, _ = series.get(story.world, tuple(APIS))
            renamer = self._renamers[at] = Renamer(people_of(world))
        return renamer

    def _renaming(self, recipe: Recipe, story: Story, template: Template) -> Renaming:
        """The renaming number `told` of the story's world: stories in one world share it, with the tables it makes."""
        at = (self._series(recipe).size, story.world, story.told, story.of)
        renaming = self._renamings.get(at)
        if renaming is None:
            if len(self._renamings) >= _RENAMINGS:
                del self._renamings[next(iter(self._renamings))]
            draw = Draw(np.random.default_rng((self.seed, *at[:3])))
            renaming = self._renamings[at] = Renaming(template.renamer, template.task.world, draw)
        return renaming

    def _series(self, recipe: Recipe) -> WorldSeries:
        return self._long_worlds if recipe.kind == "long_context" else self._worlds

    def _recipe(self, task: Task) -> Recipe:
        asking = next((t for t, turn in enumerate(task.turns) if not turn.calls), -1)
        key = (task.shape, task.kind, asking)
        recipe = self._recipes.get(key)
        if recipe is None:
            if len(self._recipes) >= _REMEMBERED:
                del self._recipes[next(iter(self._recipes))]
            recipe = self._recipes[key] = Recipe(*key)
        return recipe

    def _casting(self, task: Task, recipe: Recipe, draw: Draw) -> tuple[Casting, bool]:
        """Tools for the next attempt, and whether they are not among the known ones."""
        own, known = _tools(task), recipe.castings
        if self.keep_tools:
            found = next((c for c in known if c.tools == own), None)
            recipe.looks += found is None
            return (found, False) if found else (Casting(recipe.shape, own), True)
        if not known and recipe.looks % 2 == 0:
            recipe.looks += 1
            return Casting(recipe.shape, own), True
        if not known or draw.chance(_LOOKING if recipe.looks < _LOOKS and len(known) < CASTINGS else _LOOKING / 50):
            recipe.looks += 1
            apis = _apis_to_look_in(own, self.apis, draw)
            tools = tuple(plan.tool for plan in assign_tools(recipe.shape, tools_of(apis), draw))
            if all(casting.tools != tools for casting in known):
                return Casting(recipe.shape, tools), True
        lucky = [casting for casting in known if luck(casting) >= _LUCK]
        return draw.choice(lucky) if lucky else max(known, key=luck), False

    def state_dict(self) -> dict[str, Any]:
        """Where the synthesizer stands, as plain JSON data: after `load_state_dict` the same variants follow."""
        return {
            "seed": self.seed,
            "keep_tools": self.keep_tools,
            "new": self.new,
            "apis": list(self.apis),
            "made": self.made,
            "rejected": dict(self.rejected),
            "draw": self._draw.state_dict(),
            "worlds": [self._worlds.given, self._long_worlds.given],
            "seen": list(self._seen),
            "recipes": [recipe.state_dict() for recipe in self._recipes.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state.

        Raises:
            RodsError: if the state is of a synthesizer with another seed or other settings.
        """
        mine = {"seed": self.seed, "keep_tools": self.keep_tools, "new": self.new, "apis": list(self.apis)}
        theirs = {"apis": list(APIS), **state}  # states of earlier versions name none
        for name, value in mine.items():
            if theirs[name] != value:
                raise RodsError(f"the state is of a synthesizer with {name}={theirs[name]}; this one has "
                                f"{name}={value}. Make it with the same settings.")  # fmt: skip
        self.made = state["made"]
        self.rejected = Counter(state["rejected"])
        self._draw.load_state_dict(state["draw"])
        self._worlds.given, self._long_worlds.given = state["worlds"]
        self._seen = dict.fromkeys(state["seen"])
        recipes = [Recipe.from_state(data) for data in state["recipes"]]
        self._recipes = {(recipe.shape, recipe.kind, recipe.asking): recipe for recipe in recipes}


def _tools(task: Task) -> tuple[Tool, ...]:
    return tuple([TOOLS[call.tool] for call in task.calls])


def _apis_to_look_in(own: tuple[Tool, ...], apis: Sequence[str], draw: Draw) -> list[str]:
    """As many APIs as a task uses: its own (other tools of them), all but one of its own, or any of `apis`."""
    used = list(dict.fromkeys(tool.api.NAME for tool in own))
    how = draw.unit()
    others = [name for name in apis if name not in used]
    if how < 0.5 or not others:
        return used
    if how < 0.75:
        used.pop(draw.index(len(used)))
        return [*used, draw.choice(others)]
    return draw.sample(apis, len(used))
