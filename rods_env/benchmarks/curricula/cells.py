"""A cell of the benchmark: one arm, trained once from one warm-up; what is kept of it, and how it is collected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from rods_env.curricula.base import Curriculum
from rods_env.curricula.open_groups import Origin
from rods_env.curricula.statistics import ROUNDING, group_of
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

HARD, MASTERED = 0.20, 0.85  # the paper's band of mean returns
SETS = ("seen", "unseen", "tuning")
KEPT_SETS = ("seen", "unseen")  # of these the outcome of every task is kept
Outcomes = np.ndarray[Any, np.dtype[np.bool_]]


class Spec(msgspec.Struct, frozen=True):
    """Which cell it is.

    Attributes:
        policy: "pointer", "tiny", or the path or id of a model.
        tasks: the name of the set that seeds are drawn from, such as "seeds" or "bfcl:train".
        seed_count: how many seeds are drawn from it.
        arm: a name of `ARMS`, and perhaps options, such as "stream:sharpness=1".
        seed: of the warm-up, of the draw of the seeds, and of the run. Arms of one seed share the first two.
        rollouts: how many are played.
        match: "rollouts", or "tokens": as many tokens as `fixed` samples in as many rollouts.
        settings: the learner's settings other than its defaults, as JSON with sorted keys.
    """

    policy: str
    tasks: str
    seed_count: int
    arm: str
    seed: int
    rollouts: int
    match: str = "rollouts"
    settings: str = "{}"

    @property
    def name(self) -> str:
        """The name of its file, without an ending."""
        tasks = "".join(c if c.isalnum() else "-" for c in self.tasks)
        arm = self.arm.replace(":", "@")  # some file systems have no colons in names
        return f"{tasks}-{self.seed_count}-{arm}-s{self.seed}"


class Checkpoint(msgspec.Struct, frozen=True):
    """The policy at a moment of the run, and what was played since the moment before.

    Attributes:
        rollouts: played so far.
        updates: of the policy so far.
        tokens: sampled so far; for `pointer` decisions.
        distinct_tasks: how many different tasks were played so far.
        success: share of tasks solved, in [0, 1], by set (`SETS`).
        progress: mean R_P, in [0, 1], by set.
        outcomes: for `KEPT_SETS`, which tasks were solved: hexadecimal digits, the first task in the highest bit.
        window: figures of the groups since the checkpoint before, see `Recorder`.
    """

    rollouts: int
    updates: int
    tokens: int
    distinct_tasks: int
    success: dict[str, float]
    progress: dict[str, float]
    outcomes: dict[str, str]
    window: dict[str, float]


class Cell(msgspec.Struct, frozen=True):
    """A finished cell.

    Attributes:
        spec: which it is.
        sizes: tasks in each set.
        checkpoints: in order; the first is the warmed-up policy, the last the end of the run.
        bands: sums over all groups: `inside_groups`, `inside_variance`, `outside_groups`, `outside_variance`, of groups
            whose mean return is in [0.20, 0.85] and of the others.
        injected: of first groups of made tasks: `groups`, and how many were `hard`, `middle`, `mastered` by their mean,
            and `disagreed`.
        seconds: wall clock by part: `play`, `update`, `curriculum` (synthesis included), `evaluate`.
        digests: for each set a digest of the ids of its tasks, in order (`digest_of`); empty if they were not kept.
            Seeds with one digest were tested on the same tasks, which widens intervals over seeds and tasks.
    """

    spec: Spec
    sizes: dict[str, int]
    checkpoints: list[Checkpoint]
    bands: dict[str, float]
    injected: dict[str, int]
    seconds: dict[str, float]
    digests: dict[str, str] = {}

    @property
    def best(self) -> int:
        """The checkpoint with the greatest success on the tuning set, the first of equals."""
        return max(range(len(self.checkpoints)), key=lambda k: (self.checkpoints[k].success["tuning"], -k))

    def solved(self, checkpoint: int, name: str) -> Outcomes:
        """Which tasks of a kept set were solved at a checkpoint, bool of shape `(tasks,)`."""
        return unpacked(self.checkpoints[checkpoint].outcomes[name], self.sizes[name])


def digest_of(tasks: Sequence[Task]) -> str:
    """What tells one held-out set from another: a digest of the ids of its tasks, in order."""
    return hashlib.sha256("\n".join(task.id for task in tasks).encode()).hexdigest()[:16]


def packed(solved: Sequence[bool] | Outcomes) -> str:
    """Outcomes as hexadecimal digits, four tasks each."""
    return np.packbits(np.asarray(solved, bool)).tobytes().hex()


def unpacked(digits: str, n: int) -> Outcomes:
    """The first n outcomes of hexadecimal digits."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8))[:n].astype(bool)


class Recorder:
    """Collects a cell while it is trained.

    Args:
        spec: of the cell.
        sizes: tasks in each set.
        digests: of the tasks of each set, see `Cell`.

    Attributes:
        rollouts, updates, tokens: counted so far; the learner adds to the last two.
        vain: groups played since the last checkpoint that do not count (of the arm `bound`); the learner adds to it.
        seconds: wall clock by part; the learner adds to it.
    """

    def __init__(self, spec: Spec, sizes: Mapping[str, int], digests: Mapping[str, str] = {}) -> None:
        self.spec = spec
        self.sizes = dict(sizes)
        self.digests = dict(digests)
        self.rollouts = self.updates = self.tokens = self.vain = 0
        self.seconds = dict.fromkeys(("play", "update", "curriculum", "evaluate"), 0.0)
        self._checkpoints: list[Checkpoint] = []
        self._bands = dict.fromkeys(("inside_groups", "inside_variance", "outside_groups", "outside_variance"), 0.0)
        self._injected = dict.fromkeys(("groups", "hard", "middle", "mastered", "disagreed"), 0)
        self._played: set[str] = set()
        self._groups: list[tuple[float, bool, int, int, str]] = []  # mean, agrees, calls, turns, root

    def group(self, task: Task, origin: Origin, returns: Sequence[float]) -> None:
        """A group was played."""
        mean, variance, agrees = group_of(returns)
        self.rollouts += len(returns)
        where = "inside" if HARD <= mean <= MASTERED else "outside"
        self._bands[f"{where}_groups"] += 1
        self._bands[f"{where}_variance"] += variance
        if origin.generation and task.id not in self._played:
            self._injected["groups"] += 1
            self._injected["hard" if mean < HARD else "middle" if mean <= MASTERED else "mastered"] += 1
            self._injected["disagreed"] += not agrees
        self._played.add(task.id)
        self._groups.append((mean, agrees, len(task.calls), len(task.turns), origin.parent or task.id))

    def checkpoint(
        self, curriculum: Curriculum | None, solved: Mapping[str, Sequence[bool]], progress: Mapping[str, float]
    ) -> Checkpoint:
        """The policy was evaluated.

        Args:
            curriculum: of the arm; None for one without.
            solved: for each set which tasks were solved.
            progress: for each set the mean progress.
        """
        window = _window(self._groups)
        if curriculum is not None:
            figures = curriculum.metrics()
            window.update({name: figures[name] for name in ("frontier_share", "pool_size", "pool_synthetic")})
        if self.vain:
            window["groups_in_vain"] = float(self.vain)
        self._groups, self.vain = [], 0
        made = Checkpoint(
            self.rollouts, self.updates, self.tokens, len(self._played),
            {name: round(float(np.mean(solved[name])), 6) for name in solved},
            {name: round(float(value), 6) for name, value in progress.items()},
            {name: packed(solved[name]) for name in KEPT_SETS},
            {name: round(value, 6) for name, value in window.items()},
        )  # fmt: skip
        self._checkpoints.append(made)
        return made

    def cell(self) -> Cell:
        """What was collected."""
        seconds = {name: round(value, 2) for name, value in self.seconds.items()}
        bands = {name: round(value, 6) for name, value in self._bands.items()}
        return Cell(self.spec, self.sizes, self._checkpoints, bands, self._injected, seconds, self.digests)


def _window(groups: Sequence[tuple[float, bool, int, int, str]]) -> dict[str, float]:
    """Shares and means over groups; those of no group are 0."""
    n = max(len(groups), 1)
    zero = sum(agrees and mean <= ROUNDING for mean, agrees, *_ in groups)
    one = sum(agrees and mean >= 1.0 - ROUNDING for mean, agrees, *_ in groups)
    equal = sum(agrees for _, agrees, *_ in groups)
    return {
        "groups": float(len(groups)),
        "mean_return": sum(mean for mean, *_ in groups) / n,
        "zero_variance_share": equal / n,
        "all_zero_share": zero / n,
        "all_one_share": one / n,
        "settled_share": (equal - zero - one) / n,
        "calls_mean": sum(calls for _, _, calls, _, _ in groups) / n,
        "turns_mean": sum(turns for *_, turns, _ in groups) / n,
        "distinct_seeds": float(len({root for *_, root in groups})),
    }


def write_settings(settings: Mapping[str, Any]) -> str:
    """Settings as `Spec` keeps them."""
    return json.dumps(dict(settings), sort_keys=True, separators=(",", ":"))


def write_cell(cell: Cell) -> bytes:
    """A cell as JSON on one line; equal cells give equal bytes."""
    return msgspec.json.encode(cell, order="deterministic")


def read_cell(content: bytes, where: str) -> Cell:
    """A cell from JSON.

    Raises:
        RodsError: if it is none.
    """
    try:
        return msgspec.json.decode(content, type=Cell)
    except msgspec.MsgspecError as error:
        raise RodsError(f"{where} is no cell of this benchmark: {error}. Remove it to have it made again.") from None
