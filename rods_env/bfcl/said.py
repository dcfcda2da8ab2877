"""Whether a text gives a value: as it stands, in other case, as a word, as a date, in the parts of a path."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from rods_env.tasks.text import MONTHS

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
          "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ALSO = {"a": 1, "an": 1, "single": 1, "once": 1, "twice": 2, "couple": 2, "pair": 2, "dozen": 12, "half": 0.5}
_VALUES = {word: number for number, word in enumerate(_UNITS)} | {w: n for n, w in enumerate(_ORDINALS)} | _ALSO
_VALUES |= {word: 10 * number for number, word in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "grand": 1000, "million": 10**6, "billion": 10**9, "k": 1000, "m": 10**6}
_NUMBER = re.compile(r"(?<![\w.])-?\$?\d[\d,]*(?:\.\d+)?(?![\d])|(?<![\w])-?\.\d+")
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_EXPIRY = re.compile(r"(\d{1,2})/(\d{4})")
_CUT = re.compile(r"[^a-z0-9]+")


class Text:
    """A text in which values are looked for.

    Args:
        text: what was said; or a result.
    """

    def __init__(self, text: str) -> None:
        self.text = text.casefold()

    @cached_property
    def words(self) -> str:
        """The words and numbers with single spaces between and around them."""
        return f" {_CUT.sub(' ', self.text).strip()} "

    @cached_property
    def _without_spaces(self) -> str:
        return self.words.replace(" ", "")

    @cached_property
    def numbers(self) -> set[float]:
        """All numbers, in digits (1,000 and $5 and 3k too) and in words ("two hundred and fifty", "third")."""
        found = set()
        for match in _NUMBER.finditer(self.text):
            number = float(match[0].replace(",", "").replace("$", "") or "nan")
            found |= {number, abs(number)}
            follows = _WORD.match(self.text[match.end() :].lstrip(" -"))
            if follows and follows[0] in _SCALES:
                found.add(number * _SCALES[follows[0]])
            if self.text[match.end() : match.end() + 1] == "%":
                found.add(round(number / 100, 9))
        return found | _in_words(_WORD.findall(self.text))

    def holds(self, value: str) -> bool:
        """Whether the words of a value stand in the text next to each other, in any case, whatever is between them."""
        cut = _CUT.sub(" ", value.casefold()).strip()
        if not cut:
            return value.strip() != "" and value.casefold() in self.text
        return f" {cut} " in self.words

    def gives(self, value: Any) -> bool:
        """Whether the text gives a value; nothing has to give a truth value, None, an empty text, "." or ".."."""
        if value is None or isinstance(value, bool) or value in ("", ".", "..", "/"):
            return True
        if isinstance(value, int | float):
            return float(value) in self.numbers
        if self.holds(value):
            return True
        cut = _CUT.sub("", value.casefold())
        if len(cut) >= 5 and cut in self._without_spaces:
            return True  # "finalreport" for "final report", "#SuccessStory"
        date = _ISO_DATE.fullmatch(value)
        if date:
            return self._gives_date(*map(int, date.groups()))
        month = _EXPIRY.fullmatch(value)
        if month:  # of a card
            number, year = int(month[1]), month[2]
            forms = f"{MONTHS[number - 1] if 1 <= number <= 12 else 'no month'} {year}", f"{month[1]}/{year[2:]}"
            return any(map(self.holds, (*forms, f"{number}/{year}", f"{number}/{year[2:]}")))
        if "/" in value or "\\" in value:
            return all(self.gives(part) for part in parts_of_place(value))
        return False

    def _gives_date(self, year: int, month: int, day: int) -> bool:
        """Whether month and day are said, in words or digits, whatever the order. The year need not be."""
        name = MONTHS[month - 1].lower()
        ends = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day // 10 != 1 else 0, "th")
        days = f"(?:0?{day}(?:{ends}|th)?{'|' + _ORDINALS[day] if day <= 10 else ''})"
        months = f"(?:{name}|{name[:3]}|{name[:4]})"
        forms = (f"{months} (?:the )?{days}", f"{days} (?:day )?(?:of )?{months}", f"0?{month} 0?{day} {year}",
                 f"0?{day} 0?{month} {year}", f"{year} 0?{month} 0?{day}")  # fmt: skip
        if any(re.search(rf"\b{form}\b", self.words) for form in forms):
            return True
        apart = rf"\b{days}\b[^.]{{1,40}}\b{months}\b"  # "the 15th of next month, which is November of 2026"
        return str(year) in self.words and re.search(apart, self.words) is not None


def _in_words(words: list[str]) -> set[float]:
    """Numbers written as words: every reading that a run of number words has on its way."""
    found: set[float] = set()
    total: float = 0.0
    present: float | None = None
    for word in [*words, ""]:
        if word in _VALUES:
            value = _VALUES[word]
            goes_on = present is not None and any(  # "twenty five", "two hundred fifty", but not "ten five"
                present >= 2 * place and present % place == 0 and value < place for place in (10, 100)
            )
            present = present + value if present is not None and (goes_on or present == 100) else float(value)
            found |= {value, present, total + present}
        elif word in _SCALES and present is not None:
            present *= _SCALES[word]
            found |= {present, total + present}
            if _SCALES[word] >= 1000:
                total, present = total + present, 0.0
        elif word != "and":
            total, present = 0.0, None
    return found


def parts_of_place(path: str) -> list[str]:
    """The names in a path."""
    return [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]


def is_slight(value: Any) -> bool:
    """Whether a value says too little to know it again: a truth value, a number of less than three digits (15, 0.5), a
    text of one character, or "." and the like."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return len(value) < 2 or value in (".", "..")
    digits = f"{abs(value):.15g}".partition("e")[0].replace(".", "").lstrip("0")
    return len(digits) < 3
