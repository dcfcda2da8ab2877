"""Who trains a cell: the function that belongs to a policy, named so that only a worker imports it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import msgspec

from rods_env.benchmarks.curricula.cells import Cell, Checkpoint, Spec
from rods_env.errors import RodsError

OnCheckpoint = Callable[[Checkpoint], None]

POINTER = "pointer"
_POINTER_CELL = "rods_env.benchmarks.curricula.pointer_cell:train"
_POLICY_CELL = "rods_env.benchmarks.curricula.policy_cell:train"  # tiny policies and those of Hugging Face


class Learner(msgspec.Struct, frozen=True):
    """Trains cells. It is a name and nothing else, so it travels to workers, and torch is imported only there.

    Attributes:
        where: "module:function"; the function has the signature of `train`.
    """

    where: str

    def train(self, spec: Spec, folder: Path, on_checkpoint: OnCheckpoint) -> Cell:
        """Trains a cell.

        Args:
            spec: which.
            folder: of the whole grid, for what arms share; `kept_cell` finds finished cells in it.
            on_checkpoint: told every checkpoint as soon as it is made.
        """
        module, _, name = self.where.partition(":")
        found: Cell = getattr(import_module(module), name)(spec, folder, on_checkpoint)
        return found


def learner_for(policy: str) -> Learner:
    """The learner of "pointer", of "tiny", or of the path or id of a model.

    Raises:
        RodsError: if no policy is named.
    """
    if not policy.strip():
        raise RodsError("expected a policy: pointer, tiny, or the path or id of a model; got nothing.")
    return Learner(_POINTER_CELL if policy == POINTER else _POLICY_CELL)
