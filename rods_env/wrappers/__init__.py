"""Gymnasium wrappers: a curriculum that chooses the tasks, clearer errors, and a discrete space of actions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rods_env.wrappers.augmented_feedback import AugmentedFeedback
    from rods_env.wrappers.discrete_actions import DiscreteActions
    from rods_env.wrappers.frontier_curriculum import FrontierCurriculum

__all__ = ["AugmentedFeedback", "DiscreteActions", "FrontierCurriculum"]

_LATE = {
    "AugmentedFeedback": "rods_env.wrappers.augmented_feedback",
    "DiscreteActions": "rods_env.wrappers.discrete_actions",
    "FrontierCurriculum": "rods_env.wrappers.frontier_curriculum",
}


def __getattr__(name: str) -> Any:
    """Imports a wrapper when it is first used, because each needs other parts of the package."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
