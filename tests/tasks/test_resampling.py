"""The same story about other entities: nothing is left of the old ones, and everything that depends on them holds."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rods_env import isomorphic, load_tasks, validate
from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import CITIES, Person, email_of
from rods_env.apis.registry import fields_of, generation
from rods_env.tasks.resampling import Renamer, Renaming, Template, exchangeable, ordinary_words, people_of
from rods_env.tasks.task import KINDS, Task

ID = re.compile(r"[a-z]{2,4}_[a-z0-9]{5}")


@pytest.fixture(scope="module")
def told() -> list[tuple[Task, Task, Renaming]]:
    """Forty seeds of all kinds, told about other entities, with the exchange."""
    seeds = load_tasks("seeds")
    found = []
    for kind in KINDS:
        for number, task in enumerate([t for t in seeds if t.kind == kind][:24]):
            renamer = Renamer(people_of(task.world))
            template = Template(task, renamer)
            if template.names:
                renaming = Renaming(renamer, task.world, Draw(np.random.default_rng(number)))
                found.append((task, template.renamed(renaming, task.id), renaming))
    assert len(found) > 40
    return found


def test_what_is_told_again_is_valid_and_isomorphic(told):
    broken = [(old.id, validate(new)) for old, new, _ in told if validate(new)]
    assert len(broken) <= len(told) // 20, broken  # now and then a new name means two things; then it is refused
    good = [(old, new) for old, new, _ in told if not validate(new)]
    assert all(isomorphic(old, new) for old, new in good)
    assert all(new.parent == old.id for old, new in good)


def test_no_old_person_is_left(told):
    for old, new, renaming in told:
        gone = {name for person in renaming.renamer.people for name in (person.name, person.email)}
        gone -= set(renaming.names.values())
        for turn in new.turns:
            assert not [name for name in gone if name in turn.message]
        for rows in new.world.tables.values():
            for row in rows.values():
                assert gone.isdisjoint(getattr(row, f.name) for f in fields_of(type(row)) if f.type == "str"), row
        assert {p.name for p in people_of(new.world)}.isdisjoint({p.name for p in people_of(old.world)})


def test_ids_are_exchanged_one_for_one(told):
    for old, new, renaming in told:
        for name, rows in old.world.tables.items():
            assert {renaming.id(key) for key in rows} == set(new.world.tables[name])
            assert len(new.world.tables[name]) == len(rows)
            assert all(row.id == key for key, row in new.world.tables[name].items())


def test_days_move_by_whole_weeks_and_the_clock_with_them(told):
    for old, new, renaming in told:
        assert renaming.days % 7 == 0
        assert renaming.days != 0
        assert new.world.now[10:] == old.world.now[10:]
        moved = np.datetime64(new.world.today) - np.datetime64(old.world.today)
        assert moved == np.timedelta64(renaming.days, "D")


def test_calls_are_about_the_entities_of_the_new_world(told):
    for old, new, _ in told:
        assert [call.tool for call in new.calls] == [call.tool for call in old.calls]
        if validate(new):
            continue
        for before, after in zip(old.gold.steps, new.gold.steps, strict=True):
            assert len(before.rows) == len(after.rows)


def test_mentions_stand_in_the_new_text(told):
    for _, new, _ in told:
        for number, turn in enumerate(new.turns):
            said = "\n".join(t.message for t in new.turns[: number + 1])
            assert all(mention.text in said for mention in turn.mentions)


def world_with(names: list[str]):
    return Renamer([Person(name, email_of(*name.split()), "") for name in names])


def test_texts_are_cut_at_names_and_days_only():
    renamer = world_with(["Ana Ruiz", "Mark Hall"])
    assert renamer.cut("Tell Ana Ruiz (ana.ruiz@example.com) about Oslo on 4 May 2027.")[1::2] == (
        "Ana Ruiz", "ana.ruiz@example.com", "Oslo", "4 May 2027",
    )  # fmt: skip
    assert renamer.cut("Banana Ruizes are in Osloville, 45 Mayors agree.") == (
        "Banana Ruizes are in Osloville, 45 Mayors agree.",
    )
    assert renamer.cut("Ana's mail")[1::2] == ("Ana",)


def test_names_that_mean_two_things_are_doubtful():
    assert world_with(["Ana Ruiz", "Mark Hall"]).doubtful == {"Mark"}  # "mark the mail as read"
    assert world_with(["Ana Ruiz", "Ana Hall", "Tom Ott"]).doubtful == {"Ana"}
    assert "may" in ordinary_words(generation())


def test_articles_fit_the_new_name():
    renamer = world_with(["Ana Ruiz"])
    world = load_tasks("seeds")[0].world
    found = set()
    for seed in range(60):
        renaming = Renaming(renamer, world, Draw(np.random.default_rng(seed)))
        text = renaming.text("Is there a Rome office or an Oslo office?")
        for article, city in re.findall(r"\b(an?) (\w+) office", text):
            assert (article == "an") == (city[0] in "AEIOU"), text
            found.add(article)
    assert found == {"a", "an"}


def test_said_days_move_like_written_ones():
    renamer = world_with(["Ana Ruiz"])
    task = load_tasks("seeds")[0]
    for seed in range(20):
        renaming = Renaming(renamer, task.world, Draw(np.random.default_rng(seed)))
        year = task.world.now[:4]
        said = renaming.text("On 4 May, please.")
        day = np.datetime64(f"{year}-05-04") + renaming.days
        assert f"On {day.item().day} " in said
        assert (str(day)[:4] in said) == (str(day)[:4] != renaming.now[:4])


def test_words_of_two_lists_are_in_none():
    words = [word for words in exchangeable(generation()) for word in words]
    assert len(words) == len(set(words))
    assert set(CITIES) <= set(words)
    assert len(exchangeable(generation())) >= 6


def test_subjects_are_exchanged_in_quotes_only():
    renamer = world_with(["Ana Ruiz"])
    renaming = Renaming(renamer, load_tasks("seeds")[0].world, Draw(np.random.default_rng(3)))
    assert renaming.text("One more thing. Please mail Tom.") == "One more thing. Please mail Tom."
    said = renaming.text('Send it with the subject "One more thing", please.')
    assert said == f'Send it with the subject "{renaming.names["One more thing"]}", please.'
