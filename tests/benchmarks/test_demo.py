"""The curriculum demo: what must hold with the simulated learner, the runs, the picture, the command."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from rods_env.benchmarks import demo
from rods_env.benchmarks.curriculum import RenamingStub
from rods_env.benchmarks.demo_picture import figure
from rods_env.cli_curriculum import curriculum, what_to_see
from rods_env.errors import RodsError
from rods_env.tasks.drawing import pixels
from rods_env.tasks.task import Task, load_tasks

SEEDS, GROUPS = 5, 3000
ROUND = 400  # groups until every seed was played once, which no curriculum can choose
FIGURES = {
    "zero_variance_share", "zero_variance_change", "all_zero_share", "settled_share", "all_one_share", "frontier_share",
    "injected_total", "injected_variance_share", "heldout_success", "heldout_success_at_start", "calls_ratio",
    "turns_ratio", "distinct_seeds_ratio", "synthesis_s", "curriculum_s", "learner_s",
}  # fmt: skip


@cache
def sets() -> dict[str, list[Task]]:
    """Loaded once, so that the profiles are derived once."""
    return {"tasks": load_tasks("seeds"), "heldout": load_tasks("heldout")}


def quick(arms: list[str], **options: Any) -> demo.Demo:
    """Runs with variants that cost nothing: the learner looks at profiles only."""
    return demo.run(arms, **{"groups": 200, "synthesizer": lambda _: RenamingStub(), **sets(), **options})


@cache
def played(arm: str) -> demo.Demo:
    return quick([arm], seeds=SEEDS, groups=GROUPS, every=GROUPS)


def figures(arm: str, name: str) -> np.ndarray[Any, Any]:
    return np.array(played(arm).by_arm()[arm][name])


@pytest.fixture(scope="module")
def small() -> demo.Demo:
    return quick(["fixed", "stream", "rods"], seeds=2, groups=600)


@pytest.fixture(scope="module")
def all_arms() -> demo.Demo:
    return quick(list(demo.ARMS), groups=100)


# ---------------------------------------------------------------------- what must hold, of five seeds


@pytest.mark.parametrize(("arm", "most"), [("sharp", 0.5), ("frontier", 0.65)])
def test_a_frontier_has_fewer_groups_without_variance_than_fixed_data(arm: str, most: float) -> None:
    """The sharper rule has the fewest; the default is milder, as trained policies learn more with it."""
    assert figures(arm, "zero_variance_share").mean() <= most * figures("fixed", "zero_variance_share").mean()


@pytest.mark.parametrize("arm", ["sharp", "frontier"])
def test_the_share_of_groups_without_variance_does_not_rise_over_the_run(arm: str) -> None:
    assert figures(arm, "zero_variance_change").mean() < 0


def test_nor_does_it_rise_after_the_first_round() -> None:
    """But for the little that comes of seeds that are mastered meanwhile: less than half of what fixed data rise by."""

    def rise(arm: str) -> float:
        halves = [np.array_split(run.variance[ROUND:] == 0.0, 2) for run in played(arm).runs[arm]]
        return float(np.mean([late.mean() - early.mean() for early, late in halves]))

    assert rise("fixed") > 0.03
    assert rise("frontier") < 0.5 * rise("fixed")


def test_the_pool_has_fewer_groups_without_variance_than_fixed_data() -> None:
    """Not half: its seeds, which are half of it, are played whether they agree or not."""
    assert (figures("rods", "zero_variance_share") < 0.92 * figures("fixed", "zero_variance_share")).all()
    assert figures("rods", "zero_variance_change").mean() < 0.03


def test_the_rule_about_means_plays_more_that_is_settled() -> None:
    assert (figures("rods-mean", "settled_share") > figures("rods", "settled_share")).all()
    assert figures("rods-mean", "settled_share").mean() > 1.2 * figures("rods", "settled_share").mean()


def test_the_rule_about_means_lets_the_settled_share_rise() -> None:
    def rise(arm: str) -> float:
        settled = [run.kinds()["settled"] for run in played(arm).runs[arm]]
        return float(np.mean([each[GROUPS // 2 :].mean() - each[: GROUPS // 2].mean() for each in settled]))

    assert rise("rods-mean") > max(rise("rods"), 0.02)


@pytest.mark.parametrize("arm", ["frontier", "rods"])
def test_new_variants_disagree_in_their_first_group(arm: str) -> None:
    assert (figures(arm, "injected_variance_share") >= 0.60).all()


@pytest.mark.parametrize("arm", ["frontier", "rods"])
@pytest.mark.parametrize("name", ["calls_ratio", "turns_ratio", "distinct_seeds_ratio"])
def test_what_is_played_keeps_the_variety_of_the_seeds(arm: str, name: str) -> None:
    assert (np.abs(figures(arm, name) - 1.0) <= 0.10).all()


def test_the_learner_learns_without_finishing_and_most_where_groups_differ() -> None:
    start, fixed, frontier = figures("fixed", "heldout_success_at_start"), *(
        figures(arm, "heldout_success") for arm in ("fixed", "frontier")
    )  # fmt: skip
    assert (start + 0.05 < fixed).all()
    assert (fixed < frontier).all()
    assert frontier.max() < 0.6


# ---------------------------------------------------------------------- runs


def test_equal_seeds_give_equal_runs() -> None:
    one, same, other = (quick(["rods"], groups=450, seed=seed) for seed in (4, 4, 5))
    for name in demo.Run._fields[:-1]:
        assert np.array_equal(getattr(one.runs["rods"][0], name), getattr(same.runs["rods"][0], name))
    assert not np.array_equal(one.runs["rods"][0].mean, other.runs["rods"][0].mean)


def test_run_k_of_several_is_the_run_of_its_seed() -> None:
    several, alone = quick(["stream"], seeds=2, seed=3), quick(["stream"], seed=4)
    assert np.array_equal(several.runs["stream"][1].mean, alone.runs["stream"][0].mean)


@pytest.mark.parametrize("arm", demo.ARMS)
def test_every_arm_runs(arm: str, all_arms: demo.Demo) -> None:
    run = all_arms.runs[arm][0]
    assert len(run.mean) == len(run.variance) == len(run.first) == 100
    assert ((run.mean >= 0) & (run.mean <= 1) & (run.variance <= run.mean * (1 - run.mean) + 1e-12)).all()
    assert (run.root >= 0).all()
    assert run.pool.sum(axis=1).min() > 0 or arm == "offline"  # whose pool is empty before the first group
    kinds = run.kinds()
    assert np.array_equal(sum(kinds.values()), run.variance == 0)  # each is of one kind


def test_real_variants_give_the_same_run_but_for_the_seconds() -> None:
    """The learner looks at profiles, and variants keep them."""
    real, stub = demo.run(["stream"], groups=150, **sets()), quick(["stream"], groups=150)
    for name in ("mean", "variance", "calls", "root", "first", "success"):
        assert np.array_equal(getattr(real.runs["stream"][0], name), getattr(stub.runs["stream"][0], name))
    assert real.runs["stream"][0].seconds["synthesis"] > stub.runs["stream"][0].seconds["synthesis"]


def test_looks(small: demo.Demo) -> None:
    fixed, rods, stream = (small.runs[arm][0] for arm in ("fixed", "rods", "stream"))
    assert fixed.looks.tolist() == [0, 100, 200, 300, 400, 500, 600]
    assert (fixed.pool == [400, 0, 0, 0]).all()
    assert fixed.success[0] == rods.success[0] == stream.success[0]
    assert rods.pool[0].tolist() == [400, 0, 0, 0]
    assert rods.pool[-1, 1] > 0
    assert (fixed.keeps_made, rods.keeps_made, stream.keeps_made) == (True, True, False)
    assert not fixed.first.any()
    assert stream.first.all()
    assert len(set(fixed.root[:400].tolist())) == 400


def test_progress_counts_every_group_once() -> None:
    told: list[int | str] = []
    quick(["fixed", "rods"], groups=150, seeds=2, progress=told.append)
    assert sum(n for n in told if isinstance(n, int)) == 2 * 2 * 150
    words = [word for word in told if isinstance(word, str)]
    assert words == ["fixed, seed 0", "fixed, seed 1", "rods, seed 0", "rods, seed 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arms": ["fixed", "nope"]}, "unknown curriculum 'nope': expected one of fixed, dapo"),
        ({"arms": []}, "at least one curriculum"),
        ({"seeds": 0}, "seeds must be an integer of at least 1; got 0"),
        ({"groups": 99}, "groups must be an integer of at least 100; got 99"),
        ({"group_size": 1}, "group_size must be an integer of at least 2; got 1"),
        ({"seed": -1}, "seed must be"),
        ({"every": 0}, "every must be"),
    ],
)
def test_wrong_use_is_told_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RodsError, match=message):
        demo.run(**options)


# ---------------------------------------------------------------------- figures


def test_figures_are_those_of_the_second_half() -> None:
    mean = np.array([0.0, 0.5, 1.0, 0.5, 0.5, 0.5, 1.0, 0.0])
    variance = np.array([0.0, 0.1, 0.0, 0.1, 0.0, 0.1, 0.0, 0.1])
    first = np.array([False, True, True, False, True, False, False, True])
    looks, row = np.array([0, 8]), np.array([0.25, 0.75])
    root, pool = np.array([0, 1, 2, 3, 0, 0, 1, -1]), np.array([[4, 0, 0, 0]] * 2)
    calls, turns = np.arange(8.0), np.ones(8)
    run = demo.Run(mean, variance, calls, turns, root, first, looks, row, row, pool, {"learner": 1.5})
    found = demo.figures_of(run, demo.Demo({"x": [run]}, 8, 2, 0, calls=11.0, turns=2.0, tasks=4))
    assert found == {
        "zero_variance_share": 0.5, "zero_variance_change": 0.0, "all_zero_share": 0.0, "settled_share": 0.25,
        "all_one_share": 0.25, "frontier_share": 0.75, "injected_total": 4.0, "injected_variance_share": 0.5,
        "heldout_success": 0.75, "heldout_success_at_start": 0.25, "calls_ratio": 0.5, "turns_ratio": 0.5,
        "distinct_seeds_ratio": 0.5, "learner_s": 1.5,
    }  # fmt: skip


def test_figures_are_flat(small: demo.Demo) -> None:
    flat = small.figures()
    keys = {f"{arm}_{name}{end}" for arm in small.runs for name in FIGURES for end in ("", "_low", "_high")}
    assert set(flat) == keys | {"groups", "group_size", "seed"}
    assert all(type(value) is float for value in flat.values())
    for arm, figures in small.by_arm().items():
        for name, values in figures.items():
            assert flat[f"{arm}_{name}_low"] == min(values)
            assert flat[f"{arm}_{name}"] == pytest.approx(np.mean(values))


def test_moving_means_and_landings(small: demo.Demo) -> None:
    values = np.random.default_rng(0).random(50)
    assert np.allclose(demo.moving(values, 7), [values[k : k + 7].mean() for k in range(44)])
    run = small.runs["stream"][0]
    found = demo.landings(run, 5)
    assert found["differ"].sum() == (run.variance > 0).sum()
    assert found["agree"].sum() == (run.variance == 0).sum()
    assert found["agree"][-1] == ((run.variance == 0) & (run.mean >= 0.8)).sum()


# ---------------------------------------------------------------------- the picture and the command


@pytest.mark.parametrize(
    "arms", [["fixed"], ["stream", "fresh"], ["fixed", "rods", "rods-mean"], list(demo.ARMS)], ids=len
)
def test_the_picture_shows_every_arm_and_fits(arms: list[str], all_arms: demo.Demo) -> None:
    picture = figure(all_arms._replace(runs={arm: all_arms.runs[arm] for arm in arms}))
    drawn = pixels(picture)
    assert drawn.shape[1] == 1100
    texts = [text.get_text() for text in picture.texts]
    for arm in arms:
        assert f"━ {arm}" in texts
    assert len(picture.axes) == 7
    assert all(axes.get_title(loc="left") for axes in picture.axes)
    lowest = min(text.get_window_extent().y0 for text in picture.texts)
    assert lowest > max(axes.get_tightbbox().y1 for axes in picture.axes)  # the legend stands above all panels


def test_the_picture_of_several_seeds_shows_their_range(small: demo.Demo) -> None:
    picture = figure(small)
    assert any("2 seeds: mean and range" in text.get_text() for text in picture.texts)
    assert len(picture.axes[0].collections) == len(small.runs)  # bands


def call(*args: object) -> Any:
    return CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(curriculum, ["demo", *map(str, args)])


def test_the_command_prints_a_table_and_writes_figures_and_picture(tmp_path: Path) -> None:
    json, png = tmp_path / "f.json", tmp_path / "p.png"
    found = call("--arms", "fixed, rods", "--groups", 100, "--json", json, "--png", png)
    assert found.exit_code == 0, found.output
    assert "…" not in found.stdout
    for word in ("fixed", "rods", "equal", "settled", "held-out", "seeds", "What to see: ", str(png.name)):
        assert word in found.stdout
    figures = msgspec.json.decode(json.read_bytes(), type=dict[str, float])
    assert figures["groups"] == 100
    assert {f"rods_{name}" for name in FIGURES} <= set(figures)
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_command_is_quiet_if_asked() -> None:
    found = call("--arms", "fixed", "--groups", 100, "--seeds", 2, "--group-size", 4, "--seed", 5, "--quiet")
    assert found.exit_code == 0, found.output
    *rows, sentence = found.stdout.splitlines()
    assert [row.split("\t")[0] for row in rows] == ["fixed", "fixed least", "fixed most"]
    assert {len(row.split("\t")) for row in rows} == {10}
    assert sentence.startswith("What to see: ")


def test_the_command_refuses_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for args, message in (
        (["--arms", "nope"], "unknown curriculum 'nope'"),
        (["--arms", ","], "at least one"),
        (["--json", tmp_path], "it is a folder"),
        (["--png", tmp_path / "no" / "p.png"], "there is no folder"),
    ):
        found = call(*args)
        assert isinstance(found.exception, RodsError)
        assert message in str(found.exception)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'rods-env[plot]'" in str(call("--png", tmp_path / "p.png").exception)


def test_the_sentence_names_what_is_there(small: demo.Demo) -> None:
    two = small._replace(runs={arm: small.runs[arm] for arm in ("stream", "fixed")})
    assert "of the groups of 'fixed' teach nothing, and" in what_to_see(two)
    assert "settled" not in what_to_see(two)
    assert "settled" in what_to_see(quick(["rods", "rods-mean"]))
    assert ", and" not in what_to_see(quick(["fixed"]))
