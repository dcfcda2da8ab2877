"""`curves.png`: what a training run did, drawn from its `metrics.jsonl`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rods_env.errors import RodsError
from rods_env.tasks.drawing import save_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart.
_RETURN, _HELDOUT, _EQUAL, _FRONTIER = "#0072B2", "#D55E00", "#555555", "#009E73"
_TEXT = "#333333"


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a metrics file, in order.

    A last line without an end is left out: the process was killed while it wrote it.

    Raises:
        RodsError: if the file cannot be read, or another line is no JSON object with a step.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RodsError(f"cannot read the metrics {os.fspath(path)}: {error.strerror}.") from None
    lines = content.split(b"\n")[:-1]
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RodsError(f"{os.fspath(path)}, line {number} is no JSON object: {error}.") from None
        if not isinstance(row.get("step"), int):
            raise RodsError(f"{os.fspath(path)}, line {number} has no whole number as its step.")
        rows.append(row)
    return rows


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """Means over up to `window` values, the one at hand being the last."""
    return [sum(part) / len(part) for at in range(len(values)) if (part := values[max(0, at - window + 1) : at + 1])]


def figure(rows: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Two panels: what the policy reaches, and what its groups and tasks are like, over steps.

    Raises:
        RodsError: if matplotlib is not installed, or there is no row.
    """
    if not rows:
        raise RodsError("expected at least one row of metrics to draw; got none.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise RodsError("drawing needs matplotlib: pip install 'rods-env[plot]'.") from None

    fig = Figure(figsize=(7.5, 6.2), layout="constrained")
    FigureCanvasAgg(fig)
    upper, lower = fig.subplots(2, 1, sharex=True)
    window = max(1, min(10, len(rows) // 5))
    _curve(upper, rows, "return_mean", _RETURN, "return in training", window)
    _dots(upper, rows)
    _curve(lower, rows, "zero_variance_share", _EQUAL, "groups whose rollouts all end alike", window)
    _curve(lower, rows, "frontier_share", _FRONTIER, "tasks on the frontier", window)
    upper.set_ylabel("return, success")
    lower.set_ylabel("share")
    lower.set_ylim(0, 1)
    lower.set_xlabel("step")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.tick_params(colors=_TEXT)
        axes.margins(x=0.02)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9, labelcolor=_TEXT, loc="best")
    low, high = upper.get_ylim()
    upper.set_ylim(max(-0.02, low - 0.05), min(1.02, high + 0.05))
    if title:
        fig.suptitle(title, fontsize=11, color=_TEXT)
    return fig


def _points(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[list[int], list[float]]:
    known = [(int(row["step"]), float(row[key])) for row in rows if row.get(key) is not None]
    return [step for step, _ in known], [value for _, value in known]


def _curve(axes: Any, rows: Sequence[Mapping[str, Any]], key: str, colour: str, name: str, window: int) -> None:
    """The values, pale, and their moving mean."""
    steps, values = _points(rows, key)
    if not values:
        return
    mark = "o" if len(values) == 1 else ""
    if window > 1:
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=1)
        name += f" (mean of {window} steps)"
    axes.plot(steps, smoothed(values, window), color=colour, linewidth=2, label=name, marker=mark)


def _dots(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """The evaluations; the first and the last with their value."""
    steps, values = _points(rows, "heldout_success")
    if not values:
        return
    axes.plot(steps, values, color=_HELDOUT, linewidth=1.5, marker="o", markersize=5, label="success on held-out tasks")
    for at in {0, len(values) - 1}:
        axes.annotate(
            f"{values[at]:.3f}", (steps[at], values[at]), xytext=(0, 8), textcoords="offset points",
            ha="right" if at else "left", fontsize=9, color=_HELDOUT,
        )  # fmt: skip


def draw(run: str | os.PathLike[str]) -> Path:
    """Draws `curves.png` in a run folder.

    Returns:
        The path of the picture.

    Raises:
        RodsError: if the metrics cannot be read or hold no row, or matplotlib is not installed.
    """
    folder = Path(run)
    place = folder / "curves.png"
    save_png(figure(read_metrics(folder / "metrics.jsonl"), folder.resolve().name), place)
    return place
