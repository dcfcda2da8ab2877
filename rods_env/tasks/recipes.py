"""What a `Synthesizer` knows about a shape: which tools fit it, and which stories were made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rods_env.apis.draw import Draw
from rods_env.apis.registry import TOOLS, Tool
from rods_env.errors import SynthesisError
from rods_env.tasks.plans import Plan, ways
from rods_env.tasks.resampling import Template
from rods_env.tasks.shapes import Shape
from rods_env.tasks.task import Kind

CASTINGS = 8  # how many choices of tools are kept for a shape
STORIES = 8  # how many stories are kept for a shape, to be told about other entities


class Casting:
    """Tools for the nodes of a shape, the ways to say and wire them, and how often they worked."""

    __slots__ = ("apis", "hits", "options", "tools", "tries")

    def __init__(self, shape: Shape, tools: Sequence[Tool], tries: int = 0, hits: int = 0) -> None:
        self.tools = tuple(tools)
        self.apis = tuple(dict.fromkeys(tool.api.NAME for tool in tools))
        parents = [sorted(u for u, v in shape.data if v == n) for n in range(len(shape.nodes))]
        self.options = [
            ways(tool, node.spoken, parents[n], tools[:n])
            for n, (tool, node) in enumerate(zip(tools, shape.nodes, strict=True))
        ]
        self.tries = tries
        self.hits = hits

    def plans(self, draw: Draw) -> list[Plan]:
        """A way to say and wire each call.

        Raises:
            SynthesisError: `assign`, if one of them cannot be wired.
        """
        if not all(self.options):
            raise SynthesisError("these tools do not fit the shape.", reason="assign")
        return [draw.choice(draw.choice(options)) for options in self.options]


def luck(casting: Casting) -> float:
    """The share of attempts that worked, so far; a half for what was never tried."""
    return (casting.hits + 1) / (casting.tries + 2)


class Story:
    """A variant that was made anew, kept to be told about other entities.

    Attributes:
        key: with the tools, the world and the extra APIs, all that is needed to make it again.
        world: the number of its world.
        extra: how many APIs are offered that it does not need.
        of: the id of a task that is its own story, because nothing else was found; else "".
        told: how often it was told.
        template: the story taken apart; made when it is needed, also after a state was loaded.
    """

    __slots__ = ("extra", "key", "of", "template", "told", "tools", "world")

    def __init__(
        self, key: int, tools: tuple[Tool, ...], world: int, extra: int, *, told: int = 0, of: str = ""
    ) -> None:
        self.key = key
        self.tools = tools
        self.world = world
        self.extra = extra
        self.told = told
        self.of = of
        self.template: Template | None = None


class Recipe:
    """What variants of a task are made from, and what was learned in making them.

    Attributes:
        shape: the structure.
        kind: the kind of task.
        asking: the turn in which the agent can only ask; -1 if there is none.
        castings: choices of tools that worked.
        stories: variants that were made anew.
        looks: how often other choices of tools were looked for.
    """

    __slots__ = ("asking", "castings", "kind", "looks", "shape", "stories")

    def __init__(self, shape: Shape, kind: Kind, asking: int) -> None:
        self.shape = shape
        self.kind = kind
        self.asking = asking
        self.castings: list[Casting] = []
        self.stories: list[Story] = []
        self.looks = 0

    def remember(self, story: Story) -> None:
        """Keeps a story; the one that was told most often makes room."""
        if len(self.stories) >= STORIES:
            self.stories.remove(max(self.stories, key=lambda s: s.told))
        self.stories.append(story)

    def keep(self, casting: Casting) -> None:
        """Keeps a choice of tools that worked; the least lucky one makes room."""
        if len(self.castings) >= CASTINGS:
            self.castings.remove(min(self.castings, key=luck))
        self.castings.append(casting)

    def state_dict(self) -> dict[str, Any]:
        """The recipe as plain JSON data; stories without their texts, which are made again when they are told."""
        shape = {"nodes": self.shape.nodes, "data": sorted(self.shape.data), "state": sorted(self.shape.state or ())}
        return {
            "shape": msgspec.to_builtins(shape),
            "kind": self.kind,
            "asking": self.asking,
            "looks": self.looks,
            "castings": [[[t.name for t in c.tools], c.tries, c.hits] for c in self.castings],
            "stories": [[s.key, [t.name for t in s.tools], s.world, s.extra, s.told, s.of] for s in self.stories],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Recipe:
        """The recipe that `state_dict` wrote."""
        recipe = cls(msgspec.convert(state["shape"], Shape), state["kind"], state["asking"])
        recipe.looks = state["looks"]
        for names, tries, hits in state["castings"]:
            recipe.castings.append(Casting(recipe.shape, [TOOLS[name] for name in names], tries, hits))
        for key, names, world, extra, told, of in state["stories"]:
            tools = tuple(TOOLS[name] for name in names)
            recipe.stories.append(Story(key, tools, world, extra, told=told, of=of))
        return recipe
