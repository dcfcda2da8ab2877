"""Dependency graphs of BFCL's gold calls: five by hand, and what must hold of all 800."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("bfcl_eval")

import rods_env
from rods_env.bfcl.graphs import Held, flows, parsed
from rods_env.bfcl.said import Text
from rods_env.bfcl.tasks import bfcl_tasks, build_task
from rods_env.curricula import FixedCurriculum
from rods_env.errors import RodsError
from rods_env.tasks.drawing import figure

# Read from messages, gold calls and results by hand; calls are counted from 0.
BY_HAND = {
    # cd, touch, echo, wc: all in the folder that cd went to; echo writes the file that touch made, wc reads it
    "base_12": {(0, 1): "state", (0, 2): "state", (0, 3): "state", (1, 2): "state", (2, 3): "state"},
    # lock, brake, start | tires | create_ticket | get_ticket, close_ticket by the new ticket's id
    "base_60": {(0, 2): "state", (1, 2): "state", (4, 5): "data", (4, 6): "data"},
    # brake, start | zip | zip, distance by both | the message holds the distance | messages that were sent
    "base_95": {(0, 1): "state", (2, 4): "data", (3, 4): "data", (4, 5): "data", (5, 6): "state"},
    # the price, an order at this price, its details and its cancellation by its id
    "base_120": {(0, 1): "data", (1, 2): "data", (1, 3): "data"},
    # rate, budget of that amount | cost, booking | insurance and invoice of the booking | login, message, messages
    "base_171": {(0, 1): "data", (3, 4): "data", (3, 5): "data", (7, 8): "state"},
    # mkdir, mv into it, cat, grep, wc | cd into it, wc of the file that was moved there, mean of its count
    "long_context_31": {(0, 1): "state", (1, 6): "state", (5, 6): "state", (6, 7): "data"},
}


@pytest.fixture(scope="module", name="tasks")
def all_tasks():
    return {task.id.removeprefix("multi_turn_"): task for task in bfcl_tasks()}


@pytest.mark.parametrize("name", BY_HAND)
def test_graphs_read_by_hand(tasks, name):
    assert tasks[name].edges == BY_HAND[name]


def test_every_graph_is_a_dag_in_call_order(tasks):
    for task in tasks.values():
        assert all(0 <= source < target < len(task.calls) for source, target in task.edges), task.id
        assert set(task.edges.values()) <= {"data", "state"}
        assert len(task.structure[0]) == len(task.calls)
        profile = task.profile
        assert (profile.kind, sum(profile.calls), profile.depth) == (task.kind, len(task.calls), task.depth)
        assert 1 <= task.depth <= len(task.calls)
        assert rods_env.isomorphic(task, task)


def test_a_task_is_not_isomorphic_to_another_one(tasks):
    assert not rods_env.isomorphic(tasks["base_12"], tasks["base_95"])
    assert not rods_env.isomorphic(tasks["base_12"], tasks["long_context_12"])  # another kind


def test_nodes_say_function_and_turn(tasks):
    graph = tasks["miss_func_12"].graph
    assert [graph.nodes[n]["tool"] for n in graph] == ["cd", "touch", "echo", "wc"]
    assert graph.nodes[0]["label"].startswith("cd ")
    assert all(graph.nodes[n]["skill"] == graph.nodes[n]["tool"] and graph.nodes[n]["spoken"] for n in graph)


def test_sources_say_where_arguments_come_from(tasks):
    assert tasks["base_95"].sources[4] == {"cityA": 2, "cityB": 3}
    assert tasks["base_12"].sources[1] == {"file_name": None}
    assert "symbol" not in tasks["base_102"].sources[0]  # "Tesla" is said, and nothing returned TSLA


def test_graphs_are_derived_once_and_leave_the_task_as_it_was(tasks):
    task = tasks["base_31"]
    assert task.edges is task.edges
    assert pickle.loads(pickle.dumps(task)).edges == task.edges
    assert task.world == bfcl_tasks(categories=("base",))[31].world
    assert [text for of_turn in task.gold.answers for text in of_turn] == [run.text for run in task.runs]


def test_there_is_no_shape(tasks):
    with pytest.raises(RodsError, match="shapes, and variants made of them, are not derived for tasks of BFCL"):
        _ = tasks["base_0"].shape


def test_curricula_and_pictures_take_them(tasks):
    some = [tasks[f"base_{n}"] for n in range(4)]
    assert FixedCurriculum(some, seed=0).next_group() in some
    assert figure(some[0]) is not None


# ---------------------------------------------------------------------- single rules


def made(gold, messages=None, **config):
    messages = messages or ["Go."] * len(gold)
    return build_task("x", "base", list(config), config, messages, gold)


def folder(**contents):
    return {"type": "directory", "contents": {n: {"type": "file", "content": text} for n, text in contents.items()}}


def test_state_that_was_overwritten_is_the_later_writers():
    task = made([["set_navigation('A')", "setHeadlights('on')", "set_navigation('B')", "set_navigation('C')"]],
                VehicleControlAPI={})  # fmt: skip
    assert task.edges == {(0, 2): "state", (2, 3): "state"}


def test_a_file_needs_who_wrote_it_and_no_other():
    task = made([["touch('a')", "touch('b')", "echo('hello', 'a')", "cat('b')", "cat('a')", "rm('a')", "ls()"]],
                GorillaFileSystem={"root": {"top": folder()}})  # fmt: skip
    assert task.edges == dict.fromkeys([(0, 2), (1, 3), (2, 4), (2, 5), (1, 6), (5, 6)], "state")


def test_what_stands_in_a_folder_needs_who_went_there():
    task = made([["mkdir('sub')", "cd('sub')", "touch('a')", "cd('..')", "touch('b')"]],
                GorillaFileSystem={"root": {"top": folder()}})  # fmt: skip
    assert task.edges == {(0, 1): "state", (1, 2): "state", (1, 3): "state", (3, 4): "state"}


def test_counters_are_no_state():
    task = made([["post_tweet('one')", "post_tweet('two')"]],
                TwitterAPI={"username": "u", "password": "p", "authenticated": True, "tweets": {}})  # fmt: skip
    assert task.edges == {}


def test_a_login_is_read_by_what_needs_it():
    task = made([["ticket_login('u', 'p')", "create_ticket('t')", "get_ticket(1)"]],
                TicketAPI={"ticket_counter": 1, "ticket_queue": [], "current_user": None})  # fmt: skip
    assert task.edges == {(0, 1): "state", (1, 2): "data"}  # anybody may read a ticket


def test_slight_values_flow_only_between_ids_and_in_lists():
    held = Held('{"id": 7, "count": 5, "note": "The pin is 4711."}')
    silent = Text("")
    assert held.supplies("ticket_id", 7, silent)
    assert not held.supplies("priority", 5, silent)
    assert held.supplies("anything", 4711, silent)
    assert held.supplies("message", "Pin: The pin is 4711.", silent)
    assert not held.supplies("flag", True, silent)
    task = made([["wc('a', 'w')", "mean([1, 2])"]], ["How many? And then."], MathAPI={},
                GorillaFileSystem={"root": {"top": folder(a="one two")}})  # fmt: skip
    assert flows(task) == [{}, {}]
    task = made([["cat('a')", "mean([11, 12])"]], ["Read it."], MathAPI={},
                GorillaFileSystem={"root": {"top": folder(a="11 and 12")}})  # fmt: skip
    assert task.edges == {(0, 1): "data"}


def test_what_a_call_was_given_does_not_flow_out_of_it():
    task = made([["add_to_watchlist('NVDA')", "get_stock_info('NVDA')"]], TradingBot={})
    assert "data" not in task.edges.values()


def test_results_are_read_as_data():
    assert parsed('{"a": [1]}') == {"a": [1]}
    assert parsed("['RMS', 'SBK']") == ["RMS", "SBK"]
    assert parsed("None") is None
    assert parsed("plain text") == "plain text"
