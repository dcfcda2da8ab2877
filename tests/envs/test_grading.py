"""What passes a turn: `failed_checks` and `same_world`, without an environment around them."""

from __future__ import annotations

import immutables
import msgspec
import pytest

from rods_env.apis.api import World
from rods_env.apis.registry import TOOLS, Services
from rods_env.apis.worlds import world_from_data, world_to_data
from rods_env.envs.grading import failed_checks, same_world


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
    assert failed_checks(task, 0, world, [texts[1][:-1] + " }"], True) == ("answers",), "compared as the tool returned it"


def test_worlds_are_values(story):
    """Row 15: equal worlds are equal, also when no table is the same object."""
    copy = world_from_data(msgspec.json.decode(msgspec.json.encode(world_to_data(story.world))))
    assert same_world(story.world, story.world) and same_world(copy, story.world) and same_world(story.world, copy)
    there, _ = after(story.world, story.order, story.review)
    back, _ = after(story.world, story.review, story.order)
    assert same_world(there, back) and same_world(after(copy, story.review, story.order)[0], there)
    assert not same_world(there, story.world) and not same_world(story.world, there)


def test_every_difference_counts(story):
    world = story.world
    assert not same_world(World("2030-01-01T10:00", world.tables), world)
    fewer = World(world.now, world.tables.delete("bank.cards"))
    assert not same_world(fewer, world) and not same_world(world, fewer)
    renamed = World(world.now, fewer.tables.set("bank.others", world.tables["bank.cards"]))
    assert not same_world(renamed, world) and not same_world(world, renamed)
    checked = 0
    for name, rows in world.tables.items():
        for key in sorted(rows)[:2]:
            for changed in (rows.delete(key), rows.set("x", rows[key]), _nudged(rows, key)):
                other = World(world.now, world.tables.set(name, changed))
                assert not same_world(other, world) and not same_world(world, other)
                checked += 1
    assert checked > 20
    assert same_world(World(world.now, immutables.Map(dict(world.tables))), world)


def _nudged(rows, key):
    """The rows with one field of one row a little different."""
    row = rows[key]
    field, value = list(msgspec.to_builtins(row).items())[-1]
    return rows.set(key, msgspec.structs.replace(row, **{field: value + 0.01 if isinstance(value, float) else f"{value}!"}))


@pytest.mark.parametrize("number", [25, 25.0])
def test_equal_numbers_are_equal(story, number):
    """Row 15."""
    rows = story.world.tables["bank.accounts"]
    key = sorted(rows)[0]
    worlds = [
        World(story.world.now, story.world.tables.set("bank.accounts", rows.set(key, msgspec.structs.replace(rows[key], balance=value))))
        for value in (number, 25.0)
    ]
    assert same_world(*worlds)
