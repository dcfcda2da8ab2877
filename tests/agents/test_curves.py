"""The picture of a run, and the metrics it is drawn from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rods_env.agents.curves import draw, figure, read_metrics, smoothed
from rods_env.errors import RodsError


def rows(steps: int = 40) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"step": 0, "heldout_success": 0.2}]
    for step in range(1, steps + 1):
        row = {"step": step, "return_mean": step / 100, "zero_variance_share": 0.5, "frontier_share": 0.4}
        found.append({**row, "heldout_success": 0.2 + step / 200} if step % 10 == 0 else row)
    return found


def write(folder: Path, some: list[dict[str, Any]], more: str = "") -> None:
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in some) + more)


def test_metrics_are_read_back_without_a_torn_last_line(tmp_path: Path) -> None:
    write(tmp_path, rows(), '{"step": 41, "retu')
    assert read_metrics(tmp_path / "metrics.jsonl") == rows()


@pytest.mark.parametrize(("line", "match"), [("{]\n", "line 42 is no JSON object"), ("{}\n", "line 42 has no whole")])
def test_broken_lines_are_refused(tmp_path: Path, line: str, match: str) -> None:
    write(tmp_path, rows(), line)
    with pytest.raises(RodsError, match=match):
        read_metrics(tmp_path / "metrics.jsonl")
    with pytest.raises(RodsError, match="cannot read the metrics"):
        read_metrics(tmp_path / "nothing.jsonl")


def test_the_mean_moves() -> None:
    assert smoothed([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]
    assert smoothed([1.0, 2.0], 1) == [1.0, 2.0]


def test_the_figure_shows_every_curve_at_its_steps() -> None:
    upper, lower = figure(rows(), "my run").axes
    labels = [text.get_text() for axes in (upper, lower) for text in axes.get_legend().get_texts()]
    assert [label.partition(" (")[0] for label in labels] == [
        "return in training", "success on held-out tasks", "groups whose rollouts all end alike",
        "tasks on the frontier",
    ]  # fmt: skip
    heldout = next(line for line in upper.lines if line.get_label() == "success on held-out tasks")
    assert list(heldout.get_xdata()) == [0, 10, 20, 30, 40]
    assert list(heldout.get_ydata()) == pytest.approx([0.2, 0.25, 0.3, 0.35, 0.4])
    assert {text.get_text() for text in upper.texts} == {"0.200", "0.400"}
    assert list(upper.lines[0].get_ydata()) == [step / 100 for step in range(1, 41)]


@pytest.mark.parametrize("some", [rows(0), rows(1), [{"step": 3}], [{"step": 1, "return_mean": None}]])
def test_short_runs_are_drawn_too(tmp_path: Path, some: list[dict[str, Any]]) -> None:
    write(tmp_path, some)
    place = draw(tmp_path)
    assert place == tmp_path / "curves.png"
    assert place.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_is_an_error_and_leaves_the_picture(tmp_path: Path) -> None:
    write(tmp_path, rows())
    before = draw(tmp_path).read_bytes()
    write(tmp_path, [])
    with pytest.raises(RodsError, match="at least one row"):
        draw(tmp_path)
    assert (tmp_path / "curves.png").read_bytes() == before


def test_without_matplotlib_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RodsError, match=r"pip install 'rods-env\[plot\]'"):
        figure(rows())
