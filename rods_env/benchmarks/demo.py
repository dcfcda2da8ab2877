"""What curricula do to a simulated learner: any of them in turn, with time series of what is played and learned.

A picture of the mechanism in seconds, not evidence: evidence is the benchmark of curricula with trained policies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rods_env.agents.simulated import SimulatedLearner
from rods_env.curricula import CURRICULA, Curriculum, Frontier
from rods_env.curricula.base import VariantMaker
from rods_env.curricula.checks import check_whole
from rods_env.curricula.statistics import ROUNDING, group_of
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, load_tasks

Array = np.ndarray[Any, np.dtype[Any]]
Report = Callable[[int | str], None]

ARMS: dict[str, Callable[..., Curriculum]] = {
    **CURRICULA,
    "rods": partial(Frontier, mode="pool", signal="variance"),
    "rods-mean": partial(Frontier, mode="pool", signal="mean", rule="ranked"),  # as the paper has it
    "ranked": partial(Frontier, mode="pool", signal="variance", rule="ranked"),
    "stream": partial(Frontier, mode="stream", signal="variance"),
    "sharp": partial(Frontier, mode="stream", signal="variance", sharpness=4.0),
}
DEFAULT_ARMS = ("fixed", "random", "rods-mean", "rods", "stream")
WINDOW = 256  # groups of a moving average
_GENERATIONS = 4  # of the pool's composition: seeds, their variants, variants of these, and all later ones


class Run(NamedTuple):
    """One curriculum with one learner.

    Attributes:
        mean, variance: of the returns of every group; the variance is exactly 0 if they agree.
        calls, turns, root: of the task that the group played: its size, and the seed it descends from (−1: none).
        first: whether the group was the first of a made task.
        looks: after how many groups the learner and the pool were looked at; what follows has a row for each look.
        success: expected share of successes on the held-out tasks.
        frontier: expected share of groups that disagree, if every task of the pool is played as often.
        pool: how many tasks the pool has of each generation: seeds, variants of them, variants of these, later ones.
        seconds: what was spent in `synthesis`, `curriculum` (choosing and learning, without synthesis) and `learner`.
    """

    mean: Array
    variance: Array
    calls: Array
    turns: Array
    root: Array
    first: Array
    looks: Array
    success: Array
    frontier: Array
    pool: Array
    seconds: dict[str, float]

    @property
    def keeps_made(self) -> bool:
        """Whether made tasks that it plays live in a pool, or there are none."""
        return not self.first.any() or bool(self.pool[:, 1:].any())

    def kinds(self) -> dict[str, Array]:
        """For each kind of group without variance, which groups are of it: all 0, equal in between, all 1."""
        agrees, zero, one = self.variance == 0.0, self.mean <= ROUNDING, self.mean >= 1.0 - ROUNDING
        return {"all_zero": agrees & zero, "settled": agrees & ~zero & ~one, "all_one": agrees & one}


class Demo(NamedTuple):
    """The runs of all curricula, and what they were made with.

    Attributes:
        runs: by arm, one run for each seed.
        groups, group_size, seed: as asked for.
        calls, turns, tasks: mean calls and turns of the seeds, and how many there are.
    """

    runs: dict[str, list[Run]]
    groups: int
    group_size: int
    seed: int
    calls: float
    turns: float
    tasks: int

    @property
    def window(self) -> int:
        """Groups of a moving average."""
        return min(WINDOW, max(self.groups // 4, 1))

    def by_arm(self) -> dict[str, dict[str, list[float]]]:
        """The figures of each arm, one for each seed; see `figures_of`."""
        found: dict[str, dict[str, list[float]]] = {}
        for arm, runs in self.runs.items():
            each = [figures_of(run, self) for run in runs]
            found[arm] = {name: [figures[name] for figures in each] for name in each[0]}
        return found

    def figures(self) -> dict[str, float]:
        """All figures flat, means over the seeds; of several seeds also the lowest and the highest."""
        flat = {"groups": float(self.groups), "group_size": float(self.group_size), "seed": float(self.seed)}
        for arm, figures in self.by_arm().items():
            for name, values in figures.items():
                key = f"{arm.replace('-', '_')}_{name}"
                flat[key] = sum(values) / len(values)
                if len(values) > 1:
                    flat[f"{key}_low"], flat[f"{key}_high"] = min(values), max(values)
        return flat


def figures_of(run: Run, demo: Demo) -> dict[str, float]:
    """The figures of one run.

    Shares, sizes and distinct seeds are those of the second half of the run, when the curriculum knows its tasks;
    `zero_variance_change` is what the second half has more than the first. Sizes and distinct seeds are relative to
    the seeds' own. `injected_variance_share` is over the whole run, of the first groups of made tasks (0 without any).
    """
    half = demo.groups // 2
    agrees = run.variance == 0.0
    late = slice(half, None)
    figures = {f"{name}_share": float(which[late].mean()) for name, which in run.kinds().items()}
    injected = int(run.first.sum())
    return {
        "zero_variance_share": float(agrees[late].mean()),
        "zero_variance_change": float(agrees[late].mean() - agrees[:half].mean()),
        **figures,
        "frontier_share": float(run.frontier[-1]),
        "injected_total": float(injected),
        "injected_variance_share": float((~agrees)[run.first].mean()) if injected else 0.0,
        "heldout_success": float(run.success[-1]),
        "heldout_success_at_start": float(run.success[0]),
        "calls_ratio": float(run.calls[late].mean()) / demo.calls,
        "turns_ratio": float(run.turns[late].mean()) / demo.turns,
        "distinct_seeds_ratio": len(set(run.root[late].tolist()) - {-1}) / demo.tasks,
        **{f"{name}_s": value for name, value in run.seconds.items()},
    }


def run(
    arms: Sequence[str] = DEFAULT_ARMS,
    *,
    seeds: int = 1,
    groups: int = 3000,
    group_size: int = 8,
    seed: int = 0,
    every: int = 100,
    tasks: Sequence[Task] | None = None,
    heldout: Sequence[Task] | None = None,
    synthesizer: Callable[[int], VariantMaker] | None = None,
    progress: Report = lambda _: None,
) -> Demo:
    """Lets every arm train a simulated learner.

    Args:
        arms: names of `ARMS`.
        seeds: how many runs of each arm; run k has the seed `seed + k`, for the curriculum and for the learner.
        groups: how many groups a run plays; at least 100.
        group_size: episodes of a group.
        seed: of the first run. Equal seeds give equal results but for the seconds.
        every: groups between two looks at the learner and the pool.
        tasks, heldout: what is trained and tested on; None: the packaged sets.
        synthesizer: makes what makes variants, from a seed; None: the `Synthesizer`.
        progress: called with words for what is done now, and with numbers of groups that were played.

    Raises:
        RodsError: for an unknown arm, or a number out of range.
    """
    for arm in arms:
        if arm not in ARMS:
            raise RodsError(f"unknown curriculum {arm!r}: expected one of {', '.join(ARMS)}.")
    if not arms:
        raise RodsError(f"expected at least one curriculum of {', '.join(ARMS)}; got none.")
    for name, value, least in (("seeds", seeds, 1), ("groups", groups, 100), ("group_size", group_size, 2),
                               ("seed", seed, 0), ("every", every, 1)):  # fmt: skip
        check_whole(name, value, least)
    tasks = load_tasks("seeds") if tasks is None else tasks
    heldout = load_tasks("heldout") if heldout is None else heldout
    runs: dict[str, list[Run]] = {}
    for arm in dict.fromkeys(arms):
        runs[arm] = []
        for number in range(seed, seed + seeds):
            progress(arm if seeds == 1 else f"{arm}, seed {number}")
            maker = _Timed(_synthesizer(number) if synthesizer is None else synthesizer(number))
            curriculum = ARMS[arm](tasks, seed=number, synthesizer=maker)
            learner = SimulatedLearner(number)
            runs[arm].append(_play(curriculum, learner, maker, heldout, groups, group_size, every, progress))
    calls = sum(len(task.calls) for task in tasks) / len(tasks)
    turns = sum(len(task.turns) for task in tasks) / len(tasks)
    return Demo(runs, groups, group_size, seed, calls, turns, len(tasks))


def _synthesizer(seed: int) -> VariantMaker:
    from rods_env.tasks.variants import Synthesizer  # making tasks imports what playing does not need

    return Synthesizer(seed)


class _Timed:
    """A maker of variants that counts its seconds."""

    def __init__(self, maker: VariantMaker) -> None:
        self.maker = maker
        self.seconds = 0.0

    def variant(self, task: Task) -> Task:
        begun = time.perf_counter()
        try:
            return self.maker.variant(task)
        finally:
            self.seconds += time.perf_counter() - begun

    def state_dict(self) -> dict[str, Any]:
        return self.maker.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.maker.load_state_dict(state)


def _play(
    curriculum: Curriculum, learner: SimulatedLearner, maker: _Timed, heldout: Sequence[Task], groups: int,
    group_size: int, every: int, progress: Report,
) -> Run:  # fmt: skip
    roots = {task.id: index for index, task in enumerate(curriculum.seeds)}
    played: set[str] = set(roots)
    rows, looks = [], []
    choosing = learning = 0.0
    clock = time.perf_counter
    for number in range(groups + 1):
        if number % every == 0 or number == groups:
            looks.append((number, learner.success(heldout), *_look(curriculum, learner, group_size)))
            progress(min(every, groups - number))
        if number == groups:
            break
        begun = clock()
        task = curriculum.next_group()
        chosen = clock()
        returns = learner.returns(task, group_size)
        learner.learn(task, returns)
        learned = clock()
        curriculum.observe(task.id, returns)
        choosing += chosen - begun + clock() - learned
        learning += learned - chosen
        descent = roots.setdefault(task.id, roots.get(task.parent or "", -1))
        rows.append((*group_of(returns)[:2], len(task.calls), len(task.turns), descent, task.id not in played))
        played.add(task.id)
    seconds = {"synthesis": maker.seconds, "curriculum": choosing - maker.seconds, "learner": learning}
    mean, variance, calls, turns, root, first = map(np.array, zip(*rows, strict=True))
    at, success, frontier, pool = map(np.array, zip(*looks, strict=True))
    return Run(mean, variance, calls, turns, root, first, at, success, frontier, pool, seconds)


def _look(curriculum: Curriculum, learner: SimulatedLearner, group_size: int) -> tuple[float, list[int]]:
    """The expected share of the pool's tasks whose group disagrees, and how many tasks it has of each generation."""
    members = curriculum.pool.playing()
    counts = [0] * _GENERATIONS
    for member in members:
        counts[min(member.generation, _GENERATIONS - 1)] += 1
    tasks = [member.task for member in members] or curriculum.seeds
    return float(learner.disagreement(tasks, group_size).mean()), counts


def moving(values: Array, window: int) -> Array:
    """The mean of the last `window` values, for every place from `window` − 1 on."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=float)])
    found: Array = (sums[window:] - sums[:-window]) / window
    return found


def landings(run: Run, bins: int = 10) -> dict[str, Array]:
    """How many first groups of made tasks had which mean, in equal bins of [0, 1]: with variance, and without."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    mean, agrees = run.mean[run.first], run.variance[run.first] == 0.0
    return {"differ": np.histogram(mean[~agrees], edges)[0], "agree": np.histogram(mean[agrees], edges)[0]}
