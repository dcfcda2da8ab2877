"""What every simulated API stands on: records, tables, tools, and the world they live in.

An API is a class whose public methods, decorated with `tool`, read and write `Table`s of frozen `Record`s.
A `World` is a value: a persistent map of tables, each a persistent map of records. Keeping an old world costs
nothing, so a snapshot is a reference. `State` holds the present world for the APIs of one environment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

import immutables
import msgspec

from rods_env.apis.draw import Draw, id_from
from rods_env.apis.lexicon import Cast
from rods_env.errors import ToolError

F = TypeVar("F", bound=Callable[..., Any])
Rows = immutables.Map[str, "Record"]

SKILLS = ("search", "lookup", "create", "update", "delete", "transfer", "send", "compute")
READ_SKILLS = frozenset({"search", "lookup", "compute"})


class Record(msgspec.Struct, frozen=True, gc=False):  # nothing but texts and numbers: no cycles to look for
    """One row of a table, or one result of a tool. An entity's first field is its `id`, marked with `Ref`.

    Attributes:
        PICK: how a person tells one row of a list from the others, by field: a phrase with `~` for the noun and
            `{}` for the value ("~ for the {}"), a phrase that takes the noun's place ("{}": "the copper kettle"), or
            a pair of phrases for the least and the greatest value (("cheapest ~", "most expensive ~")).
        CALLED: how a person names the entity when it was mentioned before ("{name}"); empty: "that order".
        NOUN: the noun for it; empty: the kind of its id, with spaces.
    """

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {}
    CALLED: ClassVar[str] = ""
    NOUN: ClassVar[str] = ""


R = TypeVar("R", bound=Record)


class World(msgspec.Struct, frozen=True):
    """The state of all APIs of a task, as a value. Equal worlds compare equal, whatever order made them.

    Attributes:
        now: the date and time at which the clock stands, YYYY-MM-DDTHH:MM.
        tables: table name ("shop.orders") to rows by id.
    """

    now: str
    tables: immutables.Map[str, Rows]

    @property
    def today(self) -> str:
        return self.now[:10]

    def same_as(self, other: World) -> bool:
        """Whether two worlds are equal; quicker than `==`, for tables that nobody wrote to are the same objects."""
        if self.now != other.now or len(self.tables) != len(other.tables):
            return False
        return all((rows := self.tables.get(name)) is theirs or rows == theirs for name, theirs in other.tables.items())


class Trace:
    """Which rows a call read and wrote. From these come the `state` edges of a dependency graph.

    A scan reads the rows that match, and also the rows that earlier calls of the same trace changed or removed
    and that matched before: leaving a list is as much an effect as entering it.
    """

    __slots__ = ("former", "reads", "writes")

    def __init__(self) -> None:
        self.reads: set[tuple[str, str]] = set()
        self.writes: set[tuple[str, str]] = set()
        self.former: dict[tuple[str, str], tuple[Record, ...]] = {}

    def next_call(self) -> None:
        """Forgets reads and writes, keeps former rows: the next call is traced on its own."""
        self.reads = set()
        self.writes = set()


class State:
    """The present world, shared by the APIs of one environment. Assigning `world` is a restore."""

    __slots__ = ("trace", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.trace: Trace | None = None


class Table(Generic[R]):
    """The rows of one kind of record. Declared on the API class, bound to a `State` in each instance.

    Args:
        record: the type of the rows.
        prefix: what ids of this table begin with ("ord" gives "ord_k3v9x").
    """

    __slots__ = ("name", "noun", "prefix", "record", "state")

    def __init__(self, record: type[R], prefix: str) -> None:
        self.record = record
        self.prefix = prefix
        self.noun = record.NOUN or record.__name__.lower()
        self.name = ""
        self.state: State = None  # type: ignore[assignment]  # set by `bound`; a declaration is never read

    def bound(self, state: State, name: str) -> Table[R]:
        """The same table, reading and writing the world of `state` under `name`."""
        table = Table.__new__(Table)
        table.record, table.prefix, table.noun = self.record, self.prefix, self.noun
        table.name, table.state = name, state
        return table

    def __getitem__(self, key: str) -> R:
        """The row with this id.

        Raises:
            ToolError: `not_found`, with the id that came.
        """
        state = self.state
        row = state.world.tables[self.name].get(key)
        if state.trace is not None:
            state.trace.reads.add((self.name, key))
        if row is None:
            raise ToolError("not_found", f"There is no {self.noun} with the id {key!r}.")
        return row  # type: ignore[return-value]

    def __contains__(self, key: str) -> bool:
        if self.state.trace is not None:
            self.state.trace.reads.add((self.name, key))
        return key in self.state.world.tables[self.name]

    def where(self, matches: Callable[[R], bool] | None = None, /, **equals: Any) -> list[R]:
        """The rows whose fields equal the given values, and for which `matches` is true, ordered by id."""
        state = self.state
        found: list[Any] = list(state.world.tables[self.name].values())
        for field, value in equals.items():
            found = [row for row in found if getattr(row, field) == value]
        if matches is not None:
            found = [row for row in found if matches(row)]
        if state.trace is not None:
            self._trace_scan(state.trace, found, matches, equals)
        if len(found) > 1:
            found.sort(key=_by_id)
        return found

    def _trace_scan(
        self, trace: Trace, found: list[Any], matches: Callable[[R], bool] | None, equals: dict[str, Any]
    ) -> None:
        own = self.name
        trace.reads.update([(own, row.id) for row in found])
        for (name, key), rows in trace.former.items():
            if name == own:
                fitting: list[Any] = [r for r in rows if all(getattr(r, f) == value for f, value in equals.items())]
                if any(matches is None or matches(row) for row in fitting):
                    trace.reads.add((name, key))

    def add(self, **fields: Any) -> R:
        """Makes a row whose id is derived from its content, so that the order of creations does not matter.

        Equal contents get different ids by counting, which is the same in every order too.
        """
        rows = self.state.world.tables[self.name]
        content = msgspec.json.encode(fields)
        copy = 0
        while True:
            digest = hashlib.blake2b(content + b"%d" % copy, digest_size=8).digest()
            key = id_from(self.prefix, int.from_bytes(digest, "big"))
            if key not in rows:
                break
            copy += 1
        row = self.record(id=key, **fields)
        self._write(key, row)
        return row

    def change(self, row: R, **fields: Any) -> R:
        """Replaces some fields of a row and returns the new row."""
        new = msgspec.structs.replace(row, **fields)
        self._write(row.id, new)  # type: ignore[attr-defined]
        return new

    def remove(self, row: R) -> R:
        """Takes the row out of the table and returns it."""
        self._write(row.id, None)  # type: ignore[attr-defined]
        return row

    def _write(self, key: str, row: R | None) -> None:
        state = self.state
        world = state.world
        rows = world.tables[self.name]
        if state.trace is not None:
            state.trace.writes.add((self.name, key))
            former = rows.get(key)
            if former is not None:
                cell = (self.name, key)
                state.trace.former[cell] = (*state.trace.former.get(cell, ()), former)
        rows = rows.delete(key) if row is None else rows.set(key, row)
        state.world = World(world.now, world.tables.set(self.name, rows))


_by_id = attrgetter("id")


class ToolSpec(msgspec.Struct, frozen=True):
    """What the `tool` decorator was told; `Tool` in registry.py is this plus what the signature says."""

    skill: str
    ask: tuple[str, ...]
    rows: str
    done: str
    errors: tuple[str, ...]


def tool(
    skill: str, *, ask: tuple[str, ...], rows: str = "", done: str = "", errors: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Marks a method of an API as a tool.

    Args:
        skill: what the call does, one of `SKILLS`. `search` returns a list of records, everything else one record.
        ask: at least three ways to ask for it, each an imperative clause in lower case without a full stop, with
            `{argument}` where the argument is named: "cancel {order_id}". An optional argument is passed only when
            the clause names it.
        rows: for reads: how a person refers to what it returns when it was not asked for by itself, with `~` for the
            noun: "{customer_id}'s ~", "the ~ from {origin} to {destination}". For a compute tool, the value itself.
        done: for writes: one sentence that tells a third person what happened, filled with fields of the result:
            "The order for the {item} is cancelled."
        errors: the error codes that it raises, beside `not_found`, which every tool with a `Ref` argument may raise.
    """

    def mark(function: F) -> F:
        function.__tool__ = ToolSpec(skill, ask, rows, done, errors)  # type: ignore[attr-defined]
        return function

    return mark


class Api:
    """A simulated stateful service. Subclass it, declare tables, decorate methods with `tool`, register the class.

    Attributes:
        NAME: the short name used for `apis=` and as the prefix of its table names.
        PERSONAL: whether the service belongs to the person who speaks, who then sends nothing to himself.
        SUBSTITUTES: tools that another tool can stand in for; withholding one would leave nothing missing.
    """

    NAME: ClassVar[str] = ""
    PERSONAL: ClassVar[bool] = False
    SUBSTITUTES: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, state: State) -> None:
        self.state = state
        for name, table in tables_of(type(self)).items():
            setattr(self, name, table.bound(state, f"{self.NAME}.{name}"))

    @property
    def today(self) -> str:
        """The date at which the clock stands, YYYY-MM-DD."""
        return self.state.world.now[:10]

    @classmethod
    def populate(cls, draw: Draw, cast: Cast, today: str, size: int) -> Iterable[Record]:
        """Yields the rows of a new world, in any order; each goes to the table of its type.

        Args:
            draw: the source of chance.
            cast: the people of the story; `cast.user` is the one who speaks.
            today: the date at which the clock stands.
            size: how many times the usual number of rows (1 for most tasks, more for long contexts).
        """
        raise NotImplementedError(f"{cls.__name__}.populate")


_TABLES_OF: dict[type[Api], dict[str, Table[Any]]] = {}


def tables_of(api: type[Api]) -> dict[str, Table[Any]]:
    """The tables that an API class declares, by attribute name."""
    if api not in _TABLES_OF:
        _TABLES_OF[api] = {name: value for name, value in vars(api).items() if isinstance(value, Table)}
    return _TABLES_OF[api]
