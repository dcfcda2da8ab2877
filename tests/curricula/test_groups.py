"""Groups are exact, whoever plays which episode when, whoever gives up, and whenever the process is killed."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.benchmarks.curriculum import RenamingStub
from rods_env.curricula import FixedCurriculum, Frontier, Groups
from rods_env.errors import RodsError
from rods_env.tasks.task import load_tasks

TASKS = load_tasks("seeds")[:10]


class Watched(FixedCurriculum):
    """Remembers what it was told."""

    def __init__(self, tasks, **settings):
        super().__init__(tasks, **settings)
        self.told = []

    def observe(self, task_id, returns):
        self.told.append((task_id, list(returns)))
        return super().observe(task_id, returns)


def value_of(group, member):
    """A return that tells whose it is."""
    return (group * 31 + member * 7) % 97 / 97


def groups_of(size, **settings):
    return Groups(Watched(TASKS, seed=1, **settings), size)


# --- properties ---

OPERATIONS = st.lists(st.tuples(st.sampled_from(["take", "take", "report", "report", "give back", "reload"]),
                                st.integers(0, 99)), max_size=120)  # fmt: skip


@given(st.integers(2, 5), OPERATIONS)
@settings(deadline=None)
def test_every_group_is_complete_and_exact(size, operations):
    """Interleaved, abandoned and reloaded; at the end everybody finishes, and nothing is missing or double."""
    groups = groups_of(size)
    told, flying, tasks, done = [], [], {}, set()
    for operation, which in operations:
        if operation == "take":
            ticket = groups.take()
            assert tasks.setdefault(ticket.group, ticket.task.id) == ticket.task.id
            assert (ticket.group, ticket.member) not in done
            assert (ticket.group, ticket.member) not in [(t.group, t.member) for t in flying]
            flying.append(ticket)
        elif operation == "reload":
            state = groups.state_dict()
            told += groups.curriculum.told
            groups = groups_of(size)
            groups.load_state_dict(state)
            flying = []  # killed: these come again
        elif flying:
            ticket = flying.pop(which % len(flying))
            if operation == "give back":
                groups.give_back(ticket.number)
            else:
                groups.report(ticket.number, value_of(ticket.group, ticket.member))
                done.add((ticket.group, ticket.member))
    while flying or groups.metrics()["open_groups"]:
        ticket = flying.pop() if flying else groups.take()
        groups.report(ticket.number, value_of(ticket.group, ticket.member))
        tasks[ticket.group] = ticket.task.id
    told += groups.curriculum.told
    expected = [(task_id, [value_of(group, member) for member in range(size)]) for group, task_id in tasks.items()]
    assert sorted(told) == sorted(expected)
    assert sorted(tasks) == list(range(len(tasks)))


@given(st.integers(2, 4), st.lists(st.integers(0, 3), max_size=60))
@settings(deadline=None)
def test_no_new_group_is_begun_while_an_open_one_lacks_an_episode(size, operations):
    groups, flying, begun = groups_of(size), [], set()
    for operation in operations:
        if operation == 0 and flying:
            groups.give_back(flying.pop(0).number)
            continue
        free = len(begun) * size - len(flying)
        ticket = groups.take()
        assert (ticket.group in begun) == (free > 0)
        begun.add(ticket.group)
        flying.append(ticket)
        assert groups.metrics()["episodes_in_flight"] == len(flying)


def test_what_is_given_back_comes_first():
    groups = groups_of(4)
    tickets = [groups.take() for _ in range(6)]
    groups.give_back(tickets[2].number)
    groups.give_back(tickets[0].number)
    assert [(t.group, t.member) for t in (groups.take() for _ in range(3))] == [(0, 0), (0, 2), (1, 2)]


def test_a_reload_changes_nothing_of_what_follows():
    """With the frontier's curriculum, killed in the middle of two groups, through a file."""

    def made():
        return Groups(Frontier(TASKS, seed=2, mode="pool", synthesizer=RenamingStub(), groups_per_step=4), 3)

    def play(groups, n):
        played = []
        for _ in range(n):
            ticket = groups.take()
            played.append((ticket.task.id, ticket.group, ticket.member, ticket.origin))
            groups.report(ticket.number, value_of(ticket.group, ticket.member))
        return played

    whole = made()
    first = play(whole, 500)
    killed = made()
    assert play(killed, 200) == first[:200]
    killed.take()  # two episodes in flight
    killed.take()
    other = made()
    other.load_state_dict(killed.state_dict())
    assert play(other, 300) == first[200:]


def test_files(tmp_path):
    groups = groups_of(3)
    groups.report(groups.take().number, 0.25)
    groups.save(tmp_path / "groups.json")
    other = groups_of(3)
    other.load(tmp_path / "groups.json")
    for _ in range(2):
        other.report(other.take().number, 0.5)
    assert other.curriculum.told[0][1] == [0.25, 0.5, 0.5]


# --- errors ---


@pytest.mark.parametrize("size", [1, 0, -3, 2.0, True, None])
def test_a_group_has_at_least_two_episodes(size):
    with pytest.raises(RodsError, match="group_size"):
        groups_of(size)


@pytest.mark.parametrize("value", [-0.001, 1.001, float("nan"), "much", None])
def test_a_return_that_is_none_leaves_the_episode_in_flight(value):
    groups = groups_of(2)
    ticket = groups.take()
    with pytest.raises(RodsError, match=r"\[0, 1\]"):
        groups.report(ticket.number, value)
    assert groups.metrics()["episodes_in_flight"] == 1
    assert groups.report(ticket.number, 0.5) is None
    assert groups.report(groups.take().number, 0.5) is True


def test_a_ticket_counts_once():
    groups = groups_of(2)
    first, second = groups.take(), groups.take()
    groups.report(first.number, 1.0)
    groups.give_back(second.number)
    for number in (first.number, second.number):
        for act in (lambda n: groups.report(n, 1.0), groups.give_back):
            with pytest.raises(RodsError, match="before"):
                act(number)
    for number in (77, -1, "0", None):
        with pytest.raises(RodsError, match="unknown"):
            groups.report(number, 1.0)


def test_tickets_of_before_a_reload_are_unknown_after_it():
    groups = groups_of(2)
    ticket = groups.take()
    groups.load_state_dict(groups.state_dict())
    with pytest.raises(RodsError, match="before"):
        groups.report(ticket.number, 1.0)
    assert groups.take().number > ticket.number


def test_states_of_others_are_refused():
    state = groups_of(3).state_dict()
    with pytest.raises(RodsError, match="group_size: expected 4, got 3"):
        groups_of(4).load_state_dict(state)
    with pytest.raises(RodsError, match="window"):
        groups_of(3, window=5).load_state_dict(state)
    for broken in ({}, {**state, "groups": [[0, "nobody", [None] * 3]]}, {**state, "groups": 3}):
        with pytest.raises(RodsError):
            groups_of(3).load_state_dict(broken)


# --- threads ---


def test_threads_share_groups():
    groups, counts = groups_of(5), []

    def work():
        for _ in range(200):
            ticket = groups.take()
            if ticket.number % 7 == 0:
                groups.give_back(ticket.number)
            else:
                groups.report(ticket.number, value_of(ticket.group, ticket.member))
                counts.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert groups.metrics()["episodes_in_flight"] == 0
    told = groups.curriculum.told
    waiting = [value for _, _, returns in groups.state_dict()["groups"] for value in returns if value is not None]
    assert len(counts) == 5 * len(told) + len(waiting)
    assert all(len(returns) == 5 for _, returns in told)
    assert groups.metrics()["groups_total"] == len(told)
