"""The order of epochs, the pool, and the tree of weights, against plain lists and numpy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rods_env.apis.draw import Draw
from rods_env.benchmarks.curriculum import renamed
from rods_env.curricula.pool import Epochs, Member, Pool, SumTree
from rods_env.tasks.task import load_tasks

TASK = load_tasks("seeds")[0]


def members(n):
    return [Member(renamed(TASK, f"t{k}"), k) for k in range(n)]


def names(some):
    return [member.task.id for member in some]


# --- epochs ---


def test_every_epoch_is_another_shuffle_of_all():
    order = Epochs(members(30), Draw(np.random.default_rng(0)))
    epochs = []
    for _ in range(3):
        epochs.append(names(order.next() for _ in range(30)))
        assert order.done
        order.restart()
    assert all(len(set(epoch)) == 30 for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_every_order_is_as_likely():
    order, counts = Epochs(members(3), Draw(np.random.default_rng(0))), Counter()
    for _ in range(6000):
        counts[tuple(names(order.next() for _ in range(3)))] += 1
        order.restart()
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())  # five standard deviations


class EpochsAgainstSets(RuleBasedStateMachine):
    """Members come and go while an epoch runs; each that stays is handed out once in it."""

    @initialize(n=st.integers(0, 6), seed=st.integers(0, 99))
    def begin(self, n, seed):
        some = members(40)
        self.draw = Draw(np.random.default_rng(seed))
        self.order = Epochs(some[:n], self.draw)
        self.new = some[n:]
        self.left = set(names(some[:n]))  # not handed out in this epoch
        self.rest = set()

    @rule()
    def next(self):
        if self.left:
            name = self.order.next().task.id
            self.left.remove(name)
            self.rest.add(name)
        else:
            self.order.restart()
            self.left, self.rest = self.rest, set()

    @precondition(lambda self: self.new)
    @rule()
    def add(self):
        member = self.new.pop()
        self.order.add(member)
        self.rest.add(member.task.id)

    @precondition(lambda self: self.order.members)
    @rule(at=st.integers(0, 100))
    def remove(self, at):
        member = self.order.members[at % len(self.order.members)]
        self.order.remove(member)
        self.left.discard(member.task.id)
        self.rest.discard(member.task.id)
        self.new.append(member)

    @precondition(lambda self: self.order.members)
    @rule(at=st.integers(0, 100))
    def touch(self, at):
        member = self.order.members[at % len(self.order.members)]
        self.order.touch(member)
        self.left.discard(member.task.id)
        self.rest.add(member.task.id)

    @rule()
    def reload(self):
        state, order = self.order.state_dict(), self.order
        self.order = Epochs((), self.draw)
        self.order.load_state_dict(state, {member.task.id: member for member in order.members})
        assert self.order.state_dict() == state

    @invariant()
    def same(self):
        order = self.order
        assert sorted(names(order.left())) == sorted(self.left)
        assert sorted(names(order.members)) == sorted(self.left | self.rest)
        assert [member.place for member in order.members] == list(range(len(order.members)))
        assert all(member.place == -1 for member in self.new[-3:])
        assert order.done == (not self.left)


TestEpochs = EpochsAgainstSets.TestCase
TestEpochs.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# --- the pool ---


def test_a_made_task_is_like_its_seed():
    pool = Pool([TASK], Draw(np.random.default_rng(0)), 2)
    child = Member(renamed(TASK, "child", TASK.id), 0, pool.seeds[0])
    grandchild = Member(renamed(TASK, "grandchild", "child"), 0, child)
    assert (child.generation, grandchild.generation) == (1, 2)
    assert (grandchild.calls, grandchild.turns) == (len(TASK.calls), len(TASK.turns))


def test_the_queue_is_bounded_and_the_oldest_leaves():
    pool = Pool([TASK], Draw(np.random.default_rng(0)), 2)
    for k in range(5):
        pool.put_in_queue(Member(renamed(TASK, f"m{k}"), 0, pool.seeds[0]))
    assert list(pool.queue) == ["m3", "m4"]
    assert pool.dropped == 3
    assert pool.knows("m4")
    assert not pool.knows("m2")


def test_a_retired_task_is_gone():
    pool = Pool([TASK], Draw(np.random.default_rng(0)), 2)
    member = Member(renamed(TASK, "m"), 0, pool.seeds[0])
    pool.inject(member)
    assert names(pool.order.left()) == [TASK.id]  # it comes in the next epoch
    pool.retire(member, "hard")
    assert not pool.knows("m")
    assert names(pool.order.members) == [TASK.id]
    assert pool.retired == {"hard": 1}
    assert names(pool.playing()) == [TASK.id]


# --- the tree ---

WEIGHTS = st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=70)


def tree_of(weights):
    tree = SumTree(len(weights))
    for place, weight in enumerate(weights):
        tree.set(place, weight)
    return tree


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_find_is_a_search_in_a_cumulative_sum(weights, unit):
    """The places in the order in which a walk through the tree meets them."""
    tree = tree_of(weights)
    assert tree.total == pytest.approx(sum(weights))
    assert tree.weights(len(weights)) == weights
    if not tree.total:
        return

    def walk(node):
        if node >= tree._first:
            return [node - tree._first]
        return [place for child in range(4 * node + 1, 4 * node + 5) for place in walk(child)]

    places = [place for place in walk(0) if place < len(weights)]
    assert sorted(places) == list(range(len(weights)))
    found = tree.find(unit)
    assert weights[found] > 0
    end = sum(weights[place] for place in places[: places.index(found) + 1])
    slack = 1e-9 * sum(weights)
    assert end - weights[found] - slack <= unit * sum(weights) <= end + slack


@given(WEIGHTS, st.lists(st.tuples(st.integers(0, 69), st.floats(0, 9)), max_size=20))
def test_changes_leave_no_trace(weights, changes):
    """A tree that was changed is, to the bit, the tree of the weights that it has."""
    tree = tree_of(weights)
    for place, weight in changes:
        weights[place % len(weights)] = weight
        tree.set(place % len(weights), weight)
    assert tree._sums == tree_of(weights)._sums


@given(st.integers(1, 70), st.data())
def test_what_has_no_weight_is_never_found(size, data):
    """Also where rounding leads past the last place."""
    only = data.draw(st.integers(0, size - 1))
    tree = tree_of([0.1 if place == only else 0.0 for place in range(size)])
    for unit in (0.0, 0.5, 1 - 2**-53):
        assert tree.find(unit) == only


def test_draws_are_in_proportion_to_weights():
    weights = np.random.default_rng(1).random(50) ** 3
    weights[::4] = 0
    tree, units = tree_of(weights.tolist()), np.random.default_rng(2).random(40_000)
    counts = np.bincount([tree.find(unit) for unit in units], minlength=50)
    expected = weights / weights.sum() * 40_000
    assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected) + 1e-9)
