"""Statistics of cells: areas under curves, rollouts to a target, and intervals over seeds and held-out tasks.

Interquartile mean, probability of improvement and performance profile are those of Agarwal et al., Deep Reinforcement
Learning at the Edge of the Statistical Precipice (2021, arXiv 2108.13264). They are written out here because their
package, rliable, asks for arch, scipy, seaborn and pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from rods_env.benchmarks.curricula.cells import Cell
from rods_env.errors import RodsError

Array = np.ndarray[Any, np.dtype[Any]]
Values = Callable[[Cell, str], Array]  # of a cell and a set: a value for each task
Aggregate = Callable[[Array], Array]  # of the last axis, which are the seeds

RESAMPLES = 2000
LEVEL = 0.95


class Interval(msgspec.Struct, frozen=True):
    """An estimate and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Paired(msgspec.Struct, frozen=True):
    """Values of tasks by seed, ready to be resampled.

    Attributes:
        values: for each seed an array of shape `(tasks,)`.
        shared: whether all seeds were tested on the same tasks.
    """

    values: list[Array]
    shared: bool

    @property
    def means(self) -> Array:
        """The mean of each seed, of shape `(seeds,)`."""
        return np.array([values.mean() for values in self.values])


# ---------------------------------------------------------------------- of one curve


def trapezoid_weights(at: Sequence[float]) -> Array:
    """Weights w with Σ w·y = the mean height of the line through the points (at, y); the last point if they coincide.

    Args:
        at: not decreasing, at least one.
    """
    x = np.asarray(at, float)
    width = x[-1] - x[0]
    if width <= 0:
        return np.asarray(np.eye(len(x))[-1])
    steps = np.diff(x)
    return np.asarray((np.append(steps, 0.0) + np.append(0.0, steps)) / (2.0 * width))


def area_under_curve(at: Sequence[float], heights: Sequence[float]) -> float:
    """The area under the line through the points, divided by its width: in [0, 1] for heights in [0, 1]."""
    return float(trapezoid_weights(at) @ np.asarray(heights, float))


def first_reached(heights: Sequence[float], target: float) -> float | None:
    """Where a curve first reaches a target: 2.5 is half way from the third point to the fourth; None: never.

    It needs not stay there. Points of a curve are evaluations on thousands of tasks, so noise carries it over a target
    early only where it comes within a point or two.
    """
    for place, height in enumerate(heights):
        if height >= target:
            below = heights[place - 1] if place else height
            return place - (height - target) / (height - below) if height > below else float(place)
    return None


def along(values: Sequence[float], place: float) -> float:
    """The value at a place that `first_reached` found, linearly between two points."""
    return float(np.interp(place, np.arange(len(values)), np.asarray(values, float)))


# ---------------------------------------------------------------------- over seeds


def interquartile_mean(values: Array) -> Array:
    """The mean of the middle half of the last axis: a quarter of the values, rounded down, is cut at either end."""
    n = values.shape[-1]
    cut = n // 4
    return np.asarray(np.sort(values, axis=-1)[..., cut : n - cut].mean(axis=-1))


def mean(values: Array) -> Array:
    """The mean of the last axis."""
    return np.asarray(values.mean(axis=-1))


def probability_of_improvement(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """P(X > Y) + P(X = Y) / 2 for runs X of one arm and Y of another (Mann and Whitney's U, over the pairs)."""
    x, y = np.asarray(ours, float)[:, None], np.asarray(theirs, float)[None, :]
    return float(((x > y) + 0.5 * (x == y)).mean())


def performance_profile(values: Sequence[float], taus: Sequence[float]) -> Array:
    """The share of runs whose value is above each tau."""
    return np.asarray((np.asarray(values, float)[:, None] > np.asarray(taus, float)[None, :]).mean(axis=0))


def median_reached(places: Sequence[float | None]) -> float | None:
    """The lower median, in which never counts as later than everything: None if fewer than half reached it."""
    ordered = sorted(np.inf if place is None else place for place in places)
    found = ordered[(len(ordered) - 1) // 2]
    return None if np.isinf(found) else float(found)


# ---------------------------------------------------------------------- intervals


def final_values(cell: Cell, name: str, checkpoint: int = -1) -> Array:
    """1.0 for each task of a kept set that was solved at a checkpoint, else 0.0."""
    return cell.solved(checkpoint, name).astype(float)


def area_values(cell: Cell, name: str) -> Array:
    """For each task of a kept set the area under its curve of solved and not solved; their mean is the cell's area."""
    weights = trapezoid_weights([point.rollouts for point in cell.checkpoints])
    # Term by term, and not as a product of matrices: that rounds differently from processor to processor and from
    # column to column, and equal columns must be equal to the bit where they are counted (`_resampled_means`).
    area = np.zeros(cell.sizes[name])
    for at, weight in enumerate(weights):
        area += weight * final_values(cell, name, at)
    return area


def of_arm(cells: Sequence[Cell], name: str, values: Values) -> Paired:
    """The values of the tasks of a set in the cells of one arm, one cell a seed."""
    return Paired([values(cell, name) for cell in cells], _shared(cells, name))


def difference(
    ours: Sequence[Cell], theirs: Sequence[Cell], name: str, values: Values
) -> Paired:
    """What one arm has more than another, task by task, for the seeds of both.

    Raises:
        RodsError: if no seed is in both, or a seed was tested on other tasks in one arm than in the other.
    """
    others = {cell.spec.seed: cell for cell in theirs}
    pairs = [(cell, others[cell.spec.seed]) for cell in ours if cell.spec.seed in others]
    if not pairs:
        raise RodsError("expected two arms with a seed in common; these have none.")
    for one, other in pairs:
        if one.sizes[name] != other.sizes[name] or one.digests.get(name) != other.digests.get(name):
            raise RodsError(
                f"{one.spec.name} and {other.spec.name} were not tested on the same {name} tasks, so their outcomes "
                "cannot be paired: remove the older one to have it made again."
            )
    found = [values(one, name) - values(other, name) for one, other in pairs]
    return Paired(found, _shared([one for one, _ in pairs], name))


def _shared(cells: Sequence[Cell], name: str) -> bool:
    digests = {cell.digests.get(name) for cell in cells}
    return len(digests) == 1 and None not in digests


def resampled(paired: Paired, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Means of seeds in bootstrap samples of seeds and of tasks, of shape `(resamples, seeds)`.

    Seeds are drawn with replacement, and then tasks with replacement within each drawn seed; or once for all of them
    if they were tested on the same tasks, because then the luck of the tasks does not average out over seeds.
    Differences of two arms are resampled as differences, so both get the same seeds and tasks.
    """
    rng = np.random.default_rng(seed)
    count = len(paired.values)
    drawn = rng.integers(count, size=(resamples, count))
    if paired.shared:
        each = _resampled_means(np.array(paired.values), resamples, rng)
        return np.take_along_axis(each, drawn, axis=1)
    found = np.empty(drawn.shape)
    for at, values in enumerate(paired.values):
        where = drawn == at
        found[where] = _resampled_means(values[None, :], int(where.sum()), rng)[:, 0]
    return found


def _resampled_means(values: Array, resamples: int, rng: np.random.Generator) -> Array:
    """Row means of bootstrap samples of columns, of shape `(resamples, rows)`.

    Outcomes have few distinct columns, and how often each is drawn is multinomial: the plain bootstrap without an index
    for every task of every sample. Areas may have many, and then indices are drawn faster.
    """
    columns, counts = np.unique(values, axis=1, return_counts=True)
    n = values.shape[1]
    if len(counts) > n // 10:
        drawn = rng.integers(n, size=(resamples, n))
        return np.array([row[drawn].mean(axis=1) for row in values]).T
    return np.asarray(rng.multinomial(n, counts / n, size=resamples) @ columns.T / n)


def interval(
    paired: Paired, aggregate: Aggregate = mean, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Interval:
    """The percentile interval of an aggregate over seeds, in bootstrap samples of seeds and tasks.

    With one seed only tasks vary, and the interval says nothing about other runs. With a few seeds it is somewhat too
    narrow: the bootstrap takes their spread for the whole, which is (n − 1)/n of its variance.

    Raises:
        RodsError: without seeds or tasks.
    """
    if not paired.values or not all(len(values) for values in paired.values):
        raise RodsError("expected at least one seed, and tasks in each; got none.")
    found = aggregate(resampled(paired, resamples, seed))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(aggregate(paired.means)), float(low), float(high))
