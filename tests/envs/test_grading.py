"""What passes a turn: `failed_checks` and `World.same_as`, without an environment around them."""

from __future__ import annotations

import immutables
import msgspec
import pytest

from rods_env.apis.api import World
from rods_env.apis.registry import TOOLS, Services
from rods_env.envs.grading import failed_checks
from rods_env.tasks.task import task_from_json, task_to_json


def after(world, *calls):
    """The world after some calls, and their results."""
    services, texts = Services(world), []
    for call in calls:
        tool = TOOLS[call.tool]
        texts.append(msgspec.json.encode(services.run(tool, tool.decode(msgspec.json.encode(call.arguments)))).decode())
    return services.state.world, texts


def test_gold_passes_every_turn_and_the_start_passes_none(seeds):
    """Row 11 and row 13."""
    turns = 0
    for task in seeds[::4]:
        seen = []
        steps = iter(task.gold.steps)
        for number, turn in enumerate(task.turns):
            seen += [next(steps).text for _ in turn.calls]
            assert failed_checks(task, number, task.gold.worlds[number], iter(seen), False) == ()
            if turn.calls:
                assert failed_checks(task, number, task.world, [], False)
                assert failed_checks(task, number, task.gold.worlds[number], seen, True) == (), "calls are free here"
            else:
                assert failed_checks(task, number, task.world, seen, True) == ("called",)
            turns += 1
    assert turns > 200


def test_each_check_is_named(story):
    """Row 22."""
    task = story.task([story.order, story.quote], [])
    world, (_, quote) = after(story.world, story.order, story.quote)
    assert failed_checks(task, 0, world, [quote], True) == ()
    assert failed_checks(task, 0, world, [], True) == ("answers",)
    assert failed_checks(task, 0, story.world, [quote], True) == ("world",)
    assert failed_checks(task, 0, story.world, ['{"error":"no"}'], True) == ("world", "answers")
    assert failed_checks(task, 1, story.world, [], False) == ()
    assert failed_checks(task, 1, story.world, [], True) == ("called",)


def test_answers_are_those_of_spoken_reads_only(story):
    unspoken = msgspec.structs.replace(story.read, spoken=False)
    task = story.task([unspoken, story.quote, story.order])
    world, texts = after(story.world, story.read, story.quote, story.order)
    assert failed_checks(task, 0, world, texts[1:2], True) == ()
    assert failed_checks(task, 0, world, [texts[0], texts[2]], True) == ("answers",)
    spaced = texts[1][:-1] + " }"
    assert failed_checks(task, 0, world, [spaced], True) == ("answers",), "compared as the tool returned it"


def test_worlds_are_values(story):
    """Row 15: equal worlds are equal, also when no table is the same object."""
    copy = task_from_json(task_to_json(story.task([story.order]))).world
    assert story.world.same_as(story.world)
    assert copy.same_as(story.world)
    assert story.world.same_as(copy)
    there, _ = after(story.world, story.order, story.review)
    back, _ = after(story.world, story.review, story.order)
    assert there.same_as(back)
    assert after(copy, story.review, story.order)[0].same_as(there)
    assert not there.same_as(story.world)
    assert not story.world.same_as(there)


def test_every_difference_counts(story):
    world = story.world
    assert not World("2030-01-01T10:00", world.tables).same_as(world)
    fewer = World(world.now, world.tables.delete("bank.cards"))
    assert not fewer.same_as(world)
    assert not world.same_as(fewer)
    renamed = World(world.now, fewer.tables.set("bank.others", world.tables["bank.cards"]))
    assert not renamed.same_as(world)
    assert not world.same_as(renamed)
    checked = 0
    for name, rows in world.tables.items():
        for key in sorted(rows)[:2]:
            for changed in (rows.delete(key), rows.set("x", rows[key]), _nudged(rows, key)):
                other = World(world.now, world.tables.set(name, changed))
                assert not other.same_as(world)
                assert not world.same_as(other)
                checked += 1
    assert checked > 20
    assert World(world.now, immutables.Map(dict(world.tables))).same_as(world)


def _nudged(rows, key):
    """The rows with one field of one row a little different."""
    row = rows[key]
    field, value = list(msgspec.to_builtins(row).items())[-1]
    other = value + 0.01 if isinstance(value, float) else f"{value}!"
    return rows.set(key, msgspec.structs.replace(row, **{field: other}))


@pytest.mark.parametrize("number", [25, 25.0])
def test_equal_numbers_are_equal(story, number):
    """Row 15."""
    rows = story.world.tables["bank.accounts"]
    key = sorted(rows)[0]
    accounts = [rows.set(key, msgspec.structs.replace(rows[key], balance=value)) for value in (number, 25.0)]
    worlds = [World(story.world.now, story.world.tables.set("bank.accounts", changed)) for changed in accounts]
    assert worlds[0].same_as(worlds[1])
