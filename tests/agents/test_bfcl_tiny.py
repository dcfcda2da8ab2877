"""The tiny policy for BFCL: its words, what it is shown, a small one made from nothing, and what it refuses."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from play_tools import Spans

from rods_env import load_tasks
from rods_env.agents.bfcl_warmup import Demonstrations, Pool, make_bfcl_policy, make_pool, tokenizer_for
from rods_env.agents.bfcl_words import cut, make_tokenizer
from rods_env.agents.chat import Chat
from rods_env.agents.policy import load_policy
from rods_env.agents.policy_evaluation import evaluate_policy
from rods_env.agents.speech import RESULT_SHOWN, CallSpeech
from rods_env.agents.warmup import Demonstrator
from rods_env.envs.calls import parse_calls
from rods_env.errors import RodsError

pytest.importorskip("bfcl_eval")
from typer.testing import CliRunner

from rods_env.agents.run_folder import RunFolder
from rods_env.bfcl.tools import tools_by_name
from rods_env.cli import app

SMALL: dict[str, Any] = {"width": 32, "layers": 2, "heads": 2, "kv_heads": 1, "inner": 64}
IDS = ("bfcl:multi_turn_base_0", "bfcl:multi_turn_miss_func_1", "bfcl:multi_turn_long_context_0")
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@pytest.fixture(scope="module")
def pool() -> Pool:
    return make_pool([task for name in IDS for task in load_tasks(name)], 2)


@pytest.fixture(scope="module")
def chat(pool: Pool) -> Chat:
    return Chat(tokenizer_for(pool, list(tools_by_name())), speech="calls", name="tiny-bfcl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, float]], list[str]]:
    folder, rows, stages = tmp_path_factory.mktemp("made") / "policy", list[dict[str, float]](), list[str]()
    tasks = [*load_tasks("bfcl:multi_turn_base_100"), *load_tasks("bfcl:multi_turn_base_101")]
    make_bfcl_policy(
        folder, tasks, steps=100, batch=1, variants=2, model_options=SMALL, on_row=rows.append, on_stage=stages.append
    )
    return folder, rows, stages


# ---------------------------------------------------------------------- words


@QUICK
@given(text=st.text(max_size=60) | st.from_regex(r'[\w .,:\'"(){}=\[\]/@#-]{0,60}', fullmatch=True))
def test_any_text_comes_back_as_it_was(chat: Chat, text: str) -> None:
    assert "".join(cut(text)) == text
    _, ids = chat.written([{"role": "user", "content": text}], lambda some: some[0]["content"])
    assert chat.decode(ids) == text
    assert chat.tokenizer.unk_token_id not in ids


@pytest.mark.parametrize("around", ["'{}'", "the {} file", '{{"result": "{}"}}', "cp(source='{}')", "{}, please"])
def test_a_name_has_the_same_pieces_wherever_it_stands(chat: Chat, around: str) -> None:
    for name in ("FinalReport", "final_report", "Kelly Okonkwo", "a17b", "zzqx"):
        pieces = chat.encode(name)
        ids = chat.encode(around.format(name))
        assert any(ids[at : at + len(pieces)] == pieces for at in range(len(ids))), name


def test_functions_are_one_piece_each_and_digits_stand_alone(chat: Chat) -> None:
    assert all(len(chat.encode(f"{name}(")) == 1 for name in tools_by_name())
    assert len(chat.encode("20.57")) == 5
    assert len(chat.encode('"current_working_directory": ')) == 1


def test_a_word_counts_once_a_story() -> None:
    often = make_tokenizer([["Kangaroo " * 50], ["x"], ["y"]]).tokenize("Kangaroo")
    shared = make_tokenizer([["Kangaroo"], ["a Kangaroo"], ["Kangaroo."]]).tokenize("Kangaroo")
    assert len(often) == len("Kangaroo")
    assert shared == ["Kangaroo"]


rounds = st.lists(
    st.tuples(
        st.lists(st.integers(0, 10_000), min_size=1, max_size=5),  # what is sampled, modulo the vocabulary
        st.booleans(),  # whether the end mark is sampled at last
        st.lists(st.text(max_size=12) | st.sampled_from(["<end>", "<agent>x", "x" * 300]), max_size=2),  # results
        st.none() | st.text(max_size=12),  # what the user says
    ),
    max_size=3,
)


@QUICK
@given(user=st.text(max_size=12), rounds=rounds)
def test_any_conversation_goes_on_from_the_ids_that_stand(chat: Chat, user: str, rounds: list[Any]) -> None:
    """The rules of `Spans`: nothing that was said or heard changes, and only the template writes its marks."""
    schema = {"type": "function", "function": {"name": "cd", "description": "d", "parameters": {}}}
    messages: list[Any] = [{"role": "system", "content": "s"}, {"role": "user", "content": user}]
    spans = Spans(chat, {"messages": list(messages), "tools": [schema]})
    for number, (sampled, ended, results, message) in enumerate(rounds):
        ids = [i % len(chat.tokenizer) for i in sampled]
        ids = [i for i in ids if i not in chat.tokenizer.all_special_ids] + (chat.end_ids if ended else [])
        if not ids:
            continue
        messages.append({"role": "assistant", "content": spans.say(ids)})
        messages += [{"role": "tool", "name": "cd", "content": result} for result in results]
        fresh: list[Any] = []
        if message is not None or not results:
            messages.append({"role": "user", "content": message or ""})
            fresh = [{**schema, "function": {**schema["function"], "name": f"new_{number}"}}]  # type: ignore[dict-item]
        spans.hear({"messages": list(messages), "tools": [schema, *fresh]})
        assert not fresh or f"<user>new_{number}(\n" in spans.dialogue.text


def test_calls_are_said_as_the_environment_reads_them() -> None:
    speech = CallSpeech()
    one, two = ("cd", {"folder": "it's"}), ("ls", {"a": True})
    for calls in ([one], [one, two]):
        found = [(call.name, json.loads(bytes(call.arguments))) for call in parse_calls(speech.calls(calls))]
        assert found == calls
    assert speech.calls([two]) == "ls(a=True)"
    assert parse_calls(speech.action(speech.calls([]))) == []


def test_long_results_are_cut_off_and_the_system_message_is_left_out() -> None:
    long, short = "x" * (RESULT_SHOWN + 1), "y" * RESULT_SHOWN
    told = [("system", "s"), ("user", long), ("tool", long), ("tool", short)]
    heard = CallSpeech().messages([{"role": role, "content": text} for role, text in told])
    assert [m["content"] for m in heard] == [long, "x" * RESULT_SHOWN + "…", short]


# ---------------------------------------------------------------------- what it is shown


def test_a_demonstration_solves_its_task_in_the_ids_that_the_template_gives(chat: Chat, pool: Pool) -> None:
    player = Demonstrator(chat, mistakes=0.0)
    for task in pool.tasks:
        shown = player.demonstration(task)
        text = chat.decode(shown.ids)
        said = chat.decode([i for i, mine in zip(shown.ids, shown.mask, strict=True) if mine]).split("<end>")
        calls = [(c.name, json.loads(bytes(c.arguments))) for one in said[:-1] for c in parse_calls(one)]
        assert calls == [(call.tool, call.arguments) for call in task.calls]
        assert said.count("ok") == len(task.turns)
        assert text.startswith("<tools>")
        for turn in task.turns:
            assert turn.message in text


def test_a_function_that_was_held_out_is_told_when_it_comes(chat: Chat, pool: Pool) -> None:
    text = chat.decode(Demonstrator(chat, mistakes=0.0).demonstration(pool.tasks[1]).ids)
    opening, _, rest = text.partition("<user>")
    late = [name for name in tools_by_name() if f"<user>{name}(" in rest]
    assert late
    assert all(f"{name}(" not in opening for name in late)


def test_rare_pieces_are_exchanged_alike_within_an_episode(chat: Chat, pool: Pool) -> None:
    shown = Demonstrations(chat, pool, mistakes=0.0, exchanged=1.0, lost=0.0)
    for one, plain in ((shown._changed(some), some) for some in shown.shown):
        pairs = dict(zip(plain.ids, one.ids, strict=True))
        assert [pairs[i] for i in plain.ids] == one.ids
        assert len(set(pairs.values())) == len(pairs)
        assert one.mask == plain.mask
        assert any(a != b for a, b in pairs.items())
        rare = set(np.concatenate(shown.rare).tolist())
        assert all(a == b for a, b in pairs.items() if a not in rare)


def test_lost_words_are_never_those_to_say(chat: Chat, pool: Pool) -> None:
    shown = Demonstrations(chat, pool, mistakes=0.0, exchanged=0.0, lost=0.5)
    unknown = chat.tokenizer.unk_token_id
    for plain in shown.shown:
        one = shown._changed(plain)
        said = {i for i, mine in zip(plain.ids, plain.mask, strict=True) if mine}
        assert unknown in one.ids
        assert all(b == a for a, b in zip(plain.ids, one.ids, strict=True) if a in said)


def test_what_is_shown_depends_on_the_seed_alone(chat: Chat, pool: Pool) -> None:
    one, same, other = (list(islice(Demonstrations(chat, pool, seed=seed), 20)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


# ---------------------------------------------------------------------- a policy


def test_a_few_steps_lower_the_loss_and_give_a_policy_that_plays(made: Any) -> None:
    folder, rows, stages = made
    assert [row["step"] for row in rows] == [50, 100]
    assert rows[1]["loss"] < 0.9 * rows[0]["loss"]
    assert stages == ["making variants", "making the tokenizer", "playing the oracle", "training"]
    policy = load_policy(folder)
    assert (policy.chat.speech, policy.chat.tool_docs, policy.max_length) == ("calls", "template", 1024)
    recipe = json.loads((folder / "recipe.json").read_bytes())
    assert (recipe["tasks"], recipe["variants"], recipe["demonstrations"]) == (2, 4, 6)
    found = evaluate_policy(policy, load_tasks("bfcl:multi_turn_base_2"), max_message=32, max_episode=1024)
    assert found.crashed == 0
    assert [episode.steps > 0 for episode in found.episodes] == [True]


def test_equal_seeds_make_equal_policies(made: Any, tmp_path: Path) -> None:
    tasks = load_tasks(IDS[0])
    for name in ("one", "same"):
        make_bfcl_policy(tmp_path / name, tasks, steps=3, variants=1, batch=2, seed=5, model_options=SMALL)
    one, same = (load_policy(tmp_path / name) for name in ("one", "same"))
    assert one.tokenizer.get_vocab() == same.tokenizer.get_vocab()
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), same.model.parameters(), strict=True))


def test_it_plays_no_other_tasks_and_the_other_tiny_policy_none_of_these(made: Any) -> None:
    own, foreign = load_tasks("heldout")[:1], load_tasks(IDS[0])
    with pytest.raises(RodsError, match=r"BFCL's functions only, and [\w-]+ is a task of ToolUse-RODS-v0"):
        load_policy(made[0]).chat.check_tasks([*foreign, *own])
    with pytest.raises(RodsError, match="the policy tiny has words for this project's own services only"):
        load_policy("tiny").chat.check_tasks(foreign)


def test_it_is_made_of_tasks_of_bfcl_only(tmp_path: Path) -> None:
    with pytest.raises(RodsError, match="learns from tasks of BFCL only; got none"):
        make_bfcl_policy(tmp_path / "p", [])
    with pytest.raises(RodsError, match=r"learns from tasks of BFCL only; got \w+"):
        make_bfcl_policy(tmp_path / "p", load_tasks("heldout")[:1])
    assert not (tmp_path / "p").exists()


# ---------------------------------------------------------------------- the commands


def run(*args: object) -> str:
    found = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [*map(str, args)])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_the_command_makes_the_policy_of_the_tasks_that_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def make(folder: Path, tasks: Any, *, on_stage: Any, on_row: Any, **given: Any) -> Path:
        asked.append((folder, [task.id for task in tasks], given))
        on_stage("training")
        on_row({"step": 7, "steps": 7, "loss": 0.5, "seconds": 1.0})
        return folder

    monkeypatch.setattr("rods_env.agents.bfcl_warmup.make_bfcl_policy", make)
    out = run("train", "--warmup-only", "--tasks", IDS[0], "--run", tmp_path / "p", "--steps", 7, "--seed", 3)
    assert asked == [(tmp_path / "p", ["multi_turn_base_0"], {"steps": 7, "seed": 3})]
    assert "training …\nstep 7/7\tloss 0.500" in out
    assert "rods-env train --preset tiny-bfcl --policy" in out


def test_it_is_trained_by_reward_and_evaluated(made: Any, tmp_path: Path) -> None:
    short = ("--set", "max_message=6", "--set", "max_messages=3", "--set", "threads=1", "--set", "micro_batch=2")
    few = ("--steps", 1, "--group-size", 2, "--groups-per-step", 1, "--set", "heldout_limit=1",
           "--set", "tasks=bfcl:multi_turn_base_0")  # fmt: skip
    run("train", "--preset", "tiny-bfcl", "--policy", made[0], "--run", tmp_path / "r", *few, *short)
    assert [row["step"] for row in RunFolder(tmp_path / "r").rows()] == [0, 1]
    out = run("eval", "--agent", tmp_path / "r", "--json", tmp_path / "e.json")
    assert "on bfcl:test, seed 0" in out
    assert json.loads((tmp_path / "e.json").read_bytes())["episodes"] == 1


def test_a_folder_without_a_run_is_evaluated_with_the_settings_of_its_preset(made: Any, tmp_path: Path) -> None:
    run("eval", "--agent", made[0], "--limit", 1, "--json", tmp_path / "e.json", "--quiet")
    assert json.loads((tmp_path / "e.json").read_bytes())["episodes"] == 1  # of bfcl:test, the preset's held-out tasks
