"""Reads a message of the user: the values it gives, by the parameters that take them, and the words in it."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from rods_env.apis.registry import generation
from rods_env.envs.candidates.signatures import FIELD, WORD, Signatures, signatures

BUCKETS = 256  # of the bag of words

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
         "December"), 1)
}  # fmt: skip
_QUOTED = re.compile(r'"([^"]*)"')
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NUMBER = re.compile(
    rf"""(?x)
    \b(?P<iso>\d{{4}}-\d\d-\d\d)\b
    | \b(?P<time>\d{{1,2}}:\d\d)\b
    | \b(?P<day>\d{{1,2}})\ (?P<month>{"|".join(_MONTHS)})\b (?:\ (?P<year>\d{{4}})\b)?
    | (?<![\w.-])(?P<number>\d{{1,9}}(?:\.\d{{1,4}})?)(?!\w) (?:[ -](?P<unit>[a-z]+))?
    """
)
_CAPITAL = "A-ZÀ-ÖØ-Þ"
_NAMES = re.compile(rf"(?<!\w)[{_CAPITAL}][\w'’-]*(?: [{_CAPITAL}][\w'’-]*)+")
_OWNED = re.compile(r"['’]s?$")
_SENTENCE_BEGINS = re.compile(r'(?:^|[.!?:"]\s*)$')
_SPEAKER = re.compile(
    rf"\b(?:this is|my name is|I am|I'm) (?P<a>[{_CAPITAL}][\w'’-]* [{_CAPITAL}][\w'’-]*)"
    rf"|(?P<b>[{_CAPITAL}][\w'’-]* [{_CAPITAL}][\w'’-]*) here\b"
)


@dataclass(frozen=True, eq=False)
class Reading:
    """What a message says. Readings of the same message are the same object, as long as they are kept.

    Attributes:
        message: the message.
        values: for each pool (by index) the values that the message gives, in the order of the text.
        names: what must be full names of people.
        perhaps: what may be full names, or a verb at the start of a sentence and a first name: "Text Mario".
        speaker: the name by which the user introduced himself, or "".
        words: the words outside of quotes.
        fields: the labels of fields that it names.
        dates: the dates that it gives, YYYY-MM-DD.
        bag: how often it has a word of each bucket, up to 255 (shape `(BUCKETS,)`, uint8, not to be written to).
    """

    message: str
    values: dict[int, tuple[Any, ...]]
    names: tuple[str, ...]
    perhaps: tuple[str, ...]
    speaker: str
    words: frozenset[str]
    fields: frozenset[str]
    dates: frozenset[str]
    bag: np.ndarray[Any, np.dtype[np.uint8]]


NOTHING = Reading("", {}, (), (), "", frozenset(), frozenset(), frozenset(), np.zeros(BUCKETS, np.uint8))


def read(message: str, year: str) -> Reading:
    """Reads a message. The same one is read once: the episodes of a group hear the same messages.

    Args:
        message: what the user says.
        year: the current year, "2026", which dates without a year are in.
    """
    return _read(message, year, generation())


@lru_cache(maxsize=8192)
def _read(message: str, year: str, _: int) -> Reading:
    known = signatures()
    quoted = _QUOTED.findall(message)
    text = _QUOTED.sub('""', message)
    found: dict[int, dict[Any, None]] = {}
    _quotes(found, quoted, known)
    spans = _numbers(found, text, year, known)
    if "@" in text:
        spans += _emails(found, text, known)
    fields, phrased = _phrases(found, text, known)
    names, perhaps = _people(text, spans + phrased)
    speaker = _SPEAKER.search(text)
    words = WORD.findall(text)
    bag = np.zeros(BUCKETS, np.int64)
    for word in words:
        bag[zlib.crc32(word.lower().encode("utf-8", "replace")) % BUCKETS] += 1
    counts = np.minimum(bag, 255).astype(np.uint8)
    counts.flags.writeable = False
    dates = [value for pool in known.pools if pool.port.kind == "date" for value in found.get(pool.number, ())]
    return Reading(
        message, {pool: tuple(values) for pool, values in found.items()}, names, perhaps,
        (speaker["a"] or speaker["b"]) if speaker else "", frozenset(words), fields, frozenset(dates), counts,
    )  # fmt: skip


def _quotes(found: dict[int, dict[Any, None]], quoted: list[str], known: Signatures) -> None:
    """A quoted text is of the kind that has it among its words; if none has, it may be of any that people quote."""
    pools = [pool for pool in known.pools if pool.port.quote]
    for text in quoted:
        for pool in [pool for pool in pools if text in pool.words] or pools:
            found.setdefault(pool.number, {})[text] = None


def _numbers(found: dict[int, dict[Any, None]], text: str, year: str, known: Signatures) -> list[tuple[int, int]]:
    """Dates, times and numbers with their units; returns where dates stand, whose months are no names."""
    spans = []
    for match in _NUMBER.finditer(text):
        iso, time, day, month, said_year, number, unit = match.groups()
        if number is None:
            kind = "time" if time else "date"
            value: Any = time or iso or f"{said_year or year}-{_MONTHS[month]:02d}-{int(day):02d}"
            if month:
                spans.append(match.span())
            for pool in known.pools:
                if pool.port.kind == kind:
                    found.setdefault(pool.number, {})[value] = None
            continue
        unit = unit if unit in known.units else ""
        for pool in known.pools:
            whole = pool.port.type == "int"
            if pool.port.type != "str" and pool.port.unit == unit and not (whole and "." in number):
                found.setdefault(pool.number, {})[int(number) if whole else float(number)] = None
    return spans


def _emails(found: dict[int, dict[Any, None]], text: str, known: Signatures) -> list[tuple[int, int]]:
    spans = []
    for match in _EMAIL.finditer(text):
        spans.append(match.span())
        for pool in known.pools:
            if pool.port.kind == "email" or any("@" in word for word in pool.words[:1]):
                found.setdefault(pool.number, {})[match[0]] = None
    return spans


def _phrases(
    found: dict[int, dict[Any, None]], text: str, known: Signatures
) -> tuple[frozenset[str], list[tuple[int, int]]]:
    """Words of kinds, choices, and names of fields; of two that overlap the longer counts. Returns fields and spans."""
    fields, spans = [], []
    ends: dict[int, int] = {}
    for match in WORD.finditer(text):
        for phrase in known.phrases.get(match[0], ()):
            begin, end = match.start(), match.start() + len(phrase.text)
            if begin < ends.get(phrase.target, 0) or not text.startswith(phrase.text, begin):
                continue
            if text[end : end + 1].isalnum() or text[end : end + 1] == "_":
                continue
            ends[phrase.target] = end
            if phrase.target == FIELD:
                fields.append(phrase.value)
            else:
                if " " in phrase.text:  # "Grand Palace" is nobody's name, but Ana Milan may be somebody
                    spans.append((begin, end))
                if phrase.target >= 0:
                    found.setdefault(phrase.target, {})[phrase.value] = None
    return frozenset(fields), spans


def _people(text: str, taken: list[tuple[int, int]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two capitalised words in a row, where no other value stands.

    At the start of a sentence the first of them may be a verb, and of three or more it is one: "Text Mario Galloway".
    """
    names: dict[str, None] = {}
    perhaps: dict[str, None] = {}
    for run in _NAMES.finditer(text):
        begins = bool(_SENTENCE_BEGINS.search(text, 0, run.start()))
        words = list(re.finditer(r"[^ ]+", run[0]))
        for first, second in pairwise(words):
            begin, end = run.start() + first.start(), run.start() + second.end()
            if _OWNED.search(first[0]) or any(begin < e and b < end for b, e in taken):
                continue
            if begins and first is words[0]:
                if len(words) == 2:
                    perhaps[f"{first[0]} {_OWNED.sub('', second[0])}"] = None
                continue
            names[f"{first[0]} {_OWNED.sub('', second[0])}"] = None
    return tuple(names), tuple(perhaps)
