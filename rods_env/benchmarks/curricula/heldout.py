"""The sets of a cell: its seeds, and what is evaluated on and never trained on.

| set | tasks |
|---|---|
| seen | variants of the cell's seeds: known shapes, new worlds, people, texts |
| unseen | tasks of shapes that no task of the whole named set has, of the sizes that its tasks have; four of each |
| tuning | half like `seen`, half like `unseen`, none of either: for choosing checkpoints and settings |

The unseen tasks are the same for every seed, arm and number of seeds, the seen ones for every arm, so that results can
be paired task by task. Chance comes from streams that no curriculum uses. BFCL has no new shapes: there the unseen
tasks are those of `bfcl:test`, and all tuning tasks are variants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.families import make_synthesizer
from rods_env.tasks.task import Kind, Task, load_tasks

_SEEN, _UNSEEN, _TUNING = 20261201, 20261202, 20261203  # streams; curricula are seeded with small numbers
_TRIES = 40  # attempts at a task of a wanted depth, after which any depth will do
_MOST_TRIES = 20_000  # attempts after which a set is said to have no new shapes
_TOLD = 4  # times that a new shape is told: to find a thousand takes a minute
Size = tuple[Kind, int, int]  # kind, turns with calls, depth


def set_for(policy: str, tasks: str) -> str:
    """The set that is meant: for the tiny policy "seeds" means "tiny:seeds", the only ones it has words for."""
    return "tiny:seeds" if policy == "tiny" and tasks == "seeds" else tasks


def seeds_of(tasks: str, count: int, seed: int) -> list[Task]:
    """Tasks drawn from a set without replacement, in the order in which they stand there.

    Args:
        tasks: the name of the set, as `load_tasks` takes it.
        count: how many.
        seed: of the draw.

    Raises:
        RodsError: if there is no such set, or it is smaller.
    """
    all_of_them = _named(tasks)
    if not 1 <= count <= len(all_of_them):
        raise RodsError(f"{tasks} has {len(all_of_them)} tasks: expected 1 to {len(all_of_them)} seeds; got {count}.")
    places = np.random.default_rng([seed, count]).choice(len(all_of_them), count, replace=False)
    return [all_of_them[place] for place in sorted(places)]


def seen_tasks(seeds: Sequence[Task], n: int, rng_seed: int) -> list[Task]:
    """Variants of the seeds: of each as many, to one, as long as it has further ones.

    Args:
        seeds: of the cell.
        n: how many.
        rng_seed: of the draw; the cell's.

    Raises:
        RodsError: if the seeds have fewer variants.
    """
    return list(_variants(tuple(seeds), n, _SEEN, rng_seed))


def unseen_tasks(tasks: str, n: int) -> list[Task]:
    """Tasks of shapes that no task of a set has; kinds, turns and depths in the proportions of the set.

    Args:
        tasks: the name of the set.
        n: how many; of BFCL at most those of `bfcl:test`.

    Raises:
        RodsError: if none are found.
    """
    return list(_unseen(tasks, n, _UNSEEN))


def tuning_tasks(tasks: str, seeds: Sequence[Task], n: int, rng_seed: int) -> list[Task]:
    """Tasks that are neither seen nor unseen ones: half variants of the seeds, half of new shapes.

    Args:
        tasks: the name of the set.
        seeds: of the cell.
        n: how many.
        rng_seed: of the draw of the variants; the cell's.

    Raises:
        RodsError: if there are not so many.
    """
    new = 0 if seeds[0].ENVIRONMENT != Task.ENVIRONMENT else n // 2
    return [*_variants(tuple(seeds), n - new, _TUNING, rng_seed), *_unseen(tasks, new, _TUNING)]


# ---------------------------------------------------------------------- inside


@lru_cache(maxsize=8)
def _named(tasks: str) -> tuple[Task, ...]:
    found = tuple(load_tasks(tasks))
    if not found:
        raise RodsError(f"{tasks} holds no tasks.")
    return found


def _services(tasks: Sequence[Task]) -> list[str]:
    return sorted({api for task in tasks for api in task.apis})


@lru_cache(maxsize=8)
def _variants(parents: tuple[Task, ...], n: int, stream: int, rng_seed: int) -> tuple[Task, ...]:
    synthesizer = make_synthesizer(parents, stream + 1000 * rng_seed)
    order = np.random.default_rng([stream, rng_seed]).permutation(len(parents))
    waiting = [parents[place] for place in order]
    known, found = {parent.id for parent in parents}, dict[str, Task]()
    while len(found) < n:
        if not waiting:
            raise RodsError(f"{len(parents)} seeds have {len(found)} variants; {n} were asked for.")
        for parent in list(waiting[: n - len(found)]):
            try:
                task = synthesizer.variant(parent)
            except SynthesisError:  # it has no further one, and the others make up for it
                waiting.remove(parent)
                continue
            if task.id not in known:
                found[task.id] = task
    return tuple(found.values())


@lru_cache(maxsize=8)
def _unseen(tasks: str, n: int, stream: int) -> tuple[Task, ...]:
    all_of_them = _named(tasks)
    if n == 0:
        return ()
    if all_of_them[0].ENVIRONMENT != Task.ENVIRONMENT:
        return _bfcl_test(all_of_them, n, stream)
    return _variants(tuple(_new_shapes(all_of_them, -(-n // _TOLD), stream)), n, stream, 0)


def _bfcl_test(known: Sequence[Task], n: int, stream: int) -> tuple[Task, ...]:
    ids = {task.id for task in known}
    others = [task for task in load_tasks("bfcl:test") if task.id not in ids]
    if not others:
        raise RodsError("every task of bfcl:test is among the tasks that seeds are drawn from.")
    order = np.random.default_rng(stream).permutation(len(others))[:n]
    return tuple(others[place] for place in sorted(order))


def _size(task: Task) -> Size:
    return task.kind, sum(bool(turn.calls) for turn in task.turns), task.profile.depth


def _new_shapes(known: Sequence[Task], n: int, stream: int) -> Iterator[Task]:
    """`n` tasks of new shapes, with as many calls, in a turn and altogether, as known ones of that length may have."""
    from rods_env.tasks.datasets import TaskSource  # making tasks imports what playing does not need

    source = TaskSource(stream, apis=_services(known))
    shapes = {task.profile for task in known}
    calls: dict[int, list[int]] = {}
    for one in known:
        calls.setdefault(_size(one)[1], []).append(len(one.calls))
    most_in_turn = max(len(turn.calls) for task in known for turn in task.turns)

    def fits(task: Task, turns: int) -> bool:
        return (
            task.profile not in shapes  # equal profiles are necessary for isomorphism
            and min(calls[turns]) <= len(task.calls) <= max(calls[turns])
            and max(len(turn.calls) for turn in task.turns) <= most_in_turn
        )

    # Evenly spaced in the order of sizes: kinds, turns and depths in proportion, however few are drawn.
    sizes = sorted(map(_size, known))
    texts: set[tuple[str, ...]] = set()
    for kind, turns, depth in (sizes[(2 * place + 1) * len(sizes) // (2 * n)] for place in range(n)):
        for tries in range(_MOST_TRIES):
            exact = tries < _TRIES
            task = source.attempt(kind, turns=turns, max_depth=depth if exact else None)
            if task is None or not fits(task, turns) or (exact and task.profile.depth != depth):
                continue
            text = tuple(turn.message for turn in task.turns)
            if text not in texts:
                texts.add(text)
                yield task
                break
        else:
            raise RodsError(f"no {kind} task of {turns} turns has a new shape, after {_MOST_TRIES:,} attempts.")
