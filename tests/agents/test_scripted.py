"""The agents without a network, and what they say about the frozen sets: gold is possible, idling pays nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rods_env
from rods_env.agents.scripted import AGENTS, DoNothing, Oracle, RandomCalls, ReadEverything, seen_values
from rods_env.apis.registry import TOOLS
from rods_env.envs.calls import parse_calls
from rods_env.envs.tool_use import ToolUseEnv

SETS = pytest.mark.parametrize("name", ["seeds", "heldout"])


@pytest.fixture
def frozen(seeds, heldout):
    return {"seeds": seeds, "heldout": heldout}


# --- the frozen sets ---


@SETS
def test_oracle_solves_every_frozen_task(name, frozen):
    """Row 11: gold replays to 1.0, on each of the 400 tasks."""
    result = rods_env.evaluate(Oracle, frozen[name])
    assert len(result.episodes) == len(frozen[name]) == 400
    assert [e.task_id for e in result.episodes if not e.success or e.progress != 1.0] == []
    assert (result.success, result.progress, result.crashed) == (1.0, 1.0, 0)
    assert result.terminations == {"completed": 400}


@SETS
def test_doing_nothing_earns_nothing_on_every_frozen_task(name, frozen):
    """Row 13: no task, not even a turn of one, is passed by doing nothing."""
    result = rods_env.evaluate(DoNothing(), frozen[name])
    assert [e.task_id for e in result.episodes if e.success or e.progress != 0.0] == []
    assert len(result.episodes) == 400
    assert (result.success, result.progress, result.crashed) == (0.0, 0.0, 0)


@SETS
def test_random_calls_earn_little(name, frozen):
    for seed in range(2):
        result = rods_env.evaluate(RandomCalls(seed), frozen[name])
        assert len(result.episodes) == 400
        assert result.success < 0.15
        assert result.progress < 0.15


@SETS
def test_reading_everything_earns_little(name, frozen):
    """A sample: it makes some hundred calls in each task."""
    sample = frozen[name][::4]
    result = rods_env.evaluate(ReadEverything(), sample)
    assert len(result.episodes) == len(sample) == 100
    assert result.success < 0.2
    assert result.progress < 0.2
    assert result.progress > 0, "it reads indeed"


# --- the agents ---


def play_out(env, agent, task):
    """The steps of an episode, as (messages before, tools, action, reply)."""
    _, info = env.reset(options={"task": task})
    tools, steps, ended = info["tools"], [], False
    if hasattr(agent, "begin"):
        agent.begin(info)
    while not ended:
        messages = list(info["messages"])
        action = agent.act(messages, tools)
        reply = env.step(action)
        steps.append((messages, tools, action, reply))
        info = reply[4]
        tools, ended = info.get("tools", tools), reply[2] or reply[3]
    return steps


@pytest.mark.parametrize("style", ["hermes", "json", "python"])
def test_oracle_plays_the_gold_calls_in_order_and_begins_anew(style, seeds):
    env = ToolUseEnv(tasks=seeds, call_format=style)
    agent = Oracle(env)
    for task in seeds[::37]:
        for _ in range(2):
            steps = play_out(env, agent, task)
            written = [call for _, _, action, _ in steps for call in parse_calls(action, style)]
            played = [(call.name, json.loads(bytes(call.arguments))) for call in written]
            assert played == [(call.tool, call.arguments) for call in task.calls]
            assert sum(reply[1] for *_, reply in steps) == 1.0
            assert len(steps) == len(task.calls) + len(task.turns)


def test_oracle_asks_where_something_is_missing(some):
    task = some("missing_parameter")
    env = ToolUseEnv(tasks=[task])
    asked = [action for _, _, action, _ in play_out(env, Oracle(env), task) if "missing" in action]
    assert len(asked) == 1


def test_random_calls_are_offered_valid_and_reproducible(seeds):
    """Row 21: the same seed and task, the same calls; whatever was played before."""
    env = ToolUseEnv(tasks=seeds)
    agent, again, other = RandomCalls(5), RandomCalls(5), RandomCalls(6)
    calls = refused = differ = 0
    for task in seeds[::10]:
        steps = play_out(env, agent, task)
        for _, tools, action, reply in steps:
            for call in parse_calls(action):
                assert call.name in {tool["function"]["name"] for tool in tools}
                TOOLS[call.name].decode(call.arguments)
                calls += 1
                refused += reply[4]["error"]
    for task in reversed(seeds[::10]):
        actions = [action for _, _, action, _ in play_out(env, again, task)]
        assert actions == [action for _, _, action, _ in play_out(env, agent, task)]
        differ += actions != [action for _, _, action, _ in play_out(env, other, task)]
    assert calls > 100
    assert refused < calls
    assert differ > 20


def test_read_everything_only_reads_and_never_twice_the_same(seeds):
    env = ToolUseEnv(tasks=seeds)
    agent = ReadEverything()
    calls = 0
    for task in [t for t in seeds if len(t.apis) <= 2][:8]:
        written = []
        for _, _, action, _ in play_out(env, agent, task):
            written += parse_calls(action)
        assert all(TOOLS[call.name].reads for call in written)
        assert len({(call.name, bytes(call.arguments)) for call in written}) == len(written)
        assert env.world is task.world
        calls += len(written)
    assert calls > 50


def test_do_nothing_calls_nothing(seeds):
    env = ToolUseEnv(tasks=seeds)
    steps = play_out(env, DoNothing(), seeds[-1])
    assert len(steps) == len(seeds[-1].turns)
    assert not any(parse_calls(action) for _, _, action, _ in steps)


def test_every_agent_of_the_table_acts_on_plain_messages(seeds):
    env = ToolUseEnv(tasks=seeds)
    for make in AGENTS.values():
        _, info = env.reset(seed=3)
        agent = make(env, 3)
        if hasattr(agent, "begin"):
            agent.begin(info)
        messages = json.loads(json.dumps(list(info["messages"])))
        assert isinstance(agent.act(messages, json.loads(json.dumps(info["tools"]))), str)


def test_seen_values_are_those_shown(story, play):
    env = story.env([story.order])
    play.say(env, story.read, story.fails, story.order)
    env.step("<tool_call>")
    messages = [*env.snapshot().transcript, {"role": "user", "content": "Please ask Ana Ruiz (ana.ruiz@example.com)."}]
    seen = seen_values(messages)
    assert story.customer.id in seen["customer", ""]
    assert all(value.startswith("ord_") for value in seen["order", ""])
    assert "Ana Ruiz" in seen["", "person"]
    assert seen["", "email"] == ["ana.ruiz@example.com"]
    assert all(len(values) == len(set(values)) > 0 for values in seen.values())
    assert seen_values([]) == {}


def test_agents_use_no_global_random_state(seeds):
    env = ToolUseEnv(tasks=seeds)
    legacy = np.random.mtrand._rand if hasattr(np.random.mtrand, "_rand") else np.random
    before = legacy.get_state()[1].tolist()
    play_out(env, RandomCalls(1), seeds[3])
    assert legacy.get_state()[1].tolist() == before
