"""How fast: steps, snapshots, resets and new tasks, on one core, through `gymnasium.make`, text in and text out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from rods_env.envs.calls import write_calls
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import Task, load_tasks

Report = Callable[[str], None]


def run(*, seed: int = 0, quick: bool = False, progress: Report = lambda _: None) -> dict[str, float]:
    """All figures, flat, with units in the keys; each is the median of several repetitions.

    Args:
        seed: seeds resets and synthesis.
        quick: a tenth of the work, for a first look.
        progress: called with what is measured next.
    """
    scale = 1 if quick else 10
    tasks = load_tasks("seeds")
    figures: dict[str, float] = {}
    progress("steps with the gold calls of all 400 seeds")
    figures["step_per_s"] = _median([_gold_steps_per_s(tasks) for _ in range(2 * scale)])
    progress("steps with one lookup")
    figures["lookup_step_per_s"] = _median([_lookup_steps_per_s(tasks, 2000 * scale) for _ in range(5)])
    progress("snapshots")
    for size, some in (("", "base"), ("_long_context", "long_context")):
        task = max((t for t in tasks if t.kind == some), key=_rows)
        figures[f"rows{size}"] = _rows(task)
        snapshot, restore = _snapshot_us(task, 2000 * scale)
        figures[f"snapshot{size}_us"], figures[f"restore{size}_us"] = snapshot, restore
    progress("resets")
    figures["reset_us"] = _median([_reset_us(tasks, seed, 400) for _ in range(scale)])
    progress("new tasks")
    figures.update(_tasks_per_s(seed, 300 * scale))
    return figures


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _rows(task: Task) -> int:
    return sum(len(rows) for rows in task.world.tables.values())


def _gold_steps_per_s(tasks: Sequence[Task]) -> float:
    """Tool-call steps a second when an oracle whose messages are written beforehand plays all tasks.

    Only steps with a call are counted and timed; closing a turn (grading) and resets are not.
    """
    env: Any = gym.make("ToolUse-RODS-v0", tasks=tasks)
    script = [[[write_calls([(c.tool, c.arguments)]) for c in turn.calls] for turn in task.turns] for task in tasks]
    for task in tasks:
        _ = task.gold  # graded once before the clock runs
    spent, steps, clock, step = 0.0, 0, time.perf_counter, env.step
    for task, turns in zip(tasks, script, strict=True):
        env.reset(options={"task": task})
        for actions in turns:
            begun = clock()
            for action in actions:
                step(action)
            spent += clock() - begun
            steps += len(actions)
            step("Done.")
    return steps / spent


def _lookup_steps_per_s(tasks: Sequence[Task], n: int) -> float:
    """Steps a second with one and the same call that reads one row."""
    task = next(t for t in tasks if "shop" in t.apis)
    env: Any = gym.make("ToolUse-RODS-v0", tasks=tasks, max_steps=n + 1)
    env.reset(options={"task": task})
    customer = next(iter(task.world.tables["shop.products"]))
    action = write_calls([("quote_price", {"product_id": customer, "quantity": 1})])
    step = env.step
    begun = time.perf_counter()
    for _ in range(n):
        step(action)
        env.unwrapped._attempts = 0  # a product out of stock is an answer like any other here
    return n / (time.perf_counter() - begun)


def _snapshot_us(task: Task, n: int) -> tuple[float, float]:
    env: Any = gym.make("ToolUse-RODS-v0", tasks=[task]).unwrapped
    env.reset(seed=0)
    call = task.turns[0].calls[0] if task.turns[0].calls else task.turns[1].calls[0]
    env.step(write_calls([(call.tool, call.arguments)]))
    take, back, kept = env.snapshot, env.restore, env.snapshot()
    begun = time.perf_counter()
    for _ in range(n):
        take()
    middle = time.perf_counter()
    for _ in range(n):
        back(kept)
    ended = time.perf_counter()
    return (middle - begun) / n * 1e6, (ended - middle) / n * 1e6


def _reset_us(tasks: Sequence[Task], seed: int, n: int) -> float:
    env: Any = gym.make("ToolUse-RODS-v0", tasks=tasks)
    env.reset(seed=seed)
    begun = time.perf_counter()
    for k in range(n):
        env.reset(seed=k)
    return (time.perf_counter() - begun) / n * 1e6


def _tasks_per_s(seed: int, n: int) -> dict[str, float]:
    """Valid base tasks a second, each drawn (a new shape), executed, phrased and validated; depth up to 4."""
    source = TaskSource(seed)
    for _ in range(100):  # fills the lexicon and the caches
        source.task("base", max_depth=3)
    source.rejected.clear()
    begun = time.perf_counter()
    tasks = [source.task("base", max_depth=4) for _ in range(n)]
    spent = time.perf_counter() - begun
    kept = [task for task in tasks if task.profile.depth <= 4]
    return {
        "task_per_s": len(kept) / spent,
        "task_calls_mean": sum(len(task.calls) for task in kept) / len(kept),
        "task_turns_mean": sum(len(task.turns) for task in kept) / len(kept),
        "task_accepted_share": n / (n + sum(source.rejected.values())),
    }
