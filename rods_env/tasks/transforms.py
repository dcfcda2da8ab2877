"""From a base task to the three harder kinds: explicit operations that keep the base graph.

`missing_function` and `missing_parameter` insert a turn in which the agent can only ask. What the user wanted in that
turn is supplied in the next one, and the gold calls move there. `long_context` keeps all turns in a larger world.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import immutables
import msgspec

from rods_env.apis.api import World
from rods_env.apis.draw import Draw
from rods_env.apis.registry import APIS, TOOLS, Port, check_apis, fields_of
from rods_env.apis.worlds import draw_world
from rods_env.errors import SynthesisError
from rods_env.tasks.graph import source_of
from rods_env.tasks.shapes import Shape, shape_of
from rods_env.tasks.task import Kind, Task, Turn, make_task
from rods_env.tasks.text import is_said, say, stands_in

LONG_CONTEXT_SIZE = 4  # how many times the usual number of rows
_WIDENINGS = 3  # much of what is drawn falls away again

_GRANTED = (
    "You should have what you need for that now. Please go ahead.",
    "I asked our administrator; you can do that now. Please go ahead.",
    "Sorry, the permission for that was missing. It is there now, so please go on.",
    "That should work from now on. Please do what I asked for.",
    "That function was switched off; it is back now. Go ahead, please.",
)

_GREETING = re.compile(r"(?:Hi|Hello|Good morning), [^.]*\. ")

# What a person leaves out with its preposition: "show me the flights to Rome on 4 May". `{}` is what was left out.
_PLURAL = re.compile(r" [a-z]+s\b")
_LEFT_OUT = re.compile(r" (?:from|to|in|on|for|at) $")
_SUPPLY_LEFT_OUT = ("{}.", "Sorry, I forgot to say: {}.", "{}, please.", "Oh, {}.")

# How a number that was left vague ("some pieces", "some money") is supplied.
_SUPPLY_NUMBER = ("Sorry, I forgot to say how {how}: {value}.", "Make it {value}, please.", "Let me say {value}.")
_HOW = {"amount": "much", "minutes": "long"}


def _candidates(task: Task, at: int | None) -> Iterator[int]:
    """Turns in which the user asks for one thing only: then nothing of it can be done while something is missing."""
    if task.kind != "base":
        raise SynthesisError(f"expected a base task; {task.id} is of kind {task.kind}.", reason="transform")
    for t, turn in enumerate(task.turns):
        if sum(call.spoken for call in turn.calls) == 1 and at in (None, t):
            yield t


def _insert(
    task: Task, kind: Kind, at: int, asked: str, supplied: str, adds: tuple[str, ...], open_: tuple[str, str] = ("", "")
) -> Task:
    old = task.turns[at]
    mentions = tuple(msgspec.structs.replace(m, text=m.text.replace(*open_)) if open_[0] else m for m in old.mentions)
    turns = (
        *task.turns[:at],
        Turn(asked),
        Turn(supplied, old.calls, adds, mentions),
        *task.turns[at + 1 :],
    )
    return make_task(kind, task.apis, turns, task.world, task.parent)


def missing_function(task: Task, draw: Draw, at: int | None = None) -> Task:
    """The same task with a needed tool withheld for one turn.

    Args:
        task: a base task.
        draw: the source of chance.
        at: the turn, counted from 0; drawn when not given.

    Raises:
        SynthesisError: `transform`, when no turn asks for exactly one thing by a tool that no earlier turn needs.
    """
    for t in draw.shuffled(list(_candidates(task, at))):
        wanted = next(call.tool for call in task.turns[t].calls if call.spoken)
        before = {call.tool for turn in task.turns[:t] for call in turn.calls}
        if wanted not in before and not TOOLS[wanted].reads and wanted not in TOOLS[wanted].api.SUBSTITUTES:
            return _insert(task, "missing_function", t, task.turns[t].message, draw.choice(_GRANTED), (wanted,))
    raise SynthesisError("no tool can be withheld for a turn.", reason="transform")


def missing_parameter(task: Task, draw: Draw, at: int | None = None) -> Task:
    """The same task with a value that only the user knows left out, and supplied in the next turn.

    Args:
        task: a base task.
        draw: the source of chance.
        at: the turn, counted from 0; drawn when not given.

    Raises:
        SynthesisError: `transform`, when no turn has such a value.
    """
    year = task.world.now[:4]
    steps, turn_of = task.gold.steps, task.turn_of_call
    for t in draw.shuffled(list(_candidates(task, at))):
        message = task.turns[t].message
        before = "\n".join(turn.message for turn in task.turns[:t])
        first = turn_of.index(t)
        for offset, call in draw.shuffled(list(enumerate(task.turns[t].calls))):
            for name, value in draw.shuffled(list(call.arguments.items())):
                port = TOOLS[call.tool].by_name[name]
                if not port.required or port.quote or value == 1 or is_said(port, value, before, year):
                    continue
                if source_of(port, value, steps[: first + offset]) is not None:
                    continue
                if _has_default(task, first + offset, port):
                    continue
                left = _left_open(message, port, say(port, value, year), TOOLS[call.tool].skill, draw)
                if left is not None:
                    return _insert(task, "missing_parameter", t, left.asked, left.supplied, (), left.cut)
    raise SynthesisError("no value can be left out.", reason="transform")


def long_context(task: Task, draw: Draw, size: int = LONG_CONTEXT_SIZE) -> Task:
    """The same task in a world several times as large, with two further APIs offered.

    Rows that a gold call would read are left out, so that every call returns what it did and every phrase still means
    one thing.

    Args:
        task: a base task.
        draw: the source of chance.
        size: how many times the usual number of rows is drawn, three times over; about half of them can stay.

    Raises:
        SynthesisError: `transform`, if the task is no base task, or all APIs are offered already.
    """
    if task.kind != "base":
        raise SynthesisError(f"expected a base task; {task.id} is of kind {task.kind}.", reason="transform")
    extra = draw.sample([name for name in APIS if name not in task.apis], 2)
    if not extra:
        raise SynthesisError(f"{task.id} offers every API already.", reason="transform")
    apis = check_apis((*task.apis, *extra))
    world = task.world
    for widening in range(_WIDENINGS):
        more, _ = draw_world(draw, task.apis if widening else apis, size=size, today=task.world.today)
        world = _widened(task, world, more)
    return _task_in(task, apis, world, "long_context")


def _widened(task: Task, world: World, more: World) -> World:
    """The world with the rows of another, but for those that a gold call would read and what refers to them."""
    wide = _merged(world, more)
    read = {cell for step in _task_in(task, task.apis, wide).gold.steps for cell in step.reads}
    gone = {key for table, key in read if key not in world.tables[table]}
    tables, nothing = {}, immutables.Map[str, Any]()
    for name, rows in wide.tables.items():
        known = world.tables.get(name, nothing)
        tables[name] = immutables.Map({k: row for k, row in rows.items() if k in known or not _refers(row, gone)})
    return World(world.now, immutables.Map(tables))


def _task_in(task: Task, apis: tuple[str, ...], world: World, kind: Kind = "base") -> Task:
    return make_task(kind, apis, task.turns, world, task.parent)


def _merged(world: World, more: World) -> World:
    """A world with the rows of another. An entity that both know by the same name is one and the same."""
    tables, nothing = dict(world.tables), immutables.Map[str, Any]()
    same: dict[str, str] = {}
    for name, rows in more.tables.items():
        known = {_called(row): key for key, row in world.tables.get(name, nothing).items()}
        same.update({key: known[_called(row)] for key, row in rows.items() if known.get(_called(row))})
    for name, rows in more.tables.items():
        new = {key: _with_ids(row, same) for key, row in rows.items() if key not in same}
        tables[name] = immutables.Map({**new, **world.tables.get(name, nothing)})
    return World(world.now, immutables.Map(tables))


def _called(row: Any) -> str:
    """The name by which a person knows the entity, or "" if it has none."""
    return row.CALLED.format(**msgspec.structs.asdict(row)) if row.CALLED else ""


def _with_ids(row: Any, same: dict[str, str]) -> Any:
    changed = {f.name: same[getattr(row, f.name)] for f in fields_of(type(row)) if getattr(row, f.name) in same}
    return msgspec.structs.replace(row, **changed) if changed else row


def _refers(row: Any, gone: set[str]) -> bool:
    """Whether a row is, or is about, one that is left out."""
    return not gone.isdisjoint(value for value in msgspec.structs.astuple(row) if isinstance(value, str))


def transformed(task: Task, kind: Kind, draw: Draw, at: int | None = None) -> Task:
    """A base task turned into one of the kinds in which something is missing; for other kinds it stays as it is."""
    if kind == "missing_function":
        return missing_function(task, draw, at)
    if kind == "missing_parameter":
        return missing_parameter(task, draw, at)
    return task


def base_shape(task: Task) -> Shape:
    """The shape of a task without the turn of asking, which transforms insert."""
    turns: list[int] = []
    for turn in task.turn_of_call:  # number the turns that have calls
        turns.append(turn - sum(1 for earlier in task.turns[:turn] if not earlier.calls))
    return shape_of([call.tool for call in task.calls], turns, [call.spoken for call in task.calls], task.edges)


def _has_default(task: Task, index: int, port: Port) -> bool:
    """Whether a sensible agent could go on without the value: today, a person's city, or a depot known already."""
    tool = task.gold.steps[index].tool
    if port.kind != "city":
        return port.kind == "date" and tool.reads
    found = tool.fields[0].ref if tool.skill == "lookup" else ""
    for other in (step.tool for i, step in enumerate(task.gold.steps) if i != index):
        if other.record.CALLED == "{name}" and any(field.kind == "city" for field in other.fields):
            return True
        if found and any(field.ref == found for field in other.fields):
            return True
    return False


class _Left(NamedTuple):
    """A message with something left open.

    Attributes:
        asked: the message.
        supplied: what the user says in the next turn.
        cut: the piece of text that went, and what stands in its place.
    """

    asked: str
    supplied: str
    cut: tuple[str, str]


def _left_open(message: str, port: Port, said: str, skill: str, draw: Draw) -> _Left | None:
    """The message with the value left open; None where that cannot be said, or would not be noticed."""
    greeting = _GREETING.match(message)
    at = message.find(said)
    if at < (greeting.end() if greeting else 0) or not stands_in(said, message) or message.count(said) != 1:
        return None
    before, after = message[:at], message[at + len(said) :]
    if after.startswith(("'s", "-")) or before.endswith("-") or before.count('"') % 2:  # or inside a quoted text
        return None
    if port.kind in ("city", "date"):
        preposition = _LEFT_OUT.search(before)
        if preposition is None or after.startswith(" at "):  # "move it to 4 May at 10:00"
            return None
        cut = f"{preposition[0]}{said}"
        supplied = draw.choice(_SUPPLY_LEFT_OUT).format(cut.strip())
        return _Left(message.replace(cut, ""), supplied[0].upper() + supplied[1:], (cut, ""))
    # "Work out what some pieces cost" could be answered with any number, and a rating of some stars is no rating.
    if port.type == "str" or port.kind == "rating" or skill == "compute" or before.endswith(" of "):
        return None
    if port.unit:
        vague = "some money" if port.kind == "amount" else f"some {port.unit}"
    elif _PLURAL.match(after):
        vague = "some"
    else:
        return None
    supplied = draw.choice(_SUPPLY_NUMBER).format(how=_HOW.get(port.kind, "many"), value=said)
    return _Left(before + vague + after, supplied, (said, vague))
