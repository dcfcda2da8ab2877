"""How fast the environment of BFCL's tasks is: calls beside the package's own executor, resets, snapshots."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import msgspec

from rods_env.benchmarks.throughput import loop_ms
from rods_env.bfcl.tasks import BfclTask, bfcl_tasks
from rods_env.envs.calls import write_calls


def run(*, seed: int = 0, quick: bool = False, progress: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """All figures, flat, with units in the keys; each is the best of several repetitions.

    `call_per_s`: gold calls of all 800 tasks a second through the environment: text read, arguments checked, call run,
    turns graded, episodes reset. `first_call_per_s`: the same when no task was played before, so that simulators are
    loaded and gold calls run for the first time. `executor_call_per_s`: the same calls in the package's own executor,
    in a process of its own, without grading. `snapshot_us`, `restore_us`: these two in the middle of a task.
    `copying_call_us`: the first call after a restore, which copies the simulator that it runs on; `further_call_us`:
    the same call once more. `_long_context`: of that category.

    Args:
        seed: seeds resets.
        quick: a third of the repetitions.
        progress: called with what is measured next.
    """
    repetitions = 1 if quick else 3
    tasks = bfcl_tasks()
    figures: dict[str, float] = {"machine_loop_ms": min(loop_ms() for _ in range(5))}
    progress("the package's executor")
    reference = [sys.executable, "-m", "rods_env.benchmarks.bfcl_reference", "time"]
    done = [subprocess.run(reference, stdout=subprocess.PIPE, check=True).stdout for _ in range(repetitions)]
    figures["executor_call_per_s"] = max(msgspec.json.decode(one, type=float) for one in done)
    progress("the gold calls of the 800 tasks")
    figures["first_call_per_s"] = _gold_calls_per_s(tasks)
    figures["call_per_s"] = max(_gold_calls_per_s(tasks) for _ in range(2 * repetitions))
    progress("resets and snapshots")
    figures["reset_us"] = min(_reset_us(tasks, seed) for _ in range(3 * repetitions))
    for suffix, kind in (("", "base"), ("_long_context", "long_context")):
        some = [task for task in tasks if task.kind == kind and task.turns[0].calls]
        rows = [_snapshot_us(some) for _ in range(3 * repetitions)]
        names = ("snapshot", "restore", "copying_call", "further_call")
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            figures[f"{name}{suffix}_us"] = min(values)
    return figures


def failures(figures: dict[str, float]) -> list[str]:
    """What is not as it should be, as sentences."""
    ours, theirs = figures["call_per_s"], figures["executor_call_per_s"]
    return [] if ours >= theirs else [f"Expected at least the executor's {theirs:.0f} calls a second; got {ours:.0f}."]


def _gold_calls_per_s(tasks: Sequence[BfclTask]) -> float:
    env: Any = gym.make("ToolUse-BFCL-v0", tasks=tasks)
    scripts = [[[write_calls([(c.tool, c.arguments)]) for c in turn.calls] for turn in task.turns] for task in tasks]
    begun = time.perf_counter()
    for task, script in zip(tasks, scripts, strict=True):
        env.reset(options={"task": task})
        for actions in script:
            for action in actions:
                env.step(action)
            env.step("Done.")
    return sum(len(task.calls) for task in tasks) / (time.perf_counter() - begun)


def _reset_us(tasks: Sequence[BfclTask], seed: int) -> float:
    env: Any = gym.make("ToolUse-BFCL-v0", tasks=tasks)
    env.reset(seed=seed)
    begun = time.perf_counter()
    for _ in range(1000):
        env.reset()
    return (time.perf_counter() - begun) * 1e3


def _snapshot_us(tasks: Sequence[BfclTask]) -> tuple[float, ...]:
    """Means over the tasks: a snapshot, a restore, the call after it, and the same call again."""
    env: Any = gym.make("ToolUse-BFCL-v0", tasks=tasks).unwrapped
    clock, spent = time.perf_counter, [0.0] * 4
    for task in tasks:
        call = task.turns[0].calls[0]
        action = write_calls([(call.tool, call.arguments)])
        env.reset(options={"task": task})
        env.step(action)
        times = [clock()]
        snapshot = env.snapshot()
        times.append(clock())
        env.restore(snapshot)
        times.append(clock())
        env.step(action)
        times.append(clock())
        env.step(action)
        times.append(clock())
        for at in range(4):
            spent[at] += times[at + 1] - times[at]
    return tuple(one / len(tasks) * 1e6 for one in spent)
