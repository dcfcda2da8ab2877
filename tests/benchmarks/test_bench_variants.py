"""The benchmark of variants: what it checks it checks by itself, and what is wrong it finds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from rods_env.benchmarks import variants as bench
from rods_env.errors import SynthesisError
from rods_env.tasks import graph
from rods_env.tasks.datasets import TaskSource
from rods_env.tasks.task import KINDS, Task, save_tasks
from rods_env.tasks.variants import Synthesizer

SPEEDS = {"variants_per_s", "variants_new_per_s", "variants_retold_per_s", "machine_loop_ms"}
ONE = ("valid_share", "isomorphic_share", "distinct_share")


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    source = TaskSource(77)
    return [source.task(kind, turns=2) for kind in KINDS]


@pytest.fixture(scope="module")
def made(tasks: list[Task]) -> list[list[Task]]:
    synthesizer = Synthesizer(5)
    return [synthesizer.variants(task, 3) for task in tasks]


@pytest.fixture(scope="module")
def file(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("variants") / "tasks.jsonl"
    save_tasks(tasks, path)
    return path


def said(task: Task, *messages: str) -> Task:
    turns = [msgspec.structs.replace(t, message=m) for t, m in zip(task.turns, messages, strict=True)]
    return msgspec.structs.replace(task, turns=tuple(turns))


def test_overlap_is_the_jaccard_index_of_words(tasks: list[Task]) -> None:
    task = next(t for t in tasks if len(t.turns) == 2)
    a, b = said(task, "Send Ana a mail.", "Now!"), said(task, "SEND a letter", "to Ana, to Ben")
    assert bench.overlap(a, b) == 3 / 8
    assert bench.overlap(a, a) == 1
    assert bench.overlap(a, said(task, "Buy", "seven lamps")) == 0


def test_real_variants_pass_every_check(tasks: list[Task], made: list[list[Task]]) -> None:
    figures = bench.check(tasks, made)
    assert [figures[name] for name in ONE] == [1, 1, 1]
    pairs = [(task, variant) for task, some in zip(tasks, made, strict=True) for variant in some]
    assert figures["token_jaccard_median"] == np.median([bench.overlap(*pair) for pair in pairs])
    siblings = [bench.overlap(some[k], some[k + 1]) for some in made for k in range(2)]
    assert figures["token_jaccard_siblings_median"] == np.median(siblings)
    others = [[c.tool for c in a.calls] != [c.tool for c in b.calls] for a, b in pairs]
    assert figures["other_tools_share"] == np.mean(others)


def test_what_does_not_fit_is_found_without_the_memory_of_isomorphic(
    tasks: list[Task], made: list[list[Task]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_isomorphic", lambda *_: True)
    figures = bench.check(tasks[:2], [made[0], [*made[1][:2], made[0][0]]])
    assert figures["isomorphic_share"] == pytest.approx(5 / 6)
    assert figures["distinct_share"] == pytest.approx(5 / 6), "it was made for the first seed already"
    assert figures["valid_share"] == 1


def test_an_edge_of_another_kind_is_another_graph(tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(t for t in tasks if t.edges)
    twin = msgspec.structs.replace(task)
    edge = next(iter(twin.graph.edges))
    assert bench._same_profile(task, twin)
    kind = twin.graph.edges[edge]["kind"]
    twin.graph.edges[edge]["kind"] = "state" if kind == "data" else "data"
    assert not bench._same_profile(task, twin)


def test_broken_and_repeated_variants_are_counted(tasks: list[Task], made: list[list[Task]]) -> None:
    silent = said(made[0][0], *(["Hello."] * len(made[0][0].turns)))
    figures = bench.check(tasks[:1], [[made[0][0], silent, made[0][0], tasks[0]]])
    assert figures["valid_share"] == 3 / 4
    assert figures["distinct_share"] == 2 / 4, "one stands there twice, one is the seed"


def test_run_gives_flat_figures_that_hold(file: Path) -> None:
    said: list[str] = []
    figures = bench.run(n=8, quick=False, tasks=str(file), progress=said.append)
    assert (figures["seeds"], figures["variants"]) == (4, 8)
    assert [figures[name] for name in ONE] == [1, 1, 1]
    assert all(figures[name] > 0 for name in SPEEDS)
    assert figures["seeds_with_20_share"] == 1
    assert 0 < figures["accepted_share"] <= 1
    assert all(isinstance(value, (int, float)) for value in figures.values())
    assert not [name for name in figures if name.startswith("fewer/")]
    assert len(said) == 3
    again = bench.run(n=8, quick=False, tasks=str(file))
    assert {k: v for k, v in again.items() if k not in SPEEDS} == {k: v for k, v in figures.items() if k not in SPEEDS}


def test_quick_takes_a_tenth_of_the_seeds(file: Path) -> None:
    figures = bench.run(n=8, quick=True, tasks=str(file))
    assert (figures["seeds"], figures["variants"]) == (1, 2)


def test_a_seed_with_too_few_is_named_with_its_reason(
    file: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Synthesizer.variant
    count = 0

    def few(self: Synthesizer, task: Task) -> Task:
        nonlocal count
        if task.id == tasks[1].id:
            if count == 2:
                raise SynthesisError("no more.", reason="duplicate")
            count += 1
        return really(self, task)

    monkeypatch.setattr(Synthesizer, "variant", few)
    figures = bench.run(n=12, tasks=str(file))
    assert figures[f"fewer/{tasks[1].id}/duplicate"] == 2
    assert [name for name in figures if name.startswith("fewer/")] == [f"fewer/{tasks[1].id}/duplicate"]
    assert figures["seeds_with_20_share"] == 3 / 4
    assert figures["variants"] == 3 * 3 + 2
    assert bench.failures(figures)[0].startswith("seeds_with_20_share must be at least 0.95")


def test_failures_name_what_does_not_hold() -> None:
    fine = dict.fromkeys(ONE, 1.0) | {"seeds_with_20_share": 0.95, "token_jaccard_median": 0.49}
    assert bench.failures(fine) == []
    for name in ONE:
        assert bench.failures({**fine, name: 0.9999}) == [f"{name} must be 1; it is 0.999900."]
    assert len(bench.failures({**fine, "token_jaccard_median": 0.5})) == 1
    assert len(bench.failures({**fine, "seeds_with_20_share": 0.94})) == 1
