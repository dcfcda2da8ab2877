"""Shapes: the structure of a task without its content. Drawn here along the type graph, or taken from a task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from rods_env.apis.draw import Draw
from rods_env.apis.registry import TOOLS, Port, Tool

# Kinds that a person says rather than takes over from a result.
_SAID = frozenset({"sentence", "subject", "quantity", "rating", "minutes", "person", "time"})

Mark = tuple[str, str]  # (entity kind, value kind), one of them ""


class Node(NamedTuple):
    """A call of a shape: what it does, in which turn, and whether the user asks for it."""

    skill: str
    turn: int
    spoken: bool


class Shape(msgspec.Struct, frozen=True):
    """The structure of a base task: nodes in order of execution, and the edges between them.

    Attributes:
        nodes: the calls.
        data: pairs (u, v) where an argument of v must come out of u's result.
        state: pairs (u, v) where v must read or write what u wrote; None leaves that free.
    """

    nodes: tuple[Node, ...]
    data: frozenset[tuple[int, int]]
    state: frozenset[tuple[int, int]] | None = None

    @property
    def turns(self) -> int:
        return self.nodes[-1].turn + 1


def mark_of(port: Port) -> Mark:
    return (port.ref, port.kind)


def flows(port: Port) -> bool:
    """Whether a value of this port may be taken over from an earlier result."""
    return bool(port.ref) or (bool(port.kind) and port.kind not in _SAID and not port.words and not port.choices)


@lru_cache(maxsize=1024)
def offers(tool: Tool) -> dict[Mark, tuple[str, ...]]:
    """What a tool's result can feed: mark to field names, the record's own id first.

    Addresses come from people only, and no other plain value out of a list: "pay the limit of my newest card" is no
    wish anybody has, while "pay that total" is, once the total was worked out. A date is taken over from a field that
    is named as one, because it is said by that name ("the delivery date of that order").
    """
    found: dict[Mark, tuple[str, ...]] = {}
    takes = {mark_of(port) for port in tool.params}
    texts = any(port.kind == "sentence" for port in tool.params)
    for field in tool.fields:
        # What a message became is never taken up: after "forward that mail", "it" would be the one that was forwarded.
        if tool.skill == "send" and field.name == "id" and (texts or mark_of(field) in takes):
            continue
        if flows(field):
            match field.kind:
                case "email":
                    fit = tool.record.CALLED == "{name}"
                case "amount":
                    fit = tool.skill == "compute"
                case "date":
                    fit = not tool.many and "date" in field.name
                case _:
                    fit = not tool.many
            if field.ref or fit:
                found[mark_of(field)] = (*found.get(mark_of(field), ()), field.name)
    return found


def feeds(source: Tool, consumer: Tool, mark: Mark) -> bool:
    """Whether a person would take such a value over from one call to the other: dates only within an API."""
    return mark != ("", "date") or source.api is consumer.api


def own_mark(tool: Tool) -> Mark | None:
    """The mark of the entities that a tool returns, or None where its result has no id."""
    first = tool.fields[0]
    return mark_of(first) if first.name == "id" and first.ref else None


class TypeGraph:
    """Which tool can feed which: what follows from the marks of parameters and fields alone.

    Attributes:
        by_skill: the tools of each skill.
        takes: for each tool the parameters that can take over a value, with their marks.
        marks: for each tool the marks of those parameters.
        finders: for each mark the reads that find it: ids of their own records, or values they work out.
        telling: the tools that carry a text, which can tell what has happened.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tuple(tools)
        self.by_skill: dict[str, list[Tool]] = {}
        self.takes: dict[Tool, tuple[tuple[Port, Mark], ...]] = {}
        self.finders: dict[Mark, list[Tool]] = {}
        for tool in tools:
            self.by_skill.setdefault(tool.skill, []).append(tool)
            self.takes[tool] = tuple((p, mark_of(p)) for p in tool.params if flows(p))
            own = own_mark(tool)
            for mark in offers(tool) if tool.reads else ():
                if mark == own or not mark[0]:
                    self.finders.setdefault(mark, []).append(tool)
        self.marks = {tool: frozenset(mark for _, mark in taken) for tool, taken in self.takes.items()}
        self.telling = frozenset(t for t in tools if any(p.kind == "sentence" for p in t.params))


_GRAPHS: dict[tuple[Tool, ...], TypeGraph] = {}


def type_graph(tools: Sequence[Tool]) -> TypeGraph:
    """The type graph of some tools, made once."""
    key = tuple(tools)
    if key not in _GRAPHS:
        _GRAPHS[key] = TypeGraph(key)
    return _GRAPHS[key]


class Planned(NamedTuple):
    """A call of a sketch: its tool, its turn, whether it is asked for, and the calls that feed it."""

    tool: Tool
    turn: int
    spoken: bool
    parents: tuple[int, ...]


# How often a spoken call has each skill: users mostly want something done.
_GOALS = {"create": 4, "update": 5, "delete": 4, "transfer": 4, "send": 4, "search": 2, "lookup": 1, "compute": 2}
_GOAL_SKILLS = tuple(skill for skill, weight in _GOALS.items() for _ in range(weight))


class ShapeSketch:
    """Grows a shape backwards from what the user wants: each missing id is looked up first, or taken from the story.

    Args:
        draw: the source of chance.
        graph: the type graph of the tools to choose from.
        prefer: names of tools to choose first where there is a choice (such as tools not used yet).
    """

    def __init__(self, draw: Draw, graph: TypeGraph, prefer: frozenset[str] = frozenset()) -> None:
        self.draw = draw
        self.graph = graph
        self.prefer = prefer
        self.planned: list[Planned] = []
        self.start = 0  # the first call of the wish that is drawn
        self.known: list[frozenset[Mark]] = []  # for each planned call what its result can feed

    def wish(self, turn: int) -> bool:
        """Adds one wish to `planned`: what the user wants, after the calls that find what it needs.

        Returns:
            Whether a tool was found; if not, `planned` is as before.
        """
        linked = bool(self.planned) and self.draw.chance(0.93)
        size = self.start = len(self.planned)
        tool = self._goal(linked)
        if tool is not None and self._add(tool, turn, True, 0, linked) is not None:
            return True
        self.undo(size)
        return False

    def depth(self) -> int:
        """The number of calls on the longest chain."""
        depths: list[int] = []
        for planned in self.planned:
            depths.append(1 + max((depths[u] for u in planned.parents), default=0))
        return max(depths, default=0)

    def undo(self, size: int) -> None:
        """Forgets all but the first `size` calls."""
        del self.planned[size:], self.known[size:]

    def _goal(self, linked: bool) -> Tool | None:
        """A tool for a wish; if `linked`, one that takes up what the story has brought, so that it stays one story."""
        draw, graph = self.draw, self.graph
        known = frozenset().union(*self.known)
        happened = any(not p.tool.reads for p in self.planned)
        done = {p.tool for p in self.planned if p.spoken}
        wanted = [tool for tool in graph.tools if tool.name in self.prefer and tool not in done]
        for _ in range(8):
            options = wanted if wanted and draw.chance(0.5) else graph.by_skill.get(draw.choice(_GOAL_SKILLS))
            if not options:
                continue
            tool = draw.choice(options)
            if linked and known.isdisjoint(graph.marks[tool]) and not (happened and tool in graph.telling):
                continue
            if tool not in done or draw.chance(0.1):
                return tool
        return None

    def _add(self, tool: Tool, turn: int, spoken: bool, level: int, linked: bool = False) -> int | None:
        parents: dict[Mark, int] = {}
        takes = self.graph.takes[tool]
        link = None
        if linked:
            known = frozenset().union(*self.known)
            takers = [port for port, mark in takes if mark in known]
            link = self.draw.choice(takers) if takers else None
        for port, mark in takes:
            if mark in parents or not port.required:
                continue
            if port is not link and not port.ref and not self._takes_over(port):
                continue
            source = self._source(mark, turn, level, tool, port is link)
            if source is not None:
                parents[mark] = source
            elif port.ref:
                return None
        self.planned.append(Planned(tool, turn, spoken, tuple(sorted(set(parents.values())))))
        self.known.append(frozenset(offers(tool)))
        return len(self.planned) - 1

    def _takes_over(self, port: Port) -> bool:
        return self.draw.chance(0.75 if port.kind == "email" else 0.3)

    def _source(self, mark: Mark, turn: int, level: int, consumer: Tool, link: bool) -> int | None:
        """A call whose result holds such a value: one that the story has, or a new unspoken one."""
        draw = self.draw
        have = [i for i, known in enumerate(self.known) if mark in known]
        have = [i for i in have if feeds(self.planned[i].tool, consumer, mark)]
        if not link and level == 0 and draw.chance(0.6):
            have = [i for i in have if i < self.start]  # another one: invite Tom to the meeting of Ana, not Ana
        own = [i for i in have if own_mark(self.planned[i].tool) == mark] or have
        if own and (link or draw.chance(0.7)):
            return own[-1] if draw.chance(0.6) else draw.choice(own)
        finders = [t for t in self.graph.finders.get(mark, ()) if t is not consumer]
        if finders and level < 4:
            preferred = [t for t in finders if t.name in self.prefer]
            tool = draw.choice(preferred or finders)
            if tool.skill != "compute" or draw.chance(0.5):
                added = self._add(tool, turn, False, level + 1)
                if added is not None:
                    return added
        return own[-1] if own else None


def shape_of(
    tools: Sequence[str], turns: Sequence[int], spoken: Sequence[bool], edges: dict[tuple[int, int], str]
) -> Shape:
    """The shape of executed calls, with its state edges."""
    nodes = tuple(Node(TOOLS[t].skill, turn, s) for t, turn, s in zip(tools, turns, spoken, strict=True))
    data = frozenset(pair for pair, kind in edges.items() if kind == "data")
    return Shape(nodes, data, frozenset(edges) - data)
