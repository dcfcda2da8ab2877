"""`render`: the conversation as text, the graph of the task as a picture."""

from __future__ import annotations

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from rods_env.envs.rendering import done_calls, text


@pytest.fixture
def begun(story):
    def begin(mode, *turns, **options):
        env = gym.make("ToolUse-RODS-v0", tasks=[story.task(*turns)], render_mode=mode, **options)
        env.reset(seed=0)
        return env

    return begin


def test_ansi_shows_the_conversation_and_what_is_done(begun, story, play):
    env = begun("ansi", [story.read, story.order], [story.review])
    start = env.render()
    assert "user: Message 1, bitte schön." in start
    assert "turn 1: open" in start
    assert "[ ] list_orders" in start
    assert "[ ] place_order" in start
    assert "system" not in start
    assert "Message 2" not in start, "what the user will ask is not shown before"
    assert "write_review" not in start
    play.say(env, story.read)
    read = env.render()
    assert "[x] list_orders" in read
    assert "[ ] place_order" in read
    assert "result: [" in read
    assert "agent: <tool_call>" in read
    play.say(env)
    failed = env.render()
    assert "turn 1: failed" in failed
    assert "turn 2: open" in failed
    assert "user: Message 2" in failed
    play.say(env, story.order, story.review)
    play.say(env)
    ended = env.render()
    assert "turn 2: passed" in ended
    assert "progress 0.50" in ended
    assert ended.count("[x]") == 3
    assert env.unwrapped.task.id in ended


def test_ansi_cuts_long_messages_and_marks_what_only_finds_something(begun, story):
    env = begun("ansi", [msgspec.structs.replace(story.read, spoken=False), story.order])
    env.step("<tool_call>" + "x" * 5000)
    shown = env.render()
    assert "list_orders  (to find something)" in shown
    assert "x …" in shown
    assert len(shown) < 2500


def test_ansi_of_every_kind_of_task(seeds, play):
    env = gym.make("ToolUse-RODS-v0", tasks=seeds, render_mode="ansi")
    for index in range(0, 400, 20):
        play.oracle(env, options={"task": index})
        task = env.unwrapped.task
        shown = env.render()
        assert shown.count(": passed") == len(task.turns)
        assert shown.count("[x]") == len(task.calls)
        assert "[ ]" not in shown
        assert all(f"user: {turn.message[:200]}" in shown for turn in task.turns)


def test_a_call_counts_as_done_by_its_very_result(story, play):
    env = story.env([story.read, story.order])
    assert done_calls(env.snapshot()) == set()
    play.say(env, story.fails, story.quote)
    assert done_calls(env.snapshot()) == set()
    play.say(env, story.order)
    assert done_calls(env.snapshot()) == {1}
    assert "[x] place_order" in text(env.snapshot())
    assert "[ ] list_orders" in text(env.snapshot())


def test_pictures_have_the_declared_shape_and_change_with_what_is_done(begun, story, play):
    pytest.importorskip("matplotlib")
    env = begun("rgb_array", [story.read, story.order], [], [story.review])
    before = env.render()
    assert before.dtype == np.uint8
    assert before.ndim == 3
    assert before.shape[2] == 3
    assert min(before.shape[:2]) > 200
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 20, "a blank picture has one colour"
    assert (env.render() == before).all(), "equal states give equal pictures"
    play.say(env, story.fails)
    assert (env.render() == before).all()
    play.say(env, story.order)
    after = env.render()
    assert after.shape == before.shape
    assert (after != before).any()
    before[:] = 0
    assert (env.render() == after).all(), "the array is the caller's own"


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_rendering_changes_nothing_and_works_after_the_end(begun, story, play, mode):
    env = begun(mode, [story.order], max_steps=1)
    state = play.state(env)
    env.render()
    assert play.state(env) == state
    play.say(env)
    assert env.render() is not None
    with pytest.raises(ResetNeeded):
        play.say(env)


def test_rendering_before_reset_and_without_a_mode(story):
    with pytest.raises(ResetNeeded):
        gym.make("ToolUse-RODS-v0", tasks=[story.task([story.order])], render_mode="ansi").unwrapped.render()
    env = story.env([story.order])
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
