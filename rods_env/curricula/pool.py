"""The tasks that a curriculum chooses from: what is known of each, in which order they come, and what waits."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
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
        place, turn: of `Epochs`: where it stands among the members, −1 if it does not; and when it came last.
    """

    __slots__ = (
        "agreed", "calls", "generation", "hits", "index", "mean", "means", "on_frontier", "place", "seat", "selected",
        "stratum", "task", "turn", "turns", "variances", "visited", "visits", "weight",
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
        self.turn = -1
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
    """An order in which every member comes once per epoch, each epoch shuffled anew.

    All operations take constant time but `restart`, which shuffles: 0.05 s for 100,000 members, once in as many groups.

    Args:
        members: those of the first epoch.
        draw: for shuffles.

    Attributes:
        members: all that take part, in no particular order.
        turn: the number of this epoch's shuffle. A member with this number in `turn` does not come (again) in it.
    """

    def __init__(self, members: Iterable[Member], draw: Draw) -> None:
        self.members: list[Member] = []
        self.turn = 0
        self._draw = draw
        self._shuffled: list[Member] = []  # what comes last stands first
        self._left = 0  # how many of these are still to come
        for member in members:
            self.add(member)
        self.restart()

    @property
    def done(self) -> bool:
        """Whether no member is to come in this epoch any more."""
        return not self._left

    def left(self) -> list[Member]:
        """Those still to come in this epoch, the next one last."""
        return [member for member in self._shuffled if member.turn != self.turn]

    def next(self) -> Member:
        """The next member of this epoch, which must not be done."""
        turn = self.turn
        while (member := self._shuffled.pop()).turn == turn:
            pass
        member.turn = turn
        self._left -= 1
        return member

    def touch(self, member: Member) -> None:
        """Lets a member not come in this epoch any more: it was chosen in another way, or leaves."""
        if member.turn != self.turn:
            member.turn = self.turn
            self._left -= 1

    def restart(self) -> None:
        """Begins the next epoch."""
        self.turn += 1
        self._shuffled = [self.members[k] for k in self._draw.rng.permutation(len(self.members)).tolist()]
        self._left = len(self._shuffled)

    def add(self, member: Member) -> None:
        """Adds a member, which comes from the next epoch on."""
        member.place, member.turn = len(self.members), self.turn
        self.members.append(member)

    def remove(self, member: Member) -> None:
        """Takes a member out."""
        self.touch(member)
        last = self.members.pop()
        if last is not member:
            self.members[member.place] = last
            last.place = member.place
        member.place = -1

    def state_dict(self) -> dict[str, Any]:
        """The order as plain JSON data, with members by id, and those to come by place."""
        members = [member.task.id for member in self.members]
        return {"members": members, "left": [member.place for member in self.left()]}

    def load_state_dict(self, state: dict[str, Any], members: Mapping[str, Member]) -> None:
        """Goes on from where `state_dict` was taken; `members` by id."""
        self.members = [members[key] for key in state["members"]]
        for place, member in enumerate(self.members):
            member.place, member.turn = place, self.turn
        self._shuffled = [self.members[place] for place in state["left"]]
        self._left = len(self._shuffled)
        for member in self._shuffled:
            member.turn = -1


class Pool:
    """The seeds and the made tasks that live beside them, at most `capacity`; and the queue of those that wait.

    Args:
        tasks: the seeds.
        draw: for shuffles.
        capacity: how many made tasks may live, and how many may wait.
        seeds_play: whether seeds are handed out, or made tasks only.
    """

    def __init__(self, tasks: Sequence[Task], draw: Draw, capacity: int = 0, *, seeds_play: bool = True) -> None:
        self.capacity = capacity
        self.seeds_play = seeds_play
        self.seeds = [Member(task, index) for index, task in enumerate(tasks)]
        self.members: dict[str, Member] = {member.task.id: member for member in self.seeds}
        self.made: dict[str, Member] = {}
        self.queue: OrderedDict[str, Member] = OrderedDict()
        self.order = Epochs(self.seeds if seeds_play else (), draw)
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
            "order": self.order.state_dict(),
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
        self.order.load_state_dict(state["order"], self.members)

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
        self._first = (size + 1) // 3  # so many inner nodes, the root at 0; then come the leaves
        self._sums = array("d", bytes(8 * (self._first + size + 3)))  # a list's floats would lie all over the memory
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
