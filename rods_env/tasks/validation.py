"""`validate`: every rule of a valid task, checked on a fresh world from nothing but the task itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from rods_env.apis.registry import APIS, TOOLS, Services, lacking_table, tools_of
from rods_env.errors import RodsError, ToolError
from rods_env.tasks.picks import picked
from rods_env.tasks.replay import Gold
from rods_env.tasks.task import KINDS, Mention, Task
from rods_env.tasks.text import is_said

MAX_STRING = 200
MAX_LIST = 5

_WORDS = re.compile(r"\w+")
_UNFILLED = re.compile("[{}~]|  ")
_ID = re.compile(r"\b[a-z]{2,4}_[a-z0-9]{5}\b")


def validate(task: Task, pool: Collection[Task] = ()) -> list[str]:
    """Every rule that a task breaks, as sentences; an empty list for a valid task.

    Args:
        task: the task; one of BFCL's is checked by rules of its own (docs/bfcl-findings.md).
        pool: other tasks, none of which it may equal.
    """
    if task.ENVIRONMENT != Task.ENVIRONMENT:
        from rods_env.bfcl.findings import broken_rules  # other rules, and only with the package bfcl-eval

        return broken_rules(task)
    broken = list(_structure(task))
    if broken:
        return broken
    try:
        gold = task.gold
    except RodsError as error:
        return [f"The gold calls do not replay: {error}"]
    broken += _idle(task, gold)
    broken += _arguments(task)
    broken += _asking(task, gold)
    broken += _mentions(task, gold)
    broken += _offers(task)
    broken += _text(task)
    if any(other == task for other in pool if other is not task):
        broken.append("It equals another task of the pool.")
    return broken


def offered_tools(task: Task, turn: int) -> list[str]:
    """The names of the tools that are offered in a turn (counted from 0)."""
    later = _added_after(task, turn)
    return [tool.name for tool in tools_of(task.apis) if tool.name not in later]


def _added_after(task: Task, turn: int) -> set[str]:
    return {name for later in task.turns[turn + 1 :] for name in later.adds}


def _structure(task: Task) -> Iterator[str]:
    if task.kind not in KINDS:
        yield f"The kind must be one of {', '.join(KINDS)}; it is {task.kind!r}."
    if not task.turns or not task.calls:
        yield "A task needs at least one turn with a gold call."
    unknown = [name for name in task.apis if name not in APIS]
    if unknown or not task.apis:
        yield f"The APIs must be registered ones; unknown: {unknown}."
    lacking = None if unknown else lacking_table(task.world, task.apis)
    if lacking:
        yield f"The world lacks the table {lacking!r} of an API of the task."
    for number, turn in enumerate(task.turns, 1):
        if not turn.message.strip():
            yield f"Turn {number} has no message."
        unneeded = sorted(set(turn.adds) - {call.tool for call in turn.calls})
        if unneeded:
            yield f"Turn {number} adds the tool {unneeded[0]!r}, which none of its calls needs."
    empty = [t for t, turn in enumerate(task.turns) if not turn.calls]
    missing = task.kind in ("missing_function", "missing_parameter")
    if len(empty) != missing:
        yield f"A task of kind {task.kind!r} has {int(missing)} turn(s) without gold calls; this one has {len(empty)}."
    elif missing and empty[0] == len(task.turns) - 1:
        yield "What is missing is never supplied: the turn without gold calls is the last one."
    adding = [t for t, turn in enumerate(task.turns) if turn.adds]
    if (task.kind == "missing_function") != bool(adding):
        yield "A task adds tools in a later turn if, and only if, its kind is 'missing_function'."
    elif adding and empty and adding != [empty[0] + 1]:
        yield "The missing tools must be added in the turn after the one without gold calls."


def _idle(task: Task, gold: Gold) -> Iterator[str]:
    """Doing nothing must pass no turn that has gold calls, neither from the start nor after all turns before."""
    before, seen, index = task.world, set[str](), 0
    for number, turn in enumerate(task.turns, 1):
        steps = gold.steps[index : index + len(turn.calls)]
        index += len(turn.calls)
        answers = gold.answers[number - 1]
        if turn.calls:
            world = gold.worlds[number - 1]
            if world == task.world and not answers:
                yield f"Turn {number}: doing nothing from the start passes it."
            if world == before and seen.issuperset(answers):
                yield f"Turn {number}: doing nothing in it passes it."
            if any(call.spoken and not TOOLS[call.tool].reads and not step.writes
                   for call, step in zip(turn.calls, steps, strict=True)):  # fmt: skip
                yield f"Turn {number}: a call that should change something changes nothing."
            before = world
        seen.update(step.text for step in steps)


def _arguments(task: Task) -> Iterator[str]:
    """Every argument stands in the text shown so far or in an earlier result; strings and lists are short."""
    for call, sources, turn in zip(task.calls, task.sources, task.turn_of_call, strict=True):
        for name, value in call.arguments.items():
            where = f"Turn {turn + 1}, {call.tool}({name}={value!r})"
            if name not in sources:
                yield f"{where}: the value stands neither in the text so far nor in an earlier result."
            if isinstance(value, str) and len(value) > MAX_STRING:
                yield f"{where}: longer than {MAX_STRING} characters."
            if isinstance(value, list) and len(value) > MAX_LIST:
                yield f"{where}: more than {MAX_LIST} items."


def _asking(task: Task, gold: Gold) -> Iterator[str]:
    """In the turn of asking, a value that the next turn's calls need must be missing, or a tool."""
    if task.kind != "missing_parameter":
        return
    at = next(t for t, turn in enumerate(task.turns) if not turn.calls)
    text, year = "\n".join(turn.message for turn in task.turns[: at + 1]), task.world.now[:4]
    for index, call in enumerate(task.calls):
        if task.turn_of_call[index] == at + 1:
            by_name = gold.steps[index].tool.by_name
            for name, source in task.sources[index].items():
                if source is None and not is_said(by_name[name], call.arguments[name], text, year):
                    return
    yield f"Turn {at + 1}: nothing is missing in it, and yet it has no gold calls."


def _mentions(task: Task, gold: Gold) -> Iterator[str]:
    """What the text refers to must be exactly one row of the result it is in, or have been mentioned before."""
    known: set[str] = set()
    text = ""
    shown = 0  # spoken calls whose results the story has shown
    for number, turn in enumerate(task.turns, 1):
        text += turn.message + "\n"
        for mention in turn.mentions:
            where = f"Turn {number}, {mention.text!r}"
            if mention.text not in text:
                yield f"{where}: does not stand in the text."
            if not 0 <= mention.source < mention.call < len(task.calls):
                yield f"{where}: refers to a call that does not come before it."
                return
            while shown < mention.call:
                if task.calls[shown].spoken:
                    known.update(getattr(row, "id", "") for row in gold.steps[shown].rows)
                shown += 1
            value = task.calls[mention.call].arguments.get(mention.argument)
            step = gold.steps[mention.source]
            holders = [row for row in step.rows if value in msgspec.structs.astuple(row)]
            if not holders:
                yield f"{where}: the result it refers to does not hold {value!r}."
            elif mention.pick == "again":
                if not any(row.id in known for row in holders):
                    yield f"{where}: was not mentioned before."
            else:
                name = mention.pick.partition(":")[2]
                chosen = [picked(step.rows, mention.pick, getattr(row, name) if name else None) for row in holders]
                if not any(rows == [row] for rows, row in zip(chosen, holders, strict=True)):
                    yield f"{where}: fits {len(chosen[0])} of the {len(step.rows)} rows it may refer to."
                elif step.tool.many and _another_by_now(task, gold, mention, chosen):
                    yield f"{where}: means another row by the time it is said."
            known.update(getattr(row, "id", "") for row in holders)


def _another_by_now(task: Task, gold: Gold, mention: Mention, chosen: list[list[Any]]) -> bool:
    """Whether the list that a phrase chooses from has changed since it was read, such that it chooses another row."""
    step, world = gold.steps[mention.source], gold.steps[mention.call].world
    if step.world is world:
        return False
    arguments = step.tool.decode(msgspec.json.encode(task.calls[mention.source].arguments))
    try:
        rows = Services(world).run(step.tool, arguments)
    except ToolError:
        return True
    old = next(rows[0] for rows in chosen if len(rows) == 1)
    name = mention.pick.partition(":")[2]
    now = picked(rows, mention.pick, getattr(old, name) if name else None)  # type: ignore[arg-type]  # a list, as it was
    return [row.id for row in now] != [old.id]


def _offers(task: Task) -> Iterator[str]:
    for number, turn in enumerate(task.turns, 1):
        later = _added_after(task, number - 1)
        for call in turn.calls:
            if call.tool in later or TOOLS[call.tool].api.NAME not in task.apis:
                yield f"Turn {number}: the needed tool {call.tool} is not offered."


def _text(task: Task) -> Iterator[str]:
    """What nobody would say: ids, names of tools, unfilled phrases."""
    if not _strange("\n".join([turn.message for turn in task.turns])):
        return
    for number, turn in enumerate(task.turns, 1):
        if _ID.search(turn.message):
            yield f"Turn {number}: the text holds an id, which a person would not know."
        if _UNFILLED.search(turn.message):
            yield f"Turn {number}: the text holds an unfilled phrase."
        if _names_tool(turn.message):
            yield f"Turn {number}: the text names a tool."


def _strange(text: str) -> bool:
    return bool("_" in text or _UNFILLED.search(text))


def _names_tool(text: str) -> bool:
    return any("_" in word and word in TOOLS for word in _WORDS.findall(text))
