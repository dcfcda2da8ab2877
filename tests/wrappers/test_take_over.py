"""`DiscreteActions.take_over`: an episode that forks goes on as if it had been played twice from its beginning."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from rods_env.envs.tool_use import ToolUseEnv
from rods_env.errors import RodsError
from rods_env.wrappers import DiscreteActions


def make(tasks, actions=256):
    return DiscreteActions(ToolUseEnv(tasks=tasks), actions)


def replayed(tasks, task, actions):
    """What a fresh environment returns at the end of these actions."""
    env = make(tasks)
    observation, info = env.reset(options={"task": task})
    for action in actions:
        observation, _, _, _, info = env.step(action)
    return observation, info


def assert_same(found, expected):
    (observation, info), (wanted, told) = found, expected
    for key in wanted:
        np.testing.assert_array_equal(observation[key], wanted[key])
    assert info["candidates_dropped"] == told["candidates_dropped"]
    assert list(info["messages"]) == list(told["messages"])
    assert info["progress"] == told["progress"]


@pytest.mark.parametrize("place", range(0, 400, 25))
def test_both_go_on_as_if_they_were_alone(seeds, place):
    rng = np.random.default_rng(place)
    task, one, other = seeds[place], make(seeds), make(seeds)
    _, info = one.reset(options={"task": task})
    paths = [[], []]
    forked = False
    for step in range(14):
        if step == place % 7:
            other.take_over(one)
            paths[1], forked = list(paths[0]), True
        for env, path in zip((one, other)[: 1 + forked], paths, strict=False):
            if env.unwrapped.snapshot().termination is None:
                action = int(rng.integers(np.count_nonzero(env.action_masks())))
                observation, _, _, _, info = env.step(action)
                path.append(action)
                assert_same((observation, info), replayed(seeds, task, path))
    assert len(paths[1]) > place % 7 or one.unwrapped.snapshot().termination
    assert forked


def test_what_cannot_be_taken_over(seeds):
    with pytest.raises(ResetNeeded, match="no episode"):
        make(seeds).take_over(make(seeds))
    with pytest.raises(RodsError, match="expected an environment of 256 actions; got 64"):
        make(seeds).take_over(make(seeds, 64))
