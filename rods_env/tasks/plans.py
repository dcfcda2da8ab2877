"""Plans: which tool each call of a shape uses, how it is said, and which call feeds which argument."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, product
from typing import NamedTuple

from rods_env.apis.draw import Draw
from rods_env.apis.registry import Tool, placeholders
from rods_env.errors import SynthesisError
from rods_env.tasks.shapes import Shape, feeds, flows, mark_of, offers


class Plan(NamedTuple):
    """A node with its tool, the chosen way to say it, and for every argument a source call, or None for the text."""

    tool: Tool
    clause: str
    wiring: dict[str, int | None]


def assign_tools(shape: Shape, tools: Sequence[Tool], draw: Draw, hints: Sequence[Tool] = ()) -> list[Plan]:
    """A tool and a wiring for each node, by backtracking in topological order.

    Args:
        shape: the structure.
        tools: the tools to choose from.
        draw: the source of chance.
        hints: a tool for each node, when they are known already.

    Raises:
        SynthesisError: `assign`, when no tools fit.
    """
    by_skill: dict[str, list[Tool]] = {}
    for tool in tools:
        by_skill.setdefault(tool.skill, []).append(tool)
    parents = [sorted(u for u, v in shape.data if v == n) for n in range(len(shape.nodes))]
    plans: list[Plan] = []
    budget = 400

    def assign(index: int) -> bool:
        nonlocal budget
        if index == len(shape.nodes):
            return True
        node = shape.nodes[index]
        for tool in (hints[index],) if hints else draw.shuffled(by_skill.get(node.skill, ())):
            budget -= 1
            if budget < 0:
                return False
            plan = wire(tool, node.spoken, parents[index], plans, draw)
            if plan is not None:
                plans.append(plan)
                if assign(index + 1):
                    return True
                plans.pop()
        return False

    if not assign(0):
        raise SynthesisError("no tools of these APIs fit the shape.", reason="assign")
    return plans


def wire(tool: Tool, spoken: bool, parents: Sequence[int], plans: Sequence[Plan], draw: Draw) -> Plan | None:
    """A wiring in which every parent feeds an argument, every id has a parent, and the rest can be said."""
    tools = [plan.tool for plan in plans]
    for clause in draw.sample(tool.spec.ask, 3) if spoken else (tool.spec.rows,):
        found = _wirings(tool, clause, parents, tools)
        if found:
            return Plan(tool, clause, draw.choice(found))
    return None


def ways(tool: Tool, spoken: bool, parents: Sequence[int], tools: Sequence[Tool]) -> list[list[Plan]]:
    """All that `wire` may choose from: for each way to say the call that fits, its wirings.

    Args:
        tool: the tool of the call.
        spoken: whether the user asks for it.
        parents: the calls that must feed it.
        tools: the tools of the calls before it.
    """
    clauses = tool.spec.ask if spoken else (tool.spec.rows,)
    found = [[Plan(tool, c, wiring) for wiring in _wirings(tool, c, parents, tools)] for c in clauses]
    return [plans for plans in found if plans]


def _wirings(tool: Tool, clause: str, parents: Sequence[int], tools: Sequence[Tool]) -> list[dict[str, int | None]]:
    patterns = _patterns(tool, clause, tuple([tools[u] for u in parents]))
    return [{name: None if at is None else parents[at] for name, at in pattern.items()} for pattern in patterns]


@lru_cache(maxsize=1 << 16)
def _patterns(tool: Tool, clause: str, feeders: tuple[Tool, ...]) -> list[dict[str, int | None]]:
    """Wirings by position among the tools that feed the call. There are few, and they are asked for all the time."""
    named = placeholders(clause)
    ports = [p for p in tool.params if p.name in named or p.required]
    options: list[list[int | None]] = []
    for port in ports:
        can: list[int | None] = []
        if feeders and flows(port):
            mark = mark_of(port)
            can += [at for at, u in enumerate(feeders) if mark in offers(u) and feeds(u, tool, mark)]
        if not port.ref and (not can or len(feeders) > 1):
            can.append(None)
        options.append(can)
    names = [port.name for port in ports]
    every = set(range(len(feeders)))
    fitting = (c for c in product(*options) if {at for at in c if at is not None} == every)
    return [dict(zip(names, choice, strict=True)) for choice in islice(fitting, 3)]
