"""`LivePool`: seeds and made tasks that live beside them; variants of chosen parents join at the end of an epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from rods_env.curricula.base import Curriculum, VariantMaker
from rods_env.curricula.checks import check_share, check_whole
from rods_env.curricula.pool import Member
from rods_env.tasks.task import Task


class LivePool(Curriculum):
    """What curricula with a pool of made tasks share.

    Groups play epochs over the pool in random order. After every `groups_per_step` observed groups, parents are chosen,
    and a variant of each waits in a queue. At the end of an epoch the oldest in the queue join the pool; if that would
    make more than `capacity` made tasks, others leave first.

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`.
        capacity: how many made tasks may live, and how many may wait; None: as many as seeds [paper: 400 and 400].
        groups_per_step: 32 [note].
        budget: the most parents of a step; 16 [ours].
        inject_share: the most that join at an epoch's end, as a share of the active pool, rounded down; 0.20 [note].
        numbers: further settings, for `Curriculum.config`.
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
        groups_per_step: int = 32,
        budget: int = 16,
        inject_share: float = 0.20,
        **numbers: Any,
    ) -> None:
        check_whole("groups_per_step", groups_per_step, 1)
        check_whole("budget", budget)
        check_share("inject_share", inject_share)
        super().__init__(
            tasks,
            seed=seed,
            synthesizer=synthesizer,
            window=window,
            capacity=len(tasks) if capacity is None else capacity,
            groups_per_step=groups_per_step,
            budget=budget,
            inject_share=inject_share,
            **numbers,
        )
        self.groups_per_step = groups_per_step
        self.budget = budget
        self.inject_share = inject_share
        self._step: dict[str, None] = {}  # the ids of the members that were observed in this step
        self._step_groups = 0

    def _choose(self) -> tuple[Task, Member | None]:
        pool = self.pool
        if pool.order.done:
            pool.epoch += 1
            self._tidy()
            self._inject()
            pool.order.restart()
        member = pool.order.next()
        return member.task, member

    def _learn(self, member: Member | None) -> None:
        if member is not None:
            self._step[member.task.id] = None
        self._step_groups += 1
        if self._step_groups == self.groups_per_step:
            if self.pool.capacity:
                self._make()
            self._step, self._step_groups = {}, 0

    def _make(self) -> None:
        """Makes variants of parents, and lets them wait."""
        for candidates, quota in self._parents():
            left = quota
            for parent in candidates:
                if not left:
                    break
                task = self._variant(parent)
                if task is not None:
                    parent.selected = self.pool.epoch
                    self.pool.put_in_queue(Member(task, parent.index, parent))
                    left -= 1

    def _inject(self) -> None:
        """Lets the oldest in the queue join, and others leave where there is no room for them."""
        pool = self.pool
        joining = min(int(self.inject_share * len(pool.order.members)), len(pool.queue), pool.capacity)
        too_many = len(pool.made) + joining - pool.capacity
        if too_many > 0:
            for member in self._leaving(too_many):
                pool.retire(member, "capacity")
        for _ in range(joining):
            pool.inject(pool.queue.popitem(last=False)[1])

    def _tidy(self) -> None:
        """What else is done at the end of an epoch, before tasks join."""

    @abstractmethod
    def _parents(self) -> Iterable[tuple[Iterable[Member], int]]:
        """Candidates in the order in which they are asked for a variant, and how many variants are wanted of them."""

    @abstractmethod
    def _leaving(self, n: int) -> list[Member]:
        """The `n` made tasks that leave for want of room."""

    def _own_state(self) -> Any:
        return {"step": list(self._step), "step_groups": self._step_groups}

    def _load_own_state(self, state: Any) -> None:
        self._step, self._step_groups = dict.fromkeys(state["step"]), state["step_groups"]
