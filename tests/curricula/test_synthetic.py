"""Curricula that make tasks without a signal, or once: `RandomSynthesis`, `Fresh`, `OfflinePool`, `OneShotFrontier`."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rods_env.curricula import CURRICULA, DynamicSampling, Fresh, OfflinePool, OneShotFrontier, RandomSynthesis
from rods_env.errors import RodsError
from rods_env.tasks.task import load_tasks, save_tasks, task_to_json

MIXED, NONE = [0.0, 0.5], [0.0, 0.0]


def play(curriculum, groups, returns=MIXED):
    played = []
    for _ in range(groups):
        played.append(curriculum.next_group())
        curriculum.observe(played[-1].id, returns)
    return played


# --- the filter ---


def test_dynamic_sampling_says_what_is_worth_training_on(few):
    curriculum = DynamicSampling(few)
    for returns, worth in ((MIXED, True), (NONE, False), ([0.5, 0.5], False), ([1.0, 1.0, 0.9], True)):
        assert curriculum.observe(curriculum.next_group().id, returns) is worth
    assert curriculum.metrics()["filtered_total"] == 2
    assert curriculum.metrics()["mean_return"] == pytest.approx((0.25 + 0 + 0.5 + 2.9 / 3) / 4)  # unfiltered


def test_all_others_train_on_everything(kit, few):
    for name in CURRICULA:
        if name != "dapo":
            curriculum = CURRICULA[name](few, synthesizer=kit.RenamingStub())
            assert curriculum.observe(curriculum.next_group().id, NONE) is True


# --- random parents ---


def test_random_parents_do_not_depend_on_returns(kit, few):
    runs = []
    for returns in (MIXED, NONE):
        curriculum = RandomSynthesis(few, seed=1, synthesizer=kit.RenamingStub())
        runs.append([task.id for task in play(curriculum, 500, returns)])
        metrics = curriculum.metrics()
        assert metrics["pool_synthetic"] == 40
        assert metrics["retired_capacity_total"] > 0
        assert sum(value for key, value in metrics.items() if key.startswith("retired_")) == (
            metrics["retired_capacity_total"]
        )
    assert runs[0] == runs[1]


def test_the_oldest_leave_and_only_seeds_are_parents(kit, few):
    curriculum = RandomSynthesis(few, synthesizer=kit.RenamingStub(), capacity=10)
    joined: list[str] = []
    for _ in range(600):
        task = curriculum.next_group()
        joined += [key for key in curriculum.pool.made if key not in joined]
        assert list(curriculum.pool.made) == joined[-len(curriculum.pool.made) :]
        curriculum.observe(task.id, MIXED)
    assert len(joined) > 30
    assert curriculum.metrics()["pool_synthetic"] == 10
    assert {member.task.parent for member in curriculum.pool.made.values()} <= {task.id for task in few}


def test_budget_is_kept(kit, few):
    stub = kit.RenamingStub()
    curriculum = RandomSynthesis(few, synthesizer=stub, groups_per_step=10, budget=3)
    play(curriculum, 100)
    assert stub.made == 30


# --- never twice ---


def test_fresh_variants_come_in_epochs_over_the_seeds(kit, few):
    played = play(Fresh(few, synthesizer=kit.RenamingStub()), 3 * len(few))
    for epoch in range(3):
        parents = [task.parent for task in played[epoch * len(few) : (epoch + 1) * len(few)]]
        assert sorted(parents) == sorted(task.id for task in few)


def test_fresh_passes_over_seeds_without_variants(kit, few):
    stub = kit.Barren(limit=3, fails=lambda task: task.id == few[0].id)
    curriculum = Fresh(few, synthesizer=stub)
    played = play(curriculum, 3 * (len(few) - 1))
    assert Counter(task.parent for task in played) == {task.id: 3 for task in few[1:]}
    more = play(curriculum, 5)  # nothing is left: the run goes on with the seeds
    assert {task.id for task in more} <= {task.id for task in few}
    assert curriculum.metrics()["rejected_exhausted_total"] > len(few)


def test_new_shapes_are_new_tasks_of_the_seeds_kinds(few):
    some = [task for task in few if task.kind in ("base", "missing_function")]
    curriculum = Fresh(some, shapes="new", seed=3)
    played = play(curriculum, 30)
    assert {task.kind for task in played} == {"base", "missing_function"}
    assert len({task.id for task in played}) == 30
    assert all(task.parent is None for task in played)
    assert curriculum.metrics()["distinct_seeds"] == 0
    assert curriculum.metrics()["calls_mean"] == pytest.approx(sum(len(task.calls) for task in played) / 30)


def test_new_shapes_depend_on_seed_and_number_alone(few):
    """From any number on, so that a reload makes at most 63 tasks again."""
    whole = play(Fresh(few, shapes="new", seed=3), 70)
    late = Fresh(few, shapes="new", seed=3)
    late._new.number = 64
    assert [task_to_json(task) for task in play(late, 6)] == [task_to_json(task) for task in whole[64:]]
    late._new.number = 2
    assert task_to_json(late.next_group()) == task_to_json(whole[2])


# --- made once ---


def test_an_offline_pool_is_made_as_the_first_epoch_comes_to_it(kit, few):
    stub = kit.RenamingStub()
    curriculum = OfflinePool(few, synthesizer=stub, n=25)
    first = play(curriculum, 10)
    assert stub.made == 10
    first += play(curriculum, 15)
    later = [play(curriculum, 25) for _ in range(2)]
    assert stub.made == 25
    assert {task.id for task in first} == {task.id for task in later[0]} == {task.id for task in later[1]}
    assert [task.id for task in later[0]] != [task.id for task in first]
    metrics = curriculum.metrics()
    assert (metrics["pool_size"], metrics["pool_seeds"], metrics["pool_synthetic"]) == (25, 0, 25)


def test_a_state_of_an_offline_pool_holds_no_tasks_and_makes_them_again(few):
    curriculum = OfflinePool(few[:10], seed=4, n=12)
    play(curriculum, 8)
    open_task = curriculum.next_group()
    state = json.loads(json.dumps(curriculum.state_dict()))
    assert state["tasks"] == {"tables": [], "tasks": []}
    other = OfflinePool(few[:10], seed=4, n=12)
    play(other, 3)
    other.next_group()
    other.load_state_dict(state)
    assert task_to_json(other.next_group()) == task_to_json(open_task)
    for each in (curriculum, other):
        each.observe(open_task.id, MIXED)
    assert [task_to_json(t) for t in play(other, 40)] == [task_to_json(t) for t in play(curriculum, 40)]


def test_an_offline_pool_in_a_file(kit, few, tmp_path):
    path = tmp_path / "pool.jsonl.gz"
    made = OfflinePool(few[:10], seed=4, n=12, path=path)
    content = path.read_bytes()
    read = OfflinePool(few[:10], seed=4, n=12, path=path)
    assert path.read_bytes() == content
    assert len(load_tasks(path)) == 12
    played = [[task_to_json(task) for task in play(each, 30)] for each in (made, read)]
    assert played[0] == played[1]
    assert set(played[0]) == {task_to_json(task) for task in load_tasks(path)}
    read.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert [task.id for task in play(read, 20)] == [task.id for task in play(made, 20)]
    lazy = OfflinePool(few[:10], seed=4, n=12)  # the same variants, as they come
    assert {task_to_json(task) for task in play(lazy, 12)} == set(played[0])


def test_a_file_of_other_tasks_is_refused(kit, few, tmp_path):
    path = tmp_path / "pool.jsonl"
    OfflinePool(few[:10], n=3, path=path)
    with pytest.raises(RodsError, match="expected 4 tasks, got 3"):
        OfflinePool(few[:10], n=4, path=path)
    with pytest.raises(RodsError, match="expected variants of the seeds"):
        OfflinePool(few[10:20], n=3, path=path)
    state = OfflinePool(few[:10], n=3, path=path).state_dict()
    save_tasks([kit.renamed(few[0], f"x{k}", few[0].id) for k in range(3)], path)
    with pytest.raises(RodsError, match="another file"):
        OfflinePool(few[:10], n=3, path=path).load_state_dict(state)


def test_an_offline_pool_is_smaller_where_variants_run_out(kit, few):
    curriculum = OfflinePool(few[:5], synthesizer=kit.Barren(limit=2), n=50)
    played = play(curriculum, 100)
    assert len({task.id for task in played}) == 10
    assert curriculum.metrics()["pool_size"] == 10
    nothing = OfflinePool(few[:5], synthesizer=kit.Barren(), n=50)
    assert {task.id for task in play(nothing, 20)} == {task.id for task in few[:5]}


def test_one_shot_makes_equal_numbers_of_the_first_frontier(kit, few):
    hot = {task.id for task in few[:6]}
    stub = kit.RenamingStub()
    curriculum = OneShotFrontier(few, synthesizer=stub)
    for _ in few:
        task = curriculum.next_group()
        curriculum.observe(task.id, MIXED if task.id in hot else NONE)
    later = [play(curriculum, 80, NONE) for _ in range(2)]
    made = Counter(member.task.parent for member in curriculum.pool.made.values())
    assert set(made) == hot
    assert set(made.values()) == {6, 7}
    assert stub.made == 40
    for epoch in later:
        assert {task.id for task in epoch} == {task.id for task in few} | set(curriculum.pool.made)


def test_one_shot_without_a_frontier_stays_with_the_seeds(kit, few):
    curriculum = OneShotFrontier(few, synthesizer=kit.RenamingStub())
    play(curriculum, 100, NONE)
    assert curriculum.metrics()["pool_size"] == 40


def test_one_shot_parents_without_variants_are_left_out(kit, few):
    curriculum = OneShotFrontier(few, synthesizer=kit.Barren(limit=2, fails=lambda task: task.id == few[0].id))
    play(curriculum, 41)
    made = Counter(member.task.parent for member in curriculum.pool.made.values())
    assert sum(made.values()) == 40
    assert few[0].id not in made
    assert set(made.values()) == {1, 2}


@pytest.mark.parametrize(
    ("name", "bad"),
    [("random", {"capacity": -1}), ("random", {"budget": 0.5}), ("random", {"inject_share": -0.1}),
     ("fresh", {"shapes": "old"}), ("offline", {"n": 0}), ("oneshot", {"capacity": -1})],
)  # fmt: skip
def test_bad_settings(kit, few, name, bad):
    with pytest.raises(RodsError, match=next(iter(bad))):
        CURRICULA[name](few, synthesizer=kit.RenamingStub(), **bad)
