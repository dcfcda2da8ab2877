"""The words of a tiny policy: short, one word for an id, and every call comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest

from rods_env import load_tasks
from rods_env.agents.compact import NO_CALL, CompactChat
from rods_env.agents.scripted import Oracle
from rods_env.apis.registry import TOOLS
from rods_env.envs.calls import parse_calls


def arguments(call: Any) -> dict[str, Any]:
    return json.loads(bytes(call.arguments))


def episode(env: gym.Env, task: Any, chat: CompactChat) -> tuple[list[tuple[str, str]], float]:
    """An oracle's episode in words, played through them: what the policy writes is read from its words."""
    _, info = env.reset(options={"task": task})
    oracle, said, heard, ended = Oracle(env), [], 1, False
    oracle.begin(info)
    while not ended:
        messages = list(info["messages"])
        said += [tuple(chat.message(m).values()) for m in messages[heard:] if m["role"] != "assistant"]
        heard = len(messages)
        calls = parse_calls(oracle.act([], []))
        words = chat.call(TOOLS[calls[0].name], arguments(calls[0])) if calls else NO_CALL
        said.append(("assistant", words))
        _, _, terminated, truncated, info = env.step(chat.action(words))
        ended = terminated or truncated
    return said, info["progress"]


@pytest.mark.parametrize("name", ["seeds", "heldout"])
def test_an_oracle_that_speaks_in_words_solves_every_task(name):
    tasks = load_tasks(name)
    env = gym.make("ToolUse-RODS-v0", tasks=tasks)
    lengths = []
    for task in tasks:
        said, progress = episode(env, task, CompactChat(task.world.now[:4]))
        assert progress == 1.0, task.id
        lengths.append(sum(len(words.split()) for _, words in said))
    assert sum(lengths) / len(lengths) < 256
    assert sorted(lengths)[len(lengths) * 9 // 10] < 512


def test_what_nobody_knows_by_heart_is_one_word_wherever_it_stands():
    chat = CompactChat("2026")
    row = {"id": "cus_k3v9x", "name": "Ana Ruiz", "email": "ana.ruiz@example.com", "note": "No hurry."}
    assert chat.result(json.dumps(row)) == 'Ana Ruiz #1 @1 "1'
    assert chat.text('Mail ana.ruiz@example.com "No hurry." and "Yes", please.') == 'Mail @1 "1 and "2 , please .'
    assert chat.result(json.dumps([{"id": "ord_aaaaa", "customer_id": "cus_k3v9x"}])) == "#1 #2"
    assert chat.result("[]") == "nothing"


def test_texts_keep_their_words():
    chat = CompactChat("2026")
    assert chat.text("I'd like Ana's old_report.pdf on 4 May at 10:30.") == (
        "I'd like Ana 's old_report.pdf on 4 May at 10 : 30 ."
    )
    assert chat.value("2026-05-04") == "4 May"
    assert chat.value("2027-05-04") == "4 May 2027"
    assert [chat.value(v) for v in (45.5, 45.25, 45.0, 45)] == ["45 . 5", "45 . 25", "45", "45"]


def call(chat: CompactChat, said: str) -> tuple[str, dict[str, Any]]:
    (found,) = parse_calls(chat.action(said))
    return found.name, arguments(found)


def test_calls_are_read_from_words():
    chat = CompactChat("2026")
    chat.result(json.dumps({"id": "cus_k3v9x", "name": "Ana Ruiz"}))
    assert call(chat, "list_orders #1") == ("list_orders", {"customer_id": "cus_k3v9x"})
    assert call(chat, "find_customer Ana Ruiz") == ("find_customer", {"name": "Ana Ruiz"})
    assert call(chat, "search_flights Oslo , Rome , 4 May") == (
        "search_flights", {"origin": "Oslo", "destination": "Rome", "date": "2026-05-04"},
    )  # fmt: skip
    assert call(chat, "schedule_meeting #1 , Team lunch , 4 May , 10 : 30")[1]["time"] == "10:30"


@pytest.mark.parametrize("said", ["", "ok", "  ok then"])
def test_an_answer_is_no_call(said):
    assert parse_calls(CompactChat("2026").action(said)) == []


BROKEN = (
    "nonsense", "find_customer", "find_customer a , b , c", "list_orders #9", "place_order #1 , #2 , many", "= = ,",
    "freeze_card ,",
)  # fmt: skip


@pytest.mark.parametrize("said", BROKEN)
def test_what_is_no_good_call_is_answered_with_an_error(said):
    task = next(t for t in load_tasks("seeds") if "shop" in t.apis and t.kind == "base")
    env = gym.make("ToolUse-RODS-v0", tasks=[task])
    env.reset(seed=0)
    _, _, _, _, info = env.step(CompactChat("2026").action(said))
    assert info["error"]
    assert info["attempts_left"] == 9
    assert CompactChat("2026").message(list(info["messages"])[-1])["content"].startswith("error ")
