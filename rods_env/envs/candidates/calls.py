"""The calls of a state as arrays: laid out anew, or grown at the end when there are more values.

A step costs little only if it touches few arrays: what changes one by one is kept in lists and byte strings, and arrays
are made of these at the end.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from rods_env.envs.candidates.facts import COLUMNS, Facts
from rods_env.envs.candidates.layout import (
    DEFAULT,
    FIRST,
    HEAD,
    ROW_BYTES,
    VALUES,
    WIDTH,
    Block,
    Ints,
    Program,
    code_of,
    fitting,
)

_CELL = np.dtype((np.uint8, (COLUMNS,)))
_WEIGHTS = np.array([1, 1 << 16, 1 << 32, 1 << 48])  # numbers of values have 16 bits
_read = struct.Struct(f"={HEAD + WIDTH}q").unpack_from


class Calls:
    """The calls of a state, and which of them were made before.

    Args:
        program: what the offered tools need.
        pools: how many pools there are.
        rows: the most calls, and the answer, which is row 0.

    Attributes:
        sizes: for each pool how many values calls may take.
        size: how many calls there are.
        dropped: how many were left out because there were too many.
        tools: the number of the tool of each call (0: none), uint16 of shape `(rows,)`.
        known: what is known of their arguments, uint8 of shape `(rows, WIDTH, COLUMNS)`.
    """

    tools: np.ndarray[Any, np.dtype[np.uint16]]
    known: np.ndarray[Any, np.dtype[np.uint8]]

    def __init__(self, program: Program, pools: int, rows: int) -> None:
        self._program = program
        self._most = rows - 1
        self.sizes = [0] * pools
        self.size = self.dropped = 0
        self._numbers = array("q", bytes(8 * (FIRST + pools * VALUES)))  # of the value at each place
        self._numbers[DEFAULT] = DEFAULT
        self._lookup = np.frombuffer(self._numbers, np.int64)
        self._written = bytearray(rows * ROW_BYTES)  # the calls, as blocks have them
        self._table = np.frombuffer(self._written, np.int64).reshape(rows, -1)
        self._values: Ints = np.zeros((rows, WIDTH), np.int64)  # the numbers of the values of each call
        self._made = bytearray(rows)
        self._codes: set[int] = set()  # of the calls that were made
        self._blocks = program.blocks.copy()
        self._counts = program.counts.copy()  # for each group, as the calls have them
        self._laid = self.sizes.copy()  # for each pool, as the calls have them
        self._grown: set[int] = set()  # pools that have got more values at the end since then
        self._resized: set[int] = set()  # pools with another number of values than the blocks have
        self._anew = True  # whether the calls have to be laid out anew

    def copy(self) -> Calls:
        """The same, to go on from apart. `tools` and `known` are only ever replaced, and so are shared."""
        other = copy(self)
        other.sizes, other._laid = self.sizes.copy(), self._laid.copy()
        other._blocks, other._counts = self._blocks.copy(), self._counts.copy()
        other._numbers = self._numbers[:]
        other._lookup = np.frombuffer(other._numbers, np.int64)
        other._written = self._written.copy()
        other._table = np.frombuffer(other._written, np.int64).reshape(self._table.shape)
        other._values, other._made = self._values.copy(), self._made.copy()
        other._codes, other._grown, other._resized = self._codes.copy(), self._grown.copy(), self._resized.copy()
        return other

    # ------------------------------------------------------------------ values

    def put(self, pool: int, numbers: list[int]) -> None:
        """These are the values of a pool, the most likely ones last; at most `VALUES`."""
        start, size = FIRST + pool * VALUES, len(numbers)
        if numbers:  # an array that has a view takes no empty slice
            self._numbers[start : start + size] = array("q", numbers)
        if self.sizes[pool] != size:
            self.sizes[pool] = size
            self._resized.add(pool)
        self._anew = True

    def append(self, pool: int, number: int) -> None:
        """One more value of a pool."""
        size = self.sizes[pool]
        self._numbers[FIRST + pool * VALUES + size] = number
        self.sizes[pool] = size + 1
        self._grown.add(pool)

    def close(self) -> None:
        """There is nothing left to call."""
        self._blocks = [Block(b"", 0, 0)] * len(self._blocks)
        self._grown, self._resized, self._anew = set(), set(), True

    # ------------------------------------------------------------------ calls

    def call(self, row: int) -> tuple[int, list[int]]:
        """The number of the tool of a call, and the numbers of its values."""
        _, tool, a, b, c, d = _read(self._written, row * ROW_BYTES)
        numbers = self._numbers
        return tool, [numbers[a], numbers[b], numbers[c], numbers[d]]

    def find(self, tool: int, values: Sequence[int]) -> int | None:
        """The row of the call of a tool with these values, or None."""
        rows = self.size + 1
        alike = (self._values[:rows] == np.array(values)).all(axis=1) & (self._table[:rows, 1] == tool)
        found = np.flatnonzero(alike)
        return int(found[0]) if len(found) else None

    def make(self, tool: int, values: Sequence[int], row: int) -> None:
        """A call is made, which stands in this row; 0 for one that is none of these."""
        self._codes.add(_coded(tool, values))
        if row:
            self._made[row] = 1

    def made(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Whether each call was made before in this episode, uint8 of shape `(rows,)`."""
        return np.frombuffer(self._made[:], np.uint8)

    # ------------------------------------------------------------------ arrays

    def update(self, facts: Facts) -> None:
        """Brings the calls and what is known of them up to date."""
        if self._grown and not self._anew:
            self._grow()
        if self._anew:
            self._lay_out()
        self._grown.clear()
        self.known = facts.packed.take(self._values, mode="clip").view(_CELL)  # mode "raise" takes twice as long

    def _lay_out(self) -> None:
        """All calls anew."""
        program, sizes, blocks, counts = self._program, self.sizes, self._blocks, self._counts
        changed = self._resized | self._grown
        among: set[int] = set()
        for pool in changed:
            self._laid[pool] = n = sizes[pool]
            among.update(program.among[pool])
            for at, group, size in program.alone[pool]:
                counts[at] = (n,)
                blocks[at] = Block(group.single[: n * size], n * group.tools, n * group.tools)
        for at in among:
            counts[at] = program.groups[at].counts(sizes)
            blocks[at] = program.groups[at].block(counts[at])
        self._resized.clear()
        calls = b"".join([block[0] for block in fitting(program, blocks, counts, self._most)])
        self.size = size = min(len(calls) // ROW_BYTES, self._most)
        self.dropped = sum([block[2] for block in blocks]) - size
        self._written[ROW_BYTES : (size + 1) * ROW_BYTES] = calls[: size * ROW_BYTES]
        self._write(1, size + 1)
        self._table[size + 1 :, 1] = 0
        self._values[size + 1 :] = 0
        self.tools = self._table[:, 1].astype(np.uint16)
        self._made[1:] = bytes(self._most)
        if self._codes and size:
            codes = self._table[1 : size + 1, 0] ^ (self._values[1 : size + 1] @ _WEIGHTS)
            alike = codes[:, None] == np.array(list(self._codes))
            self._made[1 : size + 1] = np.logical_or.reduce(alike, axis=1).tobytes()
        self._anew = False

    def _grow(self) -> None:
        """More calls at the end, with the new values; none of them was made before."""
        program, sizes, counts, news = self._program, self.sizes, self._counts, []
        self._resized |= self._grown
        among: set[int] = set()
        for pool in self._grown:
            before, now = self._laid[pool], sizes[pool]
            self._laid[pool] = now
            among.update(program.among[pool])
            for at, group, size in program.alone[pool]:
                counts[at] = (now,)
                news.append(group.single[before * size : now * size])
        for at in among:
            group = program.groups[at]
            more = group.counts(sizes)
            calls = group.news(counts[at], more)
            if calls is None:
                self._anew = True
                return
            counts[at] = more
            news.append(calls)
        written = b"".join(news)
        begin = self.size + 1
        end = begin + len(written) // ROW_BYTES
        if end > self._most + 1:
            self._anew = True
        elif written:
            self._written[begin * ROW_BYTES : end * ROW_BYTES] = written
            self._write(begin, end)
            self.tools = self._table[:, 1].astype(np.uint16)
            self.size = end - 1

    def _write(self, begin: int, end: int) -> None:
        """The numbers of the values of the calls in these rows."""
        np.take(self._lookup, self._table[begin:end, HEAD:], out=self._values[begin:end], mode="clip")


def _coded(tool: int, values: Sequence[int]) -> int:
    """A number for a call that no other call of the episode has: that of its tool, and those of its values."""
    a, b, c, d = values
    code = a | b << 16 | c << 32 | d << 48
    return code_of(tool) ^ (code - (1 << 64) if code >> 63 else code)  # as 64 bits with a sign
