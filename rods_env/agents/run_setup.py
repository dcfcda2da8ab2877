"""What a training run stands on: its tasks and curriculum, its processes and threads, the model that samples for it."""

from __future__ import annotations

import copy
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import msgspec
import torch

from rods_env.agents.group_player import Ranks
from rods_env.agents.rollout import RolloutEngine
from rods_env.agents.run_folder import RunFolder
from rods_env.agents.settings import TrainSettings
from rods_env.curricula import CURRICULA, Curriculum
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, load_tasks
from rods_env.version import SUITE_VERSION, __version__


def chosen_tasks(name: str, limit: int = 0) -> list[Task]:
    """The tasks of a name or file, or the first ones of them.

    Args:
        name: as `load_tasks` takes it.
        limit: how many; 0 for all.

    Raises:
        RodsError: if there are none of that name.
    """
    tasks = load_tasks(name)
    return tasks[:limit] if limit else tasks


def make_curriculum(settings: TrainSettings, tasks: Sequence[Task]) -> Curriculum:
    """The curriculum that settings name, over seeds.

    Raises:
        RodsError: for options that it does not have.
    """
    kind = CURRICULA[settings.curriculum]
    try:
        return kind(tasks, seed=settings.seed, **settings.curriculum_options)
    except TypeError as error:
        raise RodsError(f"curriculum_options do not fit the curriculum {settings.curriculum!r}: {error}.") from error


def identity(settings: TrainSettings, tasks: Sequence[Task], heldout: Sequence[Task]) -> dict[str, Any]:
    """The configuration of a run as its folder keeps it."""
    return {
        "settings": msgspec.to_builtins(settings),
        "versions": {
            "rods-env": __version__, "suite": SUITE_VERSION,
            **{name: version(name) for name in ("torch", "transformers", "trl")},
        },
        "tasks": _digest(tasks),
        "heldout": _digest(heldout),
    }  # fmt: skip


def _digest(tasks: Sequence[Task]) -> dict[str, Any]:
    ids = "\0".join(task.id for task in tasks)
    return {"number": len(tasks), "digest": hashlib.blake2b(ids.encode(), digest_size=8).hexdigest()}


# ---------------------------------------------------------------------- processes and threads


def find_ranks(model: Any) -> Ranks:
    """The processes that a launcher (`accelerate launch`, `torchrun`) has started; one without a launcher.

    Raises:
        RodsError: for several visible GPUs without a launcher, which TRL does not use.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from accelerate import PartialState

        state = PartialState(cpu=model.device.type == "cpu")
        return Ranks(state.process_index, state.num_processes)
    if model.device.type == "cuda" and torch.cuda.device_count() > 1:
        raise RodsError(
            f"{torch.cuda.device_count()} GPUs are visible to one process: start it with `accelerate launch`, or show "
            "it one (CUDA_VISIBLE_DEVICES=0)."
        )
    return Ranks()


def use_threads(count: int, model: Any) -> int:
    """Sets torch's threads.

    Args:
        count: how many. 0: on a CPU the number that is measured to be fastest for this model (small ones are slower
            with more); elsewhere as they are.
        model: of the run.

    Returns:
        How many are used.
    """
    if not count and model.device.type != "cpu":
        return torch.get_num_threads()
    if not count:
        most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        counts = sorted({n for n in (1, 2, 4, 8, 16, most) if n <= most})
        count = min(counts, key=lambda n: _seconds(n, model)) if len(counts) > 1 else 1
    torch.set_num_threads(count)
    return count


def _seconds(threads: int, model: Any) -> float:
    """How long a small update takes."""
    torch.set_num_threads(threads)
    ids = torch.arange(16 * 128).view(16, 128) % model.config.get_text_config().vocab_size
    fastest = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        model(input_ids=ids, use_cache=False).logits.float().logsumexp(-1).mean().backward()
        fastest = min(fastest, time.perf_counter() - begun)
        model.zero_grad()
    return fastest


class Clock:
    """What the seconds of a step went into.

    Args:
        engine: plays the episodes of training.
    """

    def __init__(self, engine: RolloutEngine) -> None:
        self._engine = engine
        self._spent = dict(engine.seconds)
        self._begun = self._ended = time.perf_counter()

    def begin(self) -> None:
        """A step begins."""
        self._spent = dict(self._engine.seconds)
        self._begun = time.perf_counter()

    def end(self) -> None:
        """The weights were changed."""
        self._ended = time.perf_counter()

    def figures(self, tokens: float, evaluate: float) -> dict[str, float]:
        """The figures of the step.

        Args:
            tokens: how many were sampled.
            evaluate: seconds of an evaluation after it.
        """
        generate, environment = (
            self._engine.seconds[part] - self._spent.get(part, 0.0) for part in ("generate", "environment")
        )
        seconds = self._ended - self._begun
        return {
            "tokens_per_s": tokens / generate if generate else 0.0,
            "seconds": seconds + evaluate,
            "generate_s": generate,
            "environment_s": environment,
            "train_s": max(seconds - generate - environment, 0.0),
            "evaluate_s": evaluate,
        }


# ---------------------------------------------------------------------- models


def sampling_model(model: Any, settings: TrainSettings) -> Any:
    """The model that samples: that which is trained, or, at half precision, a copy of it.

    Weights of half precision would lose most updates (a step of 1e-6 is far below the spacing of bfloat16 numbers at
    0.01). So the trained ones become float32 and are multiplied at half precision, and a copy at half precision
    samples. Adapters (LoRA) are float32 on a frozen base of half precision anyway.
    """
    if settings.dtype == "float32" or settings.lora_rank:
        return model
    twin = copy.deepcopy(model)
    model.float()
    return twin.eval().requires_grad_(False)


def synchronize(sampling: Any, trained: Any) -> None:
    """The model that samples gets the weights of the model that is trained, where they are two."""
    if sampling is trained:
        return
    with torch.no_grad():
        for mine, theirs in zip(sampling.parameters(), trained.parameters(), strict=True):
            mine.copy_(theirs)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model samples: no dropout, and the cache of keys and values works with gradient checkpointing."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@contextmanager
def reference_of(model: Any, settings: TrainSettings, folder: RunFolder, ranks: Ranks) -> Iterator[None]:
    """Where TRL finds the model that the run began with: it loads it from the path in the model's configuration.

    With adapters it needs none: without them the model is the one that the run began with.

    Raises:
        RodsError: if it cannot be written.
    """
    if settings.beta == 0 or settings.lora_rank:
        yield
        return
    place = folder.reference
    problem = None
    if ranks.first and not place.exists():
        draft = folder.path / ".reference.tmp"
        try:
            model.save_pretrained(draft)
            os.rename(draft, place)
        except Exception as error:  # safetensors has errors of its own
            problem = f"the model that the run begins with cannot be written to {place}: {error}."
    problem = ranks.told(problem)
    if problem:
        raise RodsError(problem)
    name = model.config._name_or_path
    model.config._name_or_path = str(place)
    try:
        yield
    finally:
        model.config._name_or_path = name
