"""APIs that a task does not need, offered beside those it does."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from rods_env.apis.api import World
from rods_env.apis.draw import Draw
from rods_env.apis.registry import check_apis
from rods_env.apis.worlds import draw_world
from rods_env.tasks.task import Task


def with_distractors(task: Task, apis: Sequence[str]) -> Task:
    """The same task with further APIs offered, whose worlds are drawn from the task's id (equal for equal tasks).

    Args:
        task: the task; its id, turns and own tables stay as they are.
        apis: names of registered APIs; those that the task has already change nothing.

    Raises:
        RodsError: for an unknown API.
    """
    extra = [name for name in check_apis(apis) if name not in task.apis]
    if not extra:
        return task
    draw = Draw(np.random.default_rng(zlib.crc32(task.id.encode())))
    others, _ = draw_world(draw, extra, today=task.world.today)
    world = World(task.world.now, task.world.tables.update(others.tables))
    return Task(task.id, task.kind, check_apis((*task.apis, *extra)), task.turns, world, task.parent)
