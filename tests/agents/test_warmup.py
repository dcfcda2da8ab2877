"""Warm-up: demonstrations that solve their tasks, a small base made from nothing, and what it learns."""

from __future__ import annotations

import json
from itertools import islice

import pytest
import torch

from rods_env.agents.chat import Chat
from rods_env.agents.policy import load_policy
from rods_env.agents.tiny import make_model, make_tokenizer
from rods_env.agents.warmup import (
    Demonstrator,
    batches,
    demonstrations,
    make_base,
    needed_words,
    padded,
    train,
)  # fmt: skip
from rods_env.apis.registry import TOOLS
from rods_env.tasks.tiny_sets import fingerprint, long_tasks, short_tasks
from rods_env.version import SUITE_VERSION


@pytest.fixture(scope="module")
def chat():
    words = needed_words([*islice(short_tasks(11), 60), *islice(long_tasks(12), 60)])
    return Chat(make_tokenizer(words), speech="compact", name="tiny")


def test_a_demonstration_is_what_a_policy_would_have_lived(chat):
    demonstrator = Demonstrator(chat, mistakes=0.0)
    for task in islice(long_tasks(12), 40):
        shown = demonstrator.demonstration(task)
        assert len(shown.ids) == len(shown.mask) <= 512
        words = chat.decode(shown.ids).split()
        said = [word for word, mine in zip(words, shown.mask, strict=True) if mine]
        assert said.count("<end>") == len(task.calls) + len(task.turns)
        assert [word for word in said if "_" in word and word in {c.tool for c in task.calls}] == [
            call.tool for call in task.calls
        ]
        assert "<unk>" not in words


def test_mistakes_are_heard_and_not_learned(chat):
    right, wrong = Demonstrator(chat, mistakes=0.0), Demonstrator(chat, mistakes=1.0)
    seen = 0
    for task in islice(short_tasks(11), 40):
        a, b = right.demonstration(task), wrong.demonstration(task)
        said = [[i for i, mine in zip(one.ids, one.mask, strict=True) if mine] for one in (a, b)]
        tools = [[word for word in chat.decode(ids).split() if word in TOOLS] for ids in said]
        assert tools[0] == tools[1]  # what is learned is the same; an error may number the words for ids otherwise
        seen += chat.decode(b.ids).split().count("error")
    assert seen > 10


def test_demonstrations_are_reproducible(chat):
    one, same = (list(islice(demonstrations(chat, short_tasks(5), seed=3), 20)) for _ in range(2))
    assert one == same


def test_batches_hold_every_episode_once_with_others_of_its_length(chat):
    some = list(islice(demonstrations(chat, short_tasks(5), seed=3), 64))
    parts = list(batches(iter(some), 4, 0))
    assert sorted(map(tuple, (one.ids for part in parts for one in part))) == sorted(tuple(one.ids) for one in some)
    assert parts != list(batches(iter(some), 4, 1))
    spread = [len(part[-1].ids) - len(part[0].ids) for part in parts]
    assert sum(spread) / len(spread) < 0.2 * (max(len(one.ids) for one in some) - min(len(one.ids) for one in some))


def test_padding_is_neither_said_nor_heard(chat):
    some = list(islice(demonstrations(chat, short_tasks(5)), 3))
    ids, mask = padded(some)
    assert ids.shape == mask.shape == (3, max(len(one.ids) for one in some))
    for row, one in enumerate(some):
        assert mask[row].tolist() == [*one.mask, *[-1] * (ids.shape[1] - len(one.ids))]


def test_training_learns_what_is_said(chat):
    some = list(islice(demonstrations(chat, short_tasks(5), mistakes=0.0), 64))
    model = make_model(len(chat.tokenizer), 0, width=48, layers=2, heads=2, kv_heads=1, inner=96)
    losses = []
    train(model, iter(some * 20), steps=70, batch=8, on_step=lambda _, loss: losses.append(loss))
    assert len(losses) == 70
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    assert not model.training


def test_a_small_base_is_made_from_nothing_the_same_every_time(tmp_path):
    rows: list[dict[str, float]] = []
    options = {"width": 32, "layers": 1, "heads": 2, "kv_heads": 1, "inner": 64}
    for name in ("one", "same"):
        make_base(
            tmp_path / name, steps=50, batch=4, word_tasks=40, model_options=options, on_row=rows.append,
            score=lambda policy: {"parameters": float(sum(p.numel() for p in policy.model.parameters()))},
        )  # fmt: skip
    one, same = (load_policy(str(tmp_path / name)) for name in ("one", "same"))
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), same.model.parameters(), strict=True))
    assert one.chat.speech == "compact"
    recipe = json.loads((tmp_path / "one" / "recipe.json").read_bytes())
    assert recipe["suite_version"] == SUITE_VERSION
    assert recipe["tasks"] == fingerprint()
    assert recipe["scores"] == {"parameters": float(recipe["parameters"])}
    assert [row["step"] for row in rows] == [50, 50]


def test_the_shipped_base_knows_the_words_of_errors_too():
    """A policy that makes mistakes must be able to read what was wrong: hardly a word is unknown to it."""
    policy = load_policy("tiny")
    known, unknown = policy.tokenizer.get_vocab(), policy.tokenizer.unk_token_id
    heard: list[int] = []
    demonstrator = Demonstrator(policy.chat, mistakes=0.0, seed=5)
    for task in islice(long_tasks(77), 60):
        heard += demonstrator.babble(task)
    assert heard.count(known["error"]) > 150
    assert heard.count(unknown) < 0.005 * len(heard)


def test_the_shipped_base_is_of_these_tasks():
    """Whoever changes APIs, tasks or texts raises SUITE_VERSION and makes the base again: `make base`."""
    from importlib.resources import files

    recipe = json.loads((files("rods_env") / "data" / "tiny" / "recipe.json").read_bytes())
    assert recipe["suite_version"] == SUITE_VERSION
    assert recipe["tasks"] == fingerprint()
    size = sum(file.stat().st_size for file in (files("rods_env") / "data" / "tiny").iterdir())  # type: ignore[attr-defined]
    assert size < 12_000_000
