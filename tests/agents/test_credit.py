"""Credit by turn: each turn is compared with the group from there on; with one turn it is GRPO's."""

from __future__ import annotations

import numpy as np
import pytest

from rods_env import load_tasks
from rods_env.agents.credit import turn_advantages
from rods_env.agents.group_trainer import columns, completions_of
from rods_env.agents.rollout import Rollout

TASK = load_tasks("seeds")[0]


def rollout(turns, rewards, value=0.0, prompt=3, heard=2, said=2):
    """An episode whose messages have `said` tokens, with `heard` tokens between them."""
    mask = [0] * prompt
    for number in range(len(turns)):
        mask += [0] * heard * (number > 0) + [1] * said
    ids = list(range(10, 10 + len(mask)))
    return Rollout(
        TASK, 0, ids, mask, [0.0] * len(ids), prompt, value, value == 1, "completed", len(turns), [""] * len(turns),
        0.0, turns, rewards,
    )  # fmt: skip


def test_with_one_turn_it_is_the_advantage_of_grpo():
    returns = [1.0, 0.0, 0.0, 1.0, 0.0]
    group = [rollout([0, 0], [0.0, r], r) for r in returns]
    wanted = (np.array(returns) - np.mean(returns)) / (np.std(returns, ddof=1) + 1e-4)
    for one, advantages, a in zip(group, turn_advantages(group, 5), wanted, strict=True):
        assert advantages == pytest.approx([a * sampled for sampled in one.mask])


def test_what_came_before_a_turn_is_no_merit_of_it():
    passed_then_failed = rollout([0, 1], [0.5, 0.0], 0.5)
    failed_then_passed = rollout([0, 1], [0.0, 0.5], 0.5)  # both return 0.5: to GRPO they are alike
    first, second = turn_advantages([passed_then_failed, failed_then_passed], 2, scaled=False)
    assert first == [0, 0, 0, 0, 0, 0, 0, -0.25, -0.25]
    assert second == [0, 0, 0, 0, 0, 0, 0, 0.25, 0.25]


def test_who_did_not_reach_a_turn_is_not_in_its_baseline_and_no_evidence_is_left_out():
    group = [
        rollout([0, 1], [0.5, 0.5], 1.0), rollout([0, 1], [0.5, 0.0], 0.5), rollout([0], [0.0], 0.0),
        rollout([0, 1], [0.5, 0.5], None),
    ]  # fmt: skip
    found = turn_advantages(group, 4, scaled=False)
    assert found[0][3:] == [0.5, 0.5, 0, 0, 0.25, 0.25]
    assert found[1][3:] == [0, 0, 0, 0, -0.25, -0.25]
    assert found[2][3:] == [-0.5, -0.5]
    assert not any(found[3])


def test_groups_are_compared_with_themselves_only():
    easy, hard = [rollout([0], [1.0], 1.0)] * 2, [rollout([0], [0.0], 0.0)] * 2
    assert not np.any(np.concatenate(turn_advantages([*easy, *hard], 2)))


def test_advantages_stand_where_the_completions_of_the_trainer_do():
    group = [rollout([0, 1], [0.5, 0.0], 0.5, prompt=3), rollout([0], [0.0], 0.0, prompt=5)]
    made = columns(group, 0)
    cut = completions_of(group, turn_advantages(group, 2))
    for advantages, mask in zip(cut, made["env_mask"], strict=True):
        assert len(advantages) == len(mask)
        assert all(a == 0 for a, sampled in zip(advantages, mask, strict=True) if not sampled)
        assert any(advantages)
