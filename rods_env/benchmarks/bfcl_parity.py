"""Whether `ToolUse-BFCL-v0` and the package's own checker agree: on the gold calls, and on sequences that differ.

`python -m rods_env.benchmarks.bfcl_parity --n 5000 --seed 0` prints how often, and every disagreement with its cause.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import msgspec
import numpy as np

from rods_env.benchmarks.bfcl_reference import Verdict
from rods_env.bfcl.tasks import BfclTask, bfcl_tasks
from rods_env.envs.calls import write_calls
from rods_env.tasks.task import Call

MUTATIONS = ("drop", "repeat", "reorder", "change", "insert", "empty")
_BATCH = 500  # sequences that one process of the reference judges

Calls = list[tuple[str, dict[str, Any]]]


class Trial(NamedTuple):
    """What an agent calls in a task.

    Attributes:
        task: the task.
        turns: the calls of each turn, as (name, arguments).
        made_by: the mutations of the gold calls that made it; empty for the gold calls themselves.
    """

    task: BfclTask
    turns: list[Calls]
    made_by: tuple[str, ...]


class Disagreement(NamedTuple):
    """A sequence that is judged in two ways.

    Attributes:
        sequence: the sequence.
        ours: whether it is a success here.
        theirs: whether the reference accepts it.
        cause: what in it could explain that: `withheld` (a call of a function that is not offered yet), `schema` (a
            call whose arguments do not fit the schema), or `other`; several with + between.
        error: the reference's type of error.
    """

    sequence: Trial
    ours: bool
    theirs: bool
    cause: str
    error: str


def gold_sequence(task: BfclTask) -> Trial:
    """The gold calls."""
    return Trial(task, [[(call.tool, dict(call.arguments)) for call in turn.calls] for turn in task.turns], ())


def mutants(n: int, seed: int = 0) -> list[Trial]:
    """Sequences that differ from gold ones by one mutation, or two, evenly over categories and mutations."""
    rng = np.random.default_rng(seed)
    tasks = bfcl_tasks()
    by_category = [[t for t in tasks if t.kind == kind] for kind in dict.fromkeys(t.kind for t in tasks)]
    pool = [call for task in tasks for call in task.calls]
    made: list[Trial] = []
    while len(made) < n:
        some = by_category[len(made) % 4]
        task = some[int(rng.integers(len(some)))]
        names = [MUTATIONS[len(made) // 4 % len(MUTATIONS)]]
        if rng.random() < 0.25:
            names.append(MUTATIONS[int(rng.integers(len(MUTATIONS)))])
        turns = gold_sequence(task).turns
        for name in names:
            _MUTATE[name](turns, task, pool, rng)
        if turns != gold_sequence(task).turns:
            made.append(Trial(task, turns, tuple(names)))
    return made


def _some(turns: list[Calls], rng: np.random.Generator) -> tuple[int, int]:
    """The place of a call, drawn; (-1, -1) where there is none."""
    places = [(t, c) for t, calls in enumerate(turns) for c in range(len(calls))]
    return places[int(rng.integers(len(places)))] if places else (-1, -1)


def _drop(turns: list[Calls], task: BfclTask, pool: Sequence[Call], rng: np.random.Generator) -> None:
    turn, at = _some(turns, rng)
    if turn >= 0:
        del turns[turn][at]


def _repeat(turns: list[Calls], task: BfclTask, pool: Sequence[Call], rng: np.random.Generator) -> None:
    turn, at = _some(turns, rng)
    if turn >= 0:
        turns[turn].insert(int(rng.integers(at, len(turns[turn]) + 1)), turns[turn][at])


def _reorder(turns: list[Calls], task: BfclTask, pool: Sequence[Call], rng: np.random.Generator) -> None:
    turn, at = _some(turns, rng)
    if turn >= 0:
        call = turns[turn].pop(at)
        to = turn if len(turns[turn]) > 1 and rng.random() < 0.7 else int(rng.integers(len(turns)))
        turns[to].insert(int(rng.integers(len(turns[to]) + 1)), call)


def _change(turns: list[Calls], task: BfclTask, pool: Sequence[Call], rng: np.random.Generator) -> None:
    turn, at = _some(turns, rng)
    if turn < 0 or not turns[turn][at][1]:
        return
    name, arguments = turns[turn][at]
    key = str(rng.choice(list(arguments)))
    others = [c.arguments[key] for c in pool if c.tool == name and key in c.arguments]
    value: Any = arguments[key]
    if rng.random() < 0.5:
        value = others[int(rng.integers(len(others)))]
    elif rng.random() < 0.2:  # another type
        value = str(value) if not isinstance(value, str) else [value] if rng.random() < 0.5 else len(value)
    elif isinstance(value, str):
        value = value[::-1] if rng.random() < 0.5 else value + "x"
    elif isinstance(value, bool):
        value = not value
    elif isinstance(value, int | float):
        value = float(value) if rng.random() < 0.3 else value + 1
    elif isinstance(value, list):
        value = value[:-1]
    turns[turn][at] = (name, {**arguments, key: value})


def _insert(turns: list[Calls], task: BfclTask, pool: Sequence[Call], rng: np.random.Generator) -> None:
    own = [call for call in pool if call.tool in task.tools]
    some = pool if rng.random() < 0.25 else own
    call = some[int(rng.integers(len(some)))]
    turn = turns[int(rng.integers(len(turns)))]
    turn.insert(int(rng.integers(len(turn) + 1)), (call.tool, dict(call.arguments)))


def _empty(turns: list[Calls], task: BfclTask, pool: Sequence[Call], rng: np.random.Generator) -> None:
    turns[int(rng.integers(len(turns)))].clear()


_MUTATE: dict[str, Callable[[list[Calls], BfclTask, Sequence[Call], np.random.Generator], None]] = dict(
    zip(MUTATIONS, (_drop, _repeat, _reorder, _change, _insert, _empty), strict=True)
)


def our_verdicts(sequences: Sequence[Trial]) -> list[tuple[int, str]]:
    """For each sequence the first turn that fails, or -1 for a success, and a cause that would explain a disagreement.

    The limits of attempts and steps are out of reach here: the checker has none.
    """
    env: Any = gym.make("ToolUse-BFCL-v0", split="all", attempts_per_turn=1000, max_steps=10_000)
    verdicts = []
    for sequence in sequences:
        env.reset(options={"task": sequence.task})
        causes = set()
        for at, turn in enumerate(sequence.turns):
            offered = sequence.task.offered(at)
            for name, arguments in turn:
                text, *_ = env.step(write_calls([(name, arguments)]))
                if text.startswith('{"error":"'):  # the simulators write a space behind the colon
                    causes.add("schema" if name in offered else "withheld" if name in sequence.task.tools else "")
            env.step("Done.")
        passed = env.unwrapped.snapshot().passed
        verdicts.append((passed.index(False) if False in passed else -1, "+".join(sorted(causes - {""})) or "other"))
    return verdicts


def their_verdicts(sequences: Sequence[Trial]) -> list[Verdict]:
    """What the package's checkers say of each: a process of its own for every 500 sequences, one after the other."""
    verdicts: list[Verdict] = []
    for start in range(0, len(sequences), _BATCH):
        batch = [
            {"id": s.task.id, "turns": [[_text(*call) for call in turn] for turn in s.turns]}
            for s in sequences[start : start + _BATCH]
        ]
        done = subprocess.run(
            [sys.executable, "-m", "rods_env.benchmarks.bfcl_reference"], input=msgspec.json.encode(batch),
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        verdicts += msgspec.json.decode(done.stdout, type=list[Verdict])
    return verdicts


def _text(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def compare(sequences: Sequence[Trial]) -> tuple[dict[str, float], list[Disagreement]]:
    """Plays and judges sequences on both sides.

    Returns:
        Figures: `sequences`; `accepted_share`, by the reference; `agree_share`, with `multi_turn_checker` and
        `multi_turn_irrelevance_checker` together; `agree_turn_share`, also on the first turn that fails;
        `agree_checker_share`, with `multi_turn_checker` alone, and
        `called_where_gold_calls_nothing`, how many it accepts that differ from what both together say; and the number
        of disagreements by cause. And the disagreements with both together.
    """
    ours, theirs = our_verdicts(sequences), their_verdicts(sequences)
    found, alone, asking = [], 0, 0
    same_turn = 0
    for sequence, (failed, cause), (accepted, asked, error, turn) in zip(sequences, ours, theirs, strict=True):
        mine = failed < 0
        same_turn += failed == turn
        alone += mine == accepted
        asking += accepted and not asked and not mine
        if mine != (accepted and asked):
            found.append(Disagreement(sequence, mine, accepted and asked, cause, error))
    n = len(sequences)
    figures = {
        "sequences": n,
        "accepted_share": sum(verdict.turn < 0 for verdict in theirs) / n,
        "agree_share": 1 - len(found) / n,
        "agree_turn_share": same_turn / n,
        "agree_checker_share": alone / n,
        "called_where_gold_calls_nothing": asking,
    }
    causes = Counter(f"disagree_{one.cause}_{'ours' if one.ours else 'theirs'}_accepts" for one in found)
    return {**figures, **causes}, found


def main() -> None:
    """Prints the figures and the disagreements; exit code 1 if the gold calls are judged in two ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5000, help="how many mutated sequences")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    gold, wrong = compare([gold_sequence(task) for task in bfcl_tasks()])
    print("gold:", gold)
    figures, found = compare(mutants(given.n, given.seed))
    print("mutated:", figures)
    for one in found:
        task, turns, made_by = one.sequence
        print(f"{task.id} {'+'.join(made_by)}: ours {one.ours}, theirs {one.theirs} {one.error}: {one.cause}")
        for at, (calls, gold_calls) in enumerate(zip(turns, gold_sequence(task).turns, strict=True)):
            if calls != gold_calls:
                print(f"    turn {at}: {[_text(*c) for c in calls]}\n      gold: {[_text(*c) for c in gold_calls]}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
