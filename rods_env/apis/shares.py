"""Shares: whole numbers in proportion to weights, and draws in proportion to them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def apportioned(weights: Mapping[K, float], total: int) -> dict[K, int]:
    """Whole numbers in proportion to weights that add up to the total, by largest remainders; of equal ones the first.

    Without any weight above 0 all numbers are 0.
    """
    whole = sum(weights.values())
    if whole <= 0:
        return dict.fromkeys(weights, 0)
    exact = {key: weight / whole * total for key, weight in weights.items()}
    counts = {key: int(value) for key, value in exact.items()}
    by_remainder = sorted(exact, key=lambda key: counts[key] - exact[key])
    for key in by_remainder[: total - sum(counts.values())]:
        counts[key] += 1
    return counts


def place_at(weights: Sequence[float], unit: float) -> int:
    """The place at which a share `unit`, in [0, 1), of the sum of all weights is passed."""
    rest = unit * sum(weights)
    for place, weight in enumerate(weights):
        rest -= weight
        if rest < 0:
            return place
    return len(weights) - 1  # rounding
