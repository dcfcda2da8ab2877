"""A process of its own in which BFCL's own checker, and its executor, judge call sequences: the reference of parity.

Nothing else in this project uses that executor: it evaluates text, and keeps simulators in the globals of its module.
`python -m rods_env.benchmarks.bfcl_reference` reads a JSON list of `{"id", "turns"}` (for each turn a list of calls, as
texts of Python) from standard input, and writes a JSON list of `Verdict`s. With the argument `time` it reads nothing,
and writes how many gold calls a second the executor runs; with `results`, what they return, by task id and turn.
"""

from __future__ import annotations

import copy
import re
import sys
import time
from typing import Any, NamedTuple

import msgspec

from rods_env.bfcl.source import CATEGORIES, entries, part_of_package, simulator_class


class Verdict(NamedTuple):
    """What the package's two checkers say of a sequence.

    Attributes:
        accepted: whether `multi_turn_checker` accepts it.
        asked: whether `multi_turn_irrelevance_checker` does: nothing is called in a turn without gold calls.
        error: the type of error of the first.
        turn: the first turn that one of them refuses, counted from 0; -1 where both accept.
    """

    accepted: bool
    asked: bool
    error: str
    turn: int


def judge(sequences: list[dict[str, Any]]) -> list[Verdict]:
    """The verdicts on call sequences. To be called once in a process."""
    checker = part_of_package("eval_checker.multi_turn_eval.multi_turn_checker")
    tasks = {row["id"]: (row, gold) for category in CATEGORIES for row, gold in entries(category)}
    clean = _Clean()
    verdicts = []
    for number, sequence in enumerate(sequences):
        clean.restore()
        row, gold = tasks[sequence["id"]]
        steps = [[[call] for call in turn] for turn in sequence["turns"]]
        found = checker.multi_turn_checker(steps, gold, row, row["id"].rsplit("_", 1)[0], f"sequence{number}")
        asked = checker.multi_turn_irrelevance_checker(steps, gold)
        turn = min(map(_refused_turn, (found, asked)))
        error = found.get("error_type", "")
        verdicts.append(Verdict(found["valid"], asked["valid"], error, -1 if turn == _NONE else turn))
    return verdicts


def _refused_turn(found: dict[str, Any]) -> int:
    """The turn that a checker's result refuses: it stands in its message, or is the last that was executed."""
    if found["valid"]:
        return _NONE
    named = re.search(r"turn (\d+)", found["error_message"])
    return int(named[1]) if named else len(found["execution_result"]) - 1


_NONE = 1000  # more turns than any task has


class _Clean:
    """What the simulators share within a process, put back before each sequence, so that none sees another's traces.

    The cards and bookings that long contexts add are the same dictionaries in every instance, and a tweet without
    tags or mentions holds the very list that is the default of the parameter.
    """

    def __init__(self) -> None:
        constants = part_of_package("eval_checker.multi_turn_eval.func_source_code.long_context")
        self._shared = [v for name, v in vars(constants).items() if name.isupper() and isinstance(v, dict | list)]
        self._first = copy.deepcopy(self._shared)

    def restore(self) -> None:
        for shared, first in zip(self._shared, copy.deepcopy(self._first), strict=True):
            shared.clear()
            if isinstance(shared, dict):
                shared.update(first)
            else:
                shared.extend(first)
        simulator_class("TwitterAPI").post_tweet.__defaults__ = ([], [])  # type: ignore[attr-defined]  # a function


def gold_results() -> dict[str, list[list[str]]]:
    """What the executor makes of the gold calls, for each task by id, turn by turn."""
    execute = part_of_package("eval_checker.multi_turn_eval.multi_turn_utils").execute_multi_turn_func_call
    clean, found = _Clean(), {}
    for row, gold in (entry for category in CATEGORIES for entry in entries(category)):
        clean.restore()
        task = (row["initial_config"], row["involved_classes"], "model", row["id"], "long_context" in row["id"])
        found[row["id"]] = [execute(turn, *task)[0] for turn in gold]
    return found


def gold_calls_per_s() -> float:
    """How many of the gold calls of the 800 tasks the executor runs in a second, loading of simulators included."""
    execute = part_of_package("eval_checker.multi_turn_eval.multi_turn_utils").execute_multi_turn_func_call
    tasks = [(row, gold) for category in CATEGORIES for row, gold in entries(category)]
    calls = sum(len(turn) for _, gold in tasks for turn in gold)
    fastest = float("inf")
    for repetition in range(3):
        begun = time.perf_counter()
        for row, gold in tasks:
            long_context = "long_context" in row["id"]
            for turn in gold:
                execute(turn, row["initial_config"], row["involved_classes"], f"model{repetition}", row["id"],
                        long_context=long_context)  # fmt: skip
        fastest = min(fastest, time.perf_counter() - begun)
    return calls / fastest


if __name__ == "__main__":
    if sys.argv[1:]:
        answer: Any = {"time": gold_calls_per_s, "results": gold_results}[sys.argv[1]]()
    else:
        answer = judge(msgspec.json.decode(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(msgspec.json.encode(answer))
