"""The families of tasks beside this project's own: how each is written as data, and what makes variants of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

from rods_env.errors import RodsError
from rods_env.tasks.task import Task


class Family(NamedTuple):
    """What is particular to the tasks that one environment plays.

    Attributes:
        to_data: a task as plain JSON data.
        from_data: the task that such data describes, or `RodsError`.
        synthesizer: makes a synthesizer from a seed.
    """

    to_data: Callable[[Any], dict[str, Any]]
    from_data: Callable[[dict[str, Any]], Task]
    synthesizer: Callable[[int], Any]


# Where the family of an environment is found: imported when it is needed, for it may need packages of its own.
_FAMILIES = {"ToolUse-BFCL-v0": "rods_env.bfcl.family"}


def family(environment: str) -> Family:
    """The family of tasks that an environment plays, by its id.

    Raises:
        RodsError: if there is none of its own.
    """
    if environment not in _FAMILIES:
        expected = ", ".join(map(repr, _FAMILIES))
        raise RodsError(f"no tasks of the environment {environment!r} can be read: expected {expected}, or none named.")
    return import_module(_FAMILIES[environment]).FAMILY  # type: ignore[no-any-return]


def family_of(task: Task) -> Family:
    """The family of a task that is none of this project's own."""
    return family(task.ENVIRONMENT)


def make_synthesizer(tasks: Iterable[Task], seed: int = 0) -> Any:
    """What makes variants of these tasks, in the services that they play in: a policy may know no others.

    Raises:
        RodsError: if they are of several families.
    """
    tasks = list(tasks)
    kinds = sorted({task.ENVIRONMENT for task in tasks})
    if len(kinds) > 1:
        raise RodsError(f"expected tasks of one environment; got some of {' and of '.join(kinds)}.")
    if kinds and kinds[0] != Task.ENVIRONMENT:
        return family(kinds[0]).synthesizer(seed)
    from rods_env.tasks.variants import Synthesizer  # making tasks imports what playing does not need

    return Synthesizer(seed, apis=sorted({api for task in tasks for api in task.apis}) or None)
