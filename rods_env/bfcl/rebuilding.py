"""A BFCL task with other names: new messages and configuration, gold calls executed anew, results compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from rods_env.bfcl.contents import Contents, written_amounts
from rods_env.bfcl.entities import AMOUNTS, PATHS
from rods_env.bfcl.execution import Step, at, execute, executed, leaves
from rods_env.bfcl.numbers import TANK
from rods_env.bfcl.renaming import Names
from rods_env.bfcl.replacing import Replacement
from rods_env.bfcl.simulators import BfclWorld, initial_world
from rods_env.bfcl.tasks import BfclTask
from rods_env.errors import SynthesisError

_SMALL = 10  # numbers up to here are counted, not computed
_FIXED = ("list_all_airports", "find_nearest_tire_shop")  # what these return is the same in every world
_CLOSE = 1e-6
_DOUBLED = re.compile(r"\b(?:doubl\w*|twice)\b", re.I)
# A price or a limit that a person says, "$2,000" or "1200 dollars", and what it may be a limit of.
_MEASURED = re.compile(r"\$ ?(\d[\d,]*(?:\.\d+)?)|\b(\d[\d,]*(?:\.\d+)?) ?(?:dollars|USD)\b", re.I)
_PRICED = ("get_flight_cost", "book_flight", "get_stock_info", "place_order", "purchase_insurance", "retrieve_invoice")
_PRESSURE = re.compile(r"(?i)\b\d+(?:\.\d+)? ?psi\b|pressure below \d+")


class Rebuilding:
    """One attempt: a task and what it is to call everything.

    Attributes:
        messages: the new messages, turn by turn.
        config: the new initial configuration.
    """

    def __init__(self, task: BfclTask, names: Names) -> None:
        self.task = task
        self.names = names
        self._all = Replacement(names.words | names.folders)
        self._texts = Replacement(names.words)
        self._spoken = Replacement(names.words | names.said)
        message = Replacement(names.words | names.folders | names.said)
        self._old_messages = [turn.message for turn in task.turns]
        self.messages = [message(turn.message) for turn in task.turns]
        self.config = self._config(task.world.config)  # type: ignore[attr-defined]  # a BfclWorld
        if names.fuel:
            self.config["VehicleControlAPI"]["fuelLevel"] = type(
                task.world.config["VehicleControlAPI"]["fuelLevel"]  # type: ignore[attr-defined]
            )(names.fuel[1])

    def run(self) -> list[Step]:
        """The gold calls with their new arguments, executed on new simulators.

        Raises:
            SynthesisError: `arguments` or `result`.
        """
        parent = cast(BfclWorld, self.task.world)
        world = initial_world(self.task.apis, self.config, parent.long_context)
        return execute(world, self.task.calls, self._arguments)

    def check(self, steps: Sequence[Step]) -> None:
        """Compares all results with those of the parent.

        Raises:
            SynthesisError: `result`: one is not the old one with the names exchanged. `said`: a message or an argument
                has a number that a result no longer has, or the order of a said number and a computed one is another.
        """
        strict = numbers_are_computed(self.task)
        changed: list[tuple[str, Any, Any]] = []
        for old, new in zip(executed(self.task), steps, strict=True):
            if (old.failed, old.changed) != (new.failed, new.changed):
                raise SynthesisError(f"{old.call.tool} fails or changes something else.", reason="result")
            fixed = old.call.tool in _FIXED and old.text == new.text
            numbers: list[tuple[Any, Any]] = []
            if not (fixed or self._same(old.value, new.value, numbers)) or (strict and numbers):
                raise SynthesisError(f"{old.call.tool} returns something else.", reason="result")
            changed += [(old.call.tool, *pair) for pair in numbers]
        self._check_said(changed, steps)

    # ------------------------------------------------------------------ making

    def _config(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {self._all(key): self._config(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._config(inner) for inner in value]
        if isinstance(value, str):
            return self._texts(value)
        if isinstance(value, bool) or value is None:
            return value
        if key in AMOUNTS and value in self.names.amounts:  # a budget that is set again to what it was
            return _like(value, self.names.amounts[value])
        return self.names.codes.get(value, value)

    def _arguments(self, index: int, steps: Sequence[Step]) -> dict[str, Any]:
        call = self.task.calls[index]
        return {name: self._value(call.tool, name, value, index, steps) for name, value in call.arguments.items()}

    def _value(self, tool: str, name: str, value: Any, index: int, steps: Sequence[Step]) -> Any:
        if isinstance(value, list):
            return [self._value(tool, name, inner, index, steps) for inner in value]
        if isinstance(value, dict):
            return {key: self._value(tool, name, inner, index, steps) for key, inner in value.items()}
        if isinstance(value, str):
            if name in PATHS and tool != "set_navigation":
                return self._all(value)
            new = self._spoken(value)
            return _taken_over(value, new, executed(self.task)[:index], steps)
        if isinstance(value, bool) or value is None:
            return value
        if value in self.names.amounts:
            return _like(value, self.names.amounts[value])
        if value in self.names.codes and name.endswith(("_id", "_number")):
            return self.names.codes[value]
        if tool == "fillFuelTank" and self.names.fuel and self._first_fill(index):
            filled = _filling(self.task, value, *self.names.fuel)
            if filled is not None:
                return _like(value, filled)
        return _flowing(value, executed(self.task)[:index], steps)

    def _first_fill(self, index: int) -> bool:
        return all(call.tool != "fillFuelTank" for call in self.task.calls[:index])

    # ------------------------------------------------------------------ comparing

    def _same(self, old: Any, new: Any, changed: list[tuple[Any, Any]]) -> bool:
        if isinstance(old, bool) or old is None or isinstance(new, bool):
            return old is new
        if isinstance(old, dict):
            if not isinstance(new, dict) or len(old) != len(new):
                return False
            keys = [self._all(key) for key in old]
            pairs = zip(old, keys, strict=True)
            return keys == list(new) and all(self._same(old[a], new[b], changed) for a, b in pairs)
        if isinstance(old, list):
            return isinstance(new, list) and len(old) == len(new) and all(
                self._same(a, b, changed) for a, b in zip(old, new, strict=True)
            )  # fmt: skip
        if isinstance(old, int | float):
            if not isinstance(new, int | float):
                return False
            expected = self.names.codes.get(old, old) if isinstance(old, int) else old
            if new != expected:
                changed.append((old, new))
            return True
        if not isinstance(new, str):
            return False
        if new in (self._all(old), self._texts(old), self._spoken(old)):
            return True
        if new == old and self.task.kind == "long_context":  # of the records that a long context adds
            return True
        if _without_numbers(new) in (_without_numbers(self._all(old)), _without_numbers(self._spoken(old))):
            changed.append((old, new))
            return True
        return False

    def _check_said(self, changed: Sequence[tuple[str, Any, Any]], steps: Sequence[Step]) -> None:
        kept, text = (_PRESSURE.sub("", "\n".join(said)) for said in (self._old_messages, self.messages))
        given = [value for step in steps for _, value in leaves(step.call.arguments) if isinstance(value, str)]
        pairs = list(self._measured())
        for tool, old, new in changed:
            if isinstance(old, str):
                if len(old) > 2 and any(old in value for value in given):
                    raise SynthesisError(f"an argument still has {old!r}.", reason="said")
                continue
            still = written_amounts(old, text) and written_amounts(old, kept)
            if abs(old) > _SMALL and (still or any(written_amounts(old, v) for v in given)):
                raise SynthesisError(f"a message still has {old}.", reason="said")
            if tool in _PRICED and any(_order(before, old) != _order(after, new) for before, after in pairs):
                raise SynthesisError(f"{old} and {new} stand otherwise to what a message says.", reason="said")

    def _measured(self) -> Iterator[tuple[float, float]]:
        """The amounts that messages say, before and after."""
        for old, new in zip(self.task.turns, self.messages, strict=True):
            found = zip(_MEASURED.finditer(old.message), _MEASURED.finditer(new), strict=False)
            for before, after in found:
                yield _number(before[1] or before[2]), _number(after[1] or after[2])


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _order(a: float, b: float) -> int:
    return (a > b) - (a < b)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(?:\.\d+)?", "#", text)


def _like(old: float, new: float) -> float:
    """A number of the type of another: simulators write 3 and 3.0 differently."""
    return int(new) if isinstance(old, int) and float(new).is_integer() else float(new)


def _decimals(value: float) -> int:
    return len(str(value).removesuffix(".0").partition(".")[2])


def _source(value: float, steps: Sequence[Step]) -> tuple[int, tuple[Any, ...], int | None] | None:
    """The latest earlier result that has a number: its step, the path in it, and the decimals it was rounded to."""
    for rounded in (None, _decimals(value)):
        for index in range(len(steps) - 1, -1, -1):
            for path, leaf in leaves(steps[index].value):
                if isinstance(leaf, bool) or not isinstance(leaf, int | float):
                    continue
                if leaf == value if rounded is None else abs(leaf) > 1 and round(leaf, rounded) == value:
                    return index, path, rounded
    return None


def _flowing(value: float, before: Sequence[Step], after: Sequence[Step]) -> float:
    """A number that an earlier result gave, as the new result has it; any other as it is."""
    source = _source(value, before)
    if source is None or (isinstance(value, int) and abs(value) <= _SMALL):
        return value
    index, path, rounded = source
    try:
        old, new = at(before[index].value, path), at(after[index].value, path)
    except LookupError:
        raise SynthesisError("a result has another shape.", reason="result") from None
    if not isinstance(new, int | float) or old == new:
        return value
    return _like(value, new if rounded is None else round(new, rounded))


def _taken_over(old: str, text: str, before: Sequence[Step], after: Sequence[Step]) -> str:
    """A text of a number alone, or of one with a unit, that an earlier result gave, as the new result has it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)( bytes)?", old)
    if found is None or found[2]:
        return text
    value = float(found[1])
    new = _flowing(value, before, after)
    return text if new == value else f"{new:.{len(found[1].partition('.')[2])}f}"


def _filling(task: BfclTask, amount: float, level: float, new: float) -> float | None:
    """What is filled into the tank at another level: to the brim, to a level, or as much as there is."""
    text = "\n".join(turn.message for turn in task.turns)
    if written_amounts(amount, text):
        return None
    if abs(amount + level - TANK) < _CLOSE:
        return round(TANK - new, 2)
    return new if abs(amount - level) < _CLOSE and _DOUBLED.search(text) else None


def numbers_are_computed(task: BfclTask) -> bool:
    """Whether a gold call has a number that neither a message nor a result has.

    Someone computed it from other numbers, so that none of them may change.
    """
    kept: bool | None = task.__dict__.get("_computed")
    if kept is None:
        kept = task.__dict__["_computed"] = any(_computed(task))
    return kept


def _computed(task: BfclTask) -> Iterator[bool]:
    contents = Contents(task)
    level = contents.config.get("VehicleControlAPI", {}).get("fuelLevel")
    steps = executed(task)
    for index, call in enumerate(task.calls):
        for _, value in leaves(call.arguments):
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if abs(value) <= _SMALL and float(value).is_integer() and call.tool != "fillFuelTank":
                continue
            if written_amounts(value, contents.text) or _source(value, steps[:index]) is not None:
                continue
            if call.tool == "fillFuelTank" and level is not None and _filling(task, value, level, level) is not None:
                continue
            if isinstance(value, int) and value in contents.integers:
                continue
            yield True
