"""The results of a grid: figures of every arm, comparisons of arms, and targets, from its cells alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from rods_env.benchmarks.curricula.arms import FIXED, order_of
from rods_env.benchmarks.curricula.cells import KEPT_SETS, Cell
from rods_env.benchmarks.curricula.statistics import (
    Interval,
    along,
    area_values,
    difference,
    final_values,
    first_reached,
    interquartile_mean,
    interval,
    of_arm,
    probability_of_improvement,
)
from rods_env.benchmarks.curricula.targets import aims, begun_apart, unfair, verdict
from rods_env.errors import RodsError


class OnSet(msgspec.Struct, frozen=True):
    """How an arm does on a set of held-out tasks; success in [0, 1].

    Attributes:
        first: success of the warmed-up policy.
        final: success at the end, the mean over seeds.
        final_by_seed: the same for each seed.
        iqm: interquartile mean of it.
        best: success at the checkpoint that is best on the tuning set, the mean over seeds.
        area: mean success over the run (area under the learning curve, divided by the rollouts).
        progress: mean R_P at the end.
        rollouts_to_target, tasks_to_target: rollouts played, and distinct tasks, when the target was first reached, for
            each seed; None: never. Empty without a target.
    """

    first: float
    final: Interval
    final_by_seed: list[float]
    iqm: Interval
    best: float
    area: Interval
    progress: float
    rollouts_to_target: list[float | None]
    tasks_to_target: list[float | None]


class Arm(msgspec.Struct, frozen=True):
    """An arm with one number of seeds; means over the runs unless it says otherwise.

    Attributes:
        seeds: of its runs.
        sets: by set, see `OnSet`.
        rollouts, updates, tokens, distinct_tasks: at the end.
        groups: figures of the groups since the checkpoint before the last, see `Recorder`; empty if none was played.
        zero_variance_share: of all groups of the run; None if none was played.
        inside_variance, outside_variance: mean variance of the returns of a group whose mean is in the band of
            [0.20, 0.85], and of one whose mean is not; None if there is none.
        inside_share: share of the groups in the band; None if none was played.
        injected: first groups of made tasks, in all runs together, see `Cell.injected`.
    """

    seeds: list[int]
    sets: dict[str, OnSet]
    rollouts: float
    updates: float
    tokens: float
    distinct_tasks: float
    groups: dict[str, float]
    zero_variance_share: float | None
    inside_variance: float | None
    outside_variance: float | None
    inside_share: float | None
    injected: dict[str, int]

    @property
    def variance_ratio(self) -> float | None:
        """Variance inside the band over that outside; None if there is none outside."""
        return self.inside_variance / self.outside_variance if self.inside_variance and self.outside_variance else None


class Comparison(msgspec.Struct, frozen=True):
    """An arm minus another on a set, over the seeds of both.

    Attributes:
        seeds: how many.
        final, area: difference in final success and in the area under the curve.
        improvement: probability that a run of the first ends higher than one of the second.
        wanted: what the difference in final success is to be, such as "above 0"; "": nothing is wanted of it.
        verdict: "reached", "not reached" or "undecided"; "" if nothing is wanted.
        required: whether the benchmark fails if it is not reached.
    """

    arm: str
    baseline: str
    set: str
    seeds: int
    final: Interval
    area: Interval
    improvement: float
    wanted: str
    verdict: str
    required: bool


class Part(msgspec.Struct, frozen=True):
    """All arms with one number of seeds. `target`: by set, the success whose rollouts are counted; empty if none."""

    target: dict[str, float]
    arms: dict[str, Arm]
    comparisons: list[Comparison]


class Results(msgspec.Struct, frozen=True):
    """Everything that is reported.

    Attributes:
        unfair: where arms of a seed did not get the same rollouts and updates, a sentence each.
        begun_apart: where they did not begin with the same policy, a sentence each.
        seconds: of all runs of an arm together, by number of seeds, arm and part.
    """

    policy: str
    tasks: str
    rollouts: int
    match: str
    settings: str
    parts: dict[int, Part]
    unfair: list[str]
    begun_apart: list[str]
    seconds: dict[int, dict[str, dict[str, float]]]

    def failures(self) -> list[str]:
        """What does not hold, a sentence each."""
        return self.unfair + [
            f"{count} seeds: {c.arm} minus {c.baseline} on {c.set} shapes must be {c.wanted}; it is "
            f"{c.final.value:.3f}, 95 % [{c.final.low:.3f}, {c.final.high:.3f}]."
            for count, part in self.parts.items()
            for c in part.comparisons
            if c.required and c.verdict == "not reached"
        ]


def summarize(cells: Sequence[Cell], target: float | None = None, against: Sequence[str] = ()) -> Results:
    """The results of cells of one policy, one set of tasks and equal settings.

    Args:
        cells: finished ones, in any order.
        target: success for the rollouts to a target; None: for each set the mean final success of `fixed`.
        against: arms of which every other arm's difference is told too, as that of `fixed` always is.

    Raises:
        RodsError: without cells, if they do not belong together, or if an arm of `against` has none.
    """
    if not cells:
        raise RodsError("there is no finished cell to report on.")
    arms_of_all = list(dict.fromkeys(cell.spec.arm for cell in cells))
    if unknown := [arm for arm in against if arm not in arms_of_all]:
        raise RodsError(f"expected to compare with one of the arms {', '.join(arms_of_all)}; got {unknown[0]!r}.")
    cells = sorted(cells, key=lambda cell: order_of(cell.spec))
    spec = cells[0].spec
    for name in ("policy", "tasks", "rollouts", "match", "settings"):
        if len(found := {str(getattr(cell.spec, name)) for cell in cells}) > 1:
            raise RodsError(f"cells with several {name} cannot be reported together: {' and '.join(sorted(found))}.")
    parts, seconds = {}, {}
    for count in sorted({cell.spec.seed_count for cell in cells}):
        arms: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.spec.seed_count == count:
                arms.setdefault(cell.spec.arm, []).append(cell)
        parts[count] = _part(arms, target, against)
        seconds[count] = {arm: _seconds(runs) for arm, runs in arms.items()}
    return Results(
        spec.policy, spec.tasks, spec.rollouts, spec.match, spec.settings, parts, unfair(cells), begun_apart(cells),
        seconds,
    )  # fmt: skip


# ---------------------------------------------------------------------- of one number of seeds


def _part(runs: dict[str, list[Cell]], target: float | None, against: Sequence[str]) -> Part:
    targets: dict[str, float] = {}
    for name in KEPT_SETS:
        if target is not None:
            targets[name] = target
        elif FIXED in runs:
            targets[name] = _mean(cell.checkpoints[-1].success[name] for cell in runs[FIXED])
    arms = {arm: _arm(cells, targets) for arm, cells in runs.items()}
    return Part(targets, arms, list(_comparisons(runs, against)))


def _arm(cells: Sequence[Cell], targets: dict[str, float]) -> Arm:
    ends = [cell.checkpoints[-1] for cell in cells]
    bands = {name: sum(cell.bands[name] for cell in cells) for name in cells[0].bands}
    inside, outside = bands["inside_groups"], bands["outside_groups"]
    windows = [point.window for cell in cells for point in cell.checkpoints]
    played = sum(window["groups"] for window in windows)
    equal = sum(window["groups"] * window["zero_variance_share"] for window in windows)
    last = [cell.checkpoints[-1].window for cell in cells if cell.checkpoints[-1].window["groups"]]
    names = [name for name in (last[0] if last else {}) if all(name in window for window in last)]
    return Arm(
        seeds=[cell.spec.seed for cell in cells],
        sets={name: _on_set(cells, name, targets.get(name)) for name in KEPT_SETS},
        rollouts=_mean(end.rollouts for end in ends),
        updates=_mean(end.updates for end in ends),
        tokens=_mean(end.tokens for end in ends),
        distinct_tasks=_mean(end.distinct_tasks for end in ends),
        groups={name: _mean(window[name] for window in last) for name in names},
        zero_variance_share=equal / played if played else None,
        inside_variance=bands["inside_variance"] / inside if inside else None,
        outside_variance=bands["outside_variance"] / outside if outside else None,
        inside_share=inside / (inside + outside) if inside + outside else None,
        injected={name: sum(cell.injected[name] for cell in cells) for name in cells[0].injected},
    )


def _on_set(cells: Sequence[Cell], name: str, target: float | None) -> OnSet:
    finals = of_arm(cells, name, final_values)
    rollouts: list[float | None] = []
    tasks: list[float | None] = []
    for cell in cells if target is not None else ():
        points = cell.checkpoints
        place = first_reached([point.success[name] for point in points], float(target or 0.0))
        rollouts.append(None if place is None else along([point.rollouts for point in points], place))
        tasks.append(None if place is None else along([point.distinct_tasks for point in points], place))
    return OnSet(
        first=_mean(cell.checkpoints[0].success[name] for cell in cells),
        final=interval(finals),
        final_by_seed=[float(value) for value in finals.means],
        iqm=interval(finals, interquartile_mean),
        best=_mean(cell.checkpoints[cell.best].success[name] for cell in cells),
        area=interval(of_arm(cells, name, area_values)),
        progress=_mean(cell.checkpoints[-1].progress[name] for cell in cells),
        rollouts_to_target=rollouts,
        tasks_to_target=tasks,
    )


def _comparisons(runs: dict[str, list[Cell]], against: Sequence[str]) -> Iterator[Comparison]:
    """Every arm minus `fixed`, the targets, and every arm minus those of `against`; only of arms that have a seed in
    common."""
    wanted = {(aim.arm, aim.baseline): aim for aim in aims(list(runs))}
    first, *others = ([(arm, one) for arm in runs if arm != one and one in runs] for one in (FIXED, *against))
    for arm, baseline in dict.fromkeys([*first, *wanted, *(pair for pairs in others for pair in pairs)]):
        ours, theirs = runs[arm], runs[baseline]
        common = {cell.spec.seed for cell in ours} & {cell.spec.seed for cell in theirs}
        if not common:
            continue
        aim = wanted.get((arm, baseline))
        for name in KEPT_SETS:
            final = interval(difference(ours, theirs, name, final_values))
            yield Comparison(
                arm, baseline, name, len(common), final,
                area=interval(difference(ours, theirs, name, area_values)),
                improvement=probability_of_improvement(*(_ends_of(runs, name, common) for runs in (ours, theirs))),
                wanted=aim.wanted if aim else "",
                verdict=verdict(final, aim.wanted) if aim else "",
                required=aim is not None and aim.required,
            )  # fmt: skip


def _ends_of(cells: Sequence[Cell], name: str, seeds: Collection[int]) -> list[float]:
    return [cell.checkpoints[-1].success[name] for cell in cells if cell.spec.seed in seeds]


def _seconds(cells: Sequence[Cell]) -> dict[str, float]:
    parts = {name: sum(cell.seconds[name] for cell in cells) for name in cells[0].seconds}
    return {**parts, "total": sum(parts.values())}


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))
