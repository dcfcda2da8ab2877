"""How one row of a list can be told from the others: "the cheapest", "the latest", "the one for the blue desk lamp"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rods_env.apis.registry import fields_of
from rods_env.tasks.text import say


def picks(rows: Sequence[Any], row: Any, year: str) -> list[tuple[str, str]]:
    """The ways to choose `row` and no other among `rows`, as (code, phrase with `~` for the noun).

    Codes are those of `Mention.pick`. A list of one row needs no choosing: its only pick is "only".
    """
    if len(rows) == 1:
        return [("only", "~")]
    found = []
    ports = {port.name: port for port in fields_of(type(row))}
    for name, phrase in type(row).PICK.items():
        value = getattr(row, name)
        others = [getattr(other, name) for other in rows if other is not row]
        if isinstance(phrase, tuple):
            if all(value < other for other in others):
                found.append((f"min:{name}", phrase[0]))
            elif all(value > other for other in others):
                found.append((f"max:{name}", phrase[1]))
        elif value not in others and value != "":
            found.append((f"is:{name}", phrase.replace("{}", say(ports[name], value, year))))
    return found


def picked(rows: Sequence[Any], code: str, value: Any = None) -> list[Any]:
    """The rows that a pick code chooses: what `Mention.pick` means. `value` is what "is" compares with."""
    how, _, name = code.partition(":")
    if how == "only":
        return list(rows)
    values = [getattr(row, name) for row in rows]
    wanted = min(values) if how == "min" else max(values) if how == "max" else value
    return [row for row, v in zip(rows, values, strict=True) if v == wanted]
