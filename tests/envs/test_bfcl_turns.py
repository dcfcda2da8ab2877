"""Calls on BFCL's simulators: what is refused, what an error costs, when a turn passes."""

from __future__ import annotations

import json

import gymnasium as gym
import jsonschema
import numpy as np
import pytest

pytest.importorskip("bfcl_eval")

from bfcl_play import action, all_tasks, new_env, play_gold  # noqa: F401 - fixtures

from rods_env.bfcl.source import APIS
from rods_env.bfcl.tasks import build_task
from rods_env.bfcl.tools import tools_by_name
from rods_env.envs.calls import write_calls


def test_schemas_are_valid_and_take_every_gold_call(tasks):
    assert len(tools_by_name()) == 128
    checks = {}
    for name, tool in tools_by_name().items():
        schema = tool.schema["function"]["parameters"]
        jsonschema.Draft202012Validator.check_schema(schema)
        checks[name] = jsonschema.Draft202012Validator(schema)
        assert list(schema["properties"]) == [p.name for p in tool.params]
        assert schema["required"] == [p.name for p in tool.params if p.required]
    for task in tasks.values():
        for call in task.calls:
            checks[call.tool].validate(call.arguments)


def test_tools_are_those_of_the_involved_classes(env, tasks):
    task = tasks["multi_turn_base_0"]
    _, info = env.reset(options={"task": task})
    assert {tool["function"]["name"] for tool in info["tools"]} == set(task.tools)
    assert set(task.apis) <= set(APIS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (action("ls", b=1), "ls: Object contains unknown field `b`"),
        (action("cd"), "cd: Object missing required field `folder`"),
        (action("cd", folder=3), "cd: Expected `str`, got `int` - at `$.folder`"),
        (action("tail", file_name="x", lines=1.5), "tail: Expected `int`, got `float` - at `$.lines`"),
        (action("ls", a="yes"), "ls: Expected `bool`, got `str`"),
        (action("mention", tweet_id=1, mentioned_usernames=[1]), "got `int` - at `$.mentioned_usernames[0]`"),
        (action("greb"), "There is no tool 'greb' at the moment. Did you mean grep?"),
        (action("_load_scenario", scenario={}), "There is no tool '_load_scenario'"),
        (action("__class__"), "There is no tool '__class__'"),
        (action("book_flight"), "There is no tool 'book_flight'"),
        ("__import__('os').system('x')", "Expected only calls, each of a plain tool name"),
        ("[root.contents.clear()]", "Expected only calls, each of a plain tool name"),
        ("[ls(a=(lambda: True)())]", "Expected literals"),
        ("[cd(folder=[x for x in 'ab'])]", "Expected literals"),
        ("[cd(folder=f'{1}')]", "Expected literals"),
        ("[ls(True)]", "Expected keyword arguments only"),
        ("[ls(**{'a': True})]", "Expected each argument once, by keyword"),
        ('<tool_call>{"name": "ls"', "Expected"),
    ],
)
def test_what_is_no_proper_call_costs_an_attempt_and_changes_nothing(env, tasks, text, words):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    before = env.snapshot()
    observation, reward, terminated, truncated, info = env.step(text)
    assert words in json.loads(observation)["error"]
    assert (reward, terminated, truncated, info["error"], info["attempts_left"]) == (0.0, False, False, True, 9)
    assert env.world is before.world


def test_a_simulators_error_is_a_result_that_costs_an_attempt(env, tasks):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    observation, *_, info = env.step(action("cd", folder="nowhere"))
    assert observation == '{"error": "cd: \'nowhere\': No such file or directory"}'
    assert (info["error"], info["attempts_left"]) == (True, 9)


def test_what_a_simulator_raises_is_a_result(env, tasks):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    env.step(action("echo", content="x", file_name="document"))  # a directory has no `_write`
    text = env.snapshot().transcript[-1]["content"]
    assert text == "Error during execution: 'Directory' object has no attribute '_write'"
    assert env.step("Done.")[4]["closed_by"] == "answer"


def test_ten_errors_close_the_turn(env, tasks):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    for _ in range(10):
        *_, info = env.step(action("cd", folder="nowhere"))
    assert (info["closed_by"], info["turn"], info["turn_passed"]) == ("attempts", 1, False)


@pytest.mark.parametrize(
    "call",
    [
        ("power", {"base": 9, "exponent": 10**9}),
        ("square_root", {"number": 2, "precision": 10**9}),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ],
)
def test_arguments_that_take_forever_are_refused(env, tasks, call):
    env.reset(options={"task": next(t for t in tasks.values() if "MathAPI" in t.apis)})
    assert "Expected" in json.loads(env.step(action(call[0], **call[1]))[0])["error"]


def test_folders_that_double_do_not_hang_a_search(env, tasks):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    env.step(action("mkdir", dir_name="d"))
    for _ in range(20):
        moves = [("cp", "d", "e"), ("mv", "d", "f"), ("mv", "e", "f"), ("mv", "f", "d")]
        calls = [(name, {"source": source, "destination": destination}) for name, source, destination in moves]
        *_, info = env.step(write_calls([("mkdir", {"dir_name": "f"}), *calls]))
        assert not info["error"]
    observation, *_ = env.step(action("find", path="."))
    assert "more than 5000 files and folders" in observation
    env.step("Done.")


def test_a_folder_within_itself_ends_no_episode(env, tasks):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    env.step(action("cp", source="document", destination="document"))
    assert "Error during execution" in env.step(action("find", path="."))[0]
    snapshot = env.snapshot()
    *_, info = env.step("Done.")
    assert info["failed_checks"] == ("world", "answers")
    env.restore(snapshot)
    env.step(action("ls"))


def test_folders_nested_without_end_end_no_episode(env, tasks):
    env.reset(options={"task": tasks["multi_turn_base_0"]})
    for _ in range(60):
        env.step(write_calls([("mkdir", {"dir_name": "d"}), ("cd", {"folder": "d"})] * 16))
    env.snapshot()
    observation, *_ = env.step(action("ls"))
    assert observation.startswith(("Error during execution", '{"current'))
    *_, info = env.step("Done.")
    assert info["turn_passed"] is False


_ODD = {
    "string": ["", "..", "/", "a/b", "%s", "x" * 5000, "\x00", "é", "-1", "2024-13-45", "all"],
    "integer": [0, -1, 2**31, 2**63 - 1, -(2**63), 1000],
    "number": [0, 0.0, -1, 1e308, -1e308, 1e-308, 2**62],
    "boolean": [True, False],
    "object": [{}, {"a": 1}, {"status": "x", "priority": 9}],
}


def odd(rng, schema):
    """A value that fits the schema and that nobody expects."""
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][int(rng.integers(2))]
    if kind == "array":
        return [odd(rng, schema["items"]) for _ in range(int(rng.integers(4)))]
    return _ODD[kind][int(rng.integers(len(_ODD[kind])))]


def test_no_arguments_that_fit_the_schema_end_an_episode(tasks):
    env = gym.make("ToolUse-BFCL-v0", split="all", attempts_per_turn=1000, max_steps=1000).unwrapped
    rng = np.random.default_rng(0)
    raised = 0
    for task in list(tasks.values())[::8]:
        env.reset(options={"task": task})
        for name, tool in task.tools.items():
            schema = tool.schema["function"]["parameters"]
            given = {key: odd(rng, value) for key, value in schema["properties"].items()
                     if key in schema["required"] or rng.random() < 0.5}  # fmt: skip
            observation, *_, info = env.step(action(name, **given))
            assert env.observation_space.contains(observation)
            assert info["closed_by"] is None
            raised += observation.startswith("Error during execution")
        assert env.step("Done.")[4]["closed_by"] == "answer"
    assert raised > 10


# ---------------------------------------------------------------------- grading, hold-outs


def test_functions_are_withheld_until_their_turn(env, tasks):
    task = tasks["multi_turn_miss_func_0"]
    _, info = env.reset(options={"task": task})
    assert "sort" not in {tool["function"]["name"] for tool in info["tools"]}
    for turn in task.turns[:2]:
        for call in turn.calls:
            env.step(action(call.tool, **call.arguments))
        *_, info = env.step("Done.")
        assert "tools" not in info
    snapshot = env.snapshot()
    assert "There is no tool 'sort'" in env.step(action("sort", file_name="final_report.pdf"))[0]
    assert env.step("I cannot.")[4]["failed_checks"] == ("called",)
    env.restore(snapshot)
    observation, reward, _, _, info = env.step("I cannot sort: no function does.")
    assert (info["turn_passed"], reward) == (True, 0.0)
    assert observation == task.turns[3].message != ""
    assert "sort" in {tool["function"]["name"] for tool in info["tools"]}
    env.step(action("sort", file_name="final_report.pdf"))
    assert env.step("Done.")[1] == pytest.approx(2 / 5)  # this turn, and the one of asking


def test_every_function_is_withheld_somewhere_or_offered(tasks):
    for task in tasks.values():
        adds = [name for turn in task.turns for name in turn.adds]
        assert bool(adds) == (task.kind == "missing_function")
        for at, turn in enumerate(task.turns):
            assert {call.tool for call in turn.calls} <= set(task.offered(at)), task.id


def test_a_turn_in_which_nothing_is_called_fails_though_nothing_is_left_to_do(env, tasks):
    task = tasks["multi_turn_base_0"]
    env.reset(options={"task": task})
    for turn in task.turns[:2]:  # the second turn's calls already in the first
        for call in turn.calls:
            env.step(action(call.tool, **call.arguments))
    *_, info = env.step("Done.")
    assert info["failed_checks"] == ("world",) or info["turn_passed"]
    assert env.step("Done.")[4]["failed_checks"] == ("silent",)


def test_a_result_that_gold_has_twice_must_be_seen_twice(env, tasks):
    config = tasks["multi_turn_base_0"].world.config
    task = build_task("twice", "base", ("GorillaFileSystem",), config, ["?"], [["ls()", "ls(a=False)"]])
    for times, passed in ((1, False), (2, True)):
        env.reset(options={"task": task})
        for _ in range(times):
            env.step(action("ls"))
        assert env.step("Done.")[4]["turn_passed"] is passed


def test_turns_of_asking_behind_the_last_call_are_paid_with_it(env, tasks):
    """Number 167 ends with a turn without gold calls, which no later turn could make good."""
    task = tasks["multi_turn_base_167"]
    assert play_gold(env, task)["progress"] == 1.0
    for silent in range(4):  # one turn is not served
        env.reset(options={"task": task})
        for at, turn in enumerate(task.turns):
            for call in turn.calls if at != silent else ():
                env.step(action(call.tool, **call.arguments))
            *_, info = env.step("Done.")
        assert info["progress"] <= 4 / 5
    assert play_gold(env, tasks["multi_turn_base_180"])["progress"] == 1.0  # two such turns in a row


def test_silence_is_paid_at_once_where_that_is_wanted(tasks):
    paid = gym.make("ToolUse-BFCL-v0", split="all", refrain_credit="immediate").unwrapped
    paid.reset(options={"task": tasks["multi_turn_miss_func_3"]})
    assert paid.step("I cannot.")[1] == pytest.approx(1 / 3)
