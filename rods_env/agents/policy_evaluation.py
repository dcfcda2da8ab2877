"""Plays a policy on tasks, each once, and says how well it did: the `Evaluation` of scripted agents, for networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec

from rods_env.agents.evaluate import Episode, Evaluation, summarize
from rods_env.agents.heap import frozen_heap
from rods_env.agents.rollout import Rollout, RolloutEngine, Start
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

# The noise of evaluations is numbered from here: the same at every evaluation, so that differences come from the
# policy, and never the noise of training.
NUMBERS = 1 << 48


def evaluate_policy(
    policy: Any,
    tasks: Sequence[Task],
    seed: int = 0,
    *,
    temperature: float = 0.0,
    top_p: float = 1.0,
    slots: int = 128,
    max_message: int = 256,
    max_turn: int = 2048,
    max_messages: int = 40,
    max_episode: int = 8192,
    environment_options: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Plays every task once.

    Args:
        policy: see `rods_env.agents.policy.Policy`.
        tasks: at least one.
        seed: of the sampling and the bootstrap. Equal seeds give equal evaluations.
        temperature: of sampling; 0 takes the likeliest token.
        top_p: of sampling.
        slots: episodes played at once.
        max_message, max_turn, max_messages: see `RolloutEngine`.
        max_episode: most tokens of an episode.
        environment_options: keywords of `ToolUseEnv`.
        progress: called with 1 after every episode.

    Raises:
        RodsError: if there are no tasks, or a setting is out of range.
    """
    sampler = policy.sampler(
        slots=min(slots, max(len(tasks), 1)), max_length=max_episode, temperature=temperature, top_p=top_p
    )
    engine = RolloutEngine(
        sampler, policy.chat, make_env=env_maker(environment_options or {}), max_message=max_message,
        max_turn=max_turn, max_messages=max_messages, seed=seed,
    )  # fmt: skip
    with frozen_heap():
        return evaluation_of(play_once(engine, tasks, progress=progress), seed)


def env_maker(options: Mapping[str, Any]) -> Callable[[Task], gym.Env[Any, Any]]:
    """What makes the environments of an engine, from keywords of `ToolUseEnv`."""

    def make(task: Task) -> gym.Env[Any, Any]:
        return gym.make(task.ENVIRONMENT, tasks=[task], disable_env_checker=True, **options)

    return make


def play_once(
    engine: RolloutEngine,
    tasks: Sequence[Task],
    numbers: Sequence[int] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Rollout]:
    """Plays every task once, with the noise of its number, whatever else the engine played.

    Args:
        engine: plays.
        tasks: what is played.
        numbers: of the tasks among all that are evaluated; their places in `tasks` if not given.
        progress: called with 1 after every episode.
    """
    places = range(len(tasks)) if numbers is None else numbers
    starts = [Start(task, number=NUMBERS + n) for task, n in zip(tasks, places, strict=True)]
    return engine.play(starts, progress)


def episode_of(rollout: Rollout) -> Episode | None:
    """A rollout as an episode of an evaluation; None if the environment crashed."""
    if rollout.value is None:
        return None
    task = rollout.task
    return Episode(
        task.id, task.kind, task.depth, task.called_apis, rollout.success, rollout.value, rollout.messages,
        rollout.termination,
    )  # fmt: skip


def evaluation_of(rollouts: Sequence[Rollout], seed: int = 0) -> Evaluation:
    """The evaluation that rollouts, one of each task, amount to.

    Raises:
        RodsError: if there are none.
    """
    return evaluation_of_episodes([episode_of(rollout) for rollout in rollouts], seed)


def evaluation_of_episodes(episodes: Sequence[Episode | None], seed: int = 0) -> Evaluation:
    """As `evaluation_of`, from episodes; None for those that crashed."""
    if not episodes:
        raise RodsError("expected at least one task to evaluate on.")
    scored = [episode for episode in episodes if episode is not None]
    return summarize(seed, scored, len(episodes) - len(scored))


def read_evaluation(path: Path) -> Evaluation:
    """An evaluation that `Evaluation.save` wrote.

    Raises:
        RodsError: if it cannot be read.
    """
    try:
        data = msgspec.json.decode(path.read_bytes())
        episodes = msgspec.convert(data["episode_list"], list[Episode])
        return summarize(data["seed"], episodes, data["crashed"])
    except (OSError, KeyError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RodsError(f"{path} is no saved evaluation: {error}.") from None
