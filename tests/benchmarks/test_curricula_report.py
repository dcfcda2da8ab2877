"""The report of the benchmark of curricula: results.json, tables and pictures, from cells that nobody trained."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from curricula_fakes import cell_of, spec_of

from rods_env import RodsError
from rods_env.benchmarks.curricula import plots
from rods_env.benchmarks.curricula.arms import ARMS
from rods_env.benchmarks.curricula.cells import packed
from rods_env.benchmarks.curricula.lines import lines, new_figure, spread, style_of
from rods_env.benchmarks.curricula.report import figures, flat, to_json, write_report
from rods_env.benchmarks.curricula.statistics import interval
from rods_env.benchmarks.curricula.summary import summarize
from rods_env.benchmarks.curricula.tables import brief_tables, tables


def cells_of(arms=("fixed", "random", "rods"), seeds=(0, 1, 2), count=50, **options):
    return [cell_of(spec_of(arm, seed, count), **options) for arm in arms for seed in seeds]


@pytest.fixture(scope="module")
def cells():
    return cells_of() + cells_of(("fixed", "stream"), (0, 1), 400)


def without_seconds(content: bytes):
    return {key: value for key, value in json.loads(content).items() if key != "seconds"}


# ---------------------------------------------------------------------- the figures


def test_the_order_of_cells_does_not_matter_and_times_stand_apart(cells):
    results = to_json(summarize(cells))
    assert to_json(summarize(cells[::-1])) == results
    slower = [msgspec.structs.replace(c, seconds={k: 3 * v for k, v in c.seconds.items()}) for c in cells]
    again = to_json(summarize(slower))
    assert again != results
    assert without_seconds(again) == without_seconds(results)
    assert json.loads(results)["seconds"]["50"]["rods"] == {
        "play": 63.0, "update": 27.0, "curriculum": 3.0, "evaluate": 12.0, "total": 105.0,
    }  # fmt: skip
    keys = list(json.loads(results))
    assert keys == sorted(keys)


def test_an_arm_has_the_figures_of_its_cells(cells):
    arm = summarize(cells).parts[50].arms["rods"]
    ours = [cell for cell in cells if (cell.spec.arm, cell.spec.seed_count) == ("rods", 50)]
    ends = [cell.checkpoints[-1] for cell in ours]
    assert arm.seeds == [0, 1, 2]
    for name in ("seen", "unseen"):
        on = arm.sets[name]
        assert on.final_by_seed == pytest.approx([end.success[name] for end in ends], abs=1e-6)
        assert on.final.value == pytest.approx(np.mean(on.final_by_seed))
        assert on.first == pytest.approx(np.mean([cell.checkpoints[0].success[name] for cell in ours]))
        assert on.best == pytest.approx(np.mean([cell.checkpoints[cell.best].success[name] for cell in ours]))
    assert arm.distinct_tasks == np.mean([end.distinct_tasks for end in ends])
    assert (arm.rollouts, arm.updates, arm.tokens) == (900, 9, 18_000)
    shares = [point.window["zero_variance_share"] for cell in ours for point in cell.checkpoints[1:]]
    assert arm.zero_variance_share == pytest.approx(np.mean(shares))  # not of the start, where nothing was played
    assert arm.groups["zero_variance_share"] == pytest.approx(np.mean(shares[2::3]))
    assert arm.variance_ratio == pytest.approx((7.0 / 60) / (1.6 / 30))
    assert arm.injected == {"groups": 120, "hard": 30, "middle": 66, "mastered": 24, "disagreed": 75}


def test_the_best_checkpoint_is_that_of_the_tuning_set_and_not_of_the_held_out_ones():
    cell = cell_of(spec_of("rods"), points=3)
    first, middle, last = cell.checkpoints
    middle = msgspec.structs.replace(middle, success={"seen": 0.1, "unseen": 0.2, "tuning": 0.99})
    arm = summarize([msgspec.structs.replace(cell, checkpoints=[first, middle, last])]).parts[50].arms["rods"]
    assert (arm.sets["seen"].best, arm.sets["unseen"].best) == (0.1, 0.2)
    assert arm.sets["seen"].final.value == pytest.approx(last.success["seen"], abs=1e-6)


def test_the_target_is_where_fixed_ends_or_what_is_asked_for(cells):
    part = summarize(cells).parts[50]
    assert part.target["seen"] == pytest.approx(part.arms["fixed"].sets["seen"].final.value, abs=1e-6)
    rods, fixed = part.arms["rods"].sets["seen"], part.arms["fixed"].sets["seen"]
    assert max(place or 0 for place in rods.rollouts_to_target) < 300
    assert None in fixed.rollouts_to_target
    reached = [found for found in zip(rods.tasks_to_target, rods.rollouts_to_target, strict=True) if found[1] != 0]
    assert reached  # a run may begin above where those of `fixed` end on average
    assert all(0 < tasks < place for tasks, place in reached)
    assert set(summarize(cells, 0.99).parts[50].arms["rods"].sets["seen"].rollouts_to_target) == {None}
    assert set(summarize(cells, 0.01).parts[50].arms["rods"].sets["seen"].rollouts_to_target) == {0.0}
    assert summarize(cells_of(["rods"])).parts[50].arms["rods"].sets["seen"].rollouts_to_target == []


def test_comparisons_are_every_arm_minus_fixed_and_the_targets(cells):
    results = summarize(cells)
    found = {(c.arm, c.baseline, c.set): c for c in results.parts[50].comparisons}
    assert set(found) == {
        (arm, baseline, name)
        for arm, baseline in (("random", "fixed"), ("rods", "fixed"), ("rods", "random"))
        for name in ("seen", "unseen")
    }
    assert found["rods", "fixed", "seen"].verdict == "reached"
    assert found["rods", "fixed", "seen"].improvement == 1.0
    assert found["rods", "fixed", "seen"].seeds == 3
    assert found["rods", "random", "seen"].wanted == "above 0"
    assert results.failures() == []
    apart = summarize(cells_of(["fixed"], (1, 2)) + cells_of(["rods"], (1,)) + cells_of(["rods"], (0, 5), gain=0.0))
    assert {(c.seeds, c.improvement) for c in apart.parts[50].comparisons} == {(1, 1.0)}  # of the seed of both
    dapo = summarize(cells_of(["fixed", "dapo"])).parts[50].comparisons
    assert [(c.arm, c.wanted, c.verdict) for c in dapo] == [("dapo", "", "")] * 2


def test_differences_from_any_other_arm_are_told_on_request(cells):
    asked = summarize(cells, against=["random"])
    plain = summarize(cells).parts[50].comparisons
    found = asked.parts[50].comparisons
    assert found[: len(plain)] == plain
    more = [(c.arm, c.baseline, c.set, c.wanted, c.required) for c in found[len(plain) :]]
    assert more == [("fixed", "random", name, "", False) for name in ("seen", "unseen")]  # that of rods is a target
    mirror = {(c.arm, c.baseline, c.set): c.final.value for c in found}
    assert mirror["fixed", "random", "seen"] == pytest.approx(-mirror["random", "fixed", "seen"])
    assert asked.parts[400] == summarize(cells).parts[400]  # where there is no such arm
    text = tables(asked)
    assert "### Further differences with 50 seeds" in text
    assert f"| `fixed` minus `random` | seen | 3 | {mirror['fixed', 'random', 'seen']:+.3f} [" in text
    assert "Further differences with 400 seeds" not in text
    assert "Further differences" not in tables(summarize(cells))
    with pytest.raises(RodsError, match="one of the arms fixed, random, rods, stream; got 'fresh'"):
        summarize(cells, against=["fresh"])


def test_a_target_that_is_clearly_missed_fails():
    cells = cells_of(["fixed"], gain=0.4) + cells_of(["rods", "rods-mean"], gain=0.1) + cells_of(["random"], gain=0.6)
    failures = summarize(cells).failures()
    assert len(failures) == 2 * 3  # on both sets rods, rods-mean minus fixed, rods minus random; no others
    assert "50 seeds: rods minus fixed on seen shapes must be above 0; it is -0." in failures[0] + failures[2]
    assert not any("rods-mean minus random" in sentence for sentence in failures)


def test_flat_figures_say_the_same(cells):
    results = summarize(cells)
    found = figures(cells)
    assert found == flat(results)
    assert all(isinstance(value, float) for value in found.values())
    seen = results.parts[400].arms["stream"].sets["seen"]
    assert found["400/stream/seen/final_success"] == pytest.approx(seen.final.value, abs=1e-6)
    assert found["400/stream/seen/final_success_low"] == pytest.approx(seen.final.low, abs=1e-6)
    assert found["50/rods_minus_fixed/unseen/final_success_high"] > 0.1
    assert found["50/rods/play_s"] == 63.0
    assert "50/stream/seen/final_success" not in found
    assert "400/stream/last/frontier_share" not in found  # it has no pool


def test_tasks_that_all_seeds_share_widen_the_interval():
    cells = cells_of(["rods"], range(6), gain=0.2, digests={"seen": "x", "unseen": "y"})
    unknown = [msgspec.structs.replace(cell, digests={}) for cell in cells]
    same, apart = (summarize(found).parts[50].arms["rods"].sets["seen"].final for found in (cells, unknown))
    assert apart.value == same.value
    assert same.high - same.low > 1.2 * (apart.high - apart.low)


@pytest.mark.parametrize(
    ("others", "says"),
    [({"rollouts": 100}, "several rollouts"), ({"settings": '{"lr":"1"}'}, "several settings")],
)
def test_cells_that_do_not_belong_together_are_refused(others, says):
    with pytest.raises(RodsError, match=says):
        summarize([cell_of(spec_of("fixed")), cell_of(spec_of("rods", **others))])
    with pytest.raises(RodsError, match="no finished cell"):
        summarize([])


# ---------------------------------------------------------------------- tables and pictures


def test_tables_hold_the_figures(cells):
    results = summarize(cells)
    text = tables(results)
    rods = results.parts[50].arms["rods"].sets["seen"].final
    row = next(line for line in text.splitlines() if line.startswith("| `rods` | 3 |"))
    assert f"| {rods.value:.3f} [{rods.low:.3f}, {rods.high:.3f}] |" in row
    assert text.count("## 50 seeds") == 1 == text.count("### Targets with 400 seeds")
    assert "| `rods` minus `fixed` | seen | 3 | above 0 | +0." in text
    for block in text.split("\n\n"):  # every row of a table has as many cells as its head
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1
    brief = list(brief_tables(results))
    assert [title for title, *_ in brief][:2] == ["Success at the end, 50 seeds", "Targets, 50 seeds"]
    assert all(len(row) == len(heads) for _, heads, rows in brief for row in rows)


@pytest.mark.parametrize(
    ("policy", "runs", "few"),
    [("pointer", 3, ", with 3 of 10 runs"), ("pointer", 10, ""), ("tiny", 4, ", with 4 of 5 runs"), ("tiny", 5, "")],
)
def test_a_target_with_few_runs_says_so(policy, runs, few):
    specs = [spec_of(arm, seed) for arm in ("fixed", "rods") for seed in range(runs)]
    results = summarize([cell_of(msgspec.structs.replace(spec, policy=policy)) for spec in specs])
    assert f"| **reached{few}** |" in tables(results)
    assert [row[-1] for row in list(brief_tables(results))[1][2]] == [f"reached{few}"] * 2


def test_what_is_not_equal_is_written_down():
    text = tables(summarize([cell_of(spec_of("fixed")), cell_of(spec_of("rods"), points=2)]))
    assert "What is not equal" not in text
    unequal = cell_of(spec_of("rods"))
    last = msgspec.structs.replace(unequal.checkpoints[-1], updates=5)
    cells = [cell_of(spec_of("fixed")), msgspec.structs.replace(unequal, checkpoints=[last])]
    assert "equally many updates; rods has 5, fixed 9." in tables(summarize(cells))
    assert summarize(cells).failures()


def test_arms_that_begin_from_other_policies_are_written_down():
    specs = [spec_of(arm, seed) for seed in (0, 1) for arm in ("fixed", "rods", "stream")]
    cells = [cell_of(spec) for spec in specs]
    assert not summarize(cells).begun_apart
    first = cells[4].checkpoints[0]
    solved = cells[4].solved(0, "unseen")
    solved[:3] = ~solved[:3]
    other = msgspec.structs.replace(first, outcomes={**first.outcomes, "unseen": packed(solved)})
    cells[4] = msgspec.structs.replace(cells[4], checkpoints=[other, *cells[4].checkpoints[1:]])
    results = summarize(cells)
    (sentence,) = results.begun_apart
    assert sentence.startswith("50 seeds, seed 1: the arms began from 2 policies (up to 3 of 400 held-out tasks ")
    assert f"## What is not equal\n\n* {sentence}" in tables(results)
    assert not [failure for failure in results.failures() if "began" in failure]


@pytest.mark.parametrize("points", [1, 2])
def test_one_arm_and_one_run_are_reported(tmp_path, points, monkeypatch):
    if points > 1:  # drawing a single point is where it may break, and takes its time
        monkeypatch.setattr(plots, "draw", lambda *_: [])
    (cell,) = cells_of(["sft-more"], [4], points=points, tasks=5)
    still = [msgspec.structs.replace(point, window={**point.window, "groups": 0.0}) for point in cell.checkpoints]
    cell = msgspec.structs.replace(cell, checkpoints=still, bands=dict.fromkeys(cell.bands, 0.0))
    made = write_report(tmp_path, [cell], summarize([cell]))
    assert {path.name for path in made} == {path.name for path in tmp_path.iterdir()}
    assert "There is one run of each arm" in (tmp_path / "table.md").read_text()
    assert summarize([cell]).parts[50].arms["sft-more"].zero_variance_share is None


def test_pictures_are_small_and_whole(tmp_path):
    cells = [*cells_of(["fixed", "rods"], (0, 1)), cell_of(spec_of("rods:budget=8"), gain=0.2)]
    results = summarize(cells)
    made = plots.draw(tmp_path, cells, results)
    names = ("curves", "arms", "groups", "target", "profile")
    assert [path.name for path in made] == [f"{name}-50.png" for name in names]
    for path in made:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.read_bytes().rstrip().endswith(b"IEND\xaeB`\x82")
        assert 4_000 < path.stat().st_size < 200_000
    assert sorted(tmp_path.iterdir()) == sorted(made)


def test_a_panel_leaves_the_first_climb_out_if_it_would_hide_the_differences():
    def curve(*heights):
        cell = cell_of(spec_of("fixed"), points=len(heights))
        points = [
            msgspec.structs.replace(point, success={"seen": height, "unseen": height, "tuning": height})
            for point, height in zip(cell.checkpoints, heights, strict=True)
        ]
        return {"fixed": [msgspec.structs.replace(cell, checkpoints=points)]}

    def panel(runs, **options):
        _, (axes,) = new_figure(6, 4, 1)
        lines(axes, runs, lambda point: point.success["seen"], **options)
        return axes.get_ylim()[0], axes.get_xlabel()

    steep, even = curve(0.1, 0.6, 0.63, 0.65), curve(0.2, 0.3, 0.5, 0.7)
    low, label = panel(steep, from_start=False)
    assert 0.55 < low < 0.6
    assert label == "rollouts; at 0, below the panel: 0.100"
    assert panel(steep)[0] < 0.1
    assert panel(even, from_start=False)[0] < 0.2
    assert panel(curve(0.5), from_start=False)[0] < 0.5


def test_every_arm_looks_different():
    styles = [style_of(arm, list(ARMS)) for arm in ARMS]
    assert len(set(styles)) == len(ARMS)
    assert style_of("new", ["fixed", "new"]) not in styles
    assert style_of("new", ["new", "newer"]) != style_of("newer", ["new", "newer"])


def test_labels_keep_a_gap_stay_in_order_and_move_no_more_than_they_must():
    assert spread([0.1, 0.5, 0.9], 0.1, 0, 1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5], 0.1, 0, 1) == pytest.approx([0.45, 0.55])
    assert spread([0.99, 1.0], 0.1, 0, 1) == pytest.approx([0.9, 1.0])
    rng = np.random.default_rng(1)
    for _ in range(50):
        heights = np.sort(rng.random(15) ** 3)
        places = np.array(spread(heights.tolist(), 0.05, 0, 1))
        assert np.diff(places).min() >= 0.05 - 1e-9
        assert places.min() >= -1e-9
        assert places.max() <= 1 + 1e-9


def test_intervals_of_the_summary_are_those_of_the_statistics(cells):
    from rods_env.benchmarks.curricula.statistics import difference, final_values

    runs = {arm: [c for c in cells if (c.spec.arm, c.spec.seed_count) == (arm, 50)] for arm in ("rods", "random")}
    expected = interval(difference(runs["rods"], runs["random"], "unseen", final_values))
    comparisons = summarize(cells).parts[50].comparisons
    found = next(c for c in comparisons if (c.baseline, c.set) == ("random", "unseen"))
    assert found.final == expected
