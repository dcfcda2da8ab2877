"""How parents are chosen: quotas for kinds, strata of like seeds, and the rules uniform, proportional and ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rods_env.apis.draw import Draw
from rods_env.apis.shares import place_at
from rods_env.curricula.pool import Member

RULES = ("uniform", "proportional", "ranked")
FLOOR = 1e-6  # the weight of what has none, so that draws among such are possible


def stratify(seeds: Sequence[Member], *, by_depth: bool = True) -> list[list[Member]]:
    """Divides seeds into strata of the same kind, number of turns, and perhaps depth, and tells each where it is."""
    strata: dict[tuple[str, int, int], list[Member]] = {}
    for seed in seeds:
        task = seed.task
        stratum = strata.setdefault((task.kind, seed.turns, task.depth if by_depth else 0), [])
        seed.stratum = len(strata) - 1 if not stratum else stratum[0].stratum
        seed.seat = len(stratum)
        stratum.append(seed)
    return list(strata.values())


class Selection:
    """Puts candidates for parents in the order in which they are asked for a variant.

    Args:
        rule: "uniform": a stratum in proportion to the seeds it holds, then any candidate of it, so that what is made
            has the seeds' own distribution [ours]. "proportional": in proportion to priority. "ranked": the highest
            priority first [paper].
        strata: the seeds of each stratum.
        priority: of a candidate, at least 0.
    """

    def __init__(self, rule: str, strata: Sequence[Sequence[Member]], priority: Callable[[Member], float]) -> None:
        self.rule = rule
        self.priority = priority
        self._sizes = [len(stratum) for stratum in strata]

    def ordered(self, candidates: Sequence[Member], draw: Draw) -> Iterator[Member]:
        """The candidates, each once."""
        if self.rule == "uniform":
            yield from self._by_strata(candidates, draw)
        elif self.rule == "ranked":
            yield from sorted(candidates, key=lambda member: -self.priority(member))
        else:
            left = list(candidates)
            weights = [max(self.priority(member), FLOOR) for member in left]
            while left:
                place = place_at(weights, draw.unit())
                del weights[place]
                yield left.pop(place)

    def _by_strata(self, candidates: Sequence[Member], draw: Draw) -> Iterator[Member]:
        left: dict[int, list[Member]] = {}
        for member in draw.shuffled(candidates):
            left.setdefault(member.stratum, []).append(member)
        strata = list(left)
        sizes = [self._sizes[stratum] for stratum in strata]
        while strata:
            place = place_at(sizes, draw.unit())
            members = left[strata[place]]
            yield members.pop()
            if not members:
                del strata[place], sizes[place]
