"""Episodes in lockstep: what they hold, how they end, what a crash costs, and that they are the same every time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from play_tools import chat_of, make_env, model_of, tasks, tokenizer_of

from rods_env.agents.chat import Chat
from rods_env.agents.decoding import Request, Sample, Sampler
from rods_env.agents.rollout import Hooks, Live, Rollout, RolloutEngine, ScriptedSampler, Start
from rods_env.agents.scripted import Oracle
from rods_env.agents.tiny import make_model
from rods_env.envs.calls import write_calls
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"max_message": 5, "max_turn": 400, "max_messages": 14}


def tiny_engine(
    slots: int = 4, max_length: int = 900, dtype: torch.dtype = torch.float64, **settings: Any
) -> RolloutEngine:
    """An untrained tiny policy, which makes ten mistakes in every turn.

    In float64, where rounding moves no number from one token to the next, so that episodes can be compared exactly.
    """
    chat = chat_of("tiny")
    model = make_model(len(chat.tokenizer), width=32, layers=2, inner=48, initializer_range=0.2).to(dtype)
    sampler = Sampler(model, chat.end_ids, slots=slots, max_length=max_length)
    return RolloutEngine(sampler, chat, **{**TINY, **settings})


def starts(n: int = 6, group: int = 4) -> list[Start]:
    return [Start(tasks()[i % len(tasks())], group=i // group) for i in range(n)]


def told(rollout: Rollout) -> Any:
    """Everything of a rollout but the time it took; log-probabilities differ by rounding."""
    return (rollout.task.id, *rollout[1:4], rollout.prompt_length, *rollout[6:11])


class Parrot:
    """Says the same in every message."""

    def __init__(self, chat: Chat, said: str, *, slots: int = 3, max_length: int = 30_000, end: bool = True) -> None:
        self.slots, self.max_length = slots, max_length
        self._ids = [*chat.encode(said), *(chat.end_ids if end else [])]

    def generate(self, requests: Sequence[Request]) -> list[Sample]:
        return [Sample(ids, [-0.5] * len(ids)) for ids in (self._ids[: r.limit] for r in requests)]

    def release(self, slot: int) -> None:
        return None


class Breaks(gym.Wrapper[Any, Any, Any, Any]):
    """Raises in the reset, or in the second step, of one task."""

    def __init__(self, env: Any, task: Task, where: str) -> None:
        super().__init__(env)
        self.bad, self.where, self.steps = task, where, 0

    def reset(self, **kwargs: Any) -> Any:
        self.steps = 0
        if kwargs["options"]["task"] is self.bad and self.where == "reset":
            raise OSError("the database is gone")
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.unwrapped.task is self.bad and self.where == "step" and self.steps == 2:
            raise OSError("the database is gone")
        return self.env.step(action)


# ---------------------------------------------------------------------- what a rollout holds


@pytest.mark.parametrize(("name", "slots"), [("tiny", 3), ("qwen2_5", 3), ("llama3_2", 20)])
def test_the_oracle_scores_one(name: str, slots: int) -> None:
    chat = chat_of(name)
    engine = RolloutEngine(ScriptedSampler(chat, Oracle, slots=slots), chat, max_message=400, max_turn=4000)
    assert engine.generator.slots == slots
    seen: list[int] = []
    rollouts = engine.play(starts(len(tasks())), seen.append)
    assert [r.value for r in rollouts] == [1.0] * len(tasks())
    assert all(r.success and r.termination == "completed" for r in rollouts)
    assert [r.task.id for r in rollouts] == [t.id for t in tasks()]
    assert [r.group for r in rollouts] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [r.messages for r in rollouts] == [sum(len(turn.calls) + 1 for turn in t.turns) for t in tasks()]
    assert sum(seen) == len(tasks())


def check(rollouts: Sequence[Rollout], engine: RolloutEngine) -> None:
    """The rules of every rollout."""
    assert sum(sum(r.mask) for r in rollouts) == engine.tokens
    for r in rollouts:
        assert len(r.ids) == len(r.mask) == len(r.logprobs) <= engine.generator.max_length
        assert r.mask[-1] == 1, "nothing stands behind the last message"
        assert not any(r.mask[: r.prompt_length])
        assert r.mask[r.prompt_length] == 1
        assert all((log < 0) if sampled else (log == 0) for log, sampled in zip(r.logprobs, r.mask, strict=True))
        assert len(r.actions) == r.messages > 0


def largest_difference(model: Any, rollouts: Sequence[Rollout]) -> float:
    """Between the log-probabilities of a rollout and those of one plain pass over its ids."""
    worst = 0.0
    for r in rollouts:
        with torch.no_grad():
            logs = model(input_ids=torch.tensor([r.ids])).logits[0].log_softmax(-1)
        at = [i for i, m in enumerate(r.mask) if m]
        again = logs[[i - 1 for i in at], [r.ids[i] for i in at]]
        worst = max(worst, float((again - torch.tensor([r.logprobs[i] for i in at])).abs().max()))
    return worst


def test_log_probabilities_are_those_of_training() -> None:
    engine = tiny_engine(dtype=torch.float32, max_messages=24)
    rollouts = engine.play(starts(9))
    check(rollouts, engine)
    assert max(r.messages for r in rollouts) > 20
    assert largest_difference(engine.generator.model, rollouts) <= 1e-4  # type: ignore[attr-defined]


def test_log_probabilities_of_a_chat_model_are_those_of_training() -> None:
    chat = Chat(tokenizer_of("qwen2_5"), tool_docs="signatures", name="qwen")
    model = model_of("qwen2, tied", len(chat.tokenizer), 4096)
    sampler = Sampler(model, chat.end_ids, slots=2, max_length=4096)
    engine = RolloutEngine(sampler, chat, max_message=8, max_messages=6)
    rollouts = engine.play(starts(3))
    check(rollouts, engine)
    assert largest_difference(model, rollouts) <= 1e-4


def test_the_users_message_is_in_the_ids() -> None:
    chat = chat_of("qwen3_training")
    engine = RolloutEngine(Parrot(chat, "No."), chat)
    for rollout in engine.play(starts(8)):
        for turn in rollout.task.turns:
            assert turn.message in chat.decode(rollout.ids)


# ---------------------------------------------------------------------- the same every time


def test_slots_and_order_change_nothing() -> None:
    """Nine episodes of groups of four, in 1, 3, 5 and 20 slots, in one play, in two, and in another order."""
    wanted = starts(9, 4)
    expected = [told(r) for r in tiny_engine(5).play(wanted)]
    assert len({str(one) for one in expected}) == 9, "members of a group differ"
    for slots in (1, 3, 20):
        assert [told(r) for r in tiny_engine(slots).play(wanted)] == expected
    engine = tiny_engine(4)
    first = engine.play(wanted[:7])
    assert engine.played == 7
    resumed = tiny_engine(4)
    resumed.played = 7
    assert [told(r) for r in [*first, *resumed.play(wanted[7:])]] == expected
    numbered = [start._replace(number=number) for number, start in enumerate(wanted)]
    engine = tiny_engine(4)
    assert [told(r) for r in engine.play(numbered[::-1])][::-1] == expected
    assert engine.played == 0, "numbers of one's own are not counted"


def test_another_seed_is_another_episode() -> None:
    one, two, other = (tiny_engine(seed=seed).play(starts(3)) for seed in (0, 0, 1))
    assert [told(r) for r in one] == [told(r) for r in two]
    assert all(a.ids != b.ids for a, b in zip(one, other, strict=True))


def test_no_global_random_state_is_touched() -> None:
    torch_before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    tiny_engine().play(starts(2))
    assert torch.equal(torch.random.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)


# ---------------------------------------------------------------------- hooks


class Notes(Hooks):
    """Takes a place to start again from at every turn."""

    def __init__(self) -> None:
        self.places: list[Start] = []
        self.turns: list[int] = []

    def at_turn(self, live: Live) -> None:
        assert live.dialogue is not None
        env = live.env.unwrapped
        self.turns.append(live.turn)
        self.places.append(Start(live.start.task, 7, env.snapshot(), live.dialogue.fork(), live.number))


def test_an_episode_goes_on_from_a_snapshot_as_it_did() -> None:
    hooks, task = Notes(), next(t for t in tasks() if len(t.turns) > 2)
    settings = {"slots": 1, "max_length": 2000, "max_messages": 100}
    (rollout,) = tiny_engine(**settings, hooks=hooks).play([Start(task)])
    assert hooks.turns == list(range(len(rollout.task.turns)))
    for turn, start in enumerate(hooks.places):
        (again,) = tiny_engine(**settings).play([start])
        assert told(again)[2:] == (*told(rollout)[2:-1], rollout.actions[-len(again.actions) :])
        assert again.group == 7
        assert len(again.actions) == rollout.messages - 10 * turn
        assert np.allclose(again.logprobs, rollout.logprobs, atol=1e-4)
        (other,) = tiny_engine(**settings).play([start._replace(number=99)])
        assert other.ids != again.ids
        assert other.ids[: len(start.dialogue.ids)] == again.ids[: len(start.dialogue.ids)]  # type: ignore[union-attr]


class Sees:
    """Answers without a call, and notes what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def act(self, messages: Sequence[Any], tools: Sequence[Any]) -> str:
        self.shown.append((list(messages), [tool["function"]["name"] for tool in tools]))
        return "Done."


def test_scripted_agents_go_on_from_a_snapshot() -> None:
    """They see the conversation and the tools as they were."""
    chat = chat_of("qwen2_5")
    task = next(t for t in tasks() if t.kind == "missing_function")
    limits = {"max_message": 400, "max_turn": 4000}
    hooks = Notes()
    (rollout,) = RolloutEngine(ScriptedSampler(chat, Oracle, slots=1), chat, hooks=hooks, **limits).play([Start(task)])
    for start in hooks.places:
        (again,) = RolloutEngine(ScriptedSampler(chat, Oracle, slots=1), chat, **limits).play([start])
        assert (again.value, again.messages, again.ids) == (1.0, rollout.messages, rollout.ids)
    agents = Sees(), Sees()
    hooks = Notes()
    RolloutEngine(ScriptedSampler(chat, lambda env: agents[0], slots=1), chat, hooks=hooks).play([Start(task)])
    turn = next(i for i, t in enumerate(task.turns) if t.adds)
    RolloutEngine(ScriptedSampler(chat, lambda env: agents[1], slots=1), chat).play([hooks.places[turn]])
    assert agents[1].shown[0] == agents[0].shown[turn]
    assert set(task.turns[turn].adds) <= set(agents[1].shown[0][1])


class Gate(Hooks):
    """Stops group 1 after the second round."""

    def __init__(self) -> None:
        self.rounds = 0

    def after_round(self, live: Sequence[Live]) -> Iterable[Live]:
        self.rounds += 1
        return [one for one in live if self.rounds == 2 and one.start.group == 1]


def test_a_gate_stops_a_group() -> None:
    expected = tiny_engine(8).play(starts(8))
    stopped = tiny_engine(8, hooks=Gate()).play(starts(8))
    assert [told(r) for r in stopped[:4]] == [told(r) for r in expected[:4]]
    for one, whole in zip(stopped[4:], expected[4:], strict=True):
        assert (one.termination, one.value, one.success, one.messages) == ("stopped", None, False, 2)
        assert one.ids == whole.ids[: len(one.ids)]


# ---------------------------------------------------------------------- how episodes end


def test_invalid_calls_end_by_the_cap_on_attempts() -> None:
    chat = chat_of("qwen2_5")
    parrot = Parrot(chat, "<tool_call>{")
    engine = RolloutEngine(parrot, chat, max_turn=10 * len(parrot._ids) + 1)  # a limit of turns, not of episodes
    for rollout in engine.play(starts(4)):
        assert (rollout.termination, rollout.value, rollout.success) == ("completed", 0.0, False)
        assert rollout.messages == 10 * len(rollout.task.turns)


@pytest.mark.parametrize(
    ("termination", "settings", "env_options", "end"),
    [
        ("messages", {"max_messages": 3}, {}, True),
        ("turn_tokens", {"max_turn": 100}, {}, True),
        ("step_limit", {}, {"max_steps": 4}, True),
        ("failed_turn", {}, {"stop_at_failed_turn": True, "attempts_per_turn": 2}, True),
        ("messages", {"max_message": 16, "max_messages": 5}, {}, False),
    ],
)
def test_limits_have_names(termination: str, settings: Any, env_options: Any, end: bool) -> None:
    chat = chat_of("qwen2_5")
    engine = RolloutEngine(
        Parrot(chat, write_calls([("find_nobody", {})]), end=end), chat, **settings,
        make_env=lambda task: gym.make("ToolUse-RODS-v0", tasks=[task], disable_env_checker=True, **env_options),
    )  # fmt: skip
    rollouts = engine.play([Start(task) for task in tasks() if len(task.turns) > 1])
    assert len(rollouts) > 3
    assert {r.termination for r in rollouts} == {termination}
    check(rollouts, engine)
    for r in rollouts:
        assert r.value == 0.0, "it ended, and what was reached counts"
        assert sum(r.mask) <= settings.get("max_turn", 10_000)
        assert r.messages <= settings.get("max_messages", 64)


def test_an_episode_ends_where_its_slot_is_full() -> None:
    engine = tiny_engine(2, max_length=300)
    rollouts = engine.play(starts(6))
    assert "episode_tokens" in {r.termination for r in rollouts}
    check(rollouts, engine)


def test_a_prompt_that_fills_its_slot_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    engine = tiny_engine(2, max_length=20)
    (rollout,) = engine.play([Start(tasks()[0])])
    assert (rollout.termination, rollout.value, rollout.messages, sum(rollout.mask)) == ("episode_tokens", 0.0, 0, 0)
    assert f"task {tasks()[0].id}: {len(rollout.ids)} tokens to read leave no room" in caplog.text


# ---------------------------------------------------------------------- crashes


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_crash_costs_one_episode(where: str, caplog: pytest.LogCaptureFixture) -> None:
    bad, made = tasks()[1], Counter[str]()

    def make(task: Task) -> Any:
        made["environments"] += 1
        return Breaks(make_env(task), bad, where)

    expected = tiny_engine(2).play(starts(8))
    engine = tiny_engine(2, make_env=make)
    with caplog.at_level(logging.ERROR):
        rollouts = engine.play(starts(8))
    crashed = rollouts.pop(1)
    assert (crashed.termination, crashed.value, crashed.success) == ("crashed", None, False)
    assert crashed.messages == (2 if where == "step" else 0)
    assert len(crashed.ids) == len(crashed.mask) == len(crashed.logprobs)
    assert [told(r) for r in rollouts] == [told(r) for i, r in enumerate(expected) if i != 1]
    assert engine.crashed == 1
    assert made["environments"] == 3, "one for each slot, and a new one for the broken"
    assert f"task {bad.id}: the environment crashed" in caplog.text
    assert "the database is gone" in caplog.text


def test_nothing_but_crashes_ends_the_run() -> None:
    def make(task: Task) -> Any:
        raise OSError("no such host")

    engine = tiny_engine(2, make_env=make)
    assert {r.termination for r in engine.play(starts(60))} == {"crashed"}
    with pytest.raises(RodsError, match="100 episodes in a row crashed, the last with OSError: no such host"):
        engine.play(starts(60))


def test_crashes_now_and_then_do_not() -> None:
    good, bad = tasks()[:2]
    engine = RolloutEngine(Parrot(chat_of("tiny"), "ok", slots=1), chat_of("tiny"),
                           make_env=lambda task: Breaks(make_env(good), bad, "reset"))  # fmt: skip
    engine.play([Start(task) for _ in range(110) for task in (good, bad)])
    assert engine.crashed == 110


def test_a_play_that_was_broken_off_leaves_nothing_behind() -> None:
    expected = [told(r) for r in tiny_engine().play(starts(8))]

    class Interrupts(Hooks):
        def after_round(self, live: Sequence[Live]) -> Iterable[Live]:
            raise KeyboardInterrupt

    engine = tiny_engine(hooks=Interrupts())
    with pytest.raises(KeyboardInterrupt):
        engine.play(starts(8))
    engine.hooks, engine.played = Hooks(), 0
    assert [told(r) for r in engine.play(starts(8))] == expected


# ---------------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_message": 0}, "max_message must be a whole number from 1 on; got 0"),
        ({"max_turn": 1.5}, "max_turn must be"),
        ({"max_messages": -1}, "max_messages must be"),
        ({"seed": -1}, "seed must be a whole number from 0 on"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(RodsError, match=reason):
        tiny_engine(**settings)


def test_a_snapshot_needs_its_dialogue() -> None:
    env = make_env(tasks()[0])
    env.reset()
    with pytest.raises(RodsError, match="both a snapshot and the dialogue up to it"):
        tiny_engine().play([Start(tasks()[0], snapshot=env.unwrapped.snapshot())])
