"""`UnicodeText`: honest about what it contains, and usable wherever Gymnasium uses a space."""

from __future__ import annotations

import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.vector.utils import batch_space, create_shared_memory
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.envs.spaces import UnicodeText

every_character = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(every_character)
def test_contains_what_can_be_written_as_utf8_and_nothing_else(text):
    """Row 10: the declared space is the real one."""
    try:
        text.encode()
        valid = True
    except UnicodeEncodeError:
        valid = False
    assert UnicodeText().contains(text) == valid
    assert (text in UnicodeText()) == valid


def test_texts_of_every_kind_and_other_things(play):
    space = UnicodeText()
    assert space.contains("")
    assert space.contains("x" * 1_000_000)
    assert space.contains("\U0010ffff\x00\ufffe")
    assert not any(space.contains(text) for text in ("\ud800", "a\udfffb", "\ud83d\ude00"))
    assert not any(space.contains(x) for x in (None, 3, b"text", ["text"], ("t",), np.array("text")))
    assert space.contains(np.str_("text"))
    outside = [text for text in play.nasty if not space.contains(text)]
    assert outside
    assert all(any("\ud800" <= c <= "\udfff" for c in text) for text in outside)


def test_samples_are_in_the_space_and_follow_the_seed():
    """Row 9, for the space."""
    space, again, other = UnicodeText(seed=3), UnicodeText(), UnicodeText(seed=4)
    again.seed(3)
    drawn = [space.sample() for _ in range(300)]
    assert all(space.contains(text) for text in drawn)
    assert len(set(drawn)) > 200
    assert [again.sample() for _ in range(300)] == drawn
    assert [other.sample() for _ in range(300)] != drawn
    assert any(not text.isascii() for text in drawn)
    assert any("<tool_call>" in text for text in drawn)
    assert "" in drawn


@pytest.mark.parametrize("how", [{"mask": "x"}, {"probability": "x"}])
def test_a_mask_is_refused(how):
    with pytest.raises(ValueError, match=r"no mask and no probability; got .*'x'"):
        UnicodeText().sample(**how)


def test_equality_hash_and_text():
    assert UnicodeText(seed=1) == UnicodeText(seed=2) != gym.spaces.Text(5)
    assert len({UnicodeText(), UnicodeText()}) == 1
    assert repr(UnicodeText()) == "UnicodeText()"
    assert UnicodeText().dtype == str
    assert UnicodeText().shape is None
    assert UnicodeText().is_np_flattenable is False


def test_copies_go_on_with_the_same_samples():
    space = UnicodeText(seed=5)
    space.sample()
    twins = [copy.deepcopy(space), pickle.loads(pickle.dumps(space))]
    drawn = [space.sample() for _ in range(20)]
    assert all(twin == space and [twin.sample() for _ in range(20)] == drawn for twin in twins)


def test_json_there_and_back():
    space = UnicodeText(seed=1)
    drawn = [space.sample() for _ in range(50)]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(drawn)))) == drawn


def test_batches_are_tuples_of_texts():
    batch = batch_space(UnicodeText(), 3)
    assert isinstance(batch, gym.spaces.Tuple)
    assert batch.contains(("a", "ß", "好"))
    assert batch.contains(batch.sample())
    assert not batch.contains(("a", "b", "\ud800"))


def test_shared_memory_says_what_to_pass():
    with pytest.raises(CustomSpaceError, match=r'vector_kwargs=\{"shared_memory": False\}'):
        create_shared_memory(UnicodeText(), n=2)
