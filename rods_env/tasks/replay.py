"""Executes gold calls on a fresh world and notes results, reads and writes: graphs, grading, checks stand on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rods_env.apis.api import Record, Trace, World
from rods_env.apis.registry import TOOLS, Services, Tool, check_apis, lacking_table
from rods_env.errors import RodsError, ToolError

if TYPE_CHECKING:
    from rods_env.tasks.task import Task

Cell = tuple[str, str]  # (table name, id of the row)


class Step(NamedTuple):
    """One executed gold call.

    Attributes:
        tool: the tool.
        rows: the records it returned, as a list also where it returns one.
        text: the result as JSON text, as the policy sees it.
        reads: the rows it read.
        writes: the rows it wrote.
        world: the world before it.
    """

    tool: Tool
    rows: list[Any]
    text: str
    reads: set[Cell]
    writes: set[Cell]
    world: World


class Gold(NamedTuple):
    """A task's gold calls, executed.

    Attributes:
        steps: one for each gold call.
        worlds: the world after each turn.
        answers: for each turn the results of its spoken reads, as JSON text.
    """

    steps: tuple[Step, ...]
    worlds: tuple[World, ...]
    answers: tuple[tuple[str, ...], ...]


def execute(services: Services, trace: Trace, tool: Tool, arguments: tuple[Any, ...]) -> Step:
    """Runs one call traced.

    Raises:
        ToolError: if the tool refuses.
    """
    trace.next_call()
    before = services.state.world
    services.state.trace = trace
    try:
        result = services.run(tool, arguments)
    finally:
        services.state.trace = None
    rows: list[Record] = result if isinstance(result, list) else [result]
    return Step(tool, rows, encode_result(result), trace.reads, trace.writes, before)


def encode_result(result: Any) -> str:
    """A result as the policy sees it."""
    return _ENCODER.encode(result).decode()


_ENCODER = msgspec.json.Encoder()


def replay(task: Task) -> Gold:
    """Executes the gold calls of a task on its initial world.

    Raises:
        RodsError: if a call names an unknown tool, has wrong arguments, or fails; says which call.
    """
    lacking = lacking_table(task.world, check_apis(task.apis))
    if lacking:
        raise RodsError(f"the world of task {task.id} lacks the table {lacking!r}.")
    services = _IDLE.pop() if _IDLE else Services(task.world)
    services.state.world = task.world
    try:
        return _replay(task, services)
    finally:
        _IDLE.append(services)


_IDLE: list[Services] = []  # used again, because making them costs as much as two calls


def _replay(task: Task, services: Services) -> Gold:
    trace = Trace()
    steps: list[Step] = []
    worlds, answers = [], []
    for number, turn in enumerate(task.turns, 1):
        spoken = []
        for call in turn.calls:
            tool = TOOLS.get(call.tool)
            if tool is None or tool.api.NAME not in task.apis:
                raise RodsError(f"turn {number}: no API of the task has a tool {call.tool!r}.")
            try:
                step = execute(services, trace, tool, tool.decode(msgspec.json.encode(call.arguments)))
            except (ToolError, msgspec.ValidationError) as error:
                raise RodsError(f"turn {number}: the gold call {call.tool} fails: {error}") from None
            steps.append(step)
            if call.spoken and tool.reads:
                spoken.append(step.text)
        worlds.append(services.state.world)
        answers.append(tuple(spoken))
    return Gold(tuple(steps), tuple(worlds), tuple(answers))
