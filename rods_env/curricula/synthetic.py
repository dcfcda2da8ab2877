"""Synthesis without a signal: `RandomSynthesis` keeps a pool of random variants, `Fresh` never plays a task twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rods_env.curricula.base import Curriculum, VariantMaker
from rods_env.curricula.checks import check_choice
from rods_env.curricula.live import LivePool
from rods_env.curricula.pool import Member
from rods_env.errors import SynthesisError
from rods_env.tasks.task import Task

_BLOCK = 64  # tasks of new shapes that come from one source


class RandomSynthesis(LivePool):
    """`Frontier`'s pool without its signal: parents are drawn uniformly from the seeds, the oldest made tasks leave.

    Budget, injection and capacity are `LivePool`'s, whose arguments these are. This is the control that tells what
    synthesis does by itself [the paper's "random seeds"].
    """

    def _parents(self) -> Iterable[tuple[Iterable[Member], int]]:
        # Twice as many as wanted, so that a parent without a variant can be replaced.
        yield self.draw.sample(self.pool.seeds, 2 * self.budget), self.budget

    def _leaving(self, n: int) -> list[Member]:
        return list(islice(self.pool.made.values(), n))  # in the order in which they joined


class Fresh(Curriculum):
    """Every group plays a task that was never played before.

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`.
        shapes: "seeds": a variant of a seed; the seeds come in epochs, each in random order. A seed without a further
            variant is passed over; if no seed has one, seeds are played themselves. "new": a task of a newly drawn
            shape (`TaskSource`), of kinds in the seeds' proportion.
        source: with `shapes="new"`, makes the endless stream of a seed that tasks are drawn from instead, such as
            `tiny_sets.long_tasks`.
    """

    SYNTHESIZES = True

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        seed: int = 0,
        synthesizer: VariantMaker | None = None,
        window: int = 256,
        shapes: str = "seeds",
        source: Callable[[int], Iterator[Task]] | None = None,
    ) -> None:
        check_choice("shapes", shapes, ("seeds", "new"))
        named: dict[str, Any] = {} if source is None else {"source": f"{source.__module__}.{source.__qualname__}"}
        super().__init__(tasks, seed=seed, synthesizer=synthesizer, window=window, shapes=shapes, **named)
        self.shapes = shapes
        self._new = NewShapes(seed, tasks, source) if shapes == "new" else None

    def _choose(self) -> tuple[Task, Member | None]:
        if self._new is not None:
            return self._new.next(self.rejected), None
        for _ in self.pool.seeds:
            member = self._seed()
            task = self._variant(member)
            if task is not None:
                return task, member
        return member.task, member

    def _seed(self) -> Member:
        pool = self.pool
        if pool.order.done:
            pool.order.restart()
            pool.epoch += 1
        return pool.order.next()

    def _own_state(self) -> Any:
        return None if self._new is None else self._new.number

    def _load_own_state(self, state: Any) -> None:
        if self._new is not None:
            self._new.number = state


class NewShapes:
    """An endless stream of tasks of new shapes, of kinds in the proportion of the given tasks.

    Each block of 64 tasks comes from a source of its own, so that going on from task number n makes at most 63 tasks
    again, and not n.

    Args:
        seed: equal seeds give equal tasks.
        tasks: whose kinds are drawn.
        source: makes the endless stream of a seed; kinds are then its own. None: `TaskSource`.

    Attributes:
        number: of the next task, counted from 0; may be set to any number.
    """

    def __init__(
        self, seed: int, tasks: Sequence[Task], source: Callable[[int], Iterator[Task]] | None = None
    ) -> None:
        self.seed = seed
        self.source = source
        self.number = 0
        self._kinds = [task.kind for task in tasks]
        self._block = -1
        self._made = 0  # tasks of this block
        self._tasks: Iterator[Task | SynthesisError]

    def next(self, rejected: Counter[str]) -> Task:
        """The next task. Counts in `rejected` why there was none of the kind that was drawn.

        Raises:
            SynthesisError: if there was none of 64 kinds drawn one after the other.
        """
        block, place = divmod(self.number, _BLOCK)
        if block != self._block or self._made > place:
            self._begin(block)
        while self._made < place:
            self._one(Counter())  # counted when it was made the first time
        task = self._one(rejected)
        self.number += 1
        return task

    def _begin(self, block: int) -> None:
        self._block, self._made = block, 0
        self._rng = np.random.default_rng([self.seed, block])
        of_block = int(self._rng.integers(1 << 62))
        self._tasks = self._of_kinds(of_block) if self.source is None else self.source(of_block)

    def _one(self, rejected: Counter[str]) -> Task:
        for _ in range(_BLOCK):
            found = next(self._tasks)
            if isinstance(found, Task):
                self._made += 1
                return found
            rejected[found.reason] += 1
        raise SynthesisError(f"no task of a new shape, of the kinds {sorted(set(self._kinds))}.", reason="new_shape")

    def _of_kinds(self, seed: int) -> Iterator[Task | SynthesisError]:
        from rods_env.tasks.datasets import TaskSource  # making tasks imports what playing does not need

        source = TaskSource(seed)
        while True:
            kind = self._kinds[int(self._rng.integers(len(self._kinds)))]
            try:
                yield source.task(kind)
            except SynthesisError as error:
                yield error
