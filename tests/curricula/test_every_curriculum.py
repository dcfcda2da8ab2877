"""Every curriculum keeps the interface: determinism, states, metrics, bad input, and groups handed out again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rods_env.curricula import CURRICULA, Curriculum
from rods_env.errors import RodsError
from rods_env.tasks.task import task_to_json

SETTINGS = [
    "fixed", "dapo", "replay", "replay by phi", "random", "fresh", "new shapes", "oneshot", "offline", "pool",
    "pool, binary", "pool, mean rule", "pool, proportional", "stream", "stream, ranked", "stream, mean rule",
]  # fmt: skip
QUICK = [setting for setting in SETTINGS if setting != "new shapes"]  # whose tasks are made by the real machine

METRICS = {
    "zero_variance_share", "all_zero_share", "all_one_share", "settled_share", "mean_return", "believed_share",
    "calls_mean", "turns_mean", "injected_variance_share", "distinct_seeds", "pool_size", "pool_seeds",
    "pool_synthetic", "frontier_share", "injected_total", "queue_length", "queue_dropped_total", "epoch",
    "seeds_calls_mean", "seeds_turns_mean", "open_groups", "groups_total", "mean_return_overall",
    "distinct_seeds_overall", "retired_mastered_total", "retired_hard_total", "retired_first_total",
    "retired_settled_total", "retired_stale_total", "retired_capacity_total", *(f"phi_{k:02d}" for k in range(10)),
}  # fmt: skip


def test_the_settings_are_all(kit):
    assert sorted(SETTINGS) == sorted(kit.SETTINGS)
    assert {name for name, _ in kit.SETTINGS.values()} == set(CURRICULA)


# --- the run ---


@pytest.mark.parametrize("setting", QUICK)
def test_a_run_is_deterministic(kit, few, setting):
    runs = [kit.Learner(7).play(kit.make(setting, few, seed=3), 300) for _ in range(2)]
    assert runs[0] == runs[1]
    assert kit.Learner(7).play(kit.make(setting, few, seed=4), 300) != runs[0]


SCRIPT = """
import hashlib, sys
from rods_env.curricula import CURRICULA
from rods_env.tasks.task import load_tasks, task_to_json

settings = {"offline": [{"n": 20}], "fresh": [{}, {"shapes": "new"}], "frontier": [{"mode": "pool"}, {}]}
seeds = load_tasks("seeds")[:12]
for name, made in CURRICULA.items():
    for setting in settings.get(name, [{}]):
        if name in ("random", "oneshot", "frontier"):
            setting = {**setting, "capacity": 6}
        curriculum, digest = made(seeds, seed=5, **setting), hashlib.sha256()
        for k in range(8 if "shapes" in setting else 60):
            task = curriculum.next_group()
            digest.update(task_to_json(task))
            curriculum.observe(task.id, [k % 5 / 4, k % 3 / 2, len(task.calls) % 2])
        print(name, digest.hexdigest())
"""


def test_other_processes_play_the_same_tasks_to_the_byte():
    """With the real synthesizer, and another order of hashes."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == len(CURRICULA) + 2


@pytest.mark.parametrize("setting", QUICK)
def test_only_what_may_be_played_is_played(kit, few, setting):
    """Fixed sets play every seed once per epoch; what makes tasks plays none twice, or lets them live in the pool."""
    curriculum = kit.make(setting, few)
    played = kit.Learner().play(curriculum, 4 * len(few))
    ids = {task.id for task in few}
    if setting in ("fixed", "dapo"):
        for epoch in range(4):
            assert set(played[epoch * len(few) : (epoch + 1) * len(few)]) == ids
        assert played[: len(few)] != played[len(few) : 2 * len(few)]
    elif setting.startswith("replay"):
        assert set(played[: len(few)]) == ids
        assert set(played) == ids
    elif setting.startswith(("fresh", "stream")):
        assert len(set(played)) == len(played)
        assert not ids & set(played)
    elif setting == "offline":
        assert len(set(played)) == 50
        assert not ids & set(played)
    else:
        assert set(played[: len(few)]) == ids
        assert set(played) > ids


@pytest.mark.parametrize("setting", QUICK)
def test_several_groups_may_be_open(kit, few, setting):
    curriculum, learner = kit.make(setting, few), kit.Learner()
    open_tasks = [curriculum.next_group() for _ in range(3 * len(few))]
    assert curriculum.metrics()["open_groups"] == len(open_tasks)
    for task in reversed(open_tasks):
        curriculum.observe(task.id, learner.returns(task))
    assert curriculum.metrics()["open_groups"] == 0
    assert curriculum.metrics()["groups_total"] == len(open_tasks)
    learner.play(curriculum, 50)


# --- bad input ---


@pytest.mark.parametrize("setting", SETTINGS)
def test_bad_observations_are_refused_at_once(kit, few, setting):
    curriculum = kit.make(setting, few)
    task = curriculum.next_group()
    for returns in ([0.5, 1.01], [0.5, -0.01], [0.5, float("nan")], [float("nan")] * 3, [1.0], [], ["a", "b"], 0.5):
        with pytest.raises(RodsError, match="return"):
            curriculum.observe(task.id, returns)
    with pytest.raises(RodsError, match="nobody"):
        curriculum.observe("nobody", [0.0, 1.0])
    curriculum.observe(task.id, [0.0, 1.0])  # nothing of the above was taken in
    with pytest.raises(RodsError, match=task.id.replace("+", r"\+")):
        curriculum.observe(task.id, [0.0, 1.0])
    assert curriculum.metrics()["groups_total"] == 1
    assert curriculum.metrics()["mean_return"] == 0.5


@pytest.mark.parametrize("name", CURRICULA)
def test_bad_settings_are_refused_at_once(kit, few, name):
    make = CURRICULA[name]
    for tasks, said in (([], "at least one"), ([few[0], few[0]], "distinct"), ("seeds", "sequence"), ([1], "sequence")):
        with pytest.raises(RodsError, match=said):
            make(tasks, synthesizer=kit.RenamingStub())
    for bad in ({"seed": -1}, {"seed": 0.5}, {"window": 0}, {"window": True}):
        with pytest.raises(RodsError, match=next(iter(bad))):
            make(few, synthesizer=kit.RenamingStub(), **bad)


# --- states ---


@pytest.mark.parametrize("setting", SETTINGS)
def test_after_a_reload_the_same_groups_follow(kit, few, setting):
    """Through a file, into a fresh curriculum and into a used one, with groups open when the state is taken."""
    before, groups = (70, 40) if setting == "new shapes" else (437, 1000)
    curriculum, learner = kit.make(setting, few, seed=3), kit.Learner(1)
    learner.play(curriculum, before)
    open_tasks = [curriculum.next_group() for _ in range(5)]
    state = kit.through_json(curriculum.state_dict())
    used = kit.make(setting, few, seed=3)
    kit.Learner(2).play(used, 100 if setting != "new shapes" else 3)
    used.next_group()
    followers = [kit.make(setting, few, seed=3), used]
    for other in followers:
        other.load_state_dict(state)
        assert kit.through_json(other.state_dict()) == state
        again = [other.next_group() for _ in open_tasks]
        assert [task_to_json(task) for task in again] == [task_to_json(task) for task in open_tasks]
    runs = []
    for each in (curriculum, *followers):
        answers = kit.Learner(9)
        for task in open_tasks:
            each.observe(task.id, answers.returns(task))
        runs.append(answers.play(each, groups))
    assert runs[0] == runs[1] == runs[2]
    assert curriculum.metrics() == followers[0].metrics() == used.metrics()


@pytest.mark.parametrize("setting", ["random", "fresh", "oneshot", "offline", "pool", "stream"])
def test_after_a_reload_the_real_synthesizer_makes_the_same_tasks(kit, few, setting):
    def fresh():
        name, settings = kit.SETTINGS[setting]
        return CURRICULA[name](few[:12], seed=2, **settings)

    curriculum = fresh()
    kit.Learner(1).play(curriculum, 60)
    other = fresh()
    other.load_state_dict(kit.through_json(curriculum.state_dict()))
    contents = []
    for each in (curriculum, other):
        learner, lines = kit.Learner(5), []
        for _ in range(60):
            task = each.next_group()
            lines.append(task_to_json(task))
            each.observe(task.id, learner.returns(task))
        contents.append(lines)
    assert contents[0] == contents[1]


@pytest.mark.parametrize("setting", QUICK)
def test_open_groups_come_again_first_unless_they_are_observed(kit, few, setting):
    curriculum = kit.make(setting, few)
    kit.Learner().play(curriculum, 90)
    tasks = [curriculum.next_group() for _ in range(6)]
    other = kit.make(setting, few)
    other.load_state_dict(kit.through_json(curriculum.state_dict()))
    other.observe(tasks[1].id, [0.0, 0.5])  # reported by somebody who still has it
    assert other.next_group().id == tasks[0].id
    other.observe(tasks[0].id, [0.0, 0.5])
    assert [other.next_group().id for _ in range(4)] == [task.id for task in tasks[2:]]
    assert other.metrics()["open_groups"] == 4


@pytest.mark.parametrize("setting", SETTINGS)
def test_states_of_others_are_refused_by_name(kit, few, setting):
    curriculum = kit.make(setting, few, seed=3)
    state = kit.through_json(curriculum.state_dict())
    for other, said in (
        (kit.make(setting, few, seed=4), "another seed: expected 4, got 3"),
        (kit.make(setting, few, seed=3, window=99), "another window: expected 99, got 256"),
        (kit.make(setting, few[1:], seed=3), "another (seeds|capacity): expected"),
        (kit.make(setting, few[::-1], seed=3), "another seeds: expected"),
        (kit.make("stream" if setting == "fixed" else "fixed", few, seed=3), "another class"),
    ):
        with pytest.raises(RodsError, match=said):
            other.load_state_dict(state)
    for broken in ({}, {**state, "format": 0}, {**state, "pool": {}}, {**state, "open": None}):
        with pytest.raises(RodsError, match="state"):
            kit.make(setting, few, seed=3).load_state_dict(broken)


def test_files_are_written_whole_and_read_with_care(kit, few, tmp_path):
    curriculum = kit.make("pool", few)
    kit.Learner().play(curriculum, 100)
    path = tmp_path / "state.json"
    curriculum.save(path)
    other = kit.make("pool", few)
    other.load(path)
    assert other.state_dict() == json.loads(path.read_bytes()) == kit.through_json(curriculum.state_dict())
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]
    for content in (b"", b"[1]", b"{", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(RodsError, match="state"):
            other.load(path)
    with pytest.raises(RodsError, match="cannot read"):
        other.load(tmp_path / "nothing.json")
    with pytest.raises(RodsError, match="cannot write"):
        other.save(tmp_path / "nowhere" / "state.json")


# --- what it tells ---


@pytest.mark.parametrize("setting", SETTINGS)
def test_metrics_are_flat_numbers(kit, few, setting):
    curriculum = kit.make(setting, few)
    for groups in (0, 30):
        kit.Learner().play(curriculum, groups)
        metrics = curriculum.metrics()
        assert set(metrics) >= METRICS
        assert all(type(value) is float for value in metrics.values())
        assert json.dumps(metrics, allow_nan=False)
        assert metrics["pool_size"] == metrics["pool_seeds"] + metrics["pool_synthetic"]
        assert sum(metrics[f"phi_{k:02d}"] for k in range(10)) == pytest.approx(1.0 if groups else 0.0)


@pytest.mark.parametrize("setting", QUICK)
def test_origins(kit, few, setting):
    curriculum: Curriculum = kit.make(setting, few)
    learner, seeds = kit.Learner(), {task.id for task in few}
    latest: dict[str, bool] = {}
    for _ in range(300):
        task = curriculum.next_group()
        generation, parent, on_frontier = curriculum.origin(task.id)
        assert (generation == 0) == (task.id in seeds)
        assert parent == task.parent
        if generation == 1:
            assert parent in seeds
        if generation == 0 and "mean" not in setting and "binary" not in setting:
            assert on_frontier == latest.get(task.id, False)
        returns = learner.returns(task)
        latest[task.id] = len(set(returns)) > 1
        curriculum.observe(task.id, returns)
    with pytest.raises(RodsError, match="nobody"):
        curriculum.origin("nobody")
