"""Kinds of values: what flows through tools. A kind says how a value is proposed, how it is said, what it can feed.

`Ref("order")` marks an id of an entity; `Kind("date")` marks a plain value. Both are `msgspec.Meta`, so one annotation
also checks arguments and writes the JSON schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta


def Ref(kind: str, description: str | None = None) -> Meta:  # noqa: N802 - reads as a type in annotations
    """Marks a string as the id of an entity of `kind`. Only a result that carries such an id can feed it."""
    return Meta(extra={"ref": kind}, description=description or f"Id of the {kind.replace('_', ' ')}.")


def Kind(  # noqa: N802
    kind: str,
    description: str,
    *,
    words: Sequence[str] = (),
    quote: bool = False,
    unit: str = "",
    pattern: str | None = None,
    gt: float | None = None,
    ge: float | None = None,
    le: float | None = None,
    examples: Sequence[Any] = (),
    exchangeable: bool = False,
) -> Meta:
    """Marks a plain value.

    Args:
        kind: the name of the kind; values flow between results and arguments of the same kind.
        description: one sentence for the JSON schema.
        words: what synthesis proposes for it (a lexicon of the API's own).
        quote: whether a person would put it in quotes (titles, messages).
        unit: what is said behind a number ("euros").
        pattern: a regular expression the text must match.
        gt: the number must be greater.
        ge: the number must be at least this.
        le: the number must be at most this.
        examples: numbers that synthesis may propose.
        exchangeable: whether the words are names that can take each other's places everywhere, as titles of meetings
            can; names of goods cannot, which belong to categories.
    """
    extra: dict[str, Any] = {
        "kind": kind, "words": tuple(words) + tuple(examples), "quote": quote, "unit": unit,
        "exchangeable": exchangeable,
    }  # fmt: skip
    limits: dict[str, Any] = {"pattern": pattern, "gt": gt, "ge": ge, "le": le}
    meta: Meta = Meta(extra=extra, description=description, **limits)
    return meta


# The kinds that APIs share: flows cross APIs through these.
Date = Annotated[str, Kind("date", "A date from 2000 to 2039, YYYY-MM-DD.", pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Time = Annotated[str, Kind("time", "A time of day, HH:MM.", pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Email = Annotated[str, Kind("email", "An e-mail address.", pattern=r"^[^@\s]+@[^@\s]+$")]
PersonName = Annotated[str, Kind("person", "A person's full name.")]
City = Annotated[str, Kind("city", "A city.")]
Amount = Annotated[float, Kind("amount", "An amount of money in euros.", unit="euros", gt=0)]
Quantity = Annotated[int, Kind("quantity", "How many.", ge=1, le=99, examples=(2, 3, 4, 5, 6))]
Minutes = Annotated[
    int, Kind("minutes", "A length of time in minutes.", unit="minutes", ge=5, examples=(20, 40, 50, 90))
]
Rating = Annotated[int, Kind("rating", "A rating from 1 (bad) to 5 (good).", ge=1, le=5, examples=(1, 2, 3, 4, 5))]
Subject = Annotated[str, Kind("subject", "A short subject line.", quote=True)]
Sentence = Annotated[str, Kind("sentence", "A short text.", quote=True)]
