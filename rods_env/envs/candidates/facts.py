"""What is known of the values that were seen: a row of bytes for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from rods_env.envs.candidates.layout import ABSENT, DEFAULT, VALUES

Codes = np.ndarray[Any, np.dtype[np.uint64]]

# The columns, a byte each: eight of them are one 64-bit number, which is copied at once.
ORIGIN, ORDER, AGE, ROW, ROWS, TIMES, NAMED, EXTREME = range(8)
COLUMNS = 8
HIGHEST = (5, VALUES, 255, 31, 31, 15, 15, 1)  # the greatest value of each column
LEFT_OUT, SHOWN, SAID_EARLIER, SAID_BEFORE, SAID_NOW = 1, 2, 3, 4, 5  # values of ORIGIN; 0: no such parameter

_OLDER = int(np.eye(COLUMNS, dtype=np.uint8)[AGE].view(np.uint64)[0])  # 1 in the byte of AGE
_KEPT = np.array([255, 0, 255, 255, 255, 255, 0, 0], np.uint8).view(np.uint64)  # what the next message leaves as it is
_ROOM = 512  # for values at first; there is more when it is needed
_MOST = 1 << 16  # values of an episode: the numbers of four are a 64-bit number


class Facts:
    """The values of an episode, numbered as they appear, and what is known of each.

    Attributes:
        values: the values by number; `ABSENT` and `DEFAULT` are none.
        packed: what is known of each, as a 64-bit number of `COLUMNS` bytes.
    """

    def __init__(self) -> None:
        self.values: list[Any] = [None] * (max(ABSENT, DEFAULT) + 1)
        self._aging: Codes = np.zeros(_ROOM, np.uint64)  # what a further result adds to each
        self._use(bytearray(_ROOM * COLUMNS))
        self._bytes[DEFAULT * COLUMNS + ORIGIN] = LEFT_OUT

    def _use(self, content: bytearray) -> None:
        self._bytes = content  # for single bytes, which numpy reads and writes slowly
        self.packed: Codes = np.frombuffer(content, np.uint64)

    def copy(self) -> Facts:
        """The same, to go on from apart."""
        other = copy(self)
        other.values, other._aging = self.values.copy(), self._aging.copy()
        other._use(self._bytes.copy())
        return other

    def new(self, value: Any) -> int:
        """The number of a new value, or 0 if there are too many."""
        number = len(self.values)
        if number == _MOST:
            return 0
        self.values.append(value)
        if number * COLUMNS == len(self._bytes):
            self._use(self._bytes + bytearray(len(self._bytes)))
            self._aging = np.concatenate((self._aging, np.zeros_like(self._aging)))
        self._bytes[number * COLUMNS + ORIGIN] = SHOWN
        return number

    # ------------------------------------------------------------------ results

    def ages(self, number: int) -> None:
        """From now on the value is one that results have shown: it grows older with every further one."""
        self._aging[number] = _OLDER

    @staticmethod
    def cell(row: int, rows: int) -> bytes:
        """What `show` writes for a value in this row (from 1) of so many: 1 result ago, the row, the rows."""
        return bytes((1, min(row, HIGHEST[ROW]), min(rows, HIGHEST[ROWS])))

    def show(self, cells: Mapping[int, bytes], results: int) -> None:
        """There is one more result, with these values; so many results there are now."""
        np.add(self.packed, self._aging, out=self.packed)
        if results >= HIGHEST[AGE]:
            self._aging[self.packed.view(np.uint8)[AGE::COLUMNS] == HIGHEST[AGE]] = 0
        known = self._bytes
        for number, cell in cells.items():
            base = number * COLUMNS
            known[base + AGE : base + ROWS + 1] = cell
            if known[base + TIMES] < HIGHEST[TIMES]:
                known[base + TIMES] += 1

    def age(self, number: int) -> int:
        """How many results ago the value was shown."""
        return self._bytes[number * COLUMNS + AGE]

    # ------------------------------------------------------------------ messages

    def forget_message(self) -> None:
        """Clears what the last two messages say, but for `ORIGIN`."""
        np.bitwise_and(self.packed, _KEPT, out=self.packed)

    def say(self, now: Sequence[int], before: Sequence[int], earlier: Sequence[int]) -> None:
        """The present message gives these values, the one before those, and so on."""
        known = self._bytes
        for numbers, origin in ((earlier, SAID_EARLIER), (before, SAID_BEFORE), (now, SAID_NOW)):
            for number in numbers:
                known[number * COLUMNS + ORIGIN] = origin
        for order, number in enumerate(now, 1):
            known[number * COLUMNS + ORDER] = min(order, HIGHEST[ORDER])

    def name(self, numbers: Iterable[int], times: int) -> None:
        """The last two messages give so many fields of a row with these values."""
        known, times = self._bytes, min(times, HIGHEST[NAMED])
        for number in numbers:
            at = number * COLUMNS + NAMED
            if known[at] < times:
                known[at] = times

    def choose(self, numbers: Iterable[int]) -> None:
        """The last two messages ask for the least or the greatest row, which has these values."""
        for number in numbers:
            self._bytes[number * COLUMNS + EXTREME] = 1

    def described(self, number: int) -> int:
        """How well the last two messages describe the rows in which the value stands."""
        base = number * COLUMNS
        return self._bytes[base + NAMED] + 2 * self._bytes[base + EXTREME]
