"""`validate`: for every rule one task that breaks it and nothing else, and the sentence that says where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

import rods_env
from rods_env.apis.api import Api, tool
from rods_env.apis.draw import Draw
from rods_env.apis.kinds import PersonName
from rods_env.apis.registry import register, tools_of, unregister
from rods_env.apis.shop import Customer
from rods_env.apis.worlds import draw_world
from rods_env.tasks.task import Call, Mention, Task, Turn
from rods_env.tasks.validation import MAX_STRING, offered_tools, validate

GRANT = "You can do that now. Please go ahead."


class Story:
    """A customer cancels an order, has it refunded, looks at the vouchers, and has a text on the page."""

    def __init__(self) -> None:
        for seed in range(200):
            world, cast = draw_world(Draw(np.random.default_rng(seed)), ["shop"], today="2026-05-04")
            customer = next(c for c in world.tables["shop.customers"].values() if c.name == cast.user.name)
            orders = [o for o in world.tables["shop.orders"].values() if o.customer_id == customer.id]
            reviewed = {r.product_id for r in world.tables["shop.reviews"].values() if r.author == customer.name}
            opened = [o for o in orders if o.status == "open" and o.product_id not in reviewed]
            if opened and len({o.item for o in orders}) == len(orders) == 3 and len({o.total for o in orders}) == 3:
                break
        self.world, self.customer, self.orders = world, customer, orders
        self.order = order = opened[0]
        self.turns = (
            Turn(
                f"Hi, {customer.name} here. Please cancel my order for the {order.item}.",
                (
                    Call("find_customer", {"name": customer.name}, False),
                    Call("list_orders", {"customer_id": customer.id}, False),
                    Call("cancel_order", {"order_id": order.id}),
                ),
                mentions=(Mention(2, "order_id", f"my order for the {order.item}", 1, "is:item"),),
            ),
            Turn(
                "Thanks. Refund that order, please.",
                (Call("refund_order", {"order_id": order.id}),),
                mentions=(Mention(3, "order_id", "that order", 1, "again"),),
            ),
            Turn("Please list my vouchers.", (Call("list_vouchers", {"customer_id": customer.id}),)),
            Turn(
                'Give its product 2 stars from me with the comment "It came too late.", please.',
                (
                    Call(
                        "write_review",
                        {
                            "product_id": order.product_id,
                            "customer_id": customer.id,
                            "rating": 2,
                            "text": "It came too late.",
                        },
                    ),
                ),
            ),
        )

    def task(self, turns: tuple[Turn, ...] | None = None, **changes: Any) -> Task:
        given = {"id": "shop-1", "kind": "base", "apis": ("shop",), "turns": turns or self.turns, "world": self.world}
        return Task(**{**given, **changes})

    def with_turn(self, at: int, **changes: Any) -> Task:
        """With another message, without the references that do not stand in it."""
        turns = list(self.turns)
        turns[at] = new = msgspec.structs.replace(turns[at], **changes)
        if "message" in changes:
            kept = tuple(m for m in new.mentions if m.text in new.message)
            turns[at] = msgspec.structs.replace(new, mentions=kept)
        return self.task(tuple(turns))

    def with_call(self, turn: int, call: int, **changes: Any) -> Task:
        calls = list(self.turns[turn].calls)
        calls[call] = msgspec.structs.replace(calls[call], **changes)
        return self.with_turn(turn, calls=tuple(calls))

    def missing(self, kind: str = "missing_function", adds: tuple[str, ...] = ("refund_order",), at: int = 1) -> Task:
        asked, old = Turn(self.turns[at].message), self.turns[at]
        supplied = Turn(GRANT, old.calls, adds, old.mentions)
        return self.task((*self.turns[:at], asked, supplied, *self.turns[at + 1 :]), kind=kind)


@pytest.fixture(scope="module")
def story() -> Story:
    return Story()


def only(task: Task, *parts: str, pool: tuple[Task, ...] = ()) -> None:
    """The task breaks one rule, and the sentence that says so has all of these parts."""
    broken = validate(task, pool)
    assert len(broken) == 1, broken
    for part in parts:
        assert part in broken[0]
    assert broken[0][0].isupper()


def test_the_story_is_valid(story):
    """So that everything below is broken only where it was broken."""
    assert validate(story.task()) == []
    assert validate(story.missing()) == []
    assert validate(story.task(kind="long_context")) == []
    assert rods_env.validate is validate


def test_a_gold_call_that_fails(story):
    """Known fault 11: gold that no tool can produce."""
    unknown = story.with_call(0, 2, arguments={"order_id": "ord_aaaaa"})
    only(unknown, "do not replay", "turn 1", "cancel_order", "ord_aaaaa")
    only(story.task((story.turns[0], story.turns[1], story.turns[1])), "do not replay", "turn 3", "refund_order")


@pytest.mark.parametrize(
    "arguments", [{}, {"order_id": 7}, {"order_id": "ord_aaaaa", "more": 1}, {"id": "ord_aaaaa"}, {"order_id": None}]
)
def test_a_gold_call_with_wrong_arguments(story, arguments):
    only(story.with_call(1, 0, arguments=arguments), "do not replay", "turn 2", "refund_order")


def test_an_unknown_tool(story):
    only(story.with_call(1, 0, tool="refund_everything"), "do not replay", "turn 2", "refund_everything")


def test_a_tool_of_an_api_that_the_task_does_not_have(story):
    call = Call("find_contact", {"name": story.customer.name})
    only(story.task((*story.turns, Turn("Find me in the address book.", (call,)))), "turn 5", "find_contact")


def test_a_world_that_lacks_the_tables_of_an_api(story):
    """Known fault 14: text, world and gold come from one source."""
    call = Call("find_contact", {"name": story.customer.name})
    task = story.task((*story.turns, Turn("Find me in the address book.", (call,))), apis=("shop", "mail"))
    assert validate(task) != []


def test_doing_nothing_from_the_start(story):
    """Known fault 13: tasks passed by doing nothing."""
    silent = Turn("Hello there.", (Call("find_customer", {"name": story.customer.name}, False),))
    named = Turn(f"Hello, {story.customer.name} here.", silent.calls)
    broken = validate(story.task((named, *shifted(story.turns, 1))))
    assert broken == ["Turn 1: doing nothing from the start passes it.", "Turn 1: doing nothing in it passes it."]


def shifted(turns: tuple[Turn, ...], by: int) -> tuple[Turn, ...]:
    """The same turns after `by` more calls."""

    def moved(mention: Mention) -> Mention:
        return msgspec.structs.replace(mention, call=mention.call + by, source=mention.source + by)

    return tuple(msgspec.structs.replace(turn, mentions=tuple(map(moved, turn.mentions))) for turn in turns)


def test_doing_nothing_in_a_turn(story):
    """What was read and shown before is not worth a turn."""
    only(story.task((*story.turns, story.turns[2])), "Turn 5", "doing nothing in it passes")


def test_an_argument_that_is_nowhere(story):
    """Known fault 12: gold needs values the text never gives."""
    text = {**story.turns[3].calls[0].arguments, "text": "It came too early."}
    only(story.with_call(3, 0, arguments=text), "Turn 4, write_review(text='It came too early.')", "neither in the")
    only(story.with_turn(0, message="Hi. Please cancel my order."), "Turn 1, find_customer(name=", "neither in the")
    rated = {**story.turns[3].calls[0].arguments, "rating": 4}
    only(story.with_call(3, 0, arguments=rated), "Turn 4, write_review(rating=4)")


def test_an_id_must_have_been_found_before(story):
    calls = story.turns[0].calls
    task = story.with_turn(0, calls=(calls[1], calls[0], calls[2]), mentions=())
    broken = validate(task)
    assert any(s.startswith("Turn 1, list_orders(customer_id=") and "nor in an earlier result" in s for s in broken)


def test_an_argument_that_only_a_later_text_gives(story):
    turns = list(story.turns)
    turns[0] = msgspec.structs.replace(turns[0], message="Hi. Cancel it.", mentions=())
    turns[1] = msgspec.structs.replace(turns[1], message=f"Refund that order. I am {story.customer.name}, by the way.")
    assert any("Turn 1, find_customer" in broken for broken in validate(story.task(tuple(turns))))


def test_a_long_string(story):
    long = "It came too late, " + "really " * 30 + "late."
    assert len(long) > MAX_STRING
    arguments = {**story.turns[3].calls[0].arguments, "text": long}
    calls = (Call("write_review", arguments),)
    message = story.turns[3].message.replace("It came too late.", long)
    only(story.with_turn(3, calls=calls, message=message), "Turn 4, write_review(text=", "longer than 200 characters")


def test_an_empty_argument_is_reported_and_does_not_crash(story):
    arguments = {**story.turns[3].calls[0].arguments, "text": ""}
    assert validate(story.with_call(3, 0, arguments=arguments)) != []


def mention(story: Story, **changes: Any) -> Task:
    old = story.turns[0].mentions[0]
    return story.with_turn(0, mentions=(msgspec.structs.replace(old, **changes),))


def test_an_ambiguous_mention(story):
    """Known fault 14: what the text refers to is one row of the world."""
    only(mention(story, pick="only"), "Turn 1, 'my order for the", "fits 3 of the 3 rows")
    least = min(story.orders, key=lambda o: o.total)
    wrong = "max:total" if least == story.order else "min:total"
    only(mention(story, pick=wrong), "Turn 1", "fits 1 of the 3 rows")


def test_a_mention_of_what_is_not_there(story):
    only(mention(story, source=0), "Turn 1", "does not hold", story.order.id)


@pytest.mark.parametrize("changes", [{"source": 2}, {"source": 3}, {"source": -1}, {"call": 99}, {"call": 0}])
def test_a_mention_of_what_comes_later(story, changes):
    only(mention(story, **changes), "Turn 1", "refers to a call that does not come before it")


def test_a_mention_of_what_was_not_mentioned_before(story):
    only(mention(story, pick="again"), "Turn 1", "was not mentioned before")


def test_a_needed_tool_that_is_not_offered(story):
    vouchers = Call("list_vouchers", {"customer_id": story.customer.id})
    first = story.turns[0]
    calls = (*first.calls[:2], vouchers, first.calls[2])
    moved = shifted(story.turns[1:], 1)
    opened = msgspec.structs.replace(first, calls=calls, mentions=())
    turns = (opened, moved[0], Turn("My vouchers?"), Turn(GRANT, moved[1].calls, ("list_vouchers",)), moved[2])
    broken = validate(story.task(turns, kind="missing_function"))
    assert "Turn 1: the needed tool list_vouchers is not offered." in broken


def test_an_added_tool_that_nobody_needs(story):
    only(story.missing(adds=("refund_order", "cancel_order")), "Turn 3", "adds the tool 'cancel_order'")
    only(story.missing(adds=("refund_order", "no_such_tool")), "Turn 3", "adds the tool 'no_such_tool'")


def test_a_turn_of_asking_in_which_nothing_is_missing(story):
    only(story.missing(kind="missing_parameter", adds=()), "Turn 2", "nothing is missing")


def test_a_mention_that_does_not_stand_in_the_text(story):
    only(mention(story, text="my order for the moon"), "Turn 1, 'my order for the moon'", "does not stand in the text")


def test_what_is_offered_when(story):
    every = [t.name for t in tools_of(["shop"])]
    assert offered_tools(story.task(), 0) == every
    task = story.missing()
    for turn in range(len(task.turns)):
        expected = every if turn >= 2 else [name for name in every if name != "refund_order"]
        assert offered_tools(task, turn) == expected


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("Refund ord_k3v9x, please.", "the text holds an id"),
        ("Refund that {noun}, please.", "the text holds an unfilled phrase"),
        ("Refund the latest ~, please.", "the text holds an unfilled phrase"),
        ("Refund  that order, please.", "the text holds an unfilled phrase"),
        ("Use refund_order, please.", "the text names a tool"),
        ("Please use refund_order.", "the text names a tool"),
        ("Please use `refund_order` for that.", "the text names a tool"),
        ("Please use refund_order() for that.", "the text names a tool"),
        ('Please use "refund_order" for that.', "the text names a tool"),
    ],
)
def test_what_nobody_would_say(story, said, sentence):
    only(story.with_turn(1, message=said), "Turn 2", sentence)


@pytest.mark.parametrize("message", ["", "  \n"])
def test_a_turn_without_a_message(story, message):
    only(story.with_turn(2, message=message), "Turn 3 has no message")


def test_a_task_that_equals_another(story):
    task = story.task()
    only(task, "equals another task of the pool", pool=(story.missing(), story.task(id="another-id")))
    assert validate(task, [task]) == [], "a task of the pool does not equal itself"
    assert validate(task, [story.missing()]) == []


@pytest.mark.parametrize("kind", ["missing_function", "missing_parameter"])
def test_a_missing_kind_without_an_empty_turn(story, kind):
    broken = validate(story.task(kind=kind))
    assert f"A task of kind '{kind}' has 1 turn(s) without gold calls; this one has 0." in broken


def test_an_empty_turn_where_nothing_is_missing(story):
    only(story.task((*story.turns, Turn("Hello?"))), "kind 'base' has 0 turn(s) without gold calls; this one has 1")
    twice = (*story.turns[:1], Turn("Hello?"), Turn("Hello?"), *story.turns[1:])
    only(story.task(twice, kind="missing_parameter"), "has 1 turn(s) without gold calls; this one has 2")


def test_what_is_missing_must_be_supplied(story):
    only(story.task((*story.turns, Turn("And?")), kind="missing_parameter"), "never supplied")


def test_tools_are_added_where_they_are_missing_and_nowhere_else(story):
    only(story.missing("missing_parameter"), "adds tools in a later turn if, and only if")
    only(story.missing(adds=()), "adds tools in a later turn if, and only if")
    only(story.with_turn(1, adds=("refund_order",)), "adds tools in a later turn if, and only if")
    task = story.missing(adds=())
    late = (*task.turns[:3], msgspec.structs.replace(task.turns[3], adds=("list_vouchers",)), *task.turns[4:])
    only(story.task(late, kind="missing_function"), "must be added in the turn after the one without gold calls")


def test_unknown_apis(story):
    only(story.task(apis=("shop", "casino")), "must be registered ones", "casino")
    only(story.task(apis=()), "must be registered ones")


def test_an_unknown_kind(story):
    only(story.task(kind="hard"), "The kind must be one of base", "'hard'")


def test_no_turns_or_no_calls(story):
    only(Task("a", "base", ("shop",), (), story.world), "at least one turn with a gold call")
    broken = validate(Task("a", "missing_parameter", ("shop",), (Turn("Hi."), Turn("Hello?")), story.world))
    assert "A task needs at least one turn with a gold call." in broken


class Sleepy(Api):
    """A service whose one write forgets to write."""

    NAME: ClassVar[str] = "sleepy"

    @tool("update", ask=("wake {name}", "call {name}", "shake {name}"), done="{name} is awake.")
    def wake_up(self, name: PersonName) -> Customer:
        """Wake somebody.

        Args:
            name: Who sleeps.
        """
        return Customer(id="cus_aaaaa", name=name, email="a@example.com", city="Oslo")


@pytest.fixture
def sleepy() -> Iterator[None]:
    register(Sleepy)
    yield
    unregister("sleepy")


def test_a_write_that_changes_nothing(story, sleepy):
    """Known fault 13, in its quiet form: a call that should change something changes nothing."""
    calls = (*story.turns[2].calls, Call("wake_up", {"name": story.customer.name}))
    turns = (*story.turns[:2], msgspec.structs.replace(story.turns[2], calls=calls), story.turns[3])
    only(story.task(turns, apis=("shop", "sleepy")), "Turn 3", "changes nothing")


def test_validation_looks_at_nothing_but_the_task(story):
    """It replays on a fresh world every time, and leaves the task's own world alone."""
    task = story.task()
    before = task.world
    assert validate(task) == validate(task) == []
    assert task.world is before
