"""Checks of what a curriculum is made with: each error names what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rods_env.errors import RodsError


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises unless the value is one of those allowed."""
    if value not in allowed:
        raise RodsError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def check_whole(name: str, value: Any, least: int = 0) -> None:
    """Raises unless the value is an integer, and not below the least one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RodsError(f"{name} must be an integer of at least {least}; got {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Raises unless the value is a number in [0, 1]."""
    if not is_number(value) or not 0 <= value <= 1:
        raise RodsError(f"{name} must be a number in [0, 1]; got {value!r}.")


def check_above_zero(name: str, value: Any) -> None:
    """Raises unless the value is a finite number above 0."""
    if not is_number(value) or not 0 < value < math.inf:
        raise RodsError(f"{name} must be a finite number above 0; got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raises unless the value is True or False."""
    if not isinstance(value, bool):
        raise RodsError(f"{name} must be True or False; got {value!r}.")


def is_number(value: Any) -> bool:
    """Whether the value is an int or a float, and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
