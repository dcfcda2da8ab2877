"""Episodes of `DiscreteActions` as trees: a state that several episodes pass is made, and scored, once.

Environments here are deterministic, so the states of a task form a tree with an edge for each action. The rollouts of
a group share their beginnings, and evaluations come along the same paths again; what was visited is kept, and an
environment is only stepped where nobody went before. What is sampled is the same as without the tree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rods_env.envs.tool_use import Snapshot, ToolUseEnv
from rods_env.errors import RodsError
from rods_env.tasks.task import Task
from rods_env.wrappers.discrete_actions import DiscreteActions

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Node:
    """A state of an episode, with its observation cut to the valid actions.

    Attributes:
        tool: the tool of each action, uint16 of shape `(actions,)`; 0 for the answer, which is action 0.
        known, made: what is known of the arguments; whether the call was made before.
        words, called, state: see `DiscreteActions`.
        turn: the turn that is open.
        paid: the reward of the step that led here.
        progress: R_P so far.
        ended: why the episode ended here, or None.
        children: the states behind actions that were tried.
    """

    __slots__ = (
        "called", "children", "ended", "env", "known", "made", "paid", "progress", "snapshot", "state", "tool", "turn",
        "words",
    )  # fmt: skip

    def __init__(
        self, observation: Mapping[str, Any], info: Mapping[str, Any], snapshot: Snapshot, paid: float = 0.0,
        before: Node | None = None,
    ) -> None:  # fmt: skip
        n = int(info["action_mask"].sum())
        self.tool = observation["tool"][:n].copy()
        self.known: Bytes = observation["arguments"][:n].copy()
        self.made: Bytes = observation["made"][:n].copy()
        self.called: Bytes = observation["called"]
        self.state: Bytes = observation["state"]
        self.turn: int = info["turn"]
        # Within a turn the words are the same, and are most of what a node holds.
        same = before is not None and before.turn == self.turn
        self.words: Bytes = before.words if before is not None and same else observation["words"]
        self.paid = paid
        self.progress: float = info["progress"]
        self.ended: str | None = info["termination"]
        self.snapshot = snapshot
        self.children: dict[int, Node] = {}
        self.env: DiscreteActions | None = None  # an environment that stands here


class Forest:
    """Trees of tasks, and the environments that grow them.

    Args:
        max_steps: steps after which an episode is truncated.
        attempts_per_turn: failed calls after which a turn closes.
        max_actions: of `DiscreteActions`.
        keep: trees of how many tasks are kept, those that were asked for last.

    Attributes:
        states: how many were made since the last `clear`.
    """

    def __init__(
        self, *, max_steps: int = 16, attempts_per_turn: int = 4, max_actions: int = 256, keep: int = 500
    ) -> None:
        self.max_steps = max_steps
        self.attempts_per_turn = attempts_per_turn
        self.max_actions = max_actions
        self.keep = keep
        self.states = 0
        self._roots: OrderedDict[str, Node] = OrderedDict()
        self._free: list[DiscreteActions] = []
        self._standing: list[Node] = []  # nodes at which an environment stands

    def root(self, task: Task) -> Node:
        """The beginning of a task, with what was visited of its tree before."""
        found = self._roots.get(task.id)
        if found is not None:
            self._roots.move_to_end(task.id)
            return found
        env = self._take(task)
        observation, info = env.reset(options={"task": task})
        root = self._roots[task.id] = self._stand(Node(observation, info, _snapshot(env)), env)
        if len(self._roots) > self.keep:
            self._roots.popitem(last=False)
        return root

    def child(self, node: Node, action: int) -> Node:
        """The state behind an action.

        Raises:
            RodsError: if the episode has ended, or the action is none of the node's.
        """
        return node.children[action] if action in node.children else self.grow(node, (action,))[0]

    def grow(self, node: Node, actions: Collection[int]) -> list[Node]:
        """The states behind actions, each of which is tried once if it was not before.

        Raises:
            RodsError: if the episode has ended, or an action is none of the node's.
        """
        new = [action for action in dict.fromkeys(actions) if action not in node.children]
        wrong = [action for action in new if node.ended is not None or not 0 <= action < len(node.tool)]
        if wrong:
            raise RodsError(f"expected an action below {len(node.tool)} of an episode that runs; got {wrong[0]}.")
        for left, action in enumerate(new, 1 - len(new)):
            env = self.standing_at(node)
            node.env = None
            if left:  # there is another action to be tried from here
                node.env = self._take(node.snapshot.task)
                node.env.take_over(env)
            observation, reward, _, _, info = env.step(action)
            made = node.children[action] = Node(observation, info, _snapshot(env), float(reward), node)
            self._stand(made, env)
        return [node.children[action] for action in actions]

    def standing_at(self, node: Node) -> DiscreteActions:
        """An environment at a state of an episode that runs; brought there if none is. Not to be stepped by others."""
        if node.env is None:
            node.env = self._take(node.snapshot.task)
            inner: ToolUseEnv = node.env.unwrapped  # type: ignore[assignment]
            inner.restore(node.snapshot)
            node.env.refresh()
            self._standing.append(node)
        return node.env

    def leave(self) -> None:
        """Takes the environments back from where they stand; trees stay as they are."""
        for node in self._standing:
            if node.env is not None:
                self._free.append(node.env)
                node.env = None
        self._standing = []

    def clear(self) -> None:
        """Forgets all trees."""
        self.leave()
        self._roots.clear()
        self.states = 0

    def _stand(self, node: Node, env: DiscreteActions) -> Node:
        self.states += 1
        if node.ended is None:
            node.env = env
            self._standing.append(node)
        else:
            self._free.append(env)
        return node

    def _take(self, task: Task) -> DiscreteActions:
        if self._free:
            return self._free.pop()
        inner = ToolUseEnv(tasks=[task], max_steps=self.max_steps, attempts_per_turn=self.attempts_per_turn)
        return DiscreteActions(inner, self.max_actions)


def _snapshot(env: DiscreteActions) -> Snapshot:
    inner: ToolUseEnv = env.unwrapped  # type: ignore[assignment]
    return inner.snapshot()
