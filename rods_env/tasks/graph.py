"""Dependency graphs: derived from what calls really read, wrote and returned; compared up to isomorphism."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from rods_env.apis.registry import Port, Tool
from rods_env.tasks.replay import Cell, Step
from rods_env.tasks.task import Kind, Task
from rods_env.tasks.text import is_said

if TYPE_CHECKING:
    import networkx as nx

Edges = dict[tuple[int, int], str]
# A labelled graph as a value that hashes: a label for each node, and the edges with their kinds, in order. What
# networkx finds out is kept by it, because the thousandth variant of a task has the very same structure as the first.
Structure = tuple[tuple[str, ...], tuple[tuple[tuple[int, int], str], ...]]


class Profile(msgspec.Struct, frozen=True):
    """What a variant keeps. Equal profiles are necessary for isomorphism; `isomorphic` decides.

    Attributes:
        kind: the kind of task.
        calls: the number of gold calls in each turn.
        depth: the number of calls on the longest path of the graph.
        digest: Weisfeiler-Lehman hash of the graph with skills, turns, spokenness and edge kinds as labels.
    """

    kind: Kind
    calls: tuple[int, ...]
    depth: int
    digest: str


def source_of(port: Port, value: Any, steps: Sequence[Step]) -> int | None:
    """The first call whose result holds the value in a field of the same reference or kind."""
    if not port.ref and not port.kind:
        return None
    for index, step in enumerate(steps):
        for name in _alike(step.tool, port.ref, port.kind):
            for row in step.rows:
                if getattr(row, name) == value:
                    return index
    return None


@lru_cache(maxsize=1 << 14)
def _alike(tool: Tool, ref: str, kind: str) -> tuple[str, ...]:
    """The fields of a tool's result that are of a reference or kind."""
    return tuple(field.name for field in tool.fields if field.ref == ref and field.kind == kind)


def data_sources(
    step: Step, arguments: dict[str, Any], earlier: Sequence[Step], text: str, year: str
) -> dict[str, int | None]:
    """For each argument the call whose result it came out of, or None where the text gives it.

    An argument that stands neither in the text nor in an earlier result is left out: `validate` reports those.
    """
    sources: dict[str, int | None] = {}
    for name, value in arguments.items():
        port = step.tool.by_name[name]
        if is_said(port, value, text, year):
            sources[name] = None
        else:
            source = source_of(port, value, earlier)
            if source is not None:
                sources[name] = source
    return sources


def state_sources(step: Step, last_writer: dict[Cell, int]) -> set[int]:
    """The calls that last wrote what this call read or wrote."""
    return {last_writer[cell] for cell in step.reads | step.writes if cell in last_writer}


def argument_sources(task: Task) -> tuple[dict[str, int | None], ...]:
    """`data_sources` of every gold call; what `Task.sources` keeps."""
    steps, year = task.gold.steps, task.world.now[:4]
    texts, said = [], ""
    for turn in task.turns:
        said += turn.message + "\n"
        texts.append(said)
    return tuple(
        data_sources(step, call.arguments, steps[:index], texts[task.turn_of_call[index]], year)
        for index, (step, call) in enumerate(zip(steps, task.calls, strict=True))
    )


def edges_of(task: Task) -> Edges:
    """The edges of a task's dependency graph, (earlier call, later call) to kind.

    `data`: an argument of the later call came out of the earlier one's result, and no text gave it.
    `state`: the later call read or wrote a row that the earlier one was the last to write (and there is no data edge).
    """
    edges: Edges = {}
    last_writer: dict[Cell, int] = {}
    for index, (step, sources) in enumerate(zip(task.gold.steps, task.sources, strict=True)):
        for source in state_sources(step, last_writer):
            edges[source, index] = "state"
        for found in sources.values():
            if found is not None:
                edges[found, index] = "data"
        for cell in step.writes:
            last_writer[cell] = index
    return edges


def depth_of(n: int, edges: Edges) -> int:
    """The number of calls on the longest path; the calls stand in topological order."""
    depth = [1] * n
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        depth[target] = max(depth[target], depth[source] + 1)
    return max(depth, default=0)


def dependency_graph(task: Task) -> nx.DiGraph:
    """A `networkx.DiGraph` with a node for each gold call, numbered in order.

    Node attributes: `tool`, `skill`, `turn`, `spoken`, and `label`, the three that a variant keeps. Edge attribute:
    `kind`, "data" or "state".
    """
    import networkx as nx  # 0.2 s, and playing needs no graph

    graph = nx.DiGraph()
    for index, call in enumerate(task.calls):
        turn, skill, label = task.turn_of_call[index], task.skill_of(call), _label(task, index)
        graph.add_node(index, tool=call.tool, skill=skill, turn=turn, spoken=call.spoken, label=label)
    for (source, target), kind in sorted(task.edges.items()):
        graph.add_edge(source, target, kind=kind)
    return graph


def profile_of(task: Task) -> Profile:
    """The profile of a task."""
    labels, edges = task.structure
    calls = tuple([len(turn.calls) for turn in task.turns])
    return Profile(task.kind, calls, depth_of(len(labels), dict(edges)), _digest(labels, edges))


def isomorphic(a: Task, b: Task) -> bool:
    """Whether two tasks have the same profile: graphs equal up to isomorphism with labels, calls per turn, and kind."""
    if a.kind != b.kind or [len(turn.calls) for turn in a.turns] != [len(turn.calls) for turn in b.turns]:
        return False
    return _isomorphic(a.structure, b.structure)


def structure_of(task: Task) -> Structure:
    """The labelled graph of a task as a value that hashes."""
    labels = tuple([_label(task, index) for index in range(len(task.calls))])
    return labels, tuple(sorted(task.edges.items()))


def _label(task: Task, index: int) -> str:
    call = task.calls[index]
    return _label_of(task.skill_of(call), task.turn_of_call[index], call.spoken)


@lru_cache(maxsize=4096)
def _label_of(skill: str, turn: int, spoken: bool) -> str:
    return f"{skill} {turn} {'spoken' if spoken else 'unspoken'}"


def _labelled(labels: tuple[str, ...], edges: tuple[tuple[tuple[int, int], str], ...]) -> nx.DiGraph:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from((index, {"label": label}) for index, label in enumerate(labels))
    graph.add_edges_from((u, v, {"kind": kind}) for (u, v), kind in edges)
    return graph


@lru_cache(maxsize=8192)
def _digest(labels: tuple[str, ...], edges: tuple[tuple[tuple[int, int], str], ...]) -> str:
    import networkx as nx

    with warnings.catch_warnings():  # since 3.5 networkx tells at every call that 3.5 changed the hashes of digraphs
        warnings.simplefilter("ignore", UserWarning)
        return str(nx.weisfeiler_lehman_graph_hash(_labelled(labels, edges), node_attr="label", edge_attr="kind"))


@lru_cache(maxsize=8192)
def _isomorphic(a: Structure, b: Structure) -> bool:
    import networkx as nx

    return bool(
        nx.is_isomorphic(
            _labelled(*a),
            _labelled(*b),
            node_match=lambda u, v: u["label"] == v["label"],
            edge_match=lambda u, v: u["kind"] == v["kind"],
        )
    )
