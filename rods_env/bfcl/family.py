"""BFCL's tasks as a family: written as data, read again, and varied."""

from __future__ import annotations

from typing import Any

import msgspec

from rods_env.bfcl.simulators import BfclWorld, initial_world
from rods_env.bfcl.source import APIS
from rods_env.bfcl.tasks import BfclTask
from rods_env.bfcl.tools import tools_by_name
from rods_env.bfcl.variants import BfclSynthesizer
from rods_env.errors import RodsError
from rods_env.tasks.families import Family
from rods_env.tasks.task import Kind, Turn


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    kind: Kind
    apis: tuple[str, ...]
    turns: tuple[Turn, ...]
    config: dict[str, dict[str, Any]]
    parent: str | None = None


def to_data(task: BfclTask) -> dict[str, Any]:
    """A task as plain JSON data, with its whole initial configuration."""
    world: Any = task.world
    turns = [
        {key: value for key, value in msgspec.to_builtins(turn).items() if value or key in ("message", "calls")}
        for turn in task.turns
    ]
    return {"id": task.id, "kind": task.kind, "apis": list(task.apis), "parent": task.parent, "turns": turns,
            "config": world.config}  # fmt: skip


def from_data(data: dict[str, Any]) -> BfclTask:
    """The task that `to_data` wrote.

    Raises:
        RodsError: says what is wrong with it.
    """
    try:
        read = msgspec.convert(data, _Data)
    except msgspec.ValidationError as error:
        raise RodsError(f"not a task of BFCL: {error}") from None
    for api in read.apis:
        if api not in APIS:
            raise RodsError(f"not a task of BFCL: no simulator {api!r}.")
    for turn in read.turns:
        for call in turn.calls:
            if call.tool not in tools_by_name():
                raise RodsError(f"not a task of BFCL: no function {call.tool!r}.")
    world: BfclWorld = initial_world(read.apis, read.config, read.kind == "long_context")
    return BfclTask(read.id, read.kind, read.apis, read.turns, world, read.parent)


FAMILY = Family(to_data, from_data, BfclSynthesizer)
