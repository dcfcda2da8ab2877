"""`SeedDraws`: which seed the next fresh variant is made of, in `Frontier`'s mode "stream"."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from rods_env.apis.draw import Draw
from rods_env.curricula.pool import Member, Pool, SumTree
from rods_env.curricula.ranking import Ranking
from rods_env.curricula.selection import FLOOR
from rods_env.curricula.statistics import Detector, phi

_TRIES = 32  # draws of a stratum, in search of one whose seeds do not all rest


class SeedDraws:
    """Draws seeds by their estimates, with a floor of uniform draws and of visits to those that wait.

    In the first round, every seed is drawn once, in random order. Then, with probability `uniform`, any seed; with
    `explore`, any of those not drawn in this round yet (a round ends when all were drawn, in whatever way); else a
    stratum in proportion to the seeds it holds, and in it a seed by the rule. A seed may rest: it is not drawn for a
    number of groups. Every draw takes O(log n).

    Args:
        pool: whose seeds are drawn; its `order` holds those that do not rest, its `epoch` counts rounds.
        strata: the seeds of each stratum.
        detector: holds the estimates.
        rule: inside a stratum: "uniform": in proportion to d̂ to the power of `sharpness`; d̂, the shrunken share of
            groups on the frontier, does not grow with the size of the variance and so does not favour short tasks; a
            power above 1 keeps draws from the many that hardly ever disagree, and lets fewer seeds come [ours].
            "proportional": to v̂, or φ(m̂) with the detector's signal "mean". "ranked": ∝ (1/rank)^(1/β) by that (as
            PLR). Each as it was after the seed's latest group.
        uniform, explore: probabilities.
        sharpness: the power of rule "uniform".
        beta: β of "ranked".
    """

    def __init__(
        self,
        pool: Pool,
        strata: Sequence[Sequence[Member]],
        detector: Detector,
        *,
        rule: str,
        uniform: float,
        explore: float,
        sharpness: float,
        beta: float,
    ) -> None:
        self.pool = pool
        self.detector = detector
        self.rule = rule
        self.uniform = uniform
        self.explore = explore
        self.sharpness = sharpness
        self._strata = [_Stratum(seeds, Ranking(len(seeds), beta) if rule == "ranked" else None) for seeds in strata]
        self._bounds = list(accumulate(len(seeds) for seeds in strata))
        self._resting: deque[tuple[int, int]] = deque()  # (number of the group before which it wakes, seed), in order
        for seed in pool.seeds:
            self.weigh(seed)

    @property
    def resting(self) -> int:
        """How many seeds rest."""
        return len(self._resting)

    def next(self, group: int, draw: Draw) -> Member | None:
        """The seed of the group with this number; None if all seeds rest."""
        if self._resting:
            self._wake(group)
        pool, order = self.pool, self.pool.order
        if order.done:
            if not order.members:
                return None
            order.restart()
            pool.epoch += 1
        how = draw.unit()
        if how < self.explore or not pool.epoch:
            return order.next()
        seed = draw.choice(order.members) if how < self.explore + self.uniform else self._by_rule(draw)
        order.touch(seed)
        return seed

    def weigh(self, seed: Member) -> None:
        """Takes the present estimates of a seed into its weight or rank."""
        if seed.place < 0:
            return  # it rests, and is weighed when it wakes
        stratum = self._strata[seed.stratum]
        hits = self.rule == "uniform"
        weight = self.detector.hits(seed) ** self.sharpness if hits else self.priority(seed)
        stratum.weights.set(seed.seat, max(weight, FLOOR))
        if stratum.ranking is not None and seed.visits:
            stratum.ranking.set(seed.seat, weight)

    def rest(self, seed: Member, until: int) -> None:
        """Lets a seed rest until the group with this number, which must not be less than that of any before."""
        stratum = self._strata[seed.stratum]
        self.pool.order.remove(seed)
        stratum.weights.set(seed.seat, 0.0)
        if stratum.ranking is not None:
            stratum.ranking.remove(seed.seat)
        self._resting.append((until, seed.index))

    def priority(self, seed: Member) -> float:
        """v̂, or with the detector's signal "mean" φ(m̂)."""
        detector = self.detector
        return phi(detector.mean(seed)) if detector.signal == "mean" else detector.variance(seed)

    def state_dict(self) -> dict[str, Any]:
        """What does not follow from the pool, as plain JSON data."""
        return {
            "resting": [list(pair) for pair in self._resting],
            "weights": [stratum.weights.weights(len(stratum.seeds)) for stratum in self._strata],
            "rankings": [None if s.ranking is None else s.ranking.state_dict() for s in self._strata],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from where `state_dict` was taken; the pool is loaded already."""
        self._resting = deque((until, index) for until, index in state["resting"])
        for stratum, weights, ranking in zip(self._strata, state["weights"], state["rankings"], strict=True):
            for seat, weight in enumerate(weights):
                stratum.weights.set(seat, weight)
            if stratum.ranking is not None:
                stratum.ranking.load_state_dict(ranking)

    def _by_rule(self, draw: Draw) -> Member:
        for _ in range(_TRIES):
            stratum = self._strata[bisect_right(self._bounds, draw.unit() * self._bounds[-1])]
            if stratum.ranking:
                return stratum.seeds[stratum.ranking.find(draw.unit())]
            if stratum.weights.total:
                return stratum.seeds[stratum.weights.find(draw.unit())]
        return draw.choice(self.pool.order.members)

    def _wake(self, group: int) -> None:
        """Wakes the seeds whose time has come."""
        while self._resting and self._resting[0][0] <= group:
            seed = self.pool.seeds[self._resting.popleft()[1]]
            self.pool.order.add(seed)
            self.weigh(seed)


class _Stratum:
    """Like seeds, with what they are drawn by: the ranking if there is one and it is not empty, else weights."""

    __slots__ = ("ranking", "seeds", "weights")

    def __init__(self, seeds: Sequence[Member], ranking: Ranking | None) -> None:
        self.seeds = seeds
        self.weights = SumTree(len(seeds))
        self.ranking = ranking
