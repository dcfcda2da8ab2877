"""Variants of the seeds: whether every single one is right, how new they are, and how many a second are made."""

from __future__ import annotations

import gc
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import networkx as nx
from networkx.algorithms.isomorphism import categorical_edge_match, categorical_node_match

from rods_env.apis.registry import TOOLS
from rods_env.benchmarks.throughput import loop_ms
from rods_env.errors import SynthesisError
from rods_env.tasks.task import Task, load_tasks, task_from_json, task_to_json
from rods_env.tasks.validation import validate
from rods_env.tasks.variants import Synthesizer

Report = Callable[[str], None]

ENOUGH = 20  # distinct variants that a seed should have
SPEED_DEPTH = 4  # speed is measured with seeds of at most this depth
SETTINGS = {"variants_per_s": 0.25, "variants_new_per_s": 1.0, "variants_retold_per_s": 0.02}  # shares of new stories

_MUST_BE_ONE = ("valid_share", "isomorphic_share", "distinct_share")
_NODES = categorical_node_match(["skill", "turn", "spoken"], [None, None, None])
_EDGES = categorical_edge_match("kind", None)


def run(
    *, n: int = 10_000, seed: int = 0, quick: bool = False, progress: Report = lambda _: None, tasks: str = "seeds"
) -> dict[str, float]:
    """All figures, flat, with units in the keys.

    Every variant is written as a line of a task file and read again, so that nothing the synthesizer knew is trusted;
    then it is validated, and compared with its seed by networkx.

    - `valid_share`, `isomorphic_share`, `distinct_share` (texts that no seed and no other variant has): must be 1.
    - `seeds_with_20_share`; each seed with fewer is named as `fewer/ID/REASON`, with the number it has.
    - `token_jaccard_median`: `overlap` of variants with their seeds; `token_jaccard_siblings_median`: of variants with
      the one that was made before of the same seed.
    - `other_tools_share`, `other_apis_share`: variants that call other tools, or tools of other APIs, than their seeds.
    - `accepted_share`, and `rejected_REASON`, the attempts that came to nothing.
    - `variants_per_s` and its like: seeds of depth up to 4, each once a round, after a first round; the best round.
      `new`: every variant is a new story; `retold`: nearly all are known stories about other entities.

    Args:
        n: how many variants, the same number of each seed.
        seed: seeds the synthesizers.
        quick: a tenth of the seeds, and of `n`.
        progress: called with what is done next.
        tasks: the seeds: "seeds", "heldout", or a task file.
    """
    all_tasks = load_tasks(tasks)
    each = max(1, n // len(all_tasks))
    seeds = all_tasks[::10] if quick else all_tasks
    figures = _quality(seeds, each, seed, progress)
    shallow = [task for task in seeds if task.profile.depth <= SPEED_DEPTH]
    progress(f"speed, with {len(shallow)} seeds of depth up to {SPEED_DEPTH}")
    return figures | _speed(shallow, seed, rounds=3 if quick else 10)


def _quality(seeds: Sequence[Task], each: int, seed: int, progress: Report) -> dict[str, float]:
    """What does not depend on the machine."""
    progress(f"making {each} variants of each of {len(seeds)} seeds")
    synthesizer = Synthesizer(seed)
    made, fewer = _make(synthesizer, seeds, each)
    total = sum(map(len, made))
    progress(f"checking {total} variants")
    figures: dict[str, float] = {"seeds": len(seeds), "variants": total}
    figures |= check(seeds, made)
    figures["seeds_with_20_share"] = 1 - len(fewer) / len(seeds)
    figures |= fewer
    figures["accepted_share"] = synthesizer.made / (synthesizer.made + sum(synthesizer.rejected.values()))
    return figures | {f"rejected_{reason}": count for reason, count in synthesizer.rejected.most_common()}


def overlap(a: Task, b: Task) -> float:
    """The Jaccard index of the sets of lower-case words in all messages of two tasks: 0 to 1."""
    first, second = _words(a), _words(b)
    return len(first & second) / max(1, len(first | second))


def _words(task: Task) -> set[str]:
    return {word for turn in task.turns for word in re.findall(r"\w+", turn.message.lower())}


def failures(figures: Mapping[str, float]) -> list[str]:
    """What must hold and does not, as sentences."""
    said = [f"{name} must be 1; it is {figures[name]:.6f}." for name in _MUST_BE_ONE if figures[name] != 1]
    if figures["seeds_with_20_share"] < 0.95:
        said.append(f"seeds_with_20_share must be at least 0.95; it is {figures['seeds_with_20_share']:.3f}.")
    if figures["token_jaccard_median"] >= 0.5:
        said.append(f"token_jaccard_median must be below 0.5; it is {figures['token_jaccard_median']:.3f}.")
    return said


def _make(synthesizer: Synthesizer, seeds: Sequence[Task], each: int) -> tuple[list[list[Task]], dict[str, float]]:
    """For each seed its variants, and the figures that name the seeds with fewer than they should have."""
    made: list[list[Task]] = []
    fewer: dict[str, float] = {}
    for task in seeds:
        found: list[Task] = []
        reason = ""
        while len(found) < each and not reason:
            try:
                found.append(synthesizer.variant(task))
            except SynthesisError as error:
                reason = error.reason
        made.append(found)
        if len(found) < min(each, ENOUGH):
            fewer[f"fewer/{task.id}/{reason}"] = len(found)
    return made, fewer


def check(seeds: Sequence[Task], made: Sequence[Iterable[Task]]) -> dict[str, float]:
    """The shares of variants that are valid, isomorphic with their seed, distinct, and new in which way.

    Args:
        seeds: the tasks that the variants were made from.
        made: for each seed its variants.
    """
    texts = {_text(task) for task in seeds}
    counts: Counter[str] = Counter()
    overlaps: list[float] = []
    siblings: list[float] = []
    total = 0
    for task, variants in zip(seeds, made, strict=True):
        own, before = _afresh(task), None
        for variant in map(_afresh, variants):
            total += 1
            if before is not None:
                siblings.append(overlap(before, variant))
            before = variant
            counts["valid_share"] += not validate(variant)
            counts["isomorphic_share"] += _same_profile(own, variant)
            counts["distinct_share"] += _text(variant) not in texts
            counts["other_tools_share"] += [c.tool for c in variant.calls] != [c.tool for c in own.calls]
            counts["other_apis_share"] += _apis(variant) != _apis(own)
            texts.add(_text(variant))
            overlaps.append(overlap(own, variant))
    shares = {name: counts[name] / max(1, total) for name in (*_MUST_BE_ONE, "other_tools_share", "other_apis_share")}
    return shares | {
        "token_jaccard_median": statistics.median(overlaps or [1.0]),
        "token_jaccard_siblings_median": statistics.median(siblings or [1.0]),
    }


def _apis(task: Task) -> set[str]:
    return {TOOLS[call.tool].api.NAME for call in task.calls}


def _text(task: Task) -> tuple[str, ...]:
    return tuple(turn.message for turn in task.turns)


def _afresh(task: Task) -> Task:
    """The task as a reader of its file has it."""
    return task_from_json(task_to_json(task))


def _same_profile(a: Task, b: Task) -> bool:
    """Whether two tasks have the same kind, calls per turn and depth, and isomorphic graphs.

    This asks networkx for these two graphs, and does not use what `rods_env.isomorphic` remembers of equal ones.
    """
    same = a.kind == b.kind and [len(t.calls) for t in a.turns] == [len(t.calls) for t in b.turns]
    same = same and nx.dag_longest_path_length(a.graph, weight=None) == nx.dag_longest_path_length(b.graph, weight=None)
    return same and bool(nx.is_isomorphic(a.graph, b.graph, node_match=_NODES, edge_match=_EDGES))


def _speed(seeds: Sequence[Task], seed: int, rounds: int) -> dict[str, float]:
    """Variants a second by setting, beside the speed of the machine in the same minutes."""
    figures: dict[str, float] = {}
    loops: list[float] = []
    for name, new in SETTINGS.items():
        synthesizer = Synthesizer(seed, new=new)
        _round_per_s(synthesizer, seeds)  # fills the lexicon and the memory of tools and stories
        gc.collect()
        gc.freeze()  # what stands now is not looked through again and again
        try:
            speeds = []
            for _ in range(rounds):
                loops.append(loop_ms())
                speeds.append(_round_per_s(synthesizer, seeds))
        finally:
            gc.unfreeze()
        figures[name] = max(speeds)
    return figures | {"machine_loop_ms": min(loops)}


def _round_per_s(synthesizer: Synthesizer, seeds: Sequence[Task]) -> float:
    """Variants a second, with one of each seed; the time of seeds that have no more of them counts."""
    before, begun = synthesizer.made, time.perf_counter()
    for task in seeds:
        synthesizer.variants(task, 1)
    return (synthesizer.made - before) / (time.perf_counter() - begun)
