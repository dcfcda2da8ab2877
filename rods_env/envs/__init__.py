"""Environments and their registration: one row of the table for each id."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

_TOOL_USE = "rods_env.envs.tool_use:ToolUseEnv"

ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ToolUse-RODS-v0": (_TOOL_USE, {}),
    "ToolUse-Files-v0": (_TOOL_USE, {"apis": ("files",)}),
    "ToolUse-Shop-v0": (_TOOL_USE, {"apis": ("shop",)}),
    "ToolUse-Travel-v0": (_TOOL_USE, {"apis": ("travel",)}),
    "ToolUse-Bank-v0": (_TOOL_USE, {"apis": ("bank",)}),
    "ToolUse-Calendar-v0": (_TOOL_USE, {"apis": ("calendar",)}),
    "ToolUse-Mail-v0": (_TOOL_USE, {"apis": ("mail",)}),
    "ToolUse-Tickets-v0": (_TOOL_USE, {"apis": ("tickets",)}),
    "ToolUse-Fleet-v0": (_TOOL_USE, {"apis": ("fleet",)}),
}

# The tasks of BFCL V3 multi-turn on its own simulators; they need the package bfcl-eval when they are made.
_BFCL = "rods_env.envs.bfcl:BfclEnv"
BFCL_ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ToolUse-BFCL-v0": (_BFCL, {}),
    "ToolUse-BFCL-Base-v0": (_BFCL, {"categories": ("base",)}),
    "ToolUse-BFCL-MissFunc-v0": (_BFCL, {"categories": ("miss_func",)}),
    "ToolUse-BFCL-MissParam-v0": (_BFCL, {"categories": ("miss_param",)}),
    "ToolUse-BFCL-LongContext-v0": (_BFCL, {"categories": ("long_context",)}),
}

# Actions are numbers, observations arrays; everything else is as above.
DISCRETE_ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ToolUse-RODS-Discrete-v0": ("rods_env.wrappers.discrete_actions:make_discrete", {}),
}


def register_environments() -> None:
    """Makes the ids of the tables known to Gymnasium."""
    for name, (entry_point, kwargs) in {**ENVIRONMENTS, **BFCL_ENVIRONMENTS, **DISCRETE_ENVIRONMENTS}.items():
        # The passive checker compares every observation with the space again, which halves the speed; the tests do it.
        # The order of reset and step the environments enforce themselves, with the same errors.
        gym.register(name, entry_point=entry_point, kwargs=kwargs, disable_env_checker=True, order_enforce=False)
