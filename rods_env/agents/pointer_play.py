"""Episodes of the pointer policy: groups for training, one greedy episode a task for evaluation, and the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from rods_env.agents.pointer import Batch, PointerNet
from rods_env.agents.pointer_tree import Forest, Node
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

_MOST_STATES = 512  # states that are scored at once


class NotListedError(RodsError):
    """A gold call is not among the actions: there are at most 64 of a tool."""


class Episode(NamedTuple):
    """An episode that ended.

    Attributes:
        nodes: the states in which it acted, and the one in which it ended.
        actions: what it did in each but the last.
    """

    nodes: list[Node]
    actions: list[int]

    @property
    def progress(self) -> float:
        """R_P, in [0, 1]."""
        return self.nodes[-1].progress

    @property
    def success(self) -> bool:
        """Whether every turn passed."""
        return self.nodes[-1].progress >= 1.0


def play(net: PointerNet, forest: Forest, roots: Sequence[Node], noise: np.ndarray | None = None) -> list[Episode]:
    """Plays an episode from each root, in lockstep.

    Args:
        net: the policy.
        forest: grows the trees.
        roots: one for each episode; the same one for several episodes of a group.
        noise: what draws actions at temperature 1: uniform numbers in [0, 1) of shape `(episodes, forest.max_steps)`,
            so that an episode's chance is its own. None: the likeliest action, the first of equals.
    """
    episodes = [Episode([root], []) for root in roots]
    running = list(enumerate(episodes))
    scored: dict[int, np.ndarray] = {}  # by identity of the node
    while running:
        here = {id(episode.nodes[-1]): episode.nodes[-1] for _, episode in running}
        scored.update(_scores(net, [node for key, node in here.items() if key not in scored], noise is None))
        wanted: dict[int, dict[int, None]] = {key: {} for key in here}
        for row, episode in running:
            key = id(episode.nodes[-1])
            found = scored[key]
            if noise is None:
                action = int(found[0])
            else:
                action = int(np.searchsorted(found, noise[row, len(episode.actions)] * found[-1], "right"))
            episode.actions.append(action)
            wanted[key][action] = None
        for key, node in here.items():
            forest.grow(node, wanted[key])
        for _, episode in running:
            episode.nodes.append(episode.nodes[-1].children[episode.actions[-1]])
        running = [(row, episode) for row, episode in running if episode.nodes[-1].ended is None]
    forest.leave()
    return episodes


def oracle(forest: Forest, task: Task) -> Episode:
    """The episode of the gold calls.

    Raises:
        NotListedError: if one of them is not among the actions.
        RodsError: if the episode is truncated before they are made.
    """
    episode = Episode([forest.root(task)], [])
    for turn in task.turns:
        for call in turn.calls:
            action = forest.standing_at(episode.nodes[-1]).action_of(call.tool, call.arguments)
            if action is None:
                forest.leave()
                raise NotListedError(
                    f"{task.id}: the gold call of {call.tool} is not among the actions: {call.arguments}."
                )
            _go(forest, episode, action)
        _go(forest, episode, 0)
    forest.leave()
    return episode


def _go(forest: Forest, episode: Episode, action: int) -> None:
    episode.actions.append(action)
    episode.nodes.append(forest.child(episode.nodes[-1], action))


def _scores(net: PointerNet, nodes: Sequence[Node], greedy: bool) -> dict[int, np.ndarray]:
    """For each node the sums of probabilities up to each action, or the likeliest action alone."""
    found = {}
    for start in range(0, len(nodes), _MOST_STATES):
        some = nodes[start : start + _MOST_STATES]
        with torch.no_grad():
            logs = net(Batch(some)).numpy()
        end = 0
        for node in some:
            begin, end = end, end + len(node.tool)
            mine = logs[begin:end]
            found[id(node)] = np.array([mine.argmax()]) if greedy else np.exp(mine, dtype=np.float64).cumsum()
    return found
