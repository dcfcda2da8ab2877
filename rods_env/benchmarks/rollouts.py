"""How fast rollouts are: beside TRL's own loop of tool calls, in tokens a second, and as a share of a training step."""

from __future__ import annotations

import copy
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from rods_env.agents.rollout import Rollout, RolloutEngine, Start
from rods_env.benchmarks.throughput import loop_ms
from rods_env.tasks.task import Task
from rods_env.tasks.tiny_sets import long_tasks, tiny_tasks

Report = Callable[[str], None]

RATIO = 3.0  # ours must be at least so many times as fast
TOKENS_PER_S = 20_000  # decoding at batch 128, on two cores
ENVIRONMENT_SHARE = 0.05  # the most that environments may take of a training step
TASKS = 256
THREADS = (1, 2)
SLOTS = 128

_MAX_MESSAGE = 24  # tokens
_MAX_MESSAGES = 24
_MAX_EPISODE = 512
_GROUP = 2  # the smallest that TRL plays
_DECODED = 96  # tokens of each sequence, for the speed of decoding alone


def run(
    *, seed: int = 0, quick: bool = False, progress: Report = lambda _: None, policy: Any = "tiny"
) -> dict[str, float]:
    """All figures, flat, with units in the keys; of each speed the best repetition.

    - `ours_episodes_per_s`, `trl_episodes_per_s`, `ratio`: 256 tasks of one turn, each played twice, by `RolloutEngine`
      and by TRL's loop, with the same policy, limits and temperature, taking turns. Each is the best over threads
      (`t1`, `t2`) and episodes at once (`b128`, `b512`). Of TRL only generation and tools are counted, of ours all.
    - `ours_return_mean`, `trl_return_mean`, `returns_alike`: 0 if they differ by more than four standard errors; then
      the two did not do the same, and the ratio is void.
    - `decode_tokens_per_s`: 128 sequences, each reading one token and then sampling 96, all at work to the end, behind
      prompts of real tasks.
    - `episode_tokens_per_s`, `long_episode_tokens_per_s`: sampled tokens by all seconds of whole episodes, in which
      most tokens are read, not sampled, and fewer and fewer of the 128 are at work until a message is over; with tasks
      of one turn, and with tasks of two and three.
    - `generate_share`, `environment_share`, `train_share`: of training steps as the preset `tiny` makes them.
    - `machine_loop_ms`: the speed of the machine in the same minutes.

    Args:
        seed: seeds tasks and sampling.
        quick: a quarter of the tasks, one repetition, 128 episodes at once.
        progress: called with what is measured next.
        policy: a tiny policy, or its name.

    Raises:
        RodsError: if there is no such policy, or it is not a tiny one.
    """
    if isinstance(policy, str):
        from rods_env.agents.policy import load_policy

        policy = load_policy(policy)
    count = TASKS // 4 if quick else TASKS
    stream = (task for task in tiny_tasks(seed, {1: 1.0}, 1, 4) if len(task.turns) == 1)
    tasks, long = list(islice(stream, count)), list(islice(long_tasks(seed), count // 2))
    figures = compare(policy, tasks, seed=seed, repeats=1 if quick else 2, batches=(128,) if quick else (128, 512),
                      progress=progress)  # fmt: skip
    progress("decoding")
    for threads in THREADS:
        with _threads(threads):
            for name, found in (
                ("decode", max(decode_tokens_per_s(policy, tasks) for _ in range(2 if quick else 5))),
                ("episode", max(_episode_tokens_per_s(policy, tasks, seed) for _ in range(1 if quick else 3))),
                ("long_episode", max(_episode_tokens_per_s(policy, long, seed) for _ in range(1 if quick else 3))),
            ):
                figures[f"{name}_tokens_per_s_t{threads}"] = found
    for name in ("decode", "episode", "long_episode"):
        figures[f"{name}_tokens_per_s"] = max(figures[f"{name}_tokens_per_s_t{threads}"] for threads in THREADS)
    progress("training steps")
    figures |= step_shares(policy, steps=2 if quick else 4, seed=seed)
    return {**figures, "machine_loop_ms": min(loop_ms() for _ in range(50))}


def failures(figures: Mapping[str, float]) -> list[str]:
    """What must hold and does not, as sentences."""
    said = []
    if not figures["returns_alike"]:
        said.append(
            "the comparison is void: the returns should be alike; their means are "
            f"{figures['ours_return_mean']:.3f} and {figures['trl_return_mean']:.3f}."
        )
    if figures["ratio"] < RATIO:
        said.append(f"ratio must be at least {RATIO:g}; it is {figures['ratio']:.2f}.")
    if figures["decode_tokens_per_s"] < TOKENS_PER_S:
        found = figures["decode_tokens_per_s"]
        said.append(f"decode_tokens_per_s must be at least {TOKENS_PER_S:,}; it is {found:,.0f}.")
    if figures["environment_share"] >= ENVIRONMENT_SHARE:
        said.append(
            f"environment_share must be below {ENVIRONMENT_SHARE:g}; it is {figures['environment_share']:.3f}."
        )
    return said


# ---------------------------------------------------------------------- beside TRL


def compare(
    policy: Any,
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    repeats: int = 2,
    batches: Sequence[int] = (128, 512),
    progress: Report = lambda _: None,
) -> dict[str, float]:
    """Our engine and TRL's loop with the same tasks; see `run`."""
    from rods_env.benchmarks import trl_loop

    figures: dict[str, float] = {}
    returns: dict[str, list[float]] = {"ours": [], "trl": []}
    for repeat in range(repeats):
        for threads in THREADS:
            for batch in batches:
                at_once = min(batch, _GROUP * len(tasks))
                progress(f"{at_once} episodes at once, {threads} threads, round {repeat + 1} of {repeats}")
                with _threads(threads):
                    _, seconds, rollouts = play(policy, tasks, seed=seed + repeat, slots=at_once)
                    theirs = trl_loop.play(
                        policy, tasks, group=_GROUP, batch=at_once, max_message=_MAX_MESSAGE,
                        max_messages=_MAX_MESSAGES, max_episode=_MAX_EPISODE, seed=seed + repeat,
                    )  # fmt: skip
                returns["ours"] += [rollout.value for rollout in rollouts if rollout.value is not None]
                returns["trl"] += theirs.returns
                for name, speed in (
                    ("ours", len(rollouts) / seconds), ("trl", len(theirs.returns) / theirs.seconds),
                ):  # fmt: skip
                    for key in (f"{name}_episodes_per_s_t{threads}_b{at_once}", f"{name}_episodes_per_s"):
                        figures[key] = max(figures.get(key, 0.0), speed)
    figures["ratio"] = figures["ours_episodes_per_s"] / figures["trl_episodes_per_s"]
    for name, values in returns.items():
        figures[f"{name}_return_mean"] = float(np.mean(values))
    figures["returns_alike"] = float(alike(returns["ours"], returns["trl"]))
    return figures


def alike(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether the means of two samples differ by at most four standard errors."""
    error = math.sqrt(np.var(some) / len(some) + np.var(others) / len(others))
    return bool(abs(np.mean(some) - np.mean(others)) <= 4 * error)


def play(
    policy: Any,
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    slots: int = SLOTS,
    group: int = _GROUP,
    temperature: float = 1.0,
) -> tuple[RolloutEngine, float, list[Rollout]]:
    """Plays every task `group` times with our engine. Returns it, the seconds, and the rollouts."""
    sampler = policy.sampler(slots=slots, max_length=_MAX_EPISODE, temperature=temperature)
    engine = RolloutEngine(
        sampler, policy.chat, max_message=_MAX_MESSAGE, max_messages=_MAX_MESSAGES, max_turn=_MAX_EPISODE, seed=seed
    )
    begun = time.perf_counter()
    rollouts = engine.play([Start(task, number) for number, task in enumerate(tasks) for _ in range(group)])
    return engine, time.perf_counter() - begun, rollouts


# ---------------------------------------------------------------------- tokens


def decode_tokens_per_s(
    policy: Any, tasks: Sequence[Task], *, slots: int = SLOTS, tokens: int = _DECODED, max_length: int = _MAX_EPISODE
) -> float:
    """Sampled tokens a second, of `slots` sequences that all go on to the end.

    Args:
        policy: of any kind, without adapters.
        tasks: whose prompts are read first.
        slots: how many sequences.
        tokens: how many each samples.
        max_length: the most tokens of a sequence.
    """
    import gymnasium as gym

    from rods_env.agents.decoding import Request, Sampler

    env: Any = gym.make("ToolUse-RODS-v0", tasks=[tasks[0]], disable_env_checker=True)
    sampler = Sampler(policy.model, [], slots=slots, max_length=max_length)
    noise = np.random.default_rng(0).random((slots, tokens))
    prompts = []
    for slot in range(slots):
        _, info = env.reset(options={"task": tasks[slot % len(tasks)]})
        prompts.append(Request(slot, policy.chat.begin(info).ids, 1, noise[slot]))
    first = sampler.generate(prompts)
    requests = [Request(slot, sample.ids, tokens, noise[slot]) for slot, sample in enumerate(first)]
    begun = time.perf_counter()
    sampler.generate(requests)
    return slots * tokens / (time.perf_counter() - begun)


def _episode_tokens_per_s(policy: Any, tasks: Sequence[Task], seed: int) -> float:
    engine, seconds, _ = play(policy, tasks, seed=seed)
    return engine.tokens / seconds


# ---------------------------------------------------------------------- a training step


def step_shares(policy: Any, *, steps: int = 4, seed: int = 0, **changes: Any) -> dict[str, float]:
    """The shares of training steps, and the seconds of one, the first step not counted.

    Args:
        policy: is copied, not trained.
        steps: how many are made, at least two.
        seed: of the run.
        changes: settings other than those of the preset `tiny`.
    """
    from rods_env.agents.grpo import GrpoAgent
    from rods_env.agents.policy import Policy
    from rods_env.agents.settings import make_settings

    pupil = Policy(policy.name, copy.deepcopy(policy.model), policy.tokenizer, policy.chat, base=policy.base)
    settings = make_settings("tiny", overrides={"steps": steps, "seed": seed, "eval_every": 0, **changes})
    rows: list[Mapping[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        GrpoAgent(pupil, settings, f"{folder}/run", heldout=[]).train(on_row=rows.append)
    rows = rows[1:]
    seconds = sum(row["seconds"] for row in rows)
    figures = {f"{part}_share": sum(row[f"{part}_s"] for row in rows) / seconds for part in _PARTS}
    return {"step_s": seconds / len(rows), **figures}


_PARTS = ("generate", "environment", "train")


@contextmanager
def _threads(number: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
