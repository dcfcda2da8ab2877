"""The sets of the tiny policy: the same every time, apart from each other, valid, and as short as it is said."""

from __future__ import annotations

from itertools import combinations, islice

import pytest

from rods_env import RodsError, load_tasks, validate
from rods_env.apis.registry import TOOLS
from rods_env.tasks.tiny_sets import TINY_APIS, TINY_SETS, fingerprint, short_tasks, tiny_set


def texts(tasks):
    return [tuple(turn.message for turn in task.turns) for task in tasks]


def test_no_task_of_a_set_stands_in_another_or_twice_in_its_own():
    found = {name: texts(load_tasks(name)) for name in TINY_SETS}
    for name, some in found.items():
        assert len(some) == len(set(some)) == TINY_SETS[name]
    for one, other in combinations(found.values(), 2):
        assert not set(one) & set(other)


@pytest.mark.parametrize("name", TINY_SETS)
def test_tasks_are_valid_and_of_the_stated_size(name):
    tasks = tiny_set(name)
    least, most, turns = (1, 4, {1}) if name == "tiny:short" else (3, 6, {2, 3})
    for task in tasks[:100]:
        assert not validate(task)
    for task in tasks:
        assert {TOOLS[call.tool].api.NAME for call in task.calls} <= set(TINY_APIS)
        assert least <= len(task.calls) <= most
        assert sum(bool(turn.calls) for turn in task.turns) in turns
    assert {task.kind for task in tasks} == {"base", "missing_function", "missing_parameter"}


def test_equal_seeds_give_equal_streams_and_others_do_not():
    assert texts(islice(short_tasks(3), 20)) == texts(islice(short_tasks(3), 20))
    assert texts(islice(short_tasks(3), 20)) != texts(islice(short_tasks(4), 20))
    assert fingerprint() == fingerprint()


def test_an_unknown_set_is_refused_with_the_known_ones():
    with pytest.raises(RodsError, match="tiny:seeds, tiny:heldout, tiny:tuning, tiny:short"):
        load_tasks("tiny:nothing")
