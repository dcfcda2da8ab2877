"""From a shape to calls: tools that fit the type graph, then arguments that work, found in the world and executed.

Two steps. `assign_tools` gives every node of a shape a tool of its skill, such that each data edge can carry a value.
`Planner` then fills one wish of the user after the other: it samples entities of the world for what the user wants done
until the call succeeds, follows them up to what the user can say (this order, hence this customer, hence this name),
and executes the calls in order under a trace, so that whatever differs from the shape is seen when it happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from typing import Any, NamedTuple

from rods_env.apis.api import Trace, World, tables_of
from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast
from rods_env.apis.registry import Port, Services, Tool, placeholders
from rods_env.apis.worlds import literal
from rods_env.errors import SynthesisError, ToolError
from rods_env.tasks.graph import source_of
from rods_env.tasks.picks import picks
from rods_env.tasks.replay import Step, execute
from rods_env.tasks.shapes import Node, Shape, flows, mark_of, offers
from rods_env.tasks.text import say

_NOTHING: set[Any] = set()
_SAMPLES = 6  # how many entities are tried for one wish before it is given up


class Plan(NamedTuple):
    """A node with its tool, the chosen way to say it, and for every argument a source call, or None for the text."""

    tool: Tool
    clause: str
    wiring: dict[str, int | None]


class Source(NamedTuple):
    """Where an argument came from: a call of the plan, a row of its result, and the field of that row."""

    call: int
    row: Any
    field: str


class Placed(NamedTuple):
    """An executed call of the plan with everything that phrasing needs to know."""

    tool: Tool
    clause: str
    arguments: dict[str, Any]
    sources: dict[str, Source]
    step: Step
    turn: int
    spoken: bool


def assign_tools(shape: Shape, tools: Sequence[Tool], draw: Draw, hints: Sequence[Tool] = ()) -> list[Plan]:
    """A tool and a wiring for each node, by backtracking in topological order.

    Args:
        shape: the structure.
        tools: the tools to choose from.
        draw: the source of chance.
        hints: a tool for each node, when they are known already.

    Raises:
        SynthesisError: `assign`, when no tools fit.
    """
    by_skill: dict[str, list[Tool]] = {}
    for tool in tools:
        by_skill.setdefault(tool.skill, []).append(tool)
    parents = [sorted(u for u, v in shape.data if v == n) for n in range(len(shape.nodes))]
    plans: list[Plan] = []
    budget = 400

    def assign(index: int) -> bool:
        nonlocal budget
        if index == len(shape.nodes):
            return True
        node = shape.nodes[index]
        for tool in (hints[index],) if hints else draw.shuffled(by_skill.get(node.skill, ())):
            budget -= 1
            if budget < 0:
                return False
            plan = wire(tool, node.spoken, parents[index], plans, draw)
            if plan is not None:
                plans.append(plan)
                if assign(index + 1):
                    return True
                plans.pop()
        return False

    if not assign(0):
        raise SynthesisError("no tools of these APIs fit the shape.", reason="assign")
    return plans


def wire(tool: Tool, spoken: bool, parents: Sequence[int], plans: Sequence[Plan], draw: Draw) -> Plan | None:
    """A wiring in which every parent feeds an argument, every id has a parent, and the rest can be said."""
    for clause in draw.sample(tool.spec.ask, 3) if spoken else (tool.spec.rows,):
        named = placeholders(clause)
        ports = [p for p in tool.params if p.name in named or p.required]
        options: list[list[int | None]] = []
        for port in ports:
            can: list[int | None] = []
            if parents and flows(port):
                mark = mark_of(port)
                can += [u for u in parents if mark in offers(plans[u].tool)]
            if not port.ref and (not can or len(parents) > 1):
                can.append(None)
            options.append(can)
        fitting = (c for c in product(*options) if {u for u in c if u is not None} == set(parents))
        found = list(islice(fitting, 3))
        if found:
            return Plan(tool, clause, dict(zip((p.name for p in ports), draw.choice(found), strict=True)))
    return None


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
        self.worlds = [world]  # after each wish: a wish that only undoes others is none

    def fill(self, shape: Shape, plans: Sequence[Plan]) -> list[Placed]:
        """The executed calls of a whole shape.

        Raises:
            SynthesisError: `plan`, when this world does not fill the plan.
        """
        while (first := len(self.placed)) < len(plans):
            goal = next(n for n in range(first, len(plans)) if shape.nodes[n].spoken)
            if not self.wish(shape.nodes[first : goal + 1], plans[first : goal + 1], shape.state):
                raise SynthesisError("nothing in this world fits the plan.", reason="plan")
        return self.placed

    def wish(
        self, nodes: Sequence[Node], plans: Sequence[Plan], state: frozenset[tuple[int, int]] | None = None
    ) -> bool:
        """Places some calls, of which the last is what the user wants and the others find what it needs.

        Args:
            nodes: the calls in the shape; indices of their plans count over the whole task.
            plans: their tools and wirings.
            state: all state edges of the shape, if they must be kept.

        Returns:
            Whether that was possible; if not, everything is as before.
        """
        first = len(self.placed)
        # What an earlier wish that failed left behind is overwritten here.
        self.nodes[first:] = nodes
        self.plans[first:] = plans
        goal = len(self.nodes) - 1
        choices = _Choices(self, first)
        best: tuple[int, _Wish] | None = None
        for attempt in range(_SAMPLES):
            wish = _Wish(self, choices, attempt)
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

    def _execute(self, wish: _Wish, first: int, goal: int, state: frozenset[tuple[int, int]] | None) -> bool:
        world, strict = self.services.state.world, self.strict
        former = dict(self.trace.former) if strict else {}
        for index in range(first, goal + 1):
            found = wish.call(index)
            placed = None if found is None else self._call(index, *found, wish if index == goal else None)
            if placed is not None and not strict:
                placed = self._rewired(placed)
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
        for placed in self.placed[first:]:
            for source in placed.sources.values():
                self.liked.setdefault(source.call, []).append(source.row)
        self.named |= wish.people
        self.worlds.append(after)
        return True

    def _call(
        self, index: int, arguments: dict[str, Any], sources: dict[str, Source], solved: _Wish | None
    ) -> Placed | None:
        """Executes a call. Where state edges do not matter, without a trace, and the goal not a second time."""
        plan, node = self.plans[index], self.nodes[index]
        if solved is not None and not self.strict:
            step = Step(plan.tool, solved.result, "", _NOTHING, _NOTHING)
            self.services.state.world = solved.after
        else:
            ordered = tuple([arguments.get(p.name, p.default) for p in plan.tool.params])
            try:
                if self.strict:
                    step = execute(self.services, self.trace, plan.tool, ordered)
                else:
                    result = self.services.run(plan.tool, ordered)
                    rows = result if isinstance(result, list) else [result]
                    step = Step(plan.tool, rows, "", _NOTHING, _NOTHING)
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

    def _fits(self, index: int, placed: Placed, state: frozenset[tuple[int, int]] | None) -> bool:
        step, tool = placed.step, placed.tool
        if tool.many and not 0 < len(step.rows) <= self.max_rows:
            return False
        user = self.cast.user
        if _writes_to(tool, placed, user.email, user.name):
            return False
        if tool.reads and placed.spoken and not {user.name, user.email}.isdisjoint(placed.arguments.values()):
            return False  # "look up Ana Ruiz", says Ana Ruiz
        acted_on = [source.row for source in placed.sources.values() if source.field == "id"]
        if any(source.field != "id" and source.row in acted_on for source in placed.sources.values()):
            return False  # "move it to its date"
        earlier = [p.step for p in self.placed]
        if tool.reads and any(step.rows == other.rows for other in earlier):
            return False
        if tool.skill == "delete" and any(
            self.placed[s.call].tool.skill in ("create", "send") and self.placed[s.call].turn == placed.turn
            for s in placed.sources.values()
        ):
            return False  # nobody asks for something and takes it back in one breath
        for name, source in placed.sources.items():
            rows = self.placed[source.call].step.rows
            if source_of(tool.by_name[name], placed.arguments[name], earlier) != source.call:
                return False
            if len(rows) > 1 and source.row not in self.liked.get(source.call, ()):
                if not picks(rows, source.row, self.year):
                    return False
        if state is None:
            return True
        found = set()
        for cell in step.reads | step.writes:
            writers = [i for i, other in enumerate(earlier) if cell in other.writes]
            found.update(writers[-1:])
        return found - {s.call for s in placed.sources.values()} == {u for u, v in state if v == index}

    def news(self, kind: str) -> str:
        """What has just been done, as a sentence or a subject line: mails and notes tell the story on."""
        for placed in reversed(self.placed):
            if placed.tool.spec.done and placed.tool.skill != "send":  # who was written to knows it already
                row = placed.step.rows[0]
                if kind == "subject":
                    return f"{_noun(row).capitalize()} update"
                said = {f.name: self._told(f, getattr(row, f.name)) for f in placed.tool.fields}
                return str(placed.tool.spec.done.format(**said))
        return ""

    def _told(self, field: Port, value: Any) -> str:
        if field.kind == "email":
            return next((p.name for p in self.cast.people if p.email == value), str(value))
        return say(field, value, self.year).strip('"')


def placed_fields(tool: Tool, port: Port) -> list[str]:
    """The fields of a tool's result that have the mark of a port."""
    return [f.name for f in tool.fields if f.ref == port.ref and f.kind == port.kind]


class _Choices:
    """For the calls of a wish that are not placed yet: the rows of the world that they may be about.

    A list of orders that starts from a customer the story has found already can only hold that customer's orders.
    """

    def __init__(self, planner: Planner, first: int) -> None:
        self.planner = planner
        self.first = first
        self.tables = planner.services.state.world.tables
        self._rows: dict[int, list[Any] | None] = {}
        self.tried: set[tuple[Any, ...]] = set()  # arguments of the goal that failed
        self.repeats = 0

    def rows(self, index: int) -> list[Any] | None:
        """The rows, ordered by id; None where the call returns something it works out."""
        if index < self.first:
            return self.planner.placed[index].step.rows
        if index not in self._rows:
            self._rows[index] = self._possible(index)
        return self._rows[index]

    def _possible(self, index: int) -> list[Any] | None:
        plan = self.planner.plans[index]
        name = _table_name(plan.tool) if plan.tool.reads else ""
        table = self.tables.get(name)
        if table is None:
            return None
        rows = [table[key] for key in sorted(table)]
        for argument, parent in plan.wiring.items():
            if parent is not None:
                above = self.rows(parent)
                if above is not None and rows and hasattr(rows[0], argument):
                    fields = offers(self.planner.plans[parent].tool)[mark_of(plan.tool.by_name[argument])]
                    values = {getattr(row, field) for row in above for field in fields}
                    rows = [row for row in rows if getattr(row, argument) in values]
        return rows


class _Wish:
    """One attempt at a wish: entities sampled for the goal, and what follows for the calls that find them."""

    def __init__(self, planner: Planner, choices: _Choices, attempt: int) -> None:
        self.planner = planner
        self.choices = choices
        self.draw = planner.draw
        self.first = choices.first
        self.attempt = attempt
        self.want: dict[int, Any] = {}  # call not placed yet: the row its result must hold
        self.arguments: dict[int, dict[str, Any]] = {}
        self.rows: dict[tuple[int, str], tuple[Any, str]] = {}  # (call, argument): the row and field it is taken from
        self.people: set[str] = set()
        self.somebody = planner.cast
        self.result: list[Any] = []  # what the goal returned, and the world it left
        self.after = planner.services.state.world

    def solve(self, goal: int) -> bool:
        """Samples arguments for the goal, tries it, and follows each entity up to what can be said."""
        services = self.planner.services
        before = services.state.world
        result = self._sample(goal)
        self.after, services.state.world = services.state.world, before
        if not result:  # it failed, or found nothing
            return False
        self.result = result
        return all(self._trace_up(call) for call in range(goal - 1, self.first - 1, -1) if call not in self.arguments)

    def call(self, index: int) -> tuple[dict[str, Any], dict[str, Source]] | None:
        """Arguments and sources of a call, once the calls before it are placed."""
        sources = {}
        for name, parent in self.planner.plans[index].wiring.items():
            if parent is not None:
                row, field = self.rows[index, name]
                if row not in self.planner.placed[parent].step.rows:
                    return None
                sources[name] = Source(parent, row, field)
        return self.arguments[index], sources

    def _sample(self, index: int) -> list[Any] | None:
        """Arguments for a call, tried at once; the rows it returned, or None if it failed."""
        plan = self.planner.plans[index]
        arguments: dict[str, Any] = {}
        target = self._target(index) if plan.tool.reads and None in plan.wiring.values() else None
        used: list[Any] = []
        self.somebody = Cast((self.draw.choice(self.planner.cast.people),))  # a name and an address belong together
        for name, parent in plan.wiring.items():
            port = plan.tool.by_name[name]
            if parent is None:
                value = self._literal(port, target)
            else:
                fields = offers(self.planner.plans[parent].tool)[mark_of(port)]
                field = name if name in fields else fields[0]
                row = self._row(parent, used)
                if row is None:
                    return None
                used.append(row)
                self.rows[index, name] = (row, field)
                value = getattr(row, field)
            if value is None or value == "":
                return None
            arguments[name] = value
        self.arguments[index] = arguments
        self._note_people(plan.tool, arguments)
        ordered = (index, *(arguments.get(p.name, p.default) for p in plan.tool.params))
        if ordered in self.choices.tried:
            self.choices.repeats += 1
            return None
        try:
            result = self.planner.services.run(plan.tool, ordered[1:])
        except ToolError:
            self.choices.tried.add(ordered)
            return None
        return result if isinstance(result, list) else [result]

    def _row(self, parent: int, used: list[Any]) -> Any:
        """A row that the parent returns, or is going to return."""
        planner = self.planner
        if parent < self.first:
            rows = [row for row in planner.placed[parent].step.rows if row not in used]
            liked = planner.liked.get(parent, ())
            if liked and self.attempt < 3 and liked[-1] in rows:
                return liked[-1]
            return self.draw.choice(rows) if rows else None
        first = self.want.get(parent)
        if first is not None and first not in used:
            return first
        possible = self.choices.rows(parent)
        if first is not None:  # two entities out of one list: a sibling of the first
            names = [n for n in planner.plans[parent].wiring if hasattr(first, n)]
            rows = [
                r for r in possible or () if r not in used and all(getattr(r, n) == getattr(first, n) for n in names)
            ]
            return self.draw.choice(rows) if rows else None
        # What is no entity of the world (a price, a shipment) is worked out now.
        rows = (self._sample(parent) or []) if possible is None else self._fitting(parent, possible)
        if not rows:
            return None
        self.want[parent] = self.draw.choice(rows)
        return self.want[parent]

    def _fitting(self, index: int, rows: list[Any]) -> list[Any]:
        """Of the rows those that agree with what is wanted of the calls above, and people of the story first."""
        plan = self.planner.plans[index]
        for name, parent in plan.wiring.items():
            wanted = self.want.get(parent) if parent is not None else None
            if wanted is not None and rows and hasattr(rows[0], name):
                fields = offers(self.planner.plans[parent].tool)[mark_of(plan.tool.by_name[name])]  # type: ignore[index]
                values = [getattr(wanted, field) for field in fields]
                rows = [row for row in rows if getattr(row, name) in values]
        if plan.tool.record.CALLED == "{name}" and self.attempt < 4:
            planner = self.planner
            story = planner.named or {planner.people[0]}
            if self.people & story:  # a second person: somebody else
                story = set(planner.people[:3]) - self.people
            return [row for row in rows if row.name in story] or rows
        return rows

    def _trace_up(self, index: int) -> bool:
        """Arguments with which a call returns the row that is wanted of it."""
        plan = self.planner.plans[index]
        row = self.want.get(index)
        if row is None:
            return False
        arguments: dict[str, Any] = {}
        for name, parent in plan.wiring.items():
            port = plan.tool.by_name[name]
            value = getattr(row, name, None)
            if value is None or (parent is None and value == ""):
                return False
            if parent is not None:
                fields = offers(self.planner.plans[parent].tool)[mark_of(port)]
                found = self._holder(parent, fields, value)
                if found is None:
                    return False
                self.rows[index, name] = found
            arguments[name] = value
        self.arguments[index] = arguments
        self._note_people(plan.tool, arguments)
        return True

    def _holder(self, parent: int, fields: Sequence[str], value: Any) -> tuple[Any, str] | None:
        """The row of the parent's result that holds the value; of a call not placed yet, it becomes the wanted row."""
        if parent < self.first:
            for row in self.planner.placed[parent].step.rows:
                for field in fields:
                    if getattr(row, field) == value:
                        return row, field
            return None
        wanted = self.want.get(parent)
        rows = self.choices.rows(parent) if wanted is None else [wanted]
        for row in rows or ():
            for field in fields:
                if getattr(row, field) == value:
                    self.want[parent] = row
                    return row, field
        return None

    def _target(self, index: int) -> Any:
        """A row that a read by plain values shall find, so that it finds something."""
        rows = self.choices.rows(index)
        rows = self._fitting(index, rows) if rows else rows
        return self.draw.choice(rows) if rows else None

    def _literal(self, port: Port, target: Any) -> Any:
        planner = self.planner
        if target is not None and hasattr(target, port.name):
            return getattr(target, port.name)
        if port.kind in ("sentence", "subject"):
            told = planner.news(port.kind)
            if told and self.draw.chance(0.93):
                return told
        return literal(self.draw, port, planner.world.today, self.somebody)

    def _note_people(self, tool: Tool, arguments: dict[str, Any]) -> None:
        for port in tool.params:
            if port.kind == "person" and port.name in arguments:
                self.people.add(arguments[port.name])


_TABLE_NAMES: dict[Tool, str] = {}


def _table_name(tool: Tool) -> str:
    name = _TABLE_NAMES.get(tool)
    if name is None:
        found = [n for n, table in tables_of(tool.api).items() if table.record is tool.record]
        name = _TABLE_NAMES[tool] = f"{tool.api.NAME}.{found[0]}" if found else ""
    return name


def _writes_to(tool: Tool, placed: Placed, email: str, name: str) -> bool:
    """Whether the call sends a text to this person: nobody has a message sent to himself."""
    if not any(port.kind == "sentence" for port in tool.params):
        return False
    if any(port.kind == "email" and placed.arguments.get(port.name) == email for port in tool.params):
        return True
    return tool.skill == "send" and any(getattr(s.row, "name", "") == name for s in placed.sources.values())


def _noun(row: Any) -> str:
    from rods_env.tasks.phrasing import noun_of

    return noun_of(row)
