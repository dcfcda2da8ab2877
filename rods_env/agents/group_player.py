"""Between a curriculum and the rollout engine: the groups of a training step, played by one process or several.

The first process owns the curriculum. It asks for the tasks of a step and tells them to all; each process plays its
own episodes; the returns of all are gathered, and the first process tells the curriculum about complete groups. An
episode's noise belongs to its number in the run, so the rollouts do not depend on how many processes play them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from rods_env.agents.rollout import Rollout, RolloutEngine, Start
from rods_env.curricula.base import Curriculum
from rods_env.curricula.open_groups import Origin
from rods_env.curricula.statistics import group_of
from rods_env.tasks.task import Task

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 3  # how often an episode is played again whose environment crashed
_WAVES = 4  # how often groups are exchanged that the curriculum (DAPO) thinks not worth training on
T = TypeVar("T")


class Ranks:
    """The processes of a run; one alone by default.

    Args:
        number: of this process.
        count: how many there are.
    """

    def __init__(self, number: int = 0, count: int = 1) -> None:
        self.number = number
        self.count = count

    @property
    def first(self) -> bool:
        return self.number == 0

    def told(self, value: T | None) -> T:
        """What the first process knows."""
        if self.count == 1:
            return value  # type: ignore[return-value]
        from accelerate.utils import broadcast_object_list

        found = [value]
        broadcast_object_list(found, from_process=0)
        return found[0]  # type: ignore[return-value]

    def gathered(self, values: Sequence[T]) -> list[T]:
        """What all processes hold, in their order."""
        if self.count == 1:
            return list(values)
        from accelerate.utils import gather_object

        return list(gather_object(list(values)))

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            from accelerate.utils import wait_for_everyone

            wait_for_everyone()


class Brief(NamedTuple):
    """What all processes need to know of an episode.

    Attributes:
        row: its place in the step: group * group_size + member.
        value: the return; None if the environment crashed.
        success: whether everything passed.
        termination: why it ended.
        tokens: how many were sampled.
    """

    row: int
    value: float | None
    success: bool
    termination: str
    tokens: int


class PlayedGroup(NamedTuple):
    """A group as the curriculum was told of it.

    Attributes:
        task: what was played.
        origin: where the curriculum had it from.
        returns: of its episodes, those that crashed left out.
        tokens: how many were sampled.
    """

    task: Task
    origin: Origin
    returns: Sequence[float]
    tokens: int


class GroupPlayer:
    """Plays the groups of a step.

    Args:
        curriculum: in the first process; None in others.
        engine: of this process.
        group_size: episodes of a group.
        groups: how many groups a step has; `groups * group_size` episodes are divided evenly among the processes.
        ranks: the processes.
        on_group: called in the first process with every group, those that are exchanged too.

    Attributes:
        curriculum_s: seconds that the curriculum took so far, to choose and make tasks and to learn from returns.
        played: how many episodes were numbered so far; part of what is saved.
        figures: of the latest step, see `GrpoAgent`.
    """

    def __init__(
        self,
        curriculum: Curriculum | None,
        engine: RolloutEngine,
        *,
        group_size: int,
        groups: int,
        ranks: Ranks,
        on_group: Callable[[PlayedGroup], None] = lambda _: None,
    ) -> None:
        self.curriculum = curriculum
        self.engine = engine
        self.group_size = group_size
        self.groups = groups
        self.ranks = ranks
        self.on_group = on_group
        self.curriculum_s = 0.0
        self.played = 0
        self.figures: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()  # open groups of the curriculum that could not be played
        each = groups * group_size // ranks.count
        self._mine = range(each * ranks.number, each * (ranks.number + 1))

    def play(self) -> list[Rollout]:
        """The rollouts of this process for the next step, in the order of its rows."""
        found: dict[int, Rollout] = {}
        briefs: list[Brief] = []
        agreed: list[bool] = []
        lacking = list(range(self.groups))
        for _ in range(_WAVES):
            tasks = self.ranks.told(self._next(len(lacking)) if self.ranks.first else None)
            wave = dict(zip(lacking, tasks, strict=True))
            mine, seen = self._wave(wave)
            found.update(mine)
            briefs += seen
            lacking, agreeing = self.ranks.told(self._observe(wave, seen) if self.ranks.first else None)
            agreed += agreeing
            if not lacking:
                break
        self.figures = _figures(briefs, agreed)
        return [found[row] for row in self._mine]

    def state_dict(self) -> dict[str, Any]:
        """Where the play stands beside the curriculum, as plain JSON data."""
        return {"played": self.played, "left_out": dict(self._left_out)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there; the curriculum must have been loaded before."""
        self.played = int(state["played"])
        self._left_out = Counter(state["left_out"])
        if self.curriculum is not None:
            # A loaded curriculum hands its open groups out again: those that could not be played are asked for and
            # dropped, so that the next ones are those of a run that was not interrupted.
            for _ in range(sum(self._left_out.values())):
                self.curriculum.next_group()

    # ------------------------------------------------------------------ inside

    def _next(self, count: int) -> list[Task]:
        assert self.curriculum is not None
        begun = time.perf_counter()
        tasks = [self.curriculum.next_group() for _ in range(count)]
        self.curriculum_s += time.perf_counter() - begun
        return tasks

    def _wave(self, tasks: Mapping[int, Task]) -> tuple[dict[int, Rollout], list[Brief]]:
        """Plays groups. Returns this process's rollouts by row, and what all need to know of all episodes."""
        size = self.group_size
        rows = [group * size + member for group in tasks for member in range(size)]
        mine: dict[int, Rollout] = {}
        seen: dict[int, Brief] = {}
        for _ in range(1 + _ATTEMPTS):
            numbers = {row: self.played + place for place, row in enumerate(rows)}
            self.played += len(rows)
            own = [row for row in rows if row in self._mine]
            starts = [Start(tasks[row // size], group=row // size, number=numbers[row]) for row in own]
            mine.update(zip(own, self.engine.play(starts), strict=True))
            seen.update((brief.row, brief) for brief in self.ranks.gathered([_brief(row, mine[row]) for row in own]))
            rows = [row for row in rows if seen[row].termination == "crashed"]
            if not rows:
                break
        return mine, [seen[row] for row in sorted(seen)]

    def _observe(self, tasks: Mapping[int, Task], briefs: Sequence[Brief]) -> tuple[list[int], list[bool]]:
        """Tells the curriculum what groups returned. Returns the groups to exchange, and which returns agreed."""
        assert self.curriculum is not None
        returns: dict[int, list[float]] = {group: [] for group in tasks}
        tokens: Counter[int] = Counter()
        for brief in briefs:
            tokens[brief.row // self.group_size] += brief.tokens
            if brief.value is not None:
                returns[brief.row // self.group_size].append(brief.value)
        poor, agreed = [], []
        for group, task in tasks.items():
            if len(returns[group]) < 2:
                self._left_out[task.id] += 1
                _LOG.error("task %s: its episodes crash; the curriculum is told nothing about this group", task.id)
                continue
            agreed.append(group_of(returns[group])[2])
            origin = self.curriculum.origin(task.id)
            begun = time.perf_counter()
            worth = self.curriculum.observe(task.id, returns[group])
            self.curriculum_s += time.perf_counter() - begun
            if not worth:
                poor.append(group)
            self.on_group(PlayedGroup(task, origin, returns[group], tokens[group]))
        return poor, agreed


def _brief(row: int, rollout: Rollout) -> Brief:
    return Brief(row, rollout.value, rollout.success, rollout.termination, sum(rollout.mask))


def _figures(briefs: Sequence[Brief], agreed: Sequence[bool]) -> dict[str, float]:
    """What a step's episodes say, those of exchanged groups too, so that no choice of groups flatters the figures."""
    scored = [brief for brief in briefs if brief.value is not None]
    ends = Counter(brief.termination for brief in briefs)
    return {
        "return_mean": sum(brief.value for brief in scored if brief.value is not None) / max(len(scored), 1),
        "success_mean": sum(brief.success for brief in scored) / max(len(scored), 1),
        "zero_variance_share": sum(agreed) / max(len(agreed), 1),
        "episodes": len(briefs),
        "crashed": len(briefs) - len(scored),
        "tokens": sum(brief.tokens for brief in briefs),
        **{f"termination/{name}": count / len(briefs) for name, count in sorted(ends.items())},
    }
