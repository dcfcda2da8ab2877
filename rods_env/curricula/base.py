"""What every curriculum is: five methods that say which task comes next, and the state behind them."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from rods_env.apis.draw import Draw
from rods_env.curricula.archive import tasks_from_data, tasks_to_data
from rods_env.curricula.checks import check_whole
from rods_env.curricula.open_groups import OpenGroups, Origin
from rods_env.curricula.pool import Member, Pool
from rods_env.curricula.statistics import Detector, Statistics, group_of
from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.task import Task, write_atomically

_FORMAT = 1  # of saved states


class VariantMaker(Protocol):
    """What a curriculum asks of a `Synthesizer`."""

    def variant(self, task: Task) -> Task:
        """A new task with the profile of this one, or `SynthesisError`."""

    def state_dict(self) -> dict[str, Any]:
        """Where its draws stand, as plain JSON data."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there."""


class Curriculum(ABC):
    """Chooses the task that the next group plays, and learns from the returns of complete groups.

    Several groups may be open at once, also of the same task. Equal seeds and equal returns give equal tasks.

    Args:
        tasks: the seeds, with distinct ids.
        seed: of all draws, those of the synthesizer included if none is given.
        synthesizer: what makes variants; None: the one for these tasks (`make_synthesizer`)
            where one is needed.
        window: over how many groups `metrics` looks back; 256 [ours].
        capacity: how many made tasks the pool holds beside the seeds.
        numbers: the settings by which a saved state recognises its configuration, with values that JSON keeps.

    Raises:
        RodsError: for no tasks, two of the same id, or a setting out of range.
    """

    SYNTHESIZES: ClassVar[bool] = False

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        seed: int = 0,
        synthesizer: VariantMaker | None = None,
        window: int = 256,
        capacity: int = 0,
        **numbers: Any,
    ) -> None:
        _check_tasks(tasks)
        check_whole("seed", seed)
        check_whole("window", window, 1)
        check_whole("capacity", capacity)
        self.config: dict[str, Any] = {"seed": seed, "window": window, "capacity": capacity, **numbers}
        self.seeds = list(tasks)
        self.draw = Draw(np.random.default_rng(seed))
        self.pool = Pool(tasks, self.draw, capacity)
        self.detector = Detector()
        self.statistics = Statistics(window, len(tasks))
        self.rejected: Counter[str] = Counter()
        if synthesizer is None and self.SYNTHESIZES:
            from rods_env.tasks.families import make_synthesizer  # making tasks imports what playing does not need

            synthesizer = make_synthesizer(tasks, seed)
        self._synthesizer = synthesizer
        self._open = OpenGroups()

    # ------------------------------------------------------------------ the five methods

    def next_group(self) -> Task:
        """The task that the next group plays."""
        task = self._open.next_again() if self._open.again else None
        if task is None:
            task, member = self._choose()
            self._open.begin(task, member)
        return task

    def observe(self, task_id: str, returns: Sequence[float]) -> bool:
        """Takes in the returns of a complete group.

        Args:
            task_id: of a task that was handed out and not observed yet; of several such groups the oldest is meant.
            returns: at least two, each in [0, 1].

        Returns:
            Whether the group is worth training on.

        Raises:
            RodsError: for an unknown task, or returns that are none.
        """
        seen = group_of(returns)
        _, task, member, believed = self._open.close(task_id)
        judged = seen if self.detector.reward == "progress" else self.detector.judge(returns)
        mean, _, agrees = seen
        if member is None:
            self.statistics.add(-1, mean, agrees, believed, len(task.calls), len(task.turns), True)
        else:  # a variant has as many calls and turns as its seed
            first = task is not member.task or (member.generation > 0 and not member.visits)
            self.statistics.add(member.index, mean, agrees, believed, member.calls, member.turns, first)
            self.detector.see(member, judged)
            member.visited = self.pool.epoch
        self._learn(member)
        return self._worth_training(agrees)

    def state_dict(self) -> dict[str, Any]:
        """Everything from which the run goes on, as plain JSON data."""
        return {
            "format": _FORMAT,
            "class": type(self).__name__,
            "config": self.config,
            "seeds": {"number": len(self.seeds), "digest": self._digest()},
            "draw": self.draw.state_dict(),
            "open": self._open.state_dict(),
            "statistics": self.statistics.state_dict(),
            "detector": self.detector.state_dict(),
            "rejected": dict(self.rejected),
            "pool": self.pool.state_dict(),
            "synthesizer": self._synthesizer.state_dict() if self._synthesizer else None,
            "own": self._own_state(),
            "tasks": tasks_to_data(task for task in self._kept_tasks() if not self._is_seed(task)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state. Groups that were open are handed out again first, in their order.

        Raises:
            RodsError: if the state is none, or of another class, configuration or sequence of seeds; says which.
        """
        try:
            self._check_same(state)
            self._open = OpenGroups()
            tasks = {task.id: task for task in self.seeds} | self._tasks_again(state)
            self.draw.load_state_dict(state["draw"])
            self.statistics.load_state_dict(state["statistics"])
            self.detector.load_state_dict(state["detector"])
            self.rejected = Counter(state["rejected"])
            self.pool.load_state_dict(state["pool"], tasks)
            if self._synthesizer is not None:
                self._synthesizer.load_state_dict(state["synthesizer"])
            self._open.load_state_dict(state["open"], tasks, self.pool)
            self._load_own_state(state["own"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise RodsError(f"this is no state of a {type(self).__name__}: {error!r}. Make a new one.") from error

    def metrics(self) -> dict[str, float]:
        """Figures of the run so far, flat; docs/curricula.md explains each."""
        pool = self.pool
        members = pool.playing()
        figures = self.statistics.metrics()
        figures.update(
            pool_size=len(members),
            pool_seeds=len(members) - len(pool.made),
            pool_synthetic=len(pool.made),
            frontier_share=sum(member.on_frontier for member in members) / max(len(members), 1),
            injected_total=pool.injected,
            queue_length=len(pool.queue),
            queue_dropped_total=pool.dropped,
            epoch=pool.epoch,
            seeds_calls_mean=sum(member.calls for member in pool.seeds) / len(pool.seeds),
            seeds_turns_mean=sum(member.turns for member in pool.seeds) / len(pool.seeds),
            open_groups=len(self._open),
        )
        for reason in ("mastered", "hard", "first", "settled", "stale", "capacity"):
            figures[f"retired_{reason}_total"] = pool.retired.get(reason, 0)
        for reason, count in sorted(self.rejected.items()):
            figures[f"rejected_{reason}_total"] = count
        figures.update(self._own_metrics())
        return {key: float(value) for key, value in figures.items()}

    # ------------------------------------------------------------------ beside them

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state as JSON; a file that stands there is replaced at once or not at all."""
        write_atomically(path, json.dumps(self.state_dict(), separators=(",", ":")).encode())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a file that `save` wrote.

        Raises:
            RodsError: if it cannot be read, and as `load_state_dict` does.
        """
        self.load_state_dict(read_state(path))

    def origin(self, task_id: str) -> Origin:
        """Where a task that is open or lives in the pool comes from.

        Raises:
            RodsError: for any other task.
        """
        if self._open.plays(task_id):
            return self._open.origin(task_id)
        member = self.pool.members.get(task_id)
        if member is None:
            raise RodsError(f"expected the id of a task that is open or in the pool; got {task_id!r}.")
        return Origin(member.generation, member.task.parent, member.on_frontier)

    # ------------------------------------------------------------------ what a curriculum says itself

    @abstractmethod
    def _choose(self) -> tuple[Task, Member | None]:
        """The task of a new group; and the member that it is, or the seed that it is a fresh variant of."""

    def _learn(self, member: Member | None) -> None:  # noqa: B027 - some learn nothing further
        """Called for every observed group, after its estimates. The member may have left the pool meanwhile."""

    def _worth_training(self, agrees: bool) -> bool:
        """Whether a group is worth training on, whose returns agree or not."""
        return True

    def _own_state(self) -> Any:
        """What `load_state_dict` needs beside what is kept for every curriculum."""
        return None

    def _load_own_state(self, state: Any) -> None:  # noqa: B027 - some have none
        """Takes over what `_own_state` told; everything else is loaded already."""

    def _own_metrics(self) -> dict[str, float]:
        """Figures beside those of every curriculum."""
        return {}

    def _variant(self, parent: Member) -> Task | None:
        """A new variant of a task; None if there is none, for a reason that `rejected` counts."""
        try:
            task = self._maker().variant(parent.task)
        except SynthesisError as error:
            self.rejected[error.reason] += 1
            return None
        if self.pool.knows(task.id) or self._open.plays(task.id):  # ids are made of the content: equal tasks, equal ids
            self.rejected["duplicate"] += 1
            return None
        return task

    def _maker(self) -> VariantMaker:
        if self._synthesizer is None:
            raise TypeError(f"{type(self).__name__} makes variants and must say so: SYNTHESIZES = True.")
        return self._synthesizer

    def _kept_tasks(self) -> list[Task]:
        """The tasks that a state holds whole, seeds perhaps among them: what is open, lives in the pool, or waits."""
        return self._open.tasks() + self.pool.tasks()

    def _tasks_again(self, state: Mapping[str, Any]) -> dict[str, Task]:
        """The made tasks that a state speaks of, by id."""
        return tasks_from_data(state["tasks"])

    # ------------------------------------------------------------------ inside

    def _is_seed(self, task: Task) -> bool:
        member = self.pool.members.get(task.id)
        return member is not None and member.generation == 0

    def _digest(self) -> str:
        """Of the ids of the seeds in their order, which draws depend on."""
        return hashlib.blake2b("\0".join(task.id for task in self.seeds).encode(), digest_size=8).hexdigest()

    def _check_same(self, state: Mapping[str, Any]) -> None:
        """Raises unless the state belongs to a curriculum that was made in the same way."""
        mine = {
            "format": _FORMAT,
            "class": type(self).__name__,
            **self.config,
            "seeds": {"number": len(self.seeds), "digest": self._digest()},
        }
        theirs = {
            "format": state["format"],
            "class": state["class"],
            **state["config"],
            "seeds": state["seeds"],
        }
        for name in dict.fromkeys([*mine, *theirs]):
            if mine.get(name) != theirs.get(name):
                raise RodsError(
                    f"this state is of another {name}: expected {mine.get(name)!r}, got {theirs.get(name)!r}. "
                    f"Load it into a curriculum that is made as the one that was saved."
                )


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a saved state.

    Raises:
        RodsError: if the file cannot be read, or is no JSON.
    """
    try:
        state = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise RodsError(f"cannot read {os.fspath(path)}: {error.strerror}.") from None
    except ValueError as error:
        raise RodsError(f"{os.fspath(path)} is no saved state: {error}.") from None
    if not isinstance(state, dict):
        raise RodsError(f"{os.fspath(path)} is no saved state: expected an object, got {type(state).__name__}.")
    return state


def _check_tasks(tasks: Sequence[Task]) -> None:
    if not isinstance(tasks, Sequence) or not all(isinstance(task, Task) for task in tasks):
        raise RodsError(f"tasks must be a sequence of Task; got {tasks!r:.80}.")
    if not tasks:
        raise RodsError("expected at least one task; got none.")
    counts = Counter(task.id for task in tasks)
    twice = next((key for key, count in counts.items() if count > 1), None)
    if twice is not None:
        raise RodsError(f"the ids of tasks must be distinct; {twice!r} came {counts[twice]} times.")
