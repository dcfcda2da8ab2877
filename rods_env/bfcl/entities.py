"""The entities of a BFCL task: what in its configuration, messages and gold calls may be called otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from rods_env.bfcl.contents import Contents, written_amounts
from rods_env.bfcl.replacing import Replacement, stands_in
from rods_env.bfcl.sentences import sentences_like
from rods_env.bfcl.tables import Place, companies, padding, places
from rods_env.bfcl.tasks import BfclTask
from rods_env.bfcl.vocabulary import ACCOUNTS, HANDLES, MEN, PHRASES, STREETS, TAGS, WOMEN

# Parameters whose values are names of files and folders.
PATHS = (
    "folder", "dir_name", "source", "destination", "file_name", "path", "file_name1", "file_name2",
)  # fmt: skip
# Parameters whose values are codes that nobody reads: a variant draws other digits.
_CODES = (
    "card_id", "access_token", "client_id", "client_secret", "refresh_token", "password", "booking_id", "card_number",
    "passport_number", "ticket_id", "username", "user_id", "receiver_id", "card_verification_number",
)  # fmt: skip
# Numbers that a person chooses freely.
AMOUNTS = (
    "amount", "price", "value", "fuelAmount", "liter", "gallon", "budget_limit", "insurance_cost", "numbers",
)  # fmt: skip
_STRUCTURE = {"root", "type", "content", "contents", "file", "directory", "id", "error", "user", "status", "."}
# Words by which a company or a place is meant without its name: it then stays.
_HINTS = ("gpu", "gpus", "iphone", "electric vehicle", "search engine", "alphabet", "meta", "chip", "chips")
_SCENERY = ("coast", "bay", "beach", "desert", "golden gate", "europe", "european", "asia", "asian")
_HOLIDAYS = ("christmas", "new year", "halloween", "thanksgiving", "easter", "birthday", "anniversary")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DATE = re.compile(
    r"(?:\b\d{1,2}(?:st|nd|rd|th)? (?:of )?)?\b(?:" + "|".join(f"{m}|{m[:3]}t?" for m in MONTHS) + r")\b"
    r"(?: \d{1,2}(?:st|nd|rd|th)?\b)?(?:,? (?:of )?\d{4}\b)?"
)  # fmt: skip


class Entity(NamedTuple):
    """Something that may be called otherwise.

    Attributes:
        kind: `file`, `folder`, `person`, `surname`, `username`, `code`, `place`, `ticker`, `sentence`, `phrase`, `tag`,
            `handle`, `address`, `date`, `amount`, `fuel` or `threshold`.
        old: how the gold calls or the configuration write it.
        spellings: all ways in which the task writes it, the first one `old`.
        about: what its kind needs beside: of a `place` its row in the table, of a sentence its tool and parameter.
    """

    kind: str
    old: str
    spellings: tuple[str, ...]
    about: Any = None


def entities_of(task: BfclTask) -> list[Entity]:
    """What of a task may be called otherwise without changing what has to be done.

    An entity is left out if the messages may mean it in a way that is not recognised: what is left of its name
    elsewhere in them would contradict the new one.
    """
    contents = Contents(task)
    found: dict[str, Entity] = {}
    for entity in _all(contents):
        if entity.old not in found and not any(spelling in _STRUCTURE for spelling in entity.spellings):
            found[entity.old] = entity
    entities = list(found.values())
    if task.kind == "long_context":  # where what is added speaks of an entity, or depends on its name
        added, spared = padding()
        entities = [e for e in entities if not any(s in spared or stands_in(s, added) for s in e.spellings)]
    while True:  # what one entity is called may be hidden in the name of another, so those that go may uncover more
        mask = Replacement({spelling: "" for entity in entities for spelling in entity.spellings})
        left = mask.masked(contents.text)
        kept = [entity for entity in entities if not _left_over(entity, left)]
        if len(kept) == len(entities):
            return kept
        entities = kept


def _left_over(entity: Entity, left: str) -> bool:
    if entity.kind in ("file", "folder", "amount", "fuel", "phrase", "sentence", "tag"):
        return entity.kind == "file" and stands_in(entity.old, left)
    words = {spelling.lstrip("#@") for spelling in entity.spellings}
    if entity.kind == "ticker" and len(entity.spellings) > 1:
        words.add(entity.spellings[1].split()[0])
    return any(stands_in(word, left) for word in words if len(word) > 1)


def _all(contents: Contents) -> Iterator[Entity]:
    yield from _sentences(contents)
    yield from _people(contents)
    yield from _files(contents)
    yield from _codes(contents)
    yield from _places(contents)
    yield from _tickers(contents)
    yield from _social(contents)
    yield from _dates(contents)
    yield from _amounts(contents)


# ------------------------------------------------------------------ texts


def _sentences(contents: Contents) -> Iterator[Entity]:
    row = {phrase: at for at, phrases in enumerate(PHRASES) for phrase in phrases}
    said = contents.said_arguments
    for tool, name, value in said:
        if any(other != value and other in value and sentences_like(to, by, other) for to, by, other in said):
            continue  # a post whose end is the comment on it: the end is exchanged in both
        if sentences_like(tool, name, value) and not _names_something(value):
            bare = value.rstrip(".!")
            yield Entity("sentence", value, (value, bare) if bare != value else (value,), (tool, name))
        elif value in row:
            yield Entity("phrase", value, (value,), row[value])


def _names_something(sentence: str) -> bool:
    """Whether a sentence speaks of a number, a place or a company, which are exchanged within it."""
    words = [word for place in places() for word in _spellings(place)]
    words += [word for pair in companies().items() for word in pair]
    return any(c.isdigit() for c in sentence) or any("\0" in Replacement({w: w}).masked(sentence) for w in words)


def _social(contents: Contents) -> Iterator[Entity]:
    for _, name, value in contents.arguments:
        if name in ("tags", "mentions"):
            rows = TAGS if name == "tags" else HANDLES
            word = str(value)[1:]
            row = next((row for row in rows if word in row), None)
            if row is None or not stands_in(word, contents.text):
                continue
            if stands_in(str(value), contents.text.replace("#", " #").replace("@", " @")) and contents.says(str(value)):
                yield Entity("tag" if name == "tags" else "handle", str(value), (str(value),), row)
            elif re.search(rf"['\"‘“]{re.escape(word)}['\"’”]", contents.text):
                yield Entity("tag" if name == "tags" else "handle", str(value), (str(value), word), row)


# ------------------------------------------------------------------ people and codes


def _people(contents: Contents) -> Iterator[Entity]:
    names: dict[str, None] = {}
    texts = contents.keys + contents.strings
    texts += [v for tool, _, v in contents.arguments if isinstance(v, str) and tool != "get_user_id"]
    for text in texts:
        words = text.lstrip("@").split()
        if len(words) <= 2 and words and words[0].capitalize() in (*WOMEN, *MEN):
            names[text.lstrip("@")] = None
    travel = contents.config.get("TravelAPI", {})
    lasts = {name.split()[1] for name in names if " " in name} | {travel.get("user_last_name")}
    lasts |= {v for _, name, v in contents.arguments if name == "user_last_name" or name == "last_name"}
    accounts_of = {text.lstrip("@") for text in texts}
    for name in names:
        first = name.split()[0]
        accounts = sorted(word for word in accounts_of if re.fullmatch(rf"{first.lower()}\d+", word))  # Mike is @mike53
        if len(first) > 1:
            yield Entity("person", first, (first, *accounts))
    for last in sorted(lasts - {None}):
        if isinstance(last, str) and last.isalpha():
            yield Entity("surname", last, (last,))
    for _, parameter, value in contents.said_arguments:
        known = value.isalpha() or value.startswith("dr_") or value in ACCOUNTS
        if parameter == "username" and known and value.islower() and value.capitalize() not in (*WOMEN, *MEN):
            yield Entity("username", value, (value,))


def _codes(contents: Contents) -> Iterator[Entity]:
    for _, parameter, value in contents.arguments:
        text = str(value)
        digits = sum(c.isdigit() for c in text)
        if parameter not in _CODES or digits < 2 or (isinstance(value, int) and digits < 3):
            continue
        known = contents.configured(text) or (isinstance(value, int) and value in contents.integers)
        if parameter in ("user_id", "receiver_id"):
            known = text in contents.config.get("MessageAPI", {}).get("user_map", {}).values()
            if not known:
                continue  # of the users that the simulator has by itself
        if not contents.says(text) and (not known or any(text in step.text for step in contents.steps)):
            continue  # a result gave it
        spellings = [text]
        tail = re.search(r"\d{4,}$", text)
        if tail and known and parameter == "card_id":  # card_4455 is the card whose number ends so
            ends = tail[0][-4:]
            spellings += [s for s in contents.strings if s != text and s.endswith(ends) and re.fullmatch(r"[\d -]+", s)]
        yield Entity("code", text, tuple(dict.fromkeys(spellings)))


# ------------------------------------------------------------------ files


def _files(contents: Contents) -> Iterator[Entity]:
    folders = dict.fromkeys(contents.folders)
    files = dict.fromkeys(contents.files)
    for tool, name, value in contents.arguments:
        if name in PATHS and isinstance(value, str) and tool != "set_navigation":
            for part in value.split("/"):
                if part and part not in folders and part not in (".", ".."):
                    (folders if tool == "mkdir" else files)[part] = None
    for name in files:
        stem = name.partition(".")[0]
        if stem == name and name.isalpha() and name.islower():  # as good as a word: a file called `notes`
            folders[name] = None
        elif any(c.isalpha() for c in stem) and (name in contents.files or contents.says(name)):
            yield Entity("file", name, (name,))
    for name in folders:
        spellings = _folder_spellings(name, contents)
        if spellings:
            yield Entity("folder", name, spellings)


def _folder_spellings(name: str, contents: Contents) -> tuple[str, ...]:
    """How the messages write the name of a folder; nothing if it is not always clear that they mean it."""
    if any(name.lower() in (row.lower() for row in other) for other in (contents.strings,)):
        return ()
    if re.search(r"[0-9_]|[a-z][A-Z]", name):  # no word of English
        return (name,)
    spellings = [name]
    for found in re.finditer(rf"(?<![A-Za-z0-9_.]){re.escape(name)}(?![A-Za-z0-9_]|\.[A-Za-z])", contents.text, re.I):
        before, after = contents.text[: found.start()], contents.text[found.end() :]
        quoted = before[-1:] in ("'", '"', "‘", "“", "/") and after[:1] in ("'", '"', "’", "”", "/")
        named = re.match(r"['\"’”]? (?:sub)?(?:folder|director(?:y|ies))\b", after) or re.search(
            r"(?:folder|directory)(?: (?:named|called))? ['\"‘“]?$", before
        )
        if not (quoted or named):
            return ()
        spellings.append(found[0])
    return tuple(dict.fromkeys(spellings))


# ------------------------------------------------------------------ places, companies, dates, numbers


def _places(contents: Contents) -> Iterator[Entity]:
    if any(stands_in(word, contents.text) for word in _SCENERY):
        return
    used = {v for _, _, v in contents.arguments if isinstance(v, str)}
    if re.search(r"\b(?:first|second|two) (?:and second )?airports?\b", contents.text):
        return
    for place in places():
        spellings = _spellings(place)
        said = any(contents.says(spelling) for spelling in spellings if spelling != place.zip)
        if said and any(spelling in used for spelling in spellings):
            yield Entity("place", place.city, spellings, place)
    for _, name, value in contents.said_arguments:
        street = re.match(r"(\d+ (?:" + "|".join(STREETS) + r"))\b", value) if name == "destination" else None
        if street and "find_nearest_tire_shop" not in contents.tools:
            yield Entity("address", street[0], (street[0],))


def _spellings(place: Place) -> tuple[str, ...]:
    return tuple([word for word in (place.city, place.code, place.zip, *place.also) if word and word != "Unknown"])


def _tickers(contents: Contents) -> Iterator[Entity]:
    if "TradingBot" not in contents.task.apis or any(stands_in(word, contents.text) for word in _HINTS):
        return
    listed = "get_available_stocks" in contents.tools
    bot: Any = contents.task.world.simulators["TradingBot"]  # type: ignore[attr-defined]  # a BfclWorld
    fixed: set[str] = set()
    if listed:
        fixed = {s for sector in ("Technology", "Automobile") for s in bot.get_available_stocks(sector)["stock_list"]}
    used = dict.fromkeys(v for _, name, v in contents.arguments if name in ("symbol", "stock") and isinstance(v, str))
    for symbol in used:
        name = companies().get(symbol)
        if symbol not in fixed and (symbol in bot.stocks or symbol in bot.watch_list):
            spellings = (symbol, name, name.rstrip(".")) if name else (symbol,)
            yield Entity("ticker", symbol, tuple(dict.fromkeys(spellings)), (fixed, tuple(bot.stocks)))


def _dates(contents: Contents) -> Iterator[Entity]:
    if any(word in contents.text.lower() for word in _HOLIDAYS):
        return
    written = "\n".join(value for _, _, value in contents.arguments if isinstance(value, str))
    for _, name, value in contents.arguments:
        if name == "travel_date" and re.fullmatch(r"20\d\d-\d\d-\d\d", str(value)):
            year, month, day = (int(part) for part in value.split("-"))
            if any(read_date(f[0]) == (month, day) and str(year) not in f[0] for f in _DATE.finditer(written)):
                continue  # a text of the gold calls has another year: it would keep the old day
            said = [found[0] for found in _DATE.finditer(contents.text) if read_date(found[0]) == (month, day)]
            spellings = tuple(dict.fromkeys([value, *said]))
            rest = Replacement(dict.fromkeys(spellings, "")).masked(contents.text)
            others = re.search(rf"\b{day}(?:st|nd|rd|th)\b", rest)
            if (said or contents.says(value)) and not others:
                yield Entity("date", value, spellings, (year, month, day))


def read_date(text: str) -> tuple[int, int] | None:
    """Month and day of a date as a person writes it, "October 12th 2026" or "1st of December"; None if it is none."""
    month = next((at for at, name in enumerate(MONTHS, 1) if re.search(rf"\b{name[:3]}", text)), None)
    day = re.search(r"\b(\d{1,2})(?:st|nd|rd|th)?\b", text)
    return (month, int(day[1])) if month and day else None


def _amounts(contents: Contents) -> Iterator[Entity]:
    level = contents.config.get("VehicleControlAPI", {}).get("fuelLevel")
    filled = [v for tool, _, v in contents.arguments if tool == "fillFuelTank" and written_amounts(v, contents.text)]
    tied = level is not None and any(written_amounts(level + v, contents.text) for v in filled)  # "so that I have 40"
    for tool, name, value in contents.arguments:
        if tied and tool == "fillFuelTank":
            continue
        if name in AMOUNTS and isinstance(value, int | float) and value >= 10:
            spellings = written_amounts(value, contents.text)
            if spellings:
                yield Entity("amount", _plain(value), (_plain(value), *spellings), value)
    if level is not None and not tied and contents.tools & {"fillFuelTank", "startEngine", "displayCarStatus"}:
        yield Entity("fuel", "fuelLevel", ("fuelLevel",), level)
    for found in re.finditer(r"(?i)\b(\d{2}(?:\.0)?) ?psi\b|pressure below (\d{2})\b", contents.text):
        number = found[1] or found[2]
        yield Entity("threshold", f"{number} psi", (number,), found[0])


def _plain(value: float) -> str:
    return str(value).removesuffix(".0")
