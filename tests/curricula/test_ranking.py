"""Draws by rank, and the order in which parents are asked."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods_env.apis.draw import Draw
from rods_env.apis.shares import apportioned
from rods_env.benchmarks.curriculum import renamed
from rods_env.curricula.pool import Member
from rods_env.curricula.ranking import Ranking
from rods_env.curricula.selection import Selection, stratify

# --- ranks ---


CHANGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3) | st.none()), min_size=1, max_size=40)


@given(CHANGES, st.floats(0, 0.999))
def test_ranks_are_those_of_a_sorted_list(changes, unit):
    """By priority, then by who was set longest ago; None takes a place out."""
    ranking, known = Ranking(10, beta=0.5), {}
    for place, priority in changes:
        known.pop(place, None)
        if priority is None:
            ranking.remove(place)
        else:
            ranking.set(place, priority)
            known[place] = priority
    assert len(ranking) == len(known)
    if not known:
        return
    order = sorted(known, key=lambda place: -known[place])  # stable: who was set longest ago comes first
    weights = np.cumsum([(1 / rank) ** 2 for rank in range(1, len(order) + 1)])
    expected = order[int(np.searchsorted(weights, unit * weights[-1], side="right"))]
    assert ranking.find(unit) == expected
    other = Ranking(10, beta=0.5)
    other.load_state_dict(json.loads(json.dumps(ranking.state_dict())))
    assert other.find(unit) == expected
    assert other.state_dict() == ranking.state_dict()


def test_at_plrs_beta_the_first_rank_takes_nearly_all():
    ranking = Ranking(100, beta=0.1)
    for place in range(100):
        ranking.set(place, place)
    counts = Counter(ranking.find(unit) for unit in np.random.default_rng(0).random(10_000).tolist())
    assert counts[99] > 9980
    assert counts[99] + counts[98] >= 9_998


# --- quotas ---


@given(st.dictionaries(st.integers(), st.floats(0, 100), min_size=1, max_size=8), st.integers(0, 40))
def test_apportioned_numbers(weights, total):
    counts = apportioned(weights, total)
    whole = sum(weights.values())
    assert sum(counts.values()) == (total if whole else 0)
    for key, count in counts.items():
        assert not whole or abs(count - weights[key] / whole * total) < 1 + 1e-6


def test_largest_remainders():
    assert apportioned({"a": 160, "b": 80, "c": 80, "d": 80}, 16) == {"a": 7, "b": 3, "c": 3, "d": 3}
    assert apportioned({"a": 1, "b": 1, "c": 1}, 4) == {"a": 2, "b": 1, "c": 1}


# --- parents ---


@pytest.fixture
def candidates(seeds):
    """Seeds, and a variant of every third."""
    members = [Member(task, index) for index, task in enumerate(seeds[:60])]
    strata = stratify(members)
    made = [Member(renamed(m.task, f"v{m.index}", m.task.id), m.index, m) for m in members[::3]]
    return strata, members + made


def test_strata_are_of_like_seeds(candidates):
    strata, members = candidates
    assert sorted(member.index for stratum in strata for member in stratum) == list(range(60))
    for number, stratum in enumerate(strata):
        assert len({(m.task.kind, len(m.task.turns), m.task.profile.depth) for m in stratum}) == 1
        assert [(m.stratum, m.seat) for m in stratum] == [(number, seat) for seat in range(len(stratum))]
    assert members[60].stratum == members[0].stratum


@pytest.mark.parametrize("rule", ["uniform", "proportional", "ranked"])
def test_every_candidate_comes_once(candidates, rule):
    strata, members = candidates
    selection = Selection(rule, strata, lambda member: member.index % 7 / 7)
    ordered = list(selection.ordered(members, Draw(np.random.default_rng(0))))
    assert len(ordered) == len(members)
    assert {id(member) for member in ordered} == {id(member) for member in members}


def test_ranked_takes_the_highest_first(candidates):
    strata, members = candidates
    selection = Selection("ranked", strata, lambda member: member.index % 7)
    priorities = [m.index % 7 for m in selection.ordered(members, Draw(np.random.default_rng(0)))]
    assert priorities == sorted(priorities, reverse=True)


def firsts(selection, members, n=12_000):
    draw = Draw(np.random.default_rng(3))
    return Counter(next(iter(selection.ordered(members, draw))).index for _ in range(n))


def test_proportional_draws_by_priority(candidates):
    strata, members = candidates
    counts = firsts(Selection("proportional", strata, lambda member: float(member.index == 4) * 2 + 1), members[:10])
    assert counts[4] == pytest.approx(12_000 * 3 / 12, rel=0.1)
    assert counts[5] == pytest.approx(12_000 * 1 / 12, rel=0.2)


def test_uniform_draws_strata_by_their_seeds(candidates):
    """However many candidates a stratum has: what is made shall be distributed as the seeds are."""
    strata, _ = candidates
    big, small = sorted(strata, key=len)[-1], sorted(strata, key=len)[0]
    some = [big[0], *[Member(small[0].task, small[0].index, small[0]) for _ in range(9)]]
    counts = firsts(Selection("uniform", strata, lambda member: 1.0), some)
    share = len(big) / (len(big) + len(small))
    assert counts[big[0].index] / 12_000 == pytest.approx(share, abs=0.02)
