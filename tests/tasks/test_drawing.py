"""Pictures of dependency graphs: a box for each call, an arrow for each edge, and pixels."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from rods_env.apis.registry import TOOLS
from rods_env.errors import RodsError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.drawing import MOST, SKILL_COLOURS, figure, pixels, save_png, side_by_side
from rods_env.tasks.graph import edges_of
from rods_env.tasks.task import KINDS, Task
from rods_env.tasks.variants import Synthesizer

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    source = TaskSource(51)
    return [source.task(kind, turns=2) for kind in KINDS]


def boxes(fig) -> list:
    from matplotlib.text import Annotation

    return [t for t in fig.axes[0].texts if not isinstance(t, Annotation) and t.get_bbox_patch() is not None]


def test_a_box_for_each_call_and_an_arrow_for_each_edge(tasks):
    from matplotlib.text import Annotation

    for task in tasks:
        fig = figure(task)
        found = boxes(fig)
        assert [box.get_text() for box in found] == [call.tool for call in task.calls]
        assert len([t for t in fig.axes[0].texts if isinstance(t, Annotation)]) == len(edges_of(task))
        said = [t.get_text() for t in fig.axes[0].texts]
        assert [text for text in said if text.startswith("turn ")] == [f"turn {n + 1}" for n in range(len(task.turns))]
        assert sum("something is missing" in text for text in said) == task.kind.startswith("missing")
        assert any(task.id in text for text in said)


def test_boxes_stand_in_the_column_of_their_turn(tasks):
    for task in tasks:
        columns = [round(box.get_position()[0]) for box in boxes(figure(task))]
        assert tuple(columns) == task.turn_of_call


def test_what_is_done_is_ticked_off(tasks):
    task = tasks[0]
    found = boxes(figure(task, done=[0], title="Half way", mark_done=True))
    assert [box.get_text().startswith("✓") for box in found] == [n == 0 for n in range(len(task.calls))]
    assert len(found) > 1
    assert found[0].get_alpha() == 1.0
    assert all(box.get_alpha() < 1 for box in found[1:])
    said = [t.get_text() for t in figure(task, title="Half way").axes[0].texts]
    assert "Half way" in said
    assert not any(task.id in text for text in said)


def test_pixels_are_an_image_that_shows_something(tasks):
    fig = figure(tasks[0])
    image = pixels(fig)
    width, height = fig.canvas.get_width_height()
    assert (image.dtype, image.shape) == (np.uint8, (height, width, 3))
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50
    assert 0.01 < np.mean(np.any(image != 255, axis=2)) < 0.99
    assert np.array_equal(pixels(figure(tasks[0])), image), "equal tasks, equal pictures"
    assert not np.array_equal(pixels(figure(tasks[0], done=[0])), image)


def column(axes) -> tuple[list, list, list]:
    """Of one graph of many: the tools from top to bottom, their boxes, and the ends of the arrows."""
    from matplotlib.patches import FancyBboxPatch
    from matplotlib.text import Annotation

    boxes = [(p.get_y(), p.get_facecolor(), p.get_linestyle()) for p in axes.patches if isinstance(p, FancyBboxPatch)]
    arrows = [(t.xyann, t.xy, t.arrowprops["linestyle"]) for t in axes.texts if isinstance(t, Annotation)]
    said = [t.get_text() for t in axes.texts if not isinstance(t, Annotation)]
    return said, boxes, arrows


def test_a_task_and_its_variants_side_by_side_have_the_same_boxes_and_arrows(tasks):
    for task in tasks:
        variants = Synthesizer(3).variants(task, 2)
        fig = side_by_side([task, *variants], ["seed: here", "variant 1", "variant 2"])
        assert len(fig.axes) == 3
        columns = [column(axes) for axes in fig.axes]
        for (said, boxes, arrows), each, title in zip(columns, (task, *variants), fig_titles(fig), strict=True):
            assert said[0] == title
            assert [text for text in said if text in TOOLS] == [call.tool for call in each.calls]
            assert sum(text == "(the agent should ask)" for text in said) == each.kind.startswith("missing")
            assert len(boxes) == len(each.calls)
            drawn = ["state" if style == "--" else "data" for *_, style in arrows]
            assert sorted(drawn) == sorted(each.edges.values())
            assert (boxes, arrows) == columns[0][1:]
        assert fig_titles(fig) == ["seed: here", "variant 1", "variant 2"]


def fig_titles(fig) -> list[str]:
    return [axes.texts[0].get_text() for axes in fig.axes]


def test_boxes_do_not_overlap_and_stay_in_the_picture(tasks):
    for task in tasks:
        axes = side_by_side([task], ["seed"]).axes[0]
        _, boxes, arrows = column(axes)
        tops = [y for y, *_ in boxes]
        assert all(b - a >= 0.99 for a, b in itertools.pairwise(tops))
        assert max(tops) + 0.6 < axes.get_ylim()[0]
        assert all(end[1] > begin[1] for begin, end, _ in arrows)


@pytest.mark.parametrize("n", [1, 2, 6, 7, MOST])
def test_many_graphs_stand_in_rows_of_six(tasks, n):
    fig = side_by_side([tasks[0]] * n, [str(k) for k in range(n)])
    assert len(fig.axes) == n
    assert len({round(axes.get_position().y0, 6) for axes in fig.axes}) == (n + 5) // 6


@pytest.mark.parametrize("n", [0, MOST + 1])
def test_no_graph_or_too_many_are_refused(tasks, n):
    with pytest.raises(RodsError, match=f"expected 1 to 12 tasks for a picture; got {n}"):
        side_by_side([tasks[0]] * n, [""] * n)


def test_a_picture_can_be_saved(tasks, tmp_path):
    save_png(figure(tasks[0]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "a.png").read_bytes()) > 5_000


def test_no_figure_is_left_open(tasks):
    """Figures are not made by pyplot, which would keep them all in memory."""
    figure(tasks[0])
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_every_skill_has_a_colour():
    from rods_env.apis.api import SKILLS

    assert set(SKILL_COLOURS) == set(SKILLS)
    assert len(set(SKILL_COLOURS.values())) == len(SKILLS)


@pytest.mark.parametrize("module", ["matplotlib.figure", "matplotlib.backends.backend_agg"])
def test_without_matplotlib_it_says_what_to_install(tasks, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RodsError, match=r"pictures need matplotlib: pip install 'rods-env\[plot\]'"):
        figure(tasks[0])
    with pytest.raises(RodsError, match="pictures need matplotlib"):
        side_by_side([tasks[0]], ["seed"])
