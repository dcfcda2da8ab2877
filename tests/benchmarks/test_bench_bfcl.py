"""The benchmark of BFCL's environment runs, and says when the executor is faster."""

from __future__ import annotations

import pytest

pytest.importorskip("bfcl_eval")

from rods_env.benchmarks.bfcl import failures, run


def test_all_figures_are_there():
    figures = run(quick=True)
    names = ("snapshot", "restore", "copying_call", "further_call")
    timed = {f"{name}{suffix}_us" for name in names for suffix in ("", "_long_context")}
    rates = {"call_per_s", "first_call_per_s", "executor_call_per_s"}
    assert set(figures) == {"machine_loop_ms", "reset_us", *timed, *rates}
    assert all(value > 0 for value in figures.values())


def test_an_executor_that_is_faster_is_a_failure():
    assert failures({"call_per_s": 2.0, "executor_call_per_s": 1.0}) == []
    assert failures({"call_per_s": 1.0, "executor_call_per_s": 2.0}) == [
        "Expected at least the executor's 2 calls a second; got 1."
    ]
