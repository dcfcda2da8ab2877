"""Checks of what an environment is made with: each error names what was expected and what came."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from rods_env.apis.registry import check_apis
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, load_tasks


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises unless the value is one of those allowed."""
    if value not in allowed:
        raise RodsError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def check_positive(name: str, value: Any) -> None:
    """Raises unless the value is a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise RodsError(f"{name} must be a positive integer; got {value!r}.")


def check_api_names(name: str, value: Any) -> tuple[str, ...]:
    """The names of registered APIs that the value holds, in registered order."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise RodsError(f"{name} must be a sequence of names of APIs; got {value!r}.")
    return check_apis(value)


def chosen_tasks(tasks: str | os.PathLike[str] | Sequence[Task], apis: Sequence[str] | None) -> list[Task]:
    """The tasks to play: by name, path or as they are, and only those whose APIs are all among the given ones."""
    if isinstance(tasks, (str, os.PathLike)):
        found = load_tasks(tasks)
    elif isinstance(tasks, Sequence) and all(isinstance(task, Task) for task in tasks):
        found = list(tasks)  # type: ignore[arg-type]  # mypy takes it for a str still
    else:
        raise RodsError(f"tasks must be a name, a path, or a sequence of Task; got {tasks!r:.60}.")
    if apis is not None:
        wanted = set(check_api_names("apis", apis))
        found = [task for task in found if wanted.issuperset(task.apis)]
    if not found:
        only = "" if apis is None else f" that uses only the APIs {apis}"
        raise RodsError(f"expected at least one task{only}; got none.")
    return found
