"""Episodes on BFCL's simulators do not touch each other, and snapshots are exact."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("bfcl_eval")

from bfcl_play import action, all_tasks, new_env, play_gold  # noqa: F401 - fixtures


def conversations(tasks):
    """A digest of each conversation in which every gold call is made twice, by task id."""
    env = gym.make("ToolUse-BFCL-v0", tasks=list(tasks), attempts_per_turn=1000, max_steps=1000)
    digests = {}
    for task in tasks:
        env.reset(options={"task": task})
        for turn in task.turns:
            for call in turn.calls:
                env.step(action(call.tool, **call.arguments))
                env.step(action(call.tool, **call.arguments))
            *_, info = env.step("Done.")
        digests[task.id] = hashlib.sha256(json.dumps(list(info["messages"])).encode()).hexdigest()
    return digests


def test_a_second_run_equals_the_first(tasks):
    every = list(tasks.values())
    assert conversations(every) == conversations(every[::-1])


def test_equal_in_processes_with_other_hash_seeds(tasks):
    code = (
        "import sys; sys.path.insert(0, 'tests/envs'); import test_bfcl_isolation as t\n"
        "from rods_env.bfcl.tasks import bfcl_tasks\n"
        "print(t.conversations(bfcl_tasks()[::20]))"
    )
    found = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
                       capture_output=True, text=True).stdout.strip()
        for seed in ("0", "1")
    }  # fmt: skip
    assert found == {str(conversations(list(tasks.values())[::20]))}


def test_lists_that_are_defaults_do_not_leak(env, tasks):
    """BFCL's `post_tweet` has one list for all tweets without mentions; `mention` appends to it."""
    task = tasks["multi_turn_base_0"]
    texts = []
    for _ in range(2):
        env.reset(options={"task": task})
        env.step(action("authenticate_twitter", username="analyst_pro", password="Kj8#mP9$vL2"))
        env.step(action("post_tweet", content="a"))
        env.step(action("mention", tweet_id=3, mentioned_usernames=["@x"]))
        texts.append(env.step(action("post_tweet", content="b"))[0])
    assert json.loads(texts[0])["mentions"] == []
    assert texts[0] == texts[1]


def test_precision_does_not_leave_the_call(env, tasks):
    import decimal

    import mpmath

    before = mpmath.mp.dps, decimal.getcontext().prec
    env.reset(options={"task": next(t for t in tasks.values() if "MathAPI" in t.apis)})
    assert env.step(action("square_root", number=2, precision=5))[0] == "{'result': Decimal('1.4142')}"
    assert env.step(action("logarithm", value=8, base=2, precision=5))[0] == "{'result': mpf('3.0')}"
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


def test_initial_configurations_are_never_changed(tasks):
    before = {name: json.dumps(task.world.config) for name, task in tasks.items()}
    assert len(conversations(list(tasks.values()))) == 800
    assert before == {name: json.dumps(task.world.config) for name, task in tasks.items()}


# ---------------------------------------------------------------------- snapshots


def test_restoring_twice_gives_the_same(env, tasks):
    for task in list(tasks.values())[::16]:
        play_gold(env, task, upto=1)
        snapshot = env.snapshot()
        kept = pickle.dumps(snapshot.world.simulators)
        ends = []
        for _ in range(2):
            env.restore(snapshot)
            for turn in task.turns[1:]:
                for call in turn.calls:
                    env.step(action(call.tool, **call.arguments))
                *_, info = env.step("Done.")
            ends.append((info["progress"], list(info["messages"])))
        assert ends[0] == ends[1]
        assert pickle.dumps(snapshot.world.simulators) == kept


def test_a_snapshot_in_mid_turn_survives_anything(env, tasks):
    """Calls of other tasks, after the snapshot, do not reach it; another environment goes on from it to success."""
    rng = np.random.default_rng(0)
    pool = [call for task in tasks.values() for call in task.calls]
    other = gym.make("ToolUse-BFCL-v0", split="all").unwrapped
    for task in list(tasks.values())[7::16]:
        turn = int(rng.integers(len(task.turns)))
        play_gold(env, task, upto=turn)
        calls = task.turns[turn].calls
        done = int(rng.integers(len(calls) + 1))
        for call in calls[:done]:
            env.step(action(call.tool, **call.arguments))
        snapshot = env.snapshot()
        own = [call for call in pool if call.tool in task.tools]
        for _ in range(8):
            call = own[int(rng.integers(len(own)))]
            env.step(action(call.tool, **call.arguments))
        other.restore(pickle.loads(pickle.dumps(snapshot)) if done % 2 else snapshot)
        for call in calls[done:]:
            other.step(action(call.tool, **call.arguments))
        *_, info = other.step("Done.")
        for later in task.turns[turn + 1 :]:
            for call in later.calls:
                other.step(action(call.tool, **call.arguments))
            *_, info = other.step("Done.")
        assert info["progress"] == 1.0, task.id


def test_an_environment_can_be_copied_in_mid_episode(env, tasks):
    task = tasks["multi_turn_long_context_150"]
    play_gold(env, task, upto=1)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    for twin in (env, *twins):
        for turn in task.turns[1:]:
            for call in turn.calls:
                twin.step(action(call.tool, **call.arguments))
            *_, info = twin.step("Done.")
        assert info["progress"] == 1.0
