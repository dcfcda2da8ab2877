"""How values are said, and found again in a text as whole words."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rods_env.apis.registry import Port
from rods_env.tasks.text import is_said, say, spoken_forms, stands_in

PROPERTY = settings(deadline=None, derandomize=True, max_examples=200)

DATE = Port("date", kind="date")
AMOUNT = Port("amount", kind="amount", unit="euros", type="float")
MINUTES = Port("minutes", kind="minutes", unit="minutes", type="int")
QUANTITY = Port("quantity", kind="quantity", type="int")
REASON = Port("reason", choices=("too_late", "broken", "changed_mind"))
SUBJECT = Port("subject", kind="subject", quote=True)
NAME = Port("name", kind="person")

DATES = st.dates(datetime.date(2000, 1, 1), datetime.date(2039, 12, 31)).map(datetime.date.isoformat)
CENTS = st.integers(1, 10_000_000).map(lambda n: n / 100)
WORDS = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=12)
TEXTS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)

SPOKEN = st.one_of(
    st.tuples(st.just(DATE), DATES),
    st.tuples(st.just(AMOUNT), CENTS),
    st.tuples(st.just(MINUTES), st.integers(5, 600)),
    st.tuples(st.just(QUANTITY), st.integers(1, 99)),
    st.tuples(st.just(REASON), st.sampled_from(REASON.choices)),
    st.tuples(st.just(SUBJECT), TEXTS),
    st.tuples(st.just(NAME), TEXTS),
)


@PROPERTY
@given(SPOKEN, st.sampled_from(["{}", "Please take {}.", "It is {}, thanks", "({})", "Say {}! Now.", "On {}: go"]))
def test_what_is_said_is_found(spoken, sentence):
    """Known fault 12: a value that the user gives is found in the text, in every sentence around it."""
    port, value = spoken
    assert is_said(port, value, sentence.format(say(port, value, "2026")), "2026")


@PROPERTY
@given(SPOKEN)
def test_every_spoken_form_is_found(spoken):
    port, value = spoken
    forms = spoken_forms(port, value, "2026")
    assert forms
    for form in forms:
        assert stands_in(form, f"Well, {form}, please.")
        assert is_said(port, value, f"Well, {form}, please.", "2026")


@PROPERTY
@given(st.text(max_size=30))
def test_nothing_is_said_by_an_unrelated_text(text):
    assert not is_said(AMOUNT, 48_217.39, text, "2026")
    assert not is_said(DATE, "2031-11-27", text, "2026")
    assert not is_said(NAME, "Bartholomew Ashworth-Finch", text, "2026")


@pytest.mark.parametrize(
    ("port", "value", "said"),
    [
        (DATE, "2026-05-04", "4 May"),
        (DATE, "2026-12-31", "31 December"),
        (DATE, "2027-05-04", "4 May 2027"),
        (AMOUNT, 45.5, "45.50 euros"),
        (AMOUNT, 45.0, "45.00 euros"),
        (MINUTES, 20, "20 minutes"),
        (QUANTITY, 3, "3"),
        (REASON, "too_late", "too late"),
        (SUBJECT, "Lamp", '"Lamp"'),
        (NAME, "Ana Ruiz", "Ana Ruiz"),
    ],
)
def test_how_values_are_said(port, value, said):
    assert say(port, value, "2026") == said


@pytest.mark.parametrize(
    ("port", "value", "text", "found"),
    [
        (DATE, "2026-05-04", "on 4 May", True),
        (DATE, "2026-05-04", "on 2026-05-04", True),
        (DATE, "2026-05-04", "on 14 May", False),
        (DATE, "2026-05-14", "on 4 May", False),
        (DATE, "2027-05-04", "on 4 May", False),
        (DATE, "2027-05-04", "on 4 May 2027", True),
        (DATE, "2026-05-04", "on 4 May 2027", False),
        (AMOUNT, 45.5, "pay 45.50 euros", True),
        (AMOUNT, 45.5, "pay 45.5 euros", True),
        (AMOUNT, 45.0, "pay 45 euros", True),
        (AMOUNT, 45.5, "pay 145.50 euros", False),
        (AMOUNT, 45.5, "pay 45.505 euros", False),
        (AMOUNT, 45.0, "pay 45.50 euros", False),
        (AMOUNT, 50.0, "pay 45.50 euros", False),
        (AMOUNT, 50.0, "pay 45.50.", False),
        (AMOUNT, 45.5, "I pay 45.50.", True),
        (AMOUNT, 45.0, "I pay 45.", True),
        (QUANTITY, 3, "order 3 pieces", True),
        (QUANTITY, 3, "order 33 pieces", False),
        (QUANTITY, 3, "order 3. Thanks", True),
        (QUANTITY, 3, "it costs 3.50 euros", False),
        (QUANTITY, 50, "it costs 3.50 euros", False),
        (REASON, "too_late", "because it is too late", True),
        (REASON, "too_late", "reason too_late", True),
        (REASON, "broken", "it is unbroken", False),
        (NAME, "Ana Ruiz", "Ana Ruiz's order", True),
        (NAME, "Ana Ruiz", "Diana Ruiz", False),
        (NAME, "Ana Ruiz", "Ana Ruizo", False),
        (NAME, "Ana", "ana", False),
    ],
)
def test_whole_values_only(port, value, text, found):
    """Known fault 12: part of another number, name or date is not the value."""
    assert is_said(port, value, text, "2026") is found


@PROPERTY
@given(CENTS, CENTS)
@example(45.0, 45.5)
@example(50.0, 45.5)
def test_one_amount_does_not_say_another(a, b):
    assert is_said(AMOUNT, a, f"Pay {say(AMOUNT, b, '2026')}.", "2026") is (a == b)


@PROPERTY
@given(DATES, DATES)
@example("2026-05-04", "2027-05-04")
def test_one_date_does_not_say_another(a, b):
    assert is_said(DATE, a, f"On {say(DATE, b, '2026')}, please.", "2026") is (a == b)


@PROPERTY
@given(st.text(max_size=8), st.text(max_size=30))
@example("", "Hello")
def test_standing_in_a_text_never_fails_and_means_occurring(form, text):
    if stands_in(form, text):
        assert form in text


@PROPERTY
@given(WORDS, WORDS, WORDS)
def test_a_part_of_a_word_does_not_stand_in_it(before, form, after):
    glued = before + form + after
    if glued.count(form) == 1:
        assert not stands_in(form, glued)
        assert stands_in(form, f"{before} {form} {after}") is True
