"""Worlds: drawn at random from the registered APIs, and to and from plain JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import immutables
import msgspec

from rods_env.apis.api import Record, World, tables_of
from rods_env.apis.draw import Draw, day_after
from rods_env.apis.lexicon import CITIES, SENTENCES, SUBJECTS, Cast, draw_cast
from rods_env.apis.registry import APIS, TABLES, Port, check_apis
from rods_env.errors import RodsError

_FIRST_DAY = "2026-01-05"


def draw_world(draw: Draw, apis: Sequence[str], *, size: int = 1, cast: Cast | None = None) -> tuple[World, Cast]:
    """A new world for the named APIs, with one cast of people that all of them know.

    Args:
        draw: the source of chance.
        apis: names of registered APIs.
        size: how many times the usual number of rows.
        cast: the people; drawn when not given.
    """
    cast = cast or draw_cast(draw)
    today = draw.date(_FIRST_DAY, 0, 300)
    tables: dict[str, Any] = {}
    for name in check_apis(apis):
        api = APIS[name]
        by_type: dict[type[Record], dict[str, Record]] = {t.record: {} for t in tables_of(api).values()}
        for row in api.populate(draw, cast, today, size):
            by_type[type(row)][row.id] = row  # type: ignore[attr-defined]
        for table_name, table in tables_of(api).items():
            tables[f"{name}.{table_name}"] = immutables.Map(by_type[table.record])
    return World(f"{today}T{draw.time(8, 12)}", immutables.Map(tables)), cast


def world_to_data(world: World) -> dict[str, Any]:
    """The world as JSON-able data: tables in name order, rows in id order, so that equal worlds give equal bytes."""
    tables = {
        name: [msgspec.to_builtins(rows[key]) for key in sorted(rows)] for name, rows in sorted(world.tables.items())
    }
    return {"now": world.now, "tables": tables}


def world_from_data(data: dict[str, Any]) -> World:
    """The world that `world_to_data` wrote.

    Raises:
        RodsError: for a table that no registered API declares, or a row that does not fit its type.
    """
    tables: dict[str, Any] = {}
    for name, rows in data["tables"].items():
        if name not in TABLES:
            raise RodsError(f"unknown table {name!r}; the registered APIs are: {', '.join(APIS)}.")
        try:
            records = msgspec.convert(rows, list[TABLES[name].record])  # type: ignore[name-defined]
        except msgspec.ValidationError as error:
            raise RodsError(f"table {name!r}: {error}") from None
        tables[name] = immutables.Map({row.id: row for row in records})
    return World(data["now"], immutables.Map(tables))


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
