"""`ToolUse-BFCL-v0`: the 800 tasks of BFCL V3 multi-turn, and the environment that plays them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("bfcl_eval")

from bfcl_play import action, all_tasks, new_env, play_gold  # noqa: F401 - fixtures

import rods_env
from rods_env.agents.scripted import AGENTS, DoNothing, Oracle
from rods_env.bfcl.source import read_call
from rods_env.bfcl.tasks import BfclTask, build_task, number_of, split_of
from rods_env.curricula.fixed import FixedCurriculum
from rods_env.envs import BFCL_ENVIRONMENTS
from rods_env.envs.bfcl import BfclEnv
from rods_env.errors import RodsError
from rods_env.wrappers import AugmentedFeedback, DiscreteActions, FrontierCurriculum

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


# ---------------------------------------------------------------------- tasks


def test_gold_replays_to_success_on_all_800(tasks):
    found = rods_env.evaluate(lambda env: Oracle(env), list(tasks.values()))
    assert (found.overall.episodes, found.success, found.progress, found.crashed) == (800, 1.0, 1.0, 0)
    assert {kind: score.episodes for kind, score in found.by_kind.items()} == dict.fromkeys(
        ("base", "missing_function", "missing_parameter", "long_context"), 200
    )
    assert set(found.by_depth) == set(map(str, range(1, 7)))


@pytest.mark.parametrize("call_format", ["json", "python"])
def test_gold_replays_in_the_other_formats(tasks, call_format):
    some = list(tasks.values())[::10]
    assert rods_env.evaluate(lambda env: Oracle(env), some, call_format=call_format).success == 1.0


def test_a_fixed_curriculum_plays_them():
    plain = gym.make("ToolUse-BFCL-v0")
    env = FrontierCurriculum(plain, FixedCurriculum(plain.unwrapped.tasks, seed=0), group_size=2)
    agent = Oracle(env)
    for _ in range(8):
        _, info = env.reset()
        agent.begin(info)
        while info["termination"] is None:
            *_, info = env.step(agent.act([], []))
    assert (env.metrics()["groups_total"], env.metrics()["mean_return"]) == (4, 1.0)


def test_doing_nothing_earns_nothing(tasks):
    found = rods_env.evaluate(DoNothing(), list(tasks.values()))
    assert (found.overall.episodes, found.success, found.progress) == (800, 0.0, 0.0)


def test_the_split_keeps_the_tasks_of_a_number_together():
    train, test = rods_env.load_tasks("bfcl:train"), rods_env.load_tasks("bfcl:test")
    numbers = [{number_of(task.id) for task in side} for side in (train, test)]
    assert (len(train), len(test), list(map(len, numbers))) == (400, 400, [100, 100])
    assert not numbers[0] & numbers[1]
    assert {task.id for task in train + test} == {task.id for task in rods_env.load_tasks("bfcl:all")}
    assert sorted(numbers[0])[:6] == [0, 1, 4, 5, 8, 9]
    assert [split_of(n) for n in range(4)] == ["train", "train", "test", "test"]


def test_no_initial_configuration_stands_on_both_sides(tasks):
    sides = {"train": set(), "test": set()}
    for task in tasks.values():
        sides[split_of(number_of(task.id))].add(json.dumps(task.world.config, sort_keys=True))
    assert not sides["train"] & sides["test"]


def test_one_task_by_its_id():
    assert [task.id for task in rods_env.load_tasks("bfcl:multi_turn_base_12")] == ["multi_turn_base_12"]


@pytest.mark.parametrize("name", ["bfcl:", "bfcl:dev", "bfcl:multi_turn_base_200"])
def test_an_unknown_set_is_refused(name):
    with pytest.raises(RodsError, match="expected bfcl:train, bfcl:test, bfcl:all, or an id"):
        rods_env.load_tasks(name)


def test_tasks_are_plain_data(tasks):
    task = tasks["multi_turn_miss_func_0"]
    gold = [[f"{c.tool}({', '.join(f'{k}={v!r}' for k, v in c.arguments.items())})" for c in turn.calls]
            for turn in task.turns]  # fmt: skip
    withheld = {at: turn.adds for at, turn in enumerate(task.turns) if turn.adds}
    messages = [turn.message for turn in task.turns]
    again = build_task("other", task.kind, task.apis, task.world.config, messages, gold, withheld)
    assert again == task
    assert pickle.loads(pickle.dumps(task)) == task
    assert again.gold.answers == task.gold.answers


def test_they_go_through_task_files(tasks, tmp_path):
    some = list(tasks.values())[::20]
    rods_env.save_tasks(some, tmp_path / "x.jsonl.gz")
    assert rods_env.load_tasks(tmp_path / "x.jsonl.gz") == some


@pytest.mark.parametrize(
    "text", ["__import__('os').system('x')", "ls(a=open('x'))", "ls", "a.ls()", "(lambda: 1)()", "ls("]
)
def test_gold_text_is_never_evaluated(text):
    with pytest.raises(RodsError, match="expected a gold call"):
        read_call(text)


# ---------------------------------------------------------------------- the environment


@pytest.mark.parametrize("name", BFCL_ENVIRONMENTS)
def test_checker_is_clean(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(name).unwrapped)


@pytest.mark.parametrize("category", CATEGORIES)
def test_categories(category):
    made = gym.make("ToolUse-BFCL-v0", split="test", categories=(f"multi_turn_{category}",)).unwrapped
    assert len(made.tasks) == 100
    assert all(task.id.startswith(f"multi_turn_{category}_") for task in made.tasks)


def test_ids_of_categories_play_their_training_tasks():
    assert {name: len(gym.make(name).unwrapped.tasks) for name in BFCL_ENVIRONMENTS} == {
        "ToolUse-BFCL-v0": 400, "ToolUse-BFCL-Base-v0": 100, "ToolUse-BFCL-MissFunc-v0": 100,
        "ToolUse-BFCL-MissParam-v0": 100, "ToolUse-BFCL-LongContext-v0": 100,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "dev"}, "split must be one of 'train', 'test', 'all'; got 'dev'"),
        ({"categories": ("composite",)}, "categories must be some of 'base', 'miss_func'"),
        ({"categories": "base"}, "categories must be a sequence"),
        ({"categories": ()}, "categories must be some of"),
        ({"tasks": "seeds"}, "expected tasks for ToolUse-BFCL-v0; got .*, which ToolUse-RODS-v0 plays"),
        ({"render_mode": "rgb_array"}, "render_mode must be one of None, 'ansi'"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(RodsError, match=words):
        gym.make("ToolUse-BFCL-v0", **options)


def test_our_own_tasks_are_refused(env, seeds):
    with pytest.raises(RodsError, match="which ToolUse-RODS-v0 plays"):
        env.reset(options={"task": seeds[0]})
    with pytest.raises(RodsError, match="which ToolUse-BFCL-v0 plays"):
        gym.make("ToolUse-RODS-v0", tasks="bfcl:test")
    with pytest.raises(RodsError, match="which ToolUse-BFCL-v0 plays"):
        gym.make("ToolUse-RODS-v0", tasks=seeds).reset(options={"task": env.tasks[0]})


@pytest.mark.parametrize("wrapper", [AugmentedFeedback, DiscreteActions])
def test_wrappers_that_read_types_are_refused(env, wrapper):
    with pytest.raises(RodsError, match="this project's services"):
        wrapper(env)


@pytest.mark.parametrize("agent", ["random", "read-everything"])
def test_agents_that_read_types_are_refused(agent):
    with pytest.raises(RodsError, match="typed ports"):
        rods_env.evaluate(lambda env: AGENTS[agent](env, 0), "bfcl:multi_turn_base_0")


def test_the_information_is_that_of_our_own_tasks(env, seeds):
    ours = gym.make("ToolUse-RODS-v0", tasks=seeds).unwrapped
    (_, a), (_, b) = env.reset(seed=0), ours.reset(seed=0)
    assert set(a) == set(b)
    assert set(env.step("Done.")[4]) == set(ours.step("Done.")[4])


def test_observations_are_in_the_space(env, tasks):
    for task in list(tasks.values())[::40]:
        observation, _ = env.reset(options={"task": task})
        assert env.observation_space.contains(observation)
        for turn in task.turns:
            for call in turn.calls:
                observation, *_ = env.step(action(call.tool, **call.arguments))
                assert env.observation_space.contains(observation)
            assert env.observation_space.contains(env.step("Done.")[0])


def test_vector_environments_give_what_single_ones_give():
    plain = gym.make("ToolUse-BFCL-v0")
    single = [plain.reset(seed=seed)[0] for seed in (3, 4)]
    for mode, more in (("sync", {}), ("async", {"vector_kwargs": {"shared_memory": False}})):
        both = gym.make_vec("ToolUse-BFCL-v0", num_envs=2, vectorization_mode=mode, **more)
        assert list(both.reset(seed=3)[0]) == single
        both.close()


def test_render_ticks_gold_calls_off(tasks):
    shown = gym.make("ToolUse-BFCL-v0", split="all", render_mode="ansi").unwrapped
    play_gold(shown, tasks["multi_turn_base_0"], upto=1)
    text = shown.render()
    assert "[x] mkdir" in text
    assert "turn 2: open" in text


# ---------------------------------------------------------------------- without the package


@pytest.mark.parametrize("missing", ["bfcl_eval", "mpmath"])
def test_without_the_package_one_sentence_says_what_to_do(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import gymnasium, rods_env\n"
        "for make in (lambda: gymnasium.make('ToolUse-BFCL-v0').reset(), lambda: rods_env.evaluate(\n"
        "        rods_env.agents.scripted.Oracle, 'bfcl:all')):\n"
        "    try: make()\n"
        "    except rods_env.RodsError as error: print(error)\n"
    )
    code = code.replace("import gymnasium, rods_env", "import gymnasium, rods_env, rods_env.agents.scripted")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = f"the BFCL tasks need the package {missing!r}, which is missing: `pip install --no-deps bfcl-eval=="
    assert done.stdout.count(expected) == 2


def test_importing_the_project_imports_no_package():
    code = "import sys, rods_env; print({'bfcl_eval', 'mpmath', 'torch', 'networkx'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_the_environment_is_one_of_ours():
    assert isinstance(gym.make("ToolUse-BFCL-v0").unwrapped, BfclEnv)
    assert issubclass(BfclTask, rods_env.Task)
