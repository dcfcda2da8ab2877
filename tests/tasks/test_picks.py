"""Telling one row of a list from the others: every pick chooses exactly its row."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.apis.api import Record
from rods_env.apis.kinds import City, Date, Ref, Subject
from rods_env.apis.registry import TOOLS, fields_of
from rods_env.apis.shop import Order, Product
from rods_env.tasks.picks import picked, picks
from rods_env.tasks.text import say

PROPERTY = settings(deadline=None, derandomize=True, max_examples=200)

ORDERS = st.lists(
    st.builds(
        Order, id=st.just(""), customer_id=st.just("cus_aaaaa"), product_id=st.just("pro_aaaaa"),
        item=st.sampled_from(["kite", "chess set", "yoga mat"]), quantity=st.integers(1, 3),
        total=st.sampled_from([5.0, 7.5, 12.25]), placed=st.sampled_from(["2026-04-30", "2026-05-01", "2027-01-01"]),
        status=st.just("open"),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


def numbered(rows):
    return [msgspec.structs.replace(row, id=f"ord_{n:05d}") for n, row in enumerate(rows)]


@PROPERTY
@given(ORDERS.map(numbered))
def test_every_pick_chooses_exactly_its_row(rows):
    """Known fault 14: what the text refers to is one row."""
    for row in rows:
        for code, phrase in picks(rows, row, "2026"):
            name = code.partition(":")[2]
            assert picked(rows, code, getattr(row, name) if name else None) == [row]
            assert "{" not in phrase
            assert len(rows) > 1 or (code, phrase) == ("only", "~")
            if code.startswith("is:"):
                assert str(getattr(row, name)) in phrase


@PROPERTY
@given(ORDERS.map(numbered))
def test_no_pick_is_left_out(rows):
    """A row has each pick that would choose it alone."""
    for row in rows:
        found = {code for code, _ in picks(rows, row, "2026")}
        if len(rows) == 1:
            assert found == {"only"}
            continue
        for name in ("total", "placed"):
            others = [getattr(other, name) for other in rows if other is not row]
            assert (f"min:{name}" in found) == (getattr(row, name) < min(others))
            assert (f"max:{name}" in found) == (getattr(row, name) > max(others))
        assert ("is:item" in found) == (row.item not in [other.item for other in rows if other is not row])


def test_rows_that_are_alike_cannot_be_told_apart():
    rows = [Product(f"pro_{n:05d}", "kite", "toys", 4.0, 3) for n in range(2)]
    assert picks(rows, rows[0], "2026") == []
    assert picked(rows, "min:price") == rows
    assert picked(rows, "only") == rows


class Parcel(Record, frozen=True):
    """Something on its way."""

    PICK: ClassVar[dict[str, str | tuple[str, str]]] = {
        "city": "~ to {}",
        "title": "{}",
        "due": "~ that is due on {}",
        "weight": ("lightest ~", "heaviest ~"),
    }

    id: Annotated[str, Ref("parcel")]
    city: City
    title: Subject
    due: Date
    weight: float


def test_the_phrases_of_picks():
    rows = [
        Parcel("par_aaaaa", "Oslo", "Lamp", "2026-05-04", 1.0),
        Parcel("par_bbbbb", "Rome", "Lamp", "2027-05-04", 3.0),
        Parcel("par_ccccc", "Rome", "Kite", "2026-05-04", 2.0),
    ]
    assert dict(picks(rows, rows[0], "2026")) == {"is:city": "~ to Oslo", "min:weight": "lightest ~"}
    assert dict(picks(rows, rows[1], "2026")) == {
        "is:due": "~ that is due on 4 May 2027", "max:weight": "heaviest ~"
    }  # fmt: skip
    assert dict(picks(rows, rows[2], "2026")) == {"is:title": '"Kite"'}


def test_an_empty_value_is_no_name():
    rows = [Product("pro_aaaaa", "", "toys", 4.0, 3), Product("pro_bbbbb", "kite", "toys", 4.0, 3)]
    assert picks(rows, rows[0], "2026") == []
    assert [code for code, _ in picks(rows, rows[1], "2026")] == ["is:item"]


LISTED = sorted({tool.record for tool in TOOLS.values() if tool.many}, key=lambda record: record.__name__)


@pytest.mark.parametrize("record", LISTED)
def test_every_listed_record_declares_picks_that_can_be_said(record):
    """For every field with a pick, two rows that differ only there are told apart by it."""
    ports = {port.name: port for port in fields_of(record)}
    assert record.PICK
    for name, phrase in record.PICK.items():
        values = {"int": (1, 2), "float": (1.5, 2.5)}.get(ports[name].type, ("2026-05-04", "2026-06-05"))
        values = ports[name].choices[:2] or values
        same = {"int": 1, "float": 1.0, "str": "2026-01-01"}
        rows = [record(**{p.name: v if p.name == name else same[p.type] for p in ports.values()}) for v in values]
        codes = (f"min:{name}", f"max:{name}") if isinstance(phrase, tuple) else (f"is:{name}",) * 2
        for row, code in zip(rows, codes, strict=True):
            found = dict(picks(rows, row, "2026"))
            assert code in found
            if not isinstance(phrase, tuple):
                assert say(ports[name], getattr(row, name), "2026") in found[code]
