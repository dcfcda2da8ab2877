"""Plays many episodes in lockstep: every round samples one message for each episode, then every environment takes its own.

    engine = RolloutEngine(policy, max_message=32)
    rollouts = engine.play([Start(task) for task in tasks])

An episode is tokens in, tokens out (`Chat`), and its keys and values are kept from message to message (`Sampler`), so it
costs what its length costs. What stands behind `generate` may be a model, a scripted agent (`ScriptedSampler`), or
whatever else samples messages. The same engine plays for training and for evaluation.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from rods_env.agents.chat import Chat, Dialogue
from rods_env.agents.decoding import Request, Sample
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

_LOG = logging.getLogger(__name__)


class Start(NamedTuple):
    """Where an episode begins.

    Attributes:
        task: what is played.
        group: episodes of a group carry the same number; hooks see it.
        snapshot: of `ToolUseEnv.snapshot`: the episode goes on from there instead of the beginning of the task.
        dialogue: what was said up to the snapshot; it is copied.
        number: seeds the noise of the episode, together with the engine's seed. None: the engine counts.
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
        ids: all token ids.
        mask: 1 on sampled ids, else 0; as long as `ids`.
        logprobs: log-probability of each sampled id at the sampling temperature; 0 elsewhere; as long as `ids`.
        prompt_length: how many ids stood before the first message.
        value: the return, in [0, 1]; None if the environment crashed or a hook stopped the episode: no evidence.
        success: whether everything passed.
        termination: `completed`, `step_limit`, `failed_turn` (of the environment); `turn_tokens`, `episode_tokens`,
            `messages` (limits of the engine); `stopped` (by a hook), `crashed`.
        messages: how many messages the policy wrote.
        actions: what each said to the environment.
        seconds: how long the environment worked for it.
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


class Live:
    """An episode that is being played; what hooks see.

    Attributes:
        start: where it began.
        slot: its place in the sampler.
        env: its environment.
        dialogue: its tokens so far.
        info: the latest information of the environment.
        actions: what the policy said so far.
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
        self.value = 0.0
        self.turn_tokens = 0
        self.heard: list[int] = []  # ids that the sampler has not read
        self.noise = np.empty(0)
        self.seconds = 0.0

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
    """What may be done while episodes are played; both do nothing here.

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
            `ToolUse-RODS-v0` of the task.
        max_message: most tokens of a message.
        max_turn: most sampled tokens of a turn.
        max_messages: most messages of an episode.
        seed: of the noise.
        hooks: see `Hooks`.

    Attributes:
        seconds: what was spent, by part: `generate`, `environment` (its steps, and the tokens of what it says).
        tokens: how many tokens were sampled.
        crashed: how many episodes crashed.
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
        self.generator = generator
        self.chat = chat
        self.max_message = max_message
        self.max_turn = max_turn
        self.max_messages = max_messages
        self.seed = seed
        self.hooks = hooks or Hooks()
        self.seconds: Counter[str] = Counter()
        self.tokens = 0
        self.crashed = 0
        self.played = 0  # numbers the episodes; part of what is saved
        self._make_env = make_env or _make_env
        self._envs: dict[int, Any] = {}

    def play(self, starts: Sequence[Start], progress: Callable[[int], None] = lambda _: None) -> list[Rollout]:
        """Plays episodes, as many at once as the generator has slots.

        Args:
            starts: where they begin.
            progress: called with 1 after every episode.

        Returns:
            The rollouts, in the order of `starts`.
        """
        waiting = deque(enumerate(starts))
        free = list(range(self.generator.slots))[::-1]
        done: list[Rollout | None] = [None] * len(starts)
        places: dict[int, int] = {}  # slot, to the place in `starts`
        live: dict[int, Live] = {}
        while waiting or live:
            begun = time.perf_counter()
            while waiting and free:
                place, start = waiting.popleft()
                number = self.played if start.number is None else start.number
                self.played += start.number is None
                one = Live(start, free.pop(), number)
                termination = self._begin(one)
                if termination is None:
                    live[one.slot], places[one.slot] = one, place
                else:
                    done[place] = self._finished(one, termination)
                    free.append(one.slot)
                    progress(1)
            self.seconds["environment"] += time.perf_counter() - begun
            ended = self._round(live)
            for one, termination in ended:
                del live[one.slot]
                done[places.pop(one.slot)] = self._finished(one, termination)
                self.generator.release(one.slot)
                free.append(one.slot)
                progress(1)
        return [rollout for rollout in done if rollout is not None]

    # ------------------------------------------------------------------ an episode

    def _begin(self, live: Live) -> str | None:
        """Resets the environment. Returns why the episode has ended already, if it has."""
        start = live.start
        noise = np.random.Generator(np.random.Philox(key=[self.seed, live.number]))
        live.noise = noise.random(self.generator.max_length)
        try:
            live.env = self._envs.pop(live.slot, None) or self._make_env(start.task)
            _, live.info = live.env.reset(options={"task": start.task})
            if start.snapshot is None:
                live.dialogue = self.chat.begin(live.info)
            else:
                assert start.dialogue is not None
                live.env.unwrapped.restore(start.snapshot)
                live.dialogue = start.dialogue.fork()
                live.info = {**live.info, "turn": start.snapshot.turn, "progress": start.snapshot.progress}
                live.value = start.snapshot.progress
        except Exception:
            return self._crash(live)
        live.heard = list(live.dialogue.ids)
        if self._room(live) < 1:
            _LOG.warning("task %s: %d tokens to read leave no room for an answer", start.task.id, len(live.heard))
            return "episode_tokens"
        self.hooks.at_turn(live)
        return None

    def _room(self, live: Live) -> int:
        """How many tokens the next message may have."""
        assert live.dialogue is not None
        left = self.generator.max_length - len(live.dialogue.ids) + 1
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
        at = len(live.dialogue.ids)
        room = self._room(live)
        noise = live.noise[at - 1 : at - 1 + room]
        return Request(live.slot, live.heard, room, noise, live)

    def _take(self, live: Live, sample: Sample) -> str | None:
        """The environment takes a message. Returns why the episode ended, if it did."""
        dialogue = live.dialogue
        assert dialogue is not None
        action = dialogue.say(sample.ids, sample.logprobs)
        live.actions.append(action)
        live.turn_tokens += len(sample.ids)
        turn = live.turn
        try:
            _, reward, terminated, truncated, live.info = live.env.step(action)
        except Exception:
            return self._crash(live)
        live.value += float(reward)
        if terminated or truncated:
            return str(live.info.get("termination") or ("completed" if terminated else "step_limit"))
        # The last sampled token was not read yet.
        live.heard = [sample.ids[-1], *dialogue.hear(live.info)]
        if live.turn != turn:
            live.turn_tokens = 0
        if len(live.actions) >= self.max_messages:
            return "messages"
        if live.turn_tokens >= self.max_turn:
            return "turn_tokens"
        if self._room(live) < 1:
            return "episode_tokens"
        if live.turn != turn:
            self.hooks.at_turn(live)
        return None

    def _crash(self, live: Live) -> str:
        self.crashed += 1
        live.env = None  # nobody knows in what state it is
        _LOG.error("task %s: the environment crashed; the episode is left out", live.start.task.id, exc_info=True)
        return "crashed"

    def _finished(self, live: Live, termination: str) -> Rollout:
        dialogue = live.dialogue
        evidence = termination not in ("crashed", "stopped")
        value = min(1.0, max(0.0, live.value))
        if live.env is not None:
            self._envs[live.slot] = live.env
        return Rollout(
            live.start.task, live.start.group,
            dialogue.ids if dialogue else [], dialogue.mask if dialogue else [], dialogue.logprobs if dialogue else [],
            dialogue.prompt_length if dialogue else 0,
            value if evidence else None, evidence and value > 1 - 1e-9, termination,
            len(live.actions), live.actions, live.seconds,
        )  # fmt: skip


def _make_env(task: Task) -> gym.Env[Any, Any]:
    return gym.make("ToolUse-RODS-v0", tasks=[task], disable_env_checker=True)


class ScriptedSampler:
    """Scripted agents behind `generate`.

    Args:
        chat: in whose tokens they speak.
        make_agent: makes an agent from an environment; `Oracle`, say.
        slots: how many episodes are played at once.
        max_length: the most tokens of an episode.
    """

    def __init__(
        self, chat: Chat, make_agent: Callable[[Any], Any], *, slots: int = 128, max_length: int = 100_000
    ) -> None:
        self.slots = slots
        self.max_length = max_length
        self._chat = chat
        self._make_agent = make_agent
        self._agents: dict[int, Any] = {}

    def generate(self, requests: Sequence[Request]) -> list[Sample]:
        return [self._said(request) for request in requests]

    def release(self, slot: int) -> None:
        self._agents.pop(slot, None)

    def _said(self, request: Request) -> Sample:
        import msgspec

        from rods_env.envs.calls import parse_calls

        live = request.episode
        agent = self._agents.get(request.slot)
        if agent is None:
            agent = self._agents[request.slot] = self._make_agent(live.env)
            if hasattr(agent, "begin"):
                agent.begin(live.info)
        said = agent.act(list(live.info["messages"]), live.info.get("tools", []))
        calls = [(c.name, msgspec.json.decode(c.arguments)) for c in parse_calls(said)]
        ids = [*self._chat.encode(live.dialogue.speech.calls(calls)), *self._chat.end_ids][: request.limit]
        return Sample(ids, [0.0] * len(ids))
