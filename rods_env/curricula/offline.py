"""Tasks that are made once and then stay: `OfflinePool` before training, `OneShotFrontier` after the first epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rods_env.apis.draw import Draw
from rods_env.curricula.archive import shared_tables
from rods_env.curricula.base import Curriculum, VariantMaker
from rods_env.curricula.checks import check_whole
from rods_env.curricula.pool import Epochs, Member, Pool
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, read_lines, save_tasks

_TRIES = 64  # parents without a variant, one after the other, after which a pool is complete as it is


class OneShotFrontier(Curriculum):
    """One epoch over the seeds; then variants of those on the frontier, once; then epochs over both for ever.

    Every parent has the same number of variants, to one. A seed whose group of the first epoch is still open counts as
    not on the frontier. [the paper's static synthetic pool]

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`.
        capacity: how many variants are made; None: as many as seeds [paper: 400 of 400].
    """

    SYNTHESIZES = True

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        seed: int = 0,
        synthesizer: VariantMaker | None = None,
        window: int = 256,
        capacity: int | None = None,
    ) -> None:
        capacity = len(tasks) if capacity is None else capacity
        super().__init__(tasks, seed=seed, synthesizer=synthesizer, window=window, capacity=capacity)

    def _choose(self) -> tuple[Task, Member | None]:
        pool = self.pool
        if pool.order.done:
            pool.epoch += 1
            if pool.epoch == 1:
                self._make()
            pool.order.restart()
        member = pool.order.next()
        return member.task, member

    def _make(self) -> None:
        """Asks the seeds on the frontier in turns, until the pool is full or none has a further variant."""
        pool = self.pool
        parents = self.draw.shuffled([member for member in pool.seeds if member.on_frontier])
        while parents and len(pool.made) < pool.capacity:
            for parent in list(parents):
                task = self._variant(parent)
                if task is None:
                    parents.remove(parent)
                    continue
                pool.inject(Member(task, parent.index, parent))
                if len(pool.made) == pool.capacity:
                    break


class OfflinePool(Curriculum):
    """A large fixed set of variants of uniformly drawn seeds, made once; then epochs over them. Seeds are not played.

    Without a file, the variants are made one by one as the first epoch comes to them. A state does not hold them: they
    are made again when it is loaded. If 64 draws in a row give no variant, the pool is complete as it is.

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`.
        n: how many variants; 17,000 [paper].
        path: a task file (gzip if it ends in .gz). If it exists, the variants are read from it; else all are made at
            once and written to it.

    Raises:
        RodsError: if the file holds another number of tasks, or tasks of other seeds.
    """

    SYNTHESIZES = True

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        seed: int = 0,
        synthesizer: VariantMaker | None = None,
        window: int = 256,
        n: int = 17_000,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        check_whole("n", n, 1)
        super().__init__(tasks, seed=seed, synthesizer=synthesizer, window=window, n=n)
        self.n = n
        self.path = None if path is None else Path(path)
        self._start = self._maker().state_dict()  # from which the same variants are made again
        self._begin()
        if self.path is not None and self.path.exists():
            self._read(self.path)
        elif self.path is not None:
            self._write(self.path)

    def _begin(self) -> None:
        """Empties the pool and sets the stream of parents to where the making begins."""
        self.pool = Pool(self.seeds, self.draw, self.n, seeds_play=False)
        self._parents = Draw(np.random.default_rng([self.config["seed"], 1]))
        self._complete = False

    def _choose(self) -> tuple[Task, Member | None]:
        pool = self.pool
        made = None if self._complete else self._make()
        if made is not None:
            return made.task, made
        if not pool.order.members:  # the seeds have no variants at all
            pool.order = Epochs(pool.seeds, self.draw)
        if pool.order.done:
            pool.order.restart()
            pool.epoch += 1
        member = pool.order.next()
        return member.task, member

    def _make(self) -> Member | None:
        """One more variant for the pool, which is complete with the last one, or if there is none."""
        pool = self.pool
        for _ in range(_TRIES):
            parent = self._parents.choice(pool.seeds)
            task = self._variant(parent)
            if task is not None:
                member = Member(task, parent.index, parent)
                pool.inject(member)
                self._complete = len(pool.made) == self.n
                return member
        self._complete = True
        return None

    def _write(self, path: Path) -> None:
        while not self._complete:
            self._make()
        save_tasks((member.task for member in self.pool.made.values()), path)
        self.pool.order.restart()

    def _read(self, path: Path) -> None:
        found = shared_tables(_tasks_of(path))
        if len(found) != self.n:
            raise RodsError(f"{path}: expected {self.n} tasks, got {len(found)}. Give n={len(found)}, or another path.")
        for task in found:
            parent = self.pool.members.get(task.parent or "")
            if parent is None or parent.generation:
                raise RodsError(f"{path}: expected variants of the seeds; the parent of {task.id} is {task.parent!r}.")
            self.pool.inject(Member(task, parent.index, parent))
        self._complete = True
        self.pool.order.restart()

    def _kept_tasks(self) -> list[Task]:
        return []

    def _tasks_again(self, state: Mapping[str, Any]) -> dict[str, Task]:
        """Makes the tasks of the state again, unless they are read from the file."""
        own, made = state["own"], state["pool"]["made"]
        if self.path is None:
            self._begin()
            self._maker().load_state_dict(own["synthesizer_start"])
            for _ in made:
                self._make()
        tasks = {member.task.id: member.task for member in self.pool.made.values()}
        unknown = next((line[0] for line in made if line[0] not in tasks), None)
        if unknown is not None:
            raise RodsError(f"the state plays the task {unknown!r}, which this pool lacks: another file?")
        return tasks

    def _own_state(self) -> Any:
        return {"synthesizer_start": self._start, "complete": self._complete}

    def _load_own_state(self, state: Any) -> None:
        self._start, self._complete = state["synthesizer_start"], state["complete"]


def _tasks_of(path: Path) -> Iterator[Task]:
    """The tasks of a file, one at a time: each has a world of its own, and all at once would fill the memory."""
    for number, found in read_lines(path):
        if isinstance(found, RodsError):
            raise RodsError(f"{path}, line {number}: {found}")
        yield found
