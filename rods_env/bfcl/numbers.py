"""Other dates, amounts, pressures and fuel levels for a BFCL task."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from rods_env.apis.draw import Draw
from rods_env.bfcl.contents import Contents
from rods_env.bfcl.entities import MONTHS, Entity
from rods_env.errors import SynthesisError

TANK = 50.0  # gallons that the tank of the simulated car holds
SMALLEST = 10  # amounts below are left alone: a text has such numbers for many reasons
_SPREAD = (0.4, 1.5)  # by which share of itself a number may become smaller or larger
_TRIES = 60  # at a day or a number that fits


def other_dates(entities: Iterable[Entity], contents: Contents, draw: Draw) -> dict[str, str]:
    """Other days of the same year that cost the same: flights cost twice as much if the sum of the digits is even.

    Where a message speaks of a day of the week, it stays this day.
    """
    found: dict[str, str] = {}
    weekday = re.search(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|weekend", contents.text) is not None
    for entity in entities:
        year, month, day = entity.about
        try:
            old = date(year, month, day)
        except ValueError:
            continue
        for _ in range(_TRIES):
            new = date(year, 1, 1) + timedelta(days=draw.index(364))
            same = _digits(new) % 2 == _digits(old) % 2 and (new.weekday() == old.weekday() or not weekday)
            if same and new.month != old.month and new.isoformat() not in found.values():
                found[entity.old] = new.isoformat()
                found |= {said: _said_date(said, new) for said in entity.spellings[1:]}
                break
    return found


def _digits(day: date) -> int:
    return sum(int(c) for c in day.isoformat() if c.isdigit())


def _said_date(said: str, new: date) -> str:
    """A date in the words of another: "October 12th 2026" → "March 3rd 2026"."""
    name = MONTHS[new.month - 1]

    def day(found: re.Match[str]) -> str:
        ending = "th" if 11 <= new.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(new.day % 10, "th")
        return f"{new.day}{ending if found[1] else ''}"

    said = re.sub(r"\b\d{1,2}(st|nd|rd|th)?\b", day, said, count=1)
    return re.sub(r"[A-Z][a-z]+", lambda m: name if m[0] in MONTHS else name[:3], said, count=1)


def other_amount(old: float, contents: Contents, draw: Draw, taken: set[float]) -> float:
    """A number of about the same size, as round as the old one, that no message has."""
    low, high = _SPREAD
    text = str(old).removesuffix(".0")
    decimals = len(text.partition(".")[2])
    if decimals:
        step = 10.0**-decimals
    else:
        step = 10.0 ** (len(text) - len(text.rstrip("0")))
        if old < 100:
            step = 5.0 if old % 5 == 0 and old > 20 else 1.0
        elif step >= old / 4:
            step /= 10
    numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", contents.text)
    said = {float(number.replace(",", "")) for number in numbers}
    for _ in range(_TRIES):
        new = round(draw.integer(max(1, round(old * low / step)), round(old * high / step)) * step, decimals)
        if new >= SMALLEST and new != old and new not in taken and new not in said:
            return new
    raise SynthesisError(f"no other number for {text}.", reason="names")


def written_like(new: float, like: str) -> str:
    """A number written as another is: "20,000", "30.0"."""
    decimals = len(like.partition(".")[2])
    return f"{new:,.{decimals}f}" if "," in like else f"{new:.{decimals}f}" if decimals or new == int(new) else str(new)


def other_threshold(entity: Entity, contents: Contents, draw: Draw) -> dict[str, str]:
    """Another pressure that the same tires are below of."""
    car = contents.config.get("VehicleControlAPI", {})
    old = float(entity.spellings[0])
    tires = [value for name, value in car.items() if name.endswith("TirePressure") and isinstance(value, int | float)]
    fits = [n for n in range(26, 46) if n != old and all((t < n) == (t < old) and t != n for t in tires)]
    if not fits or not tires:
        return {}
    phrase: Any = entity.about
    return {phrase: phrase.replace(entity.spellings[0], written_like(draw.choice(fits), entity.spellings[0]))}


def other_fuel(old: float, draw: Draw) -> tuple[float, float] | None:
    steps = [n / 2 if old % 1 else float(n) for n in range(5, 96 if old % 1 else 48)]
    fits = [n for n in steps if n != old and old * 0.4 <= n <= max(old * 1.6, old + 4) and n < TANK]
    return (old, draw.choice(fits)) if fits and old < TANK else None
