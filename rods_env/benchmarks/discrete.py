"""How fast: steps of `ToolUse-RODS-Discrete-v0`, with random valid actions, on one core, through `gymnasium.make`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from rods_env.benchmarks.throughput import loop_ms
from rods_env.tasks.task import load_tasks

_BLOCK = 1000  # steps that are drawn and timed at a time


def run(*, seed: int = 0, quick: bool = False, progress: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """`discrete_steps_per_s` beside `machine_loop_ms`.

    Args:
        seed: seeds the environment and the actions.
        quick: a tenth of the work, for a first look.
        progress: called with what is measured next.
    """
    progress("steps with random valid actions")
    figures = {"discrete_steps_per_s": discrete_steps_per_s(2_000 if quick else 20_000, seed=seed)}
    return {**figures, "machine_loop_ms": min(loop_ms() for _ in range(50))}


def discrete_steps_per_s(n: int = 20_000, *, seed: int = 0, repeats: int = 3) -> float:
    """Steps a second with actions drawn uniformly from the valid ones; the best of several repetitions.

    Resets are part of the time. The first repetition is preceded by as many steps that are not timed, in which what the
    messages of the 400 seeds say is read for the first time.

    Args:
        n: steps of a repetition.
        seed: seeds the environment and the actions.
        repeats: how often they are measured.
    """
    env: Any = gym.make("ToolUse-RODS-Discrete-v0", tasks=load_tasks("seeds"))
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    fastest = float("inf")
    for repeat in range(repeats + 1):
        spent = 0.0
        for _ in range(max(1, n // _BLOCK)):
            draws = rng.random(min(n, _BLOCK)).tolist()
            begun = time.perf_counter()
            for draw in draws:
                valid = np.count_nonzero(info["action_mask"])
                _, _, terminated, truncated, info = env.step(int(draw * valid))
                if terminated or truncated:
                    _, info = env.reset()
            spent += time.perf_counter() - begun
        if repeat:
            fastest = min(fastest, spent)
    return max(1, n // _BLOCK) * min(n, _BLOCK) / fastest
