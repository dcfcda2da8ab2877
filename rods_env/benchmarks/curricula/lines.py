"""What the pictures of a grid share: colours of arms, lines with bands, names beside the ends of lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rods_env.benchmarks.curricula.arms import FIXED
from rods_env.benchmarks.curricula.cells import Cell, Checkpoint
from rods_env.benchmarks.curricula.statistics import LEVEL, RESAMPLES, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One colour and line for each arm in all pictures. What plays only seeds is grey or brown; related arms are related
# colours and differ by line as well, for those who do not see the colours.
_STYLES: dict[str, tuple[str, str]] = {
    FIXED: ("#222222", "-"), "dapo": ("#808080", "-"), "replay": ("#808080", "--"),
    "augmented": ("#9C6B3C", "-"), "sft-more": ("#9C6B3C", "--"),
    "random": ("#E69F00", "-"), "oneshot": ("#E69F00", "--"), "offline17k": ("#CC79A7", "-"),
    "no-retire": ("#56B4E9", "--"), "binary": ("#56B4E9", "-"), "rods-mean": ("#D55E00", "-"), "rods": ("#0072B2", "-"),
    "fresh": ("#7FBF3F", "-"), "fresh-shapes": ("#7FBF3F", "--"), "stream": ("#00805A", "-"),
}  # fmt: skip
_OTHERS = ("#6A3D9A", "#B22222", "#008B8B", "#B8860B")
TEXT, PALE, _GRID = "#333333", "#666666", "#e6e6e6"
_BANDS_UP_TO = 6  # arms; more bands on one panel hide each other, and the small panels have them
_DPI = 110


def style_of(arm: str, arms: Sequence[str]) -> tuple[str, str]:
    """Colour and line of an arm; those without one of their own get others, in order."""
    if arm in _STYLES:
        return _STYLES[arm]
    unknown = [name for name in arms if name not in _STYLES]
    return _OTHERS[unknown.index(arm) % len(_OTHERS)], "-."


def new_figure(width: float, height: float, *shape: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    return fig, list(fig.subplots(rows, columns, squeeze=False).flat)


def add_title(fig: Figure, title: str, below: str) -> None:
    fig.suptitle(f"{title}\n\n", x=0.01, ha="left", fontsize=12, fontweight="bold", color=TEXT)
    fig.text(0.01, 1 - 0.4 / fig.get_figheight(), below, fontsize=9, va="center", color=PALE)


def begin(axes: Axes, title: str, grid: str = "y") -> None:
    axes.set_title(title, loc="left", fontsize=10, color=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, colors=TEXT)
    axes.xaxis.label.set(fontsize=8.5, color=TEXT)
    axes.grid(axis=grid, color=_GRID, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def lines(
    axes: Axes, runs: Mapping[str, list[Cell]], value: Callable[[Checkpoint], float | None],
    arms: Sequence[str] | None = None, *, from_start: bool = True,
) -> None:  # fmt: skip
    """The mean over runs of each arm, a band if there are few arms, and its name at the end of the line.

    Without `from_start` the panel begins a little below the second checkpoint, if the first lies far below: what all
    arms have in common, the first climb, would leave no room for their differences.
    """
    ends: dict[str, float] = {}
    starts: list[float] = []
    later: list[float] = []
    last = 0.0
    for arm, cells in runs.items():
        at, values = series(cells, value)
        colour, dash = style_of(arm, arms or list(runs))
        if len(runs) <= _BANDS_UP_TO:
            band(axes, at, values, colour, 0.15)
        mark = "o" if len(at) == 1 else ""
        axes.plot(at, values.mean(axis=0), dash, color=colour, linewidth=1.8, marker=mark, markersize=4)
        ends[arm] = float(values[:, -1].mean())
        starts.append(float(values[:, 0].mean()))
        later += values.mean(axis=0)[1:].tolist()
        last = max(last, at[-1])
    axes.set_xlabel("rollouts")
    axes.set_xlim(0, max(last, 1.0))
    thousands(axes)
    low, high = axes.get_ylim()
    low = max(low, -0.01)
    if not from_start and later and max(starts) < min(later) - 0.5 * (high - min(later)):
        low = min(later) - 0.2 * (high - min(later))
        axes.set_xlabel(f"rollouts; at 0, below the panel: {_range(starts)}")
    axes.set_ylim(low, high)
    panel = axes.get_figure(root=True).get_figheight() - 1.3  # type: ignore[union-attr]
    gap = (high - low) * 0.21 / panel  # a line of text
    names = sorted(ends, key=lambda arm: ends[arm])
    for arm, y in zip(names, spread([ends[arm] for arm in names], gap, low, high), strict=True):
        colour, _ = style_of(arm, arms or list(runs))
        axes.annotate(
            f"{arm} {ends[arm]:.3f}", (1.0, ends[arm]), (1.045, y), xycoords=axes.get_yaxis_transform(),
            textcoords=axes.get_yaxis_transform(), fontsize=8.5, color=colour, va="center", annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 1,
                "relpos": (0.0, 0.5),  # to the left of the name: to its middle, lines would cross other names
            },
        )  # fmt: skip


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low}–{high}"


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places for labels near their heights, at least a gap apart and, if they all fit, between low and high.

    Least squares: without the gaps this is isotonic regression, solved by pooling neighbours that are out of order.

    Args:
        heights: not decreasing.
        gap, low, high: in the unit of the heights.
    """
    pools: list[list[float]] = []  # sum and number of the wishes of labels that stand next to each other
    for place, height in enumerate(heights):
        pools.append([height - place * gap, 1.0])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    wishes = [total / count for total, count in pools for _ in range(int(count))]
    room = max(high - (len(heights) - 1) * gap, low)
    return [min(max(wish, low), room) + place * gap for place, wish in enumerate(wishes)]


def series(cells: Sequence[Cell], value: Callable[[Checkpoint], float | None]) -> tuple[Array, Array]:
    """Rollouts, and a row of values for each run; runs whose checkpoints are elsewhere are read between theirs."""
    found = []
    for cell in cells:
        points = [(point.rollouts, y) for point in cell.checkpoints if (y := value(point)) is not None]
        found.append(np.array(points, float).T)
    at = min((points[0] for points in found), key=lambda rollouts: (rollouts[-1], len(rollouts)))
    return at, np.array([np.interp(at, *points) for points in found])


def band(axes: Axes, at: Array, values: Array, colour: str, alpha: float) -> None:
    """The 95 % interval of the mean over runs, by bootstrap; nothing for a single run."""
    if len(values) > 1:
        drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
        low, high = np.quantile(values[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        axes.fill_between(at, low, high, color=colour, alpha=alpha, linewidth=0)


def played(point: Checkpoint) -> bool:
    return bool(point.window["groups"])


def has(cell: Cell, key: str) -> bool:
    """Whether groups were played, and the figure is known wherever they were."""
    points = [point for point in cell.checkpoints if played(point)]
    return bool(points) and all(key in point.window for point in points)


def thousands(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    long = axes.get_xlim()[1] >= 20_000
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:g}k" if long and x else f"{x:,g}"))
