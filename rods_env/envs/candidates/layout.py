"""Which calls there are, from nothing but how many values each parameter has.

Values stand in a table, `VALUES` places for each pool, behind the places `ABSENT` and `DEFAULT`. A call is a tool and
the places of its arguments, so it stays the same while the values at these places change. Calls are written as bytes,
because those of many tools are put together at every step, and bytes are joined ten times as fast as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from rods_env.apis.registry import TOOLS, Tool, generation
from rods_env.envs.candidates.signatures import signatures
from rods_env.errors import RodsError

VALUES = 16  # of a pool: the most recent ones
PER_TOOL = 64  # calls of one tool
ABSENT, DEFAULT, FIRST = 0, 1, 2  # places: there is no such parameter; it is left to its default; the first value
WIDTH = 4  # arguments of a call at most
HEAD = 2  # numbers before the places of a call: a random one that goes with its tool, and the number of the tool
ROW_BYTES = 8 * (HEAD + WIDTH)

Counts = tuple[int, ...]
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Block(NamedTuple):
    """Calls of a group of tools.

    Attributes:
        calls: `HEAD` and the places of the arguments of each call, as 64-bit numbers. The tools take turns: the first
            call of each, the second of each, and so on.
        size: how many calls these are.
        total: how many there would be without limits.
    """

    calls: bytes
    size: int
    total: int


class Group:
    """Tools whose parameters take the same values: what one of them can be called with, the others can.

    Args:
        pools: the pool of each parameter.
        optional: for each parameter whether it may be left out.
        tools: the numbers of the tools.
    """

    def __init__(self, pools: tuple[int, ...], optional: tuple[bool, ...], tools: tuple[int, ...]) -> None:
        self.pools = pools
        self.tools = len(tools)
        n = len(pools)
        self.may = tuple(map(int, optional))
        self._twins = [(i, j) for i in range(n) for j in range(i + 1, n) if pools[i] == pools[j]]
        self._heads = np.array([(code_of(number), number) for number in tools], np.int64)
        self._most = PER_TOOL * len(tools)

    @cached_property
    def _grid(self) -> Ints:
        """All calls when the table is full: an axis for each parameter, one for the tools, one for what is written.

        The first value of an axis stands for the argument left out, if it may be. A tool with four parameters takes
        three megabytes; others take little.
        """
        axes = [np.arange(-may, VALUES) for may in self.may]
        ranks = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1) if axes else np.zeros(0, np.int64)
        return self._written(ranks)

    @cached_property
    def _valid(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of them have no value twice."""
        valid = np.ones(self._grid.shape[:-1], np.bool_)
        for i, j in self._twins:
            places = self._grid[..., HEAD + i]
            valid &= (places != self._grid[..., HEAD + j]) | (places == DEFAULT)
        return valid

    @cached_property
    def single(self) -> bytes:
        """The calls of tools with one parameter, value by value, when the table is full."""
        return self._part([slice(None)])

    def counts(self, sizes: Sequence[int]) -> Counts:
        """The number of values for each parameter, from those of the pools."""
        return tuple([sizes[pool] for pool in self.pools])

    def block(self, counts: Counts) -> Block:
        """All calls, when there are so many values for each parameter; at most `PER_TOOL` of a tool."""
        if self._number(counts) > self._most:
            return self.best(counts, PER_TOOL)
        calls = self._part([slice(count + may) for count, may in zip(counts, self.may, strict=True)])
        size = len(calls) // ROW_BYTES
        return Block(calls, size, size)

    def news(self, before: Counts, counts: Counts) -> bytes | None:
        """The calls that more values bring, or None if others would have to go for them."""
        number = self._number(counts)
        if number > self._most:
            return None
        if not number:
            return b""
        parts = []
        for at, (old, new) in enumerate(zip(before, counts, strict=True)):
            if new > old:  # calls with a new value here, and none in the arguments before
                ends = [*before[:at], 0, *counts[at + 1 :]]
                axes = [slice(end + may) for end, may in zip(ends, self.may, strict=True)]
                axes[at] = slice(old + self.may[at], new + self.may[at])
                parts.append(self._part(axes))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @lru_cache(maxsize=1 << 12)  # noqa: B019 - groups are few, and kept themselves
    def best(self, counts: Counts, limit: int) -> Block:
        """At most so many calls of each tool: those nearest to the last values of all pools."""
        if len(counts) == 1 and not self.may[0]:
            row = ROW_BYTES * self.tools
            calls = self.single[: counts[0] * row][-limit * row :]
            return Block(calls, len(calls) // ROW_BYTES, counts[0] * self.tools)
        axes = [np.arange(-may, count) for count, may in zip(counts, self.may, strict=True)]
        ranks = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        for i, j in self._twins:
            ranks = ranks[(ranks[:, i] != ranks[:, j]) | (ranks[:, i] < 0)]
        distance = np.where(ranks < 0, 0, np.array(counts) - 1 - ranks).sum(axis=1)
        some = ranks[np.argsort(distance, kind="stable")[:limit]]
        return Block(self._written(some).tobytes(), len(some) * self.tools, len(ranks) * self.tools)

    def _number(self, counts: Counts) -> int:
        n = self.tools
        for count, may in zip(counts, self.may, strict=True):
            n *= count + may
        return n

    def _part(self, axes: Sequence[slice]) -> bytes:
        part = tuple(axes)
        calls = self._grid[part]
        return (calls[self._valid[part]] if self._twins else calls).tobytes()

    def _written(self, ranks: Ints) -> Ints:
        """Calls from the ranks of their values (last axis), -1 for an argument left out; two axes instead of that."""
        calls = np.zeros((*ranks.shape[:-1], self.tools, HEAD + WIDTH), np.int64)
        calls[..., :HEAD] = self._heads
        places = np.where(ranks < 0, DEFAULT, ranks + np.array(self.pools, np.int64) * VALUES + FIRST)
        calls[..., HEAD : HEAD + len(self.pools)] = places[..., None, :]
        return calls


@lru_cache(maxsize=4096)
def _group(_: int, pools: tuple[int, ...], optional: tuple[bool, ...], tools: tuple[int, ...]) -> Group:
    return Group(pools, optional, tools)  # one for all programs, for what is kept in it


class Program:
    """What a set of offered tools needs.

    Attributes:
        tools: the tools by their numbers, from 1 in the order of all names.
        numbers: their numbers by name.
        sources: for each tool what its results hold, of the columns only those that fit parameters of these tools.
        spoken: the pools whose values a text may give, and whether these are people.
        groups: the tools, by what their parameters take.
        alone: for each pool the groups that take its values for their only parameter, and the bytes of a value's calls.
        among: for each pool the indices of the groups that take its values for one of several parameters.
        counts, blocks: for each group what there is before anything was seen.
        offered: for each registered tool by name whether it is one of these, shape `(tools,)`, uint8.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        known = signatures()
        self.tools = {known.names.index(tool.name) + 1: tool for tool in tools}
        self.numbers = {tool.name: number for number, tool in self.tools.items()}
        wanted = {pool for tool in tools for pool in known.params[tool.name]}
        narrow = {source: source.narrowed(wanted) for source in known.sources.values()}
        self.sources = {tool.name: narrow[known.sources[tool.name]] for tool in tools}
        ports = [(index, known.pools[index].port) for index in sorted(wanted)]
        self.spoken = [(index, port.kind == "person") for index, port in ports if not port.ref]
        wide = [tool.name for tool in tools if len(tool.params) > WIDTH]
        if wide:
            raise RodsError(f"expected tools of at most {WIDTH} parameters; {wide[0]!r} has more. Leave its API out.")
        alike: dict[Any, list[int]] = {}
        for number, tool in self.tools.items():
            optional = tuple(not port.required for port in tool.params)
            alike.setdefault((tool.api, known.params[tool.name], optional), []).append(number)
        self.groups = [_group(generation(), *key[1:], tuple(numbers)) for key, numbers in alike.items()]
        self.alone: dict[int, list[tuple[int, Group, int]]] = {index: [] for index in wanted}
        self.among: dict[int, list[int]] = {index: [] for index in wanted}
        for at, group in enumerate(self.groups):
            for pool in set(group.pools):
                if len(group.pools) == 1 and not group.may[0]:
                    self.alone[pool].append((at, group, ROW_BYTES * group.tools))
                else:
                    self.among[pool].append(at)
        none = [0] * len(known.pools)
        self.counts = [group.counts(none) for group in self.groups]
        self.blocks = [group.block(counts) for group, counts in zip(self.groups, self.counts, strict=True)]
        self.offered = np.zeros(len(known.names), np.uint8)
        self.offered[[number - 1 for number in self.tools]] = 1


def program(tools: Sequence[str]) -> Program:
    """What the tools of these names need; kept for the next time."""
    return _program(generation(), tuple(tools))


@lru_cache(maxsize=512)
def _program(_: int, names: tuple[str, ...]) -> Program:
    return Program([TOOLS[name] for name in names])


@lru_cache(maxsize=1024)
def code_of(tool: int) -> int:
    """A random number that goes with a tool, below 2^63."""
    return int(np.random.default_rng(tool).integers(1 << 63))


def fitting(program: Program, blocks: Sequence[Block], counts: Sequence[Counts], most: int) -> Sequence[Block]:
    """The blocks with no more calls than these; the tools that have most lose theirs first."""
    if sum([block[1] for block in blocks]) <= most:
        return blocks
    sizes = [(group.tools, block.size // group.tools) for group, block in zip(program.groups, blocks, strict=True)]
    fits, limit = 0, PER_TOOL  # the greatest number that fits lies from the one up to below the other
    while limit - fits > 1:
        middle = (fits + limit) // 2
        if sum([tools * min(n, middle) for tools, n in sizes]) <= most:
            fits = middle
        else:
            limit = middle
    return [
        block if n <= fits else group.best(count, fits)
        for group, count, block, (_, n) in zip(program.groups, counts, blocks, sizes, strict=True)
    ]
