"""The tasks of the tiny policy: three services, made when they are asked for, the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from rods_env.errors import RodsError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import Kind, Task

TINY_APIS = ("shop", "bank", "calendar")
KINDS: dict[Kind, float] = {"base": 0.8, "missing_function": 0.1, "missing_parameter": 0.1}
REUSE = 0.6


def short_tasks(seed: int, turns: dict[int, float] | None = None, most_calls: int = 4) -> Iterator[Task]:
    """An endless stream of short tasks, for the warm-up."""
    return tasks(seed, turns or {1: 0.7, 2: 0.3}, 1, most_calls)


def long_tasks(seed: int) -> Iterator[Task]:
    """An endless stream of tasks of several turns: what reward has to teach."""
    return tasks(seed, {2: 0.5, 3: 0.5}, 4, 8)


def tasks(seed: int, turns: dict[int, float], least_calls: int, most_calls: int) -> Iterator[Task]:
    """An endless stream of tasks of the tiny policy's services.

    Args:
        seed: equal seeds give equal streams.
        turns: shares of tasks by number of turns with calls.
        least_calls, most_calls: how many gold calls a task has.
    """
    source = TaskSource(seed, apis=TINY_APIS, reuse=REUSE)
    rng = np.random.default_rng([seed, 1])
    counts, kinds = list(turns), list(KINDS)
    while True:
        kind = kinds[rng.choice(len(kinds), p=list(KINDS.values()))]
        task = source.attempt(kind, turns=int(counts[rng.choice(len(counts), p=list(turns.values()))]))
        if task is not None and least_calls <= len(task.calls) <= most_calls:
            yield task
