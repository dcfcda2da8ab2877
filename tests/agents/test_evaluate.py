"""`evaluate`: figures that add up, files equal to the byte, crashes that are no zeros."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter

import gymnasium as gym
import pytest

import rods_env
from rods_env.agents.evaluate import wilson
from rods_env.agents.scripted import DoNothing, Oracle, RandomCalls
from rods_env.apis.registry import TOOLS
from rods_env.errors import RodsError
from rods_env.tasks.task import save_tasks


class Half(Oracle):
    """The oracle, which gives up after the first turn of every second task."""

    def __init__(self, env):
        super().__init__(env)
        self.begun = []

    def begin(self, task_info):
        super().begin(task_info)
        self.begun.append(task_info["task_id"])

    def act(self, messages, tools):
        return "No." if len(self.begun) % 2 == 0 and self._env.turn > 0 else super().act(messages, tools)


class Mute:
    """No agent: it cannot act."""

    def __init__(self, env):
        self.env = env


@pytest.fixture(scope="module")
def tasks(seeds):
    return seeds[::5]


@pytest.fixture(scope="module")
def half(tasks):
    return rods_env.evaluate(Half, tasks, seed=3)


# --- figures ---


def test_equal_runs_give_equal_files(tasks, half, tmp_path):
    """Row 21: the same policy and seed, the same score file to the byte."""
    files = []
    for number, agent in enumerate((Half, Half, RandomCalls(1), RandomCalls(1), RandomCalls(2))):
        path = tmp_path / f"{number}.json"
        rods_env.evaluate(agent, tasks, seed=3).save(path)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert files[2] == files[3]
    assert len(set(files)) == 3
    half.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == files[0]
    data = json.loads(files[0])
    assert data["success"] == half.success
    assert [episode["task_id"] for episode in data["episode_list"]] == [task.id for task in tasks]


def test_file_holds_all_figures_flat(half, tmp_path):
    half.save(tmp_path / "some.json")
    data = json.loads((tmp_path / "some.json").read_text())
    figures = half.figures()
    assert {key: value for key, value in data.items() if key != "episode_list"} == figures
    assert all(isinstance(value, (int, float)) for value in figures.values())
    assert {"seed", "crashed", "episodes"} <= set(figures)
    assert {"success", "success_low", "success_high", "progress", "progress_low", "progress_high"} <= set(figures)
    assert {"by_kind/base/success", "by_api/shop/progress", "terminations/completed"} <= set(figures)
    assert half.progress == half.overall.progress == figures["progress"]


def test_groups_add_up(half, tasks):
    episodes = half.episodes
    assert half.overall.episodes == len(episodes) == len(tasks) == 80
    assert half.overall.success == sum(e.success for e in episodes) / 80
    assert half.overall.progress == pytest.approx(sum(e.progress for e in episodes) / 80)
    assert 0.4 < half.success < 1
    groups = {"by_kind": lambda e: [e.kind], "by_depth": lambda e: [str(e.depth)], "by_api": lambda e: e.apis}
    for group, of in groups.items():
        scores = getattr(half, group)
        assert len(scores) > 2
        for name, score in scores.items():
            inside = [e for e in episodes if name in of(e)]
            assert score.episodes == len(inside) > 0
            assert score.success == pytest.approx(sum(e.success for e in inside) / len(inside))
            assert score.progress == pytest.approx(sum(e.progress for e in inside) / len(inside))
            assert 0 <= score.success_low <= score.success <= score.success_high <= 1
            assert 0 <= score.progress_low <= score.progress <= score.progress_high <= 1
    assert sum(score.episodes for score in half.by_kind.values()) == 80
    assert sum(score.episodes for score in half.by_depth.values()) == 80
    assert sum(score.episodes for score in half.by_api.values()) == sum(len(e.apis) for e in episodes)
    assert sum(half.terminations.values()) == 80
    for episode, task in zip(episodes, tasks, strict=True):
        assert (episode.task_id, episode.kind, episode.depth) == (task.id, task.kind, task.profile.depth)
        assert set(episode.apis) == {TOOLS[call.tool].api.NAME for call in task.calls}


def test_a_score_of_all_or_none_has_an_honest_interval(tasks):
    for agent, share in ((Oracle, 1.0), (DoNothing(), 0.0)):
        overall = rods_env.evaluate(agent, tasks).overall
        assert (overall.success, overall.progress) == (share, share)
        assert overall.success_high - overall.success_low == pytest.approx(0.0458, abs=1e-3)
        assert (overall.progress_low, overall.progress_high) == (share, share)


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.27753), (10, 10, 0.72247, 1.0), (5, 10, 0.23659, 0.76341), (1, 1, 0.20655, 1.0),
        (81, 263, 0.25528, 0.36621), (15, 148, 0.06237, 0.16054), (0, 20, 0.0, 0.16113), (1, 29, 0.00611, 0.17176),
    ],
)  # fmt: skip
def test_wilson_against_known_values(passed, n, low, high):
    """Newcombe (1998), table I, method 3, for 81/263, 15/148, 0/20 and 1/29; the others from the formula by hand."""
    assert wilson(passed, n) == pytest.approx((low, high), abs=6e-5)
    assert wilson(passed, n)[0] <= passed / n <= wilson(passed, n)[1], "to the last digit"


def test_bootstrap_follows_the_seed(tasks, half):
    other = rods_env.evaluate(Half, tasks, seed=4)
    assert other.episodes == half.episodes
    assert other.overall.success_low == half.overall.success_low
    ends = [(score.progress_low, score.progress_high) for score in (half.overall, other.overall)]
    assert ends[0] != ends[1]
    assert other.overall.progress_low == pytest.approx(half.overall.progress_low, abs=0.03)


# --- crashes ---


def test_a_crash_of_the_environment_is_no_zero(tasks, monkeypatch, caplog, half):
    """Row 6: the episode has no score, is counted, and is logged."""
    name, _ = Counter(tool for task in tasks for tool in sorted(_tools(task))).most_common(1)[0]
    broken = [task.id for task in tasks if name in _tools(task)]
    assert 3 <= len(broken) < len(tasks)
    for task in tasks:
        assert task.gold

    def crash(*arguments):
        raise RuntimeError("a bug in a tool")

    monkeypatch.setattr(TOOLS[name].api, name, crash)
    ticks = []
    with caplog.at_level(logging.ERROR):
        result = rods_env.evaluate(Oracle, tasks, progress=ticks.append)
    assert result.crashed == len(broken)
    assert [e.task_id for e in result.episodes] == [task.id for task in tasks if task.id not in broken]
    assert (result.success, result.progress) == (1.0, 1.0), "a crash is not the agent's failure"
    assert result.overall.episodes == sum(s.episodes for s in result.by_kind.values()) == len(tasks) - len(broken)
    logged = [record for record in caplog.records if record.exc_info]
    assert [next(i for i in broken if i in record.getMessage()) for record in logged] == broken
    assert all("a bug in a tool" in str(record.exc_info[1]) for record in logged)
    assert sum(ticks) == len(tasks)
    assert result.figures()["crashed"] == len(broken)


def _tools(task):
    return {call.tool for call in task.calls}


def test_when_everything_crashes_there_is_no_score(tasks, monkeypatch, tmp_path):
    """Row 6: not 0, but nothing; the file can be written all the same."""
    monkeypatch.setattr(rods_env.envs.tool_use.ToolUseEnv, "step", lambda self, action: 1 / 0)
    result = rods_env.evaluate(DoNothing(), tasks[:4])
    assert result.crashed == 4
    assert result.episodes == []
    assert math.isnan(result.success)
    assert math.isnan(result.progress)
    assert (result.overall.success_low, result.overall.success_high) == (0.0, 1.0)
    result.save(tmp_path / "none.json")
    assert json.loads((tmp_path / "none.json").read_text())["success"] is None


# --- what it takes ---


def test_agents_as_object_class_and_function(tasks):
    few = tasks[:6]
    agents = [Oracle, lambda env: Oracle(env)]
    assert [rods_env.evaluate(agent, few).success for agent in agents] == [1.0, 1.0]

    class Asker:
        """Takes no environment, and has no `begin`."""

        def act(self, messages, tools):
            assert messages[0]["role"] == "system"
            assert all(tool["type"] == "function" for tool in tools)
            return "Which one?"

    assert rods_env.evaluate(Asker(), few).success == 0.0


def test_begin_is_called_once_for_every_task_in_order(tasks):
    made = []

    def make(env):
        made.append(Half(env))
        return made[0]

    rods_env.evaluate(make, tasks)
    assert len(made) == 1
    assert made[0].begun == [task.id for task in tasks]


def test_messages_and_tools_are_those_of_the_moment(some):
    """The tools that come with a later turn reach the agent; it gets lists of its own."""
    task = some("missing_function", lambda task: bool(task.turns[1].adds))
    seen = []

    class Watcher(Oracle):
        def act(self, messages, tools):
            seen.append({tool["function"]["name"] for tool in tools})
            assert type(messages) is list
            answer = super().act(messages, tools)
            messages.clear()
            return answer

    assert rods_env.evaluate(Watcher, [task]).success == 1.0
    assert not seen[0].issuperset(task.turns[1].adds)
    assert seen[-1].issuperset(task.turns[1].adds)


@pytest.mark.parametrize("wrong", [object(), 5, "oracle", None, lambda env: env, Mute])
def test_an_agent_without_act_is_refused(wrong, tasks):
    with pytest.raises(RodsError, match=r"expected an agent with act\(messages, tools\) -> str; got \w+"):
        rods_env.evaluate(wrong, tasks[:2])


def test_tasks_by_name_path_and_list(tasks, tmp_path):
    path = tmp_path / "few.jsonl"
    save_tasks(tasks[:3], path)
    ids = [task.id for task in tasks[:3]]
    for given in (path, str(path), tasks[:3], iter(tasks[:3])):
        assert [e.task_id for e in rods_env.evaluate(DoNothing(), given).episodes] == ids
    with pytest.raises(RodsError, match="at least one task"):
        rods_env.evaluate(DoNothing(), [])
    with pytest.raises(RodsError, match="nope"):
        rods_env.evaluate(DoNothing(), "nope")


def test_options_and_environments_are_used(tasks):
    short = rods_env.evaluate(Oracle, tasks[:10], max_steps=1)
    assert set(short.terminations) == {"step_limit"}
    assert rods_env.evaluate(Oracle, tasks[:10], call_format="python").success == 1.0
    env = gym.make("ToolUse-RODS-v0", tasks=tasks[:1], max_steps=1)
    assert set(rods_env.evaluate(Oracle, tasks[:10], env=env).terminations) == {"step_limit"}
    with pytest.raises(RodsError, match="call_format"):
        rods_env.evaluate(Oracle, tasks[:2], call_format="xml")
