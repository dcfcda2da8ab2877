"""`rods-env bench training`: a small run before and after, resumed instead of repeated, and what it says."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rods_env import RodsError
from rods_env.agents.warmup import make_base
from rods_env.benchmarks.training import Result, failures, figures, run_all, table
from rods_env.cli import app


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "small"
    options = {"width": 32, "layers": 1, "heads": 2, "kv_heads": 1, "inner": 64}
    make_base(folder, steps=1, batch=2, word_tasks=20, model_options=options, score=lambda _: {})
    return {
        "policy": str(folder), "steps": 2, "group_size": 2, "groups_per_step": 2, "heldout_limit": 2, "tasks_limit": 4,
        "slots": 4, "threads": 1,
    }  # fmt: skip


def result(seed=0, before=0.25, after=0.45):
    names = "heldout, sampled", "heldout, greedy", "short, sampled", "short, greedy"
    return Result(seed, 150, 19200, 300.0, dict.fromkeys(names, before), dict.fromkeys(names, after), (0.5, 0.25))


def test_runs_are_made_once_and_measured_before_and_after(small, tmp_path):
    rows = []

    def on_row(seed, row):
        rows.append((seed, row["step"]))

    (first,) = run_all([3], tmp_path, overrides=small, limit=2, on_row=on_row)
    assert rows == [(3, 0), (3, 1), (3, 2)]
    assert (first.steps, first.rollouts) == (2, 8)
    assert first.before.keys() == first.after.keys() == result().after.keys()
    assert run_all([3], tmp_path, overrides=small, limit=2, on_row=lambda *_: pytest.fail("played again")) == [first]
    with pytest.raises(RodsError, match="of other settings"):
        run_all([3], tmp_path, overrides={**small, "learning_rate": 1e-3}, limit=2)


def test_what_gains_too_little_is_said():
    assert not failures([result()])
    assert "seed 1" in failures([result(), result(1, after=0.39)])[0]


def test_the_table_and_the_figures_say_the_same():
    lines = table([result()]).splitlines()
    assert lines[-1].startswith("| 0 | 0.250 → 0.450 (**+20.0** points) |")
    assert lines[-1].endswith("| 5.0 | 0.50 → 0.25 |")
    assert figures([result()])["seed_0/gain_points"] == pytest.approx(20.0)
    assert figures([result()])["seed_0/after/short/greedy"] == 0.45


def test_the_command_prints_the_table_and_fails_where_too_little_was_gained(small, tmp_path):
    options = [word for name, value in small.items() for word in ("--set", f"{name}={value}")]
    args = ["bench", "training", "--seeds", "3", "--run", str(tmp_path), "--limit", "2", "--quiet", *options]
    done = CliRunner().invoke(app, [*args, "--json", str(tmp_path / "figures.json")])
    gain = json.loads((tmp_path / "figures.json").read_bytes())["seed_3/gain_points"]
    assert "| seed | held-out (1,000 long tasks), sampled |" in done.output
    assert done.exit_code == int(gain < 15)


def test_wrong_seeds_are_refused(tmp_path):
    with pytest.raises(RodsError, match="at least one seed"):
        run_all([], tmp_path)
    done = CliRunner().invoke(app, ["bench", "training", "--seeds", "a"])
    assert done.exit_code == 2 or isinstance(done.exception, RodsError)
