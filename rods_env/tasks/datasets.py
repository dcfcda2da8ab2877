"""Sets of tasks: any number of new ones, and the two frozen sets that ship with the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import immutables
import numpy as np

from rods_env.apis.api import World
from rods_env.apis.draw import Draw
from rods_env.apis.registry import APIS, TOOLS, check_apis, tools_of
from rods_env.apis.shares import apportioned, place_at
from rods_env.apis.worlds import WorldStock
from rods_env.errors import SynthesisError
from rods_env.tasks.graph import isomorphic
from rods_env.tasks.maker import TaskMaker, realize
from rods_env.tasks.task import Kind, Task, make_task
from rods_env.tasks.transforms import LONG_CONTEXT_SIZE, base_shape, transformed
from rods_env.tasks.validation import validate

QUOTAS: dict[Kind, int] = {"base": 160, "missing_function": 80, "missing_parameter": 80, "long_context": 80}
SEED = 20261129

# Shares of tasks by number of turns with calls, and for each the shares of depths. Left alone, the machine would make
# three-step tasks nearly all the time.
_TURNS = {1: 0.13, 2: 0.19, 3: 0.22, 4: 0.19, 5: 0.14, 6: 0.13}
_TURNS_BEFORE_ASKING = {1: 0.2, 2: 0.26, 3: 0.26, 4: 0.16, 5: 0.12}  # and one more turn in which something is missing
_DEPTHS = {
    1: {1: 0.4, 2: 0.45, 3: 0.15},
    2: {1: 0.08, 2: 0.5, 3: 0.3, 4: 0.12},
    3: {2: 0.5, 3: 0.26, 4: 0.16, 5: 0.08},
    4: {2: 0.45, 3: 0.27, 4: 0.13, 5: 0.09, 6: 0.06},
    5: {2: 0.35, 3: 0.3, 4: 0.15, 5: 0.1, 6: 0.1},
    6: {2: 0.3, 3: 0.3, 4: 0.18, 5: 0.12, 6: 0.1},
}
_ONE_API = 0.6  # the most tasks that need one API only
_TRIES = 600  # attempts at one task of a set, after which its depth is let go
_APIS = (1, 1, 2, 2, 2, 3)
_TRIMMED = 0.6  # tasks that offer no API they do not need; the others are harder to read
_ATTEMPTS = 400

Progress = Callable[[int], None]


class TaskSource:
    """An endless source of valid tasks of new shapes.

    Args:
        seed: equal seeds give equal tasks.
        apis: the APIs to draw from; None for all.
        uses: for how many tasks a world serves (1: each task has a world of its own).
        reuse: the share of attempts that fill the structure and the tools of an earlier task with another world, which
            takes a fifth of the time. 0: every task is of a newly drawn shape.
    """

    def __init__(self, seed: int, *, apis: Sequence[str] | None = None, uses: int = 72, reuse: float = 0.0) -> None:
        self.reuse = reuse
        self.draw = Draw(np.random.default_rng(seed))
        self.apis = check_apis(apis if apis is not None else APIS)
        worlds = 12 if uses > 1 else 1
        self.maker = TaskMaker(self.draw, WorldStock(self.draw, uses=uses, worlds=worlds))
        self.long_maker = TaskMaker(self.draw, WorldStock(self.draw, size=LONG_CONTEXT_SIZE, uses=uses, worlds=worlds))
        self.rejected: Counter[str] = Counter()

    def task(
        self,
        kind: Kind = "base",
        *,
        prefer: frozenset[str] = frozenset(),
        turns: int | None = None,
        max_depth: int | None = None,
    ) -> Task:
        """A valid task.

        Args:
            kind: its kind.
            prefer: names of tools to use first.
            turns: how many turns with calls; drawn when not given.
            max_depth: the longest chain of calls; drawn when not given.

        Raises:
            SynthesisError: if none was found in 400 attempts, which says that the APIs offer too little.
        """
        for _ in range(_ATTEMPTS):
            task = self.attempt(kind, prefer=prefer, turns=turns, max_depth=max_depth)
            if task is not None:
                return task
        raise SynthesisError(f"no valid task of kind {kind!r} in {_ATTEMPTS} attempts.", reason="attempts")

    def attempt(
        self,
        kind: Kind,
        *,
        prefer: frozenset[str] = frozenset(),
        turns: int | None = None,
        max_depth: int | None = None,
    ) -> Task | None:
        """One attempt at `task`; None if it came to nothing, for a reason that `rejected` counts."""
        try:
            task = self._attempt(kind, prefer, turns, max_depth)
        except SynthesisError as error:
            self.rejected[error.reason] += 1
            return None
        if validate(task):
            self.rejected["invalid"] += 1
            return None
        return task

    def _attempt(self, kind: Kind, prefer: frozenset[str], turns: int | None, max_depth: int | None) -> Task:
        draw = self.draw
        missing = kind.startswith("missing")
        n = turns or _drawn(draw, _TURNS_BEFORE_ASKING if missing else _TURNS)
        depth = max_depth or _drawn(draw, _DEPTHS[min(n, 6)])
        wanted = {TOOLS[name].api.NAME for name in prefer} & set(self.apis)
        apis = draw.sample(self.apis, draw.choice(_APIS))
        if wanted and draw.chance(0.7):
            apis = list(dict.fromkeys([draw.choice(sorted(wanted)), *apis[1:]]))
        others = [name for name in self.apis if name not in apis]
        offered = draw.sample(others, 2) if kind == "long_context" else []
        maker = self.long_maker if kind == "long_context" else self.maker
        if not prefer and draw.chance(self.reuse):
            return transformed(maker.again(max_depth or 6, turns), kind, draw)
        chatty = draw.choice((0.1, 0.2, 0.35))
        task = maker.task(apis, turns=n, chatty=chatty, max_depth=depth, prefer=prefer, offered=offered)
        if kind != "long_context" and draw.chance(_TRIMMED):
            task = trimmed(task)
        return transformed(task, kind, draw)


def trimmed(task: Task) -> Task:
    """The same task without the APIs that its gold calls do not use."""
    used = {TOOLS[call.tool].api.NAME for call in task.calls}
    tables = {name: rows for name, rows in task.world.tables.items() if name.partition(".")[0] in used}
    world = World(task.world.now, immutables.Map(tables))
    return make_task(task.kind, check_apis(used), task.turns, world, task.parent)


def _drawn(draw: Draw, shares: dict[int, float]) -> int:
    """A key in proportion to its share."""
    return list(shares)[place_at(list(shares.values()), draw.unit())]


class _Set:
    """A set under construction: no two tasks equal, every tool used."""

    def __init__(self, source: TaskSource, avoid: Sequence[Task] = (), cover_from: int = 10**9) -> None:
        self.source = source
        self.cover_from = cover_from  # from this many tasks on, tools that no task uses are asked for
        self.tasks: list[Task] = []
        self.texts = {tuple(turn.message for turn in task.turns) for task in avoid}
        self.used: Counter[str] = Counter()
        self.one_api = 0

    def add(self, task: Task) -> bool:
        text = tuple(turn.message for turn in task.turns)
        if text in self.texts:
            return False
        self.texts.add(text)
        self.tasks.append(task)
        self.used.update({call.tool for call in task.calls})
        self.one_api += _one_api(task)
        return True

    def rare(self) -> frozenset[str]:
        """The tools used least so far: half of the time, new tasks try these first."""
        least = min(self.used[name] for name in TOOLS)
        return frozenset(name for name in TOOLS if self.used[name] <= least + 1)

    def fill(self, kind: Kind, n: int, fits: Callable[[Task], bool], progress: Progress) -> None:
        """Adds `n` tasks of a kind, with its shares of turns and depths."""
        turn_shares = _TURNS_BEFORE_ASKING if kind.startswith("missing") else _TURNS
        for turns, count in apportioned(turn_shares, n).items():
            for depth, some in apportioned(_DEPTHS[turns], count).items():
                for _ in range(some):
                    self._one(kind, turns, depth, fits)
                    progress(1)

    def _one(self, kind: Kind, turns: int, depth: int, fits: Callable[[Task], bool]) -> None:
        unused = frozenset(TOOLS) - frozenset(self.used)
        cover = bool(unused) and len(self.tasks) >= self.cover_from
        for tries in range(2 * _TRIES):
            prefer = unused if cover else self.rare() if tries % 2 else frozenset()
            limit = depth if tries < _TRIES else 6
            task = self.source.attempt(kind, prefer=prefer, turns=turns, max_depth=limit)
            if task is None or not fits(task):
                continue
            if cover and tries < _TRIES and unused.isdisjoint(call.tool for call in task.calls):
                continue
            if tries < _TRIES and task.profile.depth != depth:
                continue
            if tries < _TRIES // 10 and self.one_api > _ONE_API * len(self.tasks) and _one_api(task):
                continue
            if self.add(task):
                return
        raise SynthesisError(f"no {kind} task of {turns} turns and depth {depth} was found.", reason="quotas")


def _one_api(task: Task) -> bool:
    return len({TOOLS[call.tool].api.NAME for call in task.calls}) == 1


def make_tasks(
    n: int,
    seed: int = 0,
    *,
    kind: Kind = "base",
    apis: Sequence[str] | None = None,
    progress: Progress = lambda _: None,
) -> list[Task]:
    """`n` new valid tasks, no two equal."""
    made = _Set(TaskSource(seed, apis=apis))
    while len(made.tasks) < n:
        if made.add(made.source.task(kind)):
            progress(1)
    return made.tasks


def make_frozen(seed: int = SEED, *, progress: Progress = lambda _: None) -> tuple[list[Task], list[Task]]:
    """The packaged sets: 400 seeds, and 400 held-out tasks.

    Half of the held-out tasks have shapes of seeds (isomorphic to one, in a new world, with other tools where the type
    graph allows), the other half shapes that no seed has. Every task has a world of its own.

    Args:
        seed: equal seeds give equal sets (with equal versions of Faker and numpy).
        progress: called with 1 for every task.
    """
    cover_from = sum(QUOTAS.values()) * 5 // 8
    seeds = _Set(TaskSource(seed, uses=1), cover_from=cover_from)
    for kind, n in QUOTAS.items():
        seeds.fill(kind, n, lambda _: True, progress)
    known = {task.profile for task in seeds.tasks}
    source = TaskSource(seed + 1, uses=1)
    heldout = _Set(source, seeds.tasks, cover_from)
    for kind, n in QUOTAS.items():
        parents = [task for task in seeds.tasks if task.kind == kind]
        for parent in source.draw.shuffled(parents):
            if sum(task.kind == kind for task in heldout.tasks) == n // 2:
                break
            found = next(_same_shape(parent, source), None)
            if found is not None and heldout.add(found):
                progress(1)
    for kind, n in QUOTAS.items():
        left = n - sum(task.kind == kind for task in heldout.tasks)
        heldout.fill(kind, left, lambda task: task.profile not in known, progress)
    # In random order, so that the first tasks of a set are like the others.
    return source.draw.shuffled(seeds.tasks), source.draw.shuffled(heldout.tasks)


def _same_shape(parent: Task, source: TaskSource) -> Iterator[Task]:
    """Tasks isomorphic to a parent, in new worlds: first with any fitting tools, then with the parent's own."""
    shape = base_shape(parent)
    needed = tuple(dict.fromkeys(TOOLS[call.tool].api.NAME for call in parent.calls))
    own = [TOOLS[call.tool] for call in parent.calls]
    draw = source.draw
    maker = source.long_maker if parent.kind == "long_context" else source.maker
    offered = [name for name in parent.apis if name not in needed]
    for attempt in range(120):
        hints, apis = (own, list(needed))
        if attempt < 60 and len(needed) <= len(source.apis):
            hints, apis = [], draw.sample(source.apis, len(needed))
        others = [name for name in source.apis if name not in apis]
        extra = draw.sample(others, len(offered)) if attempt < 60 else offered
        try:
            task = realize(shape, draw, apis, maker.stock, hints=hints, offered=extra)
            task = transformed(task, parent.kind, draw)
        except SynthesisError as error:
            source.rejected[error.reason] += 1
            continue
        if not validate(task) and isomorphic(task, parent):
            yield make_task(task.kind, task.apis, task.turns, task.world)


def describe(tasks: Sequence[Task]) -> dict[str, float]:
    """Figures of a set: shares and means, as the tests and the documentation use them."""
    n = len(tasks)
    used = {call.tool for task in tasks for call in task.calls}
    across = [len({TOOLS[call.tool].api.NAME for call in task.calls}) for task in tasks]
    return {
        "tasks": n,
        "turns_mean": sum(len(task.turns) for task in tasks) / n,
        "calls_mean": sum(len(task.calls) for task in tasks) / n,
        "calls_max": max(len(task.calls) for task in tasks),
        "depth_max": max(task.profile.depth for task in tasks),
        "depth_3_or_more": sum(task.profile.depth >= 3 for task in tasks) / n,
        "two_or_more_apis": sum(k >= 2 for k in across) / n,
        "tools_used": len(used),
        "tools": len(tools_of(APIS)),
        "shapes": len({task.profile for task in tasks}),
    }
