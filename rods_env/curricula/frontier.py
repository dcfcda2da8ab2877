"""`Frontier`: keeps the frontier of the policy stocked with variants of the tasks on which its rollouts disagree."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rods_env.apis.shares import apportioned
from rods_env.curricula.base import VariantMaker
from rods_env.curricula.checks import check_above_zero, check_choice, check_flag, check_share, check_whole, is_number
from rods_env.curricula.live import LivePool
from rods_env.curricula.pool import Member
from rods_env.curricula.selection import RULES, Selection, stratify
from rods_env.curricula.statistics import Detector, phi
from rods_env.curricula.stream import SeedDraws
from rods_env.errors import RodsError
from rods_env.tasks.task import KINDS, Task


class Frontier(LivePool):
    """The curriculum of RODS (arXiv 2606.19047), in two modes.

    `mode="pool"`, the paper's: groups play epochs over the seeds and the made tasks that live beside them. After every
    step, tasks of the step that are on the frontier and do not cool down are chosen as parents, kind by kind; a variant
    of each waits in a queue, and joins at the end of an epoch. A made task leaves when it is dropped at its first group
    (mean < `hard`), when it is mastered (mean > `retire_mastered`), hard (mean < `hard`), settled (two groups in a row
    without variance; not with `signal="mean"`, where the paper has no such rule), stale (not visited for `stale`
    epochs), or when there is no room and its priority is the lowest.

    `mode="stream"`: every group plays a fresh variant of a seed, and estimates are kept for seeds; see `SeedDraws`. A
    seed of which no variant can be made rests for as many groups as there are seeds.

    Args:
        tasks, seed, synthesizer, window: see `Curriculum`.
        capacity, groups_per_step, budget, inject_share: see `LivePool`; of mode "pool".
        mode: "pool" or "stream".
        signal: "variance": on the frontier are tasks whose latest group disagreed; their priority is v̂ [ours]. "mean":
            those with hard ≤ mean ≤ mastered, with the priority φ = 4m(1−m) of their latest mean [paper].
        reward: "progress": returns as they are. "binary": to the detector a return counts as 1 if it is 1, else as 0
            [paper's ablation]; metrics tell the true returns.
        retire: whether made tasks leave for other reasons than want of room [False: paper's ablation].
        rule: how parents (pool) or seeds (stream) are chosen: "uniform" [ours], "proportional" [ours], or "ranked"
            [paper]; see `Selection` and `SeedDraws`.
        quotas: of mode "pool": how the budget is divided among kinds: "seeds": as the seeds are [ours]; "equal" [note];
            or weights by kind. By largest remainders; unused quota is not redistributed [note].
        cooldown: for how many epochs after the one in which it was chosen a parent is not chosen again; 1 [ours].
        hard, mastered: the band of `signal="mean"`, and below `hard` tasks are out of reach; 0.20 and 0.85 [paper].
        retire_mastered: 0.95 [note].
        stale: 5 epochs [ours].
        rest_mastered: of mode "pool": whether seeds with a mean > `retire_mastered` rest for `rest_epochs` [ours].
        rest_epochs: 3 [ours].
        discount, shrink: γ and n0 of the estimates, 0.5 and 0.5 [ours]; see `Detector`.
        uniform, explore, sharpness: of mode "stream", 0, 0.15 and 1 [ours, docs/results.md]; see `SeedDraws`.
        beta: of `rule="ranked"` in mode "stream", 0.1 (PLR's, arXiv 2010.03934).

    Raises:
        RodsError: for a setting out of range, such as hard ≥ mastered.
    """

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
        mode: str = "stream",
        signal: str = "variance",
        reward: str = "progress",
        retire: bool = True,
        rule: str = "uniform",
        quotas: str | Mapping[str, float] = "seeds",
        cooldown: int = 1,
        hard: float = 0.20,
        mastered: float = 0.85,
        retire_mastered: float = 0.95,
        stale: int = 5,
        rest_mastered: bool = False,
        rest_epochs: int = 3,
        discount: float = 0.5,
        shrink: float = 0.5,
        uniform: float = 0.0,
        explore: float = 0.15,
        sharpness: float = 1.0,
        beta: float = 0.1,
    ) -> None:
        check_choice("mode", mode, ("pool", "stream"))
        check_choice("signal", signal, ("variance", "mean"))
        check_choice("reward", reward, ("progress", "binary"))
        check_choice("rule", rule, RULES)
        check_flag("retire", retire)
        check_flag("rest_mastered", rest_mastered)
        for name, whole, least in (("cooldown", cooldown, 0), ("stale", stale, 1), ("rest_epochs", rest_epochs, 1)):
            check_whole(name, whole, least)
        shares = {"hard": hard, "mastered": mastered, "retire_mastered": retire_mastered, "discount": discount}
        for name, share in {**shares, "uniform": uniform, "explore": explore}.items():
            check_share(name, share)
        check_above_zero("shrink", shrink)
        check_above_zero("beta", beta)
        check_above_zero("sharpness", sharpness)
        for name, value in (("mastered", mastered), ("retire_mastered", retire_mastered)):
            if hard >= value:
                raise RodsError(f"hard must be below {name}; got hard={hard!r} and {name}={value!r}.")
        if uniform + explore > 1:
            raise RodsError(f"uniform + explore must be at most 1; got {uniform!r} + {explore!r}.")
        quotas = _checked_quotas(quotas)
        super().__init__(
            tasks, seed=seed, synthesizer=synthesizer, window=window, capacity=capacity, budget=budget,
            groups_per_step=groups_per_step, inject_share=inject_share, mode=mode, signal=signal, reward=reward,
            retire=retire, rule=rule, quotas=quotas, cooldown=cooldown, **shares, stale=stale, shrink=shrink,
            rest_mastered=rest_mastered, rest_epochs=rest_epochs, uniform=uniform, explore=explore,
            sharpness=sharpness, beta=beta,
        )  # fmt: skip
        self.retire = retire
        self.cooldown = cooldown
        self.hard, self.retire_mastered = hard, retire_mastered
        self.stale = stale
        self.rest_mastered, self.rest_epochs = rest_mastered, rest_epochs
        self.detector = Detector(signal, reward, hard=hard, mastered=mastered, discount=discount, shrink=shrink)
        self.quotas = _quotas(quotas, tasks, budget)
        strata = stratify(self.pool.seeds, by_depth=mode == "pool")
        self._selection = Selection(rule, strata, self.priority)
        self._resting: dict[str, int] = {}  # mastered seeds, with the epoch in which they come back
        self._seeds: SeedDraws | None = None
        if mode == "stream":
            self._seeds = SeedDraws(
                self.pool, strata, self.detector, rule=rule, uniform=uniform, explore=explore, sharpness=sharpness,
                beta=beta,
            )  # fmt: skip

    def priority(self, member: Member) -> float:
        """v̂, or with `signal="mean"` φ(m) of the latest group's mean [paper]; 1 before the first group."""
        if self.detector.signal == "mean":
            return phi(member.mean) if member.visits else 1.0
        return self.detector.variance(member)

    # ------------------------------------------------------------------ both modes

    def _choose(self) -> tuple[Task, Member | None]:
        return super()._choose() if self._seeds is None else self._fresh(self._seeds)

    def _learn(self, member: Member | None) -> None:
        if self._seeds is not None:
            if member is not None:
                self._seeds.weigh(member)
            return
        if member is not None and member.generation:
            if self.retire and member.task.id in self.pool.made:
                self._perhaps_retire(member)
        elif member is not None and self.rest_mastered and member.mean > self.retire_mastered and member.place >= 0:
            self.pool.order.remove(member)
            self._resting[member.task.id] = self.pool.epoch + self.rest_epochs + 1
        super()._learn(member)

    def _own_state(self) -> Any:
        stream = None if self._seeds is None else self._seeds.state_dict()
        return {**super()._own_state(), "resting": dict(self._resting), "stream": stream}

    def _load_own_state(self, state: Any) -> None:
        super()._load_own_state(state)
        self._resting = dict(state["resting"])
        if self._seeds is not None:
            self._seeds.load_state_dict(state["stream"])

    def _own_metrics(self) -> dict[str, float]:
        return {"seeds_resting": len(self._resting) if self._seeds is None else self._seeds.resting}

    # ------------------------------------------------------------------ mode "stream"

    def _fresh(self, seeds: SeedDraws) -> tuple[Task, Member | None]:
        """A fresh variant of a seed; a seed itself if no seed has a further variant."""
        pool, number = self.pool, self._open.begun
        while (member := seeds.next(number, self.draw)) is not None:
            task = self._variant(member)
            if task is not None:
                return task, member
            seeds.rest(member, number + len(pool.seeds))
        member = self.draw.choice(pool.seeds)
        return member.task, member

    # ------------------------------------------------------------------ mode "pool"

    def _perhaps_retire(self, member: Member) -> None:
        reason = ""
        if member.mean < self.hard:
            reason = "first" if member.visits == 1 else "hard"
        elif member.mean > self.retire_mastered:
            reason = "mastered"
        elif member.agreed >= 2 and self.detector.signal == "variance":
            reason = "settled"
        if reason:
            self.pool.retire(member, reason)

    def _parents(self) -> Iterable[tuple[Iterable[Member], int]]:
        pool = self.pool
        here = [pool.members[key] for key in self._step if key in pool.members]
        ready = [member for member in here if member.on_frontier and self._cooled(member)]
        for kind, quota in self.quotas.items():
            candidates = [member for member in ready if member.task.kind == kind]
            yield self._selection.ordered(candidates, self.draw), quota

    def _cooled(self, member: Member) -> bool:
        return member.selected < 0 or self.pool.epoch - member.selected > self.cooldown

    def _leaving(self, n: int) -> list[Member]:
        return heapq.nsmallest(n, self.pool.made.values(), key=self.priority)

    def _tidy(self) -> None:
        pool = self.pool
        if self.retire:
            for member in [m for m in pool.made.values() if pool.epoch - m.visited > self.stale]:
                pool.retire(member, "stale")
        everything_rests = not pool.order.members
        for key in [key for key, until in self._resting.items() if until <= pool.epoch or everything_rests]:
            del self._resting[key]
            pool.order.add(pool.members[key])


def _checked_quotas(quotas: Any) -> str | dict[str, float]:
    """The quotas as plain data."""
    if isinstance(quotas, str):
        check_choice("quotas", quotas, ("seeds", "equal"))
        return quotas
    expected = f'"seeds", "equal", or weights above or equal to 0 by kind ({", ".join(KINDS)})'
    if not isinstance(quotas, Mapping) or not set(quotas) <= set(KINDS):
        raise RodsError(f"quotas must be {expected}; got {quotas!r}.")
    weights = list(quotas.values())
    if not all(is_number(weight) and 0 <= weight < float("inf") for weight in weights) or not any(weights):
        raise RodsError(f"quotas must be {expected}, not all 0; got {quotas!r}.")
    return {kind: quotas[kind] for kind in KINDS if kind in quotas}


def _quotas(quotas: str | dict[str, float], tasks: Sequence[Task], budget: int) -> dict[str, int]:
    """How many parents of each kind a step may have."""
    if isinstance(quotas, dict):
        return apportioned(quotas, budget)
    counts = Counter(task.kind for task in tasks)
    present = [kind for kind in KINDS if counts[kind]]
    return apportioned({kind: counts[kind] if quotas == "seeds" else 1 for kind in present}, budget)
