"""Trains a cell with the pointer policy: a minute or two of one core.

    cell = train(Spec("pointer", "tiny:seeds", 50, "stream", 0, 20_480), Path("results"))

All arms of a seed begin with the same network, seeds and sets, and make the same number of updates of as many groups.
Some differ: `dapo` plays the further groups that its filter asks for, and they count as rollouts, so it makes fewer
updates; `sft-more` learns from as many demonstrations as others play rollouts; `augmented` is `fixed` to the byte,
as this policy does not read errors; and `bound` plays more than is counted.

Evaluations are sampled at temperature 1, as rollouts are, one episode a task; its noise belongs to its place in the
set, and so is the same for all arms and checkpoints.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from rods_env.agents.heap import frozen_heap
from rods_env.agents.pointer import PointerNet
from rods_env.agents.pointer_grpo import PointerGrpo, PointerSettings, imitate, warm_up
from rods_env.agents.pointer_play import Episode, NotListedError, oracle, play
from rods_env.agents.pointer_tree import Forest
from rods_env.benchmarks.curricula.arms import SFT_MORE, Disagreeing, base_of, make_arm
from rods_env.benchmarks.curricula.cells import Cell, Checkpoint, Recorder, Spec, digest_of
from rods_env.benchmarks.curricula.grid import kept_cell
from rods_env.benchmarks.curricula.heldout import (
    seeds_of,
    seen_tasks,
    tuning_tasks,
    unseen_tasks,
)  # fmt: skip
from rods_env.curricula.base import Curriculum
from rods_env.envs.candidates.signatures import signatures
from rods_env.errors import RodsError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import Task
from rods_env.tasks.tiny_sets import long_tasks

_WAVES = 4  # how often groups are exchanged that the curriculum (DAPO) thinks not worth training on
_MOST_WAVES = 1000
_WARMUP = 20_270_101  # streams of tasks of the warm-up, of `sft-more`, and of noise
_MORE = 20_270_102
_NOISE = 20_270_103
_MOST_STATES = 300_000  # of kept trees: about three gigabytes
_LONGEST = 20  # a run that matches tokens ends after so many times the planned updates at the latest


class PointerCell(PointerSettings, frozen=True, forbid_unknown_fields=True):
    """The settings of a cell: those of training, and

    Attributes:
        warmup_tasks: tasks of new shapes whose oracle episodes the warm-up shows; every seed has its own.
        max_steps: steps after which an episode is truncated. None: 16, or half as many again as the longest solution
            among the seeds and sets takes, if that is more.
        checkpoints: how often is evaluated, at the beginning and the end too.
        seen, unseen, tuning: how many tasks each set has.
    """

    warmup_tasks: int = 100
    max_steps: int | None = None
    checkpoints: int = 5
    seen: int = 1000
    unseen: int = 1000
    tuning: int = 400


class Block:
    """What the arms of a seed share.

    Args:
        seeds: the seeds.
        sets: the tasks of each set.
        weights: of the warmed-up network.
        max_steps: steps after which an episode is truncated.

    Attributes:
        forest: the trees of the sets: evaluations of all arms come along the same paths.
        start: which tasks the warmed-up network solves, and its mean progress, by set; empty until it was evaluated.
    """

    def __init__(self, seeds: list[Task], sets: dict[str, list[Task]], weights: dict[str, Any], max_steps: int) -> None:
        self.seeds = seeds
        self.sets = sets
        self.weights = weights
        self.max_steps = max_steps
        self.forest = Forest(max_steps=max_steps, keep=sum(map(len, sets.values())))
        self.start: dict[str, tuple[list[bool], float]] = {}


def settings_of(spec: Spec) -> PointerCell:
    """The settings of a cell.

    Raises:
        RodsError: for an unknown setting, one out of range, or rollouts that are no whole updates.
    """
    try:
        settings = msgspec.convert(msgspec.json.decode(spec.settings), PointerCell, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(PointerCell))
        raise RodsError(f"the settings of the pointer policy: {error}. They are {known}.") from None
    for name, value in msgspec.structs.asdict(settings).items():
        least = {"group_size": 2, "checkpoints": 2}.get(name, 1)
        if type(value) is int and value < least:
            raise RodsError(f"{name} must be at least {least}; got {value}.")
    if settings.credit not in ("turn", "episode"):
        raise RodsError(f"credit must be turn or episode; got {settings.credit!r}.")
    step = settings.group_size * settings.groups_per_step
    if spec.rollouts < step or spec.rollouts % step:
        raise RodsError(f"rollouts must be a multiple of the {step} of an update; got {spec.rollouts}.")
    return settings


def train(spec: Spec, folder: Path, on_checkpoint: Callable[[Checkpoint], None] = lambda _: None) -> Cell:
    """Trains a cell.

    Args:
        spec: which.
        folder: of the benchmark, where with `match="tokens"` the cell of `fixed` is found.
        on_checkpoint: called with every checkpoint.

    Raises:
        RodsError: for settings out of range, an unknown set or arm, tasks of BFCL, or no cell to match.
    """
    settings = settings_of(spec)
    arm = base_of(spec.arm)
    with frozen_heap(), _alone():
        block = _block(spec.tasks, spec.seed_count, spec.seed, settings)
        run = _Run(spec, settings, block, _tokens_to_match(spec, folder), on_checkpoint)
        if arm == SFT_MORE:
            run.demonstrations()
        else:
            run.reward()
        return run.recorder.cell()


class _Run:
    """A cell that is being trained."""

    def __init__(
        self, spec: Spec, settings: PointerCell, block: Block, tokens: int | None,
        on_checkpoint: Callable[[Checkpoint], None],
    ) -> None:  # fmt: skip
        self.spec = spec
        self.settings = settings
        self.block = block
        self.tokens = tokens
        sizes = {name: len(tasks) for name, tasks in block.sets.items()}
        self.recorder = Recorder(spec, sizes, {name: digest_of(tasks) for name, tasks in block.sets.items()})
        self.net = _network(settings, spec.seed)
        self.net.load_state_dict(block.weights)
        self.evaluated = self.net
        self.updates = spec.rollouts // (settings.group_size * settings.groups_per_step)
        self._on_checkpoint = on_checkpoint

    def reward(self) -> None:
        """Trains on what the arm's curriculum chooses."""
        spec, settings, recorder = self.spec, self.settings, self.recorder
        curriculum = make_arm(spec.arm, self.block.seeds, spec.seed, source=_source(self.block.seeds))
        assert curriculum is not None
        learner = PointerGrpo(self.net, settings, self.updates)
        self.evaluated = learner.averaged
        player = _Player(curriculum, self.net, settings, self.block.max_steps, spec.seed, recorder)
        self._evaluate(curriculum)
        looks = _looks(spec.rollouts if self.tokens is None else self.tokens, settings.checkpoints)
        for _ in range(self.updates * (1 if self.tokens is None else _LONGEST)):
            left = None if self.tokens is not None else spec.rollouts - recorder.rollouts
            groups = player.step(left)
            begun = time.perf_counter()
            learner.update(groups)
            recorder.updates += 1
            recorder.seconds["update"] += time.perf_counter() - begun
            spent = recorder.rollouts if self.tokens is None else recorder.tokens
            if spent >= looks[0]:
                self._evaluate(curriculum)
                looks = [look for look in looks if look > spent]
            if not looks:
                break

    def demonstrations(self) -> None:
        """Trains on the oracle's episodes of further tasks like those of the warm-up, shown as often as there."""
        settings, recorder = self.settings, self.recorder
        step = settings.group_size * settings.groups_per_step
        stream = _oracles(_tasks(self.block.seeds, _MORE + self.spec.seed), self.block.max_steps)
        optimizer = torch.optim.Adam(self.net.parameters(), settings.warmup_rate)
        rng = np.random.default_rng([self.spec.seed, _MORE])
        known: list[Episode] = []
        self._evaluate(None)
        total = self.spec.rollouts if self.tokens is None else self.tokens
        looks = _looks(total, settings.checkpoints)
        while looks:
            begun = time.perf_counter()
            known += islice(stream, -(-step // settings.warmup_epochs))
            played = time.perf_counter()
            shown = [known[place] for place in rng.integers(len(known), size=step)]
            imitate(self.net, optimizer, shown, settings)
            recorder.seconds["play"] += played - begun
            recorder.seconds["update"] += time.perf_counter() - played
            recorder.rollouts += len(shown)
            recorder.tokens += sum(len(episode.actions) for episode in shown)
            recorder.updates += 1
            spent = recorder.rollouts if self.tokens is None else recorder.tokens
            if spent >= looks[0]:
                self._evaluate(None)
                looks = [look for look in looks if look > spent]

    def _evaluate(self, curriculum: Curriculum | None) -> None:
        begun = time.perf_counter()
        start = not self.recorder.rollouts
        found = dict(self.block.start) if start else {}
        if not found:
            found = {name: self._played(name, tasks) for name, tasks in self.block.sets.items()}
            if start:
                self.block.start = dict(found)
        solved = {name: outcomes for name, (outcomes, _) in found.items()}
        progress = {name: mean for name, (_, mean) in found.items()}
        self.recorder.seconds["evaluate"] += time.perf_counter() - begun
        self._on_checkpoint(self.recorder.checkpoint(curriculum, solved, progress))
        if self.block.forest.states > _MOST_STATES:
            self.block.forest.clear()
        gc.collect()

    def _played(self, name: str, tasks: Sequence[Task]) -> tuple[list[bool], float]:
        forest = self.block.forest
        noise = np.random.default_rng([_NOISE, *name.encode()]).random((len(tasks), forest.max_steps))
        episodes = play(self.evaluated, forest, [forest.root(task) for task in tasks], noise)
        return [e.success for e in episodes], sum(e.progress for e in episodes) / max(len(episodes), 1)


class _Player:
    """Plays the groups of an update, and tells the curriculum and the recorder."""

    def __init__(
        self, curriculum: Curriculum, net: PointerNet, settings: PointerSettings, max_steps: int, seed: int,
        recorder: Recorder,
    ) -> None:
        self.curriculum = curriculum
        self.net = net
        self.settings = settings
        self.recorder = recorder
        self._forest = Forest(max_steps=max_steps)
        self._rng = np.random.default_rng([seed, _NOISE])
        self._vain_counts = not isinstance(curriculum, Disagreeing)

    def step(self, left: int | None) -> list[list[Episode]]:
        """The groups of an update: those worth training on, and, if there are too few, the last others.

        Args:
            left: how many rollouts may be played still; None: any number.
        """
        wanted, size = self.settings.groups_per_step, self.settings.group_size
        kept: list[list[Episode]] = []
        if not self._vain_counts:
            for _ in range(_MOST_WAVES):
                kept += [group for group, is_worth in self._wave(wanted - len(kept)) if is_worth]
                if len(kept) == wanted:
                    return kept
            raise RodsError(
                f"too few groups disagree to fill an update, in {_MOST_WAVES:,} attempts: there is no bound."
            )
        for wave in range(_WAVES):
            n = wanted - len(kept) if left is None else min(wanted - len(kept), left // size)
            left = None if left is None else left - n * size
            played = self._wave(n)
            kept += [group for group, is_worth in played if is_worth or wave == _WAVES - 1]
            if len(kept) == wanted or left == 0:
                break
        return kept

    def _wave(self, n: int) -> list[tuple[list[Episode], bool]]:
        size, recorder, curriculum = self.settings.group_size, self.recorder, self.curriculum
        begun = time.perf_counter()
        chosen = []
        for _ in range(n):
            task = curriculum.next_group()
            chosen.append((task, curriculum.origin(task.id)))
        chose = time.perf_counter()
        roots = [self._forest.root(task) for task, _ in chosen for _ in range(size)]
        episodes = play(self.net, self._forest, roots, self._rng.random((len(roots), self._forest.max_steps)))
        played = time.perf_counter()
        found = []
        for k, (task, origin) in enumerate(chosen):
            group = episodes[k * size : (k + 1) * size]
            returns = [episode.progress for episode in group]
            is_worth = curriculum.observe(task.id, returns)
            if is_worth or self._vain_counts:
                recorder.group(task, origin, returns)
                recorder.tokens += sum(len(episode.actions) for episode in group)
            else:
                recorder.vain += 1
            found.append((group, is_worth))
        recorder.seconds["play"] += played - chose
        recorder.seconds["curriculum"] += chose - begun + time.perf_counter() - played
        return found


# ---------------------------------------------------------------------- what the arms of a seed share


@lru_cache(maxsize=1)
def _block(tasks: str, count: int, seed: int, settings: PointerCell) -> Block:
    seeds = seeds_of(tasks, count, seed)
    if seeds[0].ENVIRONMENT != Task.ENVIRONMENT:
        raise RodsError(f"the pointer policy plays this project's own services; {tasks} has tasks of others.")
    sets = {
        "seen": seen_tasks(seeds, settings.seen, seed),
        "unseen": unseen_tasks(tasks, settings.unseen),
        "tuning": tuning_tasks(tasks, seeds, settings.tuning, seed),
    }
    longest = max(_steps(task) for some in (seeds, *sets.values()) for task in some)
    max_steps = settings.max_steps or max(16, longest + longest // 2)  # as set, or with room for calls that fail
    if longest > max_steps:
        raise RodsError(f"expected max_steps of at least {longest}, the longest solution of {tasks}; got {max_steps}.")
    shown = list(islice(_oracles(_tasks(seeds, _WARMUP + seed), max_steps), settings.warmup_tasks))
    net = _network(settings, seed)
    warm_up(net, shown, settings, seed)
    return Block(seeds, sets, {name: value.clone() for name, value in net.state_dict().items()}, max_steps)


def _steps(task: Task) -> int:
    """How many steps the solution takes: its calls, and an answer a turn."""
    return len(task.calls) + len(task.turns)


def _oracles(tasks: Iterator[Task], max_steps: int) -> Iterator[Episode]:
    """The oracle's episodes, without tasks that are too long or whose gold calls are not all listed (there are at most
    64 of a tool, and 256 in all)."""
    forest = Forest(max_steps=max_steps, keep=0)
    for task in tasks:
        if _steps(task) <= max_steps:
            with suppress(NotListedError):
                yield oracle(forest, task)


def _network(settings: PointerSettings, seed: int) -> PointerNet:
    return PointerNet(len(signatures().names), width=settings.width, seed=seed)


def _is_small(seeds: Sequence[Task]) -> bool:
    """Whether the seeds are those of the tiny policy's services."""
    from rods_env.tasks.tiny_sets import TINY_APIS

    return {api for task in seeds for api in task.apis} <= set(TINY_APIS)


def _source(seeds: Sequence[Task]) -> Callable[[int], Iterator[Task]] | None:
    """What `fresh-shapes` draws from: for the tiny policy's services their long tasks."""
    return long_tasks if _is_small(seeds) else None


def _tasks(seeds: Sequence[Task], seed: int) -> Iterator[Task]:
    """An endless stream of tasks of new shapes, like the seeds."""
    if _is_small(seeds):
        yield from long_tasks(seed)
    source, rng = TaskSource(seed), np.random.default_rng([seed, 1])
    while True:
        yield source.task(seeds[int(rng.integers(len(seeds)))].kind)


def _tokens_to_match(spec: Spec, folder: Path) -> int | None:
    """The decisions that the block's `fixed` made; None where rollouts are matched, and for `fixed` itself."""
    if spec.match == "rollouts" or spec.arm == "fixed":
        return None
    fixed = kept_cell(folder, msgspec.structs.replace(spec, arm="fixed"))
    if fixed is None:
        raise RodsError(f"{spec.arm} is to make as many decisions as fixed, which is not done: train fixed first.")
    return fixed.checkpoints[-1].tokens


def _looks(total: int, checkpoints: int) -> list[int]:
    """After how much of the total is evaluated, the beginning left out."""
    return [round(total * k / (checkpoints - 1)) for k in range(1, checkpoints)]


@contextmanager
def _alone() -> Iterator[None]:
    """One thread, as cells are trained side by side and the networks are too small to be shared among threads; and no
    garbage collection but at checkpoints: trees are no garbage, and looking through them took a third of the time."""
    threads, collects = torch.get_num_threads(), gc.isenabled()
    torch.set_num_threads(1)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if collects:
            gc.enable()
