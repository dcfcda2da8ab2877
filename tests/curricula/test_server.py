"""`CurriculumServer`: environments of several processes share groups, and no process takes episodes to its grave."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from multiprocessing.connection import Client
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from rods_env.curricula import server as module
from rods_env.curricula.base import Origin
from rods_env.curricula.fixed import FixedCurriculum
from rods_env.curricula.groups import Groups
from rods_env.curricula.server import CurriculumServer
from rods_env.errors import RodsError
from rods_env.wrappers import FrontierCurriculum

WAIT = 60.0  # seconds after which something that should happen is taken to never happen


class Coin(gym.Env[int, int]):
    """An action of 1 passes a turn of the task."""

    observation_space = gym.spaces.Discrete(10)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.task, self.turn = options["task"], 0
        return 0, {"task_id": self.task.id}

    def step(self, action):
        self.turn += 1
        ended = self.turn == len(self.task.turns)
        return self.turn, float(action) / len(self.task.turns), ended, False, {"task_id": self.task.id}


class Watched(FixedCurriculum):
    """Keeps what it observes."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.observed = []

    def observe(self, task_id, returns):
        self.observed.append((task_id, list(returns)))
        return super().observe(task_id, returns)


class Noticing(Groups):
    """Tells when an episode comes back."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.came_back = threading.Semaphore(0)

    def give_back(self, ticket_number):
        super().give_back(ticket_number)
        self.came_back.release()


@pytest.fixture
def groups(seeds):
    return Noticing(Watched(seeds[:9], seed=3), group_size=3)


@pytest.fixture
def server(groups):
    before = set(threading.enumerate())
    with CurriculumServer(groups) as server:
        yield server
    assert set(threading.enumerate()) == before, "all threads have ended"
    assert not multiprocessing.active_children()
    assert groups.metrics()["episodes_in_flight"] == 0


@pytest.fixture
def client(server):
    return server.client()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_workers_share_groups(groups, server, mode):
    """Every episode that ended is one return of one group, whichever worker played it."""
    client = server.client()
    vector = AsyncVectorEnv(
        [lambda: FrontierCurriculum(Coin(), client)] * 3, shared_memory=False, autoreset_mode=mode
    )  # fmt: skip
    rng, totals, played = np.random.default_rng(1), np.zeros(3), {}
    _, infos = vector.reset(seed=1)
    while len(groups.curriculum.observed) < 30:
        about = infos["curriculum"]
        places = [(int(g), int(m)) for g, m in zip(about["group"], about["member"], strict=True)]
        _, rewards, terminated, _, infos = vector.step(rng.integers(0, 2, 3))
        totals += rewards
        for i in np.flatnonzero(terminated):
            assert places[i] not in played
            played[places[i]], totals[i] = totals[i], 0.0
    vector.close()
    server.close()
    sizes = np.bincount([group for group, _ in played])
    complete = np.flatnonzero(sizes == 3)
    assert max(sizes) == 3
    assert len(complete) == len(groups.curriculum.observed)
    expected = sorted(sorted(played[group, member] for member in range(3)) for group in complete)
    assert np.allclose(expected, sorted(sorted(returns) for _, returns in groups.curriculum.observed))


def test_the_episode_of_a_killed_worker_comes_again(groups, server, client):
    vector = AsyncVectorEnv([lambda: FrontierCurriculum(Coin(), client)] * 3, shared_memory=False)
    _, infos = vector.reset()
    lost = int(infos["curriculum"]["group"][1]), int(infos["curriculum"]["member"][1])
    vector.processes[1].kill()
    vector.processes[1].join()
    assert groups.came_back.acquire(timeout=WAIT), "the end of a connection gives back what it held"
    ticket = groups.take()
    assert (ticket.group, ticket.member) == lost
    groups.give_back(ticket.number)
    assert groups.metrics()["episodes_in_flight"] == 2
    vector.parent_pipes[1].close()
    vector.close()


def test_all_environments_of_a_process_use_one_connection(groups, server, client):
    vector = SyncVectorEnv([lambda: FrontierCurriculum(Coin(), client)] * 3)
    _, infos = vector.reset()
    assert infos["curriculum"]["member"].tolist() == [0, 1, 2]
    assert len(server._connections) == 1
    for _ in range(40):
        vector.step([1, 1, 1])
    vector.close()
    assert groups.metrics()["episodes_in_flight"] == 0
    assert {len(returns) for _, returns in groups.curriculum.observed} == {3}


def test_a_task_crosses_once_for_a_group(server, client, groups, monkeypatch):
    """And it crosses whole, but without what can be worked out again."""
    crossed = []
    real = CurriculumServer._reply
    monkeypatch.setattr(CurriculumServer, "_reply", lambda *args: crossed.append(real(*args)) or crossed[-1])
    for task in groups.curriculum.seeds:
        assert task.gold
        assert task.graph
    tickets = [client.take() for _ in range(6)]
    assert [reply[1][2] is not None for reply in crossed] == [True, False, False] * 2
    for ticket in tickets:
        own = next(task for task in groups.curriculum.seeds if task.id == ticket.task.id)
        assert ticket.task == own
        assert ticket.task.parent == own.parent
        assert ticket.task is tickets[3 * ticket.group].task, "what an episode works out serves all of its group"
        assert ticket.task.__dict__ == {}
    assert [(t.group, t.member) for t in tickets] == [(group, member) for group in (0, 1) for member in (0, 1, 2)]
    assert {t.origin for t in tickets} == {Origin(0, None, False)}


def test_only_the_last_tasks_are_kept(client):
    for _ in range(3 * 9):
        ticket = client.take()
        assert list(client._tasks)[-1] == ticket.task.id
    assert len(client._tasks) == module._REMEMBERED


def test_reports_metrics_and_state_are_those_of_the_groups(groups, server, client):
    assert [client.report(client.take().number, value) for value in (0.0, 0.5, 1.0, 1.0)] == [None, None, True, None]
    assert groups.curriculum.observed[0][1] == [0.0, 0.5, 1.0]
    assert client.metrics() == groups.metrics()
    assert client.state_dict() == groups.state_dict()
    assert client.group_size == 3
    env = FrontierCurriculum(Coin(), client)
    assert env.curriculum is None
    assert env.metrics() == groups.metrics()


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), "much"])
def test_errors_of_the_curriculum_have_the_same_text(groups, client, value):
    ticket, own = client.take(), groups.take()
    with pytest.raises(RodsError) as here:
        groups.report(own.number, value)
    with pytest.raises(RodsError) as there:
        client.report(ticket.number, value)
    assert str(there.value) == str(here.value)
    assert client.report(ticket.number, 1.0) is None, "the episode is still held"
    groups.give_back(own.number)


def test_only_its_own_episodes_are_a_clients(server, client, groups):
    other = server.client()
    ticket = other.take()
    for ask in (lambda: client.report(ticket.number, 1.0), lambda: client.give_back(ticket.number)):
        with pytest.raises(RodsError, match=f"this client took and still holds; got {ticket.number}"):
            ask()
    other.report(ticket.number, 1.0)
    with pytest.raises(RodsError, match="still holds"):
        other.report(ticket.number, 1.0)


def test_a_client_can_be_copied_and_pickled(client, groups):
    ticket = client.take()
    for other in (pickle.loads(pickle.dumps(client)), copy.deepcopy(client)):
        assert other.group_size == 3
        taken = other.take()
        assert (taken.group, taken.member) == (0, ticket.member + 1)
        other.close()
        assert groups.came_back.acquire(timeout=WAIT)
        with pytest.raises(RodsError, match="or this client was closed"):
            other.take()


def _play(client, pipe):
    """Plays an episode in a process of its own, and holds another until it ends."""
    first = client.take()
    client.report(first.number, 0.5)
    held = client.take()
    pipe.send([(ticket.task.id, ticket.group, ticket.member) for ticket in (first, held)])
    pipe.recv()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_connect_by_themselves(groups, client, method):
    """Also a forked one whose parent was connected."""
    mine = client.take()
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=_play, args=(client, there))
    process.start()
    there.close()
    assert here.recv() == [(mine.task.id, 0, 1), (mine.task.id, 0, 2)]
    assert client.report(mine.number, 1.0) is None, "the parent's connection is untouched"
    here.send("end")
    process.join()
    assert process.exitcode == 0
    process.close()
    here.close()
    assert groups.came_back.acquire(timeout=WAIT)
    assert groups.metrics()["episodes_in_flight"] == 0


def _take_from_a_copy(groups, pipe):
    try:
        groups.take()
    except RodsError as error:
        pipe.send(str(error))


def test_groups_are_not_shared_by_forking(groups):
    """Every worker would have a copy of its own, and would fill groups of its own."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_take_from_a_copy, args=(groups, there))
    process.start()
    there.close()
    assert "CurriculumServer(groups).client()" in here.recv()
    process.join()
    process.close()
    here.close()


def test_a_state_loaded_while_clients_hold_episodes(groups, server, client):
    state = groups.state_dict()
    old = client.take()
    groups.load_state_dict(state)
    with pytest.raises(RodsError, match="taken before a state was loaded"):
        client.report(old.number, 1.0)
    new = client.take()
    assert (new.group, new.member) == (old.group, old.member)
    assert new.number != old.number
    client.close()
    assert groups.came_back.acquire(timeout=WAIT)
    assert groups.came_back.acquire(timeout=WAIT)


# ---------------------------------------------------------------------- ends


def test_nothing_is_left_of_a_closed_server(groups):
    server = CurriculumServer(groups)
    clients = [server.client() for _ in range(3)]
    tickets = [client.take() for client in clients]
    address, key = server._listener.address, server._key
    server.close()
    server.close()
    assert groups.metrics()["episodes_in_flight"] == 0
    assert [groups.take()[1:4] for _ in range(3)] == [ticket[1:4] for ticket in tickets]
    for client, ticket in zip(clients, tickets, strict=True):
        client.give_back(ticket.number)  # it is back already
        for ask in (client.take, client.metrics, lambda: client.report(ticket.number, 1.0)):  # noqa: B023
            with pytest.raises(RodsError, match=r"expected a curriculum server at .*; it has ended"):
                ask()
    with pytest.raises(OSError):
        Client(address, authkey=key)
    assert not isinstance(address, str) or not Path(address).exists()


def test_an_environment_closes_after_its_server(groups):
    with CurriculumServer(groups) as server:
        client = server.client()
        envs = [FrontierCurriculum(Coin(), client) for _ in range(2)]
        for env in envs:
            env.reset()
    with pytest.raises(RodsError, match="it has ended"):
        any(envs[0].step(1)[2] for _ in range(10))
    with pytest.raises(ResetNeeded):
        envs[0].step(1)
    for env in envs:
        with pytest.raises(RodsError, match="it has ended"):
            env.reset()
        env.close()


def test_a_server_is_closed_by_an_error(groups):
    before = set(threading.enumerate())
    with pytest.raises(RodsError, match="still holds"), CurriculumServer(groups) as server:
        server.client().give_back(7)
    assert set(threading.enumerate()) == before


def test_a_forked_copy_does_not_close_the_server(server, client):
    process = multiprocessing.get_context("fork").Process(target=server.close)
    process.start()
    process.join()
    assert process.exitcode == 0
    process.close()
    client.give_back(client.take().number)


def test_who_does_not_know_the_key_is_sent_away(server, client, groups):
    with pytest.raises(multiprocessing.AuthenticationError):
        Client(server._listener.address, authkey=b"guessed")
    Client(server._listener.address).close()  # leaves at once
    silent = Client(server._listener.address)  # and one that says nothing keeps nobody waiting
    client.give_back(client.take().number)
    assert len(groups.curriculum.observed) == 0
    server.close()
    silent.close()


def test_a_request_that_is_broken_off_ends_the_client(client, groups, monkeypatch):
    """The next request must not read the reply to that one."""
    client.metrics()

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(client._connection, "recv", interrupted, raising=True)
    with pytest.raises(KeyboardInterrupt):
        client.take()
    assert groups.came_back.acquire(timeout=WAIT)
    with pytest.raises(RodsError, match="this client was closed"):
        client.metrics()


def test_without_unix_sockets(groups, monkeypatch):
    monkeypatch.setattr(module, "_FAMILY", "AF_INET")
    with CurriculumServer(groups) as server:
        assert server._listener.address[0] == "127.0.0.1"
        client = server.client()
        assert client.report(client.take().number, 1.0) is None
        client.take()
    assert groups.metrics()["episodes_in_flight"] == 0


def test_many_threads_of_a_process_share_a_client(groups, client):
    """Replies do not get mixed up."""
    seen: list[tuple[int, int]] = []

    def play():
        for _ in range(30):
            ticket = client.take()
            seen.append((ticket.group, ticket.member))
            client.report(ticket.number, 1.0)

    threads = [threading.Thread(target=play) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [(group, member) for group in range(40) for member in range(3)]


def test_connections_that_ended_are_forgotten(server, groups):
    handles = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    for _ in range(50):
        client = server.client()
        client.take()
        client.close()
        assert groups.came_back.acquire(timeout=WAIT)
    server.close()
    assert server._connections == {}
    if handles is not None:
        assert len(os.listdir("/proc/self/fd")) <= handles
