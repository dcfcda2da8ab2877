"""`SimulatedLearner`: stands for a policy in training, without network or environment, to see what curricula do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from rods_env.apis.api import SKILLS
from rods_env.curricula.statistics import group_of
from rods_env.tasks.graph import Profile
from rods_env.tasks.task import Task

Array = np.ndarray[Any, np.dtype[np.float64]]

_DEEPEST = 6  # calls below that depth count as this deep
_CELLS = {(skill, depth): n for n, (depth, skill) in enumerate((d, s) for d in range(1, _DEEPEST + 1) for s in SKILLS)}
_ASKING = len(_CELLS)  # the cell of turns without a call, in which the agent should ask


class SimulatedLearner:
    """Masters turns and skills by practice on groups that disagree. A picture of a mechanism, and no evidence.

    *Playing.* A turn passes with the probability σ(ability − difficulty), in logits. Its ability is the mean over its
    calls of what the learner can do with that skill at that depth of the dependency graph, and what it remembers of
    this very task. The difficulty is drawn once for every profile and turn, so variants of a task behave alike and
    other tasks differ; it spreads over so many logits that most turns are sure or hopeless. After a failed turn the
    later ones are harder by `setback`, because the world is no longer as they need it. The return is the share of turns
    passed, so a task whose first turn is sure and whose second is hopeless has a middling mean and no variance.

    *Learning.* A group whose returns agree teaches nothing: that is GRPO's gradient. Of any other, each turn teaches in
    proportion to 4p(1−p), how open it was: skills, which serve all tasks, and a memory of the task, which serves only
    this one. A task that is played again and again is remembered and stops to teach; that is how a fixed set runs out.

    The numbers [ours] follow a trial with a trained network: held-out success began at 0.17 and was, after 5,125 and
    10,250 groups of 8, 0.42 and 0.45 with fixed tasks, 0.48 and 0.65 with a pool of random variants, 0.50 and 0.66 with
    tasks that never came twice. Here it begins at 0.19 and is 0.37 and 0.44, 0.43 and 0.56, 0.49 and 0.62; at the start
    0.45 of the groups have no variance: 0.21 are all 0, 0.11 all 1, and 0.13 in between.

    Args:
        seed: of the difficulties and of all returns.
        rate: logits that an open turn adds to the skills it asks for, shared among them.
        memory: logits that an open turn adds to what is remembered of it.
        setback: logits by which turns after a failed one are harder.
        difficulty: mean of a first turn, in logits; each further turn is one logit harder.
        task_spread, turn_spread: standard deviations of the difficulties of tasks, and of turns in them, in logits.
    """

    def __init__(
        self, seed: int = 0, *, rate: float = 0.03, memory: float = 1.0, setback: float = 4.0,
        difficulty: float = -0.5, task_spread: float = 4.5, turn_spread: float = 6.0,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.rate, self.memory, self.setback = rate, memory, setback
        self.difficulty, self.task_spread, self.turn_spread = difficulty, task_spread, turn_spread
        self.abilities: Array = np.zeros(len(_CELLS) + 1)
        self._rng = np.random.default_rng([seed, 2])  # not the stream of a curriculum with the same seed
        self._shapes: dict[Profile, tuple[Array, Array]] = {}  # of each turn: shares of cells, and difficulty
        self._remembered: dict[str, Array] = {}

    def returns(self, task: Task, n: int) -> list[float]:
        """Plays a task `n` times: the share of turns passed in each, in [0, 1]."""
        logits, passed, setback = self._logits([task]), np.zeros(n), np.zeros(n)
        for logit, luck in zip(logits, self._rng.logistic(size=(len(logits), n)), strict=True):
            passes = luck < logit - setback
            passed += passes
            setback[~passes] = self.setback
        return [float(share) for share in passed / len(logits)]

    def learn(self, task: Task, returns: Sequence[float]) -> None:
        """Learns from the returns of a group, unless they agree."""
        if group_of(returns)[2]:  # they agree
            return
        passes = _logistic(self._logits([task]))
        practice = 4.0 * passes * (1.0 - passes)
        self.abilities += self.rate * (practice @ self._shape(task)[0])
        self._remembered[task.id] = self._remembered.get(task.id, 0.0) + self.memory * practice

    def outcomes(self, tasks: Sequence[Task]) -> Array:
        """The probability of every number of turns passed, now: tasks × (0 … the most turns of any of them)."""
        turns = np.array([len(task.turns) for task in tasks])
        width = int(turns.max())
        has = np.arange(width) < turns[:, None]
        clean, dirty = np.ones(has.shape), np.zeros(has.shape)  # turns that a task lacks are passed, and not counted
        logits = self._logits(tasks)
        clean[has], dirty[has] = _logistic(logits), _logistic(logits - self.setback)
        found = np.zeros((len(tasks), width + 1))  # of episodes in which a turn failed, by turns passed
        flawless = np.ones(len(tasks))
        for turn in range(width):
            passed = found * dirty[:, turn, None]
            found -= passed
            found[:, 1:] += passed[:, :-1]
            found[:, turn] += flawless * (1.0 - clean[:, turn])
            flawless *= clean[:, turn]
        found[np.arange(len(tasks)), turns] += flawless
        return found

    def success(self, tasks: Sequence[Task]) -> float:
        """The expected share of episodes in which every turn passes, if each task is played as often."""
        return float(np.mean([row[len(task.turns)] for task, row in zip(tasks, self.outcomes(tasks), strict=True)]))

    def disagreement(self, tasks: Sequence[Task], n: int) -> Array:
        """For each task the probability that the returns of a group of `n` differ."""
        return np.asarray(1.0 - (self.outcomes(tasks) ** n).sum(axis=1))

    def _logits(self, tasks: Sequence[Task]) -> Array:
        """Ability minus difficulty of every turn, one task after the other."""
        shares, difficulties = zip(*map(self._shape, tasks), strict=True)
        logits: Array = np.concatenate(shares) @ self.abilities - np.concatenate(difficulties)
        at = 0
        for task in tasks:
            logits[at : at + len(task.turns)] += self._remembered.get(task.id, 0.0)
            at += len(task.turns)
        return logits

    def _shape(self, task: Task) -> tuple[Array, Array]:
        shape = self._shapes.get(task.profile)
        if shape is None:
            shape = self._shapes[task.profile] = _shares(task), self._difficulty(task.profile)
        return shape

    def _difficulty(self, profile: Profile) -> Array:
        turns = len(profile.calls)
        name = f"{self.seed} {profile.kind} {profile.calls} {profile.digest}".encode()
        number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
        of_task, *of_turns = np.random.default_rng(number).standard_normal(1 + turns)
        found: Array = self.difficulty + np.arange(turns) + self.task_spread * of_task
        return found + self.turn_spread * np.array(of_turns)


def _shares(task: Task) -> Array:
    """For each turn the shares of its calls by cell, turns × cells."""
    labels, edges = task.structure
    depths = [1] * len(labels)
    for (source, target), _ in sorted(edges, key=lambda edge: edge[0][1]):
        depths[target] = max(depths[target], depths[source] + 1)
    shares = np.zeros((len(task.turns), len(_CELLS) + 1))
    for turn, label, depth in zip(task.turn_of_call, labels, depths, strict=True):
        skill = label.split()[0]
        shares[turn, _CELLS[skill, min(depth, _DEEPEST)]] += 1.0
    shares[~shares.any(axis=1), _ASKING] = 1.0
    found: Array = shares / shares.sum(axis=1, keepdims=True)
    return found


def _logistic(logits: Array) -> Array:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logits))  # never overflows
