"""The core of the simulated APIs: tables, worlds as values, traces, tools and their arguments."""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar

import immutables
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.apis.api import Api, Record, State, Table, Trace, World, tables_of
from rods_env.apis.draw import Draw
from rods_env.apis.kinds import Amount, PersonName, Ref
from rods_env.apis.lexicon import CITIES, Cast
from rods_env.apis.registry import APIS, TABLES, TOOLS, Services, check_apis, placeholders, tools_of
from rods_env.apis.worlds import WorldData, WorldStock, draw_world, literal, world_from_data, world_to_data
from rods_env.errors import RodsError, ToolError

PROPERTY = settings(deadline=None, derandomize=True, max_examples=60)


class Thing(Record, frozen=True):
    """Something on a shelf."""

    id: Annotated[str, Ref("thing")]
    owner: PersonName
    worth: Amount


class Shelf(Api):
    """Two tables of things. Never registered."""

    NAME: ClassVar[str] = "shelf"

    things = Table(Thing, "thi")
    spares = Table(Thing, "spa")


EMPTY = World("2026-03-01T09:00", immutables.Map({"shelf.things": immutables.Map(), "shelf.spares": immutables.Map()}))


def shelf(world: World = EMPTY, *, traced: bool = False) -> Shelf:
    state = State(world)
    if traced:
        state.trace = Trace()
    return Shelf(state)


# ------------------------------------------------------------------ tables and worlds


def test_reads_never_change_a_world():
    """Known fault 15: an extra read zeroed the reward."""
    api = shelf()
    row = api.things.add(owner="Ana Ruiz", worth=4.5)
    before = api.state.world
    assert api.things[row.id] == row
    assert row.id in api.things
    assert "thi_nobod" not in api.things
    assert api.things.where(lambda r: r.worth > 1) == [row]
    with pytest.raises(ToolError):
        api.things["thi_nobod"]
    assert api.state.world is before


def test_an_old_world_stays_as_it_was():
    api = shelf()
    first = api.things.add(owner="Ana Ruiz", worth=1.0)
    kept = api.state.world
    copy = {name: dict(rows) for name, rows in kept.tables.items()}
    changed = api.things.change(first, worth=2.0)
    api.things.add(owner="Tom Becker", worth=3.0)
    api.things.remove(changed)
    assert {name: dict(rows) for name, rows in kept.tables.items()} == copy
    assert kept.tables["shelf.things"][first.id].worth == 1.0
    api.state.world = kept  # a restore is an assignment
    assert api.things[first.id] == first
    assert len(api.things.where(lambda r: True)) == 1


def test_untouched_tables_are_the_same_objects():
    api = shelf()
    spares = api.state.world.tables["shelf.spares"]
    api.things.add(owner="Ana Ruiz", worth=1.0)
    assert api.state.world.tables["shelf.spares"] is spares


def test_change_keeps_the_id_and_the_other_fields():
    api = shelf()
    row = api.things.add(owner="Ana Ruiz", worth=1.0)
    new = api.things.change(row, worth=7.5)
    assert (new.id, new.owner, new.worth) == (row.id, "Ana Ruiz", 7.5)
    assert row.worth == 1.0
    assert api.things[row.id] == new


def test_remove_takes_the_row_out():
    api = shelf()
    row = api.things.add(owner="Ana Ruiz", worth=1.0)
    assert api.things.remove(row) == row
    assert api.state.world == EMPTY


def test_not_found_names_the_id_and_the_kind_of_thing():
    with pytest.raises(ToolError, match=r"no thing with the id 'thi_zzzzz'") as caught:
        shelf().things["thi_zzzzz"]
    assert caught.value.code == "not_found"


def test_where_is_ordered_by_id():
    api = shelf()
    for n in range(20):
        api.things.add(owner=f"Person {n}", worth=float(n))
    ids = [row.id for row in api.things.where(lambda r: r.worth >= 5)]
    assert len(ids) == 15
    assert ids == sorted(ids)


def test_a_declaration_is_bound_to_each_state():
    one, other = shelf(), shelf()
    one.things.add(owner="Ana Ruiz", worth=1.0)
    assert other.things.where(lambda r: True) == []
    assert set(tables_of(Shelf)) == {"things", "spares"}
    assert one.today == "2026-03-01" == one.state.world.today


def test_equal_content_twice_gives_two_ids():
    api = shelf()
    a, b = (api.things.add(owner="Ana Ruiz", worth=1.0) for _ in range(2))
    assert a.id != b.id
    assert a.id.startswith("thi_")
    assert len(a.id) == len("thi_") + 5
    again = shelf()
    assert [again.things.add(owner="Ana Ruiz", worth=1.0).id for _ in range(2)] == [a.id, b.id]


CONTENTS = st.tuples(st.sampled_from(["Ana Ruiz", "Tom Becker", "Åsa Öberg"]), st.sampled_from([1.0, 2.5, 99.99]))


@PROPERTY
@given(st.lists(CONTENTS, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_creations_in_any_order_give_equal_worlds(contents, random):
    """Known fault 14: ids come from content, so the order in which an agent creates things does not matter."""
    shuffled = list(contents)
    random.shuffle(shuffled)
    worlds = []
    for order in (contents, shuffled):
        api = shelf()
        for owner, worth in order:
            api.things.add(owner=owner, worth=worth)
        assert len(api.things.where(lambda r: True)) == len(contents)
        worlds.append(api.state.world)
    assert worlds[0] == worlds[1]


def test_worlds_compare_by_value():
    orders = itertools.permutations([("Ana Ruiz", 1.0), ("Tom Becker", 2.0)])
    worlds = []
    for order in orders:
        api = shelf()
        for owner, worth in order:
            api.spares.add(owner=owner, worth=worth)
        worlds.append(api.state.world)
    assert worlds[0] == worlds[1]
    assert worlds[0] is not worlds[1]
    assert worlds[0] != EMPTY
    assert World("2026-03-01T09:30", worlds[0].tables) != worlds[0]


# ------------------------------------------------------------------ traces


def test_reads_and_writes_are_traced():
    api = shelf(traced=True)
    trace = api.state.trace
    row = api.things.add(owner="Ana Ruiz", worth=1.0)
    assert trace.writes == {("shelf.things", row.id)}
    assert trace.reads == set()
    trace.next_call()
    assert trace.reads == trace.writes == set()
    api.things[row.id]
    assert trace.reads == {("shelf.things", row.id)}
    assert trace.writes == set()
    trace.next_call()
    assert "thi_nobod" not in api.spares
    assert trace.reads == {("shelf.spares", "thi_nobod")}, "that something is not there was read too"


def test_a_scan_reads_the_rows_that_match():
    api = shelf()
    rows = [api.things.add(owner="Ana Ruiz", worth=float(n)) for n in range(1, 5)]
    api.state.trace = Trace()
    api.things.where(lambda r: r.worth > 2)
    assert api.state.trace.reads == {("shelf.things", row.id) for row in rows[2:]}


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_a_row_that_leaves_a_list_is_an_effect_on_the_list(how):
    api = shelf()
    row = api.things.add(owner="Ana Ruiz", worth=9.0)
    api.state.trace = trace = Trace()
    if how == "removed":
        api.things.remove(row)
    else:
        api.things.change(row, worth=1.0)
    trace.next_call()
    assert api.things.where(lambda r: r.worth > 5) == []
    assert trace.reads == {("shelf.things", row.id)}
    trace.next_call()
    api.things.where(lambda r: r.worth > 50)  # it never was in this list
    api.spares.where(lambda r: True)  # nor in this table
    assert trace.reads == set()


def test_a_scan_knows_all_former_states_of_a_row():
    api = shelf()
    row = api.things.add(owner="Ana Ruiz", worth=1.0)
    api.state.trace = trace = Trace()
    for worth in (2.0, 3.0):
        row = api.things.change(row, worth=worth)
    trace.next_call()
    assert api.things.where(lambda r: r.worth == 1.0) == []
    assert trace.reads == {("shelf.things", row.id)}


# ------------------------------------------------------------------ tools and services


def shop_world(seed: int = 0) -> tuple[World, Cast]:
    return draw_world(Draw(np.random.default_rng(seed)), ["shop"])


def test_a_refused_call_leaves_the_world():
    world, _ = shop_world()
    services = Services(world)
    shipped = next(o for o in world.tables["shop.orders"].values() if o.status != "open")
    with pytest.raises(ToolError) as caught:
        services.run(TOOLS["cancel_order"], (shipped.id,))
    assert caught.value.code == "not_open"
    assert services.state.world is world


def test_equal_numbers_are_equal():
    """Known fault 15: `25` and `25.0` hashed differently."""
    world, _ = shop_world()
    order = next(o for o in sorted(world.tables["shop.orders"].values(), key=lambda o: o.id) if o.status == "open")
    tool = TOOLS["change_quantity"]
    integer = tool.decode(b'{"order_id": "%s", "quantity": 25}' % order.id.encode())
    decimal = tool.decode(b'{"order_id": "%s", "quantity": 25.0}' % order.id.encode())
    assert integer == decimal
    assert type(decimal[1]) is int
    ends = []
    for arguments in (integer, decimal):
        services = Services(world)
        services.run(tool, arguments)
        ends.append(services.state.world)
    assert ends[0] == ends[1]
    assert msgspec.json.encode(world_to_data(ends[0])) == msgspec.json.encode(world_to_data(ends[1]))
    with pytest.raises(msgspec.ValidationError):
        tool.decode(b'{"order_id": "ord_aaaaa", "quantity": 2.5}')


PAYING = sorted(n for n, t in TOOLS.items() if not t.reads and any(p.type == "float" for p in t.params))


@pytest.mark.parametrize("name", PAYING)
def test_amounts_as_integers_and_as_decimals_are_the_same_arguments(name):
    """Known fault 15, for every write that takes an amount."""
    tool = TOOLS[name]
    texts = {"str": "2026-05-04", "int": 20}
    decoded = []
    for number in (25, 25.0):
        given = {}
        for p in tool.params:
            given[p.name] = number if p.type == "float" else p.choices[0] if p.choices else texts[p.type]
            if p.kind == "email":
                given[p.name] = "ana@example.com"
            if p.kind == "time":
                given[p.name] = "10:30"
        decoded.append(tool.decode(msgspec.json.encode(given)))
    assert decoded[0] == decoded[1]
    assert [type(v) for v in decoded[0]] == [type(v) for v in decoded[1]], "so encoded contents, and ids, are equal too"


@pytest.mark.parametrize(
    "arguments", [b"{}", b"[]", b"7", b'{"order_id": 4}', b'{"order_id": null}', b'{"order_id": "a", "more": 1}']
)
def test_wrong_arguments_are_refused(arguments):
    """Known fault 16: never run what was not said."""
    with pytest.raises(msgspec.ValidationError):
        TOOLS["cancel_order"].decode(arguments)


def test_services_work_on_the_tables_they_have():
    world, cast = shop_world()
    services = Services(world)
    found = services.run(TOOLS["find_customer"], (cast.user.name,))
    assert found.name == cast.user.name
    assert services.state.world is world


# ------------------------------------------------------------------ worlds


def test_worlds_of_equal_seeds_are_equal_and_of_others_differ():
    """Known fault 9: a seed is never ignored."""
    assert shop_world(3) == shop_world(3)
    assert shop_world(3)[0] != shop_world(4)[0]


@pytest.mark.parametrize("api", list(APIS))
def test_a_larger_size_gives_more_rows(api):
    def rows(size: int) -> int:
        world, _ = draw_world(Draw(np.random.default_rng(1)), [api], size=size)
        return sum(map(len, world.tables.values()))

    assert rows(1) < rows(4)


def test_everybody_of_the_cast_is_known_across_apis():
    world, cast = draw_world(Draw(np.random.default_rng(5)), list(APIS), today="2026-07-01")
    assert world.today == "2026-07-01"
    assert set(world.tables) == set(TABLES)
    assert any(c.name == cast.user.name for c in world.tables["shop.customers"].values())
    assert any(c.email in {p.email for p in cast.people} for c in world.tables["mail.contacts"].values())


def test_a_stock_serves_each_world_for_some_tasks():
    stock = WorldStock(Draw(np.random.default_rng(0)), uses=3, worlds=1)
    worlds = [stock.get(["shop"])[0] for _ in range(7)]
    assert worlds[0] == worlds[1] == worlds[2] != worlds[3] == worlds[4] == worlds[5] != worlds[6]
    single = WorldStock(Draw(np.random.default_rng(0)), uses=1, worlds=1)
    assert single.get(["shop"])[0] != single.get(["shop"])[0]
    both, cast = stock.get(["shop", "mail"])
    assert both.tables["shop.orders"] is worlds[6].tables["shop.orders"], "the tables of a world are drawn once"
    assert any(c.name == cast.user.name for c in both.tables["shop.customers"].values())


def test_worlds_from_bad_data_say_what_is_wrong():
    world, _ = shop_world()
    data = world_to_data(world)
    with pytest.raises(RodsError, match=r"unknown table 'shop.unicorns'.*shop"):
        world_from_data(WorldData(world.now, {"shop.unicorns": []}))
    broken = WorldData(world.now, {**data.tables, "shop.orders": [{"id": "ord_aaaaa"}]})
    with pytest.raises(RodsError, match=r"table 'shop.orders'"):
        world_from_data(broken)


def test_literals_fit_the_kind_and_nobody_knows_an_id():
    draw, (_, cast) = Draw(np.random.default_rng(0)), shop_world()
    ports = [port for tool in TOOLS.values() for port in tool.params]
    assert len(ports) > 100
    for port in ports:
        value = literal(draw, port, "2026-05-04", cast)
        if port.ref:
            assert value is None
        elif port.choices or port.words:
            assert value in (port.choices or port.words)
        elif port.kind == "date":
            assert "2026-05-04" < value <= "2026-06-13"
        elif port.kind == "city":
            assert value in CITIES
        elif port.kind == "person":
            assert value in {p.name for p in cast.people}


# ------------------------------------------------------------------ the registry


def test_names_of_apis_come_back_in_registered_order():
    assert check_apis(["mail", "shop", "mail"]) == tuple(name for name in APIS if name in ("mail", "shop"))
    with pytest.raises(RodsError, match=r"unknown API 'casino'.*files"):
        check_apis(["shop", "casino"])
    assert {tool.api.NAME for tool in tools_of(["shop"])} == {"shop"}


def test_there_are_eight_apis_with_at_least_110_tools():
    assert len(APIS) >= 8
    assert len(TOOLS) >= 110
    assert all(TOOLS[name].name == name for name in TOOLS)


def test_placeholders_and_labels():
    assert placeholders("cancel {order_id} on {date}") == {"order_id", "date"}
    assert placeholders("no slot") == set()
    assert TOOLS["cancel_order"].by_name["order_id"].label == "order"
