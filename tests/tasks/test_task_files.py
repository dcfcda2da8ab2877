"""Tasks in files: nothing is lost, broken lines are named, half-written files never appear, equal is equal bytes."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys

import immutables
import msgspec
import pytest

import rods_env
from rods_env.apis.api import World
from rods_env.apis.registry import TABLES, TOOLS
from rods_env.errors import RodsError
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import (
    KINDS,
    Task,
    Turn,
    load_tasks,
    make_task,
    save_tasks,
    task_from_json,
    task_to_json,
    write_atomically,
)
from rods_env.tasks.validation import validate


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    source = TaskSource(21)
    return [source.task(kind) for kind in KINDS for _ in range(3)]


@pytest.mark.parametrize("name", ["some.jsonl", "some.jsonl.gz"])
def test_saved_and_loaded_tasks_are_equal_to_the_byte(tasks, tmp_path, name):
    path, again = tmp_path / name, tmp_path / f"again-{name}"
    save_tasks(tasks, path)
    back = load_tasks(path)
    assert back == tasks
    assert [(t.id, t.apis, t.parent, t.kind) for t in back] == [(t.id, t.apis, t.parent, t.kind) for t in tasks]
    assert [t.turns for t in back] == [t.turns for t in tasks]
    save_tasks(back, again)
    assert again.read_bytes() == path.read_bytes()
    assert all(validate(task) == [] for task in back)


def test_gzip_and_plain_hold_the_same_lines(tasks, tmp_path):
    save_tasks(tasks, tmp_path / "a.jsonl")
    save_tasks(tasks, str(tmp_path / "a.jsonl.gz"))
    plain = (tmp_path / "a.jsonl").read_bytes()
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == plain
    assert plain.count(b"\n") == len(tasks)
    assert len((tmp_path / "a.jsonl.gz").read_bytes()) < len(plain) / 2


def test_no_tasks_make_an_empty_file(tmp_path):
    save_tasks([], tmp_path / "none.jsonl")
    assert (tmp_path / "none.jsonl").read_bytes() == b""
    assert load_tasks(tmp_path / "none.jsonl") == []


def test_blank_lines_are_skipped(tasks, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n" + task_to_json(tasks[0]) + b"\n  \n" + task_to_json(tasks[1]))
    assert load_tasks(path) == tasks[:2]


NOW = "2026-01-01T09:00"
TABLES_OF_SHOP = {name: [] for name in TABLES if name.startswith("shop.")}
GOOD_LINE = {"id": "a", "kind": "base", "apis": ["shop"], "turns": [], "world": {"now": NOW, "tables": TABLES_OF_SHOP}}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "hard"}, "kind"),
        ({"turns": [{"calls": []}]}, "message"),
        ({"turns": [{"message": "Hi.", "calls": [{"arguments": {}}]}]}, "tool"),
        ({"color": "red"}, "color"),
        ({"world": {"now": NOW, "tables": {"zoo.animals": []}}}, "unknown table 'zoo.animals'"),
        ({"world": {"now": NOW, "tables": {"shop.orders": [{"id": "ord_aaaaa"}]}}}, "table 'shop.orders'"),
        ({"world": {"now": NOW, "tables": {}}}, "lacks the table 'shop"),
        ({"world": {"now": "tomorrow", "tables": TABLES_OF_SHOP}}, "now"),
        ({"world": {"now": NOW}}, "tables"),
        ({"world": {"tables": {}}}, "now"),
        ({"world": {"now": NOW, "tables": []}}, ""),
        ({"world": {"now": NOW, "tables": {"shop.orders": 7}}}, ""),
        ({"world": 7}, "world"),
    ],
)
def test_a_broken_line_is_named_by_its_number(tasks, tmp_path, change, complaint):
    path = tmp_path / "a.jsonl"
    path.write_bytes(task_to_json(tasks[0]) + b"\n\n" + msgspec.json.encode({**GOOD_LINE, **change}) + b"\n")
    with pytest.raises(RodsError, match=rf"a\.jsonl, line 3: .*{complaint}"):
        load_tasks(path)


def test_the_unbroken_line_loads():
    """So that the lines above are broken for the reason they say."""
    assert task_from_json(json.dumps(GOOD_LINE)).id == "a"


@pytest.mark.parametrize("line", [b"not json", b"[]", b'{"id": "a"', b"\xff\xfe\x00", b"null"])
def test_what_is_no_task_is_said_to_be_none(line):
    with pytest.raises(RodsError, match="not a task"):
        task_from_json(line)


def test_an_unknown_api_in_a_line_is_found():
    data = {**GOOD_LINE, "apis": ["zoo"], "turns": [{"message": "Hi.", "calls": [{"tool": "feed", "arguments": {}}]}]}
    with pytest.raises(RodsError, match="unknown API 'zoo'; the registered ones are: files"):
        task_from_json(json.dumps(data))


@pytest.mark.parametrize("name", ["sedes", "nowhere/tasks.jsonl", ""])
def test_an_unknown_name_says_what_is_known(name):
    with pytest.raises(RodsError, match=f"no task file {name!r}: expected 'seeds' or 'heldout', or the path"):
        load_tasks(name)


def test_a_folder_is_no_task_file(tmp_path):
    with pytest.raises(RodsError, match="no task file"):
        load_tasks(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "no gzip", "scrambled"])
def test_a_damaged_archive_says_so(tasks, tmp_path, damage):
    path = tmp_path / "a.jsonl.gz"
    save_tasks(tasks, path)
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "no gzip":
        path.write_bytes(b"plain text")
    else:
        path.write_bytes(content[:20] + bytes(b ^ 0x5A for b in content[20:]))
    with pytest.raises(RodsError, match=r"a\.jsonl\.gz: cannot be read"):
        load_tasks(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_half_written_file_never_replaces_a_good_one(tasks, tmp_path, monkeypatch, name):
    path = tmp_path / name
    save_tasks(tasks, path)
    good = path.read_bytes()

    def failing():
        yield tasks[0]
        raise RuntimeError("the power went out")

    with pytest.raises(RuntimeError, match="the power went out"):
        save_tasks(failing(), path)
    assert (os.listdir(tmp_path), path.read_bytes()) == ([name], good)

    def no_replace(*_):
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", no_replace)
        with pytest.raises((OSError, RodsError)):
            save_tasks(tasks[:1], path)
    assert (os.listdir(tmp_path), path.read_bytes()) == ([name], good), "and no temporary file is left"


def test_a_file_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(RodsError, match="cannot write"):
        write_atomically(tmp_path / "nowhere" / "a.jsonl", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RodsError, match="cannot write"):
        write_atomically(tmp_path / "folder", b"")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_written_file_can_be_read_by_others(tasks, tmp_path):
    save_tasks(tasks[:1], tmp_path / "a.jsonl")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o666 & ~umask


def test_equal_worlds_give_equal_bytes_whatever_made_them(tasks):
    for task in tasks:
        tables = {}
        for name, rows in sorted(task.world.tables.items(), reverse=True):
            tables[name] = immutables.Map()
            for key in sorted(rows, reverse=True):
                tables[name] = tables[name].set(key, rows[key])
        world = World(task.world.now, immutables.Map(tables))
        assert task_to_json(Task(task.id, task.kind, task.apis, task.turns, world, task.parent)) == task_to_json(task)


_SCRIPT = """
import hashlib, sys
from rods_env.tasks.task import load_tasks, task_to_json
print(hashlib.sha256(b"".join(task_to_json(task) for task in load_tasks(sys.argv[1]))).hexdigest())
"""


def test_equal_tasks_give_equal_bytes_in_every_process(tasks, tmp_path):
    """Known fault 21: equal runs, equal files."""
    path = tmp_path / "a.jsonl"
    save_tasks(tasks, path)
    digests = set()
    for seed in ("0", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(path)], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == 64


def test_an_id_is_derived_from_text_and_calls(tasks):
    task = tasks[0]
    same = make_task(task.kind, task.apis, task.turns, task.world)
    assert same.id == task.id
    called = {TOOLS[call.tool].api.NAME for call in task.calls}
    assert same.id.startswith("+".join(name for name in task.apis if name in called) + "-")
    turns = (Turn(task.turns[0].message + "!", task.turns[0].calls), *task.turns[1:])
    assert make_task(task.kind, task.apis, turns, task.world).id != task.id


def test_tasks_compare_by_content(tasks):
    a = tasks[0]
    renamed = Task("another-id", a.kind, a.apis, a.turns, a.world, "a parent")
    assert renamed == a
    assert a != tasks[1]
    assert a != Task(a.id, "long_context", a.apis, a.turns, a.world)
    assert a != Task(a.id, a.kind, a.apis, a.turns, World("2020-01-01T00:00", a.world.tables))
    assert a != "a task"
    assert "base" in repr(a)
    assert a.id in repr(a)
    assert a in {a}


def test_public_names_are_these_functions():
    assert rods_env.load_tasks is load_tasks
    assert rods_env.save_tasks is save_tasks
    assert rods_env.Task is Task
