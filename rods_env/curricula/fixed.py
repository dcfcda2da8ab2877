"""Curricula over the seeds as they are: `FixedCurriculum`, and `DynamicSampling`, whose filter drops equal returns."""

from __future__ import annotations

from rods_env.curricula.base import Curriculum
from rods_env.curricula.pool import Member
from rods_env.tasks.task import Task


class FixedCurriculum(Curriculum):
    """Epochs over the seeds, each in random order: ordinary training on a fixed set.

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`; nothing is synthesised.
    """

    def _choose(self) -> tuple[Task, Member | None]:
        pool = self.pool
        if pool.order.done:
            pool.order.restart()
            pool.epoch += 1
        member = pool.order.next()
        return member.task, member


class DynamicSampling(FixedCurriculum):
    """`FixedCurriculum` with the filter of DAPO (arXiv 2503.14476): groups without variance are not trained on.

    `observe` returns False for them, and the trainer asks for further groups until its batch is full. DAPO's returns
    are 0 or 1; here a group agrees if all of its returns are equal, whatever they are.
    """

    def _worth_training(self, agrees: bool) -> bool:
        return not agrees

    def _own_metrics(self) -> dict[str, float]:
        return {"filtered_total": self.statistics.zero_variance}
