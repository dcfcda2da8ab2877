"""When a turn of a BFCL task passes: the rules of the package's `multi_turn_checker`, turn by turn (docs/bfcl.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rods_env.bfcl.simulators import Simulators, same_state
from rods_env.errors import RodsError
from rods_env.tasks.replay import Gold, Step

if TYPE_CHECKING:
    from rods_env.bfcl.tasks import BfclTask


def failed_checks(
    task: BfclTask, turn: int, simulators: Mapping[str, Any], seen: Iterable[str], called: bool, ran: bool
) -> tuple[str, ...]:
    """The checks that a turn fails when it closes; empty if it passes.

    Args:
        task: the task.
        turn: the turn, counted from 0.
        simulators: the agent's simulators by name.
        seen: the results of all calls so far, as text.
        called: whether the agent wrote a call in this turn, well-formed or not.
        ran: whether a call of this turn could be read, whatever came of it.

    Returns:
        `called`: this turn has no gold calls, and the agent wrote one. `silent`: it has, and the agent made no call.
        `world`: the simulators differ from the gold ones after this turn. `answers`: a result of this turn's gold calls
        is not among those seen; one that the gold calls have twice has to be seen twice.
    """
    if not task.turns[turn].calls:
        return ("called",) if called else ()
    gold = task.gold
    failed = [] if ran else ["silent"]
    if not same_state(simulators, gold.worlds[turn].simulators):  # type: ignore[attr-defined]  # a BfclWorld
        failed.append("world")
    if not Counter(gold.answers[turn]) <= Counter(seen):
        failed.append("answers")
    return tuple(failed)


def replay(task: BfclTask) -> Gold:
    """The gold calls of a task executed on its initial world: worlds and results by turn.

    Its steps hold no rows, nothing read or written, and the initial world: a simulator shows none of it.

    Raises:
        RodsError: if a call names no function of the task's simulators, or its arguments do not fit; says which.
    """
    import msgspec

    simulators = Simulators(task.world)  # type: ignore[arg-type]  # a BfclWorld
    steps: list[Step] = []
    worlds, answers = [], []
    for number, turn in enumerate(task.turns, 1):
        results = []
        for call in turn.calls:
            tool = task.tools.get(call.tool)
            if tool is None:
                raise RodsError(f"turn {number}: no simulator of the task has a function {call.tool!r}.")
            try:
                arguments = tool.decode(msgspec.json.encode(call.arguments))
            except msgspec.ValidationError as error:
                raise RodsError(f"turn {number}: the gold call {call.tool} fails: {error}") from None
            text, _ = simulators.call(tool, arguments)
            steps.append(Step(tool, [], text, set(), set(), task.world))  # type: ignore[arg-type]  # the tool has a name
            results.append(text)
        worlds.append(simulators.state.world)
        answers.append(tuple(results))
    return Gold(tuple(steps), tuple(worlds), tuple(answers))
