"""`PrioritizedReplay`: the seeds again and again, those with a high score more often (PLR)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from rods_env.curricula.base import Curriculum, VariantMaker
from rods_env.curricula.checks import check_above_zero, check_choice, check_share
from rods_env.curricula.pool import Member
from rods_env.curricula.ranking import Ranking
from rods_env.curricula.statistics import phi
from rods_env.tasks.task import Task


class PrioritizedReplay(Curriculum):
    """Prioritized Level Replay (arXiv 2010.03934) over the seeds; nothing is synthesised.

    Until every seed was handed out once, unseen ones come in random order. Then P = (1−ρ)·P_S + ρ·P_C, where
    P_S ∝ (1/rank)^(1/β) by score and P_C ∝ the number of groups since the seed was last handed out.

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`.
        score: "variance": the shrunken variance of a seed's returns. "phi": φ = 4m(1−m) of its mean return.
        beta: β, 0.1 (PLR's value for Procgen): the first rank takes nearly all of P_S.
        rho: ρ, 0.1 (PLR's value for Procgen).
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        seed: int = 0,
        synthesizer: VariantMaker | None = None,
        window: int = 256,
        score: str = "variance",
        beta: float = 0.1,
        rho: float = 0.1,
    ) -> None:
        check_choice("score", score, ("variance", "phi"))
        check_above_zero("beta", beta)
        check_share("rho", rho)
        super().__init__(
            tasks, seed=seed, synthesizer=synthesizer, window=window, score=score, beta=beta, rho=rho
        )  # fmt: skip
        self.score, self.beta, self.rho = score, beta, rho
        self._ranking = Ranking(len(tasks), beta)
        # For each seed the number of the group that played it last, the longest ago first.
        self._last: OrderedDict[int, int] = OrderedDict()

    def _choose(self) -> tuple[Task, Member | None]:
        member = self._next()
        self._last[member.index] = self._open.begun
        self._last.move_to_end(member.index)
        return member.task, member

    def _next(self) -> Member:
        pool, draw = self.pool, self.draw
        if not pool.order.done:
            return pool.order.next()
        if draw.chance(self.rho):
            return pool.seeds[self._stale()]
        if len(self._ranking):
            return pool.seeds[self._ranking.find(draw.unit())]
        return draw.choice(pool.seeds)  # all groups of the first round are open still

    def _stale(self) -> int:
        """A seed in proportion to the groups since it was played: any, accepted by its share of the greatest."""
        now, draw = self._open.begun, self.draw
        greatest = now - next(iter(self._last.values()))
        while True:
            index = draw.index(len(self._last))
            if draw.unit() * greatest < now - self._last[index]:
                return index

    def _learn(self, member: Member | None) -> None:
        if member is not None:
            detector = self.detector
            score = detector.variance(member) if self.score == "variance" else phi(detector.mean(member))
            self._ranking.set(member.index, score)

    def _own_state(self) -> Any:
        return {"ranking": self._ranking.state_dict(), "last": list(self._last.items())}

    def _load_own_state(self, state: Any) -> None:
        self._ranking.load_state_dict(state["ranking"])
        self._last = OrderedDict((index, number) for index, number in state["last"])
