"""A small policy that sometimes succeeds, tasks and settings, for the tests of training.

    python grpo_tools.py RUN POLICY KILL CURRICULUM

trains in a process of its own, which kills itself at the call number KILL of what `killed_at` counts; never if it is 0.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from rods_env.agents.chat import Chat
from rods_env.agents.grpo import GrpoAgent
from rods_env.agents.policy import Policy, load_policy
from rods_env.agents.policy_evaluation import evaluate_policy
from rods_env.agents.settings import TrainSettings
from rods_env.agents.tiny import make_model, make_tokenizer
from rods_env.agents.warmup import Demonstrator, needed_words, padded
from rods_env.tasks.task import Task
from rods_env.tasks.tiny_sets import short_tasks

LIMITS: dict[str, Any] = {"max_message": 16, "max_turn": 32, "max_messages": 8, "max_episode": 256}
SIZE: dict[str, Any] = {"width": 64, "layers": 2, "heads": 2, "kv_heads": 1, "inner": 128}


@lru_cache
def tasks(number: int = 4) -> list[Task]:
    """Short tasks of the tiny policy, each another one."""
    brief = (task for task in short_tasks(3) if len(task.turns) == 1 and len(task.calls) <= 2)
    return list({task.id: task for task in islice(brief, number + 8)}.values())[:number]


def make_policy(folder: Path) -> None:
    """Saves a small policy that has half learned the tasks by heart, so that the returns of a group differ."""
    torch.set_num_threads(1)
    words = needed_words(tasks())
    tokenizer = make_tokenizer(words)
    chat = Chat(tokenizer, speech="compact", name="test")
    policy = Policy("test", make_model(len(words), 0, **SIZE), tokenizer, chat)
    demonstrator = Demonstrator(chat, mistakes=0.0)
    ids, mask = padded([demonstrator.demonstration(task) for task in tasks()])
    optimizer = torch.optim.Adam(policy.model.parameters(), lr=3e-3)
    for step in range(400):
        logits = policy.model(input_ids=ids[:, :-1]).logits
        said = mask[:, 1:] == 1
        torch.nn.functional.cross_entropy(logits[said], ids[:, 1:][said]).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 3 == 0:
            scored = evaluate_policy(policy, tasks() * 8, step, temperature=1.0, **LIMITS)
            if scored.success >= 0.4:
                return policy.save(folder)
    raise AssertionError("the policy did not learn its tasks by heart")


def settings(**changes: Any) -> TrainSettings:
    """Settings of a short run: 16 episodes a step."""
    given: dict[str, Any] = {
        "steps": 4, "group_size": 4, "groups_per_step": 4, "learning_rate": 1e-3, "beta": 0.0, "micro_batch": 8,
        "curriculum": "fixed", **LIMITS, "slots": 16,
        "eval_every": 2, "eval_temperature": 1.0, "save_every": 1, "keep": 10, "threads": 1, "device": "cpu",
    }  # fmt: skip
    return TrainSettings(**{**given, **changes})


def agent(run: Path, policy: Path, *, heldout: int = 4, **changes: Any) -> GrpoAgent:
    """An agent that has made no step."""
    options = {name: changes[name] for name in ("dtype", "lora_rank", "gradient_checkpointing") if name in changes}
    loaded = load_policy(policy, device="cpu", **options)
    return GrpoAgent(loaded, settings(**changes), run, tasks=tasks(), heldout=tasks()[:heldout])


def weights(one: GrpoAgent) -> dict[str, torch.Tensor]:
    """A copy of all weights."""
    return {name: value.detach().clone() for name, value in one.policy.model.state_dict().items()}


@lru_cache
def scratch() -> Path:
    """A folder for this process, removed at its end."""
    place = Path(tempfile.mkdtemp(prefix="rods-test-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@lru_cache
def saved_policy() -> Path:
    """The small policy, made once."""
    make_policy(scratch() / "policy")
    return scratch() / "policy"


def straight(curriculum: str = "fixed") -> tuple[GrpoAgent, list[dict[str, Any]]]:
    """An agent after a run that nothing interrupted, and the rows that it showed; made once."""
    return _straight(curriculum)


@lru_cache
def _straight(curriculum: str) -> tuple[GrpoAgent, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    made = agent(scratch() / f"straight-{curriculum}", saved_policy(), curriculum=curriculum)
    made.train(on_row=rows.append)
    return made, rows


TIMES = ("seconds", "_s", "_per_s")


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs from run to run."""
    return [{key: value for key, value in row.items() if not key.endswith(TIMES)} for row in rows]


def killed_at(count: int) -> None:
    """Lets this process kill itself at a call of what writes files, samples messages, or changes weights."""
    import safetensors.torch
    import transformers.modeling_utils

    from rods_env.agents import decoding, rollout, run_folder

    calls = [0]

    def counted(place: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(place, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        setattr(place, name, call)

    for place, name in (
        (decoding.Sampler, "generate"), (rollout.RolloutEngine, "play"), (torch.optim.AdamW, "step"), (os, "replace"),
        (os, "rename"), (torch, "save"), (run_folder.RunFolder, "append"), (safetensors.torch, "save_file"),
        (transformers.modeling_utils, "safe_save_file"),
    ):  # fmt: skip
        counted(place, name)


if __name__ == "__main__":
    if sys.argv[3] != "0":
        killed_at(int(sys.argv[3]))
    agent(Path(sys.argv[1]), Path(sys.argv[2]), curriculum=sys.argv[4]).train()
