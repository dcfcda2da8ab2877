"""Draws by rank, as Prioritized Level Replay makes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from sortedcontainers import SortedList


class Ranking:
    """Draws places with probability ∝ (1/rank)^(1/β), the highest priority first (PLR, arXiv 2010.03934).

    Setting and drawing take O(log size). Of equal priorities the one set longest ago comes first.

    Args:
        size: how many places there are at most.
        beta: β, the temperature: towards 0 the first rank only, towards infinity all alike.
    """

    def __init__(self, size: int, beta: float) -> None:
        self._keys: dict[int, tuple[float, int, int]] = {}
        self._order = SortedList()
        self._sums = list(accumulate((1.0 / rank) ** (1.0 / beta) for rank in range(1, size + 1)))
        self._clock = 0

    def __len__(self) -> int:
        return len(self._keys)

    def set(self, place: int, priority: float) -> None:
        """Ranks a place, anew if it was ranked before."""
        self.remove(place)
        self._clock += 1
        self._keys[place] = key = (-priority, self._clock, place)
        self._order.add(key)

    def remove(self, place: int) -> None:
        """Takes a place out, if it is ranked."""
        key = self._keys.pop(place, None)
        if key is not None:
            self._order.remove(key)

    def find(self, unit: float) -> int:
        """The place at which a share `unit`, in [0, 1), of all weights is passed. At least one must be ranked."""
        n = len(self._keys)
        rank = bisect_right(self._sums, unit * self._sums[n - 1], 0, n - 1)
        return int(self._order[rank][2])

    def state_dict(self) -> list[Any]:
        """The order, as plain JSON data."""
        return [self._clock, [list(key) for key in self._order]]

    def load_state_dict(self, state: Sequence[Any]) -> None:
        """Goes on from where `state_dict` was taken."""
        self._clock = state[0]
        self._keys = {place: (priority, clock, place) for priority, clock, place in state[1]}
        self._order = SortedList(self._keys.values())
