"""Multi-turn tool-use tasks that are provably solvable, behind the Gymnasium API."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rods_env import apis as _apis  # noqa: F401 - registers the simulated services
from rods_env.envs import register_environments
from rods_env.errors import RodsError, SynthesisError, ToolError
from rods_env.version import __version__

if TYPE_CHECKING:
    from rods_env.agents.evaluate import evaluate
    from rods_env.tasks.graph import isomorphic
    from rods_env.tasks.task import Task, load_tasks, save_tasks
    from rods_env.tasks.validation import validate
    from rods_env.tasks.variants import Synthesizer

__all__ = [
    "RodsError", "SynthesisError", "Synthesizer", "Task", "ToolError", "__version__", "evaluate", "isomorphic",
    "load_tasks", "save_tasks", "validate",
]  # fmt: skip

_LATE = {
    "Task": "rods_env.tasks.task",
    "load_tasks": "rods_env.tasks.task",
    "save_tasks": "rods_env.tasks.task",
    "validate": "rods_env.tasks.validation",
    "Synthesizer": "rods_env.tasks.variants",
    "isomorphic": "rods_env.tasks.graph",
    "evaluate": "rods_env.agents.evaluate",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import rods_env` stays fast."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_environments()
