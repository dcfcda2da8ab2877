"""Words are exchanged at once, at their boundaries, with articles and dots that fit."""

from __future__ import annotations

import pytest

from rods_env.bfcl.replacing import Replacement, stands_in


def test_two_words_change_places():
    swap = Replacement({"AAPL": "MSFT", "MSFT": "AAPL", "Apple": "Microsoft", "Microsoft": "Apple"})
    assert swap("Sell AAPL, buy MSFT; Apple's loss is Microsoft's gain.") == (
        "Sell MSFT, buy AAPL; Microsoft's loss is Apple's gain."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See report.txt.", "See x_report.txt."),
        ("docs/report.txt", "docs/x_report.txt"),
        ("my_report.txt and report.txt.bak", "my_report.txt and report.txt.bak"),
        ("'report.txt'", "'x_report.txt'"),
        ("Report.txt", "Report.txt"),
    ],
)
def test_a_file_is_a_whole_word(text, expected):
    assert Replacement({"report.txt": "x_report.txt"})(text) == expected


def test_the_longest_word_wins():
    words = Replacement({"server error": "disk error", "error": "fault", "New York": "Boston", "New York City": "Rome"})
    assert words("a server error, an error") == "a disk error, a fault"
    assert words("New York City or New York") == "Rome or Boston"


def test_a_word_that_stands_for_itself_protects_what_is_in_it():
    assert Replacement({"456 Oak, Rivermist": "456 Oak, Rivermist", "Rivermist": "Oakendale"})(
        "From Rivermist to 456 Oak, Rivermist"
    ) == "From Oakendale to 456 Oak, Rivermist"  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "text", "expected"),
    [
        ("NVDA", "TSLA", "an NVDA order", "a TSLA order"),
        ("TSLA", "MSFT", "a TSLA order", "an MSFT order"),
        ("report", "annual report", "a 'report' and A report", "an 'annual report' and An annual report"),
        ("apple", "unit", "an apple", "a unit"),
    ],
)
def test_articles_fit(old, new, text, expected):
    assert Replacement({old: new})(text) == expected


@pytest.mark.parametrize(
    ("old", "new", "text", "expected"),
    [
        ("Nvidia", "Quasar Ltd.", "I like Nvidia. A lot.", "I like Quasar Ltd. A lot."),
        ("Quasar Ltd.", "Nvidia", "I like Quasar Ltd. A lot.", "I like Nvidia. A lot."),
        ("Quasar Ltd.", "Nvidia", "Quasar Ltd.'s stock", "Nvidia's stock"),
        ("Quasar Ltd.", "Nvidia", "Quasar Ltd. and others", "Nvidia and others"),
    ],
)
def test_a_short_form_shares_its_dot_with_the_sentence(old, new, text, expected):
    assert Replacement({old: new})(text) == expected


def test_owners_have_the_ending_that_fits():
    there, back = Replacement({"Apple": "Omega Industries"}), Replacement({"Omega Industries": "Apple"})
    assert there("Apple's stock, 'Apple'") == "Omega Industries' stock, 'Omega Industries'"
    assert back("Omega Industries' stock, 'Omega Industries' and more") == "Apple's stock, 'Apple' and more"
    assert Replacement({"Ana": "Jonas"})("Ana's mail") == "Jonas's mail"


def test_numbers_are_whole_numbers():
    words = Replacement({"100": "70", "5,000": "3,000"})
    assert (
        words("100-share order, 1000, 100.5, $100, 5,000 or 15,000")
        == "70-share order, 1000, 100.5, $70, 3,000 or 15,000"
    )


def test_nested_data_has_new_keys_and_texts_and_its_old_numbers():
    data = {"root": {"a.txt": {"content": "a.txt is 5", "size": 5}}, "list": ["a.txt", None, True]}
    assert Replacement({"a.txt": "b.txt"}).data(data) == {
        "root": {"b.txt": {"content": "b.txt is 5", "size": 5}}, "list": ["b.txt", None, True],
    }  # fmt: skip


def test_what_stands_in_a_text_has_no_letter_beside_it():
    assert stands_in("temp", "the Temp folder")
    assert not stands_in("temp", "an attempt, temporary")
