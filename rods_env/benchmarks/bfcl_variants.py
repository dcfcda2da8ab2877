"""Variants of BFCL's training tasks: how many tasks have some, whether each can be solved, how new they are, how fast.

`python -m rods_env.benchmarks.bfcl_variants` writes the tasks that have too few into docs/bfcl.md.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from rods_env.benchmarks.throughput import loop_ms
from rods_env.benchmarks.variants import overlap
from rods_env.bfcl.execution import leaves
from rods_env.bfcl.tasks import BfclTask, bfcl_tasks
from rods_env.bfcl.variants import BfclSynthesizer
from rods_env.envs.calls import write_calls
from rods_env.errors import SynthesisError
from rods_env.tasks.task import Task, task_from_json, task_to_json, write_atomically

ENOUGH = 5  # distinct variants that a task should have
SHARE = 0.9  # of the tasks that should have them
_BEGIN, _END = "<!-- too few variants: made by python -m rods_env.benchmarks.bfcl_variants -->", "<!-- end of list -->"
_PAGE = Path("docs/bfcl.md")


class Found(NamedTuple):
    """The variants of one task, and why there are no more; "" if there are enough."""

    task: BfclTask
    variants: list[BfclTask]
    why: str


def search(synthesizer: BfclSynthesizer, tasks: list[BfclTask]) -> Iterator[Found]:
    """`ENOUGH` variants of each task, if it has them."""
    for task in tasks:
        made: list[BfclTask] = []
        why = ""
        while len(made) < ENOUGH and not why:
            try:
                made.append(synthesizer.variant(task))
            except SynthesisError as error:
                why = error.reason
        yield Found(task, made, why)


def run(*, seed: int = 0, quick: bool = False, progress: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """All figures, flat, with units in the keys.

    Five variants of each of the 400 training tasks are made, written as lines of a task file, read again and played.
    `enough_share`: tasks that have five. `solved_share`: variants whose gold calls return 1; `idle_zero_share`: those
    in which doing nothing returns 0. `distinct_share`: those whose messages no earlier one of the same kind has.
    `overlap_mean`: the Jaccard index of the words of a variant and its parent. `arguments_new_mean`,
    `entities_new_mean`: arguments of the gold calls that are new, and how many different ones. `rejected_…`: attempts
    by reason, for each variant made. `variant_per_s`: variants made a second, rejected attempts included.

    Args:
        seed: of the synthesizer.
        quick: only every fourth task.
        progress: called with what is measured next.
    """
    figures: dict[str, float] = {"machine_loop_ms": min(loop_ms() for _ in range(5))}
    tasks = bfcl_tasks("train")[:: 4 if quick else 1]
    for task in tasks:
        _ = task.gold
    progress("making variants")
    synthesizer = BfclSynthesizer(seed)
    begun = time.perf_counter()
    found = list(search(synthesizer, tasks))
    seconds = time.perf_counter() - begun
    pairs = [(one.task, variant) for one in found for variant in one.variants]
    progress("playing them")
    env = gym.make("ToolUse-BFCL-v0", tasks=tasks, disable_env_checker=True)
    again = [task_from_json(task_to_json(variant)) for _, variant in pairs]
    new = [_new_arguments(parent, variant) for parent, variant in pairs]
    n = len(pairs)
    figures |= {
        "tasks": float(len(tasks)),
        "variants": float(n),
        "enough_share": sum(not one.why for one in found) / len(found),
        "solved_share": sum(_returns(env, task, solve=True) == 1 for task in again) / n,
        "idle_zero_share": sum(_returns(env, task, solve=False) == 0 for task in again) / n,
        "distinct_share": len({(task.kind, *(turn.message for turn in task.turns)) for task in again}) / n,
        "overlap_mean": sum(overlap(parent, variant) for parent, variant in pairs) / n,
        "arguments_new_mean": sum(map(len, new)) / n,
        "entities_new_mean": sum(len(set(some)) for some in new) / n,
        "variant_per_s": n / seconds,
    }
    return figures | {f"rejected_{why}_per_variant": count / n for why, count in synthesizer.rejected.most_common()}


def failures(figures: Mapping[str, float]) -> list[str]:
    """What must hold and does not, as sentences."""
    must = {"enough_share": SHARE, "solved_share": 1.0, "idle_zero_share": 1.0, "distinct_share": 1.0}
    return [f"{name} must be at least {least}; it is {figures[name]:.3f}." for name, least in must.items()
            if figures[name] < least]  # fmt: skip


def too_few(seed: int = 0) -> str:
    """A table of the training tasks with fewer than five variants, and why: Markdown."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for task, variants, why in search(BfclSynthesizer(seed), bfcl_tasks("train")):
        if why:
            category, _, number = task.id.removeprefix("multi_turn_").rpartition("_")
            numbers.setdefault((number, why), []).append(f"`{category}` {len(variants)}")
    rows = [f"| {number} | {', '.join(some)} | `{why}` |" for (number, why), some in sorted(numbers.items())]
    return "\n".join(["| number | category and variants found | most frequent reason |", "|---|---|---|", *rows])


def main() -> None:
    """Writes the table into the page."""
    page = _PAGE.read_text()
    begin, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    write_atomically(_PAGE, f"{page[:begin]}\n\n{too_few()}\n\n{page[end:]}".encode())
    sys.stdout.write(f"Wrote the table in {_PAGE}.\n")


def _returns(env: Any, task: Task, *, solve: bool) -> float:
    """The return of an episode in which the gold calls are made, or none."""
    _, info = env.reset(options={"task": task})
    total = 0.0
    for turn in task.turns:
        calls = turn.calls if solve else ()
        for action in [*(write_calls([(call.tool, call.arguments)]) for call in calls), "Done."]:
            if info["termination"] is None:
                _, reward, _, _, info = env.step(action)
                total += reward
    return round(total, 9)


def _new_arguments(parent: Task, variant: Task) -> list[str]:
    """The arguments of the gold calls of a variant that its parent has otherwise."""
    found = []
    for old, new in zip(parent.calls, variant.calls, strict=True):
        values = zip(leaves(old.arguments), leaves(new.arguments), strict=True)
        found += [re.sub(r"\s+", " ", str(after)) for (_, before), (_, after) in values if before != after]
    return found


if __name__ == "__main__":
    main()
