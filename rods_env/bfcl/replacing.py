"""Exchanging many words at once: in texts, and in nested data with its keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_WORD = r"(?<![A-Za-z0-9_])(?<![A-Za-z0-9][.])"
_END = r"(?![A-Za-z0-9_])(?!\.[A-Za-z0-9])"
# "an 'archive' folder", "a NVDA order": the article goes with the word behind it.
_ARTICLE = re.compile(r"\b([Aa])(n?)(\s+['\"‘“`]?)$")
_SPELLED = re.compile(r"[AEFHILMNORSX][A-Z]{0,3}\b(?![a-z])")  # capitals that are read letter by letter: an MSFT order
_SILENT = ("hour", "honest", "honour", "honor", "heir")
_CONSONANT = ("uni", "use", "usa", "eu", "one", "once", "ura", "uti")


class Replacement:
    """A mapping from old to new words that is applied in one pass, so that two words may change places.

    A word is replaced only where no letter, digit or `_` stands beside it, and neither a dot with one behind it:
    `report.txt` stands in "see report.txt." and in "docs/report.txt", not in "my_report.txt". Of words that begin at
    the same place the longest is taken. An article in front of a replaced word is made to fit.

    Args:
        words: old to new. A word that stands for itself is kept, with all that stands within.
    """

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = {old: new for old, new in words.items() if old}
        ordered = sorted(self.words, key=lambda word: (-len(word), word))
        self._pattern = re.compile("|".join(_bounded(word) for word in ordered)) if ordered else None

    def __call__(self, text: str) -> str:
        """The text with all words exchanged."""
        return self._apply(text, self.words.__getitem__, articles=True)

    def masked(self, text: str) -> str:
        """The text with a blank sign in the place of every word that would be exchanged."""
        return self._apply(text, lambda _: "\0", articles=False)

    def data(self, value: Any) -> Any:
        """Nested data with the words exchanged in all texts and all keys; a number stays what it is."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(key) if isinstance(key, str) else key: self.data(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.data(inner) for inner in value]
        return value

    def _apply(self, text: str, new: Callable[[str], str], articles: bool) -> str:
        if self._pattern is None:
            return text
        parts: list[str] = []
        at = 0
        for found in self._pattern.finditer(text):
            before, word = text[at : found.start()], new(found[0])
            if articles and word != found[0]:
                before = _ARTICLE.sub(lambda m, w=word: f"{m[1]}{'n' if _vowel(w) else ''}{m[3]}", before)  # type: ignore[misc]
            at = found.end()
            if articles:  # "Quasar Ltd." at the end of a sentence has its dot
                word, at = _dotted(found[0], word, text, at)
                word, at = _owning(found[0], word, text, found.start(), at)
            parts += (before, word)
        return "".join([*parts, text[at:]])


def _dotted(old: str, new: str, text: str, at: int) -> tuple[str, int]:
    """A new word and where the text goes on behind the old one, if one of the two ends with the dot of a short form."""
    if new.endswith(".") and not old.endswith(".") and text[at : at + 1] == ".":
        return new, at + 1
    ends = old.endswith(".") and not new.endswith((".", "!", "?"))
    return (new + "." if ends and (at == len(text) or re.match(r"\s+[A-Z]|\n", text[at:])) else new), at


def _owning(old: str, new: str, text: str, start: int, at: int) -> tuple[str, int]:
    """The same for the ending of an owner: "Apple's stock", "Omega Industries' stock"."""
    plural = re.compile(r".* \S+s")
    if text.startswith("'s", at) and plural.fullmatch(new) and not plural.fullmatch(old):
        return new + "'", at + 2
    quoted = text[max(start - 1, 0) : start] == "'"
    if re.match(r"' [a-z]", text[at:]) and plural.fullmatch(old) and not plural.fullmatch(new) and not quoted:
        return new + "'s", at + 1
    return new, at


def _bounded(word: str) -> str:
    begin = _WORD if word[0].isalnum() or word[0] == "_" else ""
    end = _END if word[-1].isalnum() or word[-1] == "_" else ""
    if word.replace(",", "").replace(".", "").isdigit():
        begin, end = r"(?<![\w])(?<!\d[.,])", r"(?!\w)(?![.,]\d)"
    return begin + re.escape(word) + end


def _vowel(word: str) -> bool:
    """Whether an article before the word is "an"."""
    word = word.lstrip("#@$'\"")
    if _SPELLED.match(word):
        return True
    low = word.lower()
    return low.startswith(_SILENT) or (low[:1] in tuple("aeiou8") and not low.startswith(_CONSONANT))


def stands_in(word: str, text: str) -> bool:
    """Whether a word stands in a text, in any case, with no letter or digit beside it."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word.lower())}(?![a-z0-9])", text.lower()) is not None
