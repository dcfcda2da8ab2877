"""How long curricula take to choose a task and to learn from a group in a large pool, without making variants."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import msgspec
import numpy as np

from rods_env.curricula import Curriculum, FixedCurriculum, Frontier, PrioritizedReplay
from rods_env.tasks.task import Task, load_tasks

Report = Callable[[str], None]

_TASKS = 100_000
_GROUP = 16
_ROUNDS = 3


class RenamingStub:
    """Stands for a synthesizer: a variant is the same task under another id, which costs next to nothing.

    Attributes:
        made: how many variants were made.
    """

    def __init__(self) -> None:
        self.made = 0

    def variant(self, task: Task, rng: np.random.Generator | None = None) -> Task:
        """The task under an id that never came before."""
        self.made += 1
        return renamed(task, f"{task.id}~{self.made}", task.id)

    def state_dict(self) -> dict[str, Any]:
        """How many were made."""
        return {"made": self.made}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.made = state["made"]


class ReadyStub(RenamingStub):
    """Hands out the same variants again and again, made beforehand: for a curriculum in which none lives on."""

    def __init__(self, task: Task, n: int = 1000) -> None:
        super().__init__()
        self._variants = cycle([renamed(task, f"v{k}", task.id) for k in range(n)])

    def variant(self, task: Task, rng: np.random.Generator | None = None) -> Task:
        """The next one."""
        return next(self._variants)


def renamed(task: Task, name: str, parent: str | None = None) -> Task:
    """The same task under another id; what was derived of its graph is not derived again."""
    other = msgspec.structs.replace(task, id=name, parent=parent)
    other.__dict__["profile"] = task.profile
    return other


def run(*, seed: int = 0, quick: bool = False, progress: Report = lambda _: None) -> dict[str, float]:
    """Microseconds for `next_group` and `observe` of one group of 16, flat, with units in the keys.

    Each is the mean over as many groups as there are tasks, so that it holds the end of an epoch: the best of three
    rounds, after a first one in which every task comes once. Processor time, less what the stub of a synthesizer takes.

    Args:
        seed: seeds the curricula and the returns.
        quick: a tenth of the tasks.
        progress: called with what is measured next.
    """
    n = _TASKS // 10 if quick else _TASKS
    progress(f"a pool of {n} tasks")
    seeds = load_tasks("seeds")
    tasks = [renamed(seeds[k % len(seeds)], f"t{k}") for k in range(n)]
    made: dict[str, Callable[[RenamingStub], Curriculum]] = {
        "frontier_pool": lambda stub: Frontier(tasks, seed=seed, synthesizer=stub, mode="pool"),
        "frontier_stream": lambda _: Frontier(tasks, seed=seed, synthesizer=ReadyStub(tasks[0]), mode="stream"),
        "fixed": lambda _: FixedCurriculum(tasks, seed=seed),
        "replay": lambda _: PrioritizedReplay(tasks, seed=seed),
    }
    returns = _returns(seed)
    figures: dict[str, float] = {}
    for name, make in made.items():
        progress(name)
        stub = RenamingStub()
        curriculum = make(stub)
        _seconds(curriculum, returns, n)
        rounds = []
        for _ in range(_ROUNDS):
            before = stub.made
            seconds = _seconds(curriculum, returns, n)
            rounds.append(seconds - (stub.made - before) * _variant_seconds(tasks, seed))
        figures[f"{name}_{n}_us"] = min(rounds) / n * 1e6
    return figures


def _seconds(curriculum: Curriculum, returns: Sequence[Sequence[float]], n: int) -> float:
    """Seconds of processor time for `n` groups."""
    gc.collect()
    begun = time.process_time()
    for k in range(n):
        curriculum.observe(curriculum.next_group().id, returns[k % len(returns)])
    return time.process_time() - begun


def _variant_seconds(tasks: Sequence[Task], seed: int) -> float:
    """Seconds of processor time that the stub takes for a variant of any task."""
    some = [tasks[k] for k in np.random.default_rng(seed).integers(len(tasks), size=min(len(tasks), 20_000))]
    stub = RenamingStub()
    begun = time.process_time()
    for task in some:
        stub.variant(task)
    return (time.process_time() - begun) / len(some)


def _returns(seed: int) -> list[list[float]]:
    """Groups of returns of tasks of four turns, of which two in five agree."""
    rng = np.random.default_rng(seed)
    chances = rng.choice([0.0, 0.3, 0.6, 1.0], 997, p=[0.2, 0.3, 0.3, 0.2])
    returns: list[list[float]] = [(rng.binomial(4, chance, _GROUP) / 4).tolist() for chance in chances]
    return returns
