"""Gold calls executed one by one: what each returns and changes, and where its arguments stand before it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from rods_env.bfcl.simulators import BfclWorld, Simulators, same_state
from rods_env.bfcl.tasks import BfclTask
from rods_env.bfcl.tools import tools_by_name
from rods_env.errors import SynthesisError
from rods_env.tasks.graph import isomorphic
from rods_env.tasks.task import Call

_SMALL = 10  # numbers up to here stand anywhere by chance


class Step(NamedTuple):
    """A gold call that was executed: its arguments, its result as text and as data, and what it did."""

    call: Call
    text: str
    value: Any
    failed: bool
    changed: bool


def execute(
    world: BfclWorld, calls: Sequence[Call], arguments: Callable[[int, Sequence[Step]], dict[str, Any]] | None = None
) -> list[Step]:
    """Runs calls on a world, which stays as it is.

    Args:
        arguments: gives the arguments of a call by its index and the steps so far; None for those of the calls.

    Raises:
        SynthesisError: `arguments`: they do not fit the function.
    """
    simulators = Simulators(world)
    known, steps = tools_by_name(), list[Step]()
    for index, call in enumerate(calls):
        if arguments is not None:
            call = Call(call.tool, arguments(index, steps), call.spoken)
        tool = known[call.tool]
        try:
            values = tool.decode(msgspec.json.encode(call.arguments))
        except msgspec.ValidationError as error:
            raise SynthesisError(f"{call.tool}: {error}", reason="arguments") from None
        state: Any = simulators.state
        before = state.world.simulators[tool.api]
        text, failed = simulators.call(tool, values)
        after = state.simulators[tool.api]
        changed = not same_state({tool.api: after}, {tool.api: before})
        steps.append(Step(call, text, read(text), failed, changed))
    return steps


def read(text: str) -> Any:
    """A result as data: JSON if it is, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All values within nested data with their paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from leaves(inner, (*path, at))
    else:
        yield path, value


def at(value: Any, path: Sequence[Any]) -> Any:
    """What stands at a path of nested data.

    Raises:
        LookupError: if it has no such path.
    """
    for part in path:
        if not isinstance(value, dict | list):
            raise LookupError(part)
        value = value[part]
    return value


def executed(task: BfclTask) -> list[Step]:
    """The gold calls of a task, executed; kept with the task."""
    kept: Any = task.__dict__.get("_steps")
    if kept is None:
        kept = task.__dict__["_steps"] = execute(cast(BfclWorld, task.world), task.calls)
    return cast(list[Step], kept)


def same_structure(parent: BfclTask, variant: BfclTask) -> bool:
    """Whether the calls of a variant depend on messages and on each other as those of its parent.

    The same functions are called in the same turns; the same calls change their simulators and fail; and each argument
    stands in the messages of the same turns and in the results of the same earlier calls. The dependency graphs are
    isomorphic.
    """
    if [[call.tool for call in turn.calls] for turn in parent.turns] != [
        [call.tool for call in turn.calls] for turn in variant.turns
    ]:
        return False
    mine, theirs = _places(parent), _places(variant)
    if len(mine) != len(theirs) or not all(
        a.calls == b.calls and (a.chance or b.chance or a == b) for a, b in zip(mine, theirs, strict=True)
    ):
        return False
    return isomorphic(parent, variant)


class _Place(NamedTuple):
    """Where the value of an argument stands: in which messages, in which earlier results."""

    calls: Any  # the call, whether it fails and changes something, and the path of the argument
    messages: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    chance: bool = False  # a small number or the new state of a ticket, which stand anywhere


def _places(task: BfclTask) -> list[_Place]:
    kept: list[_Place] | None = task.__dict__.get("_argument_places")
    if kept is None:
        kept = task.__dict__["_argument_places"] = list(_found_places(task))
    return kept


def _found_places(task: BfclTask) -> Iterator[_Place]:
    steps = executed(task)
    messages = [re.sub(r"(?<=\d),(?=\d)", "", turn.message) for turn in task.turns]
    for index, step in enumerate(steps):
        yield _Place((step.call.tool, step.failed, step.changed))
        turn = task.turn_of_call[index]
        for path, value in leaves(step.call.arguments):
            if isinstance(value, bool) or value is None or value == "":
                continue
            number = isinstance(value, int | float)
            word = str(value).removesuffix(".0") if number else value
            ending = r"(?:\.?0+)?" if number else ""
            begin = r"(?<!\d\.)" if number else ""
            pattern = re.compile(rf"{begin}(?<![A-Za-z0-9]){re.escape(word)}{ending}(?![A-Za-z0-9])")
            yield _Place(
                path,
                tuple([n for n, said in enumerate(messages[: turn + 1]) if word in said and pattern.search(said)]),
                tuple([n for n, e in enumerate(steps[:index]) if word in e.text and pattern.search(e.text)]),
                path[0] == "updates" or (number and abs(value) <= _SMALL),
            )
