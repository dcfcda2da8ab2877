"""The words worlds are made of: people, companies and streets by Faker, cities and stock sentences by hand.

Faker is asked once per process and locale, with a seed of its own; drawing from the result costs nothing more.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

from rods_env.apis.draw import Draw

CITIES = (
    "Oslo", "Rome", "Lisbon", "Vienna", "Prague", "Dublin", "Madrid", "Athens", "Berlin", "Warsaw", "Zurich", "Geneva",
    "Helsinki", "Porto", "Milan", "Naples", "Hamburg", "Munich", "Lyon", "Nice", "Bergen", "Malmo", "Turin", "Seville",
)  # fmt: skip

SUBJECTS = (
    "Short update", "Quick question", "For your records", "Next week", "News", "A small change",
    "Before I forget", "As promised", "One more thing", "Just so you know",
)  # fmt: skip

SENTENCES = (
    "I will call you in the afternoon.", "Please have a look when you have a minute.", "Everything is settled now.",
    "There is no hurry with this.", "Let us talk about it tomorrow.", "Thank you for your patience.",
    "I am out of the office next week.", "Please keep this for the meeting.", "We should decide this soon.",
    "Could you check this once more?", "It took longer than I thought.", "That is all for now.",
)  # fmt: skip


class Person(NamedTuple):
    """A person as all APIs know them: by name, address, and the city where they live."""

    name: str
    email: str
    city: str = CITIES[0]

    @property
    def first(self) -> str:
        return self.name.split(" ", 1)[0]


class Cast(NamedTuple):
    """The people of one task. The first is the user who speaks; the others have other first names."""

    people: tuple[Person, ...]

    @property
    def user(self) -> Person:
        return self.people[0]

    @property
    def others(self) -> tuple[Person, ...]:
        return self.people[1:]


class Lexicon(NamedTuple):
    """What Faker gave for one locale."""

    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    companies: tuple[str, ...]
    streets: tuple[str, ...]
    plates: tuple[str, ...]


@lru_cache(maxsize=4)
def lexicon(locale: str = "en_US") -> Lexicon:
    """The lexicon of a locale, the same in every process that has the same Faker."""
    from faker import Faker  # 0.1 s, and only synthesis needs it

    fake = Faker(locale)
    fake.seed_instance(20260619)

    def some(provider: str, n: int) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for _ in range(20 * n):
            found[str(getattr(fake, provider)())] = None
            if len(found) == n:
                break
        return tuple(found)

    return Lexicon(
        some("first_name", 240), some("last_name", 300), some("company", 120), some("street_name", 120),
        some("license_plate", 300),
    )  # fmt: skip


def draw_cast(draw: Draw, n: int = 7) -> Cast:
    """`n` people whose first and last names all differ, so that a first name is enough to tell them apart."""
    words = lexicon()
    firsts, lasts = draw.sample(words.first_names, n), draw.sample(words.last_names, n)
    return Cast(
        tuple(Person(f"{a} {b}", email_of(a, b), draw.choice(CITIES)) for a, b in zip(firsts, lasts, strict=True))
    )


def email_of(first: str, last: str) -> str:
    """The address that belongs to a name: ana.ruiz@example.com."""
    plain = unicodedata.normalize("NFKD", f"{first}.{last}".lower()).encode("ascii", "ignore").decode()
    return "".join(c for c in plain if c.isalnum() or c == ".") + "@example.com"
