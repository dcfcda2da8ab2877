"""What the tests of curricula share: few seeds, stubs of synthesizers, and a learner that answers at random."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from rods_env.benchmarks.curriculum import RenamingStub, renamed
from rods_env.curricula import CURRICULA, Curriculum
from rods_env.errors import SynthesisError
from rods_env.tasks.task import Task

# Every curriculum in every setting that makes it another one.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in CURRICULA if name not in ("offline", "frontier")},
    "replay by phi": ("replay", {"score": "phi", "beta": 0.5}),
    "new shapes": ("fresh", {"shapes": "new"}),
    "offline": ("offline", {"n": 50}),
    "pool": ("frontier", {"mode": "pool"}),
    "pool, binary": ("frontier", {"mode": "pool", "reward": "binary", "retire": False, "quotas": "equal"}),
    "pool, mean rule": ("frontier", {"mode": "pool", "signal": "mean", "rule": "ranked", "rest_mastered": True}),
    "pool, proportional": ("frontier", {"mode": "pool", "rule": "proportional", "capacity": 7}),
    "stream": ("frontier", {"mode": "stream"}),
    "stream, ranked": ("frontier", {"mode": "stream", "rule": "ranked"}),
    "stream, mean rule": ("frontier", {"mode": "stream", "rule": "proportional", "signal": "mean"}),
}


class Barren(RenamingStub):
    """A synthesizer that has only so many variants of each task, and none of some."""

    def __init__(self, limit: int = 0, fails: Callable[[Task], bool] = lambda _: False) -> None:
        super().__init__()
        self.limit = limit
        self.fails = fails
        self.given: dict[str, int] = {}

    def variant(self, task: Task, rng: np.random.Generator | None = None) -> Task:
        given = self.given.get(task.id, 0)
        if given >= self.limit or self.fails(task):
            raise SynthesisError(f"no more variants of {task.id}.", reason="exhausted")
        self.given[task.id] = given + 1
        return super().variant(task)

    def state_dict(self) -> dict[str, Any]:
        return {"made": self.made, "given": dict(self.given)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.made, self.given = state["made"], dict(state["given"])


class Learner:
    """Plays groups: each family of tasks has its own chance of passing a turn, which may be 0 or 1."""

    def __init__(self, seed: int = 0, size: int = 8) -> None:
        self.rng = np.random.default_rng(seed)
        self.size = size

    def returns(self, task: Task) -> list[float]:
        turns = len(task.turns)
        family = hashlib.blake2b(json.dumps([len(t.calls) for t in task.turns]).encode(), digest_size=1).digest()[0]
        chance = (0.0, 0.1, 0.4, 0.6, 0.9, 1.0)[family % 6]
        sure = family % turns  # turns that always pass: some groups agree on a mean in between
        return ((sure + self.rng.binomial(turns - sure, chance, self.size)) / turns).tolist()

    def play(self, curriculum: Curriculum, groups: int) -> list[str]:
        """The ids of the tasks of so many groups, one after the other."""
        played = []
        for _ in range(groups):
            task = curriculum.next_group()
            played.append(task.id)
            curriculum.observe(task.id, self.returns(task))
        return played


class Kit:
    """The above as a fixture, for `tests` is no package."""

    SETTINGS = SETTINGS
    Barren = Barren
    Learner = Learner
    RenamingStub = RenamingStub
    renamed = staticmethod(renamed)

    @staticmethod
    def make(setting: str, tasks: Sequence[Task], synthesizer: Any = None, **more: Any) -> Curriculum:
        """A curriculum of `SETTINGS` with a stub of a synthesizer."""
        name, settings = SETTINGS[setting]
        stub = RenamingStub() if synthesizer is None else synthesizer
        return CURRICULA[name](tasks, synthesizer=stub, **{**settings, **more})

    @staticmethod
    def through_json(state: Any) -> Any:
        return json.loads(json.dumps(state, allow_nan=False))


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit


@pytest.fixture(scope="session")
def few(seeds: list[Task]) -> list[Task]:
    """Forty seeds of all kinds."""
    return seeds[:40]
