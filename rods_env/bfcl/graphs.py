"""Dependency graphs of BFCL's gold calls, derived by running them: values that flow, state that is written and read."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rods_env.bfcl.cells import GONE, Cell, cells_of, changes, take_back
from rods_env.bfcl.said import Text, is_slight, parts_of_place
from rods_env.bfcl.simulators import BfclWorld, Simulators
from rods_env.bfcl.tools import BfclTool
from rods_env.tasks.graph import Edges

if TYPE_CHECKING:
    from rods_env.bfcl.tasks import BfclTask

_SHORTEST = 4  # characters of a text that is looked for within a longer one


class Run(NamedTuple):
    """One executed gold call.

    Attributes:
        tool: the function.
        arguments: decoded, in the order of the signature.
        text: the result as the policy reads it.
        failed: whether it is an error.
        world: the world before it.
        changed: the cells of its simulator that it changed, with their new values.
        old: the values of these before it.
    """

    tool: BfclTool
    arguments: tuple[Any, ...]
    text: str
    failed: bool
    world: BfclWorld
    changed: dict[Cell, Any]
    old: dict[Cell, Any]


@lru_cache(maxsize=4)
def traced(task: BfclTask) -> tuple[Run, ...]:
    """The gold calls of a task, executed on its initial world, with what each changed."""
    simulators = Simulators(task.world)  # type: ignore[arg-type]  # a BfclWorld
    state: Any = simulators.state
    cells = {api: cells_of(simulator) for api, simulator in state.simulators.items()}
    runs = []
    for call in task.calls:
        tool = task.tools[call.tool]
        arguments = tool.decode(msgspec.json.encode(call.arguments))
        world = state.world
        text, failed = simulators.call(tool, arguments)
        before = cells[tool.api]
        after = cells[tool.api] = cells_of(state.simulators[tool.api])
        changed = changes(before, after)
        old = {cell: before.get(cell, GONE) for cell in changed}
        runs.append(Run(tool, arguments, text, failed, world, changed, old))
    return tuple(runs)


@lru_cache(maxsize=4)
def results_of(task: BfclTask) -> tuple[Held, ...]:
    """The values in the results of a task's gold calls."""
    return tuple(Held(run.text) for run in task.runs)


def edges_of(task: BfclTask) -> Edges:
    """The edges of a task's dependency graph, (earlier call, later call) to kind.

    `data`: a value in an argument of the later call came out of the earlier one's result (`argument_sources`).
    `state`: the later call writes a cell that the earlier one was the last to write, or reads one: run without what
    the earlier call was the last to write, it has another result, or changes something else (and there is no data
    edge between the two).
    """
    edges: Edges = {}
    writers: dict[str, dict[Cell, tuple[int, Any]]] = {}  # by simulator, the last writer of a cell, the value before
    runs = task.runs
    for index, run in enumerate(runs):
        written = writers.setdefault(run.tool.api, {})
        by_writer: dict[int, dict[Cell, Any]] = {}
        for cell, (writer, before) in written.items():
            by_writer.setdefault(writer, {})[cell] = before
        for writer, old in by_writer.items():
            if old.keys() & run.changed.keys() or _reads(run, old):
                edges[writer, index] = "state"
        for cell, before in run.old.items():
            written[cell] = index, before
    for index, sources in enumerate(flows(task)):
        edges |= {(source, index): "data" for found in sources.values() for source in found}
    return edges


def _reads(run: Run, old: Mapping[Cell, Any]) -> bool:
    """Whether a call has another result, or another effect, where these cells have these values."""
    simulators = Simulators(run.world)
    state: Any = simulators.state
    simulator = state.writable(run.tool.api)  # a copy, which no world holds
    take_back(simulator, old)
    before = cells_of(simulator)
    text, _ = simulators.call(run.tool, run.arguments)
    return text != run.text or changes(before, cells_of(simulator)) != run.changed


# ---------------------------------------------------------------------- values


def argument_sources(task: BfclTask) -> tuple[dict[str, int | None], ...]:
    """For each gold call where its arguments come from: the earliest call whose result holds a value, or None for the
    text; an argument whose values are neither is left out. `flows` has the calls of all values of an argument."""
    found: list[dict[str, int | None]] = []
    for index, (call, sources) in enumerate(zip(task.calls, flows(task), strict=True)):
        text = task.texts[task.turn_of_call[index]]
        of_call: dict[str, int | None] = {}
        for name, value in call.arguments.items():
            if sources.get(name):
                of_call[name] = min(sources[name])
            elif all(text.gives(leaf) for leaf in leaves(value)):
                of_call[name] = None
        found.append(of_call)
    return tuple(found)


def flows(task: BfclTask) -> list[dict[str, set[int]]]:
    """For each gold call and argument the calls whose results its values came out of.

    The user's text so far and the function's own doc come first: what they give needs no call. A value flows from the
    earliest result that holds it (`Held.supplies`). A slight one, a truth value, a number of less than three
    digits, a text of one character, flows only from a field of the same name, or from one id to another; or in a list
    of at least two numbers that one result has all of. What a call itself was given does not flow out of its result.
    """
    held = task.held
    had = [[_plain(leaf) for leaf in leaves(call.arguments)] for call in task.calls]
    found = []
    for index, call in enumerate(task.calls):
        text, tool = task.texts[task.turn_of_call[index]], task.tools[call.tool]
        of_call: dict[str, set[int]] = {}
        for name, value in call.arguments.items():
            some = [leaf for leaf in leaves(value) if not text.gives(leaf) and not tool.names(name, leaf)]
            together = isinstance(value, list) and len(some) == len(value) > 1
            for leaf in some:
                for at in range(index):
                    if _plain(leaf) not in had[at] and held[at].supplies(name, leaf, text):
                        of_call.setdefault(name, set()).add(at)
                        break
            if together and name not in of_call:  # numbers that are slight one by one
                source = next((at for at in range(index) if held[at].numbers.issuperset(some)), None)
                if source is not None:
                    of_call[name] = {source}
        found.append(of_call)
    return found


def leaves(value: Any) -> Iterator[Any]:
    """The single values in an argument: of lists the items, of dictionaries the values."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    else:
        yield value


class Held:
    """The values in a result: what a field, an item, or a key within it is.

    Args:
        text: the result as the policy reads it: JSON, what Python writes, or plain text.
    """

    def __init__(self, text: str) -> None:
        self._fields: dict[str, set[str]] = {}  # a value as text, to the names of the fields it stands in
        for name, value in _fields(parsed(text), "", 0):
            self._fields.setdefault(_plain(value), set()).add(name)
        self._long = {v: Text(v) for v in self._fields if len(v) >= _SHORTEST and not v.isdecimal()}
        self.text = text
        self._telling = [value for value in self._fields if _is_telling(value)]

    @cached_property
    def numbers(self) -> set[float]:
        """All numbers in the result, those within texts too."""
        return Text(self.text).numbers

    @property
    def values(self) -> list[str]:
        """All values as texts."""
        return list(self._fields)

    @cached_property
    def fields(self) -> set[float]:
        """The numbers that fields of the result have as their values; not those in texts and lists."""
        record = parsed(self.text)
        values = record.values() if isinstance(record, dict) else ()
        return {float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)}

    def supplies(self, name: str, value: Any, said: Text) -> bool:
        """Whether the result supplies a value for a parameter of this name.

        It does if it holds the same value (12 and "12" are the same, and so is a decimal number that was rounded), a
        path with a file or folder of this name, a longer text of which the value is some words, or a telling number or
        text that stands within the value and that the user did not say.
        """
        if value is None or isinstance(value, bool):
            return False
        wanted = _plain(value)
        if is_slight(value):
            fields = self._fields.get(wanted, ())
            return any(field and (field == name or (_is_id(field) and _is_id(name))) for field in fields)
        if wanted in self._fields:
            return True
        if not isinstance(value, str):
            decimals = len(wanted.partition(".")[2])
            return value in self.numbers or (decimals > 0 and value in {round(n, decimals) for n in self.numbers})
        if any(wanted in parts_of_place(place) for place in self._long if "/" in place):
            return True
        if len(wanted) >= _SHORTEST and any(t.holds(wanted) for long, t in self._long.items() if wanted in long):
            return True
        text = Text(wanted)
        return any(text.holds(part) and not said.gives(part) for part in self._telling if part in wanted)


def _fields(value: Any, name: str, level: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if level:  # such as the numbers of cards; the keys at the top are names that every result has
                yield name, str(key)
            yield from _fields(inner, str(key), level + 1)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _fields(inner, name, level + 1)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield name, value


def parsed(text: str) -> Any:
    """A result as the data that was written: dictionaries, lists, numbers; plain texts as they are."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _is_telling(value: str) -> bool:
    """Whether a value is known again within a text: a number of three digits, a text of five characters."""
    try:
        return not is_slight(float(value))
    except ValueError:
        return len(value) >= 5


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")
