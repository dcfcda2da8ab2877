"""The same story about other people, places and days: entities exchanged in world, texts and calls at once.

Nothing has to be found again, so this takes a fifth of the time of making a task anew; and it works for any task, also
for one that a person wrote. What comes out is executed and checked like every other task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import immutables
import msgspec

from rods_env.apis.api import Record, World
from rods_env.apis.draw import ID_ALPHABET, Draw, day_after, is_day
from rods_env.apis.lexicon import CITIES, SENTENCES, SUBJECTS, Person, draw_cast
from rods_env.apis.registry import TABLES, TOOLS, Port, Services, fields_of, generation
from rods_env.errors import SynthesisError, ToolError
from rods_env.tasks.task import Call, Task, Turn, make_task
from rods_env.tasks.text import MONTHS, say_date

_ID = re.compile(rf"[a-z]{{2,4}}_[{ID_ALPHABET}]{{5}}")
_DAY = rf"\d{{1,2}} (?:{'|'.join(MONTHS)})(?: \d{{4}})?"
_SPAN = 8  # how many weeks a story is moved, at most
_FREE = 16  # a longer text may hold names; a shorter one is a name itself, or none

Pieces = tuple[str, ...]  # a text cut up: plain pieces at even places, names and days at odd ones


def people_of(world: World) -> tuple[Person, ...]:
    """The people that a world knows by name and address."""
    found: dict[str, Person] = {}
    for rows in world.tables.values():
        for row in rows.values():
            if type(row).CALLED == "{name}":
                found[row.name] = Person(row.name, row.email, "")  # type: ignore[attr-defined]  # what CALLED says
    return tuple(found[name] for name in sorted(found))


class Renamer:
    """Knows the names in a world, and cuts texts up at them.

    Args:
        people: the people of the world.

    Attributes:
        doubtful: first names that two people have, or that are ordinary words too.
    """

    def __init__(self, people: Sequence[Person]) -> None:
        self.people = tuple(people)
        firsts = Counter(person.first for person in people)
        self.doubtful = {first for first, n in firsts.items() if n > 1 or first.lower() in ordinary_words(generation())}
        words = [word for words in exchangeable(generation()) for word in words]
        quoted = [f'"{subject}"' for subject in SUBJECTS]  # without quotes, "One more thing." is nobody's subject
        self.names = [*(p.name for p in people), *(p.email for p in people), *firsts, *words, *quoted]
        longest_first = sorted(self.names, key=len, reverse=True)
        self._names = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))}|{_DAY})(?!\w)")
        self._cut: dict[str, Pieces] = {}

    def cut(self, text: str) -> Pieces:
        """A text cut up at names and days. Texts of worlds come again and again, so the result is kept."""
        pieces = self._cut.get(text)
        if pieces is None:
            pieces = self._cut[text] = tuple(self._names.split(text))
        return pieces


class Renaming:
    """One exchange of all names, ids and days of a world. The tables it has rewritten are kept for the next task.

    Args:
        renamer: what the names are.
        world: a world with these people; others that share its tables may be renamed too.
        draw: the source of chance.
    """

    def __init__(self, renamer: Renamer, world: World, draw: Draw) -> None:
        self.renamer = renamer
        self.year = world.now[:4]
        weeks = draw.integer(1, _SPAN)
        self.days = 7 * (weeks if draw.chance(0.5) or world.now < "2001" else -weeks)  # whole weeks: Mondays stay
        self.now = day_after(world.now[:10], self.days) + world.now[10:]
        self._ids = str.maketrans(ID_ALPHABET, "".join(draw.shuffled(ID_ALPHABET)))
        taken = set(renamer.names)
        cast = [p for p in draw_cast(draw, 2 * len(renamer.people)).people if p.name not in taken]
        self.names: dict[str, str] = {}
        for old, new in zip(renamer.people, cast, strict=False):
            self.names.update({old.name: new.name, old.email: new.email, old.first: new.first})
        for words in exchangeable(generation()):
            self.names.update(zip(words, draw.shuffled(words), strict=True))
        for old_subject, subject in zip(SUBJECTS, draw.shuffled(SUBJECTS), strict=True):
            self.names.update({old_subject: subject, f'"{old_subject}"': f'"{subject}"'})
        self._tables: dict[str, tuple[Any, Any]] = {}

    def text(self, text: str) -> str:
        """A text with other names and days."""
        pieces = self.renamer.cut(text)
        if len(pieces) == 1:
            return text
        said = list(pieces)
        for at in range(1, len(pieces), 2):
            said[at] = self.names.get(pieces[at]) or self._said_day(pieces[at])
            if said[at - 1].endswith((" a ", " an ")):
                said[at - 1] = said[at - 1].rstrip("an ") + (" an " if said[at][0] in "AEIOU" else " a ")
        return "".join(said)

    def id(self, value: str) -> str:
        """The id that takes the place of another: the letters behind the prefix are exchanged."""
        return value[:-5] + value[-5:].translate(self._ids)

    def value(self, port: Port, value: Any) -> Any:
        """What takes the place of a value of a field or an argument."""
        if not isinstance(value, str) or port.choices:
            return value
        if port.ref:
            return self.id(value)
        if port.kind == "date" and is_day(value):
            return day_after(value, self.days)
        name = self.names.get(value)
        if name is not None:
            return name
        if value[-6:-5] == "_" and _ID.fullmatch(value):
            return self.id(value)
        return value if len(value) < _FREE else self.text(value)

    def world(self, world: World) -> World:
        """The world with everything exchanged."""
        tables = {}
        for name, rows in world.tables.items():
            kept = self._tables.get(name)
            if kept is None or kept[0] is not rows:
                renamed = [self._row(row) for row in rows.values()]
                kept = self._tables[name] = (rows, immutables.Map({row.id: row for row in renamed}))  # type: ignore[attr-defined]
            tables[name] = kept[1]
        return World(self.now, immutables.Map(tables))

    def _row(self, row: Record) -> Record:
        values = list(msgspec.structs.astuple(row))
        for at, port in _changing(type(row)):
            value = values[at]
            if port.ref:
                values[at] = value[:-5] + value[-5:].translate(self._ids)
            elif value:
                values[at] = self.value(port, value)
        return type(row)(*values)

    def _said_day(self, said: str) -> str:
        """"4 May" or "4 May 2027", as many days later; the year is said if it is not the present one."""
        number, month, *year = said.split()
        day = f"{year[0] if year else self.year}-{MONTHS.index(month) + 1:02d}-{int(number):02d}"
        return say_date(day_after(day, self.days), self.now[:4])


@lru_cache(maxsize=4)
def ordinary_words(_: int) -> frozenset[str]:
    """The words in which tools are asked for, and the months, for the APIs that are registered at present."""
    texts = [text for tool in TOOLS.values() for text in (*tool.spec.ask, tool.spec.rows, tool.spec.done, *MONTHS)]
    return frozenset(word.lower() for text in texts for word in re.findall(r"\w+", text))


@lru_cache(maxsize=256)
def _changing(record: type[Record]) -> tuple[tuple[int, Port], ...]:
    """The fields of a record that may hold something to exchange, with their places."""
    fields = enumerate(fields_of(record))
    return tuple((at, port) for at, port in fields if port.type == "str" and not port.choices and port.kind != "time")


@lru_cache(maxsize=4)
def exchangeable(_: int) -> tuple[tuple[str, ...], ...]:
    """Lists of names and canned texts: those that all APIs share, and those of the registered APIs that are marked so.

    A word that two lists have is left out: it could not be said which of the two a text means.
    """
    ports = [p for tool in TOOLS.values() for p in tool.params]
    ports += [field for table in TABLES.values() for field in fields_of(table.record)]
    lists = [CITIES, SENTENCES, *sorted({port.words for port in ports if port.exchangeable})]
    count = Counter(word for words in lists for word in words)
    return tuple(tuple(word for word in words if count[word] == 1) for words in lists)


class _Argument(NamedTuple):
    """An argument of a gold call, and the place of its value if it is the id of something that a call made."""

    port: Port
    value: Any
    made: tuple[int, int, str] | None  # call, row of its result, field


class Template:
    """A task, taken apart so that it can be told again about other entities.

    Args:
        task: a valid task.
        renamer: the names in its world.

    Attributes:
        last_maker: the last call that makes something whose id a later one needs; -1 if there is none.
        names: whether the texts name anything that can be exchanged (if not, every telling would read the same), and
            nothing that might be another person or an ordinary word ("Mark", "May").
    """

    def __init__(self, task: Task, renamer: Renamer) -> None:
        self.task = Task(task.id, task.kind, task.apis, task.turns, task.world, task.parent)  # without what it caches
        self.renamer = renamer
        ids = {row for rows in task.world.tables.values() for row in rows}
        self.calls: list[list[_Argument]] = []
        for call, sources, step in zip(task.calls, task.sources, task.gold.steps, strict=True):
            arguments = []
            for name, value in call.arguments.items():
                source = sources.get(name)
                port, made = step.tool.by_name[name], None
                if source is not None and port.ref and value not in ids:
                    made = _place(task.gold.steps[source].rows, port, value, source)
                arguments.append(_Argument(port, value, made))
            self.calls.append(arguments)
        makers = [argument.made[0] for arguments in self.calls for argument in arguments if argument.made]
        self.last_maker = max(makers, default=-1)
        said = {name for turn in task.turns for name in renamer.cut(turn.message)[1::2]}
        self.names = bool(said) and said.isdisjoint(renamer.doubtful)

    def renamed(self, renaming: Renaming, parent: str | None) -> Task:
        """The task with everything exchanged, as a variant of `parent`. Its gold calls are not executed yet.

        Raises:
            SynthesisError: `renaming`, if a call fails that makes something which a later call needs.
        """
        old = self.task
        world = renaming.world(old.world)
        told = iter(self._calls(renaming, world))
        turns = []
        for turn in old.turns:
            calls = tuple([next(told) for _ in turn.calls])
            mentions = tuple([msgspec.structs.replace(m, text=renaming.text(m.text)) for m in turn.mentions])
            turns.append(Turn(renaming.text(turn.message), calls, turn.adds, mentions))
        return make_task(old.kind, old.apis, tuple(turns), world, parent)

    def _calls(self, renaming: Renaming, world: World) -> list[Call]:
        services = Services(world) if self.last_maker >= 0 else None
        calls: list[Call] = []
        results: list[list[Any]] = []
        for call, arguments in zip(self.task.calls, self.calls, strict=True):
            values: dict[str, Any] = {}
            for port, value, made in arguments:
                if made is None:
                    values[port.name] = renaming.value(port, value)
                else:  # ids come from contents, which are others now
                    maker, row, field = made
                    values[port.name] = getattr(results[maker][row], field)
            calls.append(Call(call.tool, values, call.spoken))
            if services is not None and len(calls) <= self.last_maker + 1:
                results.append(_run(services, call.tool, values))
        return calls


def _place(rows: list[Any], port: Port, value: Any, source: int) -> tuple[int, int, str] | None:
    for at, row in enumerate(rows):
        for field in fields_of(type(row)):
            if field.ref == port.ref and getattr(row, field.name) == value:
                return source, at, field.name
    return None


def _run(services: Services, name: str, values: dict[str, Any]) -> list[Any]:
    tool = TOOLS[name]
    try:
        result = services.run(tool, tuple([values.get(p.name, p.default) for p in tool.params]))
    except ToolError as error:
        raise SynthesisError(f"{name} fails in the other world: {error}", reason="renaming") from None
    return result if isinstance(result, list) else [result]
