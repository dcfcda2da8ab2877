"""TRL's own loop of tool calls, playing our tasks: what our rollout engine is compared with.

`GRPOTrainer` plays episodes itself if it gets an `environment_factory`. Here the environment has one tool, which takes
the words of a policy and steps `ToolUse-RODS-v0`, and the tokenizer is a copy whose template and parser make of every
message such a call. So the policy sees and says, token for token, what it sees and says in ours (a test compares them).

That loop ends at the first answer without a call, so that only tasks of one turn can be played.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import torch

from rods_env.agents.chat import Chat
from rods_env.agents.compact import NO_CALL
from rods_env.agents.speech import CompactSpeech
from rods_env.agents.tiny import AGENT, END, TOOL, TOOLS_MARK, USER
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

# Writes what the tiny policy's template writes; the first user message brings the names of tools with it. A call is
# rendered for the checks that TRL makes; in episodes it is what was sampled.
_TEMPLATE = (
    "{{ '" + TOOLS_MARK + " ' }}{% for m in messages %}"
    "{% if m.role == 'user' %}{{ m.content }}"
    "{% elif m.role == 'assistant' %}{{ ' " + AGENT + " ' + m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}"
    "{% for name, value in c.function.arguments.items() %}{{ ' ' + name + ' ' + value }}{% endfor %}"
    "{% endfor %}{{ ' " + END + "' }}"
    "{% elif m.role == 'tool' %}{{ ' " + TOOL + " ' + m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ ' " + AGENT + " ' }}{% endif %}"
)
# A message is a call of the one tool, unless it is empty or begins with the word for "no call".
_PARSER = {
    "defaults": {"role": "assistant"},
    "start_anchor": AGENT,
    "fields": {
        "tool_calls": {
            "open_pattern": rf"\A(?!\s*{NO_CALL}(\s|$))(?!\s*{END})(?=\s*\S)",
            "close": END,
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": "say", "arguments": {"words": "{content}"}}},
        },
        "content": {"close": END, "content": "text"},
    },
}


class Played:
    """What TRL's loop did.

    Attributes:
        seconds: spent in its generation, the tools' steps included; without resets and the last step of an episode.
        tokens: how many tokens were sampled.
        numbers: of the task of each episode; TRL mixes their order.
        returns: of all episodes.
        ids: all token ids of each episode.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tokens = 0
        self.numbers: list[int] = []
        self.returns: list[float] = []
        self.ids: list[list[int]] = []


def play(
    policy: Any,
    tasks: Sequence[Task],
    *,
    group: int = 2,
    batch: int = 128,
    temperature: float = 1.0,
    max_message: int = 24,
    max_messages: int = 24,
    max_episode: int = 512,
    seed: int = 0,
) -> Played:
    """Plays every task `group` times with TRL's loop.

    It is TRL's evaluation that runs: it generates as a training step does, and then trains nothing.

    Args:
        policy: with a model, a tokenizer and a chat of compact speech.
        tasks: of one turn each.
        group: episodes of a task.
        batch: episodes that are played at once; a multiple of `group`.
        temperature, max_message, max_messages: as of `RolloutEngine`.
        max_episode: most tokens of an episode, without those of the prompt.
        seed: of the sampling. The global generator of torch is put back as it was.

    Raises:
        RodsError: if a task has several turns, or the policy does not speak in compact words.
    """
    if any(len(task.turns) > 1 for task in tasks):
        raise RodsError("expected tasks of one turn: TRL's loop ends an episode at the first answer without a call.")
    if policy.chat.speech != "compact":
        raise RodsError(f"expected a tiny policy, which speaks in compact words; {policy.name} does not.")
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl.trainer.grpo_config import GRPOConfig

    rows = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": ""}], "number": number} for number in range(len(tasks))]
    )
    from rods_env.agents.group_trainer import quiet_trainer

    new = "activation_checkpointing"
    no_checkpointing: dict[str, Any] = {
        new if new in GRPOConfig.__dataclass_fields__ else "gradient_checkpointing": False  # its older name
    }
    cache = policy.model.config.use_cache
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]), _silenced(), quiet_trainer():
        arguments = GRPOConfig(
            output_dir=folder, report_to=[], use_cpu=True, bf16=False, disable_tqdm=True, seed=seed, beta=0.0,
            per_device_train_batch_size=group, per_device_eval_batch_size=batch, num_generations=group,
            max_completion_length=max_episode, max_tool_calling_iterations=max_messages - 1, temperature=temperature,
            generation_kwargs={"max_new_tokens": max_message}, **no_checkpointing,
        )  # fmt: skip
        played = Played()
        trainer = _trainer_class()(
            played,
            model=policy.model, args=arguments, train_dataset=rows, eval_dataset=rows,
            processing_class=_tokenizer(policy.chat), environment_factory=lambda: _Environment(tasks, max_episode),
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        try:
            trainer.evaluate()
        finally:
            policy.model.config.use_cache = cache
            policy.model.eval()
    return played


def _tokenizer(chat: Chat) -> Any:
    tokenizer = copy.deepcopy(chat.tokenizer)
    tokenizer.chat_template = _TEMPLATE
    tokenizer.response_template = _PARSER
    tokenizer.model_max_length = 1 << 30  # results that end an episode are too long on purpose
    return tokenizer


class _Environment:
    """What TRL calls: one episode of `ToolUse-RODS-v0` after the other."""

    def __init__(self, tasks: Sequence[Task], max_episode: int) -> None:
        self._tasks = tasks
        self._env: Any = None
        self._too_long = " ".join(["."] * (max_episode + 1))

    def reset(self, number: int, **_: Any) -> str:
        task = self._tasks[number]
        if self._env is None:
            self._env = gym.make("ToolUse-RODS-v0", tasks=[task], disable_env_checker=True)
        _observation, info = self._env.reset(options={"task": task})
        self._speech = CompactSpeech(info)
        self._heard = len(info["messages"])
        self._number, self._value, self._over = number, 0.0, False
        names = " ".join(schema["function"]["name"] for schema in info["tools"])
        said = " ".join(message["content"] for message in self._speech.messages(info["messages"]))
        return f"{names} {USER} {said}"

    def say(self, words: str) -> str:
        """Says something.

        Args:
            words: what is said.

        Returns:
            What is heard.
        """
        info = self._step(self._speech.action(words))
        if self._over:
            return self._too_long  # the one way to end an episode in this loop, which leaves such results out
        news = self._speech.messages(info["messages"][self._heard + 1 :])
        self._heard = len(info["messages"])
        return f" {TOOL} ".join(message["content"] for message in news)

    def get_reward(self) -> float:
        if not self._over:
            self._step("Done.")
        return self._value

    def _step(self, action: str) -> dict[str, Any]:
        _, reward, terminated, truncated, info = self._env.step(action)
        self._value += float(reward)
        self._over = terminated or truncated
        return dict(info)


def _trainer_class() -> Any:
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Timed(GRPOTrainer):
        """Counts what generation takes, and computes no loss."""

        def __init__(self, played: Played, **options: Any) -> None:
            super().__init__(**options)
            self._played = played

        def _generate(self, prompts: list[Any]) -> Any:
            begun = time.perf_counter()
            found = super()._generate(prompts)
            self._played.seconds += time.perf_counter() - begun
            prompt_ids, completion_ids, mask = found[:3]
            self._played.ids += [[*a, *b] for a, b in zip(prompt_ids, completion_ids, strict=True)]
            self._played.tokens += sum(map(sum, mask))
            return found

        def prediction_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> tuple[None, None, None]:
            self._prepare_inputs(inputs)
            played_in: list[Any] = self.environments or []
            self._played.numbers += [environment._number for environment in played_in]
            self._played.returns += [environment._value for environment in played_in]
            return None, None, None

    return Timed


class _silenced:  # noqa: N801 - a context manager
    """TRL warns that what is used here may change, and prints what it is doing."""

    def __enter__(self) -> None:
        self._before = os.environ.get("TRL_EXPERIMENTAL_SILENCE")
        os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del os.environ["TRL_EXPERIMENTAL_SILENCE"]
        else:
            os.environ["TRL_EXPERIMENTAL_SILENCE"] = self._before
