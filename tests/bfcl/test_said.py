"""Whether a text gives a value."""

from __future__ import annotations

import pytest

from rods_env.bfcl.said import Text, is_slight

GIVEN = [
    ("open 'Final_Report.pdf'", "final_report.pdf"),
    ("my final report", "final_report"),
    ("put it into docs, as notes.txt", "docs/notes.txt"),
    ("I have $1,250.50", 1250.5),
    ("two hundred and fifty shares", 250),
    ("twenty-five percent", 25),
    ("about 3k", 3000),
    ("a third one", 3),
    ("on the 5th of March 2026", "2026-03-05"),
    ("March 5, 2026", "2026-03-05"),
    ("on the 15th of next month, which is November of 2026", "2026-11-15"),
    ("expiring in December 2028", "12/2028"),
    ("expires 12/28", "12/2028"),
    ("anything", True),
    ("anything", ".."),
    ("the tag SuccessStory", "#SuccessStory"),
]
NOT_GIVEN = [
    ("I have 1250.50", 50),
    ("report10.txt", "report1.txt"),
    ("March 6, 2026", "2026-03-05"),
    ("Los Angeles", "LAX"),
    ("nothing", "something"),
    ("nothing", 7),
    ("docs", "docs/notes.txt"),
]


@pytest.mark.parametrize(("text", "value"), GIVEN)
def test_what_a_text_gives(text, value):
    assert Text(text).gives(value)


@pytest.mark.parametrize(("text", "value"), NOT_GIVEN)
def test_what_a_text_does_not_give(text, value):
    assert not Text(text).gives(value)


def test_slight_values():
    assert all(map(is_slight, (None, True, 0, 15, 0.5, 35.0, "a", ".")))
    assert not any(map(is_slight, (100, 2.64, 980.0, 12446, "ab", "12")))
