"""Candidates: what is read in messages and results, and that the call which the oracle makes is always among them."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast, Person
from rods_env.apis.registry import TOOLS, Tool
from rods_env.apis.worlds import literal
from rods_env.envs.candidates.calls import Calls
from rods_env.envs.candidates.facts import (
    AGE,
    COLUMNS,
    EXTREME,
    HIGHEST,
    NAMED,
    ORDER,
    ORIGIN,
    ROW,
    ROWS,
    SAID_BEFORE,
    SAID_EARLIER,
    SAID_NOW,
    SHOWN,
    TIMES,
    Facts,
)
from rods_env.envs.candidates.layout import DEFAULT, FIRST, HEAD, PER_TOOL, VALUES, WIDTH, Group, Program, program
from rods_env.envs.candidates.people import People
from rods_env.envs.candidates.reading import read
from rods_env.envs.candidates.seen import Seen
from rods_env.envs.candidates.signatures import signatures
from rods_env.errors import RodsError
from rods_env.tasks.text import say
from rods_env.tasks.validation import offered_tools

SHOP = [name for name, tool in TOOLS.items() if tool.api.NAME == "shop"]
ANA = '{"id":"cus_aaaaa","name":"Ana Ruiz","email":"ana.ruiz@example.com","city":"Oslo"}'


def pool_of(tool, parameter):
    known = signatures()
    places = [port.name for port in TOOLS[tool].params]
    return known.pools[known.params[tool][places.index(parameter)]]


def said(message, tool, parameter, year="2026"):
    return read(message, year).values.get(pool_of(tool, parameter).number, ())


def order(number, item="kite", status="open", total=10.0, customer="cus_aaaaa"):
    return {
        "id": f"ord_{number}", "customer_id": customer, "product_id": f"pro_{number}", "item": item, "quantity": 1,
        "total": total, "placed": "2026-05-04", "status": status,
    }  # fmt: skip


def shown(*rows):
    return msgspec.json.encode(list(rows)).decode()


def seen(*messages, tools=SHOP, rows=256):
    found = Seen(tools, "2026", rows)
    for message in messages:
        found.hear(message)
    found.update()
    return found


def calls(found):
    found.update()
    return [found.call(row) for row in range(1, found.calls.size + 1)]


def values(found, tool, parameter):
    return {arguments[parameter] for name, arguments in calls(found) if name == tool}


def known(found, tool, **arguments):
    """What is known of the arguments of a call, by parameter."""
    found.update()
    row = found.find(tool, arguments)
    assert row is not None
    return dict(zip([port.name for port in TOOLS[tool].params], found.calls.known[row].tolist(), strict=False))


# ---------------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("message", "tool", "parameter", "expected"),
    [
        ("Book it for 4 May, not 12 June 2027.", "plan_tour", "date", ("2026-05-04", "2027-06-12")),
        ("On 2026-05-04, please.", "plan_tour", "date", ("2026-05-04",)),
        ("Move it to 4 May at 09:30.", "move_meeting", "time", ("09:30",)),
        ("Pay 45.50 euros, then 7 euros.", "pay_by_card", "amount", (45.5, 7.0)),
        ("Log 50 minutes of work.", "log_work", "minutes", (50,)),
        ("Order 6 pieces, then 4.", "place_order", "quantity", (6, 4)),
        ("A 3-star review.", "write_review", "rating", (3,)),
        ("Log 50 minutes on 4 May at 09:30 for 20.50 euros.", "place_order", "quantity", ()),
        ("The truck with the plate AFA-2687 and version 1.2.3", "place_order", "quantity", ()),
        ("What does 3 years of interest bring?", "estimate_interest", "years", (3,)),
        ("I was charged twice.", "dispute_transaction", "reason", ("charged_twice",)),
        ("It is not as described.", "return_order", "reason", ("not_as_described",)),
        ("An urgent ticket, with urgent priority.", "open_ticket", "priority", ("urgent",)),
        ("Whatever is urgently needed.", "open_ticket", "priority", ()),
        ("From Oslo to Rome, back to Oslo.", "search_flights", "origin", ("Oslo", "Rome")),
        ("The products in the office category.", "search_products", "category", ("office",)),
        ("Save it as draft.docx in the Travel folder.", "create_file", "file_name", ("draft.docx",)),
        ("Tell ana.ruiz@example.com that it is off.", "send_mail", "email", ("ana.ruiz@example.com",)),
        ("Change it to bluebird@example.net.", "change_contact_address", "email", ("bluebird@example.net",)),
        ('A mail "News" with the text "All is well."', "send_mail", "subject", ("News", "All is well.")),
        ('A meeting called "Price list".', "schedule_meeting", "title", ("Price list",)),
        ('A meeting called "Price list".', "send_mail", "text", ()),
        ('A meeting called "My own title".', "schedule_meeting", "title", ("My own title",)),
        ('Write "See you on 4 May in Oslo."', "plan_tour", "date", ()),
        ('Write "See you on 4 May in Oslo."', "search_hotels", "city", ()),
    ],
)  # fmt: skip
def test_values_of_a_message_by_kind(message, tool, parameter, expected):
    assert said(message, tool, parameter) == expected


@pytest.mark.parametrize(
    ("message", "names", "perhaps"),
    [
        ("Hi, this is Ana Ruiz. Where is it?", {"Ana Ruiz"}, set()),
        ("Text Mario Galloway the news.", {"Mario Galloway"}, set()),
        ("Show me Ana Ruiz's orders and Tom Becker's.", {"Ana Ruiz", "Tom Becker"}, set()),
        ("Mail James Jones' office.", {"James Jones"}, set()),
        ("Hello, my name is April May.", {"April May"}, set()),
        ("Ana Ruiz wants it.", set(), {"Ana Ruiz"}),
        ("Text Mario.", set(), {"Text Mario"}),
        ("Is it in Jillian's Suppliers folder?", set(), set()),
        ("What is the price at the Grand Palace on 4 May?", set(), set()),
        ("Let Séan O'Connor-Díaz know.", {"Séan O'Connor-Díaz"}, set()),
        ('Write "Ask Tom Becker."', set(), set()),
    ],
)
def test_names_of_people(message, names, perhaps):
    reading = read(message, "2026")
    assert set(reading.names) == names
    assert set(reading.perhaps) == perhaps


def test_people_are_meant_by_first_names_and_me():
    people = People()
    assert people.named(read("Hi, Ana Ruiz here. Write to Tom Becker.", "2026")) == ["Ana Ruiz", "Tom Becker"]
    assert people.user == "Ana Ruiz"
    assert people.named(read("Text Tom, please.", "2026")) == ["Tom Becker"]
    assert people.named(read("Show my orders.", "2026")) == ["Ana Ruiz"]
    assert people.named(read("Thanks.", "2026")) == []
    assert list(people.names) == ["Tom Becker", "Ana Ruiz"]


def spoken_ports():
    return [(tool.name, port) for tool in TOOLS.values() for port in tool.params if not port.ref]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, len(spoken_ports()) - 1))
def test_what_a_user_would_say_is_read(seed, index):
    """Every value that synthesis proposes for a parameter, in the words in which texts give it."""
    tool, port = spoken_ports()[index]
    cast = Cast((Person("Ana Ruiz", "ana.ruiz@example.com"), Person("Tom Becker", "tom.becker@example.com")))
    value = literal(Draw(np.random.default_rng(seed)), port, "2026-05-04", cast)
    message = f"Could you use {say(port, value, '2026')} for that, please?"
    reading = read(message, "2026")
    if port.kind == "person":
        assert value in reading.names
    else:
        assert value in reading.values[pool_of(tool, port.name).number]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_message_can_be_read(message):
    reading = read(message, "2026")
    assert reading.bag.shape == (256,)
    found = seen(message, tools=list(TOOLS), rows=64)
    assert found.calls.size < 64


def test_words_are_counted_without_what_is_quoted():
    bag = read('Cancel it, cancel it! "Never ever."', "2026").bag
    assert sorted(bag[bag > 0].tolist()) == [2, 2]
    assert read("Cancel", "2026").bag.argmax() == read("cancel", "2026").bag.argmax()
    assert read("word " * 300, "2026").bag.max() == 255


def test_the_same_message_is_read_once():
    assert read("Where is it?", "2026") is read("Where is it?", "2026")
    assert said("4 May", "plan_tour", "date", "2025") == ("2025-05-04",)


# ---------------------------------------------------------------------------------------------------- signatures


def test_parameters_that_take_the_same_values_share_a_pool():
    assert pool_of("track_shipment", "order_id") is pool_of("cancel_order", "order_id")
    assert pool_of("send_mail", "subject") is pool_of("send_mail", "text"), "whatever a user quotes"
    assert pool_of("write_review", "text") is not pool_of("send_mail", "text"), "opinions have words of their own"
    assert pool_of("place_order", "quantity") is not pool_of("write_review", "rating")


def test_values_are_checked_as_the_tools_do():
    assert pool_of("place_order", "quantity").accepts(99)
    assert not pool_of("place_order", "quantity").accepts(100)
    assert not pool_of("plan_tour", "date").accepts("2026-02-30")
    assert not pool_of("move_meeting", "time").accepts("25:00")
    assert pool_of("pay_by_card", "amount").accepts(0.5)
    assert not pool_of("pay_by_card", "amount").accepts(0.0)


# ---------------------------------------------------------------------------------------------------- results


def test_ids_come_out_of_results_only():
    found = seen("Cancel the order ord_00001, please.")
    assert {name for name, _ in calls(found)} == set()
    found.see("list_orders", shown(order("00002"), order("00003")))
    assert values(found, "cancel_order", "order_id") == {"ord_00002", "ord_00003"}
    assert values(found, "list_orders", "customer_id") == {"cus_aaaaa"}


def test_a_call_needs_a_value_for_each_argument_and_none_twice():
    found = seen("Thanks.", tools=[name for name, tool in TOOLS.items() if tool.api.NAME == "bank"])
    rows = [{"id": f"acc_{n}", "holder_id": "hol_1", "account_type": "x", "balance": 5.0} for n in range(2)]
    row = {field.name: rows[0].get(field.name, "x") for field in TOOLS["list_accounts"].fields}
    found.see("list_accounts", msgspec.json.encode([{**row, **each} for each in rows]).decode())
    transfers = [arguments for name, arguments in calls(found) if name == "transfer_money"]
    assert sorted(map(str, transfers)) == sorted(
        map(str, [{"from_account_id": f"acc_{a}", "to_account_id": f"acc_{1 - a}"} for a in range(2)])
    ), "the amount may be left out, and no account pays itself"
    assert "pay_by_card" not in {name for name, _ in calls(found)}
    found.hear("Make it 20 euros.")
    transfers = [arguments.get("amount") for name, arguments in calls(found) if name == "transfer_money"]
    assert sorted(transfers, key=str) == [20.0, 20.0, None, None]


def test_plain_values_of_results_are_taken_when_their_field_is_named():
    found = seen("Where is my order?", tools=list(TOOLS))
    found.see("find_customer", ANA)
    assert "Oslo" not in values(found, "search_hotels", "city")
    assert "ana.ruiz@example.com" in values(found, "list_mails_from", "sender"), "an address of a person, always"
    found.hear("Find hotels in my city.")
    assert values(found, "search_hotels", "city") == {"Oslo"}
    found.hear("Thanks.")
    assert values(found, "search_hotels", "city") == {"Oslo"}, "a message later it may still be meant"
    found.hear("Thanks.")
    assert values(found, "search_hotels", "city") == set()


def test_what_messages_say_counts_for_two_turns_and_people_for_ever():
    found = seen("Hi, Ana Ruiz here. Look at the toys category.", "Go on.")
    assert values(found, "search_products", "category") == {"toys"}
    found.hear("Go on.")
    assert values(found, "search_products", "category") == set()
    assert values(found, "find_customer", "name") == {"Ana Ruiz"}


def test_what_no_message_describes_has_to_go_first():
    found = seen("Go on.")
    for n in range(30):
        found.see("list_orders", shown(order(f"{n:05}"), order(f"{n:05}b")))
    found.hear("Cancel it.")
    kept = values(found, "cancel_order", "order_id")
    assert {"ord_00029", "ord_00029b", "ord_00028"} <= kept
    assert len(kept) <= VALUES
    found.see("list_orders", shown(order("fffff", item="blue desk lamp")))
    for n in range(30):
        found.see("list_orders", shown(order(f"{n:05}"), order(f"{n:05}b")))
    found.hear("Cancel my order for the blue desk lamp.")
    assert "ord_fffff" in values(found, "cancel_order", "order_id")
    found.see("list_orders", shown(order("00003"), order("00003b")))
    assert "ord_00003" in values(found, "cancel_order", "order_id"), "shown again"


# ---------------------------------------------------------------------------------------------------- what is known


def test_origins_of_what_is_said():
    found = seen("Two things: toys and lamps.")
    assert known(found, "search_products", category="toys")["category"][ORIGIN] == SAID_NOW
    assert [known(found, "search_products", category=c)["category"][ORDER] for c in ("toys", "lamps")] == [1, 2]
    found.hear("Go on.")
    cell = known(found, "search_products", category="toys")["category"]
    assert (cell[ORIGIN], cell[ORDER], cell[AGE]) == (SAID_BEFORE, 0, 0)
    found.hear("Hi, this is Ana Ruiz.")
    found.hear("Go on.")
    found.hear("Go on.")
    assert known(found, "find_customer", name="Ana Ruiz")["name"][ORIGIN] == SAID_EARLIER
    found.hear("Show Ana's orders.")
    assert known(found, "find_customer", name="Ana Ruiz")["name"][ORIGIN] == SAID_NOW


def test_places_of_what_was_shown():
    found = seen("Go on.")
    found.see("list_orders", shown(order("00001"), order("00002"), order("00003")))
    cell = known(found, "cancel_order", order_id="ord_00002")["order_id"]
    assert (cell[ORIGIN], cell[AGE], cell[ROW], cell[ROWS], cell[TIMES]) == (SHOWN, 1, 2, 3, 1)
    assert known(found, "list_orders", customer_id="cus_aaaaa")["customer_id"][ROW] == 1
    found.see("track_shipment", '{"order_id":"ord_00003","city":"Oslo","arrival_date":"2026-05-04"}')
    cell = known(found, "cancel_order", order_id="ord_00002")["order_id"]
    assert (cell[AGE], cell[ROW], cell[ROWS], cell[TIMES]) == (2, 2, 3, 1)
    cell = known(found, "cancel_order", order_id="ord_00003")["order_id"]
    assert (cell[AGE], cell[ROW], cell[ROWS], cell[TIMES]) == (1, 1, 1, 2)


def test_rows_that_messages_describe():
    found = seen("Hi, Ana Ruiz here. Cancel my open order for the blue desk lamp, the cheapest one.")
    rows = [
        order("00001", "blue desk lamp", "open", 5.0),
        order("00002", "kite", "open", 9.0),
        order("00003", "kite", "shipped", 7.0),
    ]
    found.see("list_orders", shown(*rows))
    cells = [known(found, "cancel_order", order_id=row["id"])["order_id"] for row in rows]
    assert [cell[NAMED] for cell in cells] == [2, 1, 0]
    assert [cell[EXTREME] for cell in cells] == [1, 0, 0]
    found.see("find_customer", ANA)
    assert known(found, "list_orders", customer_id="cus_aaaaa")["customer_id"][NAMED] == 2
    found.hear("Then the most expensive one.")
    cells = [known(found, "cancel_order", order_id=row["id"])["order_id"] for row in rows]
    assert [cell[EXTREME] for cell in cells] == [1, 1, 0], "of this message and the one before"
    found.hear("Thanks.")
    found.hear("Thanks.")
    cells = [known(found, "cancel_order", order_id=row["id"])["order_id"] for row in rows]
    assert [cell[NAMED:] for cell in cells] == [[0, 0]] * 3


def test_arguments_left_out_and_missing_parameters():
    found = seen("Make it 20 euros.", tools=["transfer_money", "list_accounts"])
    row = {field.name: 1.0 if field.type == "float" else "x" for field in TOOLS["list_accounts"].fields}
    found.see("list_accounts", msgspec.json.encode([{**row, "id": f"acc_{n}"} for n in range(2)]).decode())
    cells = known(found, "transfer_money", from_account_id="acc_0", to_account_id="acc_1")
    assert cells["amount"] == [1, 0, 0, 0, 0, 0, 0, 0]
    found.update()
    transfer = found.find("transfer_money", {"from_account_id": "acc_0", "to_account_id": "acc_1", "amount": 20.0})
    assert found.calls.known[transfer][3].tolist() == [0] * COLUMNS


def test_ages_stop_and_values_may_be_many():
    facts = Facts()
    first = facts.new("a")
    facts.ages(first)
    facts.show({first: facts.cell(40, 99)}, 1)
    for n in range(2, 400):
        facts.show({}, n)
    cell = facts.packed[first : first + 1].view(np.uint8)
    assert cell.tolist() == [SHOWN, 0, 255, HIGHEST[ROW], HIGHEST[ROWS], 1, 0, 0]
    numbers = [facts.new(n) for n in range(70_000)]
    assert len(set(numbers) - {0}) == len([n for n in numbers if n]) < 1 << 16
    assert facts.packed[first : first + 1].view(np.uint8).tolist() == cell.tolist()
    facts.show({numbers[-70_000 + 5000]: facts.cell(1, 1)}, 401)
    assert facts.age(numbers[5000]) == 1


# ---------------------------------------------------------------------------------------------------- layout


def naive(counts, optional, twins):
    axes = [[*([DEFAULT] if may else []), *range(count)] for count, may in zip(counts, optional, strict=True)]
    axes = [[("out", 0) if may and at == 0 else ("rank", value) for at, value in enumerate(axis)]
            for axis, may in zip(axes, optional, strict=True)]  # fmt: skip
    found = set(product(*axes))
    return {c for c in found if not any(c[i] == c[j] and c[i][0] == "rank" for i, j in twins)}


def ranks(calls, group_pools, tools):
    rows = np.frombuffer(calls, np.int64).reshape(-1, HEAD + WIDTH)
    found = [
        (int(row[1]), tuple(
            ("out", 0) if place == DEFAULT else ("rank", int(place) - FIRST - pool * VALUES)
            for place, pool in zip(row[HEAD:], group_pools, strict=False)
        ))
        for row in rows
    ]  # fmt: skip
    assert len(set(found)) == len(found), "no call stands twice"
    assert {tool for tool, _ in found} <= set(tools)
    return set(found)


GROUPS = [((3,), (False,)), ((3, 5), (False, False)), ((3, 3), (False, False)), ((3, 3, 5), (False, False, True)),
          ((2, 3, 4, 5), (False,) * 4), ((2,), (True,)), ((), ())]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(GROUPS), st.lists(st.integers(0, VALUES), min_size=4, max_size=4), st.data())
def test_blocks_hold_all_combinations_and_news_what_more_values_bring(shape, sizes, data):
    pools, optional = shape
    tools = (7, 9)
    group = GROUP_CACHE.setdefault(shape, Group(pools, optional, tools))
    by_pool = {pool: sizes[i] for i, pool in enumerate(sorted(set(pools)))}
    counts = tuple(by_pool[pool] for pool in pools)
    twins = [(i, j) for i in range(len(pools)) for j in range(i + 1, len(pools)) if pools[i] == pools[j]]
    expected = naive(counts, optional, twins)
    block = group.block(counts)
    found = ranks(block.calls, pools, tools)
    assert block.size == len(found) <= PER_TOOL * len(tools)
    assert block.total >= block.size
    everything = {(tool, ranked) for tool in tools for ranked in expected}
    if len(expected) <= PER_TOOL:
        assert found == everything
        assert block.total == len(everything)
    else:
        assert found < everything
    before_by_pool = {pool: data.draw(st.integers(0, size)) for pool, size in by_pool.items()}
    before = tuple(before_by_pool[pool] for pool in pools)
    news = group.news(before, counts)
    if news is not None:
        old = {(tool, ranked) for tool in tools for ranked in naive(before, optional, twins)}
        assert ranks(news, pools, tools) == (everything - old)
    else:
        assert np.prod([c + may for c, may in zip(counts, optional, strict=True)]) > PER_TOOL


GROUP_CACHE: dict = {}


@pytest.mark.parametrize("limit", [1, 5, PER_TOOL])
def test_the_best_calls_are_those_of_the_last_values(limit):
    group = Group((3, 5), (False, False), (7,))
    found = ranks(group.best((12, 12), limit).calls, (3, 5), (7,))
    assert len(found) == limit
    assert (7, (("rank", 11), ("rank", 11))) in found
    single = Group((3,), (False,), (7,))
    assert ranks(single.best((12,), 3).calls, (3,), (7,)) == {(7, (("rank", n),)) for n in (9, 10, 11)}


def test_too_many_calls_take_most_from_those_who_have_most():
    found = seen("Go on, 3 pieces.", rows=12)
    for n in range(4):
        found.see("list_orders", shown(order(f"{n:05}")))
    found.update()
    assert found.calls.size <= 11
    everything = seen("Go on, 3 pieces.")
    for n in range(4):
        everything.see("list_orders", shown(order(f"{n:05}")))
    everything.update()
    assert found.calls.dropped == everything.calls.size - found.calls.size > 0
    assert everything.calls.dropped == 0
    of_each = [name for name, _ in calls(found)]
    assert max(map(of_each.count, of_each)) - min(map(of_each.count, of_each)) <= 1


def test_calls_laid_out_anew_are_those_that_grew():
    """Whatever values come and in which order, growing at the end gives what laying out gives."""
    rng = np.random.default_rng(3)
    plan = program(tuple(sorted(TOOLS)))
    pools = len(signatures().pools)
    for _ in range(40):
        grown, anew = Calls(plan, pools, 4096), Calls(plan, pools, 4096)
        facts = Facts()
        listed: dict[int, list[int]] = {}
        for _ in range(12):
            pool = int(rng.choice([p for group in plan.groups for p in group.pools]))
            numbers = listed.setdefault(pool, [])
            if len(numbers) < 6:
                numbers.append(facts.new(len(facts.values)))
                grown.append(pool, numbers[-1])
                grown.update(facts)
        for pool, numbers in listed.items():
            anew.put(pool, numbers)
        anew.update(facts)
        rows = [{(c.tools[row], *c.call(row)[1]) for row in range(1, c.size + 1)} for c in (grown, anew)]
        assert rows[0] == rows[1]
        assert grown.size == anew.size == len(rows[0])
        for each in (grown, anew):
            assert (each.tools[each.size + 1 :] == 0).all()
            assert (each.known[each.size + 1 :] == 0).all()


def test_made_calls_are_known_after_a_new_layout():
    found = seen("Go on.")
    found.see("list_orders", shown(order("00001"), order("00002")))
    found.update()
    row = found.find("track_shipment", {"order_id": "ord_00002"})
    assert found.make(row) == ("track_shipment", '{"name": "track_shipment", "arguments": {"order_id": "ord_00002"}}')
    for happen in (lambda: None, lambda: found.hear("Go on."), lambda: found.see("list_orders", shown(order("00003")))):
        happen()
        found.update()
        made = found.calls.made()
        assert [found.call(at) for at in np.flatnonzero(made)] == [("track_shipment", {"order_id": "ord_00002"})]
    found.made("cancel_order", {"order_id": "ord_00001"})
    found.made("cancel_order", {"order_id": "never_seen"})
    found.made("no_such_tool", {})
    found.update()
    assert found.calls.made().sum() == 2
    assert found.called[found.program.numbers["cancel_order"] - 1] == 2


def test_calls_that_are_none_of_these():
    found = seen("Go on.")
    found.see("list_orders", shown(order("00001")))
    found.update()
    assert found.find("cancel_order", {"order_id": "ord_00001"}) is not None
    assert found.find("cancel_order", {"order_id": "ord_00009"}) is None
    assert found.find("cancel_order", {}) is None
    assert found.find("no_such_tool", {"order_id": "ord_00001"}) is None
    found.end()
    found.update()
    assert (found.calls.size, found.calls.made().sum(), found.calls.tools.sum()) == (0, 0, 0)
    assert found.find("cancel_order", {"order_id": "ord_00001"}) is None


def test_a_tool_with_too_many_parameters_is_refused():
    class Wide(Tool):
        def __init__(self) -> None:
            self.name, self.api = "place_order", TOOLS["place_order"].api
            self.params = TOOLS["place_order"].params * 2

    with pytest.raises(RodsError, match=r"at most 4 parameters; 'place_order' has more"):
        Program([Wide()])


# ---------------------------------------------------------------------------------------------------- the frozen tasks


def test_the_call_of_the_oracle_is_a_candidate_in_every_frozen_task(seeds, heldout):
    """At every state of the 800 solutions, and with little to choose from; known from the conversation alone."""
    counts = []
    for task in (*seeds, *heldout):
        past, offered, index, found = [], None, 0, None
        for turn, (message, turn_calls) in enumerate((t.message, t.calls) for t in task.turns):
            if offered_tools(task, turn) != offered:
                offered = offered_tools(task, turn)
                found = Seen(offered, task.world.now[:4], 256)
                for method, *arguments in past:
                    getattr(found, method)(*arguments)
            found.hear(message)
            past.append(("hear", message))
            for call in turn_calls:
                found.update()
                counts.append(found.calls.size + 1)
                row = found.find(call.tool, call.arguments)
                assert row is not None, (task.id, turn, call)
                assert found.call(row) == (call.tool, call.arguments), (task.id, turn)
                found.make(row)
                result = task.gold.steps[index].text
                found.see(call.tool, result)
                past.append(("see", call.tool, result))
                index += 1
    assert len(counts) > 3500
    assert np.mean(counts) < 40
    assert np.percentile(counts, 95) < 120


def test_no_id_is_read_in_a_message(seeds):
    of_ids = {pool.number for pool in signatures().pools if pool.port.ref}
    assert len(of_ids) > 20
    for task in seeds:
        for turn in task.turns:
            assert of_ids.isdisjoint(read(turn.message, task.world.now[:4]).values)
