"""The picture of the curriculum demo: what each curriculum plays, what its pool holds, what the learner learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rods_env.benchmarks.demo import Array, Demo, Run, landings, moving
from rods_env.errors import RodsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart.
_COLOURS = {"fixed": "#555555", "random": "#E69F00", "rods-mean": "#D55E00", "rods": "#0072B2", "stream": "#009E73"}
_OTHERS = ("#56B4E9", "#000000", "#F0E442", "#CC79A7")
_ABOUT = {
    "fixed": "the seeds again and again",
    "dapo": "fixed, without groups that agree",
    "replay": "seeds of high variance more often",
    "random": "seeds and variants of random seeds",
    "fresh": "a fresh variant of any seed, always",
    "offline": "variants made beforehand",
    "oneshot": "variants of the first frontier",
    "frontier": "the default frontier",
    "rods": "seeds and variants of tasks whose returns differ",
    "rods-mean": "seeds and variants of tasks with a middling mean",
    "ranked": "rods, the highest variance first",
    "stream": "a fresh variant of a seed whose returns differ, always",
    "sharp": "stream, much more often where returns differ often",
}
_PARTS = {
    "all_zero": ("all 0", "#C9C9C9"),
    "settled": ("equal, in between", "#CC79A7"),
    "all_one": ("all 1", "#8C8C8C"),
}
_GENERATIONS = {
    "seeds": "#08306b", "variants": "#2171b5", "variants of these": "#6baed6", "later ones": "#c6dbef",
}  # fmt: skip
_TEXT = "#333333"
_PALE = "#666666"
_LINE = 0.22  # inches from one line of the legend to the next


def figure(demo: Demo) -> Figure:
    """Seven panels, with a line for each arm; of several seeds the mean, and the range as a band.

    Raises:
        RodsError: if matplotlib is not installed.
    """
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = _colours(list(demo.runs))
    head = 0.75 + _LINE * ((len(colours) + 1) // 2)  # inches
    height = head + 10.0
    fig = Figure(figsize=(11.0, height), dpi=100)
    FigureCanvasAgg(fig)
    edges = {"left": 0.06, "right": 0.985, "top": 1 - (head + 0.5) / height, "bottom": 0.05}
    grid = fig.add_gridspec(3, 12, **edges, hspace=0.5, wspace=2.4)
    above = fig.add_subplot(grid[0, :8])
    _zero_variance(above, demo, colours)
    _parts(fig.add_subplot(grid[0, 8:], sharey=above), demo, colours)
    _frontier(fig.add_subplot(grid[1, :4]), demo, colours)
    _composition(fig.add_subplot(grid[1, 4:8]), demo)
    _landing(fig.add_subplot(grid[1, 8:]), demo, colours)
    _success(fig.add_subplot(grid[2, :5]), demo, colours)
    _sizes(fig.add_subplot(grid[2, 6:]), demo, colours)
    _head(fig, demo, colours, height)
    return fig


def check_matplotlib() -> None:
    """Raises `RodsError` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise RodsError("pictures need matplotlib: pip install 'rods-env[plot]'.")


def _head(fig: Figure, demo: Demo, colours: dict[str, str], height: float) -> None:
    """What is seen, and the legend of all panels."""
    seeds = len(next(iter(demo.runs.values())))
    of_seeds = f", {seeds} seeds: mean and range" if seeds > 1 else ""
    what = f"{demo.groups:,} groups of {demo.group_size} rollouts{of_seeds}"
    line = f"A simulated learner, {what}. It learns only from groups whose returns differ."
    style: dict[str, Any] = {"va": "top", "color": _TEXT}
    fig.text(0.06, 1 - 0.15 / height, "What curricula do to a learner", fontsize=15, fontweight="bold", **style)
    fig.text(0.06, 1 - 0.45 / height, line, fontsize=9.5, **style)
    for at, (arm, colour) in enumerate(colours.items()):
        x, y = 0.06 + 0.48 * (at % 2), 1 - (0.85 + _LINE * (at // 2)) / height
        fig.text(x, y, f"━ {arm}", fontsize=9.5, fontweight="bold", color=colour)
        fig.text(x + 0.1, y, _ABOUT[arm], fontsize=9.5, color=_TEXT)


# ---------------------------------------------------------------------- the panels


def _zero_variance(axes: Axes, demo: Demo, colours: dict[str, str]) -> None:
    _begin(axes, "Groups that teach nothing", f"share of groups whose returns are all equal, mean of {demo.window}")
    at: Array = np.arange(demo.window, demo.groups + 1)
    _lines(axes, demo, colours, at, lambda run: moving(run.variance == 0.0, demo.window))
    axes.set_ylim(0, None)
    axes.set_xlabel("groups played")


def _parts(axes: Axes, demo: Demo, colours: dict[str, str]) -> None:
    _begin(axes, "What they return, second half", "")
    half = demo.groups // 2
    bottom = np.zeros(len(demo.runs))
    for name, (_, colour) in _PARTS.items():
        heights = np.array([_mean([run.kinds()[name][half:].mean() for run in runs]) for runs in demo.runs.values()])
        axes.bar(range(len(heights)), heights, 0.7, bottom, color=colour)
        for place, (height, below) in enumerate(zip(heights, bottom, strict=True)):
            if height > 0.03:
                axes.text(place, below + height / 2, f"{height:.2f}", ha="center", va="center", fontsize=8)
        bottom += heights
    for left, (words, colour) in zip((0.0, 0.21, 0.71), _PARTS.values(), strict=True):
        axes.text(left, 1.03, "■", transform=axes.transAxes, fontsize=8.5, color=colour)
        axes.text(left + 0.045, 1.03, words, transform=axes.transAxes, fontsize=8.5, color=_PALE)
    axes.set_xticks(range(len(demo.runs)), list(demo.runs), rotation=30, ha="right")
    for tick, arm in zip(axes.get_xticklabels(), demo.runs, strict=True):
        tick.set(color=colours[arm], fontweight="bold", fontsize=8)


def _frontier(axes: Axes, demo: Demo, colours: dict[str, str]) -> None:
    _begin(axes, "The pool at the frontier", "share of its tasks whose returns would differ")
    kept = {arm: colour for arm, colour in colours.items() if all(run.keeps_made for run in demo.runs[arm])}
    _lines(axes, demo, kept, next(iter(demo.runs.values()))[0].looks, lambda run: run.frontier)
    axes.set_xlabel("groups played")
    left = [arm for arm in colours if arm not in kept]
    if left:
        words = f"{', '.join(left)}: no pool, nothing comes twice"
        axes.text(0.02, 0.03, words, transform=axes.transAxes, fontsize=7.5, color=_PALE)


def _composition(axes: Axes, demo: Demo) -> None:
    arm = _preferred(demo, ("rods", "rods-mean"), lambda run: bool(run.pool[:, 1:].any()))
    _begin(axes, f"What the pool of {arm} holds" if arm else "What the pool holds", "tasks by origin")
    axes.set_xlabel("groups played")
    if arm is None:
        axes.text(0.5, 0.5, "none of these keeps variants", transform=axes.transAxes, ha="center", color=_PALE)
        return
    runs = demo.runs[arm]
    pool = np.mean([run.pool for run in runs], axis=0).T
    axes.stackplot(runs[0].looks, pool, colors=list(_GENERATIONS.values()), labels=list(_GENERATIONS))
    axes.margins(0)
    below = 0.0
    for (name, colour), size in zip(_GENERATIONS.items(), pool[:, -1], strict=True):
        if size > 0.06 * pool[:, -1].sum():
            dark = colour in list(_GENERATIONS.values())[:2]
            axes.text(0.97 * demo.groups, below + size / 2, f"{size:.0f} {name}", ha="right", va="center", fontsize=8,
                      color="white" if dark else _TEXT)  # fmt: skip
        below += size


def _landing(axes: Axes, demo: Demo, colours: dict[str, str]) -> None:
    """Above the line variants whose first group differed, below it those whose first group agreed."""
    _begin(axes, "Where new variants land", "mean return of their first group")
    making = [arm for arm, runs in demo.runs.items() if runs[0].first.any()]
    arms = [arm for arm in making if arm in ("rods-mean", "rods")] or making[:2]
    bins = 10
    width = 0.9 / bins / max(len(arms), 1)
    for place, arm in enumerate(arms):
        found = [landings(run, bins) for run in demo.runs[arm]]
        differ, agree = (sum(np.asarray(each[name], float) for each in found) for name in ("differ", "agree"))
        total = max(float(np.sum(differ) + np.sum(agree)), 1.0)
        left = np.arange(bins) / bins + 0.05 / bins + place * width
        axes.bar(left, differ / total, width, align="edge", color=colours[arm])
        axes.bar(left, -agree / total, width, align="edge", color=colours[arm], alpha=0.45)
        share = float(np.sum(differ)) / total
        axes.text(
            0.03, 0.95 - 0.09 * place, f"{arm}: {share:.0%} differ", transform=axes.transAxes, fontsize=8, va="top",
            color=colours[arm], fontweight="bold",
        )  # fmt: skip
    axes.axhline(0, color=_TEXT, linewidth=0.8)
    top, bottom = axes.get_ylim()[1], axes.get_ylim()[0]
    axes.set_ylim(bottom * 1.25, top * 1.35)
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.0%}")
    axes.set_xlim(0, 1)
    axes.text(0.97, 0.95, "↑ returns differ", transform=axes.transAxes, ha="right", va="top", fontsize=8, color=_TEXT)
    axes.text(0.97, 0.03, "↓ all equal", transform=axes.transAxes, ha="right", fontsize=8, color=_TEXT)


def _success(axes: Axes, demo: Demo, colours: dict[str, str]) -> None:
    _begin(axes, "What the learner learns", "expected success on 400 held-out tasks")
    _lines(axes, demo, colours, next(iter(demo.runs.values()))[0].looks, lambda run: run.success)
    axes.set_xlabel("groups played")


def _sizes(axes: Axes, demo: Demo, colours: dict[str, str]) -> None:
    _begin(axes, "Does what is played keep its variety?", "second half of the run, relative to the seeds (= 1)", "x")
    marks = {"calls": "o", "turns": "s", "distinct seeds": "D"}
    figures = demo.by_arm()
    axes.axvspan(0.9, 1.1, color="#eeeeee", zorder=0)
    axes.axvline(1.0, color="#999999", linewidth=0.8, zorder=1)
    for row, arm in enumerate(figures):
        for shift, (name, mark) in zip((-0.22, 0.0, 0.22), marks.items(), strict=True):
            values = figures[arm][f"{name.replace(' ', '_')}_ratio"]
            axes.plot([min(values), max(values)], [row + shift] * 2, color=colours[arm], linewidth=1.2)
            axes.plot(_mean(values), row + shift, mark, color=colours[arm], markersize=6)
    axes.set_yticks(range(len(figures)), list(figures))
    for tick, arm in zip(axes.get_yticklabels(), figures, strict=True):
        tick.set(color=colours[arm], fontweight="bold", fontsize=9)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.78), max(high, 1.22))
    axes.set_ylim(len(figures) - 0.4, -0.6)
    for name, mark in marks.items():
        axes.plot([], [], mark, color=_PALE, markersize=6, label=name)
    axes.legend(fontsize=8, frameon=False, loc="upper right", handletextpad=0.1)


# ---------------------------------------------------------------------- what they share


def _begin(axes: Axes, title: str, subtitle: str, grid: Literal["x", "y"] = "y") -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_TEXT, pad=20)
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, fontsize=8.5, color=_PALE)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, colors=_TEXT)
    axes.xaxis.label.set(fontsize=8.5, color=_TEXT)
    axes.grid(axis=grid, color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def _lines(axes: Axes, demo: Demo, colours: dict[str, str], at: Array, series: Callable[[Run], Array]) -> None:
    """A line for each arm; of several seeds the mean, in a band from the lowest to the highest."""
    for arm, colour in colours.items():
        values = np.array([series(run) for run in demo.runs[arm]])
        axes.plot(at, values.mean(axis=0), color=colour, linewidth=1.9)
        if len(values) > 1:
            axes.fill_between(at, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.13, linewidth=0)
    axes.set_xlim(0, demo.groups)


def _preferred(demo: Demo, names: Sequence[str], condition: Callable[[Run], bool]) -> str | None:
    """The first arm for which a condition holds, those named first."""
    return next((arm for arm in [*names, *demo.runs] if arm in demo.runs and condition(demo.runs[arm][0])), None)


def _colours(arms: Sequence[str]) -> dict[str, str]:
    others = [arm for arm in arms if arm not in _COLOURS]
    return {arm: _COLOURS.get(arm) or _OTHERS[others.index(arm) % len(_OTHERS)] for arm in arms}


def _mean(values: Sequence[Any]) -> float:
    return float(sum(values)) / len(values)
