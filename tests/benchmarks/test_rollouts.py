"""The benchmark of rollouts: that TRL's loop plays the very conversations that ours plays, and what the figures are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import SimpleNamespace

import pytest
import torch

from rods_env.agents.chat import Chat
from rods_env.agents.policy import Policy
from rods_env.agents.tiny import make_model, make_tokenizer
from rods_env.agents.warmup import demonstrations, needed_words, train
from rods_env.benchmarks import rollouts, trl_loop
from rods_env.errors import RodsError
from rods_env.tasks.tiny_sets import long_tasks, tiny_tasks

GOOD = {
    "returns_alike": 1.0, "ours_return_mean": 0.5, "trl_return_mean": 0.5, "ratio": 4.0, "decode_tokens_per_s": 3e4,
    "environment_share": 0.02,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tasks():
    return list(islice((t for t in tiny_tasks(5, {1: 1.0}, 1, 3) if len(t.turns) == 1), 8))


@pytest.fixture(scope="module")
def policy(tasks):
    """A small policy that has half learned the tasks by heart."""
    words = needed_words(tasks)
    tokenizer = make_tokenizer(words)
    chat = Chat(tokenizer, speech="compact", name="test")
    model = make_model(len(words), 0, width=64, layers=2, heads=2, kv_heads=1, inner=128)
    train(model, iter(list(demonstrations(chat, tasks, mistakes=0.0)) * 60), steps=70, batch=8, learning_rate=6e-3)
    return Policy("test", model, tokenizer, chat)


@pytest.fixture(scope="module")
def theirs(policy, tasks):
    return trl_loop.play(policy, tasks, batch=8, temperature=1e-4)


def test_trl_plays_the_same_conversations_token_for_token(policy, tasks, theirs):
    _, _, ours = rollouts.play(policy, tasks, slots=8, temperature=0.0)
    ours_of = dict(zip([task.id for task in tasks for _ in range(2)], ours, strict=True))
    assert sorted(theirs.numbers) == [number for number in range(len(tasks)) for _ in range(2)]
    for number, ids, value in zip(theirs.numbers, theirs.ids, theirs.returns, strict=True):
        same = ours_of[tasks[number].id]
        assert ids == same.ids
        assert value == same.value
    assert theirs.tokens == sum(sum(one.mask) for one in ours)
    assert theirs.seconds > 0
    calls = [one.messages for one in ours]
    assert max(calls) > 2  # results of tools were read
    assert 0 < sum(theirs.returns) / len(theirs.returns) < 1  # both ways to end were taken


def test_trl_leaves_the_policy_as_it_was(policy, tasks):
    state = torch.random.get_rng_state()
    template, weights = policy.tokenizer.chat_template, [p.clone() for p in policy.model.parameters()]
    trl_loop.play(policy, tasks[:2], batch=4, max_messages=2)
    assert policy.tokenizer.chat_template == template
    assert getattr(policy.tokenizer, "response_template", None) is None
    assert all(torch.equal(a, b) for a, b in zip(weights, policy.model.parameters(), strict=True))
    assert not policy.model.training
    assert torch.equal(torch.random.get_rng_state(), state)


def test_only_tasks_of_one_turn_and_tiny_policies(policy):
    with pytest.raises(RodsError, match="expected tasks of one turn"):
        trl_loop.play(policy, list(islice(long_tasks(0), 1)))
    with pytest.raises(RodsError, match="expected a tiny policy"):
        trl_loop.play(SimpleNamespace(name="large", chat=SimpleNamespace(speech="plain")), [])


def test_alike():
    assert rollouts.alike([0.0, 1.0] * 50, [1.0, 0.0] * 50)
    assert rollouts.alike([0.0] * 60 + [1.0] * 40, [0.0] * 40 + [1.0] * 60)  # 0.2 apart, 2.9 standard errors
    assert not rollouts.alike([0.0] * 70 + [1.0] * 30, [0.0] * 30 + [1.0] * 70)
    assert rollouts.alike([0.0] * 9, [0.0] * 9)
    assert not rollouts.alike([0.0] * 9, [1.0] * 9)


def test_what_must_hold():
    assert rollouts.failures(GOOD) == []
    bad = {"returns_alike": 0.0, "ratio": 2.9, "decode_tokens_per_s": 19_999.0, "environment_share": 0.05}
    for name, value in bad.items():
        (sentence,) = rollouts.failures({**GOOD, name: value})
        assert ("void" if name == "returns_alike" else name) in sentence


def test_all_figures(policy, monkeypatch):
    monkeypatch.setattr(rollouts, "TASKS", 16)
    monkeypatch.setattr(rollouts, "THREADS", (1,))
    monkeypatch.setattr(rollouts, "SLOTS", 4)
    small = {"tasks": "tiny:short", "tasks_limit": 4, "group_size": 2, "groups_per_step": 2, "micro_batch": 4}
    monkeypatch.setattr(rollouts, "step_shares", partial(rollouts.step_shares, **small))
    before = [p.clone() for p in policy.model.parameters()]
    said: list[str] = []
    figures = rollouts.run(quick=True, policy=policy, progress=said.append)
    assert said == ["8 episodes at once, 1 threads, round 1 of 1", "decoding", "training steps"]
    assert figures["ratio"] == figures["ours_episodes_per_s"] / figures["trl_episodes_per_s"]
    assert figures["decode_tokens_per_s"] == figures["decode_tokens_per_s_t1"] > 0
    assert figures["episode_tokens_per_s"] > 0
    assert figures["long_episode_tokens_per_s"] > 0
    shares = [figures[f"{part}_share"] for part in ("generate", "environment", "train")]
    assert all(share > 0 for share in shares)
    assert sum(shares) == pytest.approx(1, abs=0.1)
    rollouts.failures(figures)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.model.parameters(), strict=True))
