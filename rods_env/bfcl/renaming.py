"""New names for the entities of a BFCL task, drawn together so that they fit each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import lexicon
from rods_env.bfcl.contents import Contents
from rods_env.bfcl.entities import Entity
from rods_env.bfcl.numbers import other_amount, other_dates, other_fuel, other_threshold, written_like
from rods_env.bfcl.replacing import Replacement, stands_in
from rods_env.bfcl.sentences import sentences_like
from rods_env.bfcl.tables import companies, flies, miles, places
from rods_env.bfcl.vocabulary import ACCOUNTS, CODENAMES, FOLDERS, MEN, PHRASES, STREETS, WOMEN

TIRE_SHOP = "456 Oakwood Avenue, Rivermist, 83214"  # the simulator knows one
_PREFIXED = 0.3  # how often a folder gets a code name in front although another word could stand for it
_TRIES = 60  # at places that fit each other


class Names(NamedTuple):
    """What an attempt calls everything.

    Attributes:
        words: old to new, for gold arguments and for texts of the configuration.
        folders: the same for the folders, which only messages, paths and keys mean.
        said: the same for what only messages say: numbers and thresholds.
        amounts: old to new numbers of gold arguments.
        codes: old to new whole numbers that are ids.
        fuel: the fuel level in gallons, old and new; None if it stays.
    """

    words: dict[str, str]
    folders: dict[str, str]
    said: dict[str, str]
    amounts: dict[float, float]
    codes: dict[int, int]
    fuel: tuple[float, float] | None


def draw_names(entities: Sequence[Entity], contents: Contents, draw: Draw, *, plain: bool) -> Names:
    """New names for all entities.

    Args:
        plain: whether all files get the same code name in front, which keeps their order; otherwise each its own.

    Raises:
        SynthesisError: `names`: nothing fits.
    """
    words: dict[str, str] = {}
    folders: dict[str, str] = {}
    said: dict[str, str] = {}
    of: dict[str, list[Entity]] = {}
    for entity in entities:
        of.setdefault(entity.kind, []).append(entity)
    words |= _sentences(of.get("sentence", ()), draw)
    words |= _phrases(of.get("phrase", ()), draw)
    words |= _people(of.get("person", ()), of.get("surname", ()), of.get("username", ()), contents, draw)
    words |= _rows([*of.get("tag", ()), *of.get("handle", ())], contents, draw)
    codes = _codes([entity for entity in of.get("code", ()) if entity.old not in words], draw)  # john1234 is john's
    words |= codes
    words |= _places(of.get("place", ()), contents, draw)
    if "find_nearest_tire_shop" in contents.tools:
        words |= dict.fromkeys([TIRE_SHOP], TIRE_SHOP)
    words |= _tickers(of.get("ticker", ()), contents, draw)
    words |= other_dates(of.get("date", ()), contents, draw)
    for entity in of.get("address", ()):
        words[entity.old] = f"{draw.integer(10, 980)} {draw.choice([s for s in STREETS if not entity.old.endswith(s)])}"
    _files(of.get("file", ()), of.get("folder", ()), contents, draw, plain, words, folders)
    amounts: dict[float, float] = {}
    for entity in of.get("amount", ()):
        new = other_amount(float(entity.about), contents, draw, {*amounts, *amounts.values()})
        amounts[float(entity.about)] = new
        said |= {spelling: written_like(new, spelling) for spelling in entity.spellings}
    for entity in of.get("threshold", ()):
        said |= other_threshold(entity, contents, draw)
    fuel = next((other_fuel(float(entity.about), draw) for entity in of.get("fuel", ())), None)
    numbers = {int(old): int(new) for old, new in codes.items() if old.isdigit() and new.isdigit() and old[0] != "0"}
    return Names(words, folders, said, amounts, numbers, fuel)


# ------------------------------------------------------------------ texts


def _sentences(entities: Iterable[Entity], draw: Draw) -> dict[str, str]:
    found: dict[str, str] = {}
    for entity in entities:
        tool, parameter = entity.about
        free = [new for new in sentences_like(tool, parameter, entity.old) if new not in found.values()]
        if free:
            new = draw.choice(free)
            found[entity.old] = new
            if len(entity.spellings) > 1:  # without the point or mark at its end
                found[entity.spellings[1]] = new.rstrip(".!")
    return found


def _phrases(entities: Iterable[Entity], draw: Draw) -> dict[str, str]:
    return {e.old: draw.choice([phrase for phrase in PHRASES[e.about] if phrase != e.old]) for e in entities}


def _rows(entities: Iterable[Entity], contents: Contents, draw: Draw) -> dict[str, str]:
    """Tags and handles: others of their row, which the task does not have."""
    found: dict[str, str] = {}
    for entity in entities:
        taken = {new.lstrip("#@") for new in found.values()}
        free = [word for word in entity.about if word not in taken and not stands_in(word, contents.text)]
        if free:
            new, sign = draw.choice(free), entity.old[0]
            found |= {spelling: sign + new if spelling[0] == sign else new for spelling in entity.spellings}
    return found


# ------------------------------------------------------------------ people and codes


def _people(
    firsts: Iterable[Entity], lasts: Iterable[Entity], users: Iterable[Entity], contents: Contents, draw: Draw
) -> dict[str, str]:
    everything = "\n".join((contents.text, *contents.strings, *contents.keys))
    found: dict[str, str] = {}
    for entity in firsts:
        pool = WOMEN if entity.old.capitalize() in WOMEN else MEN
        taken = {new.lower() for new in found.values()}
        free = [name for name in pool if name.lower() not in taken and not stands_in(name, everything)]
        new = draw.choice(free)
        found[entity.old] = new if entity.old[0].isupper() else new.lower()
        for account in entity.spellings[1:]:
            found[account] = new.lower() + account[len(entity.old) :]
    free_lasts = [last for last in lexicon().last_names if last.isalpha() and not stands_in(last, everything)]
    for entity in lasts:
        new = draw.choice(free_lasts)
        found[entity.old] = new if entity.old[0].isupper() else new.lower()
    for entity in users:
        old = entity.old
        first = next((e for e in firsts if e.old.lower()[0] == old[0]), None)
        last = next((e for e in lasts if old == old[0] + e.old.lower()), None)
        if old in ACCOUNTS:
            found[old] = draw.choice([account for account in ACCOUNTS if account != old])
        elif old.startswith("dr_"):
            found[old] = "dr_" + draw.choice(free_lasts).lower()
        elif first and last:  # mthompson is Michael Thompson
            found[old] = found[first.old][0].lower() + found[last.old].lower()
        else:
            found[old] = draw.choice("abcdefghjklmnprstw") + draw.choice(free_lasts).lower()
    return found


def _codes(entities: Iterable[Entity], draw: Draw) -> dict[str, str]:
    """Codes of the same shape with other digits; what ends like a code ends so again."""
    found: dict[str, str] = {}
    for entity in entities:
        new = entity.old
        while new == entity.old or new in found.values():
            new = _other_digits(entity.old, draw)
        found[entity.old] = new
        for other in entity.spellings[1:]:
            found.setdefault(other, _other_digits(other[:-4], draw) + new[-4:])
    return found


def _other_digits(code: str, draw: Draw) -> str:
    signs = []
    for at, sign in enumerate(code):
        first = at == 0 or not code[at - 1].isdigit()
        signs.append(str(draw.integer(1 if first and sign != "0" else 0, 9)) if sign.isdigit() else sign)
    return "".join(signs)


# ------------------------------------------------------------------ files


def _files(
    files: Iterable[Entity], folders: Iterable[Entity], contents: Contents, draw: Draw, plain: bool,
    words: dict[str, str], found: dict[str, str],
) -> None:  # fmt: skip
    """Names of files (into `words`) and folders (into `found`)."""
    files, folders = list(files), list(folders)
    own = {*(e.old for e in files), *(e.old for e in folders)}
    rest = Replacement(dict.fromkeys(own, "")).masked("\n".join((contents.text, *contents.strings)))
    free = [word for word in CODENAMES if word not in rest.lower()]
    free = [word for word in free if not any(stands_in(word, _split(name)) for name in own)]
    free = draw.sample(free, len(free))
    common = free.pop()
    families: dict[str, str] = {}  # names that differ by numbers keep their order
    for entity in files:
        stem = entity.old.partition(".")[0]
        family = re.sub(r"\d+", "", entity.old)
        code = families.setdefault(family, common if plain or not free else free.pop())
        parts = _split(stem).split()
        modifier = parts[0] if len(parts) > 1 and parts[0].isalpha() else ""
        shared = [name for name in own if name != entity.old and stands_in(modifier, _split(name))]
        if modifier and (modifier in CODENAMES or (not plain and not shared and not stands_in(modifier, rest))):
            words[entity.old] = _cased(code, entity.old) + entity.old[len(modifier) :]
        else:
            words[entity.old] = _prefixed(code, entity.old)
    for entity in folders:
        low = entity.old.lower()
        row = next((row for row in FOLDERS if low in row), None)
        taken = {*own, *found.values()} | {name.lower() for name in own}
        unused = [word for word in row or () if word != low and word not in taken and not stands_in(word, rest)]
        parts = _split(entity.old).split()
        if unused and not draw.chance(_PREFIXED):
            new = draw.choice(unused)
            found |= {spelling: _cased(new, spelling) for spelling in entity.spellings}
        elif len(parts) > 1 and parts[0] in CODENAMES:
            code = free.pop() if free else common
            found |= {spelling: _cased(code, spelling) + spelling[len(parts[0]) :] for spelling in entity.spellings}
        else:
            found |= {spelling: _prefixed(common, spelling) for spelling in entity.spellings}


def _split(name: str) -> str:
    """The words of a name, in small letters: "final report" of `FinalReport` and of `final_report.txt`."""
    return re.sub(r"[_.\-]+|(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])", " ", name).lower()


def _prefixed(code: str, name: str) -> str:
    """A code name in front, in the style of the name: `harbor_report.txt`, `HarborReport.txt`, `HarborDocuments`."""
    if "_" not in name and name[0].isupper():
        return code.capitalize() + name
    if "-" in name and "_" not in name:
        return f"{code}-{name}"
    return f"{_cased(code, name)}_{name}"


def _cased(word: str, like: str) -> str:
    return word.capitalize() if like[0].isupper() else word


# ------------------------------------------------------------------ places and companies


def _places(entities: Iterable[Entity], contents: Contents, draw: Draw) -> dict[str, str]:
    """Other cities such that the same pairs of them have flights, and the same pairs known distances."""
    entities = list(entities)
    if not entities:
        return {}
    calls = contents.task.calls
    routes = {(c.arguments["travel_from"], c.arguments["travel_to"]) for c in calls if "travel_from" in c.arguments}
    roads = {(c.arguments["cityA"], c.arguments["cityB"]) for c in calls if "cityA" in c.arguments}
    zips = {number for road in roads for number in road}
    old = [entity.about for entity in entities]
    asks_zip = "get_zipcode_based_on_city" in contents.tools or any(place.zip and place.zip in zips for place in old)
    free = [p for p in places() if not any(stands_in(word, contents.text) for word in (p.city, p.code) if p not in old)]
    if asks_zip:
        free = [place for place in free if place.zip]
    for _ in range(_TRIES):
        new = draw.sample(free, len(old)) if len(free) >= len(old) else []
        if not new or any(a == b for a, b in zip(old, new, strict=True)):
            continue
        code = {a.code: b.code for a, b in zip(old, new, strict=True)}
        number = {a.zip: b.zip for a, b in zip(old, new, strict=True)}
        if all(flies(a, b) == flies(code.get(a, a), code.get(b, b)) for a, b in routes) and all(
            (miles(a, b) is None) == (miles(number.get(a, a), number.get(b, b)) is None) for a, b in roads
        ):
            break
    else:
        return {}
    found: dict[str, str] = {}
    for a, b in zip(old, new, strict=True):
        found |= {a.city: b.city} | dict.fromkeys(a.also, b.city)
        if a.code != "Unknown":
            found[a.code] = b.code
        if a.zip and b.zip:
            found[a.zip] = b.zip
    return found


def _tickers(entities: Iterable[Entity], contents: Contents, draw: Draw) -> dict[str, str]:
    """Companies change places with others, in all that the configuration says of them."""
    found: dict[str, str] = {}
    known = companies()
    for entity in entities:
        if entity.old in found:
            continue
        fixed, listed = entity.about
        named = any(contents.says(spelling) for spelling in entity.spellings[1:])
        free = [symbol for symbol in dict.fromkeys((*listed, *known)) if symbol != entity.old]
        free = [symbol for symbol in free if symbol not in fixed and symbol not in found]
        free = [s for s in free if not contents.says(s) and (s in known or not named)]
        free = [s for s in free if s not in known or not stands_in(known[s].split()[0], contents.text)]
        if not free:
            continue
        new = draw.choice(free)
        found |= {entity.old: new, new: entity.old}
        if entity.old in known and new in known:
            for a, b in ((known[entity.old], known[new]), (known[new], known[entity.old])):
                found |= {a.rstrip("."): b, a: b}
    return found
