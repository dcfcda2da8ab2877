"""The `rods-env` command: every subcommand, wrong use of each, and how it ends."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

import rods_env
from rods_env.apis.registry import TOOLS, tools_of
from rods_env.cli import app
from rods_env.envs.calls import write_calls
from rods_env.errors import SynthesisError
from rods_env.tasks import datasets
from rods_env.tasks.task import KINDS, Call, Task, load_tasks, save_tasks, task_to_json
from rods_env.tasks.variants import Synthesizer

FIGURES = {"tasks", "turns_mean", "calls_mean", "depth_max", "tools_used"}


class Result(NamedTuple):
    code: int
    out: str
    err: str


def call(*args: object, lines: str = "", columns: int = 100) -> Result:
    """Runs the command in this process."""
    found = CliRunner(env={"COLUMNS": str(columns), "TERM": "dumb"}).invoke(app, [*map(str, args)], input=lines)
    assert found.exception is None or isinstance(found.exception, SystemExit), repr(found.exception)
    return Result(found.exit_code, found.stdout, found.stderr)


def run(*args: object, **options: Any) -> Result:
    """The same, for what must succeed in silence."""
    found = call(*args, **options)
    assert (found.code, found.err) == (0, "")
    return found


def process(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, as its entry point does."""
    code = "from rods_env.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], text=True, timeout=120, **options)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """A few new tasks of every kind, so that these tests do not depend on the packaged sets."""
    return [task for seed, kind in enumerate(KINDS) for task in datasets.make_tasks(3, seed, kind=kind)]


@pytest.fixture(scope="module")
def file(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "tasks.jsonl.gz"
    save_tasks(tasks, path)
    return path


def typed(gold: Call) -> str:
    """A gold call as a person types it."""
    return write_calls([(gold.tool, gold.arguments)], "python")[1:-1]


# ---------------------------------------------------------------------- list


def test_list_shows_environments_apis_and_packaged_sets() -> None:
    out = run("list").out
    assert "ToolUse-RODS-v0" in out
    assert re.search(rf"\bshop +{len(tools_of(['shop']))}\b", out)
    assert "seeds" in out
    assert "heldout" in out
    assert all(name in out for name in FIGURES)


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_list_of_a_set_names_every_task(file: Path, tasks: list[Task], columns: int) -> None:
    lines = run("list", file, columns=columns).out.splitlines()
    for task in tasks:
        assert any(task.id in line and task.kind in line for line in lines)
        assert any(task.turns[0].message[:12] in line for line in lines)
    assert max(map(len, lines)) <= columns
    assert f"{len(tasks)} of {len(tasks)} tasks" in " ".join(lines)


def test_list_filters_then_limits(file: Path, tasks: list[Task]) -> None:
    kind = "missing_parameter"
    expected = [str(i) for i, task in enumerate(tasks) if task.kind == kind]
    rows = [line.split("\t") for line in run("list", file, "--kind", kind, "--quiet").out.splitlines()]
    assert [row[0] for row in rows] == expected
    assert [row[1] for row in rows] == [tasks[int(i)].id for i in expected]
    assert all(row[2] == kind and row[7] == tasks[int(row[0])].turns[0].message for row in rows)
    limited = run("list", file, "--kind", kind, "--quiet", "--limit", 2).out.splitlines()
    assert [line.split("\t")[0] for line in limited] == expected[:2]


def test_list_by_api_keeps_the_tasks_that_call_it(file: Path, tasks: list[Task]) -> None:
    api = TOOLS[tasks[0].calls[0].tool].api.NAME
    expected = [task.id for task in tasks if any(api == TOOLS[c.tool].api.NAME for c in task.calls)]
    out = run("list", file, "--api", api, "--quiet").out
    assert [line.split("\t")[1] for line in out.splitlines()] == expected


# ---------------------------------------------------------------------- show


@pytest.mark.parametrize("columns", [80, 100])
def test_show_has_turns_calls_marks_and_graph(file: Path, tasks: list[Task], columns: int) -> None:
    for index, task in enumerate(tasks):
        out = run("show", index, "--file", file, columns=columns).out
        assert max(map(len, out.splitlines())) <= columns
        words = " ".join(out.split())
        assert words.startswith(task.id)
        assert all(" ".join(turn.message.split()) in words for turn in task.turns)
        assert words.count("has to be found") == sum(not c.spoken for c in task.calls)
        assert all(name in words for turn in task.turns for name in turn.adds)
        assert ("should ask" in words) == task.kind.startswith("missing")
        assert f"depth {task.profile.depth}" in words


def test_show_tells_what_each_call_needs(file: Path, tasks: list[Task]) -> None:
    for task in tasks:
        rows = [line.split("\t") for line in run("show", task.id, "--file", file, "--quiet").out.splitlines()]
        calls = [row[1] for row in rows if len(row) == 3 and "(" in row[1]]
        assert calls == [typed(c) for c in task.calls]
        needs = [re.match(r"(data|state) of (\d+) ", row[2]) for row in rows if len(row) == 3]
        at = [int(row[0]) - 1 for row, found in zip([r for r in rows if len(r) == 3], needs, strict=True) if found]
        found = {(int(m[2]) - 1, v, m[1]) for m, v in zip(filter(None, needs), at, strict=True)}
        assert found == set(task.graph.edges(data="kind"))


def test_show_world_prints_the_rows(file: Path, tasks: list[Task]) -> None:
    out = run("show", 0, "--file", file, "--world").out
    assert any(tasks[0].world.tables.values())
    for name, rows in tasks[0].world.tables.items():
        assert name in out
        assert all(key in out for key in rows)


def test_show_draws_a_png(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "task.png"
    assert str(picture.name) in run("show", 1, "--file", file, "--png", picture).out
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")


def test_show_prints_markup_as_it_stands(tmp_path: Path, tasks: list[Task]) -> None:
    turns = (msgspec.structs.replace(tasks[0].turns[0], message="[bold]Hello[/bold] :smile:"), *tasks[0].turns[1:])
    save_tasks([msgspec.structs.replace(tasks[0], turns=turns)], tmp_path / "t.jsonl")
    assert "[bold]Hello[/bold] :smile:" in run("show", 0, "--file", tmp_path / "t.jsonl").out


def test_an_unknown_task_is_told_with_a_close_one(file: Path, tasks: list[Task]) -> None:
    wrong = tasks[0].id[:-1] + ("0" if tasks[0].id[-1] != "0" else "1")
    assert f"did you mean {tasks[0].id}?" in call("show", wrong, "--file", file).err


# ---------------------------------------------------------------------- variants


@pytest.mark.parametrize("columns", [80, 100])
def test_variants_stand_beside_their_seed(file: Path, tasks: list[Task], columns: int) -> None:
    for index in (0, 3, 6, 9):  # one of each kind
        task = tasks[index]
        made = Synthesizer(4).variants(task, 2)
        out = run("variants", index, "-n", 2, "--file", file, "--seed", 4, columns=columns).out
        assert max(map(len, out.splitlines())) <= columns
        words = " ".join(out.split())
        assert words.startswith(f"{task.id} and 2 variants")
        assert f"depth {task.profile.depth}, graph {task.profile.digest[:12]}" in words
        assert ("should ask" in words) == task.kind.startswith("missing")
        for variant in (task, *made):
            assert variant.id in words
            assert all(" ".join(turn.message.split()) in words for turn in variant.turns)
            assert all(call.tool in words if call.spoken else f"[{call.tool}]" in words for call in variant.calls)
            assert all(f"offered from here on: {', '.join(t.adds)}" in words for t in variant.turns if t.adds)
        skills = [(n + 1, data["skill"], data["spoken"]) for n, data in task.graph.nodes(data=True)]
        assert all(f"{n} {skill}" in words if spoken else f"{n} [{skill}]" in words for n, skill, spoken in skills)


def test_quiet_variants_are_rows_with_every_call(file: Path, tasks: list[Task]) -> None:
    task = tasks[9]
    made = Synthesizer(0).variants(task, 3)
    out = run("variants", task.id, "-n", 3, "--file", file, "--quiet").out
    rows = [line.split("\t") for line in out.splitlines()]
    for who, each in zip(("seed", "1", "2", "3"), (task, *made), strict=True):
        assert [row[2] for row in rows if row[0].startswith("turn") and row[1] == who] == [
            " ".join(turn.message.split()) for turn in each.turns
        ]
        calls = [row for row in rows if row[0].startswith("call") and row[1] == who]
        assert [row[4] for row in calls] == [typed(call) for call in each.calls]
        for node, row in enumerate(calls):
            edges = [f"{u + 1}" for u, _ in sorted(each.graph.in_edges(node))]
            assert sorted(re.findall(r"\d+", row[3]), key=int) == edges
            assert row[2].strip("[]") == task.graph.nodes[node]["skill"]


def test_variants_of_a_seed_are_the_same_again(file: Path) -> None:
    first, again, other = (run("variants", 0, "-n", 2, "--file", file, "--seed", s).out for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_variants_that_keep_the_tools(file: Path, tasks: list[Task]) -> None:
    for index in (0, 3, 6):
        out = run("variants", index, "-n", 2, "--keep-tools", "--file", file).out
        assert out.count(f"0 of {len(tasks[index].calls)}") == 2


def test_other_tools_are_told(file: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(t for t in tasks if t.kind == "base")
    renamed = Call("get_weather", {}, task.calls[0].spoken)
    turn = msgspec.structs.replace(task.turns[0], calls=(renamed, *task.turns[0].calls[1:]))
    other = msgspec.structs.replace(task, id="other-1", turns=(turn, *task.turns[1:]))
    other.__dict__["graph"] = task.graph.copy()
    other.graph.nodes[0]["tool"] = "get_weather"
    monkeypatch.setattr(Synthesizer, "variant", lambda self, task: other)
    out = run("variants", task.id, "-n", 1, "--file", file).out
    assert f"1 of {len(task.calls)}" in out
    lines = out.splitlines()
    at = next(n for n, line in enumerate(lines) if "get_weather" in line)
    assert task.calls[0].tool in lines[at - 1]
    assert (lines[at - 1].split()[0], lines[at].split()[0]) == ("seed", "1")


def test_variants_write_figures_and_a_picture(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = run("variants", 1, "-n", 13, "--file", file, "--png", tmp_path / "v.png", "--json", tmp_path / "v.json").out
    assert "it shows 11 of 13 variants" in " ".join(out.split())
    assert (tmp_path / "v.png").read_bytes().startswith(b"\x89PNG\r\n")
    figures = msgspec.json.decode((tmp_path / "v.json").read_bytes())
    assert (figures.pop("wanted"), figures.pop("made")) == (13, 13)
    assert figures.pop("variants_per_s") > 0
    assert all(name.startswith("rejected_") and count > 0 for name, count in figures.items())


@pytest.mark.parametrize("there", [0, 2])
def test_fewer_variants_than_wanted_are_a_sentence_and_code_1(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int
) -> None:
    really = Synthesizer.variant

    def few(self: Synthesizer, task: Task) -> Task:
        if self.made == there:
            self.rejected["duplicate"] += 80
            raise SynthesisError("there are no more.", reason="duplicate")
        return really(self, task)

    monkeypatch.setattr(Synthesizer, "variant", few)
    found = call("variants", 0, "-n", 4, "--file", file, "--json", tmp_path / "v.json")
    assert (found.code, found.err) == (1, f"Only {there} of 4 variants were found: there are no more.\n")
    assert f"and {there} variants" in found.out
    figures = msgspec.json.decode((tmp_path / "v.json").read_bytes())
    assert (figures["wanted"], figures["made"]) == (4, there)
    assert figures["rejected_duplicate"] >= 80


# ---------------------------------------------------------------------- play


def gold_lines(task: Task) -> str:
    """What a perfect player types."""
    lines = []
    for turn in task.turns:
        lines += [typed(c) for c in turn.calls]
        lines.append("Done." if turn.calls else "Could you tell me more?")
    return "\n".join(lines) + "\n"


def test_playing_the_gold_calls_passes_every_turn(file: Path, tasks: list[Task]) -> None:
    for task in tasks:
        out = run("play", task.id, "--file", file, lines=gold_lines(task)).out
        n = len(task.turns)
        assert re.search(rf"^{n} of {n} turns? passed, progress 1.00", out, re.MULTILINE)
        assert out.count("✓ turn") == n
        assert "✗" not in out


def test_play_says_which_turn_failed_and_why(file: Path, tasks: list[Task]) -> None:
    at = next(i for i, t in enumerate(tasks) if t.kind == "missing_function" and not t.turns[0].calls)
    lines = "find_me(x=1)\n" + "Done.\n" * len(tasks[at].turns)
    out = " ".join(run("play", at, "--file", file, lines=lines).out.split())
    assert "There is no tool 'find_me'" in out
    assert "9 attempts left" in out
    assert f"0 of {len(tasks[at].turns)} turns passed, progress 0.00" in out
    assert f"turn {len(tasks[at].turns)} failed: something" in out
    closing = out[out.index("0 of ") :]
    assert closing.count(" failed: ") == len(tasks[at].turns)


def test_play_commands(file: Path, tasks: list[Task]) -> None:
    task = next(t for t in tasks if t.kind == "base" and len(t.turns) > 1)
    first = TOOLS[task.calls[0].tool]
    lines = ["/help", "/tools", f"/tool {first.name}", "/tool nope", "/nope", "/hint", "/undo",
             "Done.", "/state", "/undo", "/state", "", "/quit", "never read"]  # fmt: skip
    out = run("play", task.id, "--file", file, lines="\n".join(lines)).out
    parts = re.split(r"^> ?", out, flags=re.MULTILINE)[1:]
    said = {line + str(n): " ".join(part.split()) for n, (line, part) in enumerate(zip(lines, parts, strict=False))}
    assert len(parts) == len(lines) - 1  # the rest is not read after /quit
    assert all(name in said["/help0"] for name in ("/tools", "/tool", "/hint", "/undo", "/state", "/quit"))
    assert all(tool.name in said["/tools1"] for tool in tools_of(task.apis))
    described = said[f"/tool {first.name}2"]
    assert all(p.name in described and first.param_docs[p.name] in described for p in first.params)
    assert "'nope' is none" in said["/tool nope3"]
    assert "no command /nope" in said["/nope4"]
    assert first.name in said["/hint5"]
    assert "nothing to take back" in said["/undo6"]
    assert "✗ turn 1 failed" in said["Done.7"]
    assert task.turns[1].message in said["Done.7"]
    assert "turn 1 ✗ failed turn 2 open" in said["/state8"]
    assert "turn 1 again" in said["/undo9"]
    assert "turn 1 open" in said["/state10"]
    assert "failed" not in said["/state10"]


def test_play_takes_a_wrong_turn_back_and_wins(file: Path, tasks: list[Task]) -> None:
    task = next(t for t in tasks if len(t.turns) > 1 and t.turns[0].calls)
    out = run("play", task.id, "--file", file, lines="Done.\n/undo\n" + gold_lines(task)).out
    assert f"{len(task.turns)} of {len(task.turns)} turns passed, progress 1.00" in out


def test_hints_lead_through_a_task(file: Path, tasks: list[Task]) -> None:
    task = next(t for t in tasks if t.kind == "missing_parameter")
    lines = "".join(f"/hint\n{line}\n" for line in gold_lines(task).splitlines())
    out = run("play", task.id, "--file", file, lines=lines).out
    hints = re.findall(r"The solution calls (\w+)|(call nothing, ask)|(answer with a text)", " ".join(out.split()))
    expected = [[*(c.tool for c in turn.calls), "answer with a text"] if turn.calls else ["call nothing, ask"]
                for turn in task.turns]  # fmt: skip
    assert ["".join(hint) for hint in hints] == [hint for turn in expected for hint in turn]


def test_play_shows_results_as_tables(file: Path, tasks: list[Task]) -> None:
    task = next(t for t in tasks if TOOLS[t.calls[0].tool].many and t.turns[0].calls)
    out = run("play", task.id, "--file", file, lines=typed(task.calls[0])).out
    assert task.gold.steps[0].text not in out
    assert all(row.id in out for row in task.gold.steps[0].rows)


def test_play_ends_politely_at_the_end_of_the_input(file: Path) -> None:
    out = run("play", 0, "--file", file, lines="").out
    assert "Stopped before the end." in out
    assert "turn 1: not played to its end" in out


def test_play_draws_the_task_by_the_seed(file: Path, tasks: list[Task]) -> None:
    firsts = [run("play", "--file", file, "--seed", seed, "--quiet").out.split()[0] for seed in (0, 0, *range(1, 9))]
    assert firsts[0] == firsts[1]
    assert len(set(firsts)) > 2
    assert set(firsts) <= {task.id for task in tasks}


# ---------------------------------------------------------------------- eval


def test_eval_prints_and_writes_the_figures(file: Path, tasks: list[Task], tmp_path: Path) -> None:
    out = run("eval", "--tasks", file, "--json", tmp_path / "e.json").out  # the oracle is the default
    data = msgspec.json.decode((tmp_path / "e.json").read_bytes())
    assert (data["success"], data["progress"], data["episodes"]) == (1.0, 1.0, len(tasks))
    assert data["by_kind/base/success"] == 1.0
    assert [episode["task_id"] for episode in data["episode_list"]] == [task.id for task in tasks]
    depth = f"depth {tasks[0].profile.depth}"
    assert all(words in out for words in ("all tasks", "base", "missing_function", depth, "API ", "success", "95 %"))
    again = run("eval", "--tasks", file, "--json", tmp_path / "f.json").out
    assert again == out
    assert (tmp_path / "f.json").read_bytes() == (tmp_path / "e.json").read_bytes()


@pytest.mark.parametrize("agent", ["do-nothing", "random", "read-everything"])
def test_eval_of_weak_agents(file: Path, tmp_path: Path, agent: str) -> None:
    out = run("eval", "--agent", agent, "--tasks", file, "--limit", 4, "--seed", 3, "--json", tmp_path / "e.json").out
    data = msgspec.json.decode((tmp_path / "e.json").read_bytes())
    assert (data["episodes"], data["seed"]) == (4, 3)
    assert data["success"] < 1
    assert agent in out


# ---------------------------------------------------------------------- validate


def test_validate_of_valid_tasks(file: Path, tasks: list[Task]) -> None:
    assert f"{len(tasks)} of {len(tasks)} tasks are valid" in run("validate", file).out
    assert "2 of 2 tasks are valid" in run("validate", file, "--limit", 2).out


def test_validate_names_every_broken_line(tasks: list[Task], tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    good = [task_to_json(task) for task in tasks[:3]]
    silent = msgspec.json.decode(good[0]) | {"id": "silent"}
    silent["turns"][0]["message"] = "Hello."
    bare = msgspec.json.decode(good[1]) | {"id": "bare"}
    bare["world"]["tables"] = {}
    bare["turns"][0]["message"] += " Please."
    lines = [*good, b"{broken", b"", msgspec.json.encode(silent), good[1], msgspec.json.encode(bare)]
    path.write_bytes(b"\n".join(lines))
    found = call("validate", path, columns=300)
    assert (found.code, found.err) == (1, "")
    said = found.out.splitlines()
    assert {line.split(",")[0] for line in said[:-1]} == {"line 4", "line 6", "line 7", "line 8"}
    assert any(line.startswith("line 4, ?: not a task: JSON is malformed") for line in said)
    assert any(line.startswith("line 6, silent: Turn 1") for line in said)
    assert f"line 7, {tasks[1].id}: It equals the task on line 2." in said
    assert said[-1].endswith("3 of 7 tasks are valid.")


def test_a_broken_line_is_named_where_tasks_are_needed(tasks: list[Task], tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(task_to_json(tasks[0]) + b"\n[]\n")
    for args in (["list"], ["eval", "--tasks"], ["show", 0, "--file"], ["play", "--file"]):
        found = call(*args, tmp_path / "t.jsonl")
        assert found.code == 2
        assert re.fullmatch(r"Error: .*t\.jsonl, line 2: .*\n", found.err)


# ---------------------------------------------------------------------- make-tasks


def test_make_tasks_makes_what_was_asked_for(tmp_path: Path) -> None:
    args = ("--n", 4, "--kind", "missing_function", "--api", "mail", "--api", "shop", "--seed", 5)
    out = run("make-tasks", tmp_path / "a.jsonl", *args).out
    made = load_tasks(tmp_path / "a.jsonl")
    assert len(made) == 4
    assert {task.kind for task in made} == {"missing_function"}
    assert {api for task in made for api in task.apis} <= {"mail", "shop"}
    assert all(rods_env.validate(task) == [] for task in made)
    assert all(name in out for name in FIGURES)
    run("make-tasks", tmp_path / "b.jsonl", *args)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_make_frozen_writes_both_sets(tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def frozen(seed: int, *, progress: Any) -> tuple[list[Task], list[Task]]:
        asked.append(seed)
        progress(1)
        return tasks[:2], tasks[2:5]

    monkeypatch.setattr(datasets, "make_frozen", frozen)
    out = run("make-tasks", "--frozen", tmp_path).out
    run("make-tasks", "--frozen", tmp_path, "--seed", 7)
    assert asked == [datasets.SEED, 7]
    assert load_tasks(tmp_path / "seeds.jsonl.gz") == tasks[:2]
    assert load_tasks(tmp_path / "heldout.jsonl.gz") == tasks[2:5]
    assert "seeds.jsonl.gz" in out


# ---------------------------------------------------------------------- bench


FINE = {
    "valid_share": 1.0, "isomorphic_share": 1.0, "distinct_share": 1.0, "seeds_with_20_share": 0.9975,
    "token_jaccard_median": 0.35, "variants_per_s": 123456.7,
}  # fmt: skip


@pytest.mark.parametrize("name", ["throughput", "variants", "curriculum", "discrete"])
def test_bench_prints_and_writes_the_figures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"rods_env.benchmarks.{name}")
    asked = []

    def measured(*, seed: int, quick: bool, progress: Any) -> dict[str, float]:
        asked.append((seed, quick))
        progress("steps")
        return FINE

    monkeypatch.setattr(module, "run", measured)
    out = run("bench", name, "--quick", "--seed", 4, "--json", tmp_path / "t.json").out
    assert asked == [(4, True)]
    assert re.search(r"variants_per_s +123,457", out)
    assert name.capitalize() in out
    assert msgspec.json.decode((tmp_path / "t.json").read_bytes()) == FINE


def test_bench_variants_fails_if_one_variant_is_not_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rods_env.benchmarks import variants

    broken = {**FINE, "valid_share": 0.9999, "distinct_share": 0.9998}
    monkeypatch.setattr(variants, "run", lambda **_: broken)
    found = call("bench", "variants", "--json", tmp_path / "t.json")
    assert found.code == 1
    assert found.err.splitlines() == [
        "valid_share must be 1; it is 0.999900.", "distinct_share must be 1; it is 0.999800.",
    ]  # fmt: skip
    assert "valid_share" in found.out
    assert msgspec.json.decode((tmp_path / "t.json").read_bytes()) == broken


# ---------------------------------------------------------------------- wrong use, and ends


WRONG: list[tuple[list[str], str]] = [
    (["nothing"], "No such command"),
    (["list", "nowhere.jsonl"], "no task file 'nowhere.jsonl'"),
    (["list", "FILE", "--kind", "easy"], "unknown kind 'easy': expected one of base"),
    (["list", "FILE", "--api", "post"], "unknown API 'post'"),
    (["list", "--limit", "3"], "say which"),
    (["list", "FILE", "--limit", "0"], "--limit"),
    (["list", "--seed", "x"], "--seed"),
    (["show"], "TASK"),
    (["show", "99", "--file", "FILE"], "expected an index below 12"),
    (["show", "nobody", "--file", "FILE"], "no task 'nobody'"),
    (["show", "0", "--file", "FILE", "--png", "DIR/none/x.png"], "there is no folder"),
    (["show", "0", "--file", "FILE", "--png", "DIR"], "it is a folder"),
    (["variants"], "TASK"),
    (["variants", "nobody", "--file", "FILE"], "no task 'nobody'"),
    (["variants", "0", "-n", "0", "--file", "FILE"], "-n"),
    (["variants", "0", "--file", "FILE", "--png", "DIR/none/x.png"], "there is no folder"),
    (["variants", "0", "--file", "FILE", "--json", "DIR"], "it is a folder"),
    (["play", "nobody", "--file", "FILE"], "no task 'nobody'"),
    (["play", "--file", "FILE", "--seed", "-1"], "--seed"),
    (["eval", "--agent", "genius"], "unknown agent 'genius': expected one of oracle"),
    (["eval", "--tasks", "nowhere"], "no task file 'nowhere'"),
    (["eval", "--tasks", "FILE", "--json", "DIR/none/x.json"], "there is no folder"),
    (["eval", "--quick"], "No such option"),
    (["validate"], "FILE"),
    (["validate", "nowhere"], "no task file 'nowhere'"),
    (["validate", "BAD.gz"], "cannot be read"),
    (["make-tasks"], "say where the tasks go"),
    (["make-tasks", "DIR/x.jsonl", "--frozen", "DIR"], "say where the tasks go"),
    (["make-tasks", "--frozen", "DIR", "--n", "3"], "leave out --n"),
    (["make-tasks", "DIR/x.jsonl", "--n", "0"], "--n"),
    (["make-tasks", "DIR/x.jsonl", "--kind", "easy"], "unknown kind 'easy'"),
    (["make-tasks", "DIR/x.jsonl", "--api", "post"], "unknown API 'post'"),
    (["make-tasks", "DIR/none/x.jsonl"], "there is no folder"),
    (["bench", "nothing"], "No such command"),
    (["bench", "throughput", "--json", "DIR/none/x.json"], "there is no folder"),
    (["bench", "variants", "--json", "DIR/none/x.json"], "there is no folder"),
    (["bench", "curriculum", "--json", "DIR"], "it is a folder"),
]


@pytest.mark.parametrize(("args", "says"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_use_is_one_sentence_and_code_2(args: list[str], says: str, file: Path, tmp_path: Path) -> None:
    (tmp_path / "BAD.gz").write_bytes(b"\x1f\x8b\x08 no gzip at all")
    places = {"FILE": str(file), "BAD.gz": str(tmp_path / "BAD.gz")}
    found = call(*(places.get(arg, arg.replace("DIR", str(tmp_path))) for arg in args), columns=300)
    assert found.code == 2
    assert says in found.err
    assert "Traceback" not in found.out + found.err
    if not found.err.startswith("Usage:"):  # which is how typer begins
        assert re.fullmatch(r"Error: .+[.?]\n", found.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["BAD.gz"]


def test_help_names_every_subcommand_and_what_is_shared() -> None:
    out = run("--help", columns=80).out
    groups = {"bench": ("throughput", "variants", "curriculum", "discrete"), "curriculum": ("demo",)}
    for name in ("list", "show", "variants", "play", "eval", "validate", "make-tasks", *groups):
        assert re.search(rf"\b{name} +[A-Z]", out)
        for command in groups.get(name, ("",)):
            assert "--quiet" in run(*filter(None, (name, command)), "--help").out


def test_ctrl_c_is_a_short_line_and_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "make_tasks", interrupted)
    found = call("make-tasks", tmp_path / "x.jsonl")
    assert (found.code, found.err.strip()) == (130, "Stopped.")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_stops_reading_is_no_failure(file: Path) -> None:
    read, write = os.pipe()
    os.close(read)  # so that the first byte written meets a broken pipe
    try:
        found = process("show", 0, "--file", file, "--world", stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_entry_point_exits_with_the_code(tmp_path: Path) -> None:
    found = process("validate", tmp_path, capture_output=True)
    assert found.returncode == 2
    assert found.stdout == ""
    assert re.fullmatch(r"Error: no task file .+\n", found.stderr)


def test_input_and_output_that_cannot_be_coded(file: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    found = process("play", 0, "--file", file, capture_output=True, input="über\n", env=env)
    assert (found.returncode, found.stderr) == (0, "")
    assert "turn 1 failed" in found.stdout


def test_importing_the_command_is_quick() -> None:
    heavy = {"torch", "transformers", "trl", "matplotlib", "networkx", "rich.table", "rods_env.tasks.datasets"}
    code = f"import sys, rods_env.cli; print(sorted({heavy!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# ---------------------------------------------------------------------- tasks of BFCL


def test_eval_of_bfcl_has_a_row_for_each_category(tmp_path: Path) -> None:
    pytest.importorskip("bfcl_eval")
    for agent, success in (("oracle", 1.0), ("do-nothing", 0.0)):
        out = run("eval", "--agent", agent, "--tasks", "bfcl:test", "--json", tmp_path / "x.json").out
        assert all(re.search(rf"{kind} +100 +{success:.3f}", out) for kind in KINDS)
        figures = msgspec.json.decode((tmp_path / "x.json").read_bytes())
        assert [figures[f"by_kind/{kind}/episodes"] for kind in KINDS] == [100] * 4
        assert figures["success"] == success


def test_list_and_show_of_bfcl() -> None:
    pytest.importorskip("bfcl_eval")
    assert "multi_turn_base_2 " in run("list", "bfcl:test", "--limit", 1, columns=200).out
    out = run("show", "bfcl:multi_turn_miss_func_12", "--world").out
    assert "offered from here on: cd" in out
    assert '"GorillaFileSystem' not in out
    assert "Documents" in out
    assert run("show", "multi_turn_miss_func_12", "--world").out == out


def test_show_draws_the_graph_of_a_task_of_bfcl(tmp_path: Path) -> None:
    pytest.importorskip("bfcl_eval")
    out = run("show", "bfcl:multi_turn_base_12", "--png", tmp_path / "x.png").out
    assert re.search(r"3 +echo +state of 1 cd\n +state of 2 touch", out)
    assert "base, calls by turn 2+1+1, depth 4" in out
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_validate_of_bfcl() -> None:
    pytest.importorskip("bfcl_eval")
    assert "1 of 1 tasks have no finding" in run("validate", "bfcl:multi_turn_base_12").out
    found = call("validate", "multi_turn_miss_func_15", columns=200)
    assert (found.code, "multi_turn_miss_func_15: Turn 6, mean: unknown: numbers=62." in found.out) == (1, True)
    assert "2 tasks have no finding" in call("validate", "bfcl:test", "--limit", "2", columns=200).out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("show", "bfcl:test"), "expected one task; bfcl:test is a set of 400"),
        (("show", "bfcl:nix"), "no BFCL tasks 'bfcl:nix'"),
        (("eval", "--agent", "random", "--tasks", "bfcl:test"), "needs tools with typed ports"),
        (("train", "--tasks", "bfcl:train"), "has words for this project's own services only"),
        (("eval", "--agent", "tiny", "--tasks", "bfcl:test"), "has words for this project's own services only"),
        (("variants", "bfcl:train"), "expected one task; bfcl:train is a set of 400"),
    ],
)
def test_wrong_use_of_bfcl_is_one_sentence(words: tuple[str, ...], error: str) -> None:
    pytest.importorskip("bfcl_eval")
    found = call(*words)
    assert (found.code, error in found.err) == (2, True)


def test_play_of_bfcl() -> None:
    pytest.importorskip("bfcl_eval")
    lines = "/tool tail\ncd(folder='x')\n/hint\nls(a=True)\nDone.\n_load_scenario(scenario={})\n/state\n/quit\n"
    out = run("play", "bfcl:multi_turn_base_1", lines=lines).out
    for words in ("tail(file_name, [lines])", "✗ cd: 'x': No such", "The solution calls ls([a])", "✓ turn 1 passed",
                  "There is no tool '_load_scenario'", '{"current_directory_content": ["workspace"]}'):  # fmt: skip
        assert words in out
