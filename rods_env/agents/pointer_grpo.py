"""How the pointer policy learns: from the oracle's episodes first (`warm_up`), then from reward (`PointerGrpo`).

GRPO (arXiv 2402.03300) in a page, as an example of an agent of one's own: groups of episodes of one task, returns
relative to the group's, one step of gradient ascent on fresh episodes, so that neither ratios nor clips are needed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import msgspec
import numpy as np
import torch

from rods_env.agents.pointer import Batch, PointerNet
from rods_env.agents.pointer_play import Episode
from rods_env.agents.pointer_tree import Node

_NO_SPREAD = 1e-9


class PointerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the pointer policy is trained; chosen on the arm `fixed` and the tuning tasks, see docs/results.md.

    Attributes:
        group_size: episodes of a group.
        groups_per_step: groups of an update.
        learning_rate: of Adam, in training by reward.
        final_rate: the share of it that is left at the end; it falls evenly.
        entropy: weight of the mean entropy of the visited states in the objective.
        average: the share of the averaged weights that an update keeps; the averaged network is what is evaluated.
        credit: "turn": an action is credited with what is paid from its turn on. "episode": with the return.
        scale: whether advantages are divided by the group's standard deviation.
        max_norm: to which gradients are clipped.
        width: of the network.
        warmup_epochs: how often each is shown.
        warmup_rate: the learning rate of Adam there.
        warmup_batch: episodes of an update there.
    """

    group_size: int = 8
    groups_per_step: int = 8
    learning_rate: float = 3e-3
    final_rate: float = 0.0
    entropy: float = 0.0
    average: float = 0.97
    credit: str = "turn"
    scale: bool = True
    max_norm: float = 1.0
    width: int = 96
    warmup_epochs: int = 12
    warmup_rate: float = 1e-3
    warmup_batch: int = 32


def warm_up(net: PointerNet, episodes: Sequence[Episode], settings: PointerSettings, seed: int) -> list[float]:
    """Teaches the network to do what episodes did.

    Args:
        net: is changed.
        episodes: of the oracle.
        settings: of the warm-up.
        seed: of the order of episodes.

    Returns:
        The mean negative log-likelihood of an action, in nats, by epoch.
    """
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(net.parameters(), settings.warmup_rate)
    losses = []
    for _ in range(settings.warmup_epochs):
        order = rng.permutation(len(episodes))
        total, count = 0.0, 0
        for start in range(0, len(order), settings.warmup_batch):
            shown = [episodes[k] for k in order[start : start + settings.warmup_batch]]
            steps = sum(len(episode.actions) for episode in shown)
            total += imitate(net, optimizer, shown, settings) * steps
            count += steps
        losses.append(total / max(count, 1))
    return losses


def imitate(
    net: PointerNet, optimizer: torch.optim.Optimizer, episodes: Sequence[Episode], settings: PointerSettings
) -> float:
    """One update towards what episodes did. Returns the mean negative log-likelihood of an action before it."""
    weights = Weights()
    each = 1.0 / sum(len(episode.actions) for episode in episodes)
    for episode in episodes:
        for node, action in zip(episode.nodes, episode.actions, strict=False):
            weights.add(node, action, each)
    return weights.ascend(net, optimizer, settings)


class Weights:
    """How much the log-probability of actions in states should rise: what any number of episodes ask for, summed."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[Node, dict[int, float]]] = {}

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add(self, node: Node, action: int, weight: float) -> None:
        """An episode took this action here, and is worth so much."""
        _, actions = self._nodes.setdefault(id(node), (node, {}))
        actions[action] = actions.get(action, 0.0) + weight

    def ascend(
        self, net: PointerNet, optimizer: torch.optim.Optimizer, settings: PointerSettings, entropy: float = 0.0
    ) -> float:
        """One step of gradient ascent. Returns the loss."""
        nodes = [node for node, _ in self._nodes.values()]
        batch = Batch(nodes)
        starts = np.concatenate(([0], np.cumsum(batch.counts.numpy())[:-1]))
        places: list[int] = []
        wanted: list[float] = []
        for start, (_, actions) in zip(starts.tolist(), self._nodes.values(), strict=True):
            places += [start + action for action in actions]
            wanted += actions.values()
        logs = net(batch)
        loss = -(logs[torch.tensor(places)] * torch.tensor(wanted, dtype=torch.float32)).sum()
        if entropy:
            loss = loss + entropy * (logs * logs.exp()).sum() / len(nodes)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), settings.max_norm)
        optimizer.step()
        return float(loss.detach())


class PointerGrpo:
    """GRPO for the pointer policy.

    Args:
        net: is changed.
        settings: of the training.
        updates: how many there will be, for the learning rate.
    """

    def __init__(self, net: PointerNet, settings: PointerSettings, updates: int) -> None:
        self.net = net
        self.settings = settings
        self.averaged = copy.deepcopy(net)
        self.updates = updates
        self._done = 0
        self._optimizer = torch.optim.Adam(net.parameters(), settings.learning_rate)

    def update(self, groups: Sequence[Sequence[Episode]]) -> bool:
        """One update from the groups of a step. Returns whether there was anything to learn from."""
        episodes = sum(map(len, groups))
        weights = Weights()
        for group in groups:
            advantages = advantages_of(group, self.settings)
            for episode, values in zip(group, advantages, strict=True):
                for node, action, value in zip(episode.nodes, episode.actions, values, strict=False):
                    if value:
                        weights.add(node, action, value / episodes)
        share = 1.0 - (1.0 - self.settings.final_rate) * min(1.0, self._done / self.updates)
        self._done += 1
        for part in self._optimizer.param_groups:
            part["lr"] = self.settings.learning_rate * share
        if weights:
            weights.ascend(self.net, self._optimizer, self.settings, self.settings.entropy)
        with torch.no_grad():
            for mean, now in zip(self.averaged.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 1.0 - self.settings.average)
        return bool(weights)


def advantages_of(group: Sequence[Episode], settings: PointerSettings) -> list[list[float]]:
    """The advantage of each action of each episode.

    With credit by episode it is R_i − mean(R), over the standard deviation of R if `scale`. With credit by turn, R is
    what is paid from the action's turn on, compared among the group's episodes; they all reach turn k, or are paid
    nothing from it on.
    """
    turns = max(node.turn for episode in group for node in episode.nodes) + 1
    paid = np.zeros((len(group), turns))
    for row, episode in enumerate(group):
        for before, after in zip(episode.nodes, episode.nodes[1:], strict=False):
            paid[row, before.turn] += after.paid
    togo = paid[:, ::-1].cumsum(axis=1)[:, ::-1]
    if settings.credit == "episode":
        togo = np.repeat(togo[:, :1], turns, axis=1)
    advantages = togo - togo.mean(axis=0)
    spread = togo[:, 0].std() if settings.credit == "episode" else togo.std(axis=0)
    if settings.scale:
        advantages = advantages / np.maximum(spread, 1e-4)
    advantages[:, togo.max(axis=0) - togo.min(axis=0) <= _NO_SPREAD] = 0.0
    return [
        [float(advantages[row, node.turn]) for node in episode.nodes[:-1]] for row, episode in enumerate(group)
    ]  # fmt: skip

