"""Statistics of the benchmark of curricula: against what is known by hand or by formula."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from curricula_fakes import cell_of, spec_of

from rods_env import RodsError
from rods_env.benchmarks.curricula.cells import packed
from rods_env.benchmarks.curricula.statistics import (
    Interval,
    Paired,
    along,
    area_under_curve,
    area_values,
    difference,
    final_values,
    first_reached,
    interquartile_mean,
    interval,
    median_reached,
    of_arm,
    performance_profile,
    probability_of_improvement,
    resampled,
    trapezoid_weights,
)
from rods_env.benchmarks.curricula.targets import aims, unfair, verdict

Z = 1.959964


def half(found: Interval) -> float:
    return (found.high - found.low) / 2


def normal(rng, n: int, mean: float, sd: float) -> np.ndarray:
    """A sample whose mean and standard deviation are exactly these."""
    x = rng.normal(size=n)
    return mean + sd * (x - x.mean()) / x.std()


# ---------------------------------------------------------------------- curves


def test_the_area_is_the_mean_height_of_the_line():
    assert area_under_curve([0, 10], [0.2, 0.4]) == pytest.approx(0.3)
    assert area_under_curve([0, 10, 40], [0.0, 0.3, 0.3]) == pytest.approx((1.5 + 9.0) / 40)
    assert area_under_curve([100, 110], [1.0, 1.0]) == 1.0
    assert area_under_curve([7], [0.25]) == 0.25
    assert area_under_curve([7, 7], [0.1, 0.25]) == 0.25


def test_the_area_of_a_cell_is_the_mean_of_the_areas_of_its_tasks():
    cell = cell_of(spec_of("rods"), points=5)
    curve = [point.success["unseen"] for point in cell.checkpoints]
    expected = area_under_curve([point.rollouts for point in cell.checkpoints], curve)
    assert area_values(cell, "unseen").mean() == pytest.approx(expected, abs=1e-6)
    assert final_values(cell, "unseen").mean() == pytest.approx(curve[-1], abs=1e-6)


def test_the_areas_of_tasks_are_summed_alike_on_every_processor():
    cell = cell_of(spec_of("dapo"), points=7, tasks=1003)
    at = (0, 10, 41, 115, 330, 777, 900)
    rng = np.random.default_rng(0)
    points = [
        msgspec.structs.replace(point, rollouts=rollouts, outcomes={"seen": packed(rng.random(1003) < 0.5)})
        for point, rollouts in zip(cell.checkpoints, at, strict=True)
    ]
    cell = msgspec.structs.replace(cell, checkpoints=points)
    weights = trapezoid_weights(at).tolist()
    curves = np.array([final_values(cell, "seen", place) for place in range(7)]).T.tolist()
    one_by_one = []
    for curve in curves:
        area = 0.0
        for weight, height in zip(weights, curve, strict=True):
            area += weight * height
        one_by_one.append(area)
    assert len(set(one_by_one)) > 64
    assert area_values(cell, "seen").tolist() == one_by_one  # to the bit


@pytest.mark.parametrize(
    ("heights", "place"),
    [
        ([0.1, 0.3, 0.2, 0.5], 0.5), ([0.2, 0.3], 0.0), ([0.4], 0.0), ([0.1, 0.2], 1.0), ([0.1, 0.19], None),
        ([0.1], None),
    ],
)  # fmt: skip
def test_a_target_is_first_reached_between_two_points(heights, place):
    found = first_reached(heights, 0.2)
    assert found == place if place is None else found == pytest.approx(place)


def test_rollouts_and_tasks_are_read_between_the_same_points():
    assert along([0, 100, 300], 1.25) == 150
    assert along([0, 100, 300], 0.0) == 0
    assert along([40], 0.0) == 40


def test_never_is_later_than_everything():
    assert median_reached([5.0, None, 3.0]) == 5.0
    assert median_reached([5.0, None, None]) is None
    assert median_reached([4.0, 2.0, None, None]) == 4.0
    assert median_reached([None]) is None


# ---------------------------------------------------------------------- over seeds


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end():
    assert interquartile_mean(np.array([100.0, 2, 3, -50])) == 2.5
    assert interquartile_mean(np.array([9.0, 1, 2, 3, 4])) == 3.0  # of five, one is cut at either end
    assert interquartile_mean(np.array([1.0, 2, 6])) == 3.0  # of three, none
    rows = np.array([[0.0, 1, 2, 3, 4, 5, 6, 99], [8.0, 8, 8, 8, 8, 8, 8, 8]])
    assert interquartile_mean(rows).tolist() == [3.5, 8.0]


def test_probability_of_improvement_counts_pairs_and_half_of_ties():
    assert probability_of_improvement([3, 1], [2, 2]) == 0.5
    assert probability_of_improvement([2, 2], [2, 2]) == 0.5
    assert probability_of_improvement([3, 2], [1, 2, 0]) == pytest.approx((3 + 2 + 0.5) / 6)


def test_a_profile_is_the_share_of_runs_above():
    assert performance_profile([0.2, 0.4], [0.1, 0.2, 0.3, 0.4]).tolist() == [1.0, 0.5, 0.5, 0.0]


# ---------------------------------------------------------------------- intervals


def test_one_seed_has_the_interval_of_its_tasks():
    values = np.arange(1000) < 300
    found = interval(Paired([values.astype(float)], False), resamples=20_000)
    assert found.value == pytest.approx(0.3)
    assert half(found) == pytest.approx(Z * math.sqrt(0.3 * 0.7 / 1000), rel=0.04)
    assert (found.low + found.high) / 2 == pytest.approx(0.3, abs=0.002)


def test_seeds_without_spread_of_tasks_have_the_interval_of_a_mean():
    means = normal(np.random.default_rng(3), 30, 0.05, 0.02)
    found = interval(Paired([np.full(40, mean) for mean in means], False), resamples=20_000)
    assert found.value == pytest.approx(0.05)
    assert half(found) == pytest.approx(Z * 0.02 / math.sqrt(30), rel=0.04)


@pytest.mark.parametrize("shared", [False, True])
def test_the_variances_of_seeds_and_of_tasks_add(shared):
    """On tasks of their own the luck of the tasks averages out over seeds; on the same tasks it does not."""
    rng = np.random.default_rng(5)
    means, tasks = normal(rng, 8, 0.1, 0.02), 200
    luck = normal(rng, tasks, 0.0, 0.5)
    found = interval(Paired([mean + luck for mean in means], shared), resamples=20_000)
    expected = 0.02**2 / 8 + 0.5**2 / tasks / (1 if shared else 8)
    assert half(found) == pytest.approx(Z * math.sqrt(expected), rel=0.04)


@pytest.mark.parametrize("distinct", ["few", "many"])
@pytest.mark.parametrize("shared", [False, True])
def test_resampling_is_the_plain_bootstrap(shared, distinct):
    """Beside a bootstrap that draws an index for every task of every sample."""
    rng = np.random.default_rng(8)
    values = np.repeat(rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.6, 0.3], size=(4, 4)), 15, axis=1)
    values += np.linspace(0, 0.3, 4)[:, None]
    if distinct == "many":
        values += rng.normal(0, 0.2, 60)
    ours = resampled(Paired(list(values), shared), 20_000).mean(axis=1)
    plain = []
    for _ in range(8000):
        seeds = rng.integers(4, size=4)
        tasks = rng.integers(60, size=60) if shared else rng.integers(60, size=(4, 60))
        plain.append(values[seeds[:, None], tasks].mean())
    assert ours.mean() == pytest.approx(np.mean(plain), abs=0.005)
    for level in (0.025, 0.25, 0.75, 0.975):
        assert np.quantile(ours, level) == pytest.approx(np.quantile(plain, level), abs=0.015)


def test_equal_seeds_give_equal_intervals_and_others_do_not():
    paired = of_arm([cell_of(spec_of("rods", seed)) for seed in range(4)], "seen", final_values)
    assert interval(paired) == interval(paired)
    assert interval(paired) != interval(paired, seed=1)


def test_the_interval_of_an_interquartile_mean_is_about_it():
    paired = Paired([np.full(10, mean) for mean in [0.1, 0.2, 0.21, 0.22, 0.9]], False)
    found = interval(paired, interquartile_mean)
    assert found.value == pytest.approx(0.21)
    assert found.low < found.value < found.high
    assert found.value < interval(paired).value  # which the outlier draws up


def test_an_arm_minus_itself_is_exactly_zero():
    cells = [cell_of(spec_of("rods", seed)) for seed in range(3)]
    assert interval(difference(cells, cells, "seen", final_values)) == Interval(0.0, 0.0, 0.0)


def test_intervals_of_arms_that_do_not_differ_hold_zero_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(150):
        values = [mean + rng.normal(0, 0.3, 30) for mean in rng.normal(0, 0.05, 20)]
        found = interval(Paired(values, False), resamples=500)
        held += found.low <= 0 <= found.high
    assert 0.87 <= held / 150 <= 0.99


def test_pairing_narrows_the_interval():
    """Both arms solve nearly the same tasks, and seeds differ more than arms do."""
    ours = [cell_of(spec_of("rods", seed), gain=0.2 + seed / 20) for seed in range(6)]
    theirs = [cell_of(spec_of("random", seed), gain=0.17 + seed / 20) for seed in range(6)]
    paired = interval(difference(ours, theirs, "seen", final_values))
    rows = [resampled(of_arm(arm, "seen", final_values), seed=k).mean(axis=1) for k, arm in enumerate((ours, theirs))]
    low, high = np.quantile(rows[0] - rows[1], [0.025, 0.975])
    assert paired.low > 0 > low
    assert half(paired) < (high - low) / 4


def test_only_the_seeds_of_both_arms_are_compared():
    ours = [cell_of(spec_of("rods", seed)) for seed in (0, 1, 2)]
    theirs = [cell_of(spec_of("fixed", seed)) for seed in (5, 2, 1)]
    found = difference(ours, theirs, "seen", final_values)
    expected = [ours[k].checkpoints[-1].success["seen"] - theirs[-k].checkpoints[-1].success["seen"] for k in (1, 2)]
    assert found.means.tolist() == pytest.approx(expected, abs=1e-6)
    with pytest.raises(RodsError, match="none"):
        difference(ours[:1], theirs, "seen", final_values)


def test_outcomes_on_other_tasks_are_not_paired():
    one = cell_of(spec_of("rods"), digests={"seen": "a", "unseen": "b"})
    other = cell_of(spec_of("fixed"), digests={"seen": "a", "unseen": "c"})
    assert difference([one], [other], "seen", final_values).shared
    with pytest.raises(RodsError, match="not tested on the same unseen tasks"):
        difference([one], [other], "unseen", final_values)
    with pytest.raises(RodsError, match="not tested on the same seen tasks"):
        difference([one], [cell_of(spec_of("fixed"), tasks=100)], "seen", final_values)


def test_tasks_are_shared_only_where_their_digests_say_so():
    def shared(*digests):
        cells = [cell_of(spec_of("rods", k), digests=d and {"seen": d}) for k, d in enumerate(digests)]
        return of_arm(cells, "seen", final_values).shared

    assert shared("a", "a")
    assert not shared("a", "b")
    assert not shared(None, None)


# ---------------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("low", "high", "wanted", "says"),
    [
        (0.01, 0.2, "above 0", "reached"), (0.0, 0.2, "above 0", "undecided"), (-0.1, 0.1, "above 0", "undecided"),
        (-0.1, 0.0, "above 0", "not reached"), (-0.01, 0.02, "not below 0", "reached"),
        (-0.03, 0.02, "not below 0", "undecided"), (-0.1, -0.03, "not below 0", "not reached"),
    ],
)  # fmt: skip
def test_a_verdict_comes_from_the_whole_interval(low, high, wanted, says):
    assert verdict(Interval((low + high) / 2, low, high), wanted) == says


def test_targets_are_those_of_the_arms_that_are_there():
    def named(*arms):
        return [(aim.arm, aim.baseline, aim.required) for aim in aims(arms)]

    assert named("fixed", "dapo", "replay", "augmented", "sft-more") == []
    assert named("fixed", "random", "rods") == [
        ("random", "fixed", True), ("rods", "fixed", True), ("rods", "random", True),
    ]  # fmt: skip
    assert named("fresh", "rods-mean", "stream", "oneshot") == [
        ("stream", "fresh", True), ("rods-mean", "fresh", False),
    ]  # fmt: skip
    assert named("offline17k", "rods") == [("rods", "offline17k", True)]
    assert [aim.wanted for aim in aims(["offline17k", "rods"])] == ["not below 0"]
    assert named("stream", "offline17k") == [("stream", "offline17k", False)]


def test_dapo_may_make_fewer_updates_and_end_after_a_whole_step():
    fixed, dapo = cell_of(spec_of("fixed", rollouts=1000)), cell_of(spec_of("dapo", rollouts=1000))
    *before, last = dapo.checkpoints
    for rollouts, sentences in ((1029, 0), (1031, 1)):
        end = msgspec.structs.replace(last, rollouts=rollouts, updates=5)
        assert len(unfair([fixed, msgspec.structs.replace(dapo, checkpoints=[*before, end])])) == sentences


def test_what_arms_did_not_get_equally_is_said():
    cells = [cell_of(spec_of(arm, seed)) for arm in ("fixed", "rods") for seed in (0, 1)]
    assert unfair(cells) == []
    more = cell_of(spec_of("stream", 1, rollouts=1200))
    assert unfair([*cells, more]) == [
        "50 seeds, seed 1: all arms must have equally many rollouts; fixed has 900, stream 1,200.",
        "50 seeds, seed 1: all arms must have equally many updates; fixed has 9, stream 12.",
    ]
    tokens = [cell_of(spec_of(arm, rollouts=n, match="tokens")) for arm, n in (("fixed", 900), ("rods", 1000))]
    assert unfair(tokens) == []
