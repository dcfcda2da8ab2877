"""What a policy may write: whatever is wrong is an error that it sees, and nothing else happens."""

from __future__ import annotations

import json

import msgspec
import pytest

from rods_env.apis.registry import TABLES, TOOLS, fields_of
from rods_env.envs.calls import write_calls
from rods_env.envs.tool_use import ToolUseEnv


def errors_of(story):
    good = {"customer_id": story.customer.id}
    yield from (
        "<tool_call>", "<tool_call>{}</tool_call>", '<tool_call>{"name": "list_orders", "arguments": {"a": "x"}',
        "[list_orders(", "[list_orders('x')]", '[{"name": "list_orders"}]', "<tool_cal>list_orders</tool_cal>",
        "\ud800[f(x=1)]", "x" * 100_001,
    )  # fmt: skip
    for arguments in (
        {}, {"customer_id": 5}, {"customer_id": None}, {**good, "limit": 3}, {"customer": "x"}, {"customer_id": ["x"]},
        {"customer_id": "cus_nobdy"}, {"customer_id": ""}, {"customer_id": "\x00"},
    ):  # fmt: skip
        yield write_calls([("list_orders", arguments)])
    yield write_calls([("place_order", {**story.order.arguments, "quantity": 0})])
    yield write_calls([("place_order", {**story.order.arguments, "quantity": "2"})])
    for name in ("", "list_order", "LIST_ORDERS", "list_orders ", "book_flight", "shop.list_orders", "é" * 99):
        yield write_calls([(name, good)])


def test_what_is_wrong_is_an_error_that_the_policy_sees(story, play):
    """Row 16: nothing is dropped, guessed or half executed; one attempt is spent, and the world is as before."""
    count = 0
    for action in errors_of(story):
        env = story.env([story.order], [story.review])
        obs, reward, terminated, truncated, info = env.step(action)
        error = msgspec.json.decode(obs)
        assert list(error) == ["error"], action
        assert len(error["error"]) > 15, action
        assert env.world is story.world
        assert (info["attempts_left"], info["error"], info["closed_by"], info["turn"]) == (9, True, None, 0), action
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert info["messages"][-1]["content"] == obs
        assert info["messages"][-1]["role"] == "tool"
        assert (play.say(env, story.order)[1], play.say(env)[1]) == (0, 0.5), "the turn can still be passed"
        count += 1
    assert count > 25


def test_an_unknown_tool_with_a_similar_name_is_pointed_out_and_not_run(story):
    env = story.env([story.order])
    obs, *_ = env.step(write_calls([("place_ordr", story.order.arguments)]))
    assert "Did you mean place_order?" in obs
    assert env.world is story.world


def test_what_stands_before_the_end_of_thinking_is_kept_as_valid_text(story, play):
    for action in ("\ud800</think>Done.", "\ud800</think>" + write_calls([("list_orders", story.read.arguments)])):
        env = story.env([story.order], [story.read])
        *_, info = env.step(action)
        assert env.observation_space.contains(next(m["content"] for m in info["messages"] if m["role"] == "assistant"))
        assert play.state(env)


EDGES = {
    "str": ("", "\x00", "9999-12-31", "0001-01-01", "2026-02-30", "2026-13-45", "２０２６-０１-０１", "٢٠٢٦-٠١-٠١",
            "2026-01-01\n", "23:59", "١٠:٠٠", "10:00\n", "a@b", "\n@x", "/..", "ß" * 3000),
    "int": (0, -1, 1, 5, 99, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1e300, 1e18, 3.0),
    "float": (0, -1, 5e-324, 1e-9, 0.1, 25, 1e16, 1e308, 1.7976931348623157e308, 2**70, 10**30),
}  # fmt: skip


PLAIN = {"date": ("2026-12-24",), "time": ("10:00",), "email": ("a@example.com",), "amount": (5.0,), "city": ("Rome",)}


@pytest.mark.parametrize("name", list(TOOLS))
def test_extreme_values_are_refused_or_done_and_never_crash(name, seeds):
    """Every tool with ids that exist, and every other argument at its edges."""
    tool = TOOLS[name]
    task = next(task for task in seeds if tool.api.NAME in task.apis and task.kind != "missing_function")
    env = ToolUseEnv(tasks=[task], attempts_per_turn=10**6, max_steps=10**6)
    env.reset(seed=0)
    start, plain = env.snapshot(), [port for port in tool.params if not port.ref]
    tried = 0
    for port in plain:
        for value in EDGES[port.type]:
            for attempt in range(6):
                arguments = {p.name: value if p is port else usual(p, task, attempt) for p in tool.params}
                env.restore(start)
                obs, *_ = env.step(f'<tool_call>{{"name": "{name}", "arguments": {json.dumps(arguments)}}}</tool_call>')
                assert "null" not in obs, "JSON has no infinity"
                assert env.world == env.world, "nothing is NaN"
                assert env.observation_space.contains(obs)
                tried += 1
    assert tried >= 60 * len(plain)


def usual(port, task, attempt):
    """A value that the tool may well take: an id of the task's world, or a plain value."""
    if not port.ref:
        return (port.choices or port.words or PLAIN.get(port.kind, ("x",)))[0]
    ids = [
        key
        for name in sorted(task.world.tables)
        for key in sorted(task.world.tables[name])
        if fields_of(TABLES[name].record)[0].ref == port.ref
    ]
    return ids[attempt % len(ids)] if ids else "none"
