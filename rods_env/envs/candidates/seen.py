"""What a policy has seen in an episode, and the calls that follow from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import msgspec
import numpy as np

from rods_env.apis.registry import TOOLS
from rods_env.envs.candidates.calls import Calls
from rods_env.envs.candidates.facts import Facts
from rods_env.envs.candidates.hints import Row, hints_of
from rods_env.envs.candidates.layout import DEFAULT, VALUES, WIDTH, program
from rods_env.envs.candidates.people import People
from rods_env.envs.candidates.reading import NOTHING, read
from rods_env.envs.candidates.signatures import Pool, Source, signatures

_FEW = 8  # values of a pool that need no order
_UNDESCRIBED = 6  # values of a pool that are kept though no message describes them: those that were shown last
_MOST = 255  # calls of a tool that are counted

_decode = msgspec.json.Decoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # as `write_calls` does


class _Values:
    """The values of one pool that were seen.

    Attributes:
        pool: what they fit.
        numbers: the number of each value; 0 for one that the tools would refuse.
        found: by the label of a field ("" where the user need not name it) those that results held, in the order in
            which they appeared.
        said: those that the present message gives, in its order.
        before: those of the message before.
        listed: those that calls may take, the most likely ones last.
        unlisted: those that results held, but for which there was no place.
    """

    __slots__ = ("before", "found", "listed", "numbers", "pool", "said", "unlisted")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.numbers: dict[Any, int] = {}
        self.found: dict[str, dict[int, None]] = {}
        self.said: Sequence[int] = ()
        self.before: Sequence[int] = ()
        self.listed: list[int] = []
        self.unlisted: set[int] = set()

    def copy(self) -> _Values:
        """The same, to go on from apart."""
        other = _Values(self.pool)
        other.numbers = self.numbers.copy()
        other.found = {label: found.copy() for label, found in self.found.items()}
        other.said, other.before = self.said, self.before  # these are replaced, never changed
        other.listed, other.unlisted = self.listed.copy(), self.unlisted.copy()
        return other


class _Result:
    """A result.

    Attributes:
        source: what is to be found in its rows.
        rows: the rows by field, each with the numbers of the values in it that tools take.
        cells: for each of these numbers what `Facts.show` writes: where it stands first.
    """

    __slots__ = ("cells", "rows", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rows: list[tuple[Row, tuple[int, ...]]] = []
        self.cells: dict[int, bytes] = {}


# For a column of results: the values of its pool, their numbers, those found in it, and whether calls may take them.
_Column = tuple[_Values, dict[Any, int], dict[int, None], bool]


class Seen:
    """The conversation of an episode as far as it gives values, and the calls that these make possible.

    `hear`, `see`, `fail`, `make`, `made` and `end` tell what happens; after `update` the calls are up to date.

    Args:
        tools: the names of the tools that are offered.
        year: the current year, "2026", which dates without a year are in.
        rows: the most calls, and the answer.

    Attributes:
        program: what the offered tools need.
        calls: the calls.
        turn: the turn, counted from 0.
        results: results so far, errors not counted.
        rows: rows of the last result.
        failed: whether the last call of this turn was refused.
        offered: for each registered tool (by name) whether it is offered, shape `(tools,)`, uint8.
        called: calls of each registered tool (by name) in this turn, a byte each.
        words: the words of the last two messages, uint8 of shape `(2, BUCKETS)`.
    """

    def __init__(self, tools: Sequence[str], year: str, rows: int) -> None:
        self.program = program(tools)
        self._pools = signatures().pools
        self.calls = Calls(self.program, len(self._pools), rows)
        self.turn, self.results, self.rows, self.failed = -1, 0, 0, False
        self.offered = self.program.offered  # not to be written to
        self.called = bytearray(len(self.offered))
        self.words = np.stack((NOTHING.bag, NOTHING.bag))
        self._year = year
        self._now = self._before = NOTHING
        self._labels = NOTHING.fields  # of the fields that the last two messages name
        self._hints = hints_of(NOTHING, NOTHING, "")
        self._people = People()
        self._facts = Facts()
        self._json: dict[int, str] = {}  # values as JSON, by number, once they were needed
        self._of: dict[int, _Values] = {}  # the values of each pool
        self._columns: dict[Source, list[_Column]] = {}
        self._results: dict[str, _Result] = {}  # by their texts
        self._shown: dict[tuple[int, ...], tuple[Source, Row]] = {}  # rows as shown last, by their values
        self._taken: dict[int, int] = {}  # the turn of the last call that took a value
        self._crowded: set[int] = set()  # pools that have, or had, values without a place
        self._stale = True

    # ------------------------------------------------------------------ what happens

    def hear(self, message: str) -> None:
        """A message of the user: the next turn begins."""
        self._before, self._now = self._now, read(message, self._year)
        now, before = self._now, self._before
        self.turn += 1
        self.failed, self._stale = False, True
        self.called = bytearray(len(self.called))
        self.words = np.concatenate((now.bag, before.bag)).reshape(2, -1)
        self._labels = now.fields | before.fields
        self._columns.clear()
        named = self._people.named(now)
        self._hints = hints = hints_of(now, before, self._people.speaks(now.words | before.words))
        self._facts.forget_message()
        for numbers, (source, row) in self._shown.items():
            times = hints.named(source, row)
            if times:
                self._facts.name(numbers, times)
        for result in self._results.values():
            if len(result.rows) > 1:
                self._compare(result)
        for pool, person in self.program.spoken:
            given = named if person else now.values.get(pool, ())
            values = self._of.get(pool) or (self._begun(pool) if given else None)
            if values is None:
                continue
            if given or values.said or values.before:
                self._say(values, given)
                self._list(values)
            elif values.listed or not self._labels.isdisjoint(values.found):
                self._list(values)
        for values in self._of.values():
            if values.pool.port.ref and (values.unlisted or len(values.listed) > _UNDESCRIBED):
                self._list(values)

    def see(self, tool: str, text: str) -> None:
        """The result of a call, as JSON text."""
        result = self._results.get(text)
        if result is None:
            result = self._results[text] = self._first_shown(tool, text)
        self.results += 1
        self.rows, self.failed, self._stale = len(result.rows), False, True
        self._facts.show(result.cells, self.results)
        if self.rows > 1:
            self._compare(result)
        for pool in self._crowded & result.source.pools if self._crowded else ():
            values = self._of[pool]
            if not values.unlisted.isdisjoint(result.cells):
                self._list(values)

    def fail(self) -> None:
        """A call was refused."""
        self.failed = True

    def make(self, row: int) -> tuple[str, str]:
        """Makes the call in this row, from 1 to `calls.size`.

        Returns:
            The tool's name, and the call as JSON text with the keys "name" and "arguments".
        """
        number, values = self.calls.call(row)
        tool, texts, given = self.program.tools[number], self._json, []
        for port, value in zip(tool.params, values, strict=False):
            if value != DEFAULT:
                self._taken[value] = self.turn
                text = texts.get(value)
                if text is None:
                    text = texts[value] = _encode(self._facts.values[value])
                given.append(f'"{port.name}": {text}')
        self.calls.make(number, values, row)
        self._count(number)
        return tool.name, f'{{"name": "{tool.name}", "arguments": {{{", ".join(given)}}}}}'

    def made(self, name: str, arguments: Mapping[str, Any]) -> None:
        """A call was made in whatever words."""
        number = self.program.numbers.get(name)
        if number is not None:
            self._count(number)
            numbers = self._given(name, arguments)
            if numbers is not None:
                self._taken.update(dict.fromkeys(numbers, self.turn))
                self.calls.make(number, numbers, self.calls.find(number, numbers) or 0)

    def end(self) -> None:
        """The episode has ended: there is nothing left to call."""
        self.calls.close()
        self.offered = np.zeros_like(self.offered)
        self._stale = True

    def copy(self) -> Seen:
        """The same episode, to go on from apart. What is only ever replaced is shared."""
        other = copy(self)
        other.called = self.called.copy()
        other.calls, other._facts = self.calls.copy(), self._facts.copy()
        other._people = People()
        other._people.user, other._people.names = self._people.user, self._people.names.copy()
        other._of = {pool: values.copy() for pool, values in self._of.items()}
        other._columns = {}  # these point into `_of`, and are found again when needed
        other._json, other._results = self._json.copy(), self._results.copy()
        other._shown, other._taken, other._crowded = self._shown.copy(), self._taken.copy(), self._crowded.copy()
        return other

    # ------------------------------------------------------------------ what follows

    def update(self) -> None:
        """Brings `calls` up to date."""
        if self._stale:
            self.calls.update(self._facts)
            self._stale = False

    def call(self, row: int) -> tuple[str, dict[str, Any]]:
        """The tool's name and the arguments of the call in this row, from 1 to `calls.size`."""
        number, values = self.calls.call(row)
        tool = self.program.tools[number]
        given = zip(tool.params, values, strict=False)
        return tool.name, {port.name: self._facts.values[value] for port, value in given if value != DEFAULT}

    def find(self, name: str, arguments: Mapping[str, Any]) -> int | None:
        """The row of a call, or None if it is not among them."""
        number = self.program.numbers.get(name)
        numbers = None if number is None else self._given(name, arguments)
        return None if number is None or numbers is None else self.calls.find(number, numbers)

    # ------------------------------------------------------------------ inside

    def _begun(self, pool: int) -> _Values:
        """The values of a pool of which nothing was known so far."""
        values = self._of[pool] = _Values(self._pools[pool])
        return values

    def _new(self, values: _Values, value: Any) -> int:
        """The number of a new value, or 0 if the tools would refuse it."""
        fits = values.pool.check is None or values.pool.accepts(value)
        number = values.numbers[value] = self._facts.new(value) if fits else 0
        return number

    def _say(self, values: _Values, given: Sequence[Any]) -> None:
        """The present message gives these values of a pool."""
        known = values.numbers
        numbers = [known[value] if value in known else self._new(values, value) for value in given]
        said = [number for number in numbers if number]
        self._facts.say(said, values.said, values.before)
        values.before, values.said = values.said, said

    def _columns_of(self, source: Source) -> list[_Column]:
        columns = self._columns[source] = []
        for _, pool, label in source.columns:
            values = self._of.get(pool) or self._begun(pool)
            found = values.found.setdefault(label, {})
            columns.append((values, values.numbers, found, not label or label in self._labels))
        return columns

    def _first_shown(self, tool: str, text: str) -> _Result:
        """A result that was not shown before."""
        decoded = _decode(text)
        rows = decoded if isinstance(decoded, list) else [decoded]
        source, facts = self.program.sources[tool], self._facts
        columns = self._columns.get(source) or self._columns_of(source)
        result = _Result(source)
        for at, row in enumerate(rows, 1):
            numbers = []
            for value, (values, known, found, taken) in zip(source.values_of(row), columns, strict=True):
                number = known.get(value)
                if number is None:
                    number = self._new(values, value)
                if number:
                    numbers.append(number)
                    if number not in found:
                        found[number] = None
                        facts.ages(number)
                        if taken and number not in values.listed:
                            self._add(values, number)
            key = tuple(numbers)
            result.rows.append((row, key))
            if key:
                cell = facts.cell(at, len(rows))
                for number in key:
                    result.cells.setdefault(number, cell)
                self._shown[key] = (source, row)
                times = self._hints.named(source, row)
                if times:
                    facts.name(key, times)
        return result

    def _compare(self, result: _Result) -> None:
        """Notes which rows of a result are the least or the greatest, where the last two messages ask for these."""
        for field, best in self._hints.extremes(result.source):
            wanted = best([row[field] for row, _ in result.rows])
            for row, numbers in result.rows:
                if row[field] == wanted:
                    self._facts.choose(numbers)

    def _add(self, values: _Values, number: int) -> None:
        """One more value for calls. While there are few, their order does not matter, and the last place is as good."""
        pool = values.pool.number
        if len(values.listed) < _FEW:
            values.listed.append(number)
            self.calls.append(pool, number)
        else:
            values.unlisted.add(number)
            self._crowded.add(pool)

    def _list(self, values: _Values) -> None:
        """Orders the values that calls may take, the most likely ones last.

        These are what was said, the latest last; before that, what was shown: what the messages describe best, and of
        others what appeared last. Of what they do not describe only the latest are kept.
        """
        facts = self._facts
        shown: dict[int, None] = {}
        for label, found in values.found.items():
            if not label or label in self._labels:
                shown.update(found)
        said = dict.fromkeys((*values.said, *values.before))
        if values.pool.port.kind == "person":
            said.update(dict.fromkeys([values.numbers[name] for name in reversed(self._people.names)]))
            said.pop(0, None)
        latest = [number for number in shown if number not in said]
        if len(latest) > _UNDESCRIBED:
            latest.sort(key=facts.age, reverse=True)
            latest = [*filter(self._meant, latest[:-_UNDESCRIBED]), *latest[-_UNDESCRIBED:]]
        if len(latest) > 1:
            latest.sort(key=self._meant)
        order = (latest + list(said)[::-1])[-VALUES:]
        if len(order) < len(shown) or values.unlisted:
            values.unlisted = shown.keys() - order
            self._crowded.add(values.pool.number)
        if order != values.listed:
            values.listed = order
            self.calls.put(values.pool.number, order)

    def _meant(self, number: int) -> int:
        """How likely a value out of a result is meant: it is described, or a call of the last three turns took it."""
        return self._facts.described(number) + (self._taken.get(number, -3) >= self.turn - 2)

    def _given(self, name: str, arguments: Mapping[str, Any]) -> list[int] | None:
        """The numbers of the arguments of a call, or None if a value was not seen."""
        numbers = [0] * WIDTH
        for at, (port, pool) in enumerate(zip(TOOLS[name].params, signatures().params[name], strict=True)):
            if port.name not in arguments:
                numbers[at] = DEFAULT
            elif pool in self._of:
                numbers[at] = self._of[pool].numbers.get(arguments[port.name], 0)
            if not numbers[at]:
                return None
        return numbers

    def _count(self, tool: int) -> None:
        if self.called[tool - 1] < _MOST:
            self.called[tool - 1] += 1
