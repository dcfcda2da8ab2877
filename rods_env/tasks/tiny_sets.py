"""The tasks of the tiny policy: three services, made when they are asked for, the same every time.

| name | tasks |
|---|---|
| `tiny:seeds` | 400 long tasks: what a curriculum begins with |
| `tiny:heldout` | 1,000 long tasks: what is evaluated on |
| `tiny:tuning` | 1,000 long tasks: for choosing settings, neither seeds nor held-out |
| `tiny:short` | 500 short tasks like those of the warm-up |

A long task has two or three turns of at most two gold calls each, three to six altogether; a short one has one turn
with calls, and at most three. A policy that does well on short tasks can do each turn of a long one; what it may lack
is to go on from turn to turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from rods_env.errors import RodsError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import Kind, Task, task_to_json

TINY_APIS = ("shop", "bank", "calendar")
TINY_SETS = {"tiny:seeds": 400, "tiny:heldout": 1000, "tiny:tuning": 1000, "tiny:short": 500}
USES = 4  # a small network learns worlds by heart that it meets often

_KINDS: dict[Kind, float] = {"base": 0.8, "missing_function": 0.1, "missing_parameter": 0.1}
_REUSE = 0.6  # the share of attempts that use an earlier task's structure: an endless stream should be quick
_SEED = 20261130


def tiny_set(name: str) -> list[Task]:
    """The tasks of a set.

    Raises:
        RodsError: for a name that is not in `TINY_SETS`.
    """
    if name not in TINY_SETS:
        raise RodsError(f"unknown set {name!r}: expected one of {', '.join(TINY_SETS)}.")
    return list(_made(name))


@lru_cache(maxsize=4)
def _made(name: str) -> tuple[Task, ...]:
    number = list(TINY_SETS).index(name)
    stream = short_tasks(_SEED + number) if name == "tiny:short" else long_tasks(_SEED + number)
    # Texts within a set differ; sets differ by their seeds (a test compares their texts).
    found: dict[tuple[str, ...], Task] = {}
    while len(found) < TINY_SETS[name]:
        for task in islice(stream, TINY_SETS[name] - len(found)):
            found.setdefault(tuple(turn.message for turn in task.turns), task)
    return tuple(found.values())


def fingerprint() -> str:
    """Sixteen hexadecimal digits that change whenever the tasks of the tiny policy do."""
    digest = hashlib.sha256()
    for task in [*islice(short_tasks(_SEED), 40), *islice(long_tasks(_SEED), 40)]:
        digest.update(task_to_json(task))
    return digest.hexdigest()[:16]


def short_tasks(seed: int, uses: int = USES) -> Iterator[Task]:
    """An endless stream of short tasks, for the warm-up."""
    return tiny_tasks(seed, {1: 1.0}, 1, 3, uses)


def long_tasks(seed: int, uses: int = USES) -> Iterator[Task]:
    """An endless stream of long tasks: what reward has to teach."""
    return tiny_tasks(seed, {2: 0.5, 3: 0.5}, 3, 6, uses, most_in_turn=2)


def tiny_tasks(
    seed: int, turns: dict[int, float], least_calls: int, most_calls: int, uses: int = USES, most_in_turn: int = 8
) -> Iterator[Task]:
    """An endless stream of tasks of the tiny policy's services.

    Args:
        seed: equal seeds give equal streams.
        turns: shares of tasks by number of turns with calls; they sum up to 1.
        least_calls, most_calls: how many gold calls a task has.
        uses: for how many tasks a world serves.
        most_in_turn: how many gold calls a turn has.
    """
    source = TaskSource(seed, apis=TINY_APIS, uses=uses, reuse=_REUSE)
    rng = np.random.default_rng([seed, 1])
    counts, kinds = list(turns), list(_KINDS)
    while True:
        kind = kinds[rng.choice(len(kinds), p=list(_KINDS.values()))]
        task = source.attempt(kind, turns=int(counts[rng.choice(len(counts), p=list(turns.values()))]))
        if task is None or max(len(turn.calls) for turn in task.turns) > most_in_turn:
            continue
        if least_calls <= len(task.calls) <= most_calls:
            yield task
