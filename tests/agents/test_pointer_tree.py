"""`Forest`: its states are those of environments played from the beginning, however they were reached."""

from __future__ import annotations

import numpy as np
import pytest

from rods_env.agents.pointer_play import oracle
from rods_env.agents.pointer_tree import Forest
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.errors import RodsError
from rods_env.wrappers import DiscreteActions


def assert_is_state_after(node, task, actions):
    env = DiscreteActions(ToolUseEnv(tasks=[task], max_steps=16, attempts_per_turn=4))
    observation, info = env.reset(options={"task": task})
    reward = 0.0
    for action in actions:
        observation, reward, _, _, info = env.step(action)
    n = int(info["action_mask"].sum())
    assert len(node.tool) == len(node.known) == len(node.made) == n
    for name, key in (("tool", "tool"), ("known", "arguments"), ("made", "made")):
        np.testing.assert_array_equal(getattr(node, name), observation[key][:n])
    for name in ("words", "called", "state"):
        np.testing.assert_array_equal(getattr(node, name), observation[name])
    assert (node.turn, node.progress, node.ended) == (info["turn"], info["progress"], info["termination"])
    assert node.paid == reward


@pytest.mark.parametrize("place", range(0, 400, 40))
def test_states_are_those_of_an_episode(seeds, place):
    rng, forest, task = np.random.default_rng(place), Forest(), seeds[place]
    root = forest.root(task)
    known = [(root, ())]
    for round_ in range(25):
        node, path = known[rng.integers(len(known))]  # also ones at which no environment stands any more
        if node.ended is not None:
            continue
        actions = rng.integers(len(node.tool), size=1 + rng.integers(3)).tolist()
        children = forest.grow(node, actions)
        for action, child in zip(actions, children, strict=True):
            assert child is node.children[action]
            assert_is_state_after(child, task, (*path, action))
            known.append((child, (*path, action)))
        if round_ % 6 == 5:
            forest.leave()
    assert len(known) > 15
    for node, path in known:
        assert_is_state_after(node, task, path)


def test_what_was_visited_is_kept(seeds):
    forest = Forest(keep=2)
    first = forest.root(seeds[0])
    child = forest.child(first, 0)
    assert forest.root(seeds[0]) is first
    assert first.children == {0: child}
    assert forest.child(first, 0) is child
    forest.root(seeds[1])
    forest.root(seeds[0])
    forest.root(seeds[2])  # the tree of seeds[1] was asked for longest ago
    assert forest.root(seeds[0]) is first
    assert forest.states == 4
    forest.clear()
    assert forest.states == 0
    assert forest.root(seeds[0]) is not first


def test_words_of_a_turn_are_held_once(seeds):
    forest = Forest()
    root = forest.root(seeds[0])
    assert forest.child(root, 1).words is root.words


def test_an_action_that_is_none(seeds):
    forest = Forest()
    root = forest.root(seeds[0])
    with pytest.raises(RodsError, match=f"an action below {len(root.tool)} .*; got {len(root.tool)}"):
        forest.child(root, len(root.tool))
    last = oracle(forest, seeds[0]).nodes[-1]
    with pytest.raises(RodsError, match="of an episode that runs; got 0"):
        forest.child(last, 0)


def test_the_oracle_solves_every_task(seeds):
    forest = Forest(max_steps=40)
    for task in seeds[::8]:
        episode = oracle(forest, task)
        assert episode.success
        assert episode.progress == 1.0
        assert len(episode.actions) == len(task.calls) + len(task.turns) == len(episode.nodes) - 1


def test_the_oracle_goes_along_a_tree_that_was_visited_before(seeds):
    forest = Forest(max_steps=40)
    first = oracle(forest, seeds[8])
    assert oracle(forest, seeds[8]).nodes == first.nodes
