"""The live view: what it says about a run, wide and narrow, on a terminal and off it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from rods_env.cli_live import Progress, View, duration, panel, plain_line, pool_words, sparkline
from rods_env.cli_screen import Screen


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def row(step: int, **more: Any) -> dict[str, Any]:
    return {
        "step": step, "return_mean": 0.4 + step / 100, "success_mean": 0.25, "zero_variance_share": 0.375,
        "frontier_share": 0.5, "tokens_per_s": 21345.6, "generate_s": 6.0, "environment_s": 1.0, "train_s": 3.0,
        "seconds": 10.0, "crashed": 0, "curriculum/pool_seeds": 400, "curriculum/pool_synthetic": 35,
        "curriculum/calls_mean": 5.61, "curriculum/turns_mean": 2.14, **more,
    }  # fmt: skip


def played(steps: int = 20, of: int = 50) -> tuple[Progress, Clock]:
    clock = Clock()
    progress = Progress(of, clock)
    clock.now += 30
    progress.take({"step": 0, "heldout_success": 0.25})
    for step in range(1, steps + 1):
        clock.now += 10
        progress.take(row(step, **({"heldout_success": 0.375} if step == 20 else {})))
    return progress, clock


def shown(progress: Progress, width: int, **options: Any) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(panel(progress, width, **options))
    return console.export_text()


def test_time_left_counts_from_the_first_step() -> None:
    progress, clock = played()
    assert progress.elapsed == 230
    assert progress.left == pytest.approx(300)  # 30 steps of 10 s: the evaluation before training does not count
    clock.now += 20  # it takes longer
    assert progress.left == pytest.approx(330)


def test_time_left_without_an_evaluation_before() -> None:
    clock = Clock()
    progress = Progress(3, clock)
    assert progress.left is None
    clock.now += 50  # loading, say
    progress.take(row(1))
    assert progress.left == pytest.approx(20)


def test_rows_of_before_a_resume_count_as_steps_but_not_as_time() -> None:
    clock = Clock()
    progress = Progress(4, clock)
    for before in ({"step": 0, "heldout_success": 0.25}, row(1), row(2)):
        progress.know(before)
    assert (progress.step, progress.earlier, progress.heldout, progress.left) == (2, 20.0, [(0, 0.25)], None)
    clock.now += 10
    progress.take(row(3))
    assert progress.left == pytest.approx(10)


def test_the_panel_says_what_the_rows_say() -> None:
    text = shown(played()[0], 100)
    for words in (
        "step 20 of 50 · 4 min · about 5 min left", "return", "0.600", "mean of the last 10 steps: 0.555",
        "held-out success  0.375", "at step 20; 0.250 before: +12.5 points", "zero variance      0.38",
        "frontier           0.50", "400 seeds and 35 made tasks; of late 2.1 turns and 5.6 calls a task",
        "21,346 tokens/s; time: generate 60%, environment 10%, train 30%",
    ):  # fmt: skip
        assert words in text
    assert "crashed" not in text
    assert "━" * 78 in text
    assert "█" in text


def test_before_the_first_step_the_panel_says_what_is_done() -> None:
    assert "playing the first episodes" in shown(Progress(5, Clock()), 80)
    assert "evaluating" in shown(Progress(5, Clock()), 80, doing="evaluating")


def test_crashes_are_shown() -> None:
    progress, _ = played()
    progress.take(row(21, crashed=2))
    assert "2 episodes, left out" in shown(progress, 100)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_lost(width: int) -> None:
    text = shown(played()[0], width)
    assert max(map(len, text.splitlines())) <= width
    assert all(figure in text for figure in ("0.600", "0.375", "0.38", "0.50"))
    assert ("█" in text) == (width >= 80)  # no room for curves


def test_without_unicode_the_panel_is_ascii_but_for_the_dots() -> None:
    text = shown(played()[0], 100, unicode=False)
    assert text.replace("·", "").isascii()
    assert "===" in text


def test_a_row_with_a_step_only_is_enough() -> None:
    progress = Progress(2, Clock())
    progress.take({"step": 1})
    assert "step 1 of 2" in shown(progress, 80)
    assert plain_line({"step": 1}, progress).startswith("step 1/2")


def test_what_is_played_in_words() -> None:
    assert pool_words({}) == ""
    assert pool_words(row(1, **{"curriculum/pool_synthetic": 0})).startswith("400 seeds; of late")
    assert pool_words(row(1, **{"curriculum/pool_synthetic": 0}), fresh=True).startswith("new variants of 400 seeds")


def test_sparklines() -> None:
    assert sparkline([0.0, 1.0], 10) == "▁█"
    assert sparkline([0.0, 0.25, 1.0], 10, 0.0, 1.0) == "▁▃█"
    assert sparkline([float(n) for n in range(100)], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.3, 0.3], 5) == "▁▁"
    assert sparkline([-1.0, 2.0], 5, 0.0, 1.0) == "▁█"
    assert sparkline([], 5) == sparkline([1.0], 0) == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (150, "2 min"), (5940, "99 min"), (11100, "3 h 05 min")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def screen(*, terminal: bool, quiet: bool = False) -> Screen:
    found = Screen(quiet)
    found.console = Console(file=io.StringIO(), force_terminal=terminal, width=100, _environ={"TERM": "xterm"})
    return found


def written(some: Screen) -> str:
    assert isinstance(some.console.file, io.StringIO)
    return some.console.file.getvalue()


@pytest.mark.parametrize("quiet", [True, False])
def test_off_a_terminal_plain_lines_come_now_and_then(quiet: bool) -> None:
    place = screen(terminal=quiet, quiet=quiet)  # a quiet one is plain on a terminal too
    view = View(place, 7, every=3, clock=Clock())
    with view.open():
        view({"step": 0, "heldout_success": 0.25})
        for step in range(1, 8):
            view(row(step, **({"heldout_success": 0.5} if step == 4 else {})))
    lines = [line.split("\t") for line in written(place).splitlines()]
    assert [line[0] for line in lines] == ["step 0/7", "step 3/7", "step 4/7", "step 6/7", "step 7/7"]
    assert lines[0][1] == "held-out 0.250"
    assert lines[2][1:10] == [
        "return 0.440", "success 0.250", "held-out 0.500", "equal 0.375", "frontier 0.500", "tokens/s 21346",
        "generate 0.60", "environment 0.10", "train 0.30",
    ]  # fmt: skip


def test_long_runs_have_about_fifty_plain_lines() -> None:
    place = screen(terminal=False)
    view = View(place, 1000, clock=Clock())
    for step in range(1, 1001):
        view(row(step))
    assert len(written(place).splitlines()) == 50


def test_on_a_terminal_the_panel_is_drawn_and_stays() -> None:
    place = screen(terminal=True)
    view = View(place, 2, clock=Clock())
    view.say("evaluating")
    with view.open():
        view({"step": 0, "heldout_success": 0.25})
        view(row(1))
        view(row(2, heldout_success=0.5))
    text = written(place)
    assert "evaluating" in text.partition("step 1 of 2")[0]
    assert "step 2 of 2" in text.rpartition("step 1 of 2")[2]
    assert "\t" not in text


def test_the_panel_ends_in_order_when_the_run_fails() -> None:
    place = screen(terminal=True)
    view = View(place, 2, clock=Clock())

    def stopped() -> None:
        with view.open():
            view(row(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert written(place).endswith("\x1b[?25h")  # the cursor is back
