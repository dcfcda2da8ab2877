"""Pictures of dependency graphs: a box for each call, an arrow for each edge, and pixels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rods_env.errors import RodsError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.drawing import SKILL_COLOURS, figure, pixels, save_png
from rods_env.tasks.graph import edges_of
from rods_env.tasks.task import KINDS, Task

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
