"""Pictures of dependency graphs, by matplotlib (the extra `plot`)."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from rods_env.errors import RodsError
from rods_env.tasks.task import Task, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKILL_COLOURS = {
    "search": "#9ecae1", "lookup": "#c6dbef", "compute": "#bcbddc", "create": "#a1d99b", "update": "#fdd0a2",
    "delete": "#fcaeae", "transfer": "#fde18a", "send": "#f7b6d2",
}  # fmt: skip


def figure(task: Task, done: Collection[int] = (), *, title: str | None = None, mark_done: bool = False) -> Figure:
    """The graph of a task: a column for each turn, a box for each call, arrows from what a call needs.

    Args:
        task: the task.
        done: indices of gold calls to tick off.
        title: what stands above; the task's id and kind by default.
        mark_done: whether calls that are not done are drawn pale.

    Raises:
        RodsError: if matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise RodsError("pictures need matplotlib: pip install 'rods-env[plot]'.") from None
    graph = task.graph
    place = _layout(task)
    columns = len(task.turns)
    rows = max((y for _, y in place.values()), default=0) + 1
    fig = Figure(figsize=(max(3.2 * columns, 4.5), max(1.0 * rows + 2.2, 4.2)), dpi=100)
    FigureCanvasAgg(fig)
    axes = fig.add_axes((0.01, 0.01, 0.98, 0.98))
    axes.set_axis_off()
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows + 0.1, -2.1)
    for turn, said in enumerate(task.turns):
        if turn % 2 == 0:
            axes.axvspan(turn - 0.5, turn + 0.5, color="#f6f6f6", zorder=0)
        message = "\n".join(textwrap.wrap(said.message, 44)[:4])
        axes.text(turn, -1.55, f"turn {turn + 1}", ha="center", va="center", fontsize=8, color="#666666")
        axes.text(turn, -1.3, message, ha="center", va="top", fontsize=6.5, style="italic", color="#333333")
        if not said.calls:
            axes.text(
                turn, 0.2, "(something is missing:\nthe agent should ask)", ha="center", fontsize=8, color="#888888"
            )
    boxes: dict[int, Any] = {}
    for node, (x, y) in place.items():
        data = graph.nodes[node]
        ticked = node in done
        box = {
            "boxstyle": "round,pad=0.45",
            "facecolor": SKILL_COLOURS[data["skill"]],
            "linewidth": 1.6 if ticked else 0.8,
            "edgecolor": "#2c7a2c" if ticked else "#777777",
            "linestyle": "-" if data["spoken"] else ":",
        }
        boxes[node] = axes.text(
            x, y, f"{'✓ ' if ticked else ''}{data['tool']}", ha="center", va="center", fontsize=8, zorder=3, bbox=box,
            alpha=1.0 if ticked or not mark_done else 0.45, fontweight="bold" if data["spoken"] else "normal",
        )  # fmt: skip
    for source, target, kind in graph.edges(data="kind"):
        style = {"linestyle": "-", "color": "#444444"} if kind == "data" else {"linestyle": "--", "color": "#b35806"}
        span = task.turn_of_call[target] - task.turn_of_call[source]
        bend = 0.12 if span < 3 else 0.16  # long ones pass below the boxes between, and stay in the picture
        axes.annotate(
            "", xy=place[target], xytext=place[source], zorder=4,  # above the boxes, whose edges are known once drawn
            arrowprops={"arrowstyle": "-|>", "patchA": boxes[source].get_bbox_patch(), "shrinkA": 0, "shrinkB": 1,
                        "patchB": boxes[target].get_bbox_patch(), "connectionstyle": f"arc3,rad={bend}", **style},
        )  # fmt: skip
    name = title or f"{task.id}   {task.kind.replace('_', ' ')}, {len(task.calls)} calls, depth {task.profile.depth}"
    axes.text(-0.48, -1.95, name, fontsize=9, fontweight="bold", va="center")
    axes.text(
        columns - 0.52, rows - 0.05,
        "bold: asked for   dotted: has to be found   solid arrow: data   dashed arrow: state",
        fontsize=6.5, ha="right", va="center", color="#666666",
    )  # fmt: skip
    return fig


def pixels(fig: Figure) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A figure as an array, H x W x 3 bytes."""
    fig.canvas.draw()
    return np.asarray(fig.canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]


def save_png(fig: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as a PNG file."""
    import io

    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=150)
    write_atomically(path, buffer.getvalue())


def _layout(task: Task) -> dict[int, tuple[float, float]]:
    """A column for each turn; in it the calls below each other, in order."""
    place: dict[int, tuple[float, float]] = {}
    below = [0] * len(task.turns)
    for node, turn in enumerate(task.turn_of_call):
        shift = 0.12 if below[turn] % 2 else -0.12  # arrows within a turn do not run through the boxes between
        place[node] = (turn + shift, float(below[turn]))
        below[turn] += 1
    return place
