"""`Groups`: hands out the episodes of groups, and tells a curriculum about complete ones."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

from rods_env.curricula.base import Curriculum, read_state
from rods_env.curricula.checks import check_whole
from rods_env.curricula.open_groups import Origin
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, write_atomically


class Ticket(NamedTuple):
    """One episode to play.

    Attributes:
        number: by which its return is reported; never used twice.
        task: what it plays.
        group: the number of its group, counted from 0.
        member: its place in the group, from 0 to group size − 1.
        origin: where the task comes from.
    """

    number: int
    task: Task
    group: int
    member: int
    origin: Origin


class _Group:
    """A group whose returns are not complete."""

    __slots__ = ("left", "origin", "returns", "task")

    def __init__(self, task: Task, origin: Origin, returns: list[float | None]) -> None:
        self.task = task
        self.origin = origin
        self.returns = returns
        self.left = returns.count(None)


class Groups:
    """Shares the groups of a curriculum among any number of environments and threads.

    Every group gets exactly `group_size` returns: an episode that is given back is handed out again, before a new group
    is begun.

    Args:
        curriculum: what says which task comes next. It must be used through this object only.
        group_size: episodes of a group; 16 [paper: K].

    Raises:
        RodsError: for a group size below 2.
    """

    def __init__(self, curriculum: Curriculum, group_size: int = 16) -> None:
        check_whole("group_size", group_size, 2)
        self.curriculum = curriculum
        self.group_size = group_size
        self._lock = Lock()
        self._groups: dict[int, _Group] = {}
        self._free: list[tuple[int, int]] = []  # (group, member) to hand out, a heap: what is given back comes first
        self._flying: dict[int, tuple[int, int]] = {}  # ticket number to (group, member)
        self._tickets = 0
        self._stale = 0  # tickets below this one were taken before a state was loaded
        self._pid = os.getpid()
        self._begun = 0

    def take(self) -> Ticket:
        """The next episode: of the oldest group that lacks one, else the first of a new group.

        Raises:
            RodsError: in a process forked from the one that made these groups.
        """
        if os.getpid() != self._pid:
            raise RodsError(
                f"these groups were made in process {self._pid} and this is a forked copy of them. Processes share "
                "groups by rods_env.curricula.server: CurriculumServer(groups).client()."
            )
        with self._lock:
            if not self._free:
                self._begin([None] * self.group_size)
            number, member = heapq.heappop(self._free)
            group = self._groups[number]
            ticket = Ticket(self._tickets, group.task, number, member, group.origin)
            self._flying[ticket.number] = number, member
            self._tickets += 1
            return ticket

    def report(self, ticket_number: int, value: float) -> bool | None:
        """Takes in the return of an episode, in [0, 1].

        Returns:
            For the last episode of a group, whether the group is worth training on; else None.

        Raises:
            RodsError: for a ticket that is not in flight, or a return that is none; the ticket then stays in flight.
        """
        with self._lock:
            number, member = self._place(ticket_number)
            try:
                number_value = float(value)
            except (TypeError, ValueError):
                number_value = float("nan")
            if not 0.0 <= number_value <= 1.0:
                raise RodsError(f"the return of an episode must be a number in [0, 1]; got {value!r}.")
            del self._flying[ticket_number]
            group = self._groups[number]
            group.returns[member] = number_value
            group.left -= 1
            if group.left:
                return None
            del self._groups[number]
            return self.curriculum.observe(group.task.id, [r for r in group.returns if r is not None])

    def give_back(self, ticket_number: int) -> None:
        """Says that an episode was abandoned; it is handed out again.

        A ticket taken before a state was loaded changes nothing: the state says what is handed out again.

        Raises:
            RodsError: for a ticket that is not in flight.
        """
        with self._lock:
            if isinstance(ticket_number, int) and 0 <= ticket_number < self._stale:
                return
            heapq.heappush(self._free, self._place(ticket_number))
            del self._flying[ticket_number]

    def metrics(self) -> dict[str, float]:
        """The curriculum's figures, and how many groups and episodes are open."""
        with self._lock:
            figures = self.curriculum.metrics()
            figures["open_groups"] = float(len(self._groups))
            figures["episodes_in_flight"] = float(len(self._flying))
            return figures

    def state_dict(self) -> dict[str, Any]:
        """The curriculum, and the returns of open groups, as plain JSON data."""
        with self._lock:
            return {
                "group_size": self.group_size,
                "tickets": self._tickets,
                "begun": self._begun,
                "groups": [[number, g.task.id, list(g.returns)] for number, g in self._groups.items()],
                "curriculum": self.curriculum.state_dict(),
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state; episodes that were in flight are handed out again.

        Tickets taken before are unknown afterwards.

        Raises:
            RodsError: if the state is none, or of another group size or curriculum.
        """
        with self._lock:
            try:
                if state["group_size"] != self.group_size:
                    raise RodsError(
                        f"this state is of another group_size: expected {self.group_size}, got {state['group_size']!r}."
                    )
                self.curriculum.load_state_dict(state["curriculum"])
                self._groups, self._free, self._flying = {}, [], {}
                for number, task_id, returns in state["groups"]:
                    self._begun = number
                    self._begin(list(returns))
                    if self._groups[number].task.id != task_id:
                        raise RodsError(f"these groups are of another curriculum: group {number} plays {task_id!r}.")
                self._begun = state["begun"]
                self._tickets = self._stale = max(self._tickets, state["tickets"])  # a number is never used twice
            except (KeyError, TypeError, ValueError) as error:
                raise RodsError(f"this is no state of groups: {error!r}.") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state as JSON; a file that stands there is replaced at once or not at all."""
        write_atomically(path, json.dumps(self.state_dict(), separators=(",", ":")).encode())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a file that `save` wrote.

        Raises:
            RodsError: if it cannot be read, and as `load_state_dict` does.
        """
        self.load_state_dict(read_state(path))

    def _begin(self, returns: list[float | None]) -> None:
        """Opens a group with the curriculum's next task, and offers the episodes whose return is missing."""
        task = self.curriculum.next_group()
        number = self._begun
        self._groups[number] = _Group(task, self.curriculum.origin(task.id), returns)
        self._begun += 1
        for member, value in enumerate(returns):
            if value is None:
                heapq.heappush(self._free, (number, member))

    def _place(self, ticket_number: int) -> tuple[int, int]:
        place = self._flying.get(ticket_number)
        if place is None:
            known = isinstance(ticket_number, int) and 0 <= ticket_number < self._tickets
            why = "was reported or given back before, or taken before a state was loaded" if known else "is unknown"
            raise RodsError(f"expected the number of a ticket that is in flight; ticket {ticket_number!r} {why}.")
        return place
