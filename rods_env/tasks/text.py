"""How values are said, and whether a value stands in a text."""

from __future__ import annotations

import re
from typing import Any

from rods_env.apis.registry import Port, fields_of

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_OTHER_YEAR = re.compile(rf"\b\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}\b")


def noun_of(row: Any) -> str:
    """The noun for an entity: what its type declares, or the kind of its id with spaces."""
    first = fields_of(type(row))[0]
    return type(row).NOUN or (first.ref or type(row).__name__.lower()).replace("_", " ")


def say(port: Port, value: Any, year: str) -> str:
    """A value as a person says it: "4 May", "45.50 euros", "too late".

    Args:
        port: the parameter or field whose value it is.
        value: the value.
        year: the current year, "2026"; only other years are said.
    """
    if port.kind == "date":
        return say_date(value, year)
    if port.type == "float":
        text = f"{value:.2f}"
    elif port.choices:
        text = str(value).replace("_", " ")
    else:
        text = str(value)
    if port.unit:
        return f"{text} {port.unit}"
    return f'"{text}"' if port.quote else text


def say_date(value: str, year: str) -> str:
    """An ISO date as a person says it; the year only if it is not the present one."""
    said = f"{int(value[8:10])} {MONTHS[int(value[5:7]) - 1]}"
    return said if value[:4] == year else f"{said} {value[:4]}"


def spoken_forms(port: Port, value: Any, year: str) -> tuple[str, ...]:
    """The ways in which a text may give a value: as said (without unit and quotes), and as written in JSON."""
    if port.kind == "date":
        return (say_date(value, year), value)
    if isinstance(value, float):
        return (f"{value:.2f}", f"{value:g}")
    text = str(value)
    return (text.replace("_", " "), text) if port.choices and "_" in text else (text,)


def stands_in(form: str, text: str) -> bool:
    """Whether `form` occurs in `text` as whole words. A number is whole with its decimals: "45.50" does not hold 50."""
    if not form:
        return False
    at = text.find(form)
    while at >= 0:
        end = at + len(form)
        if not _glued(text[at - 1 : at], form[0], text[at - 2 : at - 1]) and not _glued(
            text[end : end + 1], form[-1], text[end + 1 : end + 2]
        ):
            return True
        at = text.find(form, at + 1)
    return False


def _glued(neighbour: str, edge: str, beyond: str) -> bool:
    """Whether the character beside a form belongs to the same word or number."""
    if neighbour.isalnum():
        return edge.isalnum()
    return edge.isdigit() and neighbour in (".", ",", ":") and beyond.isdigit()


def is_said(port: Port, value: Any, text: str, year: str) -> bool:
    """Whether the text gives the value in one of its spoken forms."""
    if port.ref:
        return "_" in text and stands_in(value, text)
    if port.kind == "date":
        said, written = spoken_forms(port, value, year)
        if value[:4] == year and stands_in(said, text):  # "4 May 2027" says another day than "4 May"
            text = _OTHER_YEAR.sub("", text)
        return stands_in(said, text) or stands_in(written, text)
    return any(stands_in(form, text) for form in spoken_forms(port, value, year))
