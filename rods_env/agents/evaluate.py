"""Plays an agent on tasks, each once, and says how well it did, with confidence intervals."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np

from rods_env.agents.scripted import Agent
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, load_tasks, write_atomically

_LOG = logging.getLogger(__name__)
_Z = 1.959964  # two-sided 95 %
_BOOTSTRAP = 2000


class Score(msgspec.Struct, frozen=True):
    """How a group of episodes went.

    Attributes:
        episodes: how many episodes.
        success: share of episodes in which every turn passed, in [0, 1].
        success_low: lower end of its 95 % Wilson interval.
        success_high: upper end.
        progress: mean progress, in [0, 1].
        progress_low: lower end of its 95 % bootstrap interval.
        progress_high: upper end.
    """

    episodes: int
    success: float
    success_low: float
    success_high: float
    progress: float
    progress_low: float
    progress_high: float


class Episode(msgspec.Struct, frozen=True):
    """How one episode went."""

    task_id: str
    kind: str
    depth: int
    apis: tuple[str, ...]
    success: bool
    progress: float
    steps: int
    termination: str


class Evaluation(msgspec.Struct, frozen=True):
    """The result of `evaluate`. Equal runs give equal evaluations, and equal files to the byte.

    Attributes:
        seed: the seed it was run with.
        overall: all episodes.
        by_kind: by kind of task.
        by_depth: by depth of the dependency graph; without tasks whose depth is 0, which have no graph.
        by_api: by API; a task counts for each API whose tools its gold calls use.
        terminations: how episodes ended, by reason.
        crashed: episodes in which the environment failed; they have no score and count nowhere else.
        episodes: every episode that has a score, in order.
    """

    seed: int
    overall: Score
    by_kind: dict[str, Score]
    by_depth: dict[str, Score]
    by_api: dict[str, Score]
    terminations: dict[str, int]
    crashed: int
    episodes: list[Episode]

    @property
    def success(self) -> float:
        return self.overall.success

    @property
    def progress(self) -> float:
        return self.overall.progress

    def figures(self) -> dict[str, float]:
        """All figures, flat: `success`, `success_low`, `by_kind/base/progress`, …"""
        flat: dict[str, float] = dict(msgspec.to_builtins(self.overall))
        for group in ("by_kind", "by_depth", "by_api"):
            for name, score in getattr(self, group).items():
                flat.update({f"{group}/{name}/{key}": value for key, value in msgspec.to_builtins(score).items()})
        flat.update({f"terminations/{name}": n for name, n in self.terminations.items()})
        return {"seed": self.seed, "crashed": self.crashed, **flat}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figures and every episode as JSON."""
        data = {**self.figures(), "episode_list": msgspec.to_builtins(self.episodes)}
        write_atomically(path, msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


def evaluate(
    agent: Agent | Callable[[gym.Env[Any, Any]], Agent],
    tasks: str | os.PathLike[str] | Sequence[Task],
    seed: int = 0,
    *,
    env: gym.Env[Any, Any] | None = None,
    progress: Callable[[int], None] = lambda _: None,
    **options: Any,
) -> Evaluation:
    """Plays every task once.

    Args:
        agent: has `act(messages, tools) -> str` and perhaps `begin(task_info)`; or a function that makes such an agent
            from the environment (the oracle needs it).
        tasks: tasks, a name ("heldout"), or the path of a task file.
        seed: seeds the environment and the bootstrap.
        env: the environment to play in; made from `options` when not given.
        progress: called with 1 after every episode.
        **options: passed to `ToolUseEnv`, such as `call_format`.

    Raises:
        RodsError: if there are no tasks, or the agent has no `act`. What the agent itself raises is passed on.
    """
    chosen = load_tasks(tasks) if isinstance(tasks, (str, os.PathLike)) else list(tasks)
    if not chosen:
        raise RodsError("expected at least one task to evaluate on.")
    if env is not None and options:
        raise RodsError(f"{', '.join(options)}: give either an environment or options to make one with, not both.")
    env = env or gym.make(chosen[0].ENVIRONMENT, tasks=chosen, **options)
    made = isinstance(agent, type) or not hasattr(agent, "act")  # a class has `act` too, but is none
    player: Any = agent(env) if made and callable(agent) else agent
    if not hasattr(player, "act"):
        raise RodsError(f"expected an agent with act(messages, tools) -> str; got {type(player).__name__}.")
    env.reset(seed=seed, options={"task": chosen[0]})
    episodes, crashed = [], 0
    for task in chosen:
        try:
            episodes.append(_play(player, env, task))
        except _CrashError as crash:  # an environment that fails is no failure of the agent: no reward, and not silent
            crashed += 1
            _LOG.error("task %s: the episode crashed and is left out", task.id, exc_info=crash.__cause__)
        progress(1)
    return summarize(seed, episodes, crashed)


class _CrashError(Exception):
    """The environment raised something that is no `RodsError`; the cause says what."""


def _safely(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return call(*args, **kwargs)
    except RodsError:
        raise
    except Exception as error:
        raise _CrashError from error


def _play(agent: Any, env: gym.Env[Any, Any], task: Task) -> Episode:
    _, info = _safely(env.reset, options={"task": task})
    tools = info["tools"]
    if hasattr(agent, "begin"):
        agent.begin(info)
    steps, ended = 0, False
    while not ended:
        action = agent.act(list(info["messages"]), tools)
        _, _, terminated, truncated, info = _safely(env.step, action)
        tools = info.get("tools", tools)
        steps += 1
        ended = terminated or truncated
    passed = info["progress"] > 1 - 1e-9
    return Episode(
        task.id, task.kind, task.depth, task.called_apis, passed, info["progress"], steps, info["termination"]
    )


def summarize(seed: int, episodes: list[Episode], crashed: int) -> Evaluation:
    """The evaluation of episodes that have a score, and of `crashed` ones that have none. The seed: the bootstrap's."""
    def score(some: Iterable[Episode]) -> Score:
        return _score(list(some), seed)

    kinds = sorted({e.kind for e in episodes})
    depths = sorted({e.depth for e in episodes if e.depth})
    apis = sorted({api for e in episodes for api in e.apis})
    ends = sorted({e.termination for e in episodes})
    return Evaluation(
        seed,
        score(episodes),
        {kind: score(e for e in episodes if e.kind == kind) for kind in kinds},
        {str(depth): score(e for e in episodes if e.depth == depth) for depth in depths},
        {api: score(e for e in episodes if api in e.apis) for api in apis},
        {end: sum(e.termination == end for e in episodes) for end in ends},
        crashed,
        episodes,
    )


def _score(episodes: list[Episode], seed: int) -> Score:
    n = len(episodes)
    if n == 0:
        return Score(0, math.nan, 0.0, 1.0, math.nan, 0.0, 1.0)
    passed = sum(e.success for e in episodes)
    low, high = wilson(passed, n)
    values = np.array([e.progress for e in episodes])
    rng = np.random.default_rng(seed)
    means = np.sort(values[rng.integers(0, n, (_BOOTSTRAP, n))].mean(axis=1))
    ends = means[int(0.025 * _BOOTSTRAP)], means[int(0.975 * _BOOTSTRAP) - 1]
    return Score(n, passed / n, low, high, float(values.mean()), float(ends[0]), float(ends[1]))


def wilson(passed: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share (Wilson, 1927)."""
    p, z = passed / n, _Z
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # By the formula exactly 0 where none passed and 1 where all did; rounding must not put the share outside.
    return max(0.0, middle - half) if passed else 0.0, min(1.0, middle + half) if passed < n else 1.0
