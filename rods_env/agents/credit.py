"""Which tokens of an episode get the credit: all alike, as in GRPO, or those of a turn for what came from it on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from rods_env.agents.rollout import Rollout

_SMALL = 1e-4  # what TRL adds to a standard deviation


def turn_advantages(rollouts: Sequence[Rollout], group_size: int, *, scaled: bool = True) -> list[list[float]]:
    """An advantage for each token of each rollout, turn by turn.

    The tokens of turn k get A = (R - mean R) / (std R + 1e-4), where R is the sum of rewards from turn k on; mean and
    standard deviation (of a sample) are over those of the group who said something in turn k. What happened before a
    turn is no merit of it, and what the group agrees on from there on is no signal. With one turn it is GRPO's.

    Args:
        rollouts: groups of `group_size`, one behind the other.
        group_size: members of a group.
        scaled: whether to divide by the standard deviation.

    Returns:
        For each rollout a number for each of its ids, 0 on those that were not sampled and for episodes without a
        return.
    """
    found: list[list[float]] = []
    for at in range(0, len(rollouts), group_size):
        group = rollouts[at : at + group_size]
        ahead = [_ahead(one) if one.value is not None else {} for one in group]
        seen: dict[int, list[float]] = defaultdict(list)
        for values in ahead:
            for turn, value in values.items():
                seen[turn].append(value)
        for one, values in zip(group, ahead, strict=True):
            by_turn = {}
            for turn, value in values.items():
                others = seen[turn]
                spread = float(np.std(others, ddof=1)) if len(others) > 1 else 0.0
                by_turn[turn] = (value - float(np.mean(others))) / (spread + _SMALL if scaled else 1.0)
            found.append(_by_token(one, by_turn))
    return found


def _ahead(rollout: Rollout) -> dict[int, float]:
    """For each turn in which something was said: the sum of rewards from it on."""
    return {
        turn: sum(r for t, r in zip(rollout.turns, rollout.rewards, strict=True) if t >= turn) for turn in rollout.turns
    }


def _by_token(rollout: Rollout, by_turn: dict[int, float]) -> list[float]:
    """Messages are the runs of sampled ids: between two of them something is always heard."""
    found, message, before = [], -1, 0
    for sampled in rollout.mask:
        message += sampled and not before
        before = sampled
        found.append(by_turn.get(rollout.turns[message], 0.0) if sampled else 0.0)
    return found
