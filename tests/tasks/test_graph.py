"""Dependency graphs: derived from what calls read, wrote and returned; compared up to renaming of everything else."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rods_env
from rods_env.apis.draw import Draw
from rods_env.apis.registry import TOOLS
from rods_env.apis.worlds import draw_world
from rods_env.tasks.datasets import TaskSource, _same_shape
from rods_env.tasks.graph import depth_of, edges_of, isomorphic, profile_of
from rods_env.tasks.task import Call, Task, Turn, make_task


class Story:
    """A shop world with a customer who has an open order, and the calls of a small story about it."""

    def __init__(self, seed: int) -> None:
        self.world, self.cast = draw_world(Draw(np.random.default_rng(seed)), ["shop"], today="2026-05-04")
        tables = {name: [rows[key] for key in sorted(rows)] for name, rows in self.world.tables.items()}
        self.order = next(o for o in tables["shop.orders"] if o.status == "open")
        self.customer = self.world.tables["shop.customers"][self.order.customer_id]
        self.other = next(c for c in tables["shop.customers"] if c != self.customer)
        self.product = self.world.tables["shop.products"][self.order.product_id]
        self.quantity = 5 if self.order.quantity != 5 else 6
        self.find = Call("find_customer", {"name": self.customer.name}, False)
        self.list = Call("list_orders", {"customer_id": self.customer.id}, False)
        self.cancel = Call("cancel_order", {"order_id": self.order.id})
        self.refund = Call("refund_order", {"order_id": self.order.id})
        self.change = Call("change_quantity", {"order_id": self.order.id, "quantity": self.quantity})

    def task(self, *turns: tuple[str, list[Call]], kind: str = "base") -> Task:
        made = tuple(Turn(text.format(s=self), tuple(calls)) for text, calls in turns)
        return make_task(kind, ("shop",), made, self.world)


@pytest.fixture(scope="module", params=[0, 1])
def story(request) -> Story:
    return Story(request.param)


HELLO = "Hi, {s.customer.name} here. Cancel my order for the {s.order.item}."


# ------------------------------------------------------------------ edges


def test_what_comes_out_of_a_result_is_a_data_edge(story):
    task = story.task((HELLO, [story.find, story.list, story.cancel]))
    assert edges_of(task) == {(0, 1): "data", (1, 2): "data"}


def test_what_the_text_gives_is_no_edge(story):
    """Also where an earlier result holds it too: who is told needs no look-up."""
    invoice = Call("send_invoice", {"order_id": story.order.id, "email": story.customer.email})
    silent = story.task(("{s.customer.name}: invoice for {s.order.item} to me.", [story.find, story.list, invoice]))
    told = story.task(
        ("{s.customer.name}: invoice for {s.order.item} to {s.customer.email}.", [story.find, story.list, invoice])
    )
    assert edges_of(silent) == {(0, 1): "data", (0, 2): "data", (1, 2): "data"}
    assert edges_of(told) == {(0, 1): "data", (1, 2): "data"}


def test_only_text_that_was_said_so_far_counts(story):
    invoice = Call("send_invoice", {"order_id": story.order.id, "email": story.customer.email})
    task = story.task(
        ("{s.customer.name}: invoice for {s.order.item} to me.", [story.find, story.list, invoice]),
        ("Cancel it. My address was {s.customer.email}.", [story.cancel]),
    )
    assert edges_of(task)[0, 2] == "data"


def test_what_an_earlier_call_wrote_is_a_state_edge(story):
    task = story.task((HELLO, [story.find, story.list, story.cancel]), ("Refund that order.", [story.refund]))
    assert edges_of(task) == {(0, 1): "data", (1, 2): "data", (1, 3): "data", (2, 3): "state"}


def test_a_state_edge_comes_from_the_last_writer(story):
    task = story.task(
        (HELLO, [story.find, story.list, story.change, story.cancel]), ("Refund that order.", [story.refund])
    )
    edges = edges_of(task)
    assert edges[2, 3] == edges[3, 4] == "state"
    assert (2, 4) not in edges


def test_data_wins_over_state(story):
    place = Call("place_order", {"customer_id": story.customer.id, "product_id": story.product.id, "quantity": 2})
    search = Call("search_products", {"category": story.product.category}, False)
    before = story.task(
        ("{s.customer.name} orders 2 of the {s.product.item} from {s.product.category}.", [story.find, search, place])
    )
    made = before.gold.steps[-1].rows[0]
    task = story.task(
        (before.turns[0].message, [story.find, search, place]),
        ("Cancel that order.", [Call("cancel_order", {"order_id": made.id})]),
    )
    assert set(task.gold.steps[2].writes) & set(task.gold.steps[3].reads), "the cancelled row was written before"
    assert edges_of(task) == {(0, 2): "data", (1, 2): "data", (2, 3): "data"}


def test_a_list_depends_on_what_left_it(story):
    """The list of vouchers is read after one was used up: the row is not in it any more, and that is an effect."""
    worlds = (Story(seed) for seed in range(50))
    story, voucher = next(
        (s, v)
        for s in worlds
        for v in s.world.tables["shop.vouchers"].values()
        if v.customer_id == s.customer.id and v.worth < s.order.total
    )
    vouchers = Call("list_vouchers", {"customer_id": story.customer.id})
    use = Call("apply_voucher", {"order_id": story.order.id, "voucher_id": voucher.id})
    before = Call(vouchers.tool, vouchers.arguments, False)
    task = story.task((HELLO, [story.find, story.list, before, use]), ("Vouchers?", [vouchers]))
    assert voucher.id not in task.gold.steps[4].text
    assert edges_of(task)[3, 4] == "state"


def test_calls_that_share_nothing_have_no_edge(story):
    other = Call("find_customer", {"name": story.other.name})
    task = story.task(("Find {s.customer.name} and {s.other.name}.", [_spoken(story.find), other]))
    assert edges_of(task) == {}
    assert task.profile.depth == 1


def test_the_first_result_that_holds_a_value_is_its_source(story):
    twice = Call("find_customer", {"name": story.other.name}, False)
    task = story.task(
        ("{s.customer.name} with {s.other.name}: cancel {s.order.item}.", [story.find, twice, story.list, story.cancel])
    )
    assert edges_of(task) == {(0, 2): "data", (2, 3): "data"}


def test_the_graph_says_what_each_call_is(story):
    task = story.task((HELLO, [story.find, story.list, story.cancel]), ("Refund that order.", [story.refund]))
    graph = task.graph
    assert isinstance(graph, nx.DiGraph)
    assert list(graph) == [0, 1, 2, 3]
    assert [graph.nodes[n]["tool"] for n in graph] == [call.tool for call in task.calls]
    assert [graph.nodes[n]["skill"] for n in graph] == ["lookup", "search", "delete", "transfer"]
    assert [graph.nodes[n]["turn"] for n in graph] == [0, 0, 0, 1]
    assert [graph.nodes[n]["spoken"] for n in graph] == [False, False, True, True]
    assert {(u, v): kind for u, v, kind in graph.edges(data="kind")} == edges_of(task)
    assert (task.profile.kind, task.profile.calls, task.profile.depth) == ("base", (3, 1), 4)


EDGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda e: e[0] < e[1]), max_size=20)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(EDGES)
def test_depth_is_the_longest_path(pairs):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(9))
    graph.add_edges_from(pairs)
    assert depth_of(9, dict.fromkeys(pairs, "data")) == nx.dag_longest_path_length(graph) + 1
    assert depth_of(0, {}) == 0


def test_edges_run_forward_and_agree_with_the_trace():
    source = TaskSource(31)
    kinds = set()
    for task in (source.task() for _ in range(40)):
        for (u, v), kind in edges_of(task).items():
            assert 0 <= u < v < len(task.calls)
            early, late = task.gold.steps[u], task.gold.steps[v]
            kinds.add(kind)
            if kind == "state":
                assert early.writes & (late.reads | late.writes)
            else:
                values = {getattr(row, f.name) for row in early.rows for f in early.tool.fields}
                assert values & set(task.calls[v].arguments.values())
    assert kinds == {"data", "state"}


# ------------------------------------------------------------------ isomorphism


@pytest.fixture(scope="module")
def some_tasks() -> list[Task]:
    source = TaskSource(32)
    return [source.task(kind) for kind in ("base", "base", "missing_function", "missing_parameter") for _ in range(8)]


def test_isomorphism_is_reflexive_and_symmetric_and_needs_equal_profiles(some_tasks):
    for task in some_tasks:
        assert isomorphic(task, task)
        assert profile_of(task) == task.profile
    for a, b in itertools.combinations(some_tasks, 2):
        assert isomorphic(a, b) == isomorphic(b, a)
        assert a.profile == b.profile or not isomorphic(a, b)


def test_isomorphic_is_public():
    assert rods_env.isomorphic is isomorphic


def test_other_entities_make_no_difference():
    first, second = (
        s.task((HELLO, [s.find, s.list, s.cancel]), ("Refund it.", [s.refund])) for s in (Story(0), Story(7))
    )
    assert first != second
    assert isomorphic(first, second)
    assert first.profile == second.profile


def test_tasks_made_in_the_same_shape_are_isomorphic():
    source = TaskSource(33)
    found = 0
    for parent in (source.task(kind) for kind in ("base", "missing_function") for _ in range(6)):
        child = next(_same_shape(parent, source), None)
        if child is not None:
            found += 1
            assert child != parent
            assert isomorphic(child, parent)
            assert isomorphic(parent, child)
            assert [TOOLS[c.tool].skill for c in child.calls] == [TOOLS[c.tool].skill for c in parent.calls]
    assert found >= 6


def variants_that_differ(story: Story) -> dict[str, Task]:
    refund = ("Refund that order.", [story.refund])
    text = HELLO + " I am {s.customer.name}."
    return {
        "turn": story.task(("Hi, {s.customer.name} here.", [story.find]), (HELLO, [story.list, story.cancel]), refund),
        "turn of one call": story.task((HELLO, [story.find, story.list, story.cancel, story.refund])),
        "skill": story.task((HELLO, [story.find, story.list, story.cancel]), ("Two.", [_vouchers(story)])),
        "spoken": story.task((HELLO, [story.find, _spoken(story.list), story.cancel]), refund),
        "kind of task": story.task((text, [story.find, story.list, story.cancel]), refund, kind="long_context"),
        "number of calls": story.task((HELLO, [story.find, story.list, story.change, story.cancel]), refund),
        "an edge": story.task(("{s.customer.id} " + HELLO, [story.find, story.list, story.cancel]), refund),
    }


def _spoken(call: Call) -> Call:
    return Call(call.tool, call.arguments, True)


def _vouchers(story: Story) -> Call:
    return Call("list_vouchers", {"customer_id": story.customer.id})


def test_every_label_of_the_profile_makes_a_difference(story):
    task = story.task((HELLO, [story.find, story.list, story.cancel]), ("Refund that order.", [story.refund]))
    again = story.task((HELLO + " Thanks.", [story.find, story.list, story.cancel]), ("Refund.", [story.refund]))
    assert isomorphic(task, again)
    variants = variants_that_differ(story)
    assert len(variants) == 7
    for what, other in variants.items():
        assert not isomorphic(task, other), what
        assert not isomorphic(other, task), what
        assert task.profile != other.profile, what


def rewired(task: Task, **kinds: str) -> Task:
    """The same task with edges of its own, in which all of a kind have another."""
    copy = Task(task.id, task.kind, task.apis, task.turns, task.world)
    edges = {pair: kinds.get(kind, kind) for pair, kind in task.edges.items()}
    copy.__dict__["edges"] = edges  # where `cached_property` keeps it
    return copy


def test_the_kind_of_an_edge_makes_a_difference(story):
    task = story.task((HELLO, [story.find, story.list, story.cancel]), ("Refund that order.", [story.refund]))
    assert isomorphic(task, rewired(task))
    other = rewired(task, state="data")
    assert other.profile != task.profile
    assert not isomorphic(task, other)


def test_equal_profiles_are_not_enough(story):
    """`Profile.digest` is a hash that some different graphs share; the comparison of graphs decides."""
    task = story.task((HELLO, [story.find, story.list, story.cancel]), ("Refund that order.", [story.refund]))
    other = rewired(task, state="data")
    other.__dict__["profile"] = task.profile
    assert not isomorphic(task, other)
