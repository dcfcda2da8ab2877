"""What signatures say about calls: which values fit which parameter, where results hold such values, and words."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from rods_env.apis.api import Record
from rods_env.apis.draw import is_day
from rods_env.apis.lexicon import CITIES
from rods_env.apis.registry import TOOLS, Port, Tool, fields_of, generation

WORD = re.compile(r"\w+")
FIELD = -1  # what the name of a field stands for among the phrases, in place of a pool
OTHER = -2  # words that fit no parameter, but are no names of people either

Picker = Callable[[dict[str, Any]], tuple[Any, ...]]

_KNOWN = {"city": CITIES}  # words of kinds whose signatures hold none: what people know by heart


@dataclass(frozen=True, eq=False)
class Pool:
    """The parameters that take the same values: ids of one reference, values of one kind, or the same choices.

    All texts that users quote are one pool, unless the kind has words of its own (titles of meetings, opinions).

    Attributes:
        number: its place among all pools.
        port: one of its parameters.
        words: the values that a text may give literally: choices, or the words of the kind.
        check: the annotation that a value must fit, or None where every value fits that is found.
    """

    number: int
    port: Port
    words: tuple[str, ...]
    check: Any

    @lru_cache(maxsize=1 << 14, typed=True)  # noqa: B019 - pools live as long as the tools
    def accepts(self, value: Any) -> bool:
        """Whether the tools would take the value, as far as their signatures say."""
        if self.port.kind == "date" and not is_day(value):
            return False
        try:
            msgspec.convert(value, self.check)
        except msgspec.ValidationError:
            return False
        return True


class Column(NamedTuple):
    """A field of a result whose values fit parameters.

    Attributes:
        field: its name.
        pool: the index of the pool that takes its values.
        label: what the user must name for its values to be taken ("its origin"), or "" where they always are.
    """

    field: str
    pool: int
    label: str


@dataclass(frozen=True, eq=False)
class Source:
    """What is to be found in the rows of a kind of result.

    Attributes:
        columns: the fields that fit parameters.
        told: the fields by which a text may describe a row, other than people.
        people: the fields with names of people, by which it may too.
        extremes: phrases that choose the row with the least or the greatest value of a field, as (phrase, field,
            whether the greatest).
    """

    columns: tuple[Column, ...]
    told: tuple[str, ...]
    people: tuple[str, ...]
    extremes: tuple[tuple[str, str, bool], ...]

    def narrowed(self, pools: Collection[int]) -> Source:
        """The same with only the columns that fit parameters of these pools."""
        return replace(self, columns=tuple([column for column in self.columns if column.pool in pools]))

    @cached_property
    def pools(self) -> frozenset[int]:
        """The pools of `columns`."""
        return frozenset([column.pool for column in self.columns])

    @cached_property
    def values_of(self) -> Picker:
        """Takes the values of `columns` out of a row."""
        return _picker([column.field for column in self.columns])

    @cached_property
    def told_of(self) -> Picker:
        """Takes the values of `told` out of a row."""
        return _picker(self.told)

    @cached_property
    def people_of(self) -> Picker:
        """Takes the values of `people` out of a row."""
        return _picker(self.people)


def _picker(fields: Sequence[str]) -> Picker:
    """What takes these fields out of a row, as a tuple."""
    if len(fields) > 1:
        return itemgetter(*fields)
    return lambda row: tuple([row[field] for field in fields])


class Phrase(NamedTuple):
    """Words that mean something in a text.

    Attributes:
        text: the words.
        target: the index of the pool they are a value of, `FIELD`, or `OTHER`.
        value: the value, or the label of the field.
    """

    text: str
    target: int
    value: str


class Signatures(NamedTuple):
    """What the signatures of all registered tools say.

    Attributes:
        pools: all pools.
        params: for each tool the pools of its parameters, in order.
        sources: for each tool what its results hold.
        phrases: the words that mean something, by their first word, the longest first.
        units: the units that follow numbers.
        names: the names of the tools, sorted.
    """

    pools: tuple[Pool, ...]
    params: dict[str, tuple[int, ...]]
    sources: dict[str, Source]
    phrases: dict[str, tuple[Phrase, ...]]
    units: frozenset[str]
    names: tuple[str, ...]


def signatures() -> Signatures:
    """What the signatures of the tools say that are registered now."""
    return _signatures(generation())


@lru_cache(maxsize=4)
def _signatures(_: int) -> Signatures:
    pools: dict[Any, Pool] = {}
    params: dict[str, tuple[int, ...]] = {}
    for tool in TOOLS.values():
        hints = typing.get_type_hints(tool.function, include_extras=True)
        params[tool.name] = tuple(_pool(pools, tool, port, hints[port.name]).number for port in tool.params)
    found = tuple(pools.values())
    by_record = {tool.record: _source(tool.record, found) for tool in TOOLS.values()}
    sources = {tool.name: by_record[tool.record] for tool in TOOLS.values()}
    units = frozenset(port.unit for tool in TOOLS.values() for port in (*tool.params, *tool.fields) if port.unit)
    return Signatures(found, params, sources, _phrases(found, sources), units, tuple(sorted(TOOLS)))


def _pool(pools: dict[Any, Pool], tool: Tool, port: Port, hint: Any) -> Pool:
    words = tuple(w for w in port.choices or port.words or _KNOWN.get(port.kind, ()) if isinstance(w, str))
    free = port.quote and not words
    schema = tool.schema["function"]["parameters"]["properties"][port.name]
    limits = {k: v for k, v in schema.items() if k not in ("description", "default", "enum")}
    key = (port.ref, "" if free else port.kind, port.choices, port.quote, msgspec.json.encode(limits, order="sorted"))
    if key not in pools:
        check = None if port.ref or port.choices else hint
        pools[key] = Pool(len(pools), port, words, check)
    return pools[key]


def _source(record: type[Record], pools: tuple[Pool, ...]) -> Source:
    columns = []
    fields = fields_of(record)
    for field in fields:
        for pool in pools:
            if _feeds(field, pool.port):
                always = field.ref or (field.kind == "email" and record.CALLED)
                columns.append(Column(field.name, pool.number, "" if always else field.label))
    told = [f for f in fields if f.type == "str" and not f.ref and f.kind != "email"]
    people = tuple([f.name for f in told if f.kind == "person"])
    return Source(tuple(columns), tuple([f.name for f in told if f.kind != "person"]), people, _extremes(record))


def _feeds(field: Port, port: Port) -> bool:
    """Whether values of the field fit the parameter. What users quote is theirs, and comes out of no result."""
    return bool(port.ref or (port.kind and not port.quote)) and (field.ref, field.kind) == (port.ref, port.kind)


def _extremes(record: type[Record]) -> tuple[tuple[str, str, bool], ...]:
    pairs = [(name, phrases) for name, phrases in record.PICK.items() if isinstance(phrases, tuple)]
    return tuple(
        (" ".join(phrase.replace("~", "").split()), name, greatest)
        for name, phrases in pairs
        for greatest, phrase in zip((False, True), map(str, phrases), strict=True)
    )


def _phrases(pools: tuple[Pool, ...], sources: dict[str, Source]) -> dict[str, tuple[Phrase, ...]]:
    found: set[Phrase] = set()
    for pool in pools:
        for word in pool.words if not pool.port.quote else ():
            found.add(Phrase(word.replace("_", " ") if pool.port.choices else word, pool.number, word))
    for source in sources.values():
        found.update(Phrase(column.label, FIELD, column.label) for column in source.columns if column.label)
    for record in {tool.record for tool in TOOLS.values()}:
        for field in fields_of(record):
            found.update(Phrase(str(word), OTHER, "") for word in field.words if not field.quote)
    by_first: dict[str, list[Phrase]] = {}
    for phrase in sorted(found, key=lambda p: (-len(p.text), p)):
        first = WORD.search(phrase.text)
        if first is not None:
            by_first.setdefault(first[0], []).append(phrase)
    return {first: tuple(phrases) for first, phrases in by_first.items()}
