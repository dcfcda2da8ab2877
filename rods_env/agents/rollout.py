"""Plays many episodes in lockstep: every round samples a message for each, then every environment takes its own.

    engine = RolloutEngine(policy.sampler(slots=128, max_length=512), policy.chat, max_message=32)
    rollouts = engine.play([Start(task) for task in tasks])

An episode is tokens in, tokens out (`Chat`), and its keys and values are kept from message to message (`Sampler`), so
it costs what its length costs. What stands behind `generate` may be a model, a scripted agent (`ScriptedSampler`), or
whatever else samples messages. The same engine plays for training and for evaluation.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from rods_env.agents.chat import Chat, Dialogue
from rods_env.agents.decoding import Request, Sample
from rods_env.agents.scripted_sampler import ScriptedSampler
from rods_env.envs.tool_use import Snapshot
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

__all__ = ["Generator", "Hooks", "Live", "Rollout", "RolloutEngine", "ScriptedSampler", "Start"]

_LOG = logging.getLogger(__name__)
_MOST_CRASHES = 100  # in a row, after which nothing can be expected of an environment


class Start(NamedTuple):
    """Where an episode begins.

    Attributes:
        task: what is played.
        group: episodes of a group carry the same number; hooks see it.
        snapshot: of `ToolUseEnv.snapshot`: the episode goes on from there instead of the beginning of the task.
        dialogue: what was said up to the snapshot; it is copied.
        number: seeds the noise of the episode, together with the engine's seed: equal numbers and equal words so far
            give equal next words. None: the engine counts, see `RolloutEngine.played`.
    """

    task: Task
    group: int = 0
    snapshot: Any = None
    dialogue: Dialogue | None = None
    number: int | None = None


class Rollout(NamedTuple):
    """A played episode.

    Attributes:
        task: what was played.
        group: as in `Start`.
        ids: all token ids up to the last sampled one; those of the prompt if none was sampled.
        mask: 1 on sampled ids, else 0; as long as `ids`.
        logprobs: log-probability of each sampled id at the sampling temperature; 0 elsewhere; as long as `ids`.
        prompt_length: how many ids stood before the first message.
        value: the return, in [0, 1]; None if the environment crashed or a hook stopped the episode: no evidence.
        success: whether everything passed.
        termination: `completed`, `step_limit`, `failed_turn` (of the environment); `turn_tokens`, `episode_tokens`,
            `messages` (limits of the engine); `stopped` (by a hook), `crashed`.
        messages: how many messages the policy wrote, those before a snapshot included.
        actions: what each said to the environment, those before a snapshot left out.
        seconds: how long the environment worked for it.
        turns: for each action, the turn in which it was said.
        rewards: for each action, the reward that followed.
    """

    task: Task
    group: int
    ids: list[int]
    mask: list[int]
    logprobs: list[float]
    prompt_length: int
    value: float | None
    success: bool
    termination: str
    messages: int
    actions: list[str]
    seconds: float
    turns: Sequence[int] = ()
    rewards: Sequence[float] = ()


class Live:
    """An episode that is being played; what hooks see.

    Attributes:
        start: where it began.
        slot: its place in the sampler.
        env: its environment.
        dialogue: its tokens so far.
        info: the latest information of the environment.
        actions: what the policy said so far, behind the snapshot if it began from one.
        turns, rewards: for each action, its turn and the reward that followed.
        messages: how many messages it wrote, before the snapshot too.
        value: the sum of rewards so far.
        turn_tokens: how many tokens were sampled in the open turn.
    """

    def __init__(self, start: Start, slot: int, number: int) -> None:
        self.start = start
        self.slot = slot
        self.number = number
        self.env: Any = None
        self.dialogue: Dialogue | None = None
        self.info: dict[str, Any] = {}
        self.actions: list[str] = []
        self.turns: list[int] = []
        self.rewards: list[float] = []
        self.messages = 0
        self.value = 0.0
        self.turn_tokens = 0
        self.heard: list[int] = []  # ids that the sampler has not read
        self.random: np.random.Generator
        self._noise = np.empty(0)
        self.seconds = 0.0

    def noise(self, at: int, n: int) -> np.ndarray[Any, Any]:
        """The random numbers of the tokens from place `at` on: each place of an episode has its own."""
        missing = at + n - len(self._noise)
        if missing > 0:
            self._noise = np.concatenate([self._noise, self.random.random(max(missing, 512))])
        return self._noise[at : at + n]

    @property
    def turn(self) -> int:
        """The open turn, counted from 0."""
        return int(self.info.get("turn", 0))


class Generator(Protocol):
    """What samples messages: `Sampler`, `ScriptedSampler`, a serving engine."""

    slots: int
    max_length: int

    def generate(self, requests: Sequence[Request]) -> list[Sample]:
        """A message for each request."""

    def release(self, slot: int) -> None:
        """Empties a slot."""


class Hooks:
    """What may be done while episodes are played; both do nothing here. What they raise ends the play.

    `after_round` sees all live episodes after every round, and returns those to stop (a gate). `at_turn` is told when a
    turn opens, before anything is said in it; `live.env.unwrapped.snapshot()` and `live.dialogue.fork()` then give a
    place to start from again.
    """

    def after_round(self, live: Sequence[Live]) -> Iterable[Live]:
        return ()

    def at_turn(self, live: Live) -> None:
        return None


class RolloutEngine:
    """Plays episodes.

    Args:
        generator: samples messages.
        chat: of the same policy.
        make_env: makes an environment; one for each slot. Its `reset` must take `options={"task": …}`. By default a
            `ToolUse-RODS-v0`, or what else plays such tasks.
        max_message: most tokens of a message.
        max_turn: most sampled tokens of a turn.
        max_messages: most messages of an episode.
        seed: of the noise, from 0 on.
        hooks: see `Hooks`.

    Attributes:
        seconds: what was spent, by part: `generate`, `environment` (its steps, and the tokens of what it says).
        tokens: how many tokens were sampled.
        crashed: how many episodes crashed.
        played: how many episodes were begun that have no number of their own. The next one gets this number, in the
            order of `starts`, whatever the slots; a run that is continued sets it to what it was.
    """

    def __init__(
        self,
        generator: Generator,
        chat: Chat,
        *,
        make_env: Callable[[Task], gym.Env[Any, Any]] | None = None,
        max_message: int = 64,
        max_turn: int = 512,
        max_messages: int = 64,
        seed: int = 0,
        hooks: Hooks | None = None,
    ) -> None:
        for name, value in (("max_message", max_message), ("max_turn", max_turn), ("max_messages", max_messages)):
            if not isinstance(value, int) or value < 1:
                raise RodsError(f"{name} must be a whole number from 1 on; got {value!r}.")
        if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise RodsError(f"seed must be a whole number from 0 on, of at most 64 bits; got {seed!r}.")
        self.generator = generator
        self.chat = chat
        self.max_message = max_message
        self.max_turn = max_turn
        self.max_messages = max_messages
        self.seed = seed
        self.hooks = hooks or Hooks()
        self.seconds: dict[str, float] = defaultdict(float)
        self.tokens = 0
        self.crashed = 0
        self.played = 0
        self._in_a_row = 0  # crashes
        self._make_env = make_env or _make_env
        self._envs: dict[int, Any] = {}

    def play(self, starts: Sequence[Start], progress: Callable[[int], None] = lambda _: None) -> list[Rollout]:
        """Plays episodes, as many at once as the generator has slots.

        Args:
            starts: where they begin.
            progress: called with 1 after every episode.

        Returns:
            The rollouts, in the order of `starts`.

        Raises:
            RodsError: if a start has a snapshot without a dialogue, the policy has no words for a task, or environments
                do nothing but crash.
        """
        self.chat.check_tasks(start.task for start in starts)
        waiting: deque[tuple[int, Start, int]] = deque()
        for place, start in enumerate(starts):
            if (start.snapshot is None) != (start.dialogue is None):
                raise RodsError("expected a Start with both a snapshot and the dialogue up to it, or neither; got one.")
            waiting.append((place, start, self.played if start.number is None else start.number))
            self.played += start.number is None
        free = list(range(self.generator.slots))[::-1]
        done: dict[int, Rollout] = {}
        places: dict[int, int] = {}  # slot, to the place in `starts`
        live: dict[int, Live] = {}
        try:
            while waiting or live:
                begun = time.perf_counter()
                while waiting and free:
                    place, start, number = waiting.popleft()
                    one = Live(start, free.pop(), number)
                    termination = self._begin(one)
                    if termination is None:
                        live[one.slot], places[one.slot] = one, place
                    else:
                        done[place] = self._finished(one, termination)
                        free.append(one.slot)
                        progress(1)
                self.seconds["environment"] += time.perf_counter() - begun
                for one, termination in self._round(live):
                    del live[one.slot]
                    done[places.pop(one.slot)] = self._finished(one, termination)
                    self.generator.release(one.slot)
                    free.append(one.slot)
                    progress(1)
        finally:
            for slot in live:  # of a play that was broken off
                self.generator.release(slot)
        return [done[place] for place in range(len(starts))]

    def close(self) -> None:
        """Closes the environments."""
        while self._envs:
            self._envs.popitem()[1].close()

    # ------------------------------------------------------------------ an episode

    def _begin(self, live: Live) -> str | None:
        """Resets the environment. Returns why the episode has ended already, if it has."""
        start, begun = live.start, time.perf_counter()
        live.random = np.random.Generator(np.random.Philox(key=[self.seed, live.number]))
        try:
            live.env = self._envs.pop(live.slot, None) or self._make_env(start.task)
            _, live.info = live.env.reset(options={"task": start.task})
            if start.dialogue is None:
                live.dialogue = self.chat.begin(live.info)
            else:
                live.env.unwrapped.restore(start.snapshot)
                live.dialogue = start.dialogue.fork()
                live.info = _resumed(live.info, start.snapshot, live.env.unwrapped)
                live.value = start.snapshot.progress
                live.messages = sum(m["role"] == "assistant" for m in live.dialogue.conversation)
        except Exception as error:
            return self._crash(live, error)
        live.seconds += time.perf_counter() - begun
        live.heard = list(live.dialogue.ids)
        if self._room(live) < 1:
            _LOG.warning("task %s: %d tokens to read leave no room for an answer", start.task.id, len(live.heard))
            return "episode_tokens"
        self.hooks.at_turn(live)
        return None

    def _room(self, live: Live) -> int:
        """How many tokens the next message may have."""
        assert live.dialogue is not None
        left = self.generator.max_length - len(live.dialogue.ids)
        return min(self.max_message, self.max_turn - live.turn_tokens, left)

    def _round(self, live: dict[int, Live]) -> list[tuple[Live, str]]:
        """A message for every episode. Returns the episodes that ended, and why."""
        members = list(live.values())
        if not members:
            return []
        begun = time.perf_counter()
        requests = [self._request(one) for one in members]
        samples = self.generator.generate(requests)
        between = time.perf_counter()
        self.seconds["generate"] += between - begun
        ended = []
        for one, sample in zip(members, samples, strict=True):
            self.tokens += len(sample.ids)
            started = time.perf_counter()
            termination = self._take(one, sample)
            one.seconds += time.perf_counter() - started
            if termination is not None:
                ended.append((one, termination))
        gone = {id(one) for one, _ in ended}
        still = [one for one in members if id(one) not in gone]
        ended += [(one, "stopped") for one in self.hooks.after_round(still)]
        self.seconds["environment"] += time.perf_counter() - between
        return ended

    def _request(self, live: Live) -> Request:
        assert live.dialogue is not None
        room = self._room(live)
        return Request(live.slot, live.heard, room, live.noise(len(live.dialogue.ids), room), live)

    def _take(self, live: Live, sample: Sample) -> str | None:
        """The environment takes a message. Returns why the episode ended, if it did."""
        dialogue = live.dialogue
        assert dialogue is not None
        action = dialogue.say(sample.ids, sample.logprobs)
        live.actions.append(action)
        live.messages += 1
        live.turn_tokens += len(sample.ids)
        turn = live.turn
        live.turns.append(turn)
        live.rewards.append(0.0)
        try:
            _, reward, terminated, truncated, live.info = live.env.step(action)
            live.rewards[-1] = float(reward)
            live.value += live.rewards[-1]
            if terminated or truncated:
                return str(live.info.get("termination") or ("completed" if terminated else "step_limit"))
            # The last sampled token was not read yet.
            live.heard = [sample.ids[-1], *dialogue.hear(live.info)]
        except Exception as error:
            return self._crash(live, error)
        if live.turn != turn:
            live.turn_tokens = 0
        if live.messages >= self.max_messages:
            return "messages"
        if live.turn_tokens >= self.max_turn:
            return "turn_tokens"
        if self._room(live) < 1:
            return "episode_tokens"
        if live.turn != turn:
            self.hooks.at_turn(live)
        return None

    def _crash(self, live: Live, error: Exception) -> str:
        """Leaves an episode out whose environment raised. Nobody knows in what state it is, so a new one is made."""
        self.crashed += 1
        self._in_a_row += 1
        live.env = None
        _LOG.error("task %s: the environment crashed; the episode is left out", live.start.task.id, exc_info=True)
        if self._in_a_row >= _MOST_CRASHES:
            raise RodsError(
                f"expected an environment that crashes now and then at most; {self._in_a_row} episodes in a row "
                f"crashed, the last with {type(error).__name__}: {error}. Play a task by hand, or see the log."
            ) from error
        return "crashed"

    def _finished(self, live: Live, termination: str) -> Rollout:
        if termination != "crashed":
            self._in_a_row = 0
        if live.env is not None:
            self._envs[live.slot] = live.env
        evidence = termination not in ("crashed", "stopped")
        value = min(1.0, max(0.0, live.value))
        dialogue = live.dialogue
        ids, mask, logprobs = (dialogue.ids, dialogue.mask, dialogue.logprobs) if dialogue else ([], [], [])
        if live.actions:  # what was heard after the last message led to nothing
            end = len(mask) - mask[::-1].index(1)
            ids, mask, logprobs = ids[:end], mask[:end], logprobs[:end]
        return Rollout(
            live.start.task, live.start.group, ids, mask, logprobs, dialogue.prompt_length if dialogue else 0,
            value if evidence else None, evidence and value > 1 - 1e-9, termination,
            live.messages, live.actions, live.seconds, live.turns, live.rewards,
        )  # fmt: skip


def _resumed(info: dict[str, Any], snapshot: Snapshot, env: Any) -> dict[str, Any]:
    """The information of a reset as it was when the snapshot, which the environment now goes on from, was taken."""
    known = {"turn": snapshot.turn, "progress": snapshot.progress, "messages": snapshot.transcript}
    left = info["attempts_left"] - snapshot.attempts
    return {**info, **known, "tools": [tool.schema for tool in env.tools.values()], "attempts_left": left}


def _make_env(task: Task) -> gym.Env[Any, Any]:
    return gym.make(task.ENVIRONMENT, tasks=[task], disable_env_checker=True)
