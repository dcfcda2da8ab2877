"""Worlds: drawn at random from the registered APIs, and to and from plain JSON data."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Annotated, Any

import immutables
import msgspec
import numpy as np

from rods_env.apis.api import Api, Record, World, tables_of
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.lexicon import CITIES, SENTENCES, SUBJECTS, Cast, draw_cast
from rods_env.apis.registry import APIS, TABLES, Port, check_apis
from rods_env.errors import RodsError

_FIRST_DAY = "2026-01-05"


def draw_world(
    draw: Draw, apis: Sequence[str], *, size: int = 1, cast: Cast | None = None, today: str | None = None
) -> tuple[World, Cast]:
    """A new world for the named APIs, with one cast of people that all of them know.

    Args:
        draw: the source of chance.
        apis: names of registered APIs.
        size: how many times the usual number of rows.
        cast: the people; drawn when not given.
        today: the date of the world; drawn when not given.
    """
    cast = cast or draw_cast(draw)
    today = today or draw.date(_FIRST_DAY, 0, 300)
    tables: dict[str, Any] = {}
    for name in check_apis(apis):
        tables.update(_populated(APIS[name], draw, cast, today, size))
    return World(f"{today}T{draw.time(8, 12)}", immutables.Map(tables)), cast


class WorldStock:
    """Worlds for making many tasks: each is drawn API by API when first needed, and used for several tasks.

    Drawing an API's rows costs 0.3 ms, more than everything else about a short task. Tables are values, so tasks can
    share them; the entities a task is about still differ, because a world holds dozens.

    Args:
        draw: the source of chance.
        size: how many times the usual number of rows.
        uses: for how many tasks a world serves; 1 gives every task a world of its own.
        worlds: how many worlds are in stock, so that tasks that follow each other differ in people.
    """

    def __init__(self, draw: Draw, *, size: int = 1, uses: int = 72, worlds: int = 12) -> None:
        self.draw = draw
        self.size = size
        self.uses = uses
        self._shelf: list[_Stocked | None] = [None] * worlds

    def get(self, apis: Sequence[str]) -> tuple[World, Cast]:
        """A world with the tables of the named APIs, and its cast."""
        at = self.draw.index(len(self._shelf))
        stocked = self._shelf[at]
        if stocked is None or stocked.left == 0:
            today = self.draw.date(_FIRST_DAY, 0, 300)
            stocked = _Stocked(draw_cast(self.draw), f"{today}T{self.draw.time(8, 12)}", {}, self.uses)
            self._shelf[at] = stocked
        stocked.left -= 1
        tables: dict[str, Any] = {}
        for name in check_apis(apis):
            if name not in stocked.tables:
                stocked.tables[name] = _populated(APIS[name], self.draw, stocked.cast, stocked.now[:10], self.size)
            tables.update(stocked.tables[name])
        return World(stocked.now, immutables.Map(tables)), stocked.cast


class WorldSeries:
    """Like `WorldStock`, but world number k depends on the seed and k alone: `given` is its whole state.

    Args:
        seed: equal seeds give equal worlds.
        size: how many times the usual number of rows.
        uses: for how many tasks a world serves, on average.
        worlds: among how many worlds each task draws, so that tasks that follow each other differ in people.
    """

    def __init__(self, seed: int, *, size: int = 1, uses: int = 72, worlds: int = 12) -> None:
        self.seed = seed
        self.size = size
        self.uses = uses
        self.worlds = worlds
        self.given = 0
        self._drawn: dict[int, _Stocked] = {}

    def next_number(self, draw: Draw) -> int:
        """The number of a world that is in use at present, for one more task."""
        self.given += 1
        return (self.given - 1) // self.uses + draw.index(self.worlds)

    def get(self, number: int, apis: Sequence[str]) -> tuple[World, Cast]:
        """World `number` with the tables of the named APIs, and its cast."""
        stocked = self._drawn.get(number)
        if stocked is None:
            if len(self._drawn) >= 2 * self.worlds:
                del self._drawn[next(iter(self._drawn))]
            own = self._draw(number, "")
            today = own.date(_FIRST_DAY, 0, 300)
            stocked = self._drawn[number] = _Stocked(draw_cast(own), f"{today}T{own.time(8, 12)}", {}, 0)
        tables: dict[str, Any] = {}
        for name in apis:
            if name not in stocked.tables:
                own = self._draw(number, name)
                stocked.tables[name] = _populated(APIS[name], own, stocked.cast, stocked.now[:10], self.size)
            tables.update(stocked.tables[name])
        return World(stocked.now, immutables.Map(tables)), stocked.cast

    def _draw(self, number: int, api: str) -> Draw:
        return Draw(np.random.default_rng((self.seed, self.size, number, zlib.crc32(api.encode()))))


class _Stocked:
    __slots__ = ("cast", "left", "now", "tables")

    def __init__(self, cast: Cast, now: str, tables: dict[str, dict[str, Any]], left: int) -> None:
        self.cast = cast
        self.now = now
        self.tables = tables
        self.left = left


def _populated(api: type[Api], draw: Draw, cast: Cast, today: str, size: int) -> dict[str, Any]:
    tables = tables_of(api)
    by_type: dict[type[Record], dict[str, Record]] = {table.record: {} for table in tables.values()}
    for row in api.populate(draw, cast, today, size):
        by_type[type(row)][row.id] = row  # type: ignore[attr-defined]
    return {f"{api.NAME}.{name}": immutables.Map(by_type[table.record]) for name, table in tables.items()}


class WorldData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A world as JSON has it: the clock, and rows by table."""

    now: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$")]
    tables: dict[str, list[dict[str, Any]]]


def world_to_data(world: World) -> WorldData:
    """The world as plain data: tables in name order, rows in id order, so that equal worlds give equal bytes."""
    tables = {
        name: [msgspec.to_builtins(rows[key]) for key in sorted(rows)] for name, rows in sorted(world.tables.items())
    }
    return WorldData(world.now, tables)


def world_from_data(data: WorldData) -> World:
    """The world that `world_to_data` wrote.

    Raises:
        RodsError: for a table that no registered API declares, or a row that does not fit its type.
    """
    tables: dict[str, Any] = {}
    for name, rows in data.tables.items():
        if name not in TABLES:
            raise RodsError(f"unknown table {name!r}; the registered APIs are: {', '.join(APIS)}.")
        try:
            record = TABLES[name].record
            records = [msgspec.convert(row, record) for row in rows]
        except msgspec.ValidationError as error:
            raise RodsError(f"table {name!r}: {error}") from None
        tables[name] = immutables.Map({row.id: row for row in records})
    return World(data.now, immutables.Map(tables))


def literal(draw: Draw, port: Port, today: str, cast: Cast) -> Any:
    """A value that a person could give for a parameter out of their head. `None` for ids, which nobody knows."""
    if port.choices:
        return draw.choice(port.choices)
    if port.words:
        return draw.choice(port.words)
    match port.kind:
        case "date":
            return day_after(today, draw.integer(1, 40))
        case "time":
            return draw.time()
        case "amount":
            return draw.amount(5, 400)
        case "person":
            return draw.choice(cast.people).name
        case "email":
            return draw.choice(cast.people).email
        case "subject":
            return draw.choice(SUBJECTS)
        case "sentence":
            return draw.choice(SENTENCES)
        case "city":
            return draw.choice(CITIES)
    return None
