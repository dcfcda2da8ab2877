"""The package's own checker and ours give the same verdicts; its executor runs in processes of its own only."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

pytest.importorskip("bfcl_eval")

from rods_env.benchmarks.bfcl_parity import MUTATIONS, compare, gold_sequence, mutants
from rods_env.bfcl.tasks import bfcl_tasks


def test_both_accept_the_gold_calls_of_all_800():
    figures, found = compare([gold_sequence(task) for task in bfcl_tasks()])
    assert found == []
    assert figures["accepted_share"] == figures["agree_checker_share"] == 1.0


def test_both_judge_mutated_calls_alike():
    """Where they differ, a call was refused that the executor, which knows no schema and no hold-outs, runs.

    All 5,000: `python -m rods_env.benchmarks.bfcl_parity`; docs/bfcl.md lists what it finds.
    """
    trials = mutants(600, seed=1)
    assert {name for trial in trials for name in trial.made_by} == set(MUTATIONS)
    figures, found = compare(trials)
    assert 0.1 < figures["accepted_share"] < 0.9
    assert figures["agree_share"] >= 0.99
    assert figures["agree_turn_share"] >= 0.98
    assert {one.cause for one in found} <= {"withheld", "schema", "schema+withheld"}


def test_results_are_the_executors_to_the_letter():
    command = [sys.executable, "-m", "rods_env.benchmarks.bfcl_reference", "results"]
    theirs = msgspec.json.decode(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    for task in bfcl_tasks():
        assert [list(turn) for turn in task.gold.answers] == theirs[task.id], task.id


def test_mutants_are_those_of_their_seed():
    assert mutants(50, seed=3) == mutants(50, seed=3) != mutants(50, seed=4)
