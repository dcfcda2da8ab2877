"""Supervised warm-up: a policy learns from the oracle's episodes how to speak, look things up, and recover from errors."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import msgspec
import numpy as np

from rods_env.agents.chat import Chat, Dialogue
from rods_env.apis.registry import TOOLS
from rods_env.tasks.task import Task

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Demonstration(NamedTuple):
    """An oracle's episode as a policy would have lived it.

    Attributes:
        ids: its token ids.
        mask: 1 on the ids that the policy should learn to say.
    """

    ids: list[int]
    mask: list[int]


class Demonstrator:
    """Plays the oracle through a policy's own chat.

    Args:
        chat: of the policy.
        mistakes: the chance before each call that a wrong one is made first, whose error the episode shows. What was
            wrong is not to be learned, how to go on after it is.
        seed: of the mistakes.
    """

    def __init__(self, chat: Chat, *, mistakes: float = 0.1, seed: int = 0) -> None:
        self.chat = chat
        self.mistakes = mistakes
        self._rng = np.random.default_rng([seed, 7])
        self._env: Any = None

    def demonstration(self, task: Task) -> Demonstration:
        """The episode of a task."""
        if self._env is None:
            self._env = gym.make("ToolUse-RODS-v0", tasks=[task], disable_env_checker=True).unwrapped
        env = self._env
        _, info = env.reset(options={"task": task})
        dialogue = self.chat.begin(info)
        for turn in task.turns:
            for call in turn.calls:
                if self._rng.random() < self.mistakes:
                    self._mistake(env, dialogue, task, call.tool, dict(call.arguments))
                info = self._say(env, dialogue, [(call.tool, call.arguments)])
                dialogue.hear(info)
            info = self._say(env, dialogue, [])
            if info["termination"] is None:
                dialogue.hear(info)
        return Demonstration(dialogue.ids, dialogue.mask)

    def _say(self, env: Any, dialogue: Dialogue, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        ids = [*self.chat.encode(dialogue.speech.calls(calls)), *self.chat.end_ids]
        *_, info = env.step(dialogue.say(ids, [0.0] * len(ids)))
        return dict(info)

    def _mistake(self, env: Any, dialogue: Dialogue, task: Task, name: str, arguments: dict[str, Any]) -> None:
        """A call that is refused, if one is found at the first try; the episode then shows its error."""
        rng = self._rng
        tool = TOOLS[name]
        texts = [p.name for p in tool.params if p.name in arguments and isinstance(arguments[p.name], str)]
        if rng.random() < 0.5 or not texts:  # too few or too many arguments
            wrong = dict(list(arguments.items())[:-1])
        else:
            others = [v for c in task.calls for v in c.arguments.values() if isinstance(v, str)]
            wrong = {**arguments, texts[rng.integers(len(texts))]: others[rng.integers(len(others))]}
        before = env.snapshot()
        words = dialogue.speech.calls([(name, wrong)])
        ids = [*self.chat.encode(words), *self.chat.end_ids]
        *_, info = env.step(dialogue.speech.action(words))
        if not info["error"] or info["termination"] is not None or info["closed_by"] is not None:
            env.restore(before)
            return
        said = len(ids)
        dialogue.say(ids, [0.0] * said)
        dialogue.mask[-said:] = [0] * said
        dialogue.hear(info)


def demonstrations(chat: Chat, tasks: Iterable[Task], *, mistakes: float = 0.1, seed: int = 0) -> Iterator[Demonstration]:
    """The episodes of a stream of tasks; those too long for the chat are left out."""
    demonstrator = Demonstrator(chat, mistakes=mistakes, seed=seed)
    limit = chat.tokenizer.model_max_length
    for task in tasks:
        shown = demonstrator.demonstration(task)
        if len(shown.ids) <= limit:
            yield shown


def batches(shown: Iterator[Demonstration], size: int, seed: int) -> Iterator[list[Demonstration]]:
    """Batches of episodes of similar length, in random order: little padding, and no order by length."""
    rng = np.random.default_rng([seed, 11])
    while True:
        pool = sorted(itertools.islice(shown, 16 * size), key=lambda one: len(one.ids))
        if len(pool) < size:
            return
        parts = [pool[at : at + size] for at in range(0, len(pool) - size + 1, size)]
        for index in rng.permutation(len(parts)):
            yield parts[index]


def train(
    model: Any,
    shown: Iterator[Demonstration],
    *,
    steps: int,
    batch: int = 16,
    learning_rate: float = 3e-3,
    cooldown: float = 0.4,
    heard_weight: float = 0.5,
    seed: int = 0,
    on_step: Callable[[int, float], None] = lambda _step, _loss: None,
) -> None:
    """Supervised training on demonstrations.

    Args:
        model: a causal language model of transformers.
        shown: demonstrations.
        steps: optimizer steps.
        batch: demonstrations of a step.
        learning_rate: of AdamW; it rises over 100 steps, stays, and falls to nothing.
        cooldown: over which share of the steps it falls.
        heard_weight: weight of predicting what the policy only hears. It teaches to look things up: users and tools
            repeat names and ids far more often than the policy says them.
        seed: of the order.
        on_step: called with the number of steps done and the loss on what the policy says.
    """
    import torch
    import torch.nn.functional as F

    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step, some in zip(range(steps), batches(shown, batch, seed), strict=False):
        rate = min(1.0, (step + 1) / 100, (steps - step) / (cooldown * steps))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * rate
        ids, mask = padded(some)
        hidden = model.get_decoder()(ids[:, :-1]).last_hidden_state
        said, heard = mask[:, 1:] == 1, mask[:, 1:] == 0
        head = model.get_output_embeddings()
        loss = F.cross_entropy(head(hidden[said]), ids[:, 1:][said])
        total = loss
        if heard_weight and bool(heard.any()):
            total = loss + heard_weight * F.cross_entropy(head(hidden[heard]), ids[:, 1:][heard])
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        on_step(step + 1, float(loss.detach()))
    model.eval()


def padded(some: Sequence[Demonstration]) -> tuple[Any, Any]:
    """Ids and masks (rows, length), padded on the right with 0 and -1."""
    import torch

    length = max(len(one.ids) for one in some)
    ids = np.zeros((len(some), length), dtype=np.int64)
    mask = np.full((len(some), length), -1, dtype=np.int64)
    for row, one in enumerate(some):
        ids[row, : len(one.ids)] = one.ids
        mask[row, : len(one.mask)] = one.mask
    return torch.from_numpy(ids), torch.from_numpy(mask)
