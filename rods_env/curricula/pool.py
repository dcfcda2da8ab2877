"""The tasks that a curriculum chooses from: what is known of each, in which order they come, and what waits."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

from rods_env.apis.draw import Draw
from rods_env.tasks.task import Task


class Member:
    """A task with what its groups showed (in a curriculum that never repeats a task: those of a seed's variants).

    Attributes:
        task: the task.
        index: a seed's place among the seeds; for a made task, that of the seed it descends from.
        generation: 0 for a seed, 1 for a variant of a seed, 2 for a variant of that.
        calls, turns: how many the task has. A variant has as many as its seed.
        stratum, seat: the number of a seed's stratum, and its place there, where there are strata; a made task has
            those of its seed.
        visits: observed groups.
        weight, means, variances, hits: discounted sums over these: of 1, mean, variance, and being on the frontier.
        mean, on_frontier: of the latest group.
        agreed: how many of the latest groups in a row had no variance.
        visited: the epoch of the latest observed group; before the first one, the epoch before the member came.
        selected: the epoch in which it was last chosen as a parent; −1 if never.
        place: where it stands in the order of the epoch; −1 if it does not.
    """

    __slots__ = (
        "agreed", "calls", "generation", "hits", "index", "mean", "means", "on_frontier", "place", "seat", "selected",
        "stratum", "task", "turns", "variances", "visited", "visits", "weight",
    )  # fmt: skip
    _STATE: ClassVar[dict[str, Any]] = {
        "visits": 0, "weight": 0.0, "means": 0.0, "variances": 0.0, "hits": 0.0, "mean": 0.0, "on_frontier": False,
        "agreed": 0, "visited": 0, "selected": -1,
    }  # fmt: skip

    def __init__(self, task: Task, index: int, parent: Member | None = None) -> None:
        self.task = task
        self.index = index
        self.generation: int = 0 if parent is None else parent.generation + 1
        self.calls: int = len(task.calls) if parent is None else parent.calls
        self.turns: int = len(task.turns) if parent is None else parent.turns
        self.stratum: int = 0 if parent is None else parent.stratum
        self.seat: int = 0 if parent is None else parent.seat
        self.place = -1
        self.visits = 0
        self.weight = self.means = self.variances = self.hits = self.mean = 0.0
        self.on_frontier = False
        self.agreed = 0
        self.visited = 0
        self.selected = -1

    def state_dict(self) -> list[Any]:
        """What its groups showed, as plain JSON data."""
        return [getattr(self, name) for name in self._STATE]

    def load_state_dict(self, state: Sequence[Any]) -> None:
        """Takes over what `state_dict` told; nothing: as if it had never been played."""
        for name, value in zip(self._STATE, state or self._STATE.values(), strict=True):
            setattr(self, name, value)


class Epochs:
    """An order in which every member comes once per epoch, shuffled anew in each. All operations take constant time.

    The members before `cursor` were handed out in this epoch. The next one is drawn among the others and swapped to the
    cursor (an incremental Fisher-Yates shuffle), so beginning an epoch costs nothing.
    """

    def __init__(self, members: Iterable[Member] = ()) -> None:
        self.members: list[Member] = []
        self.cursor = 0
        for member in members:
            self.add(member)
        self.cursor = 0

    def __len__(self) -> int:
        return len(self.members)

    @property
    def done(self) -> bool:
        """Whether every member was handed out in this epoch."""
        return self.cursor >= len(self.members)

    def next(self, draw: Draw) -> Member:
        """The next member of this epoch, which must not be done."""
        members, cursor = self.members, self.cursor
        at = cursor + draw.index(len(members) - cursor)
        member, other = members[at], members[cursor]
        members[cursor], members[at] = member, other
        member.place, other.place = cursor, at
        self.cursor = cursor + 1
        return member

    def touch(self, member: Member) -> None:
        """Counts a member that was chosen in another way as handed out in this epoch."""
        if member.place >= self.cursor:
            self._swap(member.place, self.cursor)
            self.cursor += 1

    def restart(self) -> None:
        """Begins the next epoch."""
        self.cursor = 0

    def add(self, member: Member) -> None:
        """Adds a member, which comes from the next epoch on."""
        member.place = len(self.members)
        self.members.append(member)
        self._swap(member.place, self.cursor)
        self.cursor += 1

    def remove(self, member: Member) -> None:
        """Takes a member out, whether it was handed out in this epoch or not."""
        if member.place < self.cursor:
            self.cursor -= 1
            self._swap(member.place, self.cursor)
        self._swap(member.place, len(self.members) - 1)
        self.members.pop().place = -1

    def _swap(self, a: int, b: int) -> None:
        members = self.members
        first, second = members[a], members[b]
        members[a], members[b] = second, first
        first.place, second.place = b, a


class Pool:
    """The seeds and the made tasks that live beside them, at most `capacity`; and the queue of those that wait.

    Args:
        tasks: the seeds.
        capacity: how many made tasks may live, and how many may wait.
        seeds_play: whether seeds are handed out, or made tasks only.
    """

    def __init__(self, tasks: Sequence[Task], capacity: int = 0, *, seeds_play: bool = True) -> None:
        self.capacity = capacity
        self.seeds_play = seeds_play
        self.seeds = [Member(task, index) for index, task in enumerate(tasks)]
        self.members: dict[str, Member] = {member.task.id: member for member in self.seeds}
        self.made: dict[str, Member] = {}
        self.queue: OrderedDict[str, Member] = OrderedDict()
        self.order = Epochs(self.seeds if seeds_play else ())
        self.epoch = 0
        self.injected = 0
        self.dropped = 0  # pushed out of the full queue
        self.retired: dict[str, int] = {}

    def knows(self, task_id: str) -> bool:
        """Whether a task of this id lives in the pool or waits for it."""
        return task_id in self.members or task_id in self.queue

    def put_in_queue(self, member: Member) -> None:
        """Lets a made task wait; of a full queue the oldest leaves."""
        self.queue[member.task.id] = member
        if len(self.queue) > self.capacity:
            self.queue.popitem(last=False)
            self.dropped += 1

    def inject(self, member: Member) -> None:
        """Lets a made task live in the pool, to be handed out from the next epoch on."""
        member.visited = self.epoch - 1
        self.members[member.task.id] = self.made[member.task.id] = member
        self.order.add(member)
        self.injected += 1

    def retire(self, member: Member, reason: str) -> None:
        """Takes a made task out of the pool."""
        del self.members[member.task.id], self.made[member.task.id]
        if member.place >= 0:
            self.order.remove(member)
        self.retired[reason] = self.retired.get(reason, 0) + 1

    def playing(self) -> Collection[Member]:
        """The members that are handed out: all, or the made ones."""
        return self.members.values() if self.seeds_play else self.made.values()

    def tasks(self) -> list[Task]:
        """All made tasks, living and waiting."""
        return [member.task for source in (self.made, self.queue) for member in source.values()]

    def state_dict(self) -> dict[str, Any]:
        """The pool as plain JSON data. Made tasks are named by id: see `tasks`."""
        return {
            "epoch": self.epoch,
            "injected": self.injected,
            "dropped": self.dropped,
            "retired": dict(self.retired),
            "order": [member.task.id for member in self.order.members],
            "cursor": self.order.cursor,
            "made": [_lineage(member) for member in self.made.values()],
            "queue": [_lineage(member) for member in self.queue.values()],
            "members": {
                key: member.state_dict() for key, member in self.members.items() if member.visits or member.generation
            },
        }

    def load_state_dict(self, state: dict[str, Any], tasks: dict[str, Task]) -> None:
        """Takes over what `state_dict` told; `tasks` holds the made tasks by id."""
        self.members = {member.task.id: member for member in self.seeds}
        self.epoch, self.injected, self.dropped = state["epoch"], state["injected"], state["dropped"]
        self.retired = dict(state["retired"])
        self.made = {key: self.made_member(tasks[key], *rest) for key, *rest in state["made"]}
        self.members.update(self.made)
        self.queue = OrderedDict((key, self.made_member(tasks[key], *rest)) for key, *rest in state["queue"])
        for key, member in self.members.items():
            member.load_state_dict(state["members"].get(key, ()))
            member.place = -1
        self.order = Epochs(self.members[key] for key in state["order"])
        self.order.cursor = state["cursor"]

    def made_member(self, task: Task, index: int, generation: int) -> Member:
        """A made task whose root is the seed at `index`; it does not join the pool by that."""
        member = Member(task, index, self.seeds[index])
        member.generation = generation
        return member


def _lineage(member: Member) -> list[Any]:
    return [member.task.id, member.index, member.generation]


class SumTree:
    """Weighted draws among `size` places in O(log size).

    A heap of sums in which every node has four children, 4i + 1 to 4i + 4: half as deep as one with two.

    Attributes:
        total: the sum of all weights.
    """

    def __init__(self, size: int) -> None:
        leaves = 1
        while leaves < size:
            leaves *= 4
        self._first = (leaves - 1) // 3  # where the leaves begin; the root is at 0
        self._sums = array("d", bytes(8 * (self._first + leaves)))  # the floats of a list would lie all over the memory
        self.total = 0.0

    def weights(self, size: int) -> list[float]:
        """The weights of the first `size` places."""
        return self._sums[self._first : self._first + size].tolist()

    def set(self, place: int, weight: float) -> None:
        """Changes the weight of a place, which must not be negative."""
        sums, at = self._sums, place + self._first
        sums[at] = weight
        while at:  # sums are made anew from all children, so that no rounding errors pile up
            at = (at - 1) // 4
            child = 4 * at
            sums[at] = sums[child + 1] + sums[child + 2] + sums[child + 3] + sums[child + 4]
        self.total = sums[0]

    def find(self, unit: float) -> int:
        """The place at which a share `unit`, in [0, 1), of the sum of weights is passed. The sum must be above 0."""
        sums, first, at = self._sums, self._first, 0
        rest = unit * sums[0]
        while at < first:
            at = 4 * at + 1
            last = at + 3
            while at < last and rest >= sums[at]:
                rest -= sums[at]
                at += 1
        while not sums[at]:  # rounding led past the last place that has a weight
            at -= 1
        return at - first
