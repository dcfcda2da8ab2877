"""`rods-env bench curricula`: trains what is missing, reports, goes on, packs; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from curricula_fakes import cell_of, spec_of
from typer.testing import CliRunner

from rods_env import RodsError, cli_bench_curricula
from rods_env.benchmarks.curricula import learners, plots
from rods_env.benchmarks.curricula.arms import ARMS
from rods_env.benchmarks.curricula.cells import write_cell
from rods_env.benchmarks.curricula.workers import Event
from rods_env.cli import app
from rods_env.cli_bench_curricula import _NAMES, _arms, _counts, _seeds, _watch
from rods_env.cli_screen import Screen


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(learners, "_POINTER_CELL", "curricula_fakes:train")


@pytest.fixture
def undrawn(monkeypatch):
    """Without pictures, which take their time."""
    monkeypatch.setattr(plots, "draw", lambda *_: [])


def call(*args, env=None):
    return CliRunner().invoke(app, ["bench", "curricula", *map(str, args)], env={"COLUMNS": "160"} | (env or {}))


def keep(folder: Path, *cells):
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    for cell in cells:
        (folder / "cells" / f"{cell.spec.name}.json").write_bytes(write_cell(cell))


def test_one_command_trains_reports_and_goes_on(fake, tmp_path, monkeypatch):
    folder, figures = tmp_path / "run", tmp_path / "figures.json"
    keep(folder, cell_of(spec_of("fixed")))
    options = ["--arms", "fixed,rods", "--seed-counts", "50", "--rollouts", "900", "--run", folder, "--processes", "1"]
    found = call(*options, "--seeds", "2", "--json", figures)
    assert found.exit_code == 0, found.output
    assert "3 runs to train; 1 are kept already" in found.stdout
    assert "[2/4] seeds-50-rods-s0: seen 0." in found.stderr
    assert "[4/4] seeds-50-rods-s1: seen 0." in found.stderr
    assert "about 0 s left" in found.stderr
    assert "Success at the end, 50 seeds" in found.stdout
    assert "rods minus fixed" in found.stdout
    assert [line.split()[0] for line in (folder / "log.txt").read_text().splitlines()] == [
        "seeds-50-rods-s0", "seeds-50-fixed-s1", "seeds-50-rods-s1",
    ]  # fmt: skip
    names = {"results.json", "table.md", *(f"{n}-50.png" for n in ("curves", "arms", "groups", "target", "profile"))}
    assert names < {path.name for path in folder.iterdir()}
    assert json.loads(figures.read_bytes())["50/rods/seen/final_success"] > 0.3
    before = (folder / "results.json").read_bytes()
    monkeypatch.setattr(plots, "draw", lambda *_: [])
    again = call("--report-only", "--run", folder, "--pack", "--quiet")
    assert again.exit_code == 0, again.output
    assert (folder / "results.json").read_bytes() == before
    assert (folder / "cells.jsonl.gz").exists()
    assert list((folder / "cells").iterdir()) == []
    assert "rods minus fixed\tunseen\tabove 0\t+0." in again.stdout
    assert again.stderr == ""
    assert len((folder / "log.txt").read_text().splitlines()) == 3


def test_a_missed_target_and_unequal_arms_are_exit_code_1(undrawn, tmp_path):
    keep(tmp_path, cell_of(spec_of("fixed"), gain=0.4), cell_of(spec_of("rods"), gain=0.1))
    found = call("--report-only", "--run", tmp_path)
    assert found.exit_code == 1
    assert found.stderr.startswith("50 seeds: rods minus fixed on seen shapes must be above 0; it is -0.")
    assert (tmp_path / "results.json").exists()


def test_a_report_takes_the_kept_runs_that_options_name(undrawn, tmp_path):
    keep(tmp_path, *(cell_of(spec_of(arm, seed, count))
                     for arm in ("fixed", "rods") for seed in (0, 3) for count in (50, 400)))  # fmt: skip
    options = ("--arms", "rods", "--seeds", "3,", "--seed-counts", 400)
    assert call("--report-only", "--run", tmp_path, *options).exit_code == 0
    found = json.loads((tmp_path / "results.json").read_bytes())["parts"]
    assert list(found) == ["400"]
    assert list(found["400"]["arms"]) == ["rods"]
    assert found["400"]["arms"]["rods"]["seeds"] == [3]


def test_differences_from_another_arm_stand_in_the_report(undrawn, tmp_path):
    keep(tmp_path, *(cell_of(spec_of(arm)) for arm in ("fixed", "fresh", "fresh-shapes")))
    assert call("--report-only", "--run", tmp_path, "--against", "fresh").exit_code == 0
    assert "`fresh-shapes` minus `fresh`" in (tmp_path / "table.md").read_text()
    refused = call("--report-only", "--run", tmp_path, "--against", "rods")
    assert refused.exit_code == 2
    assert "got 'rods'" in refused.stderr


def test_seeds_are_how_many_or_which():
    assert _seeds("3") == [0, 1, 2]
    assert _seeds("3-5") == [3, 4, 5]
    assert _seeds("1,4") == [1, 4]
    assert _seeds("4,") == [4]
    assert _seeds("1, 3-4, 3") == [1, 3, 4]
    for wrong in ("x", "5-3", "1,-2", "1.5", "3-"):
        with pytest.raises(RodsError, match="--seeds must be"):
            _seeds(wrong)


def test_arms_and_seed_counts_are_lists():
    assert _arms("all") == list(ARMS)
    assert _arms("rods, fixed,rods") == ["rods", "fixed"]
    assert _NAMES.split(", ") == list(ARMS)  # which --help tells without loading them
    assert _counts("50, 400") == [50, 400]
    for wrong in ("", "0", "-5", "a"):
        with pytest.raises(RodsError, match="--seed-counts must be"):
            _counts(wrong)


def test_folders_are_named_after_policies():
    names = ("pointer", "org/Some-Model_1.5", "runs/base/", "..", "/")
    assert [cli_bench_curricula._folder_name(name) for name in names] == [
        "pointer", "Some-Model_1.5", "base", "policy", "policy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--arms", "rod"], "unknown arm 'rod'"),
        (["--seeds", "0"], "expected at least one seed"),
        (["--seeds", "a"], "--seeds must be how many"),
        (["--match", "steps"], "unknown --match 'steps'"),
        (["--match", "tokens", "--arms", "rods"], "--match tokens needs the arm 'fixed'"),
        (["--report-only"], "keeps no finished run"),
        (["--set", "lr"], "expected name=value"),
        (["--policy", ""], "expected a policy"),
        (["--arms", "fixed,rods", "--against", "frsh"], "--against must name arms of --arms, fixed, rods; got 'frsh'"),
        (["--json", "none/x.json"], "there is no folder"),
        (["--arms", "rods"], "made with rollouts 900 and not 40960"),
    ],
)
def test_wrong_use_is_one_sentence_and_code_2(args, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep(tmp_path / "kept", cell_of(spec_of("rods")))
    run = "kept" if args == ["--arms", "rods"] else "new"
    found = call(*args, "--run", run)
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: ")
    assert says in found.stderr
    assert found.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_failed_cell_is_a_sentence_and_code_2(fake, tmp_path):
    (tmp_path / "wish-seeds-50-fixed-s0").write_text("refuse")
    found = call("--arms", "fixed", "--seeds", 1, "--seed-counts", 50, "--rollouts", 900, "--run", tmp_path)
    assert found.exit_code == 2
    assert "Error: seeds-50-fixed-s0: this arm needs what is not there." in found.stderr


def test_a_bar_stands_where_the_grid_stands(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    last = cell_of(spec_of("rods")).checkpoints[-1]
    event = Event("done", spec_of("rods"), last, 3, 9, 60.0, 7300.0, ("a-s0", "b-s1"))
    with _watch(Screen(), 2, 9) as on_event:
        on_event(event)
    shown = capsys.readouterr().err
    assert "3/9" in shown
    assert "about 2.0 h left · running a-s0, b-s1" in shown
    with _watch(Screen(quiet=True), 2, 9) as on_event:
        on_event(event)
    assert capsys.readouterr().err == ""
