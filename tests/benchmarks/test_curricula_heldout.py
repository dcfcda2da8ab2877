"""The sets of the benchmark of curricula: disjoint, the same every time, and new where they should be."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from rods_env import RodsError, isomorphic, load_tasks
from rods_env.benchmarks.curricula import heldout
from rods_env.benchmarks.curricula.heldout import seeds_of, seen_tasks, set_for, tuning_tasks, unseen_tasks
from rods_env.tasks.validation import validate


@pytest.fixture(scope="module")
def seeds():
    return seeds_of("seeds", 20, 3)


@pytest.fixture(scope="module")
def sets(seeds):
    return {"seen": seen_tasks(seeds, 50, 3), "unseen": unseen_tasks("seeds", 40),
            "tuning": tuning_tasks("seeds", seeds, 40, 3)}  # fmt: skip


def test_seeds_are_drawn_without_replacement_and_differ_by_seed(seeds):
    assert len({task.id for task in seeds}) == 20
    assert seeds_of("seeds", 20, 3) == seeds != seeds_of("seeds", 20, 4)
    assert seeds_of("seeds", 400, 3) == load_tasks("seeds")
    with pytest.raises(RodsError, match="400 tasks"):
        seeds_of("seeds", 401, 0)


def test_the_sets_are_valid_and_disjoint(seeds, sets):
    for name, tasks in sets.items():
        assert len({task.id for task in tasks}) == len(tasks) == (50 if name == "seen" else 40)
        assert not any(validate(task) for task in tasks)
    for one, other in combinations(({"seeds": seeds} | sets).values(), 2):
        assert {task.id for task in one}.isdisjoint(task.id for task in other)


def test_seen_tasks_are_spread_evenly_over_the_seeds(seeds, sets):
    counts = Counter(task.parent for task in sets["seen"])
    assert counts.keys() == {task.id for task in seeds}
    assert set(counts.values()) == {2, 3}
    parents = {task.id: task for task in seeds}
    assert all(isomorphic(task, parents[task.parent]) for task in sets["seen"])


def test_no_unseen_task_is_isomorphic_to_any_task_of_the_set(sets):
    known = load_tasks("seeds")
    new = [*sets["unseen"], *sets["tuning"][20:]]
    assert not any(isomorphic(task, other) for task in new for other in known)
    assert all(any(isomorphic(task, other) for other in known) for task in sets["tuning"][:20])
    kinds = Counter(task.kind for task in sets["unseen"])
    assert kinds == {"base": 16, "missing_function": 8, "missing_parameter": 8, "long_context": 8}


def test_sets_are_made_again_the_same(seeds, sets):
    heldout._variants.cache_clear()
    heldout._unseen.cache_clear()
    assert seen_tasks(seeds, 50, 3) == sets["seen"]
    assert unseen_tasks("seeds", 40) == sets["unseen"]
    assert seen_tasks(seeds, 50, 4) != sets["seen"]


def test_tasks_for_the_tiny_policy_stay_in_its_services():
    assert set_for("tiny", "seeds") == "tiny:seeds"
    assert set_for("pointer", "seeds") == "seeds"
    seeds = seeds_of("tiny:seeds", 10, 0)
    services = {api for task in seeds for api in task.apis}
    made = [*seen_tasks(seeds, 60, 0), *unseen_tasks("tiny:seeds", 20)]
    assert {api for task in made for api in task.apis} <= services | {"shop", "bank", "calendar"}
    assert all(3 <= len(task.calls) <= 6 for task in made)


def test_bfcl_has_no_new_shapes_and_takes_its_own_split():
    pytest.importorskip("bfcl_eval")
    assert {task.id for task in unseen_tasks("bfcl:train", 6)} <= {task.id for task in load_tasks("bfcl:test")}
    seeds = seeds_of("bfcl:train", 2, 0)
    assert {task.parent for task in tuning_tasks("bfcl:train", seeds, 2, 0)} == {task.id for task in seeds}
