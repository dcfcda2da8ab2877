"""What a group's returns say: the group itself, the detector of the frontier, and the figures of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from itertools import compress, islice
from math import dist
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.curricula.pool import Member

Group = tuple[float, float, bool]  # see `group_of`
Played = tuple[int, float, bool, bool, int, int, bool]  # see `Statistics.add`

ROUNDING = 1e-9  # returns are sums of 1/N, so equal ones may differ in the last digits


def group_of(returns: Sequence[float]) -> Group:
    """The returns of a group in short.

    Returns:
        Their mean; their population variance, exactly 0 if they agree; and whether they agree, that is, whether all of
        them are equal, which leaves nothing to learn from.

    Raises:
        RodsError: for fewer than two, or one that is no number in [0, 1].
    """
    try:
        values = sorted(map(float, returns))
    except (TypeError, ValueError):
        raise RodsError(f"returns must be numbers in [0, 1]; got {returns!r:.200}.") from None
    n = len(values)
    if n < 2:
        raise RodsError(f"a group needs at least 2 returns; got {n}.")
    low, high, mean = values[0], values[-1], sum(values) / n
    if low < 0.0 or high > 1.0 or mean != mean:  # a NaN, which has no place in an order, makes the mean one
        wrong = next(value for value in values if not 0.0 <= value <= 1.0)
        raise RodsError(f"every return must lie in [0, 1]; got {wrong!r}.")
    if high - low <= ROUNDING:
        return mean, 0.0, True
    return mean, dist(values, (mean,) * n) ** 2 / n, False


def phi(mean: float) -> float:
    """φ(m) = 4m(1−m), the paper's priority (arXiv 2606.19047): 1 at a mean of 1/2, 0 at 0 and 1."""
    return 4.0 * mean * (1.0 - mean)


class Detector:
    """Tells what a group says about its task, and estimates it over the groups of a task.

    Args:
        signal: "variance": a task is on the frontier if its latest group disagreed. "mean": if the mean of its latest
            group lies in [hard, mastered].
        reward: "progress" takes returns as they are; "binary" counts a return as 1 if it is 1, else as 0.
        hard, mastered: the band of `signal="mean"`: 0.20 and 0.85 [paper].
        discount: the weight of a task's group is `discount` to the number of its later groups; 0.5 [ours], because the
            policy moves.
        shrink: how many groups' worth of the mean over all tasks is mixed into a task's estimate; 0.5 [ours], because
            K returns tell a variance only roughly.

    Attributes:
        mean_variance, mean_hits: v̄ and d̄, the mean variance of all groups so far, and their share on the frontier:
            what estimates shrink towards.
    """

    def __init__(
        self,
        signal: str = "variance",
        reward: str = "progress",
        *,
        hard: float = 0.20,
        mastered: float = 0.85,
        discount: float = 0.5,
        shrink: float = 0.5,
    ) -> None:
        self.signal = signal
        self.reward = reward
        self.hard = hard
        self.mastered = mastered
        self.discount = discount
        self.shrink = shrink
        self.mean_variance = 0.0
        self.mean_hits = 0.0
        self._groups = 0
        self._variances = 0.0
        self._hits = 0

    def judge(self, returns: Sequence[float]) -> Group:
        """A group as the detector sees it: with `reward="binary"`, of whole successes only."""
        if self.reward == "binary":
            returns = [1.0 if value >= 1.0 - ROUNDING else 0.0 for value in returns]
        return group_of(returns)

    def see(self, member: Member, group: Group) -> None:
        """Takes a judged group into the estimates of its task."""
        mean, variance, agrees = group
        hit = self.hard <= mean <= self.mastered if self.signal == "mean" else not agrees
        self._groups += 1
        self._variances += variance
        self._hits += hit
        self.mean_variance = self._variances / self._groups
        self.mean_hits = self._hits / self._groups
        kept = self.discount
        member.visits += 1
        member.weight = kept * member.weight + 1.0
        member.means = kept * member.means + mean
        member.variances = kept * member.variances + variance
        member.hits = kept * member.hits + hit
        member.mean = mean
        member.on_frontier = hit
        member.agreed = member.agreed + 1 if agrees else 0

    def variance(self, member: Member) -> float:
        """v̂ = (Σ w s² + n0·v̄) / (Σ w + n0): the discounted variance of a task's groups, shrunken."""
        return (member.variances + self.shrink * self.mean_variance) / (member.weight + self.shrink)

    def hits(self, member: Member) -> float:
        """d̂, likewise: the discounted share of a task's groups that were on the frontier, shrunken."""
        return (member.hits + self.shrink * self.mean_hits) / (member.weight + self.shrink)

    def mean(self, member: Member) -> float:
        """m̂: the discounted mean return of a task; 0 if it was never observed."""
        return member.means / member.weight if member.weight else 0.0

    def state_dict(self) -> list[float]:
        """What was seen so far."""
        return [self._groups, self._variances, self._hits]

    def load_state_dict(self, state: Sequence[float]) -> None:
        """Goes on from where `state_dict` was taken."""
        self._groups, self._variances, self._hits = int(state[0]), float(state[1]), int(state[2])
        self.mean_variance = self._variances / max(self._groups, 1)
        self.mean_hits = self._hits / max(self._groups, 1)


class Statistics:
    """The figures of a run: over the last groups, and, ending in `_overall`, over all of them.

    Args:
        window: over how many groups [ours: 256, eight steps of 32 groups].
        seeds: how many seeds there are.
    """

    def __init__(self, window: int, seeds: int) -> None:
        self._window: deque[Played] = deque(maxlen=window)
        self._uncounted = 0  # how many at the end of the window are not in the totals yet
        self._groups = 0
        self._totals = _Sums()
        self._roots = bytearray(seeds + 1)  # for each seed whether it or a descendant was played; the last: new shapes

    def add(
        self, root: int, mean: float, agrees: bool, believed: bool, calls: int, turns: int, first: bool
    ) -> None:
        """Takes in one observed group.

        Args:
            root: the place of the seed that the task descends from; −1 for a task of a new shape.
            mean: the mean return, as it came.
            agrees: whether all returns were equal.
            believed: whether the curriculum believed the task on the frontier when it handed it out.
            calls: of the task.
            turns: of the task.
            first: whether this was the first group of a made task.
        """
        self._window.append((root, mean, agrees, believed, calls, turns, first))
        self._uncounted += 1
        if self._uncounted == self._window.maxlen:
            self._count()

    def _count(self) -> None:
        """Adds to the totals what came since the last time: many groups at once, which takes a third of the time."""
        new = list(islice(self._window, len(self._window) - self._uncounted, None))
        self._uncounted = 0
        self._groups += len(new)
        self._totals = _Sums(*map(add, self._totals, _sums(new)))
        for root, *_ in new:
            self._roots[root] = 1

    @property
    def zero_variance(self) -> int:
        """How many groups had no variance."""
        self._count()
        return int(self._totals.zero + self._totals.one + self._totals.settled)

    def metrics(self) -> dict[str, float]:
        """All figures; those of no group are 0."""
        self._count()
        window = self._window
        figures = _figures(len(window), _sums(window), len({root for root, *_ in window} - {-1}))
        overall = _figures(self._groups, self._totals, sum(self._roots[:-1]))
        figures.update({f"{key}_overall": value for key, value in overall.items()})
        bins = [0] * 10
        for _, mean, *_ in window:
            bins[min(int(phi(mean) * 10), 9)] += 1
        figures.update({f"phi_{k:02d}": count / max(len(window), 1) for k, count in enumerate(bins)})
        figures["groups_total"] = self._groups
        return figures

    def state_dict(self) -> dict[str, Any]:
        """All that was counted, as plain JSON data."""
        self._count()
        return {
            "groups": self._groups,
            "totals": list(self._totals),
            "roots": [root for root, played in enumerate(self._roots) if played],
            "window": [list(played) for played in self._window],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from where `state_dict` was taken."""
        self._groups = state["groups"]
        self._totals = _Sums(*state["totals"])
        self._roots = bytearray(len(self._roots))
        for root in state["roots"]:
            self._roots[root] = 1
        window: list[Played] = [(*played,) for played in state["window"]]  # JSON has no tuples
        self._window = deque(window, self._window.maxlen)
        self._uncounted = 0


class _Sums(NamedTuple):
    """Sums over groups: how many were all 0, all 1, or equal and in between; of what `add` takes; first groups."""

    zero: float = 0.0
    one: float = 0.0
    settled: float = 0.0
    mean: float = 0.0
    believed: float = 0.0
    calls: float = 0.0
    turns: float = 0.0
    first: float = 0.0
    first_disagreed: float = 0.0


def _sums(groups: Collection[Played]) -> _Sums:
    if not groups:
        return _Sums()
    _, means, agrees, believed, calls, turns, firsts = zip(*groups, strict=True)
    equal = list(compress(means, agrees))
    zero = sum(mean <= ROUNDING for mean in equal)
    one = sum(mean >= 1.0 - ROUNDING for mean in equal)
    disagreed = sum(first and not same for first, same in zip(firsts, agrees, strict=True))
    return _Sums(
        zero, one, len(equal) - zero - one, sum(means), sum(believed), sum(calls), sum(turns), sum(firsts), disagreed
    )


def _figures(groups: int, sums: _Sums, seeds: int) -> dict[str, float]:
    """Shares and means from sums over a number of groups, which played a number of distinct seeds."""
    n = max(groups, 1)
    return {
        "zero_variance_share": (sums.zero + sums.one + sums.settled) / n,
        "all_zero_share": sums.zero / n,
        "all_one_share": sums.one / n,
        "settled_share": sums.settled / n,
        "mean_return": sums.mean / n,
        "believed_share": sums.believed / n,
        "calls_mean": sums.calls / n,
        "turns_mean": sums.turns / n,
        "injected_variance_share": sums.first_disagreed / max(sums.first, 1),
        "distinct_seeds": seeds,
    }
