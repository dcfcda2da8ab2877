"""Every registered environment, through the same checks."""

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

from rods_env.agents.scripted import AGENTS
from rods_env.apis.registry import check_apis
from rods_env.envs import ENVIRONMENTS
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.tasks.task import Task

EVERY_ID = pytest.mark.parametrize("name", list(ENVIRONMENTS))
EVERY_MODE = pytest.mark.parametrize(
    ("mode", "options"), [("sync", {}), ("async", {"vector_kwargs": {"shared_memory": False}})], ids=["sync", "async"]
)


@pytest.fixture(scope="module")
def made(seeds):
    """Environments by id, over the seeds read once; made anew for every test that asks."""

    def make(name, **options):
        return gym.make(name, **{"tasks": seeds, **options})

    return make


@EVERY_ID
def test_checker_is_clean(name, made):
    """The checker makes the environment some times more, so only the first id is checked with all of its own tasks."""
    few = {} if name == "ToolUse-RODS-v0" else {"tasks": made(name).unwrapped.tasks[:12]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(name, **few).unwrapped)


@EVERY_ID
def test_plays_the_seeds_of_its_apis(name, seeds, made):
    env = made(name)
    wanted = ENVIRONMENTS[name][1].get("apis")
    assert isinstance(env.unwrapped, ToolUseEnv)
    assert env.unwrapped.tasks == [task for task in seeds if wanted is None or set(wanted) >= set(task.apis)]
    assert len(env.unwrapped.tasks) >= 5
    assert check_apis(wanted or ()) == tuple(wanted or ())


@EVERY_ID
def test_equal_seeds_and_actions_give_equal_bytes(name, made, play):
    """Row 9: a seed that is accepted is used."""
    env, other = made(name), made(name)
    for seed in range(6):
        actions, replies = play.episode(env, play.Player(seed), seed=seed)
        obs, info = other.reset(seed=seed)
        assert [play.as_json((obs, info)), *play.replay(other, actions)] == replies
        assert play.episode(env, play.Player(seed), seed=seed) == (actions, replies)


@EVERY_ID
def test_seed_reaches_the_episodes_after_the_first(name, made, play):
    """Row 9: `reset(seed=s); reset()` is reproducible, and other seeds give other episodes."""
    env, other = made(name), made(name)
    orders = set()
    for seed in range(5):
        env.reset(seed=seed)
        other.reset(seed=seed)
        first = [play.episode(env, play.Player(i)) for i in range(4)]
        assert [play.episode(other, play.Player(i)) for i in range(4)] == first
        env.reset(seed=seed)
        drawn = [env.unwrapped.task.id]
        for _ in range(12):
            env.reset()
            drawn.append(env.unwrapped.task.id)
        orders.add(tuple(drawn))
        assert len(set(drawn)) > 1
    assert len(orders) == 5, "every seed draws its own order of tasks"


PLAYED = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import gymnasium as gym
import rods_env
from conftest import Helpers, Player
tasks = rods_env.load_tasks("seeds")
for name in sys.argv[2:]:
    env, digest = gym.make(name, tasks=tasks), hashlib.sha256()
    for seed in range(8):
        for reset in ({"seed": seed}, {}):
            actions, replies = Helpers.episode(env, Player(seed), **reset)
            digest.update(repr(actions).encode("utf-8", "backslashreplace") + b"".join(replies) + Helpers.state(env))
    print(digest.hexdigest())
"""


def test_other_processes_and_hash_seeds_give_equal_bytes(made, play, request):
    """Row 9 and row 21: nothing depends on the process or on `PYTHONHASHSEED`."""
    here = []
    for name in ENVIRONMENTS:
        env, digest = made(name), hashlib.sha256()
        for seed in range(8):
            for reset in ({"seed": seed}, {}):
                actions, replies = play.episode(env, play.Player(seed), **reset)
                digest.update(repr(actions).encode("utf-8", "backslashreplace") + b"".join(replies) + play.state(env))
        here.append(digest.hexdigest())
    assert len(set(here)) == len(ENVIRONMENTS)
    folder = str(request.config.rootpath / "tests")
    for hash_seed in ("1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", PLAYED, folder, *ENVIRONMENTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == here


@EVERY_ID
@pytest.mark.parametrize("agent", ["oracle", "random", "do-nothing"])
def test_agents_stay_in_the_spaces(name, agent, made):
    """Row 10: every observation and every action is in its space."""
    env = made(name)
    player, steps = AGENTS[agent](env, 3), 0
    for seed in range(12):
        obs, info = env.reset(seed=seed)
        player.begin(info) if hasattr(player, "begin") else None
        tools, ended = info["tools"], False
        assert env.observation_space.contains(obs)
        while not ended:
            action = player.act(list(info["messages"]), tools)
            assert env.action_space.contains(action)
            obs, reward, terminated, truncated, info = env.step(action)
            assert env.observation_space.contains(obs)
            assert isinstance(reward, float)
            assert 0 <= reward <= 1
            assert 0 <= info["progress"] <= 1
            tools, ended, steps = info.get("tools", tools), terminated or truncated, steps + 1
    assert steps >= 12


@EVERY_ID
def test_nasty_unicode_stays_in_the_spaces(name, made, play):
    """Row 10: for any text, also one that is no valid Unicode, what comes back is valid and can be written as JSON."""
    env = made(name)
    env.reset(seed=0)
    ended = False
    for number, action in enumerate(play.nasty * 3):
        assert env.action_space.contains(action) == (action.encode("utf-8", "ignore").decode() == action)
        if ended:
            env.reset(seed=number)
        reply = env.step(action)
        assert env.observation_space.contains(reply[0])
        assert all(env.observation_space.contains(m["content"]) for m in reply[4]["messages"])
        assert play.as_json(reply)
        assert play.state(env)
        ended = reply[2] or reply[3]


@EVERY_ID
def test_oracle_earns_exactly_one(name, made, play):
    """Row 11: what the gold calls do is possible, and is what is graded."""
    env = made(name)
    for index in range(min(30, len(env.unwrapped.tasks))):
        total, info = play.oracle(env, options={"task": index})
        assert (total, info["progress"], info["termination"]) == (1.0, 1.0, "completed")


@EVERY_ID
def test_snapshots_are_exact(name, made, play):
    env, other = made(name).unwrapped, made(name).unwrapped
    rng = np.random.default_rng(1)
    ended = 0
    for seed in range(12):
        actions, replies = play.episode(env, play.Player(seed), seed=seed)
        start = int(rng.integers(0, len(actions)))
        env.reset(seed=seed)
        assert play.replay(env, actions[:start]) == replies[1 : start + 1]
        snapshot, before = env.snapshot(), play.state(env)
        assert play.replay(env, actions[start:]) == replies[start + 1 :]
        after, last = play.state(env), env.snapshot()
        env.restore(snapshot)
        assert play.state(env) == before, "later steps must not disturb a snapshot"
        _elsewhere(env, play, seed)
        for target in (env, other):  # `other` is reset in none of the rounds: a snapshot is all it needs
            target.restore(snapshot)
            assert play.state(target) == before
            assert play.replay(target, actions[start:]) == replies[start + 1 :]
            assert play.state(target) == after
            assert target.world == last.world
        if last.termination is not None:
            ended += 1
            other.restore(last)
            assert play.state(other) == after
            with pytest.raises(ResetNeeded):
                other.step("Hello.")
            other.restore(snapshot)
            assert play.replay(other, actions[start:]) == replies[start + 1 :]
    assert ended == 12


def _elsewhere(env, play, seed):
    """Goes on in some other way, until the episode ends or for ten steps."""
    player = play.Player(1000 + seed)
    info = {"messages": env.snapshot().transcript}
    for _ in range(10):
        *_, terminated, truncated, info = env.step(player.action(env, info, env._schemas()))
        if terminated or truncated:
            return


@EVERY_ID
def test_a_pickled_environment_goes_on_equally(name, made, play):
    env = made(name, tasks=made(name).unwrapped.tasks[:6])
    for seed in range(4):
        actions, replies = play.episode(env, play.Player(seed), seed=seed)
        middle = len(actions) // 2
        env.reset(seed=seed)
        play.replay(env, actions[:middle])
        again = pickle.loads(pickle.dumps(env))
        assert play.state(again) == play.state(env)
        assert play.replay(again, actions[middle:]) == replies[middle + 1 :]
        assert play.replay(env, actions[middle:]) == replies[middle + 1 :]
        assert play.state(again) == play.state(env)
        snapshot = env.unwrapped.snapshot()
        assert pickle.loads(pickle.dumps(snapshot)) == snapshot
        assert play.state(copy.deepcopy(env.unwrapped)) == play.state(env)
        for number in range(4):  # the generator travels along
            one, two = play.episode(env, play.Player(number)), play.episode(again, play.Player(number))
            assert one == two
    fresh = pickle.loads(pickle.dumps(made(name, tasks=env.unwrapped.tasks)))
    assert play.episode(fresh, play.Player(0), seed=0) == play.episode(env, play.Player(0), seed=0)


@EVERY_ID
def test_close_and_steps_out_of_turn(name, made):
    env = made(name)
    for target in (env, env.unwrapped):
        with pytest.raises(ResetNeeded):
            target.step("Hello.")
    with pytest.raises(ResetNeeded):
        env.unwrapped.snapshot()
    with pytest.raises(ResetNeeded):
        _ = env.unwrapped.world
    env.reset(seed=0)
    ended = False
    while not ended:
        *_, terminated, truncated, _info = env.step("Hello.")
        ended = terminated or truncated
    for target in (env, env.unwrapped):
        with pytest.raises(ResetNeeded):
            target.step("Hello.")
    assert env.reset()[0]
    assert env.step("Hello.")
    env.close()
    env.close()


@EVERY_ID
@EVERY_MODE
def test_vectors_give_what_single_environments_give(name, mode, options, made, play):
    """Texts included; Gymnasium resets an environment in the step after its end."""
    tasks: list[Task] = made(name).unwrapped.tasks[:5]
    vector = gym.make_vec(name, num_envs=2, vectorization_mode=mode, tasks=tasks, **options)
    singles = [made(name, tasks=tasks) for _ in range(2)]
    try:
        observations, infos = vector.reset(seed=[3, 4])
        now = [env.reset(seed=seed) for env, seed in zip(singles, (3, 4), strict=True)]
        players, ended, ends = [play.Player(7, nasty=False), play.Player(8)], [False, False], 0
        tools = [info["tools"] for _, info in now]
        _same(observations, infos, now)
        for step in range(25):
            actions = [
                "Grüße 好的 👍" if ended[i] or step == 2 else players[i].action(singles[i], now[i][1], tools[i])
                for i in range(2)
            ]
            assert vector.single_action_space.contains("Grüße 好的 👍")
            observations, rewards, terminated, truncated, infos = vector.step(tuple(actions))
            replies = [
                _reset(env) if over else env.step(action)
                for env, over, action in zip(singles, ended, actions, strict=True)
            ]
            now = [(reply[0], reply[4]) for reply in replies]
            _same(observations, infos, now)
            assert rewards.tolist() == [reply[1] for reply in replies]
            assert terminated.tolist() == [reply[2] for reply in replies]
            assert truncated.tolist() == [reply[3] for reply in replies]
            ended = [reply[2] or reply[3] for reply in replies]
            tools = [info.get("tools", old) for (_, info), old in zip(now, tools, strict=True)]
            ends += sum(ended)
        assert ends > 0, "resets must be among what is compared"
    finally:
        vector.close()
        vector.close()


def _reset(env):
    obs, info = env.reset()
    return obs, 0.0, False, False, info


def _same(observations, infos, now):
    assert list(observations) == [obs for obs, _ in now]
    for i, (_, info) in enumerate(now):
        for key, value in info.items():
            got = infos[key][i]
            if key == "turn_passed" and value is None:
                assert not got  # Gymnasium's arrays of booleans hold no None; `closed_by` says whether a turn closed
            else:
                assert infos[f"_{key}"][i], key
                assert list(got) == list(value) if key == "messages" else got == value, key


def test_shared_memory_is_refused_with_the_way_out(seeds):
    """Gymnasium's default for asynchronous vectors would corrupt texts."""
    with pytest.raises(Exception, match="shared_memory=False") as caught:
        gym.make_vec("ToolUse-RODS-v0", num_envs=2, vectorization_mode="async", tasks=seeds[:2])
    assert isinstance(caught.value, (ValueError, gym.error.Error))
