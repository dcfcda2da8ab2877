"""`DiscreteActions`: spaces, masks, the same game as in text, snapshots, and everything that wraps it."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from rods_env.agents.scripted import Oracle
from rods_env.apis.registry import TOOLS
from rods_env.benchmarks.discrete import discrete_steps_per_s
from rods_env.envs import DISCRETE_ENVIRONMENTS
from rods_env.envs.calls import parse_calls, write_calls
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.errors import RodsError, ToolError
from rods_env.tasks.task import Task, Turn
from rods_env.wrappers import AugmentedFeedback, DiscreteActions, FrontierCurriculum

ID = "ToolUse-RODS-Discrete-v0"


@pytest.fixture(scope="module")
def some(seeds):
    """Every eighth seed: `gym.make` copies what it is given, which takes a second for all of them."""
    return seeds[::8]


@pytest.fixture(scope="module")
def made(some):
    def make(**options):
        return gym.make(ID, **{"tasks": some, **options})

    return make


def pick(rng, mask):
    """A random valid action."""
    return int(rng.integers(np.count_nonzero(mask)))


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)


def episode(env, rng, **reset):
    """A random episode: actions, and what was returned at each step, with copies of the observations."""
    observation, info = env.reset(**reset)
    actions, replies = [], [(copy.deepcopy(observation), 0.0, False, False, dict(info))]
    while not (replies[-1][2] or replies[-1][3]):
        actions.append(pick(rng, info["action_mask"]))
        observation, reward, terminated, truncated, info = env.step(actions[-1])
        replies.append((copy.deepcopy(observation), reward, terminated, truncated, dict(info)))
    return actions, replies


def play_oracle(env, options):
    """The sum of the rewards of an episode in which the gold calls are chosen among the candidates."""
    _, info = env.reset(options=options)
    base, find = env.unwrapped, env.get_wrapper_attr("action_of")
    total, turn, done, ended = 0.0, -1, 0, False
    while not ended:
        if base.turn != turn:
            turn, done = base.turn, 0
        calls = base.task.turns[turn].calls
        action = find(calls[done].tool, calls[done].arguments) if done < len(calls) else 0
        assert action is not None, (base.task.id, turn, done)
        assert info["action_mask"][action]
        done += 1
        _, reward, terminated, truncated, info = env.step(action)
        total, ended = total + float(reward), terminated or truncated
    return total


def texts(info):
    return [message["content"] for message in info["messages"] if message["role"] == "assistant"]


# ---------------------------------------------------------------------------------------------------- the interface


def test_the_id_is_registered_and_made_again_from_its_spec(made, some):
    assert set(DISCRETE_ENVIRONMENTS) == {ID}
    env = made(max_actions=64, attempts_per_turn=3)
    again = gym.make(env.spec)
    for each in (env, again):
        assert isinstance(each, DiscreteActions)
        assert isinstance(each.unwrapped, ToolUseEnv)
        assert each.action_space == gym.spaces.Discrete(64)
        assert each.unwrapped.attempts_per_turn == 3
        assert each.unwrapped.tasks == some
    assert again.spec == env.spec


def test_checker_is_clean(seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")  # so are all wrappers
        check_env(gym.make(ID, tasks=seeds[:12]), skip_render_check=True)


def test_every_observation_is_in_its_space_and_the_mask_says_what_is_valid(made):
    env, rng = made(max_actions=128), np.random.default_rng(0)
    sizes, dropped = [], []
    for seed in range(25):
        observation, info = env.reset(seed=seed)
        ended = False
        while not ended:
            assert env.observation_space.contains(observation)
            mask = info["action_mask"]
            assert (mask.shape, mask.dtype) == ((128,), np.int8)
            assert env.action_masks().dtype == np.bool_
            assert np.array_equal(env.action_masks(), mask.astype(bool))
            assert mask[0] == 1
            assert np.array_equal(mask[1:], observation["tool"][1:] > 0)
            assert len(env.calls()) == mask.sum() - 1
            sizes.append(int(mask.sum()))
            dropped.append(info["candidates_dropped"])
            observation, _, terminated, truncated, info = env.step(pick(rng, mask))
            ended = terminated or truncated
        assert info["action_mask"].tolist() == [1] + [0] * 127, "nothing is left to call"
    assert max(sizes) == 128
    assert any(dropped)
    assert not all(dropped)


def test_the_oracle_plays_all_packaged_tasks_by_numbers(seeds, heldout):
    for tasks in (seeds, heldout):
        env = gym.make(ID, tasks=tasks)
        assert [play_oracle(env, {"task": index}) for index in range(len(tasks))] == [1.0] * len(tasks)


def test_random_valid_calls_are_never_malformed(made):
    """What a tool refuses, it refuses for the state of the world, and never for the form of a call."""
    env, rng, errors = made(), np.random.default_rng(1), []
    env.unwrapped.explain = lambda failure: errors.append(failure.error) or failure.message
    steps, progress = 0, []
    for seed in range(40):
        actions, replies = episode(env, rng, seed=seed)
        steps += len(actions)
        progress.append(replies[-1][4]["progress"])
    assert len(errors) > 300
    assert steps > len(errors) + 300, "and many are accepted"
    assert all(isinstance(error, ToolError) for error in errors)
    assert np.mean(progress) < 0.3


@pytest.mark.parametrize("call_format", ["any", "hermes", "json", "python"])
def test_the_game_is_that_of_a_text_policy(made, some, call_format, play):
    env, plain = made(call_format=call_format), ToolUseEnv(tasks=some, call_format=call_format)
    rng = np.random.default_rng(2)
    for seed in range(8):
        actions, replies = episode(env, rng, seed=seed)
        info = replies[-1][4]
        plain.reset(seed=seed)
        written = texts(info)
        assert len(written) == len(actions)
        for text, (_, reward, terminated, truncated, said) in zip(written, replies[1:], strict=True):
            reply = plain.step(text)
            assert reply[1:4] == (reward, terminated, truncated)
            ours = {key: value for key, value in said.items() if key not in ("action_mask", "candidates_dropped")}
            assert play.as_json([reply[4]]) == play.as_json([ours])
            calls = parse_calls(text, call_format)
            if calls:
                arguments = TOOLS[calls[0].name].decode(calls[0].arguments)
                assert len(calls) == 1
                named = zip(TOOLS[calls[0].name].params, arguments, strict=True)
                given = {p.name: value for p, value in named if f"{p.name}" in text}
                assert text == write_calls([(calls[0].name, given)], call_format)
        assert play.state(plain) == play.state(env)


def test_an_invalid_action_costs_an_attempt(made):
    env = made(attempts_per_turn=2)
    _, info = env.reset(seed=0)
    before = env.unwrapped.world
    _, reward, _, _, info = env.step(255)
    assert info["error"]
    assert (info["attempts_left"], reward, info["closed_by"]) == (1, 0.0, None)
    assert "There is no tool 'action_255'" in info["messages"][-1]["content"]
    _, _, _, _, info = env.step(254)
    assert info["closed_by"] == "attempts"
    assert env.unwrapped.world == before
    assert env.refresh()[1]["action_mask"].tolist() == env.action_masks().astype(int).tolist()


@pytest.mark.parametrize("action", [-1, 256, True, 1.0, "1", None, np.array([1]), np.float64(1)])
def test_what_is_no_action_is_refused(made, action):
    env = made()
    env.reset(seed=0)
    with pytest.raises(RodsError, match="expected an action"):
        env.step(action)


def test_actions_of_all_integer_types_are_the_same(made):
    replies = []
    for kind in (int, np.int64, np.uint8, np.array):
        env = made()
        env.reset(seed=3)
        replies.append(env.step(kind(1)))
    assert all(same(reply[0], replies[0][0]) and reply[1:4] == replies[0][1:4] for reply in replies)
    assert len(texts(replies[0][4])) == 1


def test_the_order_of_reset_and_step(made):
    env = made()
    for use in (lambda: env.step(0), env.action_masks, env.calls, env.refresh, lambda: env.action_of("x", {})):
        with pytest.raises(ResetNeeded):
            use()
    _, info = env.reset(seed=0)
    while info["termination"] is None:
        *_, info = env.step(0)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    assert env.step(0)[4]["closed_by"] == "answer"


def test_what_it_is_made_with_is_checked(seeds):
    with pytest.raises(RodsError, match="expected a ToolUseEnv"):
        DiscreteActions(gym.make("CartPole-v1"))
    for wrong in (1, 2.0, True, "3"):
        with pytest.raises(RodsError, match="max_actions must be an integer of at least 2"):
            DiscreteActions(ToolUseEnv(tasks=seeds[:1]), wrong)


def test_tools_registered_later_are_refused(made, monkeypatch):
    env = made()
    monkeypatch.setattr(env, "_tools", len(TOOLS) - 1)
    with pytest.raises(RodsError, match="make it anew"):
        env.reset(seed=0)


# ---------------------------------------------------------------------------------------------------- what is observed


def test_the_state_counts_what_happened(made, seeds):
    env = made()
    task = next(t for t in seeds if t.kind == "base" and len(t.turns) > 1 and len(t.turns[0].calls) > 1)
    observation, info = env.reset(options={"task": task})
    assert observation["state"].tolist() == [0, 10, 0, 0, 0]
    known = sorted(TOOLS)
    assert [known[at] for at in np.flatnonzero(observation["offered"])] == sorted(
        schema["function"]["name"] for schema in info["tools"]
    )
    call = task.turns[0].calls[0]
    action = env.action_of(call.tool, call.arguments)
    assert known[observation["tool"][action] - 1] == call.tool
    assert env.calls()[action - 1] == (call.tool, call.arguments)
    observation, *_ = env.step(action)
    rows = len(task.gold.steps[0].rows)
    assert observation["state"].tolist() == [0, 10, 1, rows, 0]
    assert observation["called"][known.index(call.tool)] == observation["called"].sum() == 1
    again = env.action_of(call.tool, call.arguments)
    assert observation["made"][again] == observation["made"].sum() == 1
    observation, *_, info = env.step(200)
    assert observation["state"].tolist() == [0, 9, 1, rows, 1]
    observation, *_ = env.step(0)
    assert observation["state"].tolist() == [1, 10, 1, rows, 0]
    assert observation["called"].sum() == 0
    assert observation["words"][1].sum() > 0
    assert not np.array_equal(observation["words"][0], observation["words"][1])


def test_observations_are_not_changed_by_later_steps(made):
    env, rng = made(), np.random.default_rng(4)
    for seed in range(6):
        observation, info = env.reset(seed=seed)
        kept, ended = [(observation, copy.deepcopy(observation))], False
        while not ended:
            observation, _, terminated, truncated, info = env.step(pick(rng, info["action_mask"]))
            kept.append((observation, copy.deepcopy(observation)))
            ended = terminated or truncated
        assert all(same(now, then) for now, then in kept)


def test_a_tool_that_comes_back_is_offered_with_all_that_was_seen(made, seeds):
    env = made()
    task = next(t for t in seeds if t.kind == "missing_function" and not t.turns[0].calls)
    withheld = task.turns[1].adds[0]
    observation, _ = env.reset(options={"task": task})
    at = sorted(TOOLS).index(withheld)
    assert not observation["offered"][at]
    assert withheld not in {name for name, _ in env.calls()}
    observation, *_ = env.step(0)
    assert observation["offered"][at]
    assert observation["state"][0] == 1
    assert observation["words"][1].sum() > 0
    assert play_oracle(env, {"task": task}) == 1.0


def test_nothing_is_taken_from_the_gold_calls(made, seeds):
    """A task with the same messages and world, and without gold calls, looks the same."""
    env, other, rng = made(), made(), np.random.default_rng(5)
    for task in [t for t in seeds if t.kind == "base"][:12]:
        blank = tuple(Turn(turn.message) for turn in task.turns)
        masked = Task(task.id, task.kind, task.apis, blank, task.world)
        actions, replies = episode(env, rng, options={"task": task})
        observation, info = other.reset(options={"task": masked})
        assert same(observation, replies[0][0])
        for action, reply in zip(actions, replies[1:], strict=True):
            observation, _, terminated, truncated, info = other.step(action)
            assert same(observation, reply[0])
            assert np.array_equal(info["action_mask"], reply[4]["action_mask"])
            assert (terminated, truncated) == reply[2:4]


# ---------------------------------------------------------------------------------------------------- determinism


def digest(replies):
    found = hashlib.sha256()
    for observation, reward, terminated, truncated, info in replies:
        for key in sorted(observation):
            found.update(observation[key].tobytes())
        found.update(repr((reward, terminated, truncated, info["action_mask"].tolist(), info["progress"])).encode())
    return found.hexdigest()


def test_equal_seeds_and_actions_give_equal_bytes(made):
    env, other = made(), made()
    seen = set()
    for seed in range(10):
        first = episode(env, np.random.default_rng(seed), seed=seed)
        second = episode(other, np.random.default_rng(seed), seed=seed)
        assert first[0] == second[0]
        assert digest(first[1]) == digest(second[1])
        seen.add(digest(first[1]))
    assert len(seen) == 10


PLAYED = """
import sys
sys.path.insert(0, sys.argv[1])
import gymnasium as gym
import numpy as np
import rods_env
from test_discrete_actions import ID, digest, episode
env = gym.make(ID, tasks=rods_env.load_tasks("seeds")[::8])
for seed in range(6):
    print(digest(episode(env, np.random.default_rng(seed), seed=seed)[1]))
"""


def test_other_processes_and_hash_seeds_give_equal_bytes(made, request):
    here = [digest(episode(made(), np.random.default_rng(seed), seed=seed)[1]) for seed in range(6)]
    folder = str(request.config.rootpath / "tests" / "wrappers")
    for hash_seed in ("1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", PLAYED, folder], env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == here


# ---------------------------------------------------------------------------------------------------- snapshots, copies


def test_refresh_gives_at_every_step_what_the_episode_gave(made):
    env, other, rng = made(), made(), np.random.default_rng(6)
    other.reset(seed=99)
    for seed in range(10):
        observation, info = env.reset(seed=seed)
        ended = False
        while True:
            other.unwrapped.restore(env.unwrapped.snapshot())
            again, about = other.refresh()
            assert same(again, observation)
            assert np.array_equal(about["action_mask"], info["action_mask"])
            assert about["candidates_dropped"] == info["candidates_dropped"]
            assert other.calls() == env.calls()
            if ended:
                break
            action = pick(rng, info["action_mask"]) if rng.random() < 0.9 else 250
            observation, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_from_where_they_are(seeds, clone):
    env, rng = gym.make(ID, tasks=seeds[:20]), np.random.default_rng(7)
    copied = clone(env)
    with pytest.raises(ResetNeeded):
        copied.step(0)
    _, info = env.reset(seed=0)
    for _ in range(6):
        *_, info = env.step(pick(rng, info["action_mask"]))
        if info["termination"] is not None:
            _, info = env.reset()
    copied = clone(env)
    for _ in range(20):
        action = pick(rng, info["action_mask"])
        ours, theirs = env.step(action), copied.step(action)
        assert same(ours[0], theirs[0])
        assert ours[1:4] == theirs[1:4]
        info = ours[4]
        if info["termination"] is not None:
            break


def test_steps_are_cut_off(made):
    env, rng = made(max_steps=3), np.random.default_rng(8)
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        for step in range(3):
            action = 0 if step == 2 else pick(rng, info["action_mask"])
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        assert terminated or truncated
        assert same(env.refresh()[0], observation)


# ---------------------------------------------------------------------------------------------------- company


def test_a_curriculum_inside_or_around(seeds):
    inside = DiscreteActions(FrontierCurriculum(gym.make("ToolUse-RODS-v0", tasks=seeds[:40]), group_size=2, seed=1))
    around = FrontierCurriculum(gym.make(ID, tasks=seeds[:40]), group_size=2, seed=1)
    ended = 0
    rng, other = np.random.default_rng(9), np.random.default_rng(9)
    for _ in range(8):
        one, two = episode(inside, rng), episode(around, other)
        assert digest(one[1]) == digest(two[1])
        assert one[1][0][4]["task_id"] == two[1][0][4]["task_id"]
        assert one[1][-1][4]["curriculum"] == two[1][-1][4]["curriculum"]
        ended += 1
    assert ended == 8
    assert around.get_wrapper_attr("action_masks")().sum() == 1
    inside.close()
    around.close()


def test_errors_may_say_more(made, some):
    env = DiscreteActions(AugmentedFeedback(gym.make("ToolUse-RODS-v0", tasks=some)))
    bare = made()
    for seed in range(5):
        one = episode(env, np.random.default_rng(seed), seed=seed)
        two = episode(bare, np.random.default_rng(seed), seed=seed)
        assert digest(one[1]) == digest(two[1])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectors_give_what_single_environments_give(seeds, mode):
    tasks = seeds[:30]
    envs = gym.make_vec(ID, num_envs=3, vectorization_mode=mode, tasks=tasks, max_actions=96)
    singles = [gym.make(ID, tasks=tasks, max_actions=96) for _ in range(3)]
    rng = np.random.default_rng(10)
    try:
        observations, infos = envs.reset(seed=[1, 2, 3])
        started = [env.reset(seed=seed) for env, seed in zip(singles, (1, 2, 3), strict=True)]
        masks = [info["action_mask"] for _, info in started]
        for at, (observation, _) in enumerate(started):
            assert all(np.array_equal(observations[key][at], observation[key]) for key in observation)
        ended = [False] * 3
        for _ in range(40):
            assert np.array_equal(infos["action_mask"], np.stack(masks))
            actions = np.array([pick(rng, mask) for mask in masks])
            observations, rewards, terminations, truncations, infos = envs.step(actions)
            for at, env in enumerate(singles):
                if ended[at]:  # gymnasium resets in the step after the last one
                    observation, info = env.reset()
                    reply = (observation, 0.0, False, False, info)
                else:
                    reply = env.step(int(actions[at]))
                assert all(np.array_equal(observations[key][at], reply[0][key]) for key in reply[0])
                assert (rewards[at], terminations[at], truncations[at]) == (float(reply[1]), *reply[2:4])
                masks[at], ended[at] = reply[4]["action_mask"], reply[2] or reply[3]
    finally:
        envs.close()


def test_observations_can_be_flattened(seeds):
    env = gym.wrappers.FlattenObservation(gym.make(ID, tasks=seeds[:3], max_actions=16))
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)


def test_the_scripted_oracle_still_plays_the_environment_inside(made):
    env = made()
    _, info = env.reset(seed=0)
    agent, inner, total = Oracle(env), env.unwrapped, 0.0
    agent.begin(info)
    while info["termination"] is None:
        _, reward, _, _, info = inner.step(agent.act(list(info["messages"]), []))
        total += float(reward)
    assert total == 1.0
    assert env.refresh()[1]["action_mask"].sum() == 1


def test_the_benchmark_counts_steps():
    assert discrete_steps_per_s(300, repeats=1) > 100
