"""Errors that help: what a call has to be like, and which tools supply what it lacks (`AugmentedFeedback`).

All of it follows from the signatures of the tools that are offered and from what the policy has written. Neither the
world nor the task is looked at, so nothing of the solution can get into a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from rods_env.apis.api import Table
from rods_env.apis.registry import TABLES, Port, Tool, fields_of, generation
from rods_env.envs.tool_use import Failure
from rods_env.errors import ToolError
from rods_env.tasks.shapes import feeds, flows, mark_of, offers, own_mark

# Examples that stand in no world: ids have no 0 (`draw.id_from`), dates are drawn up to 2030, times on the half hour.
_ID, _DATE, _TIME, _EMAIL = "k0v9x", "2035-05-04", "07:05", "name@example.com"

_WRITTEN = {
    "date": f"a date from 2000 to 2039, written YYYY-MM-DD, such as {_DATE}",
    "time": f"a time of day, written HH:MM, such as {_TIME}",
    "email": f"an e-mail address, such as {_EMAIL}",
    "new_address": f"an e-mail address, such as {_EMAIL}",
}

_DOES = {
    "search": "search",
    "lookup": "look something up",
    "create": "create something",
    "update": "change something",
    "delete": "delete or cancel something",
    "transfer": "move or pay something",
    "send": "send something",
    "compute": "work something out",
}

_MANY = 20  # names in a list: more say nothing
_SHOWN = 60  # characters of what the policy wrote
_PATH = re.compile(r" - at `\$\.(\w+)`")
_WORD = re.compile(r"[A-Z]?[a-z]+")


def explain(failure: Failure) -> str:
    """The error message for a failure: what the constraint is, then which of the offered tools help."""
    tool = failure.tools.get(failure.name)
    if isinstance(failure.error, ToolError) and tool is not None:
        helps = _refused(failure, tool, failure.error)
    elif failure.error is None:
        helps = _kin(failure.name, failure.tools)
    elif tool is None:
        helps = _meant(failure.arguments, failure.tools)
    else:
        return " ".join(_wrong_arguments(failure, tool))
    return " ".join((failure.message, *helps))


def suppliers(port: Port, tools: Iterable[Tool]) -> list[Tool]:
    """The tools whose results can fill a parameter, by the type graph; none for what only a person can say.

    First the reads that return the entity itself, then the reads that name it, then the creations that make a new one.
    Left out are tools that need such a value themselves, and writes that would tell it only by the way.

    Args:
        port: the parameter.
        tools: the tools to choose from.
    """
    mark = mark_of(port)
    if not flows(port):
        return []
    able = [t for t in tools if mark in offers(t) and not any(p.required and mark_of(p) == mark for p in t.params)]
    own = [t for t in able if own_mark(t) == mark]
    found = [t for t in own if t.reads]
    told = [t for t in able if t.reads and own_mark(t) != mark]
    return found + told + [t for t in own if t.skill == "create"]


# ---------------------------------------------------------------------- the kinds of failures


def _wrong_arguments(failure: Failure, tool: Tool) -> Iterator[str]:
    """What is wrong with each argument, and where the right ones come from."""
    tools, name = failure.tools, tool.name
    takes = [p.name if p.required else f"{p.name} (optional)" for p in tool.params]
    all_of = f"It takes {_listed(takes)}." if takes else "It takes no arguments."
    given = _decoded(failure.arguments)
    if not isinstance(given, dict):
        yield failure.message if given is None else f"The arguments of {name} must be an object, not {_said(given)}."
        yield all_of
        return
    lacking = [port for port in tool.params if port.required and port.name not in given]
    extra = [_said(key) for key in given if key not in tool.by_name]
    path = _PATH.search(str(failure.error))
    wrong = tool.by_name.get(path[1]) if path and path[1] in given else None
    if wrong is not None:
        text = "a text: " if wrong.type == "str" and not (wrong.ref or wrong.choices or wrong.kind in _WRITTEN) else ""
        yield f"In {name}, {wrong.name} must be {text}{_constraint(tool, wrong)}; it is {_said(given[wrong.name])}."
        if _sources(wrong, tool, tools):
            yield from _origins([wrong], tool, tools)
    if extra:
        yield f"{_listed(extra)} {'is no argument' if len(extra) == 1 else 'are no arguments'} of {name}."
        if not lacking:
            yield all_of
    if lacking:
        needs = [f"{port.name} ({_constraint(tool, port)})" for port in lacking]
        yield f"{'It' if extra else name} needs {_listed(needs)}."
        yield from _origins(lacking, tool, tools)
    if wrong is None and not extra and not lacking:
        yield failure.message
        yield all_of


def _refused(failure: Failure, tool: Tool, error: ToolError) -> Iterator[str]:
    """For an id that does not exist, where such ids come from; otherwise which tools show the state of things."""
    tools = failure.tools
    refs = dict.fromkeys(port.ref for port in tool.params if port.ref)
    if error.code == "not_found":
        for port, value in zip(tool.params, tool.decode(failure.arguments), strict=True):
            if port.ref and str(error) == f"There is no {_noun(port.ref)} with the id {value!r}.":
                yield from _wrong_id(port, value, tool, tools)
                return
    own, _ = own_mark(tool) or ("", "")
    if not refs and tool.reads:  # a lookup by name
        for port in tool.params:
            yield f"{port.name} must be {_constraint(tool, port)}."
        yield from _origins(tool.params, tool, tools)
        others = [t for t in _sources(Port("id", ref=own), tool, tools) if t.reads]
        if others:
            yield _origin_of_ids(own, others, "also ")
        return
    reads = [t for t in tools.values() if t.skill in ("search", "lookup") and t is not tool]
    for ref in filter(None, refs or [own]):
        names = [t.name for t in reads if own_mark(t) == (ref, "")]
        names += [t.name for t in reads if t.name not in names and any(p.ref == ref for p in t.params)]
        if names:
            yield f"{_listed(names)} {'shows' if len(names) == 1 else 'show'} the state of the {_noun(ref)}."


def _wrong_id(port: Port, value: str, tool: Tool, tools: Mapping[str, Tool]) -> Iterator[str]:
    """What such ids look like, if this one does not, and where they come from."""
    tables = _tables(generation())
    table = tables.get(port.ref)
    prefix, mark, _ = value.partition("_")
    others = [t for t in tables.values() if t.prefix == prefix and t is not table and mark]
    if others:
        yield f"An id that begins with {prefix}_ is that of {_a(others[0].noun)}."
    look = f"look like {table.prefix}_{_ID} and " if table is not None and prefix != table.prefix else ""
    yield _origin_of_ids(port.ref, _sources(port, tool, tools), look)


def _kin(name: str, tools: Mapping[str, Tool]) -> Iterator[str]:
    """Which offered tools do what the name of a tool that is not offered speaks of."""
    words = [word.lower() for word in _WORD.findall(name[:_SHOWN])]
    skills_of: dict[str, list[str]] = {}
    for tool in tools.values():
        skills_of.setdefault(tool.name.split("_")[0], []).append(tool.skill)
    skills = next((list(dict.fromkeys(skills_of[word])) for word in words if word in skills_of), [])
    things = {word.removesuffix("s") for word in words if word not in skills_of}
    alike = [t for t in tools.values() if things & {word.removesuffix("s") for word in t.name.split("_")[1:]}]
    if alike and not skills:
        yield f"Tools with a similar name: {', '.join(t.name for t in alike[:_MANY])}."
        return
    apis = list(dict.fromkeys(t.api.NAME for t in alike or tools.values()))
    names = [t.name for t in tools.values() if t.api.NAME in apis and (not skills or t.skill in skills)]
    if len(names) > _MANY:
        yield f"Tools are offered for {_listed(apis)}."
    elif names:
        does = f" that {_listed([_DOES[skill] for skill in skills], 'or')}" if skills else ""
        yield f"Tools{does} in {_listed(apis)}: {', '.join(names)}."


def _meant(message: Any, tools: Mapping[str, Tool]) -> Iterator[str]:
    """What the first tool takes that a message names in which no call can be read."""
    for word in re.findall(r"\w+", str(message)[:2000]):
        if word in tools:
            yield f"{word} takes {_listed([port.name for port in tools[word].params]) or 'no arguments'}."
            return


# ---------------------------------------------------------------------- phrases


def _constraint(tool: Tool, port: Port) -> str:
    """What a parameter must be: "the id of an order", "a whole number from 1 to 99"."""
    if port.ref:
        return f"the id of {_a(_noun(port.ref))}"
    if port.choices:
        return f"one of {_listed(port.choices, 'or')}"
    if port.kind in _WRITTEN:
        return _WRITTEN[port.kind]
    if port.type == "str":
        text = re.split(r"[.;]", tool.param_docs[port.name])[0]
        return text[:1].lower() + text[1:]
    limits = tool.schema["function"]["parameters"]["properties"][port.name]
    number = ("a whole number" if port.type == "int" else "a number") + (f" of {port.unit}" if port.unit else "")
    match limits:
        case {"minimum": least, "maximum": most}:
            return f"{number} from {least} to {most}"
        case {"exclusiveMinimum": least}:
            return f"{number} above {least}"
        case {"minimum": least}:
            return f"{number}, at least {least}"
        case {"maximum": most}:
            return f"{number}, at most {most}"
    return number


def _origins(ports: Sequence[Port], tool: Tool, tools: Mapping[str, Tool]) -> Iterator[str]:
    """Where values for these parameters of a tool come from; what only the user can say is named last."""
    said = []
    for port in {(p.ref or p.name): p for p in ports}.values():
        able = _sources(port, tool, tools)
        if port.ref:
            yield _origin_of_ids(port.ref, able)
        elif able:
            yield f"{port.name} comes from {_listed(['the user', *[t.name for t in able]], 'or')}."
        else:
            said.append(port.name)
    if said:
        come, them = ("comes", "it") if len(said) == 1 else ("come", "them")
        yield f"{_listed(said)} {come} from the user, who can be asked for {them}."


def _sources(port: Port, tool: Tool, tools: Mapping[str, Tool]) -> list[Tool]:
    """The offered tools that can supply this parameter of a tool."""
    return [t for t in suppliers(port, tools.values()) if t is not tool and feeds(t, tool, mark_of(port))]


def _origin_of_ids(ref: str, able: Sequence[Tool], how: str = "") -> str:
    """Where ids of a kind come from; `how` stands before "come", such as "look like ord_k0v9x and "."""
    noun = _noun(ref)
    ids = f"{noun.capitalize()} ids {how}come from"
    found = [t.name for t in able if t.reads]
    made = _listed([t.name for t in able if not t.reads], "or")
    if not able:
        return f"{ids} no tool that is offered at the moment."
    if not made:
        return f"{ids} {_listed(found, 'or')}."
    return f"{ids} {', '.join(found)} or, for a new {noun}, {made}." if found else f"{ids} {made}, for a new {noun}."


def _noun(ref: str) -> str:
    """How an entity of a kind is called: "order", "account holder"."""
    table = _tables(generation()).get(ref)
    return table.noun if table is not None else ref.replace("_", " ")


@lru_cache(maxsize=1)
def _tables(_generation: int) -> dict[str, Table[Any]]:
    """The table of each kind of entity."""
    return {fields_of(table.record)[0].ref: table for table in TABLES.values()}


def _a(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def _listed(words: Sequence[Any], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"; of very many only the first."""
    if len(words) > _MANY:
        return f"{', '.join(map(str, words[:_MANY]))} {last} others"
    return f" {last} ".join(part for part in (", ".join(map(str, words[:-1])), *map(str, words[-1:])) if part)


def _said(value: Any) -> str:
    """A value as the policy wrote it, cut where it is long."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _decoded(arguments: Any) -> Any:
    """The arguments as they were written, or None where they are no JSON."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
