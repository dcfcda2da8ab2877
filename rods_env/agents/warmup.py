"""Supervised warm-up: a policy learns from the oracle's episodes how to speak, look things up, and recover from errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
