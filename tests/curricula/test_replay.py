"""Prioritized replay against its formula."""

from __future__ import annotations

from collections import Counter

import pytest

from rods_env.curricula import PrioritizedReplay
from rods_env.errors import RodsError


def played(few, returns, groups=6000, **settings):
    curriculum, counts = PrioritizedReplay(few, seed=1, **settings), Counter()
    for number in range(groups):
        task = curriculum.next_group()
        if number >= len(few):
            counts[task.id] += 1
        curriculum.observe(task.id, returns(task))
    return counts


def test_the_highest_score_is_played_most(few):
    """β = 0.1 and ρ = 0.1: nine of ten groups go to the first rank."""
    best = few[3].id
    counts = played(few, lambda task: [0.0, 1.0] if task.id == best else [0.5, 0.5])
    assert counts[best] / 6000 == pytest.approx(0.9, abs=0.02)
    assert set(counts) == {task.id for task in few}  # the stale tenth reaches all


def test_the_two_scores(few):
    """A group that agrees on 1/2: no variance, and the greatest φ."""

    def returns(task):
        return [0.5, 0.5] if task.id == few[3].id else [0.8, 1.0]

    assert played(few, returns, score="phi").most_common(1)[0][0] == few[3].id
    assert played(few, returns, score="variance")[few[3].id] < 300


def test_staleness_alone_is_nearly_even(few):
    """ρ = 1: in proportion to the groups since a seed was played, so that none waits for long."""
    curriculum, last, longest = PrioritizedReplay(few, seed=1, rho=1.0), {}, 0
    counts = Counter()
    for number in range(4000):
        task = curriculum.next_group()
        longest = max(longest, number - last.get(task.id, number))
        last[task.id] = number
        counts[task.id] += 1
        curriculum.observe(task.id, [0.0, 1.0])
    assert max(counts.values()) < 1.3 * min(counts.values())
    assert longest < 8 * len(few)


def test_staleness_is_drawn_in_proportion(few):
    """Of the first draw after the first round: the seed played k groups ago comes with probability k / Σk."""
    counts = Counter()
    for seed in range(3000):
        curriculum = PrioritizedReplay(few[:4], seed=seed, rho=1.0)
        order = []
        for _ in range(4):
            order.append(curriculum.next_group().id)
            curriculum.observe(order[-1], [0.0, 1.0])
        counts[order.index(curriculum.next_group().id)] += 1
    for place, age in enumerate((4, 3, 2, 1)):
        assert counts[place] == pytest.approx(3000 * age / 10, abs=5 * (3000 * 0.1) ** 0.5)


def test_while_all_groups_are_open_any_seed_is_drawn(few):
    curriculum = PrioritizedReplay(few[:5], seed=0, rho=0.0)
    tasks = [curriculum.next_group().id for _ in range(50)]
    assert len(set(tasks[:5])) == 5
    assert len(set(tasks[5:])) == 5


@pytest.mark.parametrize("bad", [{"beta": 0}, {"beta": -1}, {"rho": 1.1}, {"rho": "x"}, {"score": "td"}])
def test_bad_settings(few, bad):
    with pytest.raises(RodsError, match=next(iter(bad))):
        PrioritizedReplay(few, **bad)
