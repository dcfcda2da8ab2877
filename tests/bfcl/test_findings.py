"""Which rules BFCL's tasks break: each reason on a task of the package, the command, the page."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("bfcl_eval")

import rods_env
from rods_env.bfcl.findings import REASONS, WEAK, findings
from rods_env.bfcl.findings_page import BEGIN, END, lists, page_with
from rods_env.bfcl.tasks import bfcl_tasks, build_task

PAGE = Path(__file__).parents[2] / "docs" / "bfcl-findings.md"

EXAMPLES = {
    "miss_func_15": ("unknown", 6, "mean", "62"),  # the file has 60 characters, and wc says so
    "base_61": ("unknown", 2, "fillFuelTank", "7"),
    "base_187": ("wording", 4, "create_ticket", "unsatisfactory"),
    "base_30": ("characters", 2, "post_tweet", "experiment"),
    "base_4": ("characters", 3, "post_tweet", "Initial report"),
    "base_151": ("unread", 1, "get_flight_cost", "get_nearest_airport_by_city('Los Angeles') would tell"),
    "base_68": ("unread", 1, "fillFuelTank", "displayCarStatus('fuel') would tell"),
    "long_context_144": ("hidden", 2, "mean", "227.11"),
    "base_188": ("error", 5, "authenticate_twitter", '"authentication_status": false'),
    "base_139": ("idle", 1, "add_to_watchlist", "ZETA"),
    "base_55": ("nothing new", 4, "", "get_ticket"),
    "base_167": ("no calls", 5, "", "not the turn of asking"),
    "miss_param_101": ("not missing", 2, "", "USR001"),
    "miss_func_33": ("not missing", 4, "", "held out"),
    "miss_func_49": ("held out", 4, "tail", "an earlier turn needs it"),
    "miss_func_9": ("spare", 3, "echo", "no gold call needs it"),
}
CLEAN = ("base_12", "base_31", "miss_func_12", "miss_param_12", "long_context_0")


@pytest.fixture(scope="module", name="tasks")
def all_tasks():
    return {task.id.removeprefix("multi_turn_"): task for task in bfcl_tasks()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_reasons(tasks, name):
    reason, turn, call, words = EXAMPLES[name]
    found = [f for f in findings(tasks[name]) if (f.reason, f.turn, f.call) == (reason, turn, call)]
    assert any(words in f.what for f in found), findings(tasks[name])


def test_validate_says_them_as_sentences(tasks):
    assert rods_env.validate(tasks["miss_func_15"]) == ["Turn 6, mean: unknown: numbers=62."]
    assert "(weak)" in rods_env.validate(tasks["base_151"])[0]
    assert [rods_env.validate(tasks[name]) for name in CLEAN] == [[]] * len(CLEAN)


def test_weak_reasons_are_reasons():
    assert set(REASONS) > WEAK


def test_what_is_said_later_and_what_is_needed_twice():
    gold = [["create_ticket('Printer on fire', 'It burns')", "get_user_tickets()", "get_user_tickets()"], []]
    task = build_task("x", "base", ["TicketAPI"], {"TicketAPI": {"current_user": "u"}},
                      ["Make a ticket and list mine.", "Its title is: Printer on fire. It burns."], gold)  # fmt: skip
    found = {(finding.turn, finding.reason) for finding in findings(task)}
    assert {(1, "later"), (1, "twice"), (2, "no calls")} <= found


def test_a_value_that_nothing_shows_is_no_finding():
    task = build_task("x", "base", ["TravelAPI"], {"TravelAPI": {"booking_record": {"b_1234": {}}}},
                      ["Tell the support about booking b_1234."],
                      [["contact_customer_support('b_1234', 'Whatever one likes to write')"]])  # fmt: skip
    assert findings(task) == []


def test_the_page_is_up_to_date(tasks):
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with(page, lists(list(tasks.values()))), "run `python -m rods_env.bfcl.findings_page`"


def test_a_page_keeps_what_stands_around_the_lists(tasks):
    page = page_with(f"above\n{BEGIN}\nold\n{END}\nbelow\n", lists([tasks["miss_func_15"], tasks["base_0"]]))
    assert page.startswith("above\n")
    assert page.endswith(f"{END}\nbelow\n")
    assert "| 15 | miss_func 6 | `mean` | numbers=62 |" in page
    assert "1 of 2 tasks have a finding; 1 one that is not weak." in page
