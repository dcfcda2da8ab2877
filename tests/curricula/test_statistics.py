"""Statistics of groups, and the figures of a run, against plain computation."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods_env.curricula.pool import Member
from rods_env.curricula.statistics import Detector, Statistics, group_of, phi
from rods_env.errors import RodsError

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=20)
FIFTHS = st.lists(st.integers(0, 5).map(lambda k: k / 5), min_size=2, max_size=16)


# --- one group ---


@given(SHARES | FIFTHS)
def test_mean_and_variance_are_numpys(returns):
    mean, variance, agrees = group_of(returns)
    assert mean == pytest.approx(np.mean(returns), abs=1e-12)
    assert variance == pytest.approx(np.var(returns), abs=1e-12)
    assert agrees == (max(returns) - min(returns) <= 1e-9)
    assert variance >= 0
    assert not agrees or variance == 0


@given(FIFTHS, st.randoms(use_true_random=False))
def test_the_order_of_returns_does_not_matter(returns, random):
    assert group_of(random.sample(returns, len(returns))) == group_of(returns)


def test_sums_of_thirds_agree_with_each_other():
    assert group_of([1 / 3, 1 - 1 / 3 - 1 / 3, 0.1 + 0.2 + 0.1 / 3])[2]
    assert not group_of([0.3, 0.3 + 1e-8])[2]


@pytest.mark.parametrize("values", [np.array([0.0, 0.5]), np.float32([0.0, 0.5]), (0, 0.5), [False, 0.5]])
def test_any_sequence_of_numbers_will_do(values):
    mean, variance, _ = group_of(values)
    assert (mean, variance) == (0.25, pytest.approx(0.0625))
    assert type(mean) is float


@pytest.mark.parametrize("where", range(3))
@pytest.mark.parametrize("wrong", [-1e-9, 1.000001, math.nan, math.inf, -math.inf])
def test_a_return_out_of_range_is_named(where, wrong):
    returns = [0.0, 0.5, 1.0]
    returns[where] = wrong
    with pytest.raises(RodsError, match=rf"\[0, 1\]; got {wrong!r}"):
        group_of(returns)


def test_phi_is_the_papers():
    assert [phi(m) for m in (0, 0.25, 0.5, 1)] == [0, 0.75, 1, 0]


# --- the detector ---


def seen(detector, groups, member=None):
    member = member or Member.__new__(Member)
    member.load_state_dict(())
    for returns in groups:
        detector.see(member, detector.judge(returns))
    return member


@given(st.lists(FIFTHS, min_size=1, max_size=6), st.lists(FIFTHS, max_size=6), st.floats(0, 1), st.floats(0.1, 3))
def test_estimates_are_discounted_and_shrunken(groups, others, discount, shrink):
    """v̂ = (Σ w s² + n0·v̄) / (Σ w + n0), weights γ^age, v̄ over the groups of all tasks; m̂ and d̂ likewise."""
    detector = Detector(discount=discount, shrink=shrink)
    seen(detector, others)
    member = seen(detector, groups)
    weights = [discount**age for age in range(len(groups))][::-1]
    variances = [np.var(g) if max(g) != min(g) else 0.0 for g in groups]
    hits = [max(g) - min(g) > 1e-9 for g in groups]
    every = [*others, *groups]
    pooled = np.mean([np.var(g) if max(g) != min(g) else 0.0 for g in every])
    pooled_hits = np.mean([max(g) - min(g) > 1e-9 for g in every])
    whole = sum(weights) + shrink
    assert detector.variance(member) == pytest.approx((np.dot(weights, variances) + shrink * pooled) / whole, abs=1e-9)
    assert detector.hits(member) == pytest.approx((np.dot(weights, hits) + shrink * pooled_hits) / whole, abs=1e-9)
    assert detector.mean(member) == pytest.approx(
        np.dot(weights, [np.mean(g) for g in groups]) / sum(weights), abs=1e-9
    )
    assert member.visits == len(groups)
    assert member.mean == pytest.approx(np.mean(groups[-1]))
    assert member.on_frontier == hits[-1]


def test_what_was_never_seen_has_the_estimate_of_all():
    detector = Detector()
    assert detector.variance(seen(detector, [])) == 0
    seen(detector, [[0, 1], [1, 1]])
    never = seen(detector, [])
    assert detector.variance(never) == pytest.approx(0.125)
    assert detector.hits(never) == pytest.approx(0.5)
    assert detector.mean(never) == 0


def test_how_often_in_a_row_a_task_had_no_variance():
    member = seen(Detector(), [[0, 1]])
    assert member.agreed == 0
    for returns, agreed in (([0.5, 0.5], 1), ([0, 0], 2), ([0, 1], 0), ([1, 1], 1)):
        detector = Detector()
        detector.see(member, detector.judge(returns))
        assert member.agreed == agreed


@pytest.mark.parametrize(
    ("returns", "variance", "mean"),
    [([0.5, 0.5], False, True), ([0.0, 0.2], True, False), ([0.2, 0.2], False, True), ([0.8, 1.0], True, False),
     ([0.85, 0.85], False, True), ([1.0, 1.0], False, False), ([0.0, 1.0], True, True)],
)  # fmt: skip
def test_the_two_signals(returns, variance, mean):
    """A group that agrees on a middling mean is where the paper's rule errs."""
    assert seen(Detector("variance"), [returns]).on_frontier == variance
    assert seen(Detector("mean"), [returns]).on_frontier == mean


def test_a_binary_reward_counts_whole_successes_only():
    binary = Detector(reward="binary")
    assert binary.judge([0.75, 0.5, 0.25, 0.0]) == (0.0, 0.0, True)
    assert binary.judge([1.0, 0.5, 1 - 1e-12, 0.0]) == (0.5, 0.25, False)
    assert seen(binary, [[0.9, 0.8]]).on_frontier is False


# --- the figures of a run ---


class Played(NamedTuple):
    """What `Statistics.add` takes."""

    root: int
    mean: float
    agrees: bool
    believed: bool
    calls: int
    turns: int
    first: bool


def plain(groups):
    """The figures, computed in the plainest way."""
    n = max(len(groups), 1)
    equal = [g for g in groups if g.agrees]
    firsts = [g for g in groups if g.first]
    return {
        "zero_variance_share": len(equal) / n,
        "all_zero_share": sum(g.mean < 0.01 for g in equal) / n,
        "all_one_share": sum(g.mean > 0.99 for g in equal) / n,
        "settled_share": sum(0.01 < g.mean < 0.99 for g in equal) / n,
        "mean_return": sum(g.mean for g in groups) / n,
        "believed_share": sum(g.believed for g in groups) / n,
        "calls_mean": sum(g.calls for g in groups) / n,
        "turns_mean": sum(g.turns for g in groups) / n,
        "injected_variance_share": sum(not g.agrees for g in firsts) / max(len(firsts), 1),
        "distinct_seeds": len({g.root for g in groups if g.root >= 0}),
    }


PLAYED = st.builds(
    Played, st.integers(-1, 4), st.integers(0, 5).map(lambda k: k / 5), st.booleans(), st.booleans(),
    st.integers(1, 9), st.integers(1, 5), st.booleans(),
)  # fmt: skip


@given(st.lists(PLAYED, max_size=60), st.integers(1, 20), st.integers(0, 60))
def test_figures_of_the_window_and_of_the_run(groups, window, cut):
    statistics = Statistics(window, 5)
    for k, played in enumerate(groups):
        if k == cut:  # a state in the middle changes nothing
            state = json.loads(json.dumps(statistics.state_dict()))
            statistics = Statistics(window, 5)
            statistics.load_state_dict(state)
        statistics.add(*played)
    metrics = statistics.metrics()
    for key, value in plain(groups[-window:]).items():
        assert metrics[key] == pytest.approx(value), key
    for key, value in plain(groups).items():
        assert metrics[f"{key}_overall"] == pytest.approx(value), key
    assert metrics["groups_total"] == len(groups)
    assert statistics.zero_variance == sum(played.agrees for played in groups)


def test_the_histogram_of_phi():
    statistics = Statistics(10, 1)
    for mean in (0.0, 1.0, 0.5, 0.02):  # φ = 0, 0, 1, 0.0784
        statistics.add(0, mean, False, False, 1, 1, False)
    histogram = [statistics.metrics()[f"phi_{k:02d}"] for k in range(10)]
    assert histogram == [0.75, *[0.0] * 8, 0.25]
