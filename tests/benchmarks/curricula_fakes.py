"""Cells that nobody trained: made up for tests of grids, statistics and reports, and a learner that workers import."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rods_env import RodsError
from rods_env.benchmarks.curricula.cells import KEPT_SETS, SETS, Cell, Checkpoint, Spec, packed

GAINS = {
    "fixed": 0.03, "dapo": 0.04, "replay": 0.05, "augmented": 0.05, "random": 0.22, "oneshot": 0.15, "no-retire": 0.21,
    "binary": 0.19, "rods-mean": 0.12, "offline17k": 0.25, "sft-more": 0.08, "rods": 0.24, "fresh": 0.27,
    "fresh-shapes": 0.33, "stream": 0.3,
}  # fmt: skip
POOLS = ("random", "oneshot", "no-retire", "binary", "rods-mean", "rods", "fixed", "dapo")


def spec_of(arm="fixed", seed=0, count=50, rollouts=900, **others) -> Spec:
    return Spec("pointer", "seeds", count, arm, seed, rollouts, **others)


def cell_of(spec: Spec, points: int = 4, tasks: int = 200, gain: float | None = None, digests=None) -> Cell:
    """A learning curve from 0.17 upwards; tasks are as hard in all arms, which begin alike, and with digests in all
    seeds."""
    rng = np.random.default_rng([0 if digests else spec.seed, spec.seed_count])
    luck = {name: rng.random(tasks) for name in SETS}
    start = np.random.default_rng([spec.seed, spec.seed_count])
    own = np.random.default_rng([spec.seed, spec.seed_count, *spec.arm.encode()])
    gain = GAINS[spec.arm] + own.normal(0, 0.02) if gain is None else gain
    made = []
    for at in range(points):
        done = at / max(points - 1, 1)
        level = 0.17 + gain * done**0.7
        noisy = {name: np.clip(luck[name] + (own if at else start).normal(0, 0.03, tasks), 0, 1) for name in SETS}
        solved = {name: noisy[name] < level - (0.03 if name == "unseen" else 0.0) for name in SETS}
        window = {"groups": 30.0 if at else 0.0, "mean_return": level + 0.2 if at else 0.0}
        window |= {"zero_variance_share": (0.9 - 2 * gain) * done**0.3 if at else 0.0}
        window |= {"all_zero_share": 0.1, "all_one_share": 0.1, "settled_share": 0.1, "calls_mean": 7.5 - 3 * gain}
        window |= {"turns_mean": 2.5, "distinct_seeds": 28.0 if at else 0.0}
        if spec.arm in POOLS:
            window |= {"frontier_share": 0.6 - 0.3 * done + gain, "pool_size": 800.0, "pool_synthetic": 400.0}
        made.append(Checkpoint(
            int(spec.rollouts * done), int(spec.rollouts * done) // 100, 20 * int(spec.rollouts * done),
            int(spec.rollouts * done * (0.03 + gain)),
            {name: round(float(solved[name].mean()), 6) for name in SETS},
            {name: round(float(solved[name].mean()) + 0.2, 6) for name in SETS},
            {name: packed(solved[name]) for name in KEPT_SETS}, window,
        ))  # fmt: skip
    bands = {"inside_groups": 60.0, "inside_variance": 7.0, "outside_groups": 30.0, "outside_variance": 1.6}
    injected = dict.fromkeys(("groups", "hard", "middle", "mastered", "disagreed"), 0)
    if GAINS.get(spec.arm, gain) > 0.1:
        injected = {"groups": 40, "hard": 10, "middle": 22, "mastered": 8, "disagreed": 25}
    seconds = {"play": 20.0 + spec.seed, "update": 9.0, "curriculum": 1.0, "evaluate": 4.0}
    return Cell(spec, dict.fromkeys(SETS, tasks), made, bands, injected, seconds, digests or {})


def train(spec: Spec, folder: Path, on_checkpoint: Callable[[Checkpoint], None]) -> Cell:
    """Finishes at once, and notes in which process and with how many threads; fails where a file says so."""
    cell = cell_of(spec)
    for checkpoint in cell.checkpoints:
        on_checkpoint(checkpoint)
    draft = tempfile.mkdtemp(prefix="rods-cell-")  # left behind
    with open(folder / "drafts.txt", "a") as drafts:
        drafts.write(f"{draft}\n")
    with open(folder / "log.txt", "a") as log:
        log.write(f"{spec.name} {os.getpid()} {os.environ['OMP_NUM_THREADS']}\n")
    wish = folder / f"wish-{spec.name}"
    if wish.exists():
        match wish.read_text():
            case "refuse":
                raise RodsError("this arm needs what is not there.")
            case "break":
                raise ZeroDivisionError("a bug")
            case "slow":
                time.sleep(0.5)
            case "die":
                os._exit(9)
            case "wait":  # for ever
                threading.Event().wait()
            case "other":
                return cell_of(spec_of("fixed", seed=77))
    return cell
