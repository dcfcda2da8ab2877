"""What the tests of BFCL share: tasks, an environment, gold calls played."""

from __future__ import annotations

import gymnasium as gym
import pytest

from rods_env.bfcl.tasks import bfcl_tasks
from rods_env.envs.calls import write_calls


@pytest.fixture(scope="module", name="tasks")
def all_tasks():
    return {task.id: task for task in bfcl_tasks()}


@pytest.fixture(name="env")
def new_env():
    return gym.make("ToolUse-BFCL-v0", split="all").unwrapped


def action(name, /, **arguments):
    return write_calls([(name, arguments)])


def play_gold(env, task, upto=None):
    """Plays the gold calls of the turns before `upto`; returns the last information."""
    _, info = env.reset(options={"task": task})
    for turn in task.turns[:upto]:
        for call in turn.calls:
            env.step(action(call.tool, **call.arguments))
        *_, info = env.step("Done.")
    return info
