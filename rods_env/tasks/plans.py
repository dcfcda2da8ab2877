"""Plans: which tool each call of a shape uses, how it is said, and which call feeds which argument."""

from __future__ import annotations

from collections.abc import Sequence
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
    for clause in draw.sample(tool.spec.ask, 3) if spoken else (tool.spec.rows,):
        named = placeholders(clause)
        ports = [p for p in tool.params if p.name in named or p.required]
        options: list[list[int | None]] = []
        for port in ports:
            can: list[int | None] = []
            if parents and flows(port):
                mark = mark_of(port)
                can += [u for u in parents if mark in offers(plans[u].tool) and feeds(plans[u].tool, tool, mark)]
            if not port.ref and (not can or len(parents) > 1):
                can.append(None)
            options.append(can)
        fitting = (c for c in product(*options) if {u for u in c if u is not None} == set(parents))
        found = list(islice(fitting, 3))
        if found:
            return Plan(tool, clause, dict(zip((p.name for p in ports), draw.choice(found), strict=True)))
    return None
