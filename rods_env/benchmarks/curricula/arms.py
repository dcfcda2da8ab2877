"""The arms of the benchmark: what is compared, each a curriculum, or warm-up that goes on in place of reward."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rods_env.benchmarks.curricula.cells import Spec
from rods_env.curricula.base import Curriculum
from rods_env.curricula.fixed import DynamicSampling, FixedCurriculum
from rods_env.curricula.frontier import Frontier
from rods_env.curricula.offline import OfflinePool, OneShotFrontier
from rods_env.curricula.replay import PrioritizedReplay
from rods_env.curricula.synthetic import Fresh, RandomSynthesis
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

FIXED = "fixed"  # what all others are compared to
DAPO = "dapo"  # groups without variance make place for further ones, which count as rollouts
SFT_MORE = "sft-more"  # no curriculum: as many demonstrations of the warm-up's stream as others play rollouts
FRESH_SHAPES = "fresh-shapes"
AUGMENTED = "augmented"  # fixed data with errors that say what would help

# The paper's pool; at most 400 made tasks live beside the seeds, however few these are [paper].
_pool = partial(Frontier, mode="pool", capacity=400)

ARMS: dict[str, Callable[..., Curriculum] | None] = {
    FIXED: FixedCurriculum,
    DAPO: DynamicSampling,
    "replay": PrioritizedReplay,
    AUGMENTED: FixedCurriculum,
    "random": partial(RandomSynthesis, capacity=400),
    "oneshot": partial(OneShotFrontier, capacity=400),
    "no-retire": partial(_pool, retire=False),
    "binary": partial(_pool, reward="binary"),
    "rods-mean": partial(_pool, signal="mean", rule="ranked", quotas="equal"),  # as the paper has it
    "offline17k": OfflinePool,
    SFT_MORE: None,
    "rods": _pool,
    "fresh": Fresh,
    FRESH_SHAPES: partial(Fresh, shapes="new"),
    "stream": partial(Frontier, mode="stream"),
}


class Disagreeing(Fresh):
    """Fresh variants, of which only groups that disagree are worth training on."""

    def _worth_training(self, agrees: bool) -> bool:
        return not agrees


# No curriculum, as it looks before it chooses: groups that agree are thrown away and not counted, so that every group
# that counts disagrees. Choosing among variants of the seeds cannot do better by filling batches. Not one of "all".
BOUND = "bound"
_KNOWN: dict[str, Callable[..., Curriculum] | None] = {**ARMS, BOUND: Disagreeing}


def base_of(name: str) -> str:
    """The arm of `ARMS` that a name means: "stream" for "stream:sharpness=1+explore=0.3".

    Raises:
        RodsError: if there is none.
    """
    base = name.partition(":")[0]
    if base not in _KNOWN:
        raise RodsError(f"unknown arm {name!r}: expected one of {', '.join(_KNOWN)}.")
    options_of(name)
    return base


def options_of(name: str) -> dict[str, Any]:
    """What stands behind an arm's colon: arguments of its curriculum, with + between them.

    Raises:
        RodsError: if it is written otherwise, or the arm takes none.
    """
    base, colon, rest = name.partition(":")
    options: dict[str, Any] = {}
    for part in rest.split("+") if colon else ():
        key, equals, value = part.partition("=")
        if not (equals and key.isidentifier() and value) or _KNOWN.get(base) is None:
            raise RodsError(f"expected an arm such as stream or stream:sharpness=1+explore=0.3; got {name!r}.")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def make_arm(
    name: str,
    tasks: Sequence[Task],
    seed: int,
    *,
    source: Callable[[int], Iterator[Task]] | None = None,
) -> Curriculum | None:
    """The curriculum of an arm; None for `sft-more`.

    Args:
        name: of `ARMS`, or `BOUND`; and perhaps arguments of its curriculum, see `options_of`.
        tasks: the seeds.
        seed: of the curriculum.
        source: makes the stream that `fresh-shapes` draws from; None: tasks of all services, see `Fresh`.

    Raises:
        RodsError: for an unknown arm or argument.
    """
    base = base_of(name)
    make = _KNOWN[base]
    if make is None:
        return None
    further = {"source": source} if base == FRESH_SHAPES and source is not None else {}
    try:
        return make(tasks, seed=seed, **further, **options_of(name))
    except TypeError as error:
        raise RodsError(f"the arm {name!r} cannot be made: {error}.") from None


def order_of(spec: Spec) -> tuple[str, int, int, bool, int, str]:
    """The place of a cell in a grid: by set, number of seeds and seed, `fixed` first, the other arms as in `ARMS`."""
    known = list(_KNOWN)
    place = known.index(base_of(spec.arm))
    return spec.tasks, spec.seed_count, spec.seed, spec.arm != FIXED, place, spec.arm
