"""The tiny policy: its words, its template, and a network that begins by looking at the word before."""

from __future__ import annotations

import pytest
import torch

from rods_env.agents.tiny import SPECIAL, UNKNOWN, look_at_previous_word, make_model, make_tokenizer, vocabulary


def test_a_vocabulary_holds_marks_numbers_and_the_most_frequent_words():
    words = vocabulary(["b a a", "a b c"], size=len(vocabulary([])) + 2)
    assert words[: len(SPECIAL)] == list(SPECIAL)
    assert {"0", "99", "07", "#1", "@1", '"1'} <= set(words)
    assert words[-2:] == ["a", "b"]
    assert len(set(words)) == len(words)


def test_words_come_back_as_they_were_and_unknown_ones_are_marked():
    tokenizer = make_tokenizer(vocabulary(["buy 4 #1 , please"]))
    ids = tokenizer.encode("buy #1 , nothing <end>", add_special_tokens=False)
    assert tokenizer.decode(ids) == f"buy #1 , {UNKNOWN} <end>"
    assert tokenizer.eos_token_id == ids[-1]


def test_the_template_names_the_tools_only():
    tokenizer = make_tokenizer(vocabulary([]))
    tools = [{"type": "function", "function": {"name": "find_customer", "description": "long", "parameters": {}}}]
    talk = [
        {"role": "user", "content": "buy it"},
        {"role": "assistant", "content": "find_customer #1"},
        {"role": "tool", "name": "find_customer", "content": "nothing"},
    ]
    text = tokenizer.apply_chat_template(talk, tools=tools, tokenize=False, add_generation_prompt=True)
    assert text == "<tools> find_customer <user> buy it <agent> find_customer #1 <end> <tool> nothing <agent> "


def test_equal_seeds_give_equal_networks_and_no_global_generator_is_touched():
    before = torch.random.get_rng_state()
    one, same, other = (make_model(200, seed, width=32, layers=1) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        if a.dim() == 2:
            assert not torch.equal(a, c)


@pytest.mark.parametrize("place", [1, 5, 40, 300])
def test_one_head_begins_by_looking_at_the_word_before(place):
    model = make_model(200, 0, width=64, heads=2, kv_heads=1, layers=1, initializer_range=1e-4)
    look_at_previous_word(model)
    model.set_attn_implementation("eager")
    ids = torch.arange(place + 1)[None] % 200
    with torch.no_grad():
        weights = model(ids, output_attentions=True).attentions[0][0, 0, place]
    assert int(weights.argmax()) == place - 1
    assert float(weights[place - 1]) > 0.5
