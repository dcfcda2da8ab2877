"""How fast: steps, snapshots, resets and new tasks, on one core, through `gymnasium.make`, text in and text out."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from rods_env.envs.calls import write_calls
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import Task, load_tasks

Report = Callable[[str], None]


def run(*, seed: int = 0, quick: bool = False, progress: Report = lambda _: None) -> dict[str, float]:
    """All figures, flat, with units in the keys; each is the best of several repetitions.

    The best, because what else a shared machine does can only slow a repetition down.

    Args:
        seed: seeds resets and synthesis.
        quick: a tenth of the work, for a first look.
        progress: called with what is measured next.
    """
    scale = 1 if quick else 10
    tasks = load_tasks("seeds")
    progress("the import")
    figures: dict[str, float] = {"import_s": min(_import_s() for _ in range(5))}
    figures["machine_loop_ms"] = min(loop_ms() for _ in range(5 * scale))
    progress("steps with the gold calls of the 400 seeds, each played by a group of 16")
    figures["step_per_s"] = max([_gold_steps_per_s(tasks, 16) for _ in range(max(1, scale // 2))])
    progress("steps with the gold calls, each task played once")
    figures["step_once_per_s"] = max([_gold_steps_per_s(tasks, 1) for _ in range(2 * scale)])
    progress("steps with one lookup")
    figures["lookup_step_per_s"] = max([_lookup_steps_per_s(tasks, 2000 * scale) for _ in range(10)])
    progress("snapshots")
    for size, some in (("", "base"), ("_long_context", "long_context")):
        task = max((t for t in tasks if t.kind == some), key=_rows)
        figures[f"rows{size}"] = _rows(task)
        snapshot, restore = map(min, zip(*(_snapshot_us(task, 2000 * scale) for _ in range(5)), strict=True))
        figures[f"snapshot{size}_us"], figures[f"restore{size}_us"] = snapshot, restore
    progress("resets")
    figures["reset_us"] = min([_reset_us(tasks, seed, 400) for _ in range(scale)])
    progress("new tasks")
    figures.update(_tasks_per_s(seed, 300 * scale))
    return figures


def _import_s() -> float:
    """Seconds that `import rods_env` takes in a new process, less those of an empty one."""

    def run(code: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begun

    return run("import rods_env") - run("pass")


def loop_ms() -> float:
    """A fixed piece of plain Python, to compare machines, and one machine with itself at another hour."""
    known = {str(i): i for i in range(50)}
    begun = time.perf_counter()
    for i in range(12_000):
        _add(i, known["7"])
        [x for x in (1, 2, 3)]  # noqa: C416 - work, not a value
    return (time.perf_counter() - begun) * 1e3


def _add(a: int, b: int) -> int:
    return a + b


def _rows(task: Task) -> int:
    return sum(len(rows) for rows in task.world.tables.values())


def _gold_steps_per_s(tasks: Sequence[Task], group: int) -> float:
    """Tool-call steps a second when an oracle whose messages are written beforehand plays all tasks.

    Only steps with a call are counted and timed; closing a turn (grading) and resets are not. A group of 16 episodes in
    a row is what GRPO plays of a task. A task that is played once is read from main memory, not from the cache, and
    costs several times as much.
    """
    env: Any = gym.make("ToolUse-RODS-v0", tasks=tasks)
    spent, steps, clock, step = 0.0, 0, time.perf_counter, env.step
    for task in tasks:
        script = [[write_calls([(c.tool, c.arguments)]) for c in turn.calls] for turn in task.turns]
        _ = task.gold  # graded once before the clock runs
        for _ in range(group):
            env.reset(options={"task": task})
            for actions in script:
                begun = clock()
                for action in actions:
                    step(action)
                spent += clock() - begun
                steps += len(actions)
                step("Done.")
    return steps / spent


def _lookup_steps_per_s(tasks: Sequence[Task], n: int) -> float:
    """Steps a second with one and the same call that looks up one record."""
    task = next(t for t in tasks if any(c.tool == "find_customer" for c in t.calls))
    call = next(c for c in task.calls if c.tool == "find_customer")
    env: Any = gym.make("ToolUse-RODS-v0", tasks=tasks)
    action, step, spent, clock = write_calls([(call.tool, call.arguments)]), env.step, 0.0, time.perf_counter
    for _ in range(n // 50):  # episodes of ordinary length: what is never let go would have to be garbage-collected
        env.reset(options={"task": task})
        begun = clock()
        for _ in range(50):
            step(action)
        spent += clock() - begun
    return n // 50 * 50 / spent


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
    """Valid base tasks of depth up to 4 a second, each executed, phrased and validated, by what is new in them.

    `new_shape`: every task has a newly drawn structure; `known_shape`: nine of ten fill the structure and tools of an
    earlier task with another world, as variants do. `short`: one turn, on average three calls.
    """
    figures: dict[str, float] = {}
    for name, reuse, turns in (("new_shape", 0.0, None), ("known_shape", 0.9, None), ("short", 0.9, 1)):
        source = TaskSource(seed, reuse=reuse)
        for _ in range(200):  # fills the lexicon, the stock of worlds and the memory of structures
            source.task("base", max_depth=4, turns=turns)
        source.rejected.clear()
        tasks, fastest = [], float("inf")
        for _ in range(10):
            begun = time.perf_counter()
            some = [source.task("base", max_depth=4, turns=turns) for _ in range(n // 10)]
            fastest = min(fastest, (time.perf_counter() - begun) / len(some))
            tasks += some
        kept = [task for task in tasks if task.profile.depth <= 4]
        figures[f"task_{name}_per_s"] = len(kept) / len(tasks) / fastest
        figures[f"task_{name}_calls_mean"] = sum(len(task.calls) for task in kept) / len(kept)
        figures[f"task_{name}_accepted_share"] = n / (n + sum(source.rejected.values()))
    return figures
