"""`OpenGroups`: the groups that were handed out and not observed yet."""

from __future__ import annotations

from collections import deque
from operator import itemgetter
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


# The number of a group, counted over the run; what it plays; the member that this is, or the seed that it is a fresh
# variant of, or None for a task of a new shape; and whether that was on the frontier when the group was handed out.
OpenGroup = tuple[int, Task, Member | None, bool]


class OpenGroups:
    """The open groups of each task, oldest first.

    Attributes:
        begun: how many groups were handed out so far.
        again: those that a loaded state asks to hand out again.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.again: deque[OpenGroup] = deque()
        self._groups: dict[str, list[OpenGroup]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def plays(self, task_id: str) -> bool:
        """Whether a group of this task is open."""
        return task_id in self._groups

    def origin(self, task_id: str) -> Origin:
        """Where a task comes from of which a group is open; of several groups the latest tells."""
        _, task, member, believed = self._groups[task_id][-1]
        if member is None:
            return Origin(1, None, False)
        if task is member.task:
            return Origin(member.generation, task.parent, believed)
        return Origin(member.generation + 1, member.task.id, believed)

    def tasks(self) -> list[Task]:
        """What open groups play, and what their members are."""
        groups = self._in_order()
        return [task for _, task, _, _ in groups] + [member.task for _, _, member, _ in groups if member is not None]

    def begin(self, task: Task, member: Member | None) -> None:
        """Opens a new group."""
        group = self.begun, task, member, member is not None and member.on_frontier
        self._groups.setdefault(task.id, []).append(group)
        self.begun += 1

    def next_again(self) -> Task | None:
        """What the next group to hand out again plays, if there is one."""
        while self.again:
            group = self.again.popleft()
            task = group[1]
            if group in self._groups.get(task.id, ()):  # it may have been observed meanwhile
                return task
        return None

    def close(self, task_id: str) -> OpenGroup:
        """Takes out the oldest open group of a task.

        Raises:
            RodsError: if there is none.
        """
        groups = self._groups.get(task_id)
        if groups is None:
            some = ", ".join(list(self._groups)[:3]) or "none"
            raise RodsError(
                f"expected the id of a task that next_group() handed out and that was not observed yet "
                f"({len(self)} open: {some}); got {task_id!r}."
            )
        if len(groups) == 1:
            del self._groups[task_id]
        return groups.pop(0)

    def state_dict(self) -> dict[str, Any]:
        """The open groups as plain JSON data, with tasks by id."""
        return {
            "begun": self.begun,
            "groups": [
                [number, task.id, member and [member.task.id, member.index, member.generation], believed]
                for number, task, member, believed in self._in_order()
            ],
        }

    def load_state_dict(self, state: dict[str, Any], tasks: dict[str, Task], pool: Pool) -> None:
        """Goes on from where `state_dict` was taken, with all groups to be handed out again.

        Args:
            state: the state.
            tasks: all tasks by id.
            pool: whose members they are; it is loaded already.
        """
        self._groups = {}
        for number, task_id, member, believed in state["groups"]:
            found = None
            if member is not None:
                key, index, generation = member
                found = pool.members.get(key) or pool.made_member(tasks[key], index, generation)
            group = number, tasks[task_id], found, believed
            self._groups.setdefault(task_id, []).append(group)
        self.again = deque(self._in_order())
        self.begun = state["begun"]

    def _in_order(self) -> list[OpenGroup]:
        """As they were handed out."""
        return sorted((group for groups in self._groups.values() for group in groups), key=itemgetter(0))
