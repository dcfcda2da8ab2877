"""What the cells of a seed start from: for each seed a warm-up of its own, shared by the arms.

The shipped base of the tiny policy, warmed up a little further with tasks and an order of the seed's own: short tasks,
then a few among which are long ones, as the base was. Five seeds so start from five policies and not from one. Chat
models start as they are.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rods_env.agents.loading import MARKS, locate, read_json
from rods_env.agents.warmup import PHASES, Phase, mixed_tasks, train_phases
from rods_env.tasks.task import Task

_STREAMS = 100_000  # seeds of streams that the base was not made with; ten thousand for each seed of a cell


def is_tiny(policy: str) -> bool:
    """Whether a name is that of a policy with words of its own."""
    return policy == "tiny" or read_json(locate(policy).folder, MARKS).get("rods_speech") == "compact"


def phases(steps: int) -> tuple[Phase, ...]:
    """The parts of a seed's warm-up: `steps` on short tasks, then a fifth as many as at the end of the base's."""
    short = Phase(steps=steps, uses=4, learning_rate=1e-3, cooldown=0.5)
    return short, msgspec.structs.replace(PHASES[-1], steps=max(1, steps // 5))


def stream(seed: int) -> Iterator[Task]:
    """How the warm-up of a seed would go on: the tasks of its last part, with draws of their own."""
    return mixed_tasks((seed + 1) * _STREAMS + 50_000, PHASES[-1].long_share, PHASES[-1].uses)


def warmed_up(policy: str, seed: int, folder: Path, steps: int) -> str:
    """The policy that the cells of a seed start from, made if it is not there; as `load_policy` takes it.

    Args:
        policy: a name or folder.
        seed: of the cells.
        folder: of the benchmark; warm-ups are kept in `warmups/`.
        steps: on short tasks, see `phases`. 0: the policy as it is.
    """
    if steps == 0 or not is_tiny(policy):
        return policy
    name = "".join(c if c.isalnum() else "-" for c in policy)
    place = folder / "warmups" / f"{name}-{steps}-s{seed}"
    if not place.exists():
        _make(policy, seed, place, steps)
    return str(place)


def _make(policy: str, seed: int, place: Path, steps: int) -> None:
    from rods_env.agents.policy import load_policy

    learner = load_policy(policy)
    train_phases(learner.model, learner.chat, phases(steps), seed=(seed + 1) * _STREAMS)
    draft = place.with_name(f".{place.name}.{uuid.uuid4().hex[:12]}")
    learner.save(draft)
    try:
        os.rename(draft, place)
    except OSError:  # another process has made the same meanwhile
        shutil.rmtree(draft)
        if not place.exists():
            raise
