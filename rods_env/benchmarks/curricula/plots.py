"""Pictures of a grid: learning curves, groups without variance, rollouts to a target, performance profiles."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rods_env.benchmarks.curricula.arms import FIXED
from rods_env.benchmarks.curricula.cells import KEPT_SETS, Cell, Checkpoint
from rods_env.benchmarks.curricula.lines import (
    PALE,
    TEXT,
    add_title,
    band,
    begin,
    has,
    lines,
    new_figure,
    played,
    series,
    style_of,
    thousands,
)
from rods_env.benchmarks.curricula.statistics import median_reached, performance_profile
from rods_env.benchmarks.curricula.summary import Part, Results
from rods_env.benchmarks.demo_picture import check_matplotlib
from rods_env.tasks.task import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHAPES = {"seen": "shapes of the seeds", "unseen": "shapes never trained on"}
Runs = dict[str, list[Cell]]


def draw(folder: Path, cells: Sequence[Cell], results: Results) -> list[Path]:
    """Draws the pictures of each number of seeds into a folder; returns their paths.

    Raises:
        RodsError: if matplotlib is not installed, or the folder cannot be written.
    """
    check_matplotlib()
    made = []
    for count, part in results.parts.items():
        runs = {
            arm: [cell for cell in cells if (cell.spec.seed_count, cell.spec.arm) == (count, arm)] for arm in part.arms
        }
        pictures = {"curves": curves(runs, part), "arms": each_arm(runs), "groups": groups(runs)}
        if part.target:
            pictures["target"] = to_target(part)
        pictures["profile"] = profiles(part)
        for name, (fig, title) in pictures.items():
            add_title(fig, title, f"{count} seeds, {_runs_in_words(runs)}, policy {results.policy}")
            made.append(folder / f"{name}-{count}.png")
            write_atomically(made[-1], _small_png(fig))
    return made


# ---------------------------------------------------------------------- the pictures


def curves(runs: Runs, part: Part) -> tuple[Figure, str]:
    """Success over rollouts on seen and on unseen shapes, a line for each arm."""
    fig, panels = new_figure(12.5, max(4.6, 1.6 + 0.27 * len(runs)), 2)
    for axes, name in zip(panels, KEPT_SETS, strict=True):
        begin(axes, f"Success on {_SHAPES[name]}")
        lines(axes, runs, partial(_success, name=name), from_start=False)
        if name in part.target:
            axes.axhline(part.target[name], color=PALE, linewidth=0.8, linestyle=":", zorder=1)
    dotted = f"; dotted: {part.target['seen']:.3f} and {part.target['unseen']:.3f}, the target" if part.target else ""
    return fig, f"Learning curves, means over runs{dotted}"


def each_arm(runs: Runs) -> tuple[Figure, str]:
    """A small panel for each arm with bands, all others behind it in grey."""
    columns = min(5, len(runs))
    rows = -(-len(runs) // columns)
    fig, panels = new_figure(max(2.5 * columns, 8.0), 1.2 + 2.1 * rows, rows, columns)
    means = {arm: series(cells, partial(_success, name="seen")) for arm, cells in runs.items()}
    for axes, (arm, cells) in zip(panels, runs.items(), strict=False):
        colour, _ = style_of(arm, list(runs))
        begin(axes, "")
        axes.set_title(arm, loc="left", fontsize=10, fontweight="bold", color=colour)
        for other, (at, values) in means.items():
            pale = "#888888" if other == FIXED else "#dddddd"
            axes.plot(at, values.mean(axis=0), color=pale, linewidth=1.3 if other == FIXED else 0.8, zorder=1)
        for name, dash in (("unseen", "--"), ("seen", "-")):
            at, values = series(cells, partial(_success, name=name))
            band(axes, at, values, colour, 0.22 if name == "seen" else 0.1)
            width = 1.8 if name == "seen" else 1.2
            mark = "o" if len(at) == 1 else ""
            axes.plot(at, values.mean(axis=0), dash, color=colour, linewidth=width, marker=mark, zorder=3)
        axes.set_xlim(0, max(axes.get_xlim()[1], 1.0))
        thousands(axes)
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    top = max(axes.get_ylim()[1] for axes in panels[: len(runs)])
    low = min(axes.get_ylim()[0] for axes in panels[: len(runs)])
    for place, axes in enumerate(panels[: len(runs)]):
        axes.set_ylim(max(low, 0.0), top)
        if place % columns:
            axes.tick_params(labelleft=False)
        if place + columns < len(runs):
            axes.tick_params(labelbottom=False)
        else:
            axes.set_xlabel("rollouts")
    return fig, "By arm: seen shapes solid, unseen dashed, 95 % bands; in grey the others"


def groups(runs: Runs) -> tuple[Figure, str]:
    """The share of groups without variance and the share of the pool on the frontier, over rollouts."""
    fig, panels = new_figure(12.5, max(4.6, 1.6 + 0.27 * len(runs)), 2)
    what = {
        "zero_variance_share": "Groups whose returns are all equal, share",
        "frontier_share": "Tasks of the pool on the frontier, share",
    }
    for axes, (key, words) in zip(panels, what.items(), strict=True):
        begin(axes, words)
        known = {
            arm: cells for arm, cells in runs.items()
            if all(has(cell, key) for cell in cells)
        }  # fmt: skip
        lines(axes, known, partial(_window, key=key), list(runs))
        if not known:
            axes.text(0.5, 0.5, "none of these arms has it", transform=axes.transAxes, ha="center", color=PALE)
    return fig, "What is played"


def to_target(part: Part) -> tuple[Figure, str]:
    """Bars: rollouts, and distinct tasks, until the target was reached on seen shapes; a dot for each run."""
    arms = list(part.arms)
    fig, panels = new_figure(12.5, 1.7 + 0.3 * len(arms), 2)
    for axes, key, words in zip(
        panels, ("rollouts_to_target", "tasks_to_target"), ("Rollouts", "Distinct tasks"), strict=True
    ):
        begin(axes, f"{words} until {part.target['seen']:.3f} on {_SHAPES['seen']}", grid="x")
        every = [place for arm in part.arms.values() for place in getattr(arm.sets["seen"], key) if place is not None]
        most = max([*every, 1.0])
        for row, (name, arm) in enumerate(part.arms.items()):
            colour, dash = style_of(name, arms)
            places = getattr(arm.sets["seen"], key)
            reached = [place for place in places if place is not None]
            median = median_reached(places)
            if median is not None:
                axes.barh(row, median, 0.66, color=colour, alpha=0.55, hatch="//" if dash != "-" else None,
                          edgecolor="white", linewidth=0)  # fmt: skip
            axes.plot(reached, [row] * len(reached), "o", color=colour, markersize=4, zorder=3)
            words = f"{len(reached)} of {len(places)}" if reached else "never"
            axes.text(max([*reached, median or 0, 0]) + 0.015 * most, row, words, va="center", fontsize=8, color=PALE)
        axes.set_yticks(range(len(arms)), arms)
        axes.set_ylim(len(arms) - 0.5, -0.5)
        axes.set_xlim(0, 1.14 * most)
        thousands(axes)
    return fig, "To the target: bars are medians over runs, dots the runs that reached it"


def profiles(part: Part) -> tuple[Figure, str]:
    """For each success the share of runs that end above it."""
    arms = list(part.arms)
    fig, panels = new_figure(12.5, max(4.6, 1.6 + 0.25 * len(arms)), 2)
    for axes, name in zip(panels, KEPT_SETS, strict=True):
        begin(axes, f"Share of runs that end above, on {_SHAPES[name]}")
        ends = {arm: part.arms[arm].sets[name].final_by_seed for arm in arms}
        low, high = min(map(min, ends.values())), max(map(max, ends.values()))
        edge = max(0.03 * (high - low), 0.005)
        taus = np.linspace(max(low - edge, 0.0), min(high + edge, 1.0), 400)
        for arm in sorted(arms, key=lambda arm: -np.mean(ends[arm])):
            colour, dash = style_of(arm, arms)
            axes.plot(taus, performance_profile(ends[arm], taus.tolist()), dash, color=colour, linewidth=1.6, label=arm)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(taus[0], taus[-1])
        axes.set_xlabel("final success")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8.5, labelcolor=TEXT)
    return fig, "Performance profiles, the best mean on top of the legend"


def _success(point: Checkpoint, name: str) -> float:
    return point.success[name]


def _window(point: Checkpoint, key: str) -> float | None:
    return point.window[key] if played(point) else None


def _small_png(fig: Figure) -> bytes:
    """A figure as PNG in 256 colours, a third of the size: results are kept in the repository."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas, small = FigureCanvasAgg(fig), io.BytesIO()
    canvas.draw()  # type: ignore[no-untyped-call]
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")  # type: ignore[no-untyped-call]
    image.quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()


def _runs_in_words(runs: Runs) -> str:
    counts = sorted({len(cells) for cells in runs.values()})
    few = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{few} run{'' if counts == [1] else 's'} of each arm"
