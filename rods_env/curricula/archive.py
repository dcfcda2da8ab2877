"""Tasks to and from plain JSON data, for the states of curricula: tables that several tasks share are held once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import immutables
import msgspec

from rods_env.apis.api import World
from rods_env.apis.registry import check_apis, lacking_table
from rods_env.apis.worlds import WorldData, world_from_data, world_to_data
from rods_env.errors import RodsError
from rods_env.tasks.task import Kind, Task, Turn, task_from_json, task_to_json


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A task whose tables are numbers."""

    id: str
    kind: Kind
    apis: tuple[str, ...]
    turns: tuple[Turn, ...]
    now: str
    tables: dict[str, int]
    parent: str | None = None


def tasks_to_data(tasks: Iterable[Task]) -> dict[str, Any]:
    """Tasks as `task_to_json` has them, but for their tables, which are numbers in a list of tables.

    A table is shared where it is the same object: worlds are values, and many tasks are made in one.
    """
    numbers: dict[int, int] = {}  # by the identity of a table; the tasks keep all tables alive meanwhile
    tables: list[Any] = []
    lines, others = [], []
    for task in {task.id: task for task in tasks}.values():
        if task.ENVIRONMENT != Task.ENVIRONMENT:  # these have no tables: each is held whole
            others.append(msgspec.json.decode(task_to_json(task)))
            continue
        world = task.world
        places: dict[str, int] = {}
        for name, rows in sorted(world.tables.items()):
            if id(rows) not in numbers:
                numbers[id(rows)] = len(tables)
                alone = world_to_data(World(world.now, immutables.Map({name: rows})))
                tables.append([name, alone.tables[name]])
            places[name] = numbers[id(rows)]
        bare = msgspec.structs.replace(task, world=World(world.now, immutables.Map()))
        line = msgspec.json.decode(task_to_json(bare))
        del line["world"]
        lines.append({**line, "now": world.now, "tables": places})
    return {"tables": tables, "tasks": lines, **({"others": others} if others else {})}


def shared_tables(tasks: Iterable[Task]) -> list[Task]:
    """The same tasks, with equal tables as one object: read from a file, every task has tables of its own."""
    known: dict[bytes, Any] = {}
    found = []
    for task in tasks:
        if task.ENVIRONMENT != Task.ENVIRONMENT:
            found.append(task)
            continue
        tables = {}
        for name, rows in task.world.tables.items():
            content = msgspec.json.encode(world_to_data(World("", immutables.Map({name: rows}))).tables)
            tables[name] = known.setdefault(hashlib.blake2b(content, digest_size=16).digest(), rows)
        found.append(msgspec.structs.replace(task, world=World(task.world.now, immutables.Map(tables))))
    return found


def tasks_from_data(data: dict[str, Any]) -> dict[str, Task]:
    """The tasks that `tasks_to_data` wrote, by id; what was shared is shared again.

    Raises:
        RodsError: for what is no task, or a table that no registered API declares.
    """
    tasks = {}
    try:
        tables = [world_from_data(WorldData("", {name: rows})).tables[name] for name, rows in data["tables"]]
        for line in msgspec.convert(data["tasks"], list[_Line]):
            world = World(line.now, immutables.Map({name: tables[number] for name, number in line.tables.items()}))
            lacking = lacking_table(world, check_apis(line.apis))
            if lacking:
                raise RodsError(f"task {line.id}: its world lacks the table {lacking!r} of one of its APIs.")
            tasks[line.id] = Task(line.id, line.kind, line.apis, line.turns, world, line.parent)
        for other in data.get("others", ()):
            task = task_from_json(msgspec.json.encode(other))
            tasks[task.id] = task
    except (msgspec.ValidationError, KeyError, IndexError, TypeError, ValueError) as error:
        raise RodsError(f"these are no stored tasks: {error!r}.") from None
    return tasks
