"""Tasks in states: nothing is lost, and what is shared is held once."""

from __future__ import annotations

import json

import msgspec
import pytest

from rods_env.curricula.archive import shared_tables, tasks_from_data, tasks_to_data
from rods_env.errors import RodsError
from rods_env.tasks.task import load_tasks, save_tasks, task_to_json


@pytest.fixture(scope="module")
def siblings(seeds):
    """Tasks that share tables: the same world under several ids, and others."""
    return [msgspec.structs.replace(task, id=f"{task.id}-{k}", parent=task.id) for task in seeds[:8] for k in range(3)]


def test_there_and_back(siblings):
    data = json.loads(json.dumps(tasks_to_data(siblings)))
    back = tasks_from_data(data)
    assert list(back) == [task.id for task in siblings]
    for task in siblings:
        assert task_to_json(back[task.id]) == task_to_json(task)
        assert back[task.id].turns == task.turns
    assert tasks_to_data(back.values()) == data


def test_shared_tables_are_held_once(siblings, seeds):
    data = tasks_to_data(siblings)
    assert len(data["tables"]) == sum(len(task.world.tables) for task in seeds[:8])
    back = tasks_from_data(data)
    for name, rows in back[siblings[0].id].world.tables.items():
        assert back[siblings[1].id].world.tables[name] is rows


def test_a_task_that_comes_twice_is_held_once(seeds):
    assert len(tasks_to_data([seeds[0], seeds[1], seeds[0]])["tasks"]) == 2


def test_equal_tables_of_a_file_become_one(siblings, tmp_path):
    save_tasks(siblings, tmp_path / "tasks.jsonl")
    apart = load_tasks(tmp_path / "tasks.jsonl")
    together = shared_tables(apart)
    assert [task_to_json(task) for task in together] == [task_to_json(task) for task in siblings]

    def tables(tasks):
        return len({id(rows) for task in tasks for rows in task.world.tables.values()})

    assert tables(together) < tables(apart) == 3 * tables(siblings)


@pytest.mark.parametrize(
    "change",
    [lambda d: d.pop("tables"), lambda d: d.update(tables=[]), lambda d: d["tables"].append(["nowhere.at", []]),
     lambda d: d["tasks"][0].pop("turns"), lambda d: d["tasks"][0].update(more=1), lambda d: d.update(tasks=3),
     lambda d: d["tasks"][0].update(tables={}), lambda d: d["tasks"][0].update(apis=["nothing"])],
)  # fmt: skip
def test_broken_data_is_refused(seeds, change):
    data = json.loads(json.dumps(tasks_to_data(seeds[:2])))
    change(data)
    with pytest.raises(RodsError):
        tasks_from_data(data)
