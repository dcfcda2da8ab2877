"""Which task comes next: curricula, from fixed sets to synthesis at the frontier. No gym, no torch."""

from __future__ import annotations

from rods_env.curricula.base import Curriculum
from rods_env.curricula.fixed import DynamicSampling, FixedCurriculum
from rods_env.curricula.frontier import Frontier
from rods_env.curricula.groups import Groups, Ticket
from rods_env.curricula.offline import OfflinePool, OneShotFrontier
from rods_env.curricula.open_groups import Origin
from rods_env.curricula.replay import PrioritizedReplay
from rods_env.curricula.server import CurriculumClient, CurriculumServer
from rods_env.curricula.synthetic import Fresh, RandomSynthesis

CURRICULA: dict[str, type[Curriculum]] = {
    "fixed": FixedCurriculum,
    "dapo": DynamicSampling,
    "replay": PrioritizedReplay,
    "random": RandomSynthesis,
    "fresh": Fresh,
    "offline": OfflinePool,
    "oneshot": OneShotFrontier,
    "frontier": Frontier,
}

__all__ = [
    "CURRICULA", "Curriculum", "CurriculumClient", "CurriculumServer", "DynamicSampling", "FixedCurriculum", "Fresh",
    "Frontier", "Groups", "OfflinePool", "OneShotFrontier", "Origin", "PrioritizedReplay", "RandomSynthesis", "Ticket",
]  # fmt: skip
