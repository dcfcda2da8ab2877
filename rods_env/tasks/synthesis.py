"""From a plan to calls that work: arguments found in a world, executed wish by wish.

`Planner` fills one wish of the user after the other: it samples entities of the world for what the user wants done
until the call succeeds, follows them up to what the user can say (this order, hence this customer, hence this name),
and places the calls in order, so that whatever differs from the shape is seen when it happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rods_env.apis.api import Trace, World
from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast, Person
from rods_env.apis.registry import Port, Services, Tool
from rods_env.errors import SynthesisError, ToolError
from rods_env.tasks.graph import source_of
from rods_env.tasks.picks import picks
from rods_env.tasks.plans import Plan
from rods_env.tasks.replay import Step, execute
from rods_env.tasks.shapes import Node, Shape
from rods_env.tasks.text import noun_of, say
from rods_env.tasks.wishes import Choices, Source, Wish, table_name

_NOTHING: set[Any] = set()
_SAMPLES = 6  # how many entities are tried for one wish before it is given up


class Placed(NamedTuple):
    """An executed call of the plan with everything that phrasing needs to know."""

    tool: Tool
    clause: str
    arguments: dict[str, Any]
    sources: dict[str, Source]
    step: Step
    turn: int
    spoken: bool


class _Mark(NamedTuple):
    """What a planner has to remember in order to go back to before a wish."""

    placed: int
    world: World
    former: dict[tuple[str, str], tuple[Any, ...]]
    liked: dict[int, list[Any]]
    named: set[str]
    outdated: set[str]
    news_told: set[str]
    deleted: set[str]
    worlds: list[World]


class Planner:
    """Finds arguments that work, wish by wish, in one world.

    Args:
        world: the initial world.
        cast: the people of the story.
        draw: the source of chance.
        max_rows: the longest list that a search may return.
        strict: whether values must come from the calls that the wiring names. Otherwise a wiring is a proposal, and
            a value that the story has had before is taken from there.
        services: used instead of new ones, which saves making them; nobody else may use them meanwhile.
    """

    def __init__(
        self,
        world: World,
        cast: Cast,
        draw: Draw,
        *,
        max_rows: int = 9,
        strict: bool = True,
        services: Services | None = None,
    ) -> None:
        self.strict = strict
        self.cast = cast
        self.draw = draw
        self.max_rows = max_rows
        self.year = world.now[:4]
        self.world = world
        self.services = services or Services(world)
        self.services.state.world = world
        self.trace = Trace()
        self.nodes: list[Node] = []
        self.plans: list[Plan] = []
        self.placed: list[Placed] = []
        self.liked: dict[int, list[Any]] = {}  # rows of a call's result that later calls used
        people = list(cast.people)
        self.people = [p.name for p in (people if draw.chance(0.6) else draw.shuffled(people))]
        self.named: set[str] = set()
        self.outdated: set[str] = set()  # addresses that were replaced
        self.news_told: set[str] = set()
        self.deleted: set[str] = set()  # ids of what was deleted or cancelled
        self.worlds = [world]  # after each wish: a wish that only undoes others is none

    def fill(self, shape: Shape, plans: Sequence[Plan], retries: int = 0) -> list[Placed]:
        """The executed calls of a whole shape.

        Args:
            shape: the structure.
            plans: a tool and a wiring for each node.
            retries: how often, when a wish fails, the one that brought what it is about is made anew.

        Raises:
            SynthesisError: `plan`, when this world does not fill the plan.
        """
        marks: list[_Mark] = []
        while (first := len(self.placed)) < len(plans):
            goal = next(n for n in range(first, len(plans)) if shape.nodes[n].spoken)
            marks.append(self._mark())
            if self.wish(shape.nodes[first : goal + 1], plans[first : goal + 1], shape.state):
                continue
            retries -= 1
            if retries < 0:
                raise SynthesisError("nothing in this world fits the plan.", reason="plan")
            used = [u for n in range(first, goal + 1) for u in plans[n].wiring.values() if u is not None and u < first]
            while len(marks) > 1 and marks[-1].placed > max(used, default=first):
                marks.pop()
            self._return(marks.pop())
        return self.placed

    def _mark(self) -> _Mark:
        liked = {call: list(rows) for call, rows in self.liked.items()}
        return _Mark(
            len(self.placed), self.services.state.world, dict(self.trace.former), liked, set(self.named),
            set(self.outdated), set(self.news_told), set(self.deleted), list(self.worlds),
        )  # fmt: skip

    def _return(self, mark: _Mark) -> None:
        """Undoes all wishes since the mark."""
        del self.placed[mark.placed :]
        self.services.state.world, self.trace.former = mark.world, mark.former
        self.liked, self.named, self.outdated = mark.liked, mark.named, mark.outdated
        self.news_told, self.deleted, self.worlds = mark.news_told, mark.deleted, mark.worlds

    def wish(
        self, nodes: Sequence[Node], plans: Sequence[Plan], state: frozenset[tuple[int, int]] | None = None
    ) -> bool:
        """Places some calls, of which the last is what the user wants and the others find what it needs.

        Args:
            nodes: the calls in the shape; indices of their plans count over the whole task.
            plans: their tools and wirings.
            state: all state edges of the shape, if they must be kept.

        Returns:
            Whether that was possible; if not, `placed` and the world are as before.
        """
        first = len(self.placed)
        # What an earlier wish that failed left behind is overwritten here.
        self.nodes[first:] = nodes
        self.plans[first:] = plans
        goal = len(self.nodes) - 1
        choices = Choices(self, first)
        best: tuple[int, Wish] | None = None
        for attempt in range(_SAMPLES):
            wish = Wish(self, choices, attempt)
            if not wish.solve(goal):
                if choices.repeats > 2:
                    return False
                continue
            strangers = len(wish.people - self.named)
            if best is None or strangers < best[0]:
                best = (strangers, wish)
            if strangers == 0 or (not self.named and self.people[0] in wish.people) or attempt >= 3:
                if self._execute(best[1], first, goal, state):
                    return True
                best = None
        return best is not None and self._execute(best[1], first, goal, state)

    def _execute(self, wish: Wish, first: int, goal: int, state: frozenset[tuple[int, int]] | None) -> bool:
        world, strict = self.services.state.world, self.strict
        former = dict(self.trace.former) if strict else {}
        for index in range(first, goal + 1):
            found = wish.call(index)
            placed = None if found is None else self._call(index, *found, wish if index == goal else None)
            if placed is not None and not strict:
                placed = self._rewired(placed)
            if placed is not None:
                placed = self._dated(placed, world)
            if placed is None or not self._fits(index, placed, state):
                del self.placed[first:]
                self.services.state.world, self.trace.former = world, former
                return False
            self.placed.append(placed)
        used = {source.call for placed in self.placed[first:] for source in placed.sources.values()}
        for_nothing = any(index not in used for index in range(first, goal))  # the story had it already
        after = self.services.state.world
        undone = after is not world and any(after.same_as(earlier) for earlier in self.worlds)
        if for_nothing or undone:
            del self.placed[first:]
            self.services.state.world, self.trace.former = world, former
            return False
        goal_call = self.placed[-1]
        if goal_call.tool.skill == "update" and goal_call.tool.record.CALLED == "{name}":
            name = goal_call.step.rows[0].name
            self.outdated.update(person.email for person in self.cast.people if person.name == name)
        if goal_call.tool.skill == "delete":
            self.deleted.update(getattr(s.row, "id", "") for s in goal_call.sources.values() if s.field == "id")
        self.news_told.update(v for v in goal_call.arguments.values() if isinstance(v, str))
        for placed in self.placed[first:]:
            for source in placed.sources.values():
                self.liked.setdefault(source.call, []).append(source.row)
        self.named |= wish.people
        self.worlds.append(after)
        return True

    def _call(
        self, index: int, arguments: dict[str, Any], sources: dict[str, Source], solved: Wish | None
    ) -> Placed | None:
        """Executes a call. Where state edges do not matter, without a trace, and the goal not a second time."""
        plan, node = self.plans[index], self.nodes[index]
        if solved is not None and not self.strict:
            step = Step(plan.tool, solved.result, "", _NOTHING, _NOTHING, self.services.state.world)
            self.services.state.world = solved.after
        else:
            ordered = tuple([arguments.get(p.name, p.default) for p in plan.tool.params])
            try:
                if self.strict:
                    step = execute(self.services, self.trace, plan.tool, ordered)
                else:
                    result = self.services.run(plan.tool, ordered)
                    rows = result if isinstance(result, list) else [result]
                    step = Step(plan.tool, rows, "", _NOTHING, _NOTHING, self.services.state.world)
            except ToolError:
                return None
        return Placed(plan.tool, plan.clause, arguments, sources, step, node.turn, node.spoken)

    def _rewired(self, placed: Placed) -> Placed | None:
        """The same call with each value taken from where the story first had it, perhaps earlier than was drawn."""
        earlier = [p.step for p in self.placed]
        sources = dict(placed.sources)
        for name, source in placed.sources.items():
            port, value = placed.tool.by_name[name], placed.arguments[name]
            first = source_of(port, value, earlier)
            if first is None:
                return None
            if first != source.call:
                if port.kind == "email" and self.placed[first].tool.record.CALLED != "{name}":
                    return None  # "the sender of that mail": an address that is not a person's has no name to be said
                for field in placed_fields(self.placed[first].tool, port):
                    rows = [row for row in earlier[first].rows if getattr(row, field) == value]
                    if rows:
                        sources[name] = Source(first, rows[0], field)
                        break
        return placed._replace(sources=sources)

    def _dated(self, placed: Placed, world: World) -> Placed | None:
        """The same call with lists marked that would be others by now; None if it is about something that is gone."""
        sources = dict(placed.sources)
        for name, source in placed.sources.items():
            parent = self.placed[source.call]
            if parent.step.world is world:
                continue
            table = table_name(parent.tool)
            if table:
                row = world.tables[table].get(getattr(source.row, "id", ""))
                if row is None or getattr(row, source.field) != getattr(source.row, source.field):
                    return None
            if parent.tool.many:
                now = self.services.state.world
                self.services.state.world = world
                ordered = tuple([parent.arguments.get(p.name, p.default) for p in parent.tool.params])
                try:
                    rows = self.services.run(parent.tool, ordered)
                except ToolError:
                    return None
                finally:
                    self.services.state.world = now
                sources[name] = source._replace(stale=rows != parent.step.rows)
        return placed._replace(sources=sources)

    def _fits(self, index: int, placed: Placed, state: frozenset[tuple[int, int]] | None) -> bool:
        """Whether the call has the place in the shape that it should have, and can be said."""
        step, tool = placed.step, placed.tool
        if tool.many and not 0 < len(step.rows) <= self.max_rows:
            return False
        if not self._sensible(placed):
            return False
        earlier = [p.step for p in self.placed]
        if tool.reads and any(step.rows == other.rows for other in earlier):
            return False
        for name, source in placed.sources.items():
            rows = self.placed[source.call].step.rows
            # Where wirings are proposals, `_rewired` has seen to that.
            if self.strict and source_of(tool.by_name[name], placed.arguments[name], earlier) != source.call:
                return False
            new = len(rows) > 1 and source.row not in self.liked.get(source.call, ())
            if new and not picks(rows, source.row, self.year):
                return False
        if state is None:
            return True
        found = set()
        for cell in step.reads | step.writes:
            writers = [i for i, other in enumerate(earlier) if cell in other.writes]
            found.update(writers[-1:])
        return found - {s.call for s in placed.sources.values()} == {u for u, v in state if v == index}

    def _sensible(self, placed: Placed) -> bool:
        """Whether anybody would want this after what the story has brought, and mean just this."""
        tool = placed.tool
        user = self.cast.user
        if not self.outdated.isdisjoint(v for v in placed.arguments.values() if isinstance(v, str)):
            return False  # an address that was replaced: which one is meant now?
        if _writes_to(tool, placed, user):
            return False
        if tool.reads and placed.spoken and not {user.name, user.email}.isdisjoint(placed.arguments.values()):
            return False  # "look up Ana Ruiz", says Ana Ruiz
        acted_on = [source.row for source in placed.sources.values() if source.field == "id"]
        if any(source.field != "id" and source.row in acted_on for source in placed.sources.values()):
            return False  # "move it to its date"
        if not tool.reads and any(p.tool is tool and p.arguments == placed.arguments for p in self.placed):
            return False
        if (
            tool.reads
            and placed.spoken
            and any(p.tool is tool and p.turn == placed.turn and p.arguments == placed.arguments for p in self.placed)
        ):
            return False  # who has listed something to choose from it would not list it again
        made = any(self.placed[s.call].tool.skill in ("create", "send") for s in placed.sources.values())
        if tool.skill == "delete" and made:
            return False  # nobody asks for something and takes it back
        if tool.skill == "update" and any(self.placed[x.call].tool.skill == "send" for x in placed.sources.values()):
            return False  # nor does anybody answer what he has sent
        gone = not self.deleted.isdisjoint(map(str, placed.arguments.values()))
        # What was deleted or cancelled may be refunded or restored, and nothing else.
        return not gone or tool.skill in ("transfer", "update")

    def news(self, kind: str) -> str:
        """What has just been done, as a sentence or a subject line: mails and notes tell the story on."""
        for placed in reversed(self.placed):
            # Who was written to knows it already, and that something was written is no news.
            if not placed.tool.spec.done or any(p.kind == "sentence" for p in placed.tool.params):
                continue
            if placed.tool.skill == "send" or placed.tool.api.PERSONAL:
                continue
            row = placed.step.rows[0]
            said = {f.name: self._told(f, getattr(row, f.name)) for f in placed.tool.fields}
            news = placed.tool.spec.done.format(**said)
            if news in self.news_told:
                return ""
            return f"{noun_of(row).capitalize()} update" if kind == "subject" else str(news)
        return ""

    def _told(self, field: Port, value: Any) -> str:
        if field.kind == "email":
            return next((p.name for p in self.cast.people if p.email == value), str(value))
        return say(field, value, self.year).strip('"')


def placed_fields(tool: Tool, port: Port) -> list[str]:
    """The fields of a tool's result that have the mark of a port."""
    return [f.name for f in tool.fields if f.ref == port.ref and f.kind == port.kind]


def _writes_to(tool: Tool, placed: Placed, user: Person) -> bool:
    """Whether the call sends a text to the user, or news to the person it is about: nobody has that done."""
    addresses = [placed.arguments.get(port.name) for port in tool.params if port.kind == "email"]
    if tool.api.PERSONAL and tool.skill == "send" and user.email in addresses:
        return True
    if any(getattr(s.row, "sender", None) in addresses for s in placed.sources.values()):
        return True  # nobody sends a mail back to its author
    texts = [placed.arguments.get(port.name, "") for port in tool.params if port.kind == "sentence"]
    if not texts:
        return False
    readers = {s.row.name for s in placed.sources.values() if type(s.row).CALLED == "{name}"}
    if user.email in addresses or (tool.skill == "send" and user.name in readers):
        return True
    return any(reader in text for reader in readers for text in texts)
