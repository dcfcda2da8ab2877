"""The benchmark of variants of BFCL's tasks: its figures, what it calls a failure, the table it writes."""

from __future__ import annotations

import pytest

pytest.importorskip("bfcl_eval")

from rods_env.benchmarks import bfcl_variants
from rods_env.benchmarks.bfcl_variants import failures, run, too_few
from rods_env.bfcl.tasks import load_bfcl


@pytest.fixture(autouse=True)
def few_tasks(monkeypatch):
    some = [load_bfcl(f"bfcl:multi_turn_{name}")[0] for name in ("base_12", "miss_param_164", "base_112")]
    monkeypatch.setattr(bfcl_variants, "bfcl_tasks", lambda split: some)


def test_all_figures_are_there():
    figures = run()
    assert figures["tasks"] == 3
    assert figures["variants"] == 10
    assert figures["enough_share"] == pytest.approx(2 / 3)
    assert all(figures[name] == 1 for name in ("solved_share", "idle_zero_share", "distinct_share"))
    assert 0.5 < figures["overlap_mean"] < 1
    assert figures["arguments_new_mean"] >= figures["entities_new_mean"] > 1
    assert figures["rejected_nothing_per_variant"] == pytest.approx(0.1)
    assert failures(figures) == ["enough_share must be at least 0.9; it is 0.667."]


def test_the_table_names_the_tasks_with_too_few():
    assert too_few().splitlines()[2:] == ["| 112 | `base` 0 | `nothing` |"]
