"""`Frontier`: the rules of the pool and of the stream, one by one, and what must hold whatever happens."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.benchmarks.curriculum import RenamingStub
from rods_env.curricula import Frontier
from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.task import KINDS, load_tasks

TASKS = load_tasks("seeds")[:20]
MIXED, NONE, ALL, MIDDLING = [0.0, 0.5], [0.0, 0.0], [1.0, 1.0], [0.5, 0.5]


class Log(RenamingStub):
    """A stub that remembers whose variants were asked for."""

    def __init__(self):
        super().__init__()
        self.parents = []

    def variant(self, task, rng=None):
        self.parents.append(task)
        return super().variant(task)


class OneGeneration(Log):
    """A stub that makes variants of seeds only."""

    def variant(self, task, rng=None):
        if task.parent is not None:
            raise SynthesisError("a variant has no variants here.", reason="grandchild")
        return super().variant(task, rng)


def pool(tasks=TASKS, synthesizer=None, **more):
    stub = synthesizer or Log()
    return Frontier(tasks, synthesizer=stub, **{"mode": "pool", "groups_per_step": 5, "budget": 4, **more})


def epoch(curriculum, returns):
    """Plays one epoch; `returns` is a list, or a function of the task."""
    began, played = curriculum.pool.epoch, []
    while True:
        order = curriculum.pool.order
        if order.done and curriculum.pool.epoch == began and played:
            return played
        task = curriculum.next_group()
        began = curriculum.pool.epoch if not played else began
        played.append(task)
        curriculum.observe(task.id, returns(task) if callable(returns) else returns)


# --- what must hold whatever happens ---

SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "signal": st.sampled_from(["variance", "mean"]),
        "rule": st.sampled_from(["uniform", "proportional", "ranked"]),
        "reward": st.sampled_from(["progress", "binary"]),
        "quotas": st.sampled_from(["seeds", "equal", {"base": 3, "missing_function": 1}]),
        "capacity": st.integers(0, 12),
        "cooldown": st.integers(0, 2),
        "retire": st.booleans(),
        "rest_mastered": st.booleans(),
        "inject_share": st.sampled_from([0.0, 0.2, 1.0]),
        "stale": st.integers(1, 3),
    },
)


@given(SETTINGS, st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_the_pool_keeps_its_rules(more, seed):
    """Never over capacity, never a retired task, quotas and cooldown kept; groups open and close in any order."""
    curriculum = pool(seed=seed, **more)
    rng, open_tasks, retired = np.random.default_rng(seed), [], set()
    chosen: dict[str, int] = {}
    quotas, cooldown = curriculum.quotas, more.get("cooldown", 1)
    step: list[str] = []
    live: set[str] = set()
    for _ in range(250):
        if open_tasks and rng.random() < 0.5:
            task = open_tasks.pop(int(rng.integers(len(open_tasks))))
            asked = len(curriculum._synthesizer.parents)
            step.append(task.id)
            curriculum.observe(task.id, rng.choice([MIXED, NONE, ALL, MIDDLING, [1.0, 0.9]]))
            parents = curriculum._synthesizer.parents[asked:]
            if parents:
                assert len(step) == 5
                for kind, count in Counter(parent.kind for parent in parents).items():
                    assert count <= quotas[kind]
                for parent in parents:
                    assert parent.id in step
                    assert parent.id in curriculum.pool.members
                    assert curriculum.pool.members[parent.id].on_frontier
                    assert curriculum.pool.epoch - chosen.get(parent.id, -9) > cooldown
                    chosen[parent.id] = curriculum.pool.epoch
            step = [] if len(step) == 5 else step
        else:
            size, injected, began = len(curriculum.pool.order.members), curriculum.pool.injected, curriculum.pool.epoch
            task = curriculum.next_group()
            assert task.id not in retired
            if curriculum.pool.epoch == began:
                assert curriculum.pool.injected == injected  # what is injected comes with an epoch
            else:
                resting = len(curriculum._resting)
                most = more.get("inject_share", 0.2) * (size + len(TASKS) - resting)
                assert curriculum.pool.injected - injected <= most
            open_tasks.append(task)
        now = set(curriculum.pool.made)
        retired |= live - now
        assert not retired & now
        live = now
        metrics = curriculum.metrics()
        assert metrics["pool_synthetic"] == len(now) <= curriculum.pool.capacity
        assert metrics["queue_length"] <= curriculum.pool.capacity
        assert metrics["pool_seeds"] == len(TASKS)
        assert metrics["injected_total"] == len(now) + sum(v for k, v in metrics.items() if k.startswith("retired_"))


@given(st.sampled_from(["uniform", "proportional", "ranked"]), st.sampled_from(["variance", "mean"]),
       st.integers(0, 3), st.integers(0, 10**6))  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_the_stream_never_repeats_and_leaves_no_seed_out(rule, signal, limit, seed):
    """Also if variants run out: then seeds rest, and are played themselves where there is nothing else."""

    class Few(Log):
        def variant(self, task, rng=None):
            if sum(parent is task for parent in self.parents) >= limit * 10:
                raise SynthesisError("no more", reason="exhausted")
            return super().variant(task)

    curriculum = Frontier(TASKS, seed=seed, synthesizer=Few(), rule=rule, signal=signal)
    rng, played = np.random.default_rng(seed), []
    for _ in range(200):
        task = curriculum.next_group()
        played.append(task)
        curriculum.observe(task.id, rng.choice([MIXED, NONE, ALL, MIDDLING]))
    made = [task.id for task in played if task.parent is not None]
    assert len(set(made)) == len(made) == min(200, limit * 10 * len(TASKS))
    if limit:
        assert {task.parent for task in played[: len(TASKS)]} == {task.id for task in TASKS}
    if limit < 1:
        assert curriculum.metrics()["rejected_exhausted_total"] >= len(TASKS)
        assert curriculum.metrics()["seeds_resting"] == len(TASKS)


# --- the pool ---


def test_parents_are_tasks_on_the_frontier_and_rest_for_an_epoch():
    curriculum = pool(inject_share=0.0, budget=100)
    hot = {task.id for task in TASKS[:6]}
    for number in range(6):
        asked = len(curriculum._synthesizer.parents)
        epoch(curriculum, lambda task: MIXED if task.id in hot else MIDDLING)
        parents = [task.id for task in curriculum._synthesizer.parents[asked:]]
        assert sorted(parents) == (sorted(hot) if number % 2 == 0 else [])


def test_what_is_injected_is_a_fifth_of_the_pool_at_most_and_the_oldest_first():
    curriculum = pool(capacity=1000, budget=100)
    epoch(curriculum, MIXED)
    queue = list(curriculum.pool.queue)
    assert len(queue) == 20
    epoch(curriculum, MIDDLING)
    assert list(curriculum.pool.made) == queue[:4]
    assert list(curriculum.pool.queue)[:16] == queue[4:]


def test_injected_tasks_are_played_once_in_the_epoch_they_join():
    curriculum = pool(budget=100)
    epoch(curriculum, MIXED)
    played = epoch(curriculum, MIXED)
    assert len(played) == len({task.id for task in played}) == 24
    assert sum(task.parent is not None for task in played) == 4


@pytest.mark.parametrize(("signal", "left"), [("variance", 0), ("mean", 4)])
def test_settled_tasks_retire_and_with_the_mean_rule_they_never_do(signal, left):
    """The flaw of the mean rule (methods.md §1): a mean of 1/2 without variance stays for ever."""
    curriculum = pool(synthesizer=OneGeneration(), signal=signal, budget=100)
    hot = {task.id for task in TASKS[:4]}
    epoch(curriculum, lambda task: MIXED if task.id in hot else NONE)
    epoch(curriculum, lambda task: MIDDLING if task.parent else NONE)
    assert curriculum.metrics()["pool_synthetic"] == 4
    epoch(curriculum, lambda task: MIDDLING if task.parent else NONE)
    assert curriculum.metrics()["pool_synthetic"] == left
    assert curriculum.metrics()["retired_settled_total"] == 4 - left


@pytest.mark.parametrize(
    ("first", "later", "reason"),
    [
        ([0.0, 0.3], MIDDLING, "first"), ([1.0, 0.95], MIDDLING, "mastered"), (MIXED, [0.0, 0.3], "hard"),
        (MIXED, ALL, "mastered"), ([0.0, 0.4], MIDDLING, ""), (MIXED, [1.0, 0.9], ""),
    ],
)  # fmt: skip
def test_why_made_tasks_retire(first, later, reason):
    curriculum = pool(synthesizer=OneGeneration(), budget=100)
    hot = {task.id for task in TASKS[:4]}
    epoch(curriculum, lambda task: MIXED if task.id in hot else NONE)
    epoch(curriculum, lambda task: first if task.parent else NONE)
    epoch(curriculum, lambda task: later if task.parent else NONE)
    retired = {key: value for key, value in curriculum.metrics().items() if key.startswith("retired_") and value}
    assert retired == ({f"retired_{reason}_total": 4} if reason else {})
    assert curriculum.metrics()["pool_seeds"] == 20


def test_retirement_can_be_turned_off():
    curriculum = pool(budget=100, retire=False)
    epoch(curriculum, MIXED)
    for _ in range(5):
        epoch(curriculum, NONE)
    assert curriculum.metrics()["pool_synthetic"] == 20
    assert not any(value for key, value in curriculum.metrics().items() if key.startswith("retired_"))


def test_what_is_never_observed_goes_stale():
    """A group that somebody lost keeps its task from being known; five epochs later it leaves."""
    curriculum = pool(budget=100)
    epoch(curriculum, MIXED)
    for _ in range(4):  # epochs in which nobody reports on made tasks
        for _ in range(len(curriculum.pool.order.members)):
            task = curriculum.next_group()
            if task.parent is None:
                curriculum.observe(task.id, MIDDLING)
    assert curriculum.metrics()["retired_stale_total"] == 0
    assert len(curriculum.pool.made) > 4
    for _ in range(2 * len(curriculum.pool.order.members)):
        curriculum.next_group()
    assert curriculum.metrics()["retired_stale_total"] >= 4


def test_over_capacity_the_lowest_priority_leaves():
    curriculum = pool(budget=100, capacity=4)
    epoch(curriculum, MIXED)
    spread = iter([[0.2, 0.8], [0.4, 0.6], [0.0, 1.0], [0.3, 0.7]])
    order = {}

    def answer(task):
        if task.parent:
            order[task.id] = next(spread)
            return order[task.id]
        return MIXED

    epoch(curriculum, answer)  # those wait that are chosen now
    narrow = next(key for key, value in order.items() if value == [0.4, 0.6])
    assert narrow in curriculum.pool.made
    while curriculum.metrics()["retired_capacity_total"] < 1:
        task = curriculum.next_group()
        curriculum.observe(task.id, order.get(task.id, MIXED))
    assert curriculum.metrics()["pool_synthetic"] == 4
    assert narrow not in curriculum.pool.made


def test_no_capacity_no_synthesis():
    curriculum = pool(capacity=0)
    for _ in range(3):
        epoch(curriculum, MIXED)
    assert curriculum._synthesizer.parents == []
    assert curriculum.metrics()["pool_size"] == 20


def test_quotas(seeds):
    assert pool(seeds, budget=16).quotas == {
        "base": 7, "missing_function": 3, "missing_parameter": 3, "long_context": 3
    }  # fmt: skip
    assert set(pool(seeds, budget=16, quotas="equal").quotas.values()) == {4}
    weights = {"long_context": 1, "base": 3.0}
    assert pool(seeds, budget=16, quotas=weights).quotas == {"base": 12, "long_context": 4}
    only = [task for task in TASKS if task.kind == "base"]
    assert pool(only, budget=16, quotas="equal").quotas == {"base": 16}


def test_unused_quota_is_not_redistributed(seeds):
    base, other = (next(t for t in seeds if t.kind == kind) for kind in ("base", "long_context"))
    some = [base, *[t for t in seeds if t.kind == "long_context"][:9]]
    curriculum = pool(some, budget=4, quotas="equal", groups_per_step=10)
    epoch(curriculum, MIXED)
    assert Counter(task.kind for task in curriculum._synthesizer.parents) == {"base": 1, "long_context": 2}
    assert other in some


def test_mastered_seeds_may_rest():
    curriculum = pool(rest_mastered=True, budget=0)
    easy = {task.id for task in TASKS[:5]}
    counts = []
    for _ in range(9):
        played = epoch(curriculum, lambda task: ALL if task.id in easy else MIXED)
        counts.append((sum(task.id in easy for task in played), sum(task.id not in easy for task in played)))
    assert counts == [(5, 15), (0, 15), (0, 15), (0, 15), (5, 15), (0, 15), (0, 15), (0, 15), (5, 15)]


def test_if_all_seeds_are_mastered_none_rests():
    curriculum = pool(rest_mastered=True)
    for _ in range(3):
        assert len(epoch(curriculum, ALL)) == 20


def test_the_binary_detector_sees_no_progress_and_metrics_see_it():
    curriculum = pool(reward="binary", budget=100)
    epoch(curriculum, [0.0, 0.75])
    assert curriculum._synthesizer.parents == []
    assert curriculum.metrics()["zero_variance_share"] == 0
    assert curriculum.metrics()["mean_return"] == pytest.approx(0.375)
    epoch(curriculum, [0.75, 1.0])
    assert len(curriculum._synthesizer.parents) == 20


def test_no_variant_another_parent(kit):
    """Failures are counted by reason, and somebody else of the kind is asked."""
    base = [task for task in TASKS if task.kind == "base"]
    barren = base[0].id
    stub = kit.Barren(limit=99, fails=lambda task: task.id == barren)
    curriculum = pool(base, stub, groups_per_step=len(base), budget=len(base) - 1, rule="ranked")
    epoch(curriculum, lambda task: [0.0, 1.0] if task.id == barren else MIXED)  # the barren one is asked first
    assert curriculum.metrics()["rejected_exhausted_total"] == 1
    assert len(curriculum.pool.queue) == len(base) - 1


def test_a_variant_that_the_pool_has_is_refused():
    class Same(RenamingStub):
        def variant(self, task, rng=None):
            return TASKS[0]

    for mode in ("pool", "stream"):
        curriculum = Frontier(TASKS, mode=mode, synthesizer=Same(), groups_per_step=5)
        for _ in range(25):
            curriculum.observe(curriculum.next_group().id, MIXED)
        assert curriculum.metrics()["rejected_duplicate_total"] > 0
        assert curriculum.metrics()["pool_synthetic"] == curriculum.metrics()["queue_length"] == 0


# --- the stream ---


def shares(curriculum, returns, groups):
    """How often the seeds were played after the first round."""
    counts = Counter()
    for number in range(groups):
        task = curriculum.next_group()
        if number >= len(curriculum.seeds):
            counts[task.parent] += 1
        curriculum.observe(task.id, returns(task.parent))
    return counts


def test_the_first_round_asks_every_seed_once_in_random_order():
    orders = []
    for seed in (0, 1):
        curriculum = Frontier(TASKS, seed=seed, synthesizer=RenamingStub())
        orders.append([curriculum.next_group().parent for _ in TASKS])
        assert set(orders[-1]) == {task.id for task in TASKS}
    assert orders[0] != orders[1]


def alike(seeds):
    """Twelve seeds of one stratum."""
    strata: dict = {}
    for task in seeds:
        key = task.kind, len(task.turns), task.profile.depth
        strata.setdefault(key, []).append(task)
        if len(strata[key]) == 12:
            return strata[key]
    raise AssertionError("no stratum of twelve")


def test_seeds_are_drawn_by_their_share_on_the_frontier(seeds):
    """The size of the variance plays no part, so short tasks are not favoured."""
    tasks = alike(seeds)
    wide, narrow = tasks[0].id, tasks[1].id
    answers = {wide: [0.0, 1.0], narrow: [0.4, 0.6]}
    for rule, low, high in (("uniform", 0.8, 1.25), ("proportional", 5.0, 40.0)):
        curriculum = Frontier(tasks, synthesizer=RenamingStub(), rule=rule, uniform=0.0, explore=0.0)
        counts = shares(curriculum, lambda key: answers.get(key, MIDDLING), 6000)
        assert low < counts[wide] / counts[narrow] < high
        assert counts[wide] > 2 * max(counts[task.id] for task in tasks[2:])


def test_settled_seeds_rest_and_are_asked_again_now_and_then(seeds):
    tasks = alike(seeds)
    hot = {tasks[0].id, tasks[1].id}
    counts = shares(Frontier(tasks, synthesizer=RenamingStub()), lambda key: MIXED if key in hot else ALL, 3000)
    settled = [counts[task.id] for task in tasks[2:]]
    assert min(settled) > 3000 * 0.2 / 12 * 0.7
    assert min(counts[key] for key in hot) > 4 * max(settled)


def test_a_floor_of_uniform_and_of_waiting_seeds(seeds):
    """With explore = 1 every round plays every seed once; with uniform = 1 all are drawn alike."""
    tasks = alike(seeds)
    curriculum = Frontier(tasks, synthesizer=RenamingStub(), explore=1.0, uniform=0.0)
    for _ in range(4):
        assert {curriculum.next_group().parent for _ in tasks} == {task.id for task in tasks}
    counts = shares(Frontier(tasks, synthesizer=RenamingStub(), explore=0.0, uniform=1.0), lambda _: NONE, 6000)
    assert max(counts.values()) < 1.25 * min(counts.values())


def test_strata_keep_their_share_whatever_their_variance(seeds):
    """No collapse onto one kind of task: half of the seeds, half of the groups."""
    kinds = [[t for t in seeds if t.kind == kind][:8] for kind in ("base", "long_context")]
    hot = {task.id for task in kinds[0]}
    curriculum = Frontier(kinds[0] + kinds[1], synthesizer=RenamingStub())
    counts = shares(curriculum, lambda key: MIXED if key in hot else NONE, 4000)
    assert sum(counts[key] for key in hot) / sum(counts.values()) == pytest.approx(0.5, abs=0.03)


def test_ranked_seeds(seeds):
    tasks = alike(seeds)
    curriculum = Frontier(tasks, synthesizer=RenamingStub(), rule="ranked", uniform=0.0, explore=0.0)
    counts = shares(curriculum, lambda key: [0.0, 1.0] if key == tasks[0].id else [0.4, 0.6], 1000)
    assert counts[tasks[0].id] > 950


def test_the_mean_rule_of_the_stream_prefers_middling_means(seeds):
    tasks = alike(seeds)
    curriculum = Frontier(tasks, synthesizer=RenamingStub(), signal="mean", rule="proportional")
    counts = shares(curriculum, lambda key: MIDDLING if key == tasks[0].id else [0.9, 1.0], 2000)
    assert counts[tasks[0].id] > 3 * max(counts[task.id] for task in tasks[1:])


def test_a_seed_without_variants_rests_for_a_round(kit):
    stub = kit.Barren(limit=10**6, fails=lambda task: task.id == TASKS[0].id)
    curriculum = Frontier(TASKS, synthesizer=stub)
    kit.Learner().play(curriculum, 200)
    asked = curriculum.metrics()["rejected_exhausted_total"]
    assert 3 <= asked <= 200 / len(TASKS) + 1
    assert TASKS[0].id not in stub.given


# --- bad input ---


@pytest.mark.parametrize(
    "bad",
    [{"mode": "live"}, {"signal": "phi"}, {"reward": "sparse"}, {"rule": "best"}, {"capacity": -1}, {"capacity": 1.5},
     {"budget": -1}, {"groups_per_step": 0}, {"inject_share": 1.2}, {"retire": 1}, {"cooldown": -1}, {"stale": 0},
     {"hard": -0.1}, {"mastered": 1.1}, {"hard": 0.85}, {"hard": 0.9, "mastered": 0.8}, {"retire_mastered": 0.2},
     {"discount": 2}, {"shrink": 0}, {"uniform": 0.6, "explore": 0.6}, {"beta": 0}, {"rest_epochs": 0},
     {"rest_mastered": None}, {"quotas": "all"}, {"quotas": {"bass": 1}}, {"quotas": {"base": -1}},
     {"quotas": {"base": 0}}, {"quotas": 3}, {"quotas": {}}],
    ids=str,
)  # fmt: skip
def test_bad_settings_name_what_was_expected_and_what_came(bad):
    with pytest.raises(RodsError, match=next(iter(bad))) as error:
        Frontier(TASKS, synthesizer=RenamingStub(), **bad)
    assert repr(next(iter(bad.values()))) in str(error.value)


def test_another_configuration_is_named():
    state = pool(hard=0.3).state_dict()
    with pytest.raises(RodsError, match=r"another hard: expected 0\.2, got 0\.3"):
        pool().load_state_dict(state)
    with pytest.raises(RodsError, match=r"another quotas: expected 'seeds', got \{'base': 1\}"):
        pool(hard=0.3).load_state_dict(pool(hard=0.3, quotas={"base": 1}).state_dict())
    assert set(KINDS) == set(pool().quotas)
