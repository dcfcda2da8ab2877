"""A cell of a language model: every kind of arm, for two updates of a policy that knows next to nothing."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec
import pytest
import transformers

from rods_env import RodsError, load_tasks
from rods_env.agents.grpo import GrpoAgent
from rods_env.agents.warmup import make_base
from rods_env.benchmarks.curricula import policy_cell
from rods_env.benchmarks.curricula.arms import make_arm
from rods_env.benchmarks.curricula.cells import Spec, write_settings
from rods_env.benchmarks.curricula.heldout import seeds_of
from rods_env.benchmarks.curricula.policy_cell import settings_of, train
from rods_env.benchmarks.curricula.warmups import warmed_up
from rods_env.tasks.task import save_tasks, write_atomically
from rods_env.tasks.tiny_sets import long_tasks

SMALL = {"group_size": 4, "groups_per_step": 2, "slots": 8, "unseen": 2, "seen": 2, "tuning": 2, "start_steps": 1,
         "sft_batch": 4, "max_messages": 6}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    place = tmp_path_factory.mktemp("base")
    options = {"width": 32, "layers": 1, "heads": 2, "kv_heads": 1, "inner": 64}
    make_base(place / "small", steps=1, batch=2, word_tasks=20, model_options=options, score=lambda _: {})
    save_tasks(islice(long_tasks(5), 6), place / "tasks.jsonl")
    return Spec(str(place / "small"), str(place / "tasks.jsonl"), 4, "fixed", 1, 16, settings=write_settings(SMALL))


def arm(spec, name, **changes):
    return msgspec.structs.replace(spec, arm=name, **changes)


@pytest.mark.parametrize(
    "name", ["fixed", "rods", "stream", "sft-more", "augmented", "dapo", "fresh-shapes", "offline17k"]
)
def test_a_cell_of_every_kind_of_arm(spec, folder, name):
    told = []
    cell = train(arm(spec, name), folder, told.append)
    assert cell.sizes == {"unseen": 2, "seen": 2, "tuning": 2}
    assert cell.checkpoints == told
    first, *_, last = cell.checkpoints
    assert (first.rollouts, first.updates, first.tokens) == (0, 0, 0)
    assert last.tokens > 0
    if name == "dapo":  # which asks for further groups, and ends after the step in which enough were played
        assert last.rollouts >= 16
        assert last.updates <= 2
    else:
        assert last.rollouts == 16
        assert last.updates == (4 if name == "sft-more" else 2)
    assert all(cell.solved(0, kept).shape == (2,) for kept in ("seen", "unseen"))
    assert cell.seconds["update"] > 0
    assert cell.seconds["evaluate"] > 0
    groups = sum(checkpoint.window["groups"] for checkpoint in cell.checkpoints)
    assert groups == (0 if name == "sft-more" else last.rollouts / 4)
    made = {"stream", "fresh-shapes", "offline17k"}  # which play nothing else
    assert cell.injected["groups"] == (groups if name in made else 0)


def test_equal_specs_give_equal_cells(spec, folder):
    cells = [msgspec.structs.replace(train(arm(spec, "stream"), folder), seconds={}) for _ in range(2)]
    assert cells[0] == cells[1]


def test_arms_of_a_seed_begin_alike_and_leave_only_warmups(spec, tmp_path):
    begun = [train(arm(spec, name), tmp_path).checkpoints[0] for name in ("fixed", "sft-more")]
    assert [place.name for place in tmp_path.iterdir()] == ["warmups"]
    assert len(list((tmp_path / "warmups").iterdir())) == 1
    assert begun[0].outcomes == begun[1].outcomes
    assert begun[0].progress == begun[1].progress


@pytest.mark.parametrize("second", ["rods", "sft-more"])
def test_the_evaluation_before_training_is_played_once_for_a_seed(spec, tmp_path, monkeypatch, second):
    fixed = train(arm(spec, "fixed"), tmp_path)
    (kept,) = (tmp_path / "warmups").glob("*/evaluation-*.json")
    counted = []
    monkeypatch.setattr(GrpoAgent, "evaluate", _counting(GrpoAgent.evaluate, counted))
    monkeypatch.setattr(policy_cell, "evaluate_policy", _counting(policy_cell.evaluate_policy, counted))
    cell = train(arm(spec, second), tmp_path)
    assert len(counted) == len(cell.checkpoints) - 1 > 0
    assert cell.checkpoints[0].success == fixed.checkpoints[0].success
    kept.write_bytes(kept.read_bytes()[:100])
    with pytest.raises(RodsError, match=rf"{kept.name} is no saved evaluation.* Remove it to have it played again\."):
        train(arm(spec, second), tmp_path)
    kept.unlink()
    again = train(arm(spec, second), tmp_path)
    assert msgspec.structs.replace(again, seconds={}) == msgspec.structs.replace(cell, seconds={})
    others = write_settings({**SMALL, "max_messages": 5})  # other limits are another evaluation
    train(arm(spec, "fixed", settings=others), tmp_path)
    assert len(list((tmp_path / "warmups").glob("*/evaluation-*.json"))) == 2


def _counting(function, counted):
    def wrapped(*args, **options):
        counted.append(function)
        return function(*args, **options)

    return wrapped


def test_bars_of_libraries_do_not_tear_that_of_the_grid(spec, folder, capsys):
    bars = transformers.utils.logging
    bars.enable_progress_bar()
    train(arm(spec, "fixed"), folder)
    assert "Writing model shards" not in capsys.readouterr().err
    assert bars.is_progress_bar_enabled()


def test_every_seed_has_a_warmup_of_its_own(spec, tmp_path):
    policies = [Path(warmed_up(spec.policy, seed, tmp_path, 1)) for seed in (0, 1)]
    weights = [(place / "model.safetensors").read_bytes() for place in policies]
    assert weights[0] != weights[1]
    assert Path(warmed_up(spec.policy, 0, tmp_path / "again", 1), "model.safetensors").read_bytes() == weights[0]
    assert warmed_up(spec.policy, 0, tmp_path, 0) == spec.policy


def test_tokens_are_matched_with_those_of_fixed(spec, tmp_path):
    with pytest.raises(RodsError, match="train fixed first"):
        train(arm(spec, "stream", match="tokens"), tmp_path)
    fixed = train(arm(spec, "fixed", match="tokens"), tmp_path)
    tokens = fixed.checkpoints[-1].tokens
    place = tmp_path / "cells" / f"{fixed.spec.name}.json"
    place.parent.mkdir()
    write_atomically(place, msgspec.json.encode(fixed))
    cell = train(arm(spec, "augmented", match="tokens"), tmp_path)
    assert cell.checkpoints[-1].tokens >= tokens > cell.checkpoints[-2].tokens
    taught = train(arm(spec, "sft-more", match="tokens"), tmp_path)
    assert taught.checkpoints[-1].tokens == pytest.approx(tokens, rel=0.5)  # whole batches of four
    with pytest.raises(RodsError, match="made with rollouts 16 and not 8"):
        train(arm(spec, "stream", match="tokens", rollouts=8), tmp_path)


def test_new_shapes_of_the_tiny_policy_go_on_exactly():
    seeds = load_tasks("seeds")[:4]
    curriculum, other = (make_arm("fresh-shapes", seeds, 3, source=long_tasks) for _ in range(2))
    played = []
    for _ in range(70):  # into the second block of sixty-four
        played.append(curriculum.next_group())
        curriculum.observe(played[-1].id, [0.0, 1.0])
    assert {api for task in played for api in task.apis} <= {"shop", "bank", "calendar"}
    assert all(3 <= len(task.calls) <= 6 for task in played)
    other.load_state_dict(curriculum.state_dict())
    assert [other.next_group() for _ in range(3)] == [curriculum.next_group() for _ in range(3)]
    with pytest.raises(RodsError, match="source"):
        make_arm("fresh-shapes", seeds, 3).load_state_dict(curriculum.state_dict())


def test_variants_for_the_tiny_policy_stay_in_the_services_of_the_seeds(spec):
    seeds = seeds_of(spec.tasks, 4, 1)
    curriculum = make_arm("stream", seeds, 1)
    served = {api for task in seeds for api in task.apis}
    assert all(set(curriculum.next_group().apis) <= served for _ in range(30))


def test_presets_and_wrong_settings(spec, tmp_path):
    settings, own = settings_of(Spec("qwen2.5-1.5b", "seeds", 50, "rods", 2, 51_200))
    assert (settings.policy, settings.steps, settings.seed) == ("Qwen/Qwen2.5-1.5B-Instruct", 100, 2)
    assert (settings.eval_every, own.checkpoints) == (25, 5)
    assert settings_of(Spec("tiny", "seeds", 50, "rods", 0, 12_800))[0].tasks == "tiny:seeds"
    for changes, message in (
        ({"steps": 3}, "cannot be set"),
        ({"unsene": 3}, "unknown setting"),
        ({"checkpoints": 1}, "checkpoints 2"),
        ({"seen": "few"}, "settings of the cell"),
    ):
        with pytest.raises(RodsError, match=message):
            settings_of(arm(spec, "fixed", settings=write_settings({**SMALL, **changes})))
    with pytest.raises(RodsError, match="pointer policy only"):
        train(arm(spec, "bound"), tmp_path)
    with pytest.raises(RodsError, match="multiple of the 8"):
        settings_of(arm(spec, "fixed", rollouts=12))
    with pytest.raises(RodsError, match="unknown arm"):
        train(arm(spec, "best"), Path())
