"""What the benchmark is to show: which arm is compared to which, and when that is reached; and what makes it fair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from rods_env.benchmarks.curricula.arms import ARMS, AUGMENTED, BOUND, DAPO, FIXED, SFT_MORE, base_of
from rods_env.benchmarks.curricula.cells import KEPT_SETS, Cell, Outcomes
from rods_env.benchmarks.curricula.learners import POINTER
from rods_env.benchmarks.curricula.statistics import Interval
from rods_env.curricula.frontier import Frontier

WITHOUT_SYNTHESIS = (FIXED, DAPO, "replay", AUGMENTED, SFT_MORE)
MAIN = ("stream", "rods")
BASELINES = ("random", "fresh")
BEFOREHAND = "offline17k"
RUNS = {POINTER: 10}  # how many runs a target asks for, by policy
OTHER_RUNS = 5  # of any other policy
DAPO_SLACK = 0.03  # of a language model's `dapo`, which stops after a whole step and not in the middle of one

Wanted = Literal["above 0", "not below 0"]
Verdict = Literal["reached", "not reached", "undecided"]


class Aim(NamedTuple):
    """A comparison of which something is wanted.

    Attributes:
        arm, baseline: the difference in final success is the first minus the second.
        wanted: what it is to be.
        required: whether the benchmark fails if it is clearly not reached; others are compared, not required.
    """

    arm: str
    baseline: str
    wanted: Wanted
    required: bool


def aims(arms: Sequence[str]) -> list[Aim]:
    """The targets among these arms: synthesis against fixed data, `rods` against 17,000 tasks made beforehand, and
    arms that follow the frontier against arms that choose at random; and, not required, tasks that never repeat
    against those made beforehand, and what the best choice could gain."""
    made = [arm for arm in arms if base_of(arm) not in (*WITHOUT_SYNTHESIS, BOUND)]
    found = [Aim(arm, FIXED, "above 0", True) for arm in made]
    found.append(Aim("rods", BEFOREHAND, "not below 0", True))
    found += [Aim(arm, BEFOREHAND, "not below 0", False) for arm in ("fresh", "stream")]
    following = sorted((arm for arm in arms if _follows_frontier(arm)), key=lambda arm: _place(arm, arms))
    found += [Aim(arm, baseline, "above 0", arm in MAIN) for arm in following for baseline in BASELINES]
    found.append(Aim(BOUND, "fresh", "above 0", False))
    return [aim for aim in found if aim.arm in arms and aim.baseline in arms]


def _follows_frontier(arm: str) -> bool:
    make = ARMS.get(base_of(arm))
    return isinstance(make, partial) and make.func is Frontier


def _place(arm: str, arms: Sequence[str]) -> tuple[int, int]:
    return (MAIN.index(arm) if arm in MAIN else len(MAIN)), arms.index(arm)


def verdict(found: Interval, wanted: Wanted) -> Verdict:
    """Whether a target is reached, from the whole interval.

    "above 0" is reached if all of the interval is above 0, and not reached if none of it is. "not below 0" is not
    reached if all of it is below 0, and reached if its middle is not; between these it is undecided.
    """
    if wanted == "above 0":
        return "reached" if found.low > 0.0 else "not reached" if found.high <= 0.0 else "undecided"
    return "not reached" if found.high < 0.0 else "reached" if found.value >= 0.0 else "undecided"


def unfair(cells: Sequence[Cell]) -> list[str]:
    """Where arms of one seed did not get the same rollouts and updates, a sentence each; none if tokens are matched.

    `dapo` plays further groups in place of those that its filter drops, and so makes fewer updates: that is its rule.
    """
    sentences = []
    blocks: dict[tuple[int, int], list[Cell]] = {}
    for cell in cells:
        if cell.spec.match == "rollouts":
            blocks.setdefault((cell.spec.seed_count, cell.spec.seed), []).append(cell)
    for (count, seed), block in blocks.items():
        for what in ("rollouts", "updates"):
            found = {
                cell.spec.arm: int(getattr(cell.checkpoints[-1], what))
                for cell in block
                if cell.spec.arm != DAPO or (what == "rollouts" and not _nearly(cell))
            }
            if len(set(found.values())) > 1:
                least, most = min(found, key=lambda arm: found[arm]), max(found, key=lambda arm: found[arm])
                sentences.append(
                    f"{count} seeds, seed {seed}: all arms must have equally many {what}; "
                    f"{least} has {found[least]:,}, {most} {found[most]:,}."
                )
    return sentences


def begun_apart(cells: Sequence[Cell]) -> list[str]:
    """Where arms of one seed began from policies that do not solve the same tasks, a sentence for each seed.

    One kind of processor makes equal warm-ups; another rounds otherwise, and the policies then differ a little.
    """
    starts: dict[tuple[int, int], list[Outcomes]] = {}
    for cell in cells:
        solved = np.concatenate([cell.solved(0, name) for name in KEPT_SETS])
        known = starts.setdefault((cell.spec.seed_count, cell.spec.seed), [])
        if not any(np.array_equal(solved, other) for other in known):
            known.append(solved)
    return [
        f"{count} seeds, seed {seed}: the arms began from {len(known)} policies (up to "
        f"{max(int((a != b).sum()) for a, b in combinations(known, 2))} of {len(known[0]):,} held-out tasks end "
        "otherwise before training): they were not all warmed up on one kind of processor."
        for (count, seed), known in starts.items()
        if len(known) > 1
    ]


def _nearly(cell: Cell) -> bool:
    """Whether a cell played the rollouts it was to play, but for `DAPO_SLACK` of them."""
    return abs(cell.checkpoints[-1].rollouts - cell.spec.rollouts) <= DAPO_SLACK * cell.spec.rollouts
