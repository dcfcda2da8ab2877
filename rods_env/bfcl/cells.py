"""The state of a simulator as cells (path to value), and single changes taken back: what state edges stand on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Cell = tuple[str, ...]  # the attribute, then keys of dictionaries, items of lists, or names of folders and files

# Not state that a call needs: counters and sets of ids only number what is created, and whoever creates something would
# depend on whoever did so before; the generator likewise; the cache of prices is filled by whoever reads it.
_IGNORED = {
    "_api_description", "_random", "_flight_cost_lookup", "long_context", "generated_ids", "user_count",
    "message_count", "tweet_counter", "ticket_counter", "order_counter",
}  # fmt: skip
GONE: Any = object()  # the value of a cell that is not there
_FOLDER = "(folder)"
_RECORD = "(record)"
_CURRENT: Cell = ("_current_dir",)


def cells_of(simulator: Any) -> dict[Cell, Any]:
    """All cells of a simulator.

    A cell is an attribute, an entry of a dictionary, an item of a list, a folder or a file, at any depth. Items have
    no places: a list of records with ids is told apart by these, any other by what the items are. Dictionaries and
    folders are cells themselves, so that an empty one differs from none. The value of a file is its content, that of
    `_current_dir` the path of the folder.
    """
    cells: dict[Cell, Any] = {}
    for name, value in vars(simulator).items():
        if name not in _IGNORED:
            cells.update(_walk((name,), value))
    return cells


def _walk(path: Cell, value: Any) -> Iterator[tuple[Cell, Any]]:
    if path == _CURRENT:
        yield path, _place(value)
    elif hasattr(value, "contents"):
        yield path, _FOLDER
        for name, inner in value.contents.items():
            yield from _walk((*path, name), inner)
    elif hasattr(value, "content"):
        yield path, value.content
    elif isinstance(value, dict):
        yield path, _RECORD
        for key, inner in value.items():
            yield from _walk((*path, str(key)), inner)
    elif isinstance(value, list):
        for key, inner in zip(_keys(value), value, strict=True):
            yield from _walk((*path, key), inner) if _has_id(inner) else [((*path, key), inner)]
    else:
        yield path, value


def _has_id(item: Any) -> bool:
    return isinstance(item, dict) and "id" in item


def _keys(items: list[Any]) -> list[str]:
    """A name for each item of a list: its id, or what it is; equal ones are numbered."""
    met: Counter[str] = Counter()
    keys = []
    for item in items:
        key = f"id {item['id']}" if _has_id(item) else json.dumps(item, sort_keys=True, default=str)
        keys.append(f"{key} #{met[key]}" if met[key] else key)
        met[key] += 1
    return keys


def _place(folder: Any) -> tuple[str, ...]:
    """The names of the folders down to this one, without the root's."""
    names: list[str] = []
    while folder is not None and folder.parent is not None:
        names.insert(0, folder.name)
        folder = folder.parent
    return tuple(names)


def changes(before: Mapping[Cell, Any], after: Mapping[Cell, Any]) -> dict[Cell, Any]:
    """What differs afterwards: cell to its new value, `GONE` for one that is gone."""
    gone = dict.fromkeys(before.keys() - after.keys(), GONE)
    return gone | {cell: value for cell, value in after.items() if cell not in before or before[cell] != value}


def take_back(simulator: Any, old: Mapping[Cell, Any]) -> None:
    """Gives cells their old values, `GONE` for one that was not there.

    A folder stays where something else is still in it, and the current folder where its path has gone: what stands in a
    folder needs whoever went there, not whoever made it.
    """
    here = getattr(simulator, "_current_dir", None)
    for cell in sorted(old, key=len):  # a record before its entries
        if old[cell] is not GONE and cell != _CURRENT:
            _put(simulator, cell, old[cell])
    for cell in sorted(old, key=len, reverse=True):  # and what is in a folder goes before the folder
        if old[cell] is GONE:
            _drop(simulator, cell, here)
    if _CURRENT in old:
        found = simulator.root
        for name in old[_CURRENT]:
            found = getattr(found, "contents", {}).get(name)
        if hasattr(found, "contents"):
            simulator._current_dir = found


def _holder(simulator: Any, cell: Cell) -> Any:
    """What holds the last part of a cell: a dictionary, a list, a folder; None if it is gone."""
    held: Any = vars(simulator)
    for part in cell[:-1]:
        held = _entry(held, part)
        if held is None:
            return None
    return held


def _entry(held: Any, part: str) -> Any:
    if isinstance(held, list):
        return next((item for key, item in zip(_keys(held), held, strict=True) if key == part), None)
    entries = getattr(held, "contents", held)
    return entries.get(_real_key(entries, part)) if isinstance(entries, dict) else None


def _real_key(entries: dict[Any, Any], part: str) -> Any:
    """The key that a part stands for; some dictionaries have integers."""
    return next((key for key in entries if str(key) == part), part)


def _put(simulator: Any, cell: Cell, value: Any) -> None:
    held, name = _holder(simulator, cell), cell[-1]
    if hasattr(held, "contents"):
        if value == _FOLDER:
            if name not in held.contents:
                held._add_directory(name)
        elif hasattr(held.contents.get(name), "content"):
            held.contents[name].content = value  # in its place: lists of names keep their order
        else:
            held.contents.pop(name, None)
            held._add_file(name, value)
    elif isinstance(held, list):
        if _entry(held, name) is None:
            held.append({"id": None} if value == _RECORD else value)
            if value == _RECORD:
                held[-1]["id"] = int(name[3:]) if name[3:].isdecimal() else name[3:]
    elif isinstance(held, dict):
        key = _real_key(held, name)
        if key not in held and name.isdecimal() and any(isinstance(other, int) for other in held):
            key = int(name)
        if value != _RECORD:
            held[key] = value
        elif key not in held:
            held[key] = {}


def _drop(simulator: Any, cell: Cell, here: Any) -> None:
    held, name = _holder(simulator, cell), cell[-1]
    if hasattr(held, "contents"):
        inner = held.contents.get(name)
        if inner is not None and not getattr(inner, "contents", None) and inner is not here:
            del held.contents[name]
    elif isinstance(held, list):
        item = _entry(held, name)
        held[:] = [other for other in held if other is not item]
    elif isinstance(held, dict):
        held.pop(_real_key(held, name), None)
