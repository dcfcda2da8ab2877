"""When a turn passes: the whole contract is in docs/grading.md, and here."""

from __future__ import annotations

from collections.abc import Iterable

from rods_env.apis.api import World
from rods_env.tasks.task import Task


def failed_checks(task: Task, turn: int, world: World, seen: Iterable[str], called: bool) -> tuple[str, ...]:
    """The checks that a turn fails when it closes; empty if it passes.

    Args:
        task: the task.
        turn: the turn, counted from 0.
        world: the agent's world.
        seen: all results that the agent has seen so far, as JSON text.
        called: whether the agent wrote a call in this turn, well-formed or not.

    Returns:
        `called`: something is missing in this turn, and the agent did not just ask. `world`: the world differs from the
        gold world after this turn. `answers`: a result that the user asked to see is not among those seen.
    """
    if not task.turns[turn].calls:
        return ("called",) if called else ()
    gold = task.gold
    failed = []
    if not world.same_as(gold.worlds[turn]):
        failed.append("world")
    if gold.answers[turn] and not set(seen).issuperset(gold.answers[turn]):
        failed.append("answers")
    return tuple(failed)
