"""Random draws for worlds and tasks: a numpy generator, read in blocks because single draws cost a microsecond each."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_BLOCK = 256
ID_ALPHABET = "abcdefghjkmnpqrstuvwxyz123456789"  # 32 characters: no i, l, o, 0, which are easy to misread


class Draw:
    """Small draws (an index, a choice, a date) from a `numpy.random.Generator`.

    Two draws made from equally seeded generators give equal values in equal order; nothing global is touched.
    """

    __slots__ = ("_block", "rng")

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self._block: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        """Where the draws stand, as plain JSON data."""
        return {"rng": self.rng.bit_generator.state, "block": list(self._block)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from where `state_dict` was taken."""
        self.rng.bit_generator.state = state["rng"]
        self._block = list(state["block"])

    def unit(self) -> float:
        """A float in [0, 1)."""
        if not self._block:
            self._block = self.rng.random(_BLOCK).tolist()
        return self._block.pop()

    def index(self, n: int) -> int:
        """An integer in [0, n)."""
        return int(self.unit() * n)

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high], both ends included."""
        return low + int(self.unit() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.unit() < probability

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, each as likely as the others."""
        if not self._block:  # `unit`, written out: this is the draw that worlds and tasks make most
            self._block = self.rng.random(_BLOCK).tolist()
        return options[int(self._block.pop() * len(options))]

    def sample(self, options: Sequence[T], n: int) -> list[T]:
        """`n` different positions of `options` (all of them where there are fewer), in random order."""
        size = len(options)
        if n * 8 < size:  # few out of many: drawing again when a position comes twice is cheaper than a copy
            chosen: dict[int, None] = {}
            while len(chosen) < n:
                chosen[int(self.unit() * size)] = None
            return [options[at] for at in chosen]
        pool = list(options)
        taken = []
        for left in range(size, size - min(n, size), -1):
            at = int(self.unit() * left)
            taken.append(pool[at])
            pool[at] = pool[left - 1]
        return taken

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in random order."""
        return self.sample(options, len(options))

    def amount(self, low: float, high: float) -> float:
        """An amount of money in [low, high], in whole tenths so that it is easy to say."""
        return round(low + self.unit() * (high - low), 1)

    def date(self, today: str, first: int, last: int) -> str:
        """An ISO date that lies `first` to `last` days after `today` (negative: before)."""
        return day_after(today, self.integer(first, last))

    def time(self, first: int = 8, last: int = 18) -> str:
        """A time of day HH:MM on the half hour, from `first` o'clock to before `last` o'clock."""
        half = self.integer(first * 2, last * 2 - 1)
        return f"{half // 2:02d}:{'30' if half % 2 else '00'}"

    def id(self, prefix: str) -> str:
        """An id as created records have them: the prefix and five characters."""
        return id_from(prefix, int(self.unit() * (1 << 25)))


_PAIRS = tuple(a + b for a in ID_ALPHABET for b in ID_ALPHABET)


def id_from(prefix: str, number: int) -> str:
    """The id whose five characters stand for the low 25 bits of `number`."""
    return f"{prefix}_{_PAIRS[number & 1023]}{_PAIRS[number >> 10 & 1023]}{ID_ALPHABET[number >> 20 & 31]}"


_DAYS: tuple[str, ...] = tuple(np.arange("2000-01-01", "2040-01-01", dtype="datetime64[D]").astype(str).tolist())
_DAY_NUMBER = {day: n for n, day in enumerate(_DAYS)}


def is_day(text: str) -> bool:
    """Whether the text is an ISO date from 2000 to 2039, the years that worlds may speak of."""
    return text in _DAY_NUMBER


def day_after(today: str, days: int) -> str:
    """The ISO date `days` days after the ISO date `today` (a table covers 2000 to 2039: worlds need many dates)."""
    number = _DAY_NUMBER.get(today)
    if number is not None and 0 <= number + days < len(_DAYS):
        return _DAYS[number + days]
    return (datetime.date.fromisoformat(today) + datetime.timedelta(days=days)).isoformat()
