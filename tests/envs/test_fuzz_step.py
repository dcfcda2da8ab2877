"""Anything at all, as an action: never an exception, never a call that was not written; and no memory that grows."""

from __future__ import annotations

import gc
import re
import sys

import gymnasium as gym
import msgspec
import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.apis.draw import Draw
from rods_env.apis.registry import TOOLS, Services
from rods_env.envs import tool_use
from rods_env.envs.calls import MAX_CHARACTERS, CallError, parse_calls, write_calls
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.errors import ToolError

STYLES = ("hermes", "json", "python")
MUTATED = 100_000
EPISODES = 10_000

PIECES = (
    '"', "'", "{", "}", "[", "]", "(", ")", ",", ":", "=", "\\", "\n", " ", "\t", "\x00", "-", ".", "_", "0", "9",
    "1e999", "25.0", "null", "None", "true", "NaN", "<tool_call>", "</tool_call>", "<tool_cal>", "<think>",
    "</think>", "```", "```json\n", "[TOOL_CALLS]", '"name": ', '"arguments": ', '{"name": "', "}}", "}]", "\\u003c",
    "\\n", "\\ud800", "\ud800", "ﬁ", "好", "é", "\u202e", "**", "lambda: ", "f(", "__import__('os')", "order_id=",
    "cus_", "1 if ", ";", "#", '""', "''", "\r", "\ufeff", "9" * 400,
)  # fmt: skip


AROUND = (
    "{}", "<tool_call>{}</tool_call>", "[{}]", "[f(x='{}')]", "```{}```", "</think>{}",
    '<tool_call>{{"name": "{}", "arguments": {{}}}}</tool_call>',
)  # fmt: skip


@pytest.fixture(scope="module")
def points(seeds):
    """An environment in which only an answer closes a turn; states before a write, and texts that write it."""
    env = ToolUseEnv(tasks=seeds, attempts_per_turn=10**9, max_steps=10**9)
    found = []
    for task in seeds[::4]:
        env.reset(options={"task": task})
        for call in task.turns[0].calls:
            written = [(call.tool, call.arguments)]
            if not TOOLS[call.tool].reads:
                both = [*written, (task.turns[0].calls[0].tool, task.turns[0].calls[0].arguments)]
                texts = [write_calls(calls, style) for calls in (written, both) for style in STYLES]
                texts += [f"Let me see.\n{texts[0]}", f"<think>Hm.</think>\n{texts[2]}", f"```json\n{texts[1]}\n```"]
                found.append((env.snapshot(), texts))
            env.step(write_calls(written))
    assert len(found) > 40
    return env, found


def mutated(draw, text, other):
    """The text with one or two chunks deleted, doubled, replaced, inserted, swapped, or taken from another text."""
    for _ in range(1 + draw.index(2)):
        a = draw.index(len(text) + 1)
        b = min(len(text), a + 1 + draw.index(8 if draw.chance(0.8) else 60))
        match draw.index(7):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:b] + text[a:b] + text[b:]
            case 2:
                text = text[:a] + draw.choice(PIECES) + text[b:]
            case 3 | 4:
                text = text[:a] + draw.choice(PIECES) + text[a:]
            case 5:
                c = min(len(text), b + 1 + draw.index(12))
                text = text[:a] + text[b:c] + text[a:b] + text[c:]
            case 6:
                start = draw.index(len(other) + 1)
                text = text[:a] + other[start : start + 1 + draw.index(40)] + text[b:]
    return text


def bare(text):
    """Without quotes and spaces: 'a' 'b' is one text in Python."""
    return re.sub(r"""['"\s]""", "", text)


def check(env, start, text):
    """One step from `start`; returns whether it changed the world. What changed it stands in the text."""
    env.restore(start)
    obs, reward, _, truncated, info = env.step(text)
    assert not truncated
    assert 0 <= reward <= 1
    assert info["error"] is False or '"error"' in obs
    try:
        calls = parse_calls(text)
    except CallError:
        calls = None
    if not calls:  # an answer closes the turn, an error changes nothing
        assert env.world is start.world
        assert info["error"] is (calls is None)
        assert (info["closed_by"] is None) is (calls is None)
        return False
    assert info["closed_by"] is None
    if env.world is start.world:
        return False
    services, done = Services(start.world), 0
    for call in calls:
        tool = env._tools.get(call.name)
        if tool is None:
            continue
        try:
            services.run(tool, tool.decode(call.arguments))
        except (ToolError, msgspec.MsgspecError):
            continue
        done += 1
        assert call.name in text or "\\" in text
        for name, value in msgspec.json.decode(call.arguments).items():
            assert name in text or "\\" in text
            if isinstance(value, str) and "\\" not in text:
                assert value in text or bare(value) in bare(text)
    assert done
    assert services.state.world == env.world, "what was executed is what parse_calls says was written, and no more"
    return True


def test_mutated_calls(points):
    """Row 16, with 100,000 texts: never an exception, never a call that was not said."""
    env, found = points
    draw = Draw(np.random.default_rng(20))
    changed = errors = 0
    for number in range(MUTATED):
        start, texts = found[number % len(found)]
        other = draw.choice(found[draw.index(len(found))][1])
        text = mutated(draw, draw.choice(texts), other)
        changed += check(env, start, text)
        errors += env._attempts > start.attempts
    assert changed > MUTATED // 20, "mutations must leave some calls intact"
    assert errors > MUTATED // 4, "and spoil others"


def test_mutated_calls_in_one_format(points, seeds):
    """The same, where only one format is read: 6,000 texts, and episodes that run on to their ends."""
    _, found = points
    draw = Draw(np.random.default_rng(21))
    ends = 0
    for style in STYLES:
        env = gym.make("ToolUse-RODS-v0", tasks=seeds, call_format=style)
        env.reset(seed=1)
        for _ in range(2000):
            texts = found[draw.index(len(found))][1]
            *_, terminated, truncated, _ = env.step(mutated(draw, draw.choice(texts), draw.choice(texts)))
            if terminated or truncated:
                env.reset()
                ends += 1
    assert ends > 20


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60), st.sampled_from(AROUND))
def test_any_text(points, text, around):
    env, found = points
    check(env, found[0][0], around.format(text))


def huge():
    for text in ("a", "[", "{", "(", " ", "\n", '"', "<tool_call>", "f(", "</think>", "\\", "好", "[f(x=1)]", "\ud800"):
        yield (text * (10_000_000 // len(text)))[:10_000_000]
    yield "<tool_call>" + '{"name": "f", "arguments": {"x": "' + "a" * 10_000_000 + '"}}</tool_call>'
    yield write_calls([("list_orders", {"customer_id": "x" * (MAX_CHARACTERS - 200)})])


def nested(depth=10_000):
    inner = (
        ("[" * depth, "]" * depth), ('{"a":' * depth + "1", "}" * depth), ("(" * depth, ")" * depth),
        ("-" * depth + "1", ""), ("1+" * depth + "1", ""), ("f(x=" * depth + "1", ")" * depth),
    )  # fmt: skip
    for opening, closing in inner:
        for half in (closing, ""):
            yield opening + half
            yield f'<tool_call>{{"name": "place_order", "arguments": {{"quantity": {opening}{half}}}}}</tool_call>'
            yield f'[{{"name": "place_order", "arguments": {{"quantity": {opening}{half}}}}}]'
            yield f"[place_order(quantity={opening}{half})]"
            yield f"```python\n[place_order(quantity={opening}{half})]\n```"


@pytest.mark.parametrize("texts", [huge, nested])
def test_ten_megabytes_and_ten_thousand_levels(points, texts):
    """Row 7: long or deep texts neither crash nor take long."""
    env, found = points
    count = 0
    for text in texts():
        assert check(env, found[0][0], text) is False
        count += 1
    assert count >= 16


def test_ten_thousand_episodes_in_flat_memory(seeds, play, monkeypatch):
    """Row 20: nothing is kept of an episode that is over, also with distractors and tasks from outside."""
    monkeypatch.setattr(tool_use, "_PREPARED", 60)  # reached before the first measurement
    env = gym.make("ToolUse-RODS-v0", tasks=seeds[::8], distractor_apis=["fleet"])
    draw = Draw(np.random.default_rng(3))
    process = psutil.Process()
    good = {task.id: [write_calls([(call.tool, call.arguments)]) for call in task.calls] for task in seeds[::8]}
    actions = [*(text for text in play.nasty if len(text) < 200), "Done.", "Done.", write_calls([("nothing", {})])]
    blocks, resident, steps = {}, {}, 0
    env.reset(seed=1)
    for episode in range(1, EPISODES + 1):
        task = seeds[::8][episode % 50]
        name = f"{task.id}/{episode % 500}"  # not ever new ones: the addresses of people that are drawn are kept
        fresh = type(task)(name, task.kind, task.apis, task.turns, task.world)
        _, info = env.reset(options={"task": fresh} if episode % 5 == 0 else None)
        snapshots, ended = [], False
        while not ended:
            gold = good[info["task_id"].partition("/")[0]]
            action = draw.choice(gold) if draw.chance(0.4) else "Done." if draw.chance(0.5) else draw.choice(actions)
            *_, terminated, truncated, info = env.step(action)
            if steps % 7 == 0:
                snapshots.append((env.unwrapped.snapshot(), list(info["messages"])))
            ended, steps = terminated or truncated, steps + 1
        if episode in (EPISODES // 5, EPISODES):
            assert len(env.unwrapped._prepared) <= 60
            env.unwrapped._prepared.clear()  # it is bounded, but now half full and now full
            snapshots.clear()
            gc.collect()
            blocks[episode], resident[episode] = sys.getallocatedblocks(), process.memory_info().rss
    first, last = EPISODES // 5, EPISODES
    assert steps > 2 * EPISODES
    assert blocks[last] - blocks[first] < EPISODES // 10, "a leak of one object an episode would be 8,000 blocks"
    assert resident[last] - resident[first] < 16 * 2**20
