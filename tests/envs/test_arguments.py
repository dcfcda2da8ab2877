"""What the arguments of `ToolUseEnv` and the options of `reset` do, and what they refuse."""

from __future__ import annotations

import gymnasium as gym
import pytest

from rods_env.apis.registry import APIS, TOOLS
from rods_env.envs import tool_use
from rods_env.envs.calls import write_calls
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.errors import RodsError
from rods_env.tasks.task import save_tasks

STYLES = ("hermes", "json", "python")


def test_tasks_as_list_path_and_name(seeds, tmp_path):
    path = tmp_path / "some.jsonl.gz"
    save_tasks(seeds[:3], path)
    for given in (path, str(path), seeds[:3], tuple(seeds[:3])):
        assert ToolUseEnv(tasks=given).tasks == seeds[:3]
    assert ToolUseEnv(tasks="seeds").tasks == seeds


def test_apis_keep_tasks_that_need_no_other(seeds):
    env = ToolUseEnv(tasks=seeds, apis=["mail", "shop"])
    assert env.tasks == [task for task in seeds if set(task.apis) <= {"shop", "mail"}]
    assert {api for task in env.tasks for api in task.apis} == {"shop", "mail"}
    assert len(env.tasks) < len(seeds)


def test_distractors_are_offered_and_do_not_spoil_the_task(seeds, play):
    tasks = [task for task in seeds if len(task.apis) <= 2][::20]
    env = ToolUseEnv(tasks=tasks, distractor_apis=list(APIS))
    again = ToolUseEnv(tasks=tasks, distractor_apis=list(APIS))
    for index, task in enumerate(tasks):
        _, info = env.reset(options={"task": index})
        withheld = sum(len(turn.adds) for turn in task.turns[1:])
        assert len(info["tools"]) == len(TOOLS) - withheld
        assert info["task_id"] == task.id
        assert env.task.turns == task.turns
        again.reset(options={"task": index})
        assert env.world == again.world
        assert env.world != task.world
        assert play.oracle(env, options={"task": index})[0] == 1.0
    extra = next(name for name, tool in TOOLS.items() if tool.api.NAME not in tasks[0].apis and tool.params)
    env.reset(options={"task": 0})
    assert "There is no tool" not in env.step(write_calls([(extra, {})]))[0]


def test_distractors_of_a_stream_of_tasks_do_not_pile_up_nor_mix_up(seeds, monkeypatch):
    monkeypatch.setattr(tool_use, "_PREPARED", 5)
    env = ToolUseEnv(tasks=seeds[:20], distractor_apis=["fleet"])
    for index in range(20):
        env.reset(options={"task": index})
    assert 1 <= len(env._prepared) <= 5
    one = seeds[0]
    twin = type(one)(one.id, one.kind, one.apis, seeds[1].turns, seeds[1].world)  # ids are hashes: they can be equal
    env.reset(options={"task": one})
    env.reset(options={"task": twin})
    assert env.task.turns == twin.turns


@pytest.mark.parametrize("style", STYLES)
def test_every_format_works_and_the_others_are_refused(style, seeds, play, story):
    """Row 16: calls in another format are an error, not silence."""
    env = ToolUseEnv(tasks=seeds, call_format=style)
    for index in range(0, 400, 23):
        assert play.oracle(env, options={"task": index})[0] == 1.0
    for other in STYLES:
        env = story.env([story.order], call_format=style)
        obs, *_, info = env.step(write_calls([(story.order.tool, story.order.arguments)], other))
        assert info["error"] == (other != style)
        assert (env.world is story.world) == (other != style)
        assert info["closed_by"] is None
        assert (other == style or "Expected" in obs)
    anyhow = story.env([story.order] * 3)
    for other in STYLES:
        assert not anyhow.step(write_calls([(story.order.tool, story.order.arguments)], other))[4]["error"]


WRONG = [
    ({"tasks": "nope"}, "nope"), ({"tasks": 5}, "5"), ({"tasks": None}, "None"), ({"tasks": ["seeds"]}, "seeds"),
    ({"tasks": []}, "none"), ({"apis": ["shop", "nope"]}, "nope"), ({"apis": "shop"}, "'shop'"), ({"apis": 5}, "5"),
    ({"apis": []}, r"\[\]"),
    ({"distractor_apis": ["nope"]}, "nope"), ({"distractor_apis": "shop"}, "'shop'"), ({"distractor_apis": 3}, "3"),
    ({"call_format": "xml"}, "'xml'"), ({"call_format": None}, "None"), ({"attempts_per_turn": 0}, "0"),
    ({"attempts_per_turn": True}, "True"), ({"max_steps": 1.5}, "1.5"), ({"max_steps": -1}, "-1"),
    ({"max_steps": "9"}, "'9'"), ({"stop_at_failed_turn": "yes"}, "'yes'"),
    ({"refrain_credit": "never"}, "'never'"), ({"render_mode": "human"}, "'human'"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "got"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_wrong_arguments_say_what_was_expected_and_what_came(wrong, got, story):
    with pytest.raises(RodsError, match=got) as caught:
        ToolUseEnv(**{"tasks": [story.task([story.order])], **wrong})
    assert any(word in str(caught.value) for word in ("must be", "expected", "registered ones are"))


def test_arguments_go_through_make(story):
    env = gym.make("ToolUse-RODS-v0", tasks=[story.task([story.order])], max_steps=1, call_format="python")
    env.reset(seed=0)
    assert env.step("[list_orders(customer_id='x')]")[3] is True
    with pytest.raises(RodsError, match="call_format"):
        gym.make("ToolUse-RODS-v0", tasks=[story.task([story.order])], call_format="xml")


def test_reset_chooses_the_task(seeds, story):
    env = ToolUseEnv(tasks=seeds[:10])
    mine = story.task([story.order])
    for wanted, task in ((3, seeds[3]), (-1, seeds[9]), (seeds[4].id, seeds[4]), (seeds[5], seeds[5]), (mine, mine)):
        message, info = env.reset(options={"task": wanted})
        assert env.task == task
        assert info["task_id"] == task.id
        assert message == task.turns[0].message
    env.reset(seed=1)
    drawn = env.task
    env.reset(seed=1, options={})
    assert env.task is drawn
    env.reset(seed=1, options={"task": None})
    assert env.task is drawn
    for wrong in (10, -11, "nope", 1.5, True, b"x", ("a",)):
        with pytest.raises(RodsError, match="expected a Task, a task id or an index below 10; got"):
            env.reset(options={"task": wrong})
    with pytest.raises(RodsError, match="unknown option 'world'"):
        env.reset(options={"world": 1})
