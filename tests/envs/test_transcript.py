"""`Transcript`: a list of messages to those who read it, a shared value to those who extend it."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Sequence

import pytest

from rods_env.envs.transcript import Transcript

FIRST = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
ACTION = [
    {"role": "assistant", "content": "a"},
    {"role": "tool", "name": "f", "content": "1"},
    {"role": "tool", "name": "g", "content": "2"},
]
SAID = {"role": "user", "content": "好的"}


def extended() -> Transcript:
    return Transcript(FIRST).after("a", [("f", "1"), ("g", "2")]).plus(SAID)


def test_reads_like_the_list_of_its_messages():
    whole, wanted = extended(), [*FIRST, *ACTION, SAID]
    assert isinstance(whole, Sequence)
    assert list(whole) == wanted
    assert whole == wanted
    assert len(whole) == 6
    assert whole[0] == FIRST[0]
    assert whole[-1] == SAID
    assert whole[2:5] == ACTION
    assert whole[:] == wanted
    assert list(reversed(whole)) == wanted[::-1]
    assert SAID in whole
    assert whole.index(SAID) == 5
    assert whole == extended()
    assert whole != wanted[:-1]
    assert whole != "text"
    assert whole != 5
    assert repr(whole) == f"Transcript({wanted!r})"
    with pytest.raises(IndexError):
        whole[6]
    with pytest.raises(TypeError):
        hash(whole)


def test_no_messages():
    assert list(Transcript()) == [] == list(Transcript().results())
    assert len(Transcript()) == 0
    assert list(Transcript().after("a", [])) == [ACTION[0]]


def test_extending_leaves_what_was_there():
    """Both when the list was asked for before and when it was not; two ways to go on do not meet."""
    for looked_at in (True, False):
        start = extended()
        assert not looked_at or len(start) == 6
        one, two = start.plus({"role": "assistant", "content": "one"}), start.after("two", [("h", "3")])
        assert len(two) == 8
        assert len(one) == 7
        assert len(start) == 6
        assert one[-1]["content"] == "one"
        assert two[-1] == {"role": "tool", "name": "h", "content": "3"}
        assert list(start) == [*FIRST, *ACTION, SAID]
        assert one[:6] == two[:6] == list(start)
    given = list(FIRST)
    start = Transcript(given)
    given.append(SAID)
    assert len(start) == 2


def test_results_are_all_texts_of_tools():
    whole = extended().after("b", [("f", "3"), ("f", "4")]).plus(SAID)
    assert sorted(whole.results()) == ["1", "2", "3", "4"]
    assert sorted(Transcript(list(whole)).results()) == ["1", "2", "3", "4"]
    for same in (extended().after("b", [("f", "3"), ("f", "4")]), whole):
        assert list(same.results()) == ["4", "3", "2", "1"], "the newest first, whether the list was made or not"


def test_random_growth_is_what_a_list_gives():
    draw = random.Random(1)
    known = [(Transcript(FIRST), list(FIRST))]
    for number in range(400):
        transcript, messages = known[draw.randrange(max(0, len(known) - 8), len(known))]
        if draw.random() < 0.3:
            assert len(transcript) == len(messages)
        if draw.random() < 0.5:
            message = {"role": "user", "content": str(number)}
            known.append((transcript.plus(message), [*messages, message]))
        else:
            results = [(f"t{i}", f"r{number}.{i}") for i in range(draw.randrange(3))]
            said = [{"role": "tool", "name": name, "content": text} for name, text in results]
            longer = [*messages, {"role": "assistant", "content": str(number)}, *said]
            known.append((transcript.after(str(number), results), longer))
    for transcript, messages in draw.sample(known, len(known)):
        assert list(transcript) == messages
        assert sorted(transcript.results()) == sorted(m["content"] for m in messages if m["role"] == "tool")


def test_pickle_and_copies_are_plain():
    for twin in (pickle.loads(pickle.dumps(extended())), copy.deepcopy(extended()), copy.copy(extended())):
        assert type(twin) is Transcript
        assert twin == extended()
        assert list(twin.plus(SAID)) == [*extended(), SAID]


def test_a_long_conversation_neither_recurses_nor_gets_slow_to_drop():
    long = Transcript(FIRST)
    for number in range(100_000):
        long = long.after("a", [("f", str(number))])
    assert sum(1 for _ in long.results()) == 100_000
    assert len(long) == 200_002
    assert long[-1]["content"] == "99999"
    assert len(pickle.loads(pickle.dumps(long))) == 200_002
    del long
