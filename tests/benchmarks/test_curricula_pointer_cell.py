"""Cells with the pointer policy: every arm, equal runs, what is counted; and the whole command on a small grid."""

from __future__ import annotations

from itertools import islice

import msgspec
import pytest
from typer.testing import CliRunner

from rods_env.agents.pointer_play import NotListedError, oracle
from rods_env.benchmarks.curricula import pointer_cell
from rods_env.benchmarks.curricula.arms import ARMS
from rods_env.benchmarks.curricula.cells import Spec, write_cell, write_settings
from rods_env.benchmarks.curricula.pointer_cell import settings_of, train
from rods_env.cli import app
from rods_env.errors import RodsError
from rods_env.tasks.tiny_sets import long_tasks

SMALL = {
    "group_size": 4, "groups_per_step": 8, "width": 32, "warmup_tasks": 12, "warmup_epochs": 4, "checkpoints": 3,
    "seen": 12, "unseen": 12, "tuning": 8,
}  # fmt: skip
ROLLOUTS = 128


def spec_of(arm="fixed", rollouts=ROLLOUTS, match="rollouts", **settings):
    return Spec("pointer", "tiny:seeds", 10, arm, 0, rollouts, match, write_settings({**SMALL, **settings}))


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A cell of each arm, made when it is asked for."""
    made, folder = {}, tmp_path_factory.mktemp("grid")

    def cell(arm):
        if arm not in made:
            seen = []
            made[arm] = train(spec_of(arm), folder, seen.append)
            assert made[arm].checkpoints == seen
        return made[arm]

    return cell


def without_times(cell):
    return msgspec.structs.replace(cell, seconds={})


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_plays_equally_much(cells, arm):
    cell = cells(arm)
    last = cell.checkpoints[-1]
    assert last.rollouts == ROLLOUTS
    if arm != "dapo":  # which asks for further groups, and so makes fewer updates
        assert last.updates == ROLLOUTS // 32
        assert [point.rollouts for point in cell.checkpoints] == [0, 64, 128]
    assert last.tokens >= 2 * ROLLOUTS  # no episode is shorter than two decisions
    assert set(cell.seconds) == {"play", "update", "curriculum", "evaluate"}
    assert cell.sizes == {"seen": 12, "unseen": 12, "tuning": 8}
    assert cell.digests == cells("fixed").digests
    for point in cell.checkpoints:
        for name in ("seen", "unseen"):
            solved = cell.solved(cell.checkpoints.index(point), name)
            assert solved.mean() == pytest.approx(point.success[name], abs=1e-6)
            assert point.success[name] <= point.progress[name] + 1e-6


@pytest.mark.parametrize("arm", ARMS)
def test_arms_begin_alike(cells, arm):
    first, wanted = cells(arm).checkpoints[0], cells("fixed").checkpoints[0]
    assert (first.success, first.outcomes, first.progress) == (wanted.success, wanted.outcomes, wanted.progress)


def test_what_arms_play(cells):
    distinct = {arm: cells(arm).checkpoints[-1].distinct_tasks for arm in ARMS}
    assert distinct["fixed"] == distinct["replay"] == 10
    for arm in ("fresh", "fresh-shapes", "stream", "offline17k"):
        assert distinct[arm] == ROLLOUTS // 4
        assert cells(arm).injected["groups"] == ROLLOUTS // 4
    assert cells("fixed").injected["groups"] == 0
    assert distinct["sft-more"] == 0


@pytest.mark.parametrize("arm", ["stream", "sft-more"])
def test_equal_specs_give_equal_cells(cells, tmp_path, arm):
    train(spec_of("dapo"), tmp_path)  # another arm before it changes nothing
    again = train(spec_of(arm), tmp_path)
    assert write_cell(without_times(again)) == write_cell(without_times(cells(arm)))


def test_augmented_is_fixed_as_errors_are_not_read(cells):
    one, other = without_times(cells("augmented")), without_times(cells("fixed"))
    assert msgspec.structs.replace(one, spec=other.spec) == other


def test_the_bound_counts_groups_that_disagree_only(cells):
    last, window = cells("bound").checkpoints[-1], cells("bound").checkpoints[-1].window
    assert (last.rollouts, last.updates) == (ROLLOUTS, ROLLOUTS // 32)
    assert window["zero_variance_share"] == 0.0
    assert window["groups_in_vain"] > 0
    assert cells("bound").injected["disagreed"] == cells("bound").injected["groups"] == ROLLOUTS // 4
    assert "groups_in_vain" not in cells("fresh").checkpoints[-1].window


def test_a_bound_that_finds_too_few_groups_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(pointer_cell, "_MOST_WAVES", 1)
    with pytest.raises(RodsError, match=r"^too few groups disagree to fill an update, in 1 attempts: there is"):
        train(spec_of("bound"), tmp_path)


def test_training_changes_the_policy(cells):
    progress = [point.progress["seen"] for point in cells("sft-more").checkpoints]
    assert len(set(progress)) > 1


def test_tokens_are_matched(tmp_path):
    fixed = train(spec_of("fixed", match="tokens"), tmp_path)
    with pytest.raises(RodsError, match="train fixed first"):
        train(spec_of("fresh", match="tokens"), tmp_path)
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / f"{fixed.spec.name}.json").write_bytes(write_cell(fixed))
    wanted = fixed.checkpoints[-1].tokens
    for arm in ("fresh", "sft-more"):
        cell = train(spec_of(arm, match="tokens"), tmp_path)
        spent = [point.tokens for point in cell.checkpoints]
        assert spent[-2] < wanted <= spent[-1] < wanted + 32 * 17  # at most one update more
        assert cell.checkpoints[-1].rollouts % 32 == 0


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (spec_of("best"), "unknown arm 'best': expected one of fixed, dapo"),
        (spec_of(rollouts=100), "a multiple of the 32 of an update; got 100"),
        (spec_of(speed=3), "the settings of the pointer policy: .*speed"),
        (spec_of(width="wide"), "the settings of the pointer policy: .*width"),
        (spec_of(group_size=1), "group_size"),
        (spec_of(checkpoints=1), "checkpoints"),
        (spec_of(credit="word"), "credit"),
        (msgspec.structs.replace(spec_of(), tasks="bfcl:train"), "plays this project's own services; bfcl:train"),
    ],
)  # fmt: skip
def test_wrong_specs(tmp_path, spec, sentence):
    with pytest.raises(RodsError, match=sentence):
        train(spec, tmp_path)


def test_settings_come_as_texts_too():
    texts = '{"width":"48","learning_rate":"0.01","scale":"false"}'
    settings = settings_of(msgspec.structs.replace(spec_of(rollouts=256), settings=texts))
    assert (settings.width, settings.learning_rate, settings.scale) == (48, 0.01, False)


def test_a_small_grid_by_the_command(tmp_path):
    words = [f"--set={name}={value}" for name, value in SMALL.items()]
    command = [
        "bench", "curricula", "--policy", "pointer", "--tasks", "tiny:seeds", "--arms", "fixed,stream", "--seeds", "1",
        "--seed-counts", "10", "--rollouts", str(ROLLOUTS), "--processes", "1", "--run", str(tmp_path), *words,
    ]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code in (0, 1), result.output  # 1: with a dozen tasks a target is missed by chance
    assert "| `stream` | 1 |" in (tmp_path / "table.md").read_text()
    figures = msgspec.json.decode((tmp_path / "results.json").read_bytes())
    assert set(figures["parts"]["10"]["arms"]) == {"fixed", "stream"}
    assert figures["policy"] == "pointer"
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_episodes_in_which_not_all_solutions_fit(tmp_path):
    with pytest.raises(RodsError, match=r"max_steps of at least \d+, the longest solution of tiny:seeds; got 4"):
        train(spec_of(max_steps=4), tmp_path)


def test_all_services_are_played_whose_solutions_are_longer(tmp_path):
    spec = msgspec.structs.replace(spec_of(warmup_tasks=20, unseen=4, seen=4, tuning=2), tasks="seeds")
    assert train(spec, tmp_path).checkpoints[-1].rollouts == ROLLOUTS


def test_the_warm_up_passes_over_what_cannot_be_shown(monkeypatch):
    tasks = list(islice(long_tasks(5), 12))
    steps = {task.id: len(task.calls) + len(task.turns) for task in tasks}
    most = max(steps.values()) - 1
    unlisted = next(task for task in tasks if steps[task.id] <= most)

    def told(forest, task):
        if task is unlisted:
            raise NotListedError("no such call")
        return oracle(forest, task)

    monkeypatch.setattr(pointer_cell, "oracle", told)
    shown = [episode.nodes[0].snapshot.task.id for episode in pointer_cell._oracles(iter(tasks), most)]
    assert shown == [task.id for task in tasks if steps[task.id] <= most and task is not unlisted]
    assert len(shown) < len(tasks) - 1
