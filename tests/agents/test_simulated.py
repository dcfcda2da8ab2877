"""The simulated learner: what it returns, how it learns and forgets, and what it looks like at the start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rods_env.agents.simulated import SimulatedLearner
from rods_env.benchmarks.curriculum import renamed
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

OPEN = [0.0, 1.0]  # returns that differ


def agreements(learner: SimulatedLearner, tasks: Sequence[Task], n: int) -> dict[str, float]:
    """The expected shares of groups of `n` that agree, by what all of their returns are."""
    alike = learner.outcomes(tasks) ** n
    full = np.array([alike[row, len(task.turns)] for row, task in enumerate(tasks)])
    shares = {"all": alike.sum(axis=1), "zero": alike[:, 0], "one": full}
    found = {name: float(values.mean()) for name, values in shares.items()}
    return {**found, "between": found["all"] - found["zero"] - found["one"]}


def logits_of(chance: float) -> float:
    return float(np.log(chance / (1 - chance)))


# ---------------------------------------------------------------------- playing


def test_equal_seeds_play_alike_in_every_process(seeds: list[Task]) -> None:
    def played(seed: int) -> list[list[float]]:
        learner, found = SimulatedLearner(seed), []
        for task in seeds[:40]:
            found.append(learner.returns(task, 4))
            learner.learn(task, found[-1])
        return found

    code = (
        "import json, rods_env; from rods_env.agents.simulated import SimulatedLearner as L\n"
        "learner, found = L(3), []\n"
        "for task in rods_env.load_tasks('seeds')[:40]:\n"
        "    found.append(learner.returns(task, 4)); learner.learn(task, found[-1])\n"
        "print(json.dumps(found))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert json.loads(other.stdout) == played(3) != played(4)


def test_returns_are_shares_of_the_turns(seeds: list[Task]) -> None:
    learner = SimulatedLearner(1)
    for task in seeds[:60]:
        returns = learner.returns(task, 5)
        assert len(returns) == 5
        assert set(returns) <= {passed / len(task.turns) for passed in range(len(task.turns) + 1)}


def test_outcomes_are_distributions(seeds: list[Task]) -> None:
    found = SimulatedLearner(0).outcomes(seeds)
    assert found.shape == (400, 7)
    assert found.min() >= 0
    assert np.allclose(found.sum(axis=1), 1)
    for row, task in enumerate(seeds):
        assert not found[row, len(task.turns) + 1 :].any()


def test_a_task_has_the_same_outcomes_alone_and_among_longer_ones(seeds: list[Task]) -> None:
    learner = SimulatedLearner(0)
    for row, task in zip(learner.outcomes(seeds), seeds, strict=True):
        alone = learner.outcomes([task])[0]
        assert np.allclose(row[: len(alone)], alone)


def test_what_it_plays_is_what_it_expects(seeds: list[Task]) -> None:
    learner = SimulatedLearner(0)
    for task in [task for task in seeds if learner.disagreement([task], 4)[0] > 0.5][:5]:
        played = np.array([learner.returns(task, 4) for _ in range(1500)])
        share = np.array([np.mean(played == k / len(task.turns)) for k in range(len(task.turns) + 1)])
        assert np.allclose(share, learner.outcomes([task])[0], atol=0.03)  # 6000 draws: three standard errors are 0.02
        differ = (played.max(axis=1) > played.min(axis=1)).mean()
        assert differ == pytest.approx(learner.disagreement([task], 4)[0], abs=0.05)  # 1500 groups: 0.04


def test_chances_by_hand(some: Callable[..., Task]) -> None:
    task = some("base", lambda task: len(task.turns) == 2)
    learner = SimulatedLearner(0, difficulty=0.0, task_spread=0.0, turn_spread=0.0, setback=logits_of(0.9))
    second, late = 1 / (1 + np.e), 1 / (1 + np.e * 9)  # a logit harder; and after a failure by log 9
    assert np.allclose(learner.outcomes([task])[0], [0.5 * (1 - late), 0.5 * late + 0.5 * (1 - second), 0.5 * second])
    assert learner.success([task]) == pytest.approx(0.5 * second)


def test_a_failed_turn_makes_later_ones_harder_and_success_no_rarer(seeds: list[Task]) -> None:
    free, strict = SimulatedLearner(0, setback=0.0), SimulatedLearner(0, setback=8.0)
    assert free.success(seeds) == pytest.approx(strict.success(seeds))
    assert free.outcomes(seeds)[:, 0].mean() < strict.outcomes(seeds)[:, 0].mean()


def test_variants_behave_alike_and_seeds_of_a_kind_do_not(seeds: list[Task]) -> None:
    learner = SimulatedLearner(0)
    first = seeds[0]
    assert np.array_equal(learner.outcomes([first]), learner.outcomes([renamed(first, "other", first.id)]))
    alike = [task for task in seeds if (task.kind, len(task.turns)) == (first.kind, len(first.turns))]
    assert len(alike) > 5
    assert learner.outcomes(alike).std(axis=0).max() > 0.1


def test_another_learner_finds_other_tasks_hard(seeds: list[Task]) -> None:
    one, other = (SimulatedLearner(seed).outcomes(seeds)[:, 0] for seed in (0, 1))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.3


# ---------------------------------------------------------------------- learning


def test_a_group_that_agrees_teaches_nothing(seeds: list[Task]) -> None:
    learner = SimulatedLearner(0)
    before = learner.outcomes(seeds)
    for task in seeds:
        for value in (0.0, 0.5, 0.999):
            learner.learn(task, [value, value + 1e-12])
    assert np.array_equal(before, learner.outcomes(seeds))


def test_a_group_that_disagrees_teaches_skills_to_all_and_more_to_the_task_itself(seeds: list[Task]) -> None:
    learner = SimulatedLearner(0)
    openness = learner.disagreement(seeds, 8)
    task = seeds[int(openness.argmax())]
    others = [other for other in seeds if other.profile != task.profile]
    variant = renamed(task, "variant", task.id)
    before = learner.success([task]), learner.success([variant]), learner.outcomes(others)
    learner.learn(task, OPEN)
    gain = learner.success([task]) - before[0], learner.success([variant]) - before[1]
    assert gain[0] > gain[1] > 0
    assert not np.array_equal(learner.outcomes(others), before[2])
    assert learner.success(others) > before[2][range(len(others)), [len(other.turns) for other in others]].mean()


def test_sure_and_hopeless_turns_teach_nothing(seeds: list[Task]) -> None:
    for difficulty in (-80.0, 80.0):
        learner = SimulatedLearner(0, difficulty=difficulty, task_spread=0.0, turn_spread=0.0)
        learner.learn(seeds[0], OPEN)
        assert np.abs(learner.abilities).max() < 1e-9


def test_a_task_played_again_and_again_is_remembered_and_stops_to_teach(seeds: list[Task]) -> None:
    same, fresh = SimulatedLearner(0), SimulatedLearner(0)
    task = seeds[int(same.disagreement(seeds, 8).argmax())]
    for number in range(80):
        same.learn(task, OPEN)
        fresh.learn(renamed(task, f"v{number}", task.id), OPEN)
    assert same.abilities.sum() < 0.5 * fresh.abilities.sum()
    assert same.disagreement([task], 8)[0] < 0.2 < fresh.disagreement([task], 8)[0]


@pytest.mark.parametrize("returns", [[0.5], [0.1, float("nan")], [0.0, 1.5], []])
def test_returns_that_are_none_are_refused(seeds: list[Task], returns: list[float]) -> None:
    with pytest.raises(RodsError, match="return"):
        SimulatedLearner(0).learn(seeds[0], returns)


# ---------------------------------------------------------------------- at the start


@pytest.mark.parametrize(("n", "low", "high"), [(8, 0.40, 0.50), (16, 0.30, 0.40)])
def test_at_the_start_nearly_half_of_the_groups_agree_in_all_three_ways(
    seeds: list[Task], n: int, low: float, high: float
) -> None:
    for seed in range(5):
        shares = agreements(SimulatedLearner(seed), seeds, n)
        assert low < shares["all"] < high
        assert min(shares["zero"], shares["one"], shares["between"]) > 0.06


def test_at_the_start_it_succeeds_now_and_then(heldout: list[Task]) -> None:
    assert all(0.14 < SimulatedLearner(seed).success(heldout) < 0.24 for seed in range(5))
