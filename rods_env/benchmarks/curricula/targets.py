"""What the benchmark is to show: which arm is compared to which, and when that is reached; and what makes it fair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from rods_env.benchmarks.curricula.arms import ARMS, AUGMENTED, FIXED, SFT_MORE
from rods_env.benchmarks.curricula.cells import Cell
from rods_env.benchmarks.curricula.statistics import Interval
from rods_env.curricula.frontier import Frontier

WITHOUT_SYNTHESIS = (FIXED, "dapo", "replay", AUGMENTED, SFT_MORE)
MAIN = ("stream", "rods")
BASELINES = ("random", "fresh")
AS_GOOD = -0.02  # "matches" means: less than two points worse; a smaller gap would take 25 seeds to see

Verdict = Literal["reached", "not reached", "undecided"]


class Aim(NamedTuple):
    """A comparison with a bound: the difference in final success is to be above it.

    Attributes:
        arm, baseline: the difference is the first minus the second.
        bound: what is wanted; 0 is better, below 0 is as good but for so much.
        required: whether the benchmark fails if it is clearly not reached; ablations are compared, not required.
    """

    arm: str
    baseline: str
    bound: float
    required: bool


def aims(arms: Sequence[str]) -> list[Aim]:
    """The targets among these arms: synthesis against fixed data, `rods` against 17,000 tasks made beforehand, and
    arms that follow the frontier against arms that choose at random."""
    made = [arm for arm in arms if arm not in WITHOUT_SYNTHESIS]
    found = [Aim(arm, FIXED, 0.0, True) for arm in made]
    found.append(Aim("rods", "offline17k", AS_GOOD, True))
    following = sorted((arm for arm in arms if _follows_frontier(arm)), key=lambda arm: _place(arm, arms))
    found += [Aim(arm, baseline, 0.0, arm in MAIN) for arm in following for baseline in BASELINES]
    return [aim for aim in found if aim.arm in arms and aim.baseline in arms]


def _follows_frontier(arm: str) -> bool:
    make = ARMS.get(arm)
    return isinstance(make, partial) and make.func is Frontier


def _place(arm: str, arms: Sequence[str]) -> tuple[int, int]:
    return (MAIN.index(arm) if arm in MAIN else len(MAIN)), arms.index(arm)


def verdict(found: Interval, bound: float) -> Verdict:
    """Reached if the whole interval is above the bound, not reached if none of it is, otherwise undecided."""
    if found.low > bound:
        return "reached"
    return "not reached" if found.high <= bound else "undecided"


def unfair(cells: Sequence[Cell]) -> list[str]:
    """Where arms of one seed did not get the same rollouts and updates, a sentence each; none if tokens are matched."""
    sentences = []
    blocks: dict[tuple[int, int], list[Cell]] = {}
    for cell in cells:
        if cell.spec.match == "rollouts":
            blocks.setdefault((cell.spec.seed_count, cell.spec.seed), []).append(cell)
    for (count, seed), block in blocks.items():
        for what in ("rollouts", "updates"):
            found = {cell.spec.arm: int(getattr(cell.checkpoints[-1], what)) for cell in block}
            if len(set(found.values())) > 1:
                least, most = min(found, key=lambda arm: found[arm]), max(found, key=lambda arm: found[arm])
                sentences.append(
                    f"{count} seeds, seed {seed}: all arms must have equally many {what}; "
                    f"{least} has {found[least]:,}, {most} {found[most]:,}."
                )
    return sentences
