"""What the last two messages say of the rows of results: "my order for the blue lamp", "the cheapest"."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from rods_env.envs.candidates.people import first_name
from rods_env.envs.candidates.reading import Reading
from rods_env.envs.candidates.signatures import Source

Row = dict[str, Any]
Extreme = tuple[str, Callable[..., Any]]


class Hints:
    """What two messages say of rows. It remembers what it was asked, so make it by `hints_of`.

    Args:
        now: the present message.
        before: the one before.
        me: the name of the user, if they speak of himself; else "".
    """

    def __init__(self, now: Reading, before: Reading, me: str) -> None:
        self._text = f"{before.message}\n{now.message}"
        words = now.words | before.words
        self._fields = _Fields(words | now.dates | before.dates, self._text).__getitem__
        self._people = _People(words, me).__getitem__
        self._extremes: dict[Source, list[Extreme]] = {}

    def named(self, source: Source, row: Row) -> int:
        """How many fields of a row they give."""
        return sum(map(self._fields, source.told_of(row))) + sum(map(self._people, source.people_of(row)))

    def extremes(self, source: Source) -> list[Extreme]:
        """The fields whose least (`min`) or greatest value (`max`) they ask for."""
        found = self._extremes.get(source)
        if found is None:
            found = [(field, max if most else min) for phrase, field, most in source.extremes if phrase in self._text]
            self._extremes[source] = found
        return found


@lru_cache(maxsize=2048)
def hints_of(now: Reading, before: Reading, me: str) -> Hints:
    """What two messages say of rows: the same object for the same messages, which the episodes of a group share."""
    return Hints(now, before, me)


class _Fields(dict[Any, bool]):
    """Whether messages give a value: as one of their words or dates, or, if it is no plain word, in their text."""

    def __init__(self, words: frozenset[str], text: str) -> None:
        super().__init__()
        self._words, self._text = words, text

    def __missing__(self, value: Any) -> bool:
        given = value in self._words
        if not given and isinstance(value, str) and value and not value.isalpha():
            given = value.replace("_", " ") in self._text
        self[value] = given
        return given


class _People(dict[str, bool]):
    """Whether messages name a person, by the first name at least, or as "me"."""

    def __init__(self, words: frozenset[str], me: str) -> None:
        super().__init__()
        self._words, self._me = words, me

    def __missing__(self, name: str) -> bool:
        given = self[name] = first_name(name) in self._words or (bool(name) and name == self._me)
        return given
