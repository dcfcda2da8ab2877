"""Every tool of every registered API, through the same checks."""

from __future__ import annotations

import itertools

import jsonschema
import msgspec
import numpy as np
import pytest

from rods_env.apis.api import READ_SKILLS, World
from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast
from rods_env.apis.registry import APIS, TOOLS, Port, Services, Tool, fields_of, placeholders, tools_of
from rods_env.apis.worlds import WorldData, draw_world, literal, world_from_data, world_to_data
from rods_env.errors import ToolError

EVERY_TOOL = pytest.mark.parametrize("name", list(TOOLS))
EVERY_API = pytest.mark.parametrize("api", list(APIS))


def values_in(world: World) -> dict[tuple[str, str], list[object]]:
    """All values of a world by (reference, kind)."""
    found: dict[tuple[str, str], set[object]] = {}
    for rows in world.tables.values():
        for row in rows.values():
            for port in fields_of(type(row)):
                found.setdefault((port.ref, port.kind), set()).add(getattr(row, port.name))
    return {key: sorted(values, key=repr) for key, values in found.items() if any(key)}


def random_arguments(draw: Draw, tool: Tool, known: dict, world: World, cast: Cast) -> dict[str, object]:
    def value(port: Port) -> object:
        if port.ref and ((port.ref, "") not in known or draw.chance(0.04)):
            return f"{port.ref}_nobody"
        seen = known.get((port.ref, port.kind), ()) if port.ref or port.kind else ()
        if seen and (port.ref or draw.chance(0.7)):
            return draw.choice(seen)
        return literal(draw, port, world.today, cast)

    return {p.name: value(p) for p in tool.params if p.required or draw.chance(0.5)}


def play(api: str, seed: int, calls: int):
    """Random calls over one random world; yields (tool, arguments, result or error, world before, world after)."""
    draw = Draw(np.random.default_rng(seed))
    world, cast = draw_world(draw, [api], size=1 + seed % 2)
    services, tools = Services(world), tools_of([api])
    known = values_in(world)
    for step in range(calls):
        if step % 20 == 19:
            known = values_in(services.state.world)
        tool = draw.choice(tools)
        arguments = random_arguments(draw, tool, known, services.state.world, cast)
        before = services.state.world
        try:
            result = services.run(tool, tool.decode(msgspec.json.encode(arguments)))
        except ToolError as error:
            result = error
        yield tool, arguments, result, before, services.state.world


@EVERY_TOOL
def test_schema_is_valid_and_openai_style(name):
    schema = TOOLS[name].schema
    assert schema["type"] == "function"
    function = schema["function"]
    assert set(function) == {"name", "description", "parameters"}
    assert function["name"] == name
    jsonschema.Draft202012Validator.check_schema(function["parameters"])
    assert function["parameters"]["additionalProperties"] is False
    assert all(p["description"] and p.keys() & {"type", "enum"} for p in function["parameters"]["properties"].values())
    assert function["description"].endswith(".")


@EVERY_TOOL
def test_ways_to_ask_read_like_a_clause(name):
    tool = TOOLS[name]
    for text in tool.spec.ask:
        assert text[0] == "{" or text[0].islower(), text
        assert text == text.strip()
        assert text[-1] not in ".!?"
        assert "  " not in text
        assert name not in text
        assert not any(word in text.split() for word in TOOLS if "_" in word)
    assert tool.spec.done == "" or tool.spec.done.endswith(".")
    if tool.many:
        assert "~" in tool.spec.rows
        assert tool.record.PICK, f"{tool.record.__name__} is listed, so it must say how rows are told apart"
        assert set(tool.record.PICK) <= {f.name for f in tool.fields}


@EVERY_TOOL
def test_every_value_that_goes_in_has_a_kind(name):
    for port in TOOLS[name].params:
        assert port.ref or port.kind or port.choices, f"{name}.{port.name} needs a Ref, a Kind or choices"


@EVERY_API
def test_random_calls_hold_the_contract(api):
    """Reads leave the world identical, refusals too; every declared error is provoked and no other is raised."""
    raised: dict[str, set[str]] = {tool.name: set() for tool in tools_of([api])}
    succeeded = set()
    for seed in range(250):
        for tool, _arguments, result, before, after in play(api, seed, 150):
            if isinstance(result, ToolError):
                raised[tool.name].add(result.code)
                assert after is before
                assert str(result).endswith(".")
            else:
                succeeded.add(tool.name)
                if tool.skill in READ_SKILLS:
                    assert after is before
                rows = result if tool.many else [result]
                assert isinstance(result, list) == tool.many
                assert all(type(row) is tool.record for row in rows)
    declared = {
        tool.name: set(tool.spec.errors) | ({"not_found"} if any(p.ref for p in tool.params) else set())
        for tool in tools_of([api])
    }
    assert raised == declared
    assert succeeded == set(declared), "each tool must succeed in some world"


@EVERY_API
def test_worlds_survive_json_and_are_reproducible(api):
    for seed in range(5):
        world, _ = draw_world(Draw(np.random.default_rng(seed)), [api])
        again, _ = draw_world(Draw(np.random.default_rng(seed)), [api])
        assert world == again
        text = msgspec.json.encode(world_to_data(world))
        back = world_from_data(msgspec.json.decode(text, type=WorldData))
        assert back == world
        assert msgspec.json.encode(world_to_data(back)) == text
        assert all(len(rows) <= 60 for rows in world.tables.values())


@EVERY_API
def test_order_of_creations_does_not_matter(api):
    """Two creations that do not touch each other's rows give equal worlds in both orders."""
    tried = 0
    for seed in range(40):
        made = [(t, a) for t, a, r, b, w in play(api, seed, 60) if t.skill == "create" and not isinstance(r, ToolError)]
        draw = Draw(np.random.default_rng(seed))
        world, _ = draw_world(draw, [api], size=1 + seed % 2)
        for first, second in itertools.pairwise(made):
            worlds = []
            for pair in ((first, second), (second, first)):
                services = Services(world)
                try:
                    for tool, arguments in pair:
                        services.run(tool, tool.decode(msgspec.json.encode(arguments)))
                except ToolError:
                    break
                worlds.append(services.state.world)
            if len(worlds) == 2:
                tried += 1
                assert worlds[0] == worlds[1], (first, second)
    assert tried >= 5


@EVERY_API
def test_skills_and_placeholders(api):
    skills = {tool.skill for tool in tools_of([api])}
    assert len(skills) == 8, (
        f"{api} lacks { {'search', 'lookup', 'create', 'update', 'delete', 'transfer', 'send', 'compute'} - skills}"
    )
    assert 12 <= len(tools_of([api])) <= 18
    for tool in tools_of([api]):
        assert placeholders(tool.spec.done) <= {f.name for f in tool.fields if not f.ref}, "ids are not for mails"
