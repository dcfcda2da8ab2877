"""`BfclSynthesizer`: variants of a sample of the training tasks are solvable, distinct, and of the same structure."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("bfcl_eval")

import rods_env
from rods_env.agents.scripted import Oracle
from rods_env.bfcl.execution import same_structure
from rods_env.bfcl.tasks import bfcl_tasks
from rods_env.bfcl.variants import BfclSynthesizer
from rods_env.curricula.archive import tasks_from_data, tasks_to_data
from rods_env.envs.calls import write_calls
from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.families import make_synthesizer
from rods_env.wrappers import FrontierCurriculum

_WITHOUT = {f"multi_turn_{category}_{number}" for number in (41, 61, 112)
            for category in ("base", "miss_func", "miss_param", "long_context")}  # fmt: skip


@pytest.fixture(scope="module", name="pairs")
def sample():
    synthesizer = BfclSynthesizer(7)
    tasks = [task for task in bfcl_tasks("train")[::9] if task.id not in _WITHOUT]
    return [(task, synthesizer.variants(task, 5)) for task in tasks]


def texts(task):
    return (task.kind, *(turn.message for turn in task.turns))


def test_each_task_has_five(pairs):
    assert len(pairs) > 40
    assert [task.id for task, variants in pairs if len(variants) < 5] == []


def test_no_two_have_the_same_texts(pairs):
    everything = [texts(one) for task, variants in pairs for one in (task, *variants)]
    assert len(set(everything)) == len(everything)


def test_they_are_of_the_same_kind_and_make_the_same_calls(pairs):
    for task, variants in pairs:
        for one in variants:
            assert (one.kind, one.apis, one.parent) == (task.kind, task.apis, task.id)
            assert one.id.startswith(task.id + "-")
            assert len(one.id) == len(task.id) + 9
            assert [turn.adds for turn in one.turns] == [turn.adds for turn in task.turns]
            assert [[c.tool for c in turn.calls] for turn in one.turns] == [
                [c.tool for c in turn.calls] for turn in task.turns
            ]
            assert any(a.arguments != b.arguments for a, b in zip(task.calls, one.calls, strict=True)) or (
                task.gold.answers != one.gold.answers
            )
            assert same_structure(task, one)


def test_the_oracle_solves_them_and_doing_nothing_earns_nothing(pairs):
    env = gym.make("ToolUse-BFCL-v0", split="train").unwrapped
    for _, variants in pairs:
        for one in variants[:2]:
            assert play(env, one, [turn.calls for turn in one.turns]) == pytest.approx(1.0)
            assert play(env, one, [()] * len(one.turns)) == 0


def play(env, task, calls):
    _, info = env.reset(options={"task": task})
    total = 0.0
    for some in calls:
        for action in [*(write_calls([(call.tool, call.arguments)]) for call in some), "Done."]:
            if info["termination"] is None:
                _, reward, _, _, info = env.step(action)
                total += reward
    return total


def test_the_gold_calls_of_the_parent_fail_in_a_variant(pairs):
    env = gym.make("ToolUse-BFCL-v0", split="train").unwrapped
    same = sum(
        play(env, variants[0], [turn.calls for turn in task.turns]) == pytest.approx(1.0) for task, variants in pairs
    )
    assert same <= len(pairs) / 10  # where only what a call returns is new


def test_they_go_through_files_and_saved_states(pairs, tmp_path):
    made = [one for _, variants in pairs for one in variants[:1]]
    rods_env.save_tasks(made, tmp_path / "made.jsonl")
    again = rods_env.load_tasks(tmp_path / "made.jsonl")
    assert again == made
    assert [one.parent for one in again] == [one.parent for one in made]
    stored = tasks_from_data(json.loads(json.dumps(tasks_to_data(made))))
    assert [stored[one.id] for one in made] == made
    for one, read in zip(made, again, strict=True):
        assert read.gold.answers == one.gold.answers


@pytest.mark.parametrize("line", [b'{"environment": "ToolUse-BFCL-v0"}', b'{"environment": "Other-v0", "id": "x"}'])
def test_a_broken_line_is_refused(line, tmp_path):
    (tmp_path / "broken.jsonl").write_bytes(line)
    with pytest.raises(RodsError):
        rods_env.load_tasks(tmp_path / "broken.jsonl")


def test_a_variant_has_variants():
    task = rods_env.load_tasks("bfcl:multi_turn_base_164")[0]
    synthesizer = BfclSynthesizer(2)
    for _ in range(4):
        child = synthesizer.variant(task)
        assert child.parent == task.id
        assert child.id.count("-") == 1
        task = child


def test_equal_seeds_give_equal_variants():
    tasks = bfcl_tasks("train", ("base",))[::12]
    first, second, other = BfclSynthesizer(4), BfclSynthesizer(4), BfclSynthesizer(5)
    mine = [first.variant(task) for task in tasks]
    assert [second.variant(task) for task in tasks] == mine
    assert [other.variant(task) for task in tasks] != mine
    rngs = [np.random.default_rng(1) for _ in range(2)]
    assert first.variant(tasks[0], rngs[0]) == second.variant(tasks[0], rngs[1])


def test_a_state_goes_on():
    tasks = bfcl_tasks("train", ("base",))[::20]
    first, second = BfclSynthesizer(4), BfclSynthesizer(4)
    for task in tasks:
        first.variant(task)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [second.variant(task) for task in tasks] == [first.variant(task) for task in tasks]
    assert second.rejected == first.rejected
    assert second.made == first.made
    with pytest.raises(RodsError, match="seed=4"):
        BfclSynthesizer(5).load_state_dict(first.state_dict())


def test_what_has_nothing_to_exchange_says_so():
    task = rods_env.load_tasks("bfcl:multi_turn_base_112")[0]
    synthesizer = BfclSynthesizer(0)
    with pytest.raises(SynthesisError, match="no variant of multi_turn_base_112") as error:
        synthesizer.variant(task)
    assert error.value.reason == "nothing"
    assert synthesizer.rejected["nothing"] == 1
    assert synthesizer.variants(task, 3) == []


@pytest.mark.parametrize("seed", [-1, True, 1.5, "0"])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(RodsError, match="seed"):
        BfclSynthesizer(seed)


def test_the_synthesizer_belongs_to_the_tasks():
    own, theirs = rods_env.load_tasks("seeds")[:1], bfcl_tasks("train")[:1]
    assert isinstance(make_synthesizer(theirs, 3), BfclSynthesizer)
    assert isinstance(make_synthesizer(own, 3), rods_env.Synthesizer)
    with pytest.raises(RodsError, match="one environment"):
        make_synthesizer(own + theirs)
    with pytest.raises(RodsError, match="expected a task of BFCL"):
        BfclSynthesizer().variant(own[0])


@pytest.mark.parametrize("mode", ["pool", "stream"])
def test_a_frontier_plays_and_saves_them(mode):
    tasks = [task for task in bfcl_tasks("train", ("base",)) if task.id not in _WITHOUT][:12]

    def wrapped():
        settings = {"groups_per_step": 4, "budget": 4} if mode == "pool" else {}
        env = gym.make("ToolUse-BFCL-v0", tasks=tasks)
        return FrontierCurriculum(env, group_size=2, mode=mode, seed=3, **settings)

    env = wrapped()
    agent, rng = Oracle(env), np.random.default_rng(0)
    made = 0
    for _ in range(2 * 40):
        _, info = env.reset()
        agent.begin(info)
        made += info["curriculum"]["generation"]
        while info["termination"] is None:
            *_, info = env.step(agent.act([], []) if rng.random() < 0.8 else "I give up.")
    assert made > 0
    again = wrapped()
    again.curriculum.load_state_dict(json.loads(json.dumps(env.curriculum.state_dict())))
    mine = [env.curriculum.next_group() for _ in range(20)]
    assert [again.curriculum.next_group() for _ in range(20)] == mine
    assert any(task.parent for task in mine)


def test_the_command_shows_a_task_beside_its_variants(capsys):
    from rods_env.cli import app

    with pytest.raises(SystemExit) as done:
        app(["variants", "bfcl:multi_turn_base_12", "-n", "2", "--quiet"])
    assert not done.value.code
    shown = capsys.readouterr().out
    assert shown.count("multi_turn_base_12-") == 2
    assert "quantum computing" in shown
