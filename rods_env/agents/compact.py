"""A conversation in the few words that a tiny policy knows: short, and every id, address and quoted text one word.

A network of a million parameters cannot spell `ord_k3v9x`, and need not learn to. `CompactChat` stands between such a
policy and the environment: whatever a person could not say by heart becomes a numbered word when it is first seen
(`#3` an id, `@1` an address, `"2` a quoted text), the same word wherever it comes again, and is put back when the
policy writes it. Dates are written as people say them, results without names of fields, calls without names of
arguments:

    find_customer Ana Ruiz            →  {"name": "find_customer", "arguments": {"name": "Ana Ruiz"}}
    {"id": "cus_k3v9x", "name": "Ana Ruiz", …}  →  Ana Ruiz @1 Oslo #1

Nothing is told that the texts do not tell, and nothing is left out but names of fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rods_env.apis.api import Table
from rods_env.apis.draw import is_day
from rods_env.apis.registry import APIS, TOOLS, Port, Tool, generation, placeholders
from rods_env.envs.calls import write_calls
from rods_env.envs.transcript import Message
from rods_env.tasks.text import MONTHS, say_date

SEPARATOR = ","  # between arguments, and between rows
NO_CALL = "ok"  # what a policy says when it is done, or can only ask
_KINDS = {"id": "#", "email": "@", "quote": '"'}
_ID = re.compile(r"[a-z]{2,4}_[a-z0-9]{5}\Z")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.\w+\Z")
_YEAR = re.compile(r"20[0-3]\d\Z")
_WORDS = re.compile(
    r"""\"[^"]*\"                     # a quoted text
    | [^@\s,;:!?()"']+@[\w.-]+\.\w+   # an address
    | \d+(?=\.\d) | \d+ | \.(?=\d)    # a number, its point
    | [^\W\d]+'(?!s\b)[a-z]+ | 's\b  # "I'd"; "Ana", "'s"
    | [^\W\d][\w-]*(?:\.[a-z]{3,4}\b)?  # a word, or the name of a file
    | [^\w\s]""",
    re.VERBOSE,
)


class CompactChat:
    """One episode, between the messages of an environment and the words of a tiny policy.

    Args:
        year: the current year of the task, "2026", which is not said with dates.
    """

    def __init__(self, year: str) -> None:
        self.year = year
        self._words: dict[str, str] = {}  # what was numbered, to its word
        self._values: dict[str, str] = {}  # a word, to what it stands for
        self._spelled: dict[str, str] = {}  # words with spaces between, to the text they were cut from
        self._counts = dict.fromkeys(_KINDS.values(), 0)

    # ------------------------------------------------------------------ reading

    def tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The names of the offered tools."""
        return " ".join(schema["function"]["name"] for schema in schemas)

    def text(self, message: str) -> str:
        """What a user says."""
        pieces = _pieces(message)
        if '"' not in message and "@" not in message and "_" not in message:  # nothing that might be numbered
            return " ".join(pieces)
        return " ".join(self._word(piece) for piece in pieces)

    def result(self, text: str) -> str:
        """What a tool returned, as the environment writes it: one record, a list of them, or an error."""
        found = json.loads(text)
        if isinstance(found, dict) and set(found) == {"error"}:
            return "error " + self.text(found["error"])
        rows = found if isinstance(found, list) else [found]
        return f" {SEPARATOR} ".join(" ".join(self._row(row)) for row in rows) or "nothing"

    def message(self, message: Message) -> dict[str, str]:
        """A message of the environment's conversation with its content in words. Roles stay as they are."""
        content = message["content"]
        said = self.result(content) if message["role"] == "tool" else self.text(content)
        return {"role": message["role"], "content": said}

    def _row(self, row: Mapping[str, Any]) -> Iterator[str]:
        """The values of a record, the own id right behind what it is called by: whoever looks for "the blue lamp" in a
        list finds the id in the next word."""
        own = row.get("id")
        key = _called_by(generation()).get(own[:3]) if own is not None else None
        for name, value in row.items():
            if name != "id" and value != "":
                yield self.value(value)
            if name == key:
                yield self.value(own)
        if own is not None and key not in row:
            yield self.value(own)

    def value(self, value: Any) -> str:
        """A value of a result or an argument in words."""
        if not isinstance(value, str):
            return " ".join(_digits(value))
        if is_day(value):
            return say_date(value, self.year)
        # A look for the sign first: most values have neither.
        if "_" in value and _ID.match(value):
            return self._numbered("id", value)
        if "@" in value and _EMAIL.match(value):
            return self._numbered("email", value)
        if value.endswith((".", "?", "!")):  # a sentence, which would stand in quotes
            return self._numbered("quote", value)
        known = self._words.get(value)
        if known is not None:
            return known
        said = " ".join(_pieces(value))
        self._spelled[said] = value
        return said

    def _word(self, piece: str) -> str:
        if piece.startswith('"') and len(piece) > 2:
            return self._numbered("quote", piece[1:-1])
        if "@" in piece and _EMAIL.match(piece):
            return self._numbered("email", piece)
        return self._words[piece] if "_" in piece and piece in self._words and _ID.match(piece) else piece  # in errors

    def _numbered(self, kind: str, value: str) -> str:
        word = self._words.get(value)
        if word is None:
            sign = _KINDS[kind]
            self._counts[sign] += 1
            word = self._words[value] = f"{sign}{self._counts[sign]}"
            self._values[word] = value
        return word

    # ------------------------------------------------------------------ writing

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """A call in words: the tool, and its arguments in order; an optional one behind its name and a "="."""
        said = []
        for port in tool.params:
            if port.name in arguments:
                value = self.value(arguments[port.name])
                said.append(value if port.required else f"{port.name} = {value}")
        return " ".join([tool.name, f" {SEPARATOR} ".join(said)]).strip()

    def action(self, said: str) -> str:
        """What a policy wrote, as the environment reads it: a call, or a message without one.

        What is no call becomes one that the environment refuses with an error, from which the policy can learn.
        """
        words = said.split()
        if not words or words[0] == NO_CALL:
            return "Done."
        tool = TOOLS.get(words[0])
        given = [part.strip() for part in " ".join(words[1:]).split(SEPARATOR)] if len(words) > 1 else []
        arguments: dict[str, Any] = {}
        required = [port for port in tool.params if port.required] if tool else []
        for part in given:
            name, equals, value = part.partition(" = ")
            if equals and tool and name in tool.by_name:
                arguments[name] = self._read(tool.by_name[name], value)
            elif required:
                port = required.pop(0)
                arguments[port.name] = self._read(port, part)
            else:
                arguments[f"argument_{len(arguments) + 1}"] = part
        return write_calls([(words[0], arguments)])

    def _read(self, port: Port, said: str) -> Any:
        """The value that words stand for; the words themselves where they stand for none."""
        if said in self._values:
            return self._values[said]
        if port.type != "str":
            digits = said.replace(" ", "")
            number = re.fullmatch(r"\d{1,9}(\.\d{1,4})?", digits)
            return said if number is None else float(digits) if port.type == "float" else _whole(digits)
        day = re.fullmatch(rf"(\d{{1,2}}) ({'|'.join(MONTHS)})(?: (\d{{4}}))?", said)
        if day is not None and port.kind == "date":
            return f"{day[3] or self.year}-{MONTHS.index(day[2]) + 1:02d}-{int(day[1]):02d}"
        return self._spelled.get(said) or said.replace(" : ", ":")


@lru_cache(maxsize=1)
def _called_by(_: int) -> dict[str, str]:
    """The field by which people call or choose the records of a table, by the prefix of their ids."""
    found = {}
    for api in APIS.values():
        for table in vars(api).values():
            if isinstance(table, Table):
                called = sorted(placeholders(table.record.CALLED))
                chosen = [name for name, phrase in table.record.PICK.items() if isinstance(phrase, str)]
                for name in [*called, *chosen][:1]:
                    found[table.prefix] = name
    return found


def _digits(value: float) -> list[str]:
    """A number as words: "45", or "45", ".", "50"."""
    text = str(value) if isinstance(value, int) else f"{value:.2f}".removesuffix("0").removesuffix("0").rstrip(".")
    return [*_pieces(text)]


@lru_cache(maxsize=1 << 14)  # the members of a group hear much the same
def _pieces(text: str) -> tuple[str, ...]:
    """The words of a text; a long number in pairs of digits, so that a hundred words write every number."""
    return tuple(_cut(text))


def _cut(text: str) -> Iterator[str]:
    for piece in _WORDS.findall(text):
        if piece.isdigit() and len(piece) > 2 and not _YEAR.match(piece):
            first = len(piece) % 2 or 2
            yield piece[:first]
            yield from (piece[at : at + 2] for at in range(first, len(piece), 2))
        else:
            yield piece


def _whole(digits: str) -> Any:
    return int(digits) if digits.isdigit() else digits
