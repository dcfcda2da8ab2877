"""`CurriculumServer` and `CurriculumClient`: one curriculum for the environments of several processes."""

from __future__ import annotations

import os
import secrets
import socket
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from threading import Lock, Thread, current_thread
from types import TracebackType
from typing import Any

from rods_env.curricula.groups import Groups, Ticket
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

_FAMILY = "AF_UNIX" if hasattr(socket, "AF_UNIX") else "AF_INET"
_REMEMBERED = 8  # tasks that a client keeps, so that a task crosses once for a group and not once for an episode


class CurriculumServer:
    """Serves the groups of a curriculum to other processes of this machine, a thread for each connection.

    What a client holds is handed out again when its connection ends, so a worker that is killed loses no episode. To be
    used as a context manager, or with `close()`:

    ```python
    with CurriculumServer(Groups(Frontier(rods_env.load_tasks("seeds")))) as server:
        client = server.client()
        env = lambda: FrontierCurriculum(gym.make("ToolUse-RODS-v0"), client)
        envs = gym.vector.AsyncVectorEnv([env] * 4, shared_memory=False)
        ...
        envs.close()
    ```

    Args:
        groups: the groups; this process may go on using them.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self._key = secrets.token_bytes(32)
        self._listener = Listener(family=_FAMILY, backlog=128)
        self._pid = os.getpid()
        self._lock = Lock()
        self._connections: dict[Thread, Connection] = {}
        self._closed = False
        self._acceptor = Thread(target=self._accept, name="CurriculumServer", daemon=True)
        self._acceptor.start()

    def client(self) -> CurriculumClient:
        """A small picklable object that other processes take their episodes from."""
        return CurriculumClient(self._listener.address, self._key, self.groups.group_size)

    def close(self) -> None:
        """Ends all connections and threads; what clients hold is given back, and their next request is an error."""
        if self._closed or os.getpid() != self._pid:  # a copy in a forked worker must not end its parent's server
            return
        self._closed = True
        Client(self._listener.address).close()  # wakes the thread that waits for somebody to connect
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            threads = list(self._connections)
            for connection in self._connections.values():
                # Closing would neither wake a thread that reads nor reach a client while a forked process has a copy.
                with socket.fromfd(connection.fileno(), getattr(socket, _FAMILY), socket.SOCK_STREAM) as end:
                    end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()

    def __enter__(self) -> CurriculumServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # whoever asked has gone already
                continue
            if self._closed:
                connection.close()
                return
            thread = Thread(target=self._serve, args=(connection,), name="CurriculumServer client", daemon=True)
            with self._lock:
                self._connections[thread] = connection
            thread.start()

    def _serve(self, connection: Connection) -> None:
        """Answers a client until it ends, then gives back what it held."""
        held: set[int] = set()
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            while True:
                connection.send(self._reply(connection.recv(), held))
        except (AuthenticationError, EOFError, OSError):
            pass  # the client has ended, or does not know the key
        finally:
            for number in held:
                self.groups.give_back(number)
            with self._lock:
                del self._connections[current_thread()]
                connection.close()

    def _reply(self, request: Any, held: set[int]) -> tuple[bool, Any]:
        """Whether a request succeeded, and its result or the text of the error."""
        name, *arguments = request
        try:
            if name == "take":
                ticket = self.groups.take()
                held.add(ticket.number)
                task = None if ticket.task.id in arguments[0] else ticket.task
                return True, (ticket.number, ticket.task.id, task, ticket.group, ticket.member, ticket.origin)
            if name in ("report", "give_back") and arguments[0] not in held:
                raise RodsError(f"expected an episode that this client took and still holds; got {arguments[0]!r}.")
            result = getattr(self.groups, name)(*arguments)
            held.difference_update(arguments[:1])
            return True, result
        except RodsError as error:
            return False, str(error)


class CurriculumClient:
    """The groups of a `CurriculumServer` as another process sees them; made by `CurriculumServer.client()`.

    It can be pickled and forked, and connects when a process first uses it. All methods raise `RodsError`: what the
    curriculum raises, with the same text, and when the server is not there any more.

    Attributes:
        group_size: how many episodes a group has.
    """

    _connection: Connection | None
    _tasks: dict[str, Task]

    def __init__(self, address: Any, key: bytes, group_size: int) -> None:
        self.group_size = group_size
        self._address = address
        self._key = key
        self._begin()

    def take(self) -> Ticket:
        """The next episode."""
        known = dict(self._tasks)
        number, task_id, task, *rest = self._ask("take", tuple(known))
        task = known.pop(task_id) if task is None else task
        known[task_id] = task  # the one used last stands last
        self._tasks = dict(list(known.items())[-_REMEMBERED:])
        return Ticket(number, task, *rest)

    def report(self, number: int, value: float) -> bool | None:
        """Takes in the return of an episode that this client took; as `Groups.report`."""
        worth: bool | None = self._ask("report", number, value)
        return worth

    def give_back(self, number: int) -> None:
        """Hands an episode back; if the server has ended, it has it back already."""
        try:
            self._ask("give_back", number)
        except RodsError:
            if not self._ended:
                raise

    def metrics(self) -> dict[str, float]:
        """The metrics of the curriculum."""
        return dict(self._ask("metrics"))

    def state_dict(self) -> dict[str, Any]:
        """The state of the curriculum and its open groups."""
        return dict(self._ask("state_dict"))

    def close(self) -> None:
        """Ends the connection of this process; what it holds is given back. The client cannot be used after it."""
        self._ended = True
        if self._connection is not None:
            self._connection.close()

    def __reduce__(self) -> tuple[type[CurriculumClient], tuple[Any, bytes, int]]:
        return CurriculumClient, (self._address, self._key, self.group_size)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._connection = None
        self._ended = False
        self._tasks = {}

    def _ask(self, *request: Any) -> Any:
        """Sends a request and waits for the reply."""
        if self._pid != os.getpid():
            self._begin()  # forked: the connection belongs to the parent
        with self._lock:
            try:
                if self._ended:
                    raise EOFError
                if self._connection is None:
                    self._connection = Client(self._address, authkey=self._key)
                self._connection.send(request)
                succeeded, result = self._connection.recv()
            except BaseException as error:
                self.close()  # a reply may be under way, which the next request must not read
                if isinstance(error, (AuthenticationError, EOFError, OSError)):
                    raise RodsError(
                        f"expected a curriculum server at {self._address!r}; it has ended, or this client was closed. "
                        "Keep the server open while environments run, and make new clients from a new server."
                    ) from error
                raise
        if not succeeded:
            raise RodsError(result)
        return result
