"""One attempt at a wish: entities sampled for what the user wants, and followed up to what the user can say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rods_env.apis.api import tables_of
from rods_env.apis.lexicon import Cast
from rods_env.apis.registry import Port, Tool
from rods_env.apis.worlds import literal
from rods_env.errors import ToolError
from rods_env.tasks.shapes import mark_of, offers

if TYPE_CHECKING:
    from rods_env.tasks.synthesis import Planner


class Source(NamedTuple):
    """Where an argument came from.

    Attributes:
        call: a call of the plan.
        row: a row of its result.
        field: the field of that row.
        stale: whether the list would be another one by now, so that "the cheapest of them" may mean another row.
    """

    call: int
    row: Any
    field: str
    stale: bool = False


class Choices:
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
        name = table_name(plan.tool) if plan.tool.reads else ""
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


class Wish:
    """One attempt at a wish: entities sampled for the goal, and what follows for the calls that find them."""

    def __init__(self, planner: Planner, choices: Choices, attempt: int) -> None:
        self.planner = planner
        self.choices = choices
        self.draw = planner.draw
        self.first = choices.first
        self.attempt = attempt
        self.want: dict[int, Any] = {}  # call not placed yet: the row its result must hold
        self.arguments: dict[int, dict[str, Any]] = {}
        self.rows: dict[tuple[int, str], tuple[Any, str]] = {}  # (call, argument): the row and field it is taken from
        self.people: set[str] = set()
        self.somebody: Cast | None = None  # whose name and address a call gives, which belong together
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
        self.somebody = None
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
        if self.somebody is None:
            people = planner.cast.people
            if port.kind == "email":  # the address of somebody who is in the story already would not be spelled out
                people = tuple(p for p in planner.cast.others if p.name not in planner.named | self.people) or people
            self.somebody = Cast((self.draw.choice(people),))
        return literal(self.draw, port, planner.world.today, self.somebody)

    def _note_people(self, tool: Tool, arguments: dict[str, Any]) -> None:
        for port in tool.params:
            if port.kind == "person" and port.name in arguments:
                self.people.add(arguments[port.name])


_TABLE_NAMES: dict[Tool, str] = {}


def table_name(tool: Tool) -> str:
    """The table whose rows a tool returns, or "" where it returns something it works out."""
    name = _TABLE_NAMES.get(tool)
    if name is None:
        found = [n for n, table in tables_of(tool.api).items() if table.record is tool.record]
        name = _TABLE_NAMES[tool] = f"{tool.api.NAME}.{found[0]}" if found else ""
    return name
