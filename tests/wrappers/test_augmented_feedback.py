"""Errors that help: they name the constraint and who supplies what is missing, and never the solution."""

from __future__ import annotations

import json
import pickle
import re

import gymnasium as gym
import msgspec
import numpy as np
import pytest

from rods_env.apis.draw import Draw
from rods_env.apis.registry import APIS, TABLES, TOOLS, Port, Tool, fields_of, tools_of
from rods_env.apis.worlds import draw_world
from rods_env.envs.calls import write_calls
from rods_env.envs.feedback import explain, suppliers
from rods_env.envs.tool_use import Failure, ToolUseEnv
from rods_env.errors import RodsError, ToolError
from rods_env.tasks.task import Call, Turn, make_task
from rods_env.tasks.text import stands_in
from rods_env.wrappers import AugmentedFeedback

EVERY_API = pytest.mark.parametrize("api", list(APIS))
NAMES = list(APIS)
NOUN = {fields_of(table.record)[0].ref: table.noun for table in TABLES.values()}
GOOD = {"date": "2033-03-03", "time": "03:33", "email": "q@q.qq", "new_address": "q@q.qq"}


def error_of(reply) -> str:
    """The only error of a step."""
    (line,) = reply[0].splitlines()
    return msgspec.json.decode(line)["error"]


def spoken(tool: str, **arguments) -> str:
    return write_calls([(tool, arguments)])


def named(text: str) -> set[str]:
    """The registered tools that a text names."""
    return set(re.findall(r"\w+", text)) & set(TOOLS)


def environment(apis, seed: int = 0, **options) -> gym.Env:
    """An augmented environment in a drawn world, in which nothing but the turns of its task is missing."""
    world, _ = draw_world(Draw(np.random.default_rng(seed)), apis)
    called = next(iter(tools_of(apis)))
    task = make_task("base", tuple(apis), (Turn("Hello.", (Call(called.name, {}),)),), world)
    env = AugmentedFeedback(ToolUseEnv(tasks=[task], attempts_per_turn=10**6, max_steps=10**6, **options))
    env.reset(seed=0)
    return env


def good(port: Port) -> object:
    """A value of the right type that stands in no world."""
    if port.ref:
        return "qqq_00000"
    if port.choices:
        return port.choices[0]
    return GOOD.get(port.kind, {"int": 5, "float": 5.0, "str": "Qqq"}[port.type])


def broken_calls(tool: Tool):
    """What can be wrong with a call of a tool: (what, the parameter or parameters it is about, the message)."""
    name, full = tool.name, {port.name: good(port) for port in tool.params}
    for port in tool.params:
        rest = {key: value for key, value in full.items() if key != port.name}
        if port.required:
            yield "missing", port, spoken(name, **rest)
            yield "renamed", port, spoken(name, **rest, **{f"q{port.name}": full[port.name]})
        for value in ({"q": 1}, None, [], 7 if port.type == "str" else "q"):
            yield "type", port, spoken(name, **rest, **{port.name: value})
        if not port.ref and (port.kind in GOOD or port.choices or port.type != "str"):
            yield "value", port, spoken(name, **rest, **{port.name: "qqq" if port.type == "str" else -7})
    refs = [port for port in tool.params if port.ref]
    if refs:
        yield "id", refs, spoken(name, **full)
    yield "extra", None, spoken(name, **full, qqq="q")
    yield "object", None, f'<tool_call>{{"name": "{name}", "arguments": ["q"]}}</tool_call>'
    yield "json", None, f'<tool_call>{{"name": "{name}", "arguments": {{"q": }}}}</tool_call>'
    yield "unknown", None, spoken(f"q{name}", **full)
    yield "unknown", None, spoken(f"get_{name.split('_', 1)[1]}", **full)


def supplies(tool: Tool, port: Port) -> bool:
    """Whether a tool's result has such a value, by its signature alone."""
    return any((field.ref, field.kind) == (port.ref, port.kind) for field in tool.fields)


@EVERY_API
def test_every_message_names_the_constraint_and_only_tools_that_help_and_are_offered(api):
    env = environment([name for name in NAMES if name in (api, NAMES[NAMES.index(api) - 1])])
    offered = set(env.unwrapped._tools)
    for tool in tools_of([api]):
        for what, port, text in broken_calls(tool):
            reply = env.step(text)
            said = error_of(reply)
            assert reply[4]["error"], text
            assert reply[4]["messages"][-1]["content"] == reply[0]
            assert said[-1] == ".", said
            assert what == "json" or not re.search(r"\.\.|  | [.,;]", said), said
            others = named(said) - {tool.name}
            assert others <= offered, said
            match what:
                case "missing" | "renamed":
                    assert f"needs {port.name} (" in said
                case "type" | "value":
                    assert said.startswith(f"In {tool.name}, {port.name} must be "), said
                case "id":  # which of them is looked up first is the tool's affair
                    starts = {f"There is no {NOUN[p.ref]} with the id 'qqq_00000'.": p for p in port}
                    port = starts[said.partition(".")[0] + "."]
                    assert " ids look like " in said
                case "extra":
                    assert f"'qqq' is no argument of {tool.name}. It takes {tool.params[0].name}" in said
                case "object":
                    assert f"arguments of {tool.name} must be an object, not a list. It takes " in said
                case "json":
                    assert said.startswith("Expected one JSON object")
                    assert f" {tool.name} takes {tool.params[0].name}" in said
                case "unknown":
                    assert said.startswith("There is no tool ")
            if port is not None:
                assert all(supplies(TOOLS[other], port) for other in others), said
                assert not (others and port.choices), said
                if port.ref:
                    assert {t.name for t in suppliers(port, [TOOLS[o] for o in offered]) if t is not tool} == others


@EVERY_API
def test_nothing_of_the_world_gets_into_a_message(api):
    """Two worlds give the same messages, and none of a world's texts is in one, but for the words of the schemas."""
    apis = [name for name in NAMES if name in (api, NAMES[NAMES.index(api) - 1])]
    one, other = environment(apis, 0), environment(apis, 1)
    public = msgspec.json.encode([TOOLS[name].schema for name in one.unwrapped._tools]).decode()
    world = one.unwrapped.world
    texts = {
        str(getattr(row, field.name))
        for rows in world.tables.values()
        for row in rows.values()
        for field in fields_of(type(row))
        if field.type == "str"
    }
    texts = {text for text in texts if len(text) > 2 and not stands_in(text, public)}
    assert len(texts) > 100
    assert any(text.startswith(f"{table.prefix}_") for text in texts for table in TABLES.values())
    for tool in tools_of([api]):
        for _, _, text in broken_calls(tool):
            said = error_of(one.step(text))
            assert said == error_of(other.step(text))
            leaked = [value for value in texts if value in said and stands_in(value, said)]
            assert not leaked, (said, leaked)


@EVERY_API
def test_refusals_go_on_with_the_reads_that_show_what_is_refused(api):
    tools = {tool.name: tool for tool in tools_of([api])}
    helped = 0
    for tool in tools.values():
        arguments = msgspec.json.encode({port.name: good(port) for port in tool.params})
        refs = {port.ref for port in tool.params if port.ref}
        for code in tool.spec.errors:
            said = explain(Failure(tools, tool.name, arguments, ToolError(code, "No: qqq."), "No: qqq."))
            assert said.startswith("No: qqq.")
            others = named(said)
            assert tool.name not in others
            for other in (tools[name] for name in others):
                assert other.reads
                concerned = {port.ref for port in other.params} | {field.ref for field in other.fields}
                assert concerned & (refs or {tool.fields[0].ref}), said
            helped += bool(others)
            if not refs and tool.reads:
                assert said.startswith(f"No: qqq. {tool.params[0].name} must be the ")
    assert helped >= 10


def test_suppliers_come_by_the_type_graph():
    tools = list(TOOLS.values())
    order, email = TOOLS["cancel_order"].by_name["order_id"], TOOLS["send_invoice"].by_name["email"]
    assert [tool.name for tool in suppliers(order, tools)] == ["list_orders", "place_order"]
    assert suppliers(order, tools_of(["bank"])) == []
    assert [tool.name for tool in suppliers(email, tools_of(["shop", "mail"]))] == ["find_customer", "find_contact"]
    assert suppliers(TOOLS["place_order"].by_name["quantity"], tools) == []
    for tool in tools:
        for port in tool.params:
            found = suppliers(port, tools)
            assert all(supplies(source, port) and (source.reads or source.skill == "create") for source in found)
            assert found or not port.ref, f"nothing gives {port.name} of {tool.name}"


SENTENCES = [
    (spoken("cancel_order", order_id="lamp"),
     "There is no order with the id 'lamp'. Order ids look like ord_k0v9x and come from list_orders or, for a new "
     "order, place_order."),
    (spoken("cancel_order", order_id="ord_aaaaa"),
     "There is no order with the id 'ord_aaaaa'. Order ids come from list_orders or, for a new order, place_order."),
    (spoken("cancel_order", order_id="cus_aaaaa"),
     "There is no order with the id 'cus_aaaaa'. An id that begins with cus_ is that of a customer. Order ids look "
     "like ord_k0v9x and come from list_orders or, for a new order, place_order."),
    (spoken("cancel_order"),
     "cancel_order needs order_id (the id of an order). Order ids come from list_orders or, for a new order, "
     "place_order."),
    (spoken("place_order", product_id="pro_aaaaa", ship_to="Oslo"),
     "'ship_to' is no argument of place_order. It needs customer_id (the id of a customer) and quantity (a whole "
     "number from 1 to 99). Customer ids come from find_customer. quantity comes from the user, who can be asked for "
     "it."),
    (spoken("place_order", customer_id="a", product_id="b", quantity=2, ship_to="Oslo", when="now"),
     "'ship_to' and 'when' are no arguments of place_order. It takes customer_id, product_id and quantity."),
    (spoken("place_order", customer_id="a", product_id="b", quantity=0),
     "In place_order, quantity must be a whole number from 1 to 99; it is 0."),
    (spoken("return_order", order_id="a", reason="lost"),
     "In return_order, reason must be one of broken, incomplete, not_as_described or too_small; it is 'lost'."),
    (spoken("send_invoice", order_id="a", email="Ana"),
     "In send_invoice, email must be an e-mail address, such as name@example.com; it is 'Ana'. email comes from the "
     "user, find_customer or find_account_holder."),
    (spoken("find_customer", name=5), "In find_customer, name must be a text: the customer's full name; it is 5."),
    (spoken("write_review", product_id="a", customer_id="b"),
     "write_review needs rating (a whole number from 1 to 5) and text (what the customer says). rating and text come "
     "from the user, who can be asked for them."),
    (spoken("transfer_money"),
     "transfer_money needs from_account_id (the id of an account) and to_account_id (the id of an account). Account "
     "ids come from list_accounts."),
    (spoken("transfer_money", from_account_id="a", to_account_id="b", amount=-1),
     "In transfer_money, amount must be a number of euros, at least 0; it is -1. amount comes from the user, "
     "quote_price or estimate_interest."),
    (spoken("transfer_money", from_account_id="a", to_account_id="b", iban="c"),
     "'iban' is no argument of transfer_money. It takes from_account_id, to_account_id and amount (optional)."),
    (spoken("find_customer", name="Qq Q"),
     "No customer is called 'Qq Q'. name must be the customer's full name. name comes from the user, who can be asked "
     "for it."),
    (spoken("search_orders"),
     "There is no tool 'search_orders' at the moment. Did you mean search_products? Tools that search in shop and "
     "bank: search_products, list_orders, list_vouchers, list_reviews, list_accounts, list_cards, list_transactions, "
     "list_standing_orders, search_payees."),
    (spoken("get_voucher"),
     "There is no tool 'get_voucher' at the moment. Did you mean list_vouchers? Tools with a similar name: "
     "list_vouchers, apply_voucher."),
    (spoken("order_pizza_for_everybody"), "There is no tool 'order_pizza_for_everybody' at the moment. Tools with a "
     "similar name: list_orders, place_order, return_order, cancel_order, refund_order, list_standing_orders, "
     "set_up_standing_order, cancel_standing_order."),
    (spoken("pizza"), "There is no tool 'pizza' at the moment. Tools are offered for shop and bank."),
    ('<tool_call>{"name": "cancel_order", "arguments": {"order_id": 1e999}}</tool_call>',
     "cancel_order: Number out of range - at `$.order_id`. It takes order_id."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentences"), SENTENCES, ids=[str(n) for n in range(len(SENTENCES))])
def test_how_messages_read(call, sentences, story):
    env = AugmentedFeedback(story.env([story.order]))
    said = error_of(env.step(call))
    assert said == sentences


def test_a_date_shows_how_it_is_written():
    env = environment(["travel"])
    for wrong in ("4 May", "2026-02-30", "1999-01-01", 20260504):
        said = error_of(env.step(spoken("search_flights", origin="Oslo", destination="Rome", date=wrong)))
        assert said == (
            "In search_flights, date must be a date from 2000 to 2039, written YYYY-MM-DD, such as 2035-05-04; "
            f"it is {wrong!r}."
        )


def test_a_refusal_in_a_world(story):
    env = AugmentedFeedback(story.env([story.order]))
    done = next(o for o in story.world.tables["shop.orders"].values() if o.status == "delivered")
    said = error_of(env.step(spoken("cancel_order", order_id=done.id)))
    assert said == (
        f"Order {done.id} is delivered; only open orders can be changed. "
        "list_orders and track_shipment show the state of the order."
    )


def test_tools_that_are_not_offered_yet_are_not_named(story):
    """A tool that a later turn adds is named from then on, also after `restore`."""
    turns = (
        Turn("Cancel it.", ()), Turn("Now you can.", (story.read,), adds=("list_orders", "place_order")),
    )  # fmt: skip
    task = make_task("missing_function", ("shop", "bank"), turns, story.world)
    env = AugmentedFeedback(ToolUseEnv(tasks=[task]))
    env.reset(seed=0)
    before = env.unwrapped.snapshot()
    call = spoken("cancel_order", order_id="lamp")
    assert error_of(env.step(call)).endswith("and come from no tool that is offered at the moment.")
    assert named(error_of(env.step(spoken("list_orders")))) - {"list_orders"} <= set(env.unwrapped._tools)
    env.step("I cannot do that.")
    assert error_of(env.step(call)).endswith("and come from list_orders or, for a new order, place_order.")
    env.unwrapped.restore(before)
    assert error_of(env.step(call)).endswith("and come from no tool that is offered at the moment.")


def test_whatever_a_policy_writes_is_answered(story, play):
    """Nonsense costs attempts as before and raises nothing; observations stay in their space."""
    deep = '{"order_id": ' + "[" * 400 + "]" * 400 + "}"
    many = json.dumps({f"key{n}": n for n in range(500)})
    long = json.dumps({"order_id": "x" * 5000, "\u0000": {"a": None}})
    twice = '{"order_id": 5, "order_id": "lamp"}'
    odd = [f'<tool_call>{{"name": "cancel_order", "arguments": {a}}}</tool_call>' for a in (deep, many, long, twice)]
    odd += [f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in ("", "好的", "q" * 999, "_")]
    odd += ['<tool_call>{"name": "cancel_order", "arguments": null}</tool_call>', "[cancel_order(order_id=None)]"]
    env, plain = AugmentedFeedback(story.env([story.order])), story.env([story.order])
    for action in (*play.nasty, *odd):
        env.reset()
        plain.reset()
        obs, reward, *ends, info = env.step(action)
        expected = plain.step(action)
        assert (reward, *ends) == expected[1:4]
        assert info["attempts_left"] == expected[4]["attempts_left"]
        assert env.observation_space.contains(obs)
        assert info["closed_by"] or len(error_of((obs,))) > 15
        assert not info["error"] or list(info["messages"])[-1]["content"] == obs


def test_only_the_words_of_errors_change(seeds, play):
    """Rewards, worlds, attempts and results are those of the plain environment, in whole episodes."""
    plain, env = ToolUseEnv(tasks=seeds), AugmentedFeedback(ToolUseEnv(tasks=seeds))
    changed = errors = 0
    for index in range(0, 400, 20):
        actions, _ = play.episode(plain, play.Player(index), seed=index, options={"task": index})
        plain.reset(options={"task": index})
        env.reset(options={"task": index})
        for action in actions:
            expected, got = plain.step(action), env.step(action)
            assert got[1:4] == expected[1:4]
            assert {k: v for k, v in got[4].items() if k != "messages"} == {
                k: v for k, v in expected[4].items() if k != "messages"
            }
            assert env.unwrapped.world == plain.world
            for ours, theirs in zip(got[4]["messages"], expected[4]["messages"], strict=True):
                assert ours["role"] == theirs["role"]
                assert ours["content"] == theirs["content"] or '"error"' in theirs["content"]
            errors += expected[4]["error"]
            changed += got[0] != expected[0]
        assert plain.snapshot()[3:] == env.unwrapped.snapshot()[3:]
    assert errors > 30
    assert changed > errors * 0.8


def test_the_oracle_still_scores_full(seeds, play):
    env = AugmentedFeedback(ToolUseEnv(tasks=seeds))
    for index in range(0, 400, 40):
        assert play.oracle(env, options={"task": index})[0] == 1.0


def test_snapshots_and_pickles_keep_the_text(story):
    env = AugmentedFeedback(story.env([story.order]))
    obs = env.step(spoken("cancel_order"))[0]
    assert "come from list_orders" in obs
    copy = pickle.loads(pickle.dumps(env))
    assert list(copy.unwrapped.snapshot().transcript)[-1]["content"] == obs
    assert copy.step(spoken("cancel_order"))[0] == obs
    plain = story.env([story.order])
    plain.restore(env.unwrapped.snapshot())
    assert list(plain.snapshot().transcript)[-1]["content"] == obs
    assert plain.step(spoken("cancel_order"))[0] != obs


@pytest.mark.parametrize(("mode", "more"), [("sync", {}), ("async", {"vector_kwargs": {"shared_memory": False}})])
def test_in_vectors(mode, more, story):
    tasks = [story.task([story.order])]
    vector = gym.make_vec(
        "ToolUse-RODS-v0", num_envs=2, vectorization_mode=mode, tasks=tasks, wrappers=[AugmentedFeedback], **more
    )
    try:
        vector.reset(seed=1)
        observations, *_ = vector.step([spoken("cancel_order")] * 2)
        assert all("come from list_orders" in obs for obs in observations)
    finally:
        vector.close()


def test_it_is_found_through_wrappers_and_made_again_from_its_spec(story):
    env = gym.make("ToolUse-RODS-v0", tasks=[story.task([story.order])])
    env = AugmentedFeedback(gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TimeLimit(env, 50)))
    again = gym.make(env.spec)
    for made in (env, again):
        made.reset(seed=0)
        assert "come from list_orders" in made.step(spoken("cancel_order"))[0]


def test_another_environment_is_refused_by_name():
    with pytest.raises(RodsError, match=r"expected a ToolUseEnv.*CartPole"):
        AugmentedFeedback(gym.make("CartPole-v1"))
