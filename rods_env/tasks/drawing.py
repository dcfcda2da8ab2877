"""Pictures of dependency graphs, by matplotlib (the extra `plot`)."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rods_env.errors import RodsError
from rods_env.tasks.task import Task, Turn, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKILL_COLOURS = {
    "search": "#9ecae1", "lookup": "#c6dbef", "compute": "#bcbddc", "create": "#a1d99b", "update": "#fdd0a2",
    "delete": "#fcaeae", "transfer": "#fde18a", "send": "#f7b6d2",
}  # fmt: skip

EDGE_STYLES = {"data": {"linestyle": "-", "color": "#444444"}, "state": {"linestyle": "--", "color": "#b35806"}}
MOST = 12  # graphs in one picture
_IN_A_ROW = 6


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
    graph = task.graph
    place = _layout(task)
    columns = len(task.turns)
    rows = max((y for _, y in place.values()), default=0) + 1
    fig = _empty(max(3.2 * columns, 4.5), max(1.0 * rows + 2.2, 4.2))
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
            "facecolor": _colour(task, node),
            "linewidth": 1.6 if ticked else 0.8,
            "edgecolor": "#2c7a2c" if ticked else "#777777",
            "linestyle": "-" if data["spoken"] else ":",
        }
        boxes[node] = axes.text(
            x, y, f"{'✓ ' if ticked else ''}{data['tool']}", ha="center", va="center", fontsize=8, zorder=3, bbox=box,
            alpha=1.0 if ticked or not mark_done else 0.45, fontweight="bold" if data["spoken"] else "normal",
        )  # fmt: skip
    for source, target, kind in graph.edges(data="kind"):
        style = EDGE_STYLES[kind]
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


def side_by_side(tasks: Sequence[Task], titles: Sequence[str]) -> Figure:
    """The graphs of a task and of its variants beside each other, a box for each call below each other in one column.

    Boxes have one size and stand at the same height in every column, so that graphs with the same edges look the same.

    Args:
        tasks: at most 12 tasks with the same calls per turn.
        titles: what stands above each.

    Raises:
        RodsError: if matplotlib is not installed, or there are more tasks, or none.
    """
    if not 1 <= len(tasks) <= MOST:
        raise RodsError(f"expected 1 to {MOST} tasks for a picture; got {len(tasks)}.")
    lines = 1.5 + sum(_lines(turn) for turn in tasks[0].turns)
    columns = min(max(len(tasks), 2), _IN_A_ROW)
    rows = -(-len(tasks) // columns)
    width, height = 2.75 * columns, 0.36 * lines * rows + 0.6
    fig = _empty(width, height)
    for at, (task, title) in enumerate(zip(tasks, titles, strict=True)):
        axes = fig.add_subplot(rows, columns, at + 1)
        axes.set_axis_off()
        axes.set_xlim(-0.1, 2.75)
        axes.set_ylim(lines, 0)
        axes.text(0, 0.5, title, fontsize=9, fontweight="bold", va="center")
        _draw_column(axes, task)
    fig.subplots_adjust(left=0.005, right=0.995, top=1, bottom=0.6 / height, wspace=0, hspace=0)
    key: dict[str, Any] = {"fontsize": 7, "va": "center", "color": "#555555"}
    styles = "bold: asked for   dotted: has to be found   solid arrow: data   dashed arrow: state"
    fig.text(0.1 / width, 0.42 / height, styles, **key)
    for at, skill in enumerate(dict.fromkeys(data["skill"] for _, data in tasks[0].graph.nodes(data=True))):
        box = {"facecolor": SKILL_COLOURS[skill], "edgecolor": "none", "boxstyle": "round,pad=0.3"}
        fig.text((0.4 + 0.66 * at) / width, 0.17 / height, skill, ha="center", bbox=box, **key)
    return fig


def _colour(task: Task, node: int) -> str:
    """The colour of a call's skill; where skills are functions' names (BFCL), one for each API."""
    call = task.calls[node]
    colours = list(SKILL_COLOURS.values())
    return SKILL_COLOURS.get(task.skill_of(call)) or colours[task.called_apis.index(task.api_of(call)) % len(colours)]


def _lines(turn: Turn) -> int:
    """The height of a turn in `side_by_side`: its message, and a line for each call or for asking."""
    return 1 + max(1, len(turn.calls))


def _draw_column(axes: Any, task: Task) -> None:
    """One graph of `side_by_side`: bands for turns, boxes of one size, arrows as arcs at their right."""
    from matplotlib.patches import FancyBboxPatch

    y = 1.0
    place: list[float] = []
    for number, turn in enumerate(task.turns, 1):
        height = _lines(turn)
        if number % 2:
            axes.axhspan(y, y + height, color="#f6f6f6", zorder=0)
        said = textwrap.shorten(turn.message, 46, placeholder=" …")
        axes.text(0, y + 0.4, f"{number}  {said}", fontsize=6, style="italic", color="#555555", va="center")
        if not turn.calls:
            axes.text(0.95, y + 1.15, "(the agent should ask)", fontsize=7.5, color="#888888", ha="center", va="center")
        place += [y + 1.15 + k for k in range(len(turn.calls))]
        y += height
    for node, middle in enumerate(place):
        data = task.graph.nodes[node]
        axes.add_patch(FancyBboxPatch(
            (0.05, middle - 0.3), 1.8, 0.6, boxstyle="round,pad=0.02", facecolor=_colour(task, node),
            edgecolor="#777777", linewidth=0.8, linestyle="-" if data["spoken"] else ":",
        ))  # fmt: skip
        weight = "bold" if data["spoken"] else "normal"
        axes.text(0.95, middle, data["tool"], ha="center", va="center", fontsize=7.5, fontweight=weight)
    for source, target, kind in task.graph.edges(data="kind"):
        bend = -0.5 / (target - source) ** 0.35  # long arcs would leave the column
        arrow = {"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={bend}", **EDGE_STYLES[kind]}
        axes.annotate("", (1.9, place[target] - 0.12), (1.9, place[source] + 0.12), arrowprops=arrow)


def _empty(width: float, height: float) -> Figure:
    """A figure of so many inches, that belongs to no window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise RodsError("pictures need matplotlib: pip install 'rods-env[plot]'.") from None
    fig = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(fig)
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
