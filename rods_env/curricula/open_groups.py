"""`OpenGroups`: the groups that were handed out and not observed yet."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from rods_env.curricula.pool import Member, Pool
from rods_env.errors import RodsError
from rods_env.tasks.task import Task


class Origin(NamedTuple):
    """Where a task comes from.

    Attributes:
        generation: 0 for a seed, 1 for a variant of a seed or a task of a new shape, 2 for a variant of a variant.
        parent: the id of the task that it is a variant of, or None.
        on_frontier: whether the curriculum believed it on the frontier when it handed it out.
    """

    generation: int
    parent: str | None
    on_frontier: bool


class OpenGroup(NamedTuple):
    """A group that was handed out and not observed yet.

    Attributes:
        number: counted over the run.
        task: what it plays.
        member: the task itself, or the seed that it is a fresh variant of; None for a task of a new shape. The group
            goes into its estimates, also if it left the pool meanwhile.
        believed: whether the member was on the frontier when the group was handed out.
    """

    number: int
    task: Task
    member: Member | None
    believed: bool

    @property
    def origin(self) -> Origin:
        """Where the task comes from."""
        member = self.member
        if member is None:
            return Origin(1, None, False)
        if self.task is member.task:
            return Origin(member.generation, self.task.parent, self.believed)
        return Origin(member.generation + 1, member.task.id, self.believed)


class OpenGroups:
    """Open groups by number and by task, in the order in which they were handed out; also several of one task.

    Attributes:
        begun: how many groups were handed out so far.
        again: the numbers of those that a loaded state asks to hand out again.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.again: deque[int] = deque()
        self._groups: dict[int, OpenGroup] = {}
        self._numbers: dict[str, list[int]] = {}  # of the open groups of a task, oldest first

    def __len__(self) -> int:
        return len(self._groups)

    def plays(self, task_id: str) -> bool:
        """Whether a group of this task is open."""
        return task_id in self._numbers

    def latest(self, task_id: str) -> OpenGroup:
        """The latest open group of a task of which one is open."""
        return self._groups[self._numbers[task_id][-1]]

    def tasks(self) -> list[Task]:
        """What open groups play, and what their members are."""
        members = [group.member.task for group in self._groups.values() if group.member is not None]
        return [group.task for group in self._groups.values()] + members

    def begin(self, task: Task, member: Member | None) -> None:
        """Opens a new group."""
        number = self.begun
        self.begun = number + 1
        self._add(OpenGroup(number, task, member, member is not None and member.on_frontier))

    def _add(self, group: OpenGroup) -> None:
        self._groups[group.number] = group
        self._numbers.setdefault(group.task.id, []).append(group.number)

    def next_again(self) -> Task | None:
        """What the next group to hand out again plays, if there is one."""
        while self.again:
            group = self._groups.get(self.again.popleft())
            if group is not None:  # it may have been observed meanwhile
                return group.task
        return None

    def close(self, task_id: str) -> OpenGroup:
        """Takes out the oldest open group of a task.

        Raises:
            RodsError: if there is none.
        """
        numbers = self._numbers.get(task_id)
        if numbers is None:
            some = ", ".join(list(self._numbers)[:3]) or "none"
            raise RodsError(
                f"expected the id of a task that next_group() handed out and that was not observed yet "
                f"({len(self)} open: {some}); got {task_id!r}."
            )
        number = numbers.pop(0)
        if not numbers:
            del self._numbers[task_id]
        return self._groups.pop(number)

    def state_dict(self) -> dict[str, Any]:
        """The open groups as plain JSON data, with tasks by id."""
        return {
            "begun": self.begun,
            "groups": [
                [number, task.id, member and [member.task.id, member.index, member.generation], believed]
                for number, task, member, believed in self._groups.values()
            ],
        }

    def load_state_dict(self, state: dict[str, Any], tasks: dict[str, Task], pool: Pool) -> None:
        """Goes on from where `state_dict` was taken, with all groups to be handed out again.

        Args:
            state: the state.
            tasks: all tasks by id.
            pool: whose members they are; it is loaded already.
        """
        self._groups, self._numbers = {}, {}
        for number, task_id, member, believed in state["groups"]:
            found = None
            if member is not None:
                key, index, generation = member
                found = pool.members.get(key) or pool.made_member(tasks[key], index, generation)
            self._add(OpenGroup(number, tasks[task_id], found, believed))
        self.again = deque(self._groups)
        self.begun = state["begun"]
