"""The terminal: what is printed and how, with and without colours, and how a task is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from rods_env.apis.registry import Tool
from rods_env.tasks.task import Task, Turn

Cell = str | Text
Columns = Sequence[str | Column]
Rows = Iterable[Sequence[Cell] | None]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1; a reader that has read enough, such as `head`, is no failure


class Screen:
    """Prints for people; or, if quiet, plain lines: tabs between columns, nothing wrapped, no headers and no colours.

    Args:
        quiet: whether to leave out all decoration.
        stderr: whether to print on standard error.
    """

    def __init__(self, quiet: bool = False, *, stderr: bool = False) -> None:
        self.quiet = quiet
        # No markup and no emoji codes: what users say and tools return may hold brackets and colons.
        self.console = _Console(stderr=stderr, markup=False, emoji=False, highlight=False, no_color=quiet or None)

    @property
    def width(self) -> int:
        return self.console.width

    def line(self, text: Cell = "", *, style: str = "", indent: int = 0) -> None:
        """One paragraph; what is wrapped keeps the indentation."""
        if self.quiet:
            print(text, file=self.console.file)
        else:
            self._print(Text(text, style) if isinstance(text, str) else text, indent)

    def _print(self, what: RenderableType, indent: int) -> None:
        """Prints indented, and without the spaces at the ends of lines with which rich fills up."""
        options = self.console.options.update(width=self.width - indent)
        for segments in self.console.render_lines(what, options, pad=False):
            text = Text(" " * indent)
            for segment in segments:
                text.append(segment.text, segment.style)
            text.rstrip()
            self.console.print(text, soft_wrap=True)

    def title(self, text: str) -> None:
        """The line above a section; nothing if quiet."""
        if not self.quiet:
            self.console.print()
            self.line(text, style="bold")

    def remark(self, text: str, *, indent: int = 0) -> None:
        """What a person is told beside the matter; nothing if quiet."""
        if not self.quiet:
            self.line(text, style="dim", indent=indent)

    def table(self, columns: Columns, rows: Rows, *, head: bool = True, indent: int = 1) -> None:
        """A table; a row that is None is a gap between groups of rows."""
        if self.quiet:
            for row in rows:
                if row is not None:
                    self.line("\t".join(" ".join(str(cell).split()) for cell in row))
            return
        fresh = [c.copy() if isinstance(c, Column) else c for c in columns]  # rich keeps the cells in them
        table = Table(*fresh, box=SIMPLE_HEAD if head else None, show_header=head, show_edge=False, pad_edge=False,
                      padding=(0, 1 if head else 2, 0, 0), header_style="dim", border_style="dim")  # fmt: skip
        for row in rows:
            if row is None:
                table.add_section() if head else table.add_row()
            else:
                table.add_row(*row)
        self._print(table, indent)

    def records(self, rows: Sequence[dict[str, Any]] | dict[str, Any], *, indent: int = 1) -> None:
        """Records: one as names and values below each other, several as a table."""
        if isinstance(rows, dict):
            self.table((Column(style="dim"), ""), [(k, _value(v)) for k, v in rows.items()], head=False, indent=indent)
        elif not rows:
            self.line("(none)", style="dim", indent=indent)
        elif self.quiet or _needed(rows) <= self.width - indent:
            columns = [_column(name, value) for name, value in rows[0].items()]
            self.table(columns, [[_value(value) for value in row.values()] for row in rows], indent=indent)
        else:  # columns would be too narrow to read
            (first, _), *_ = rows[0].items()
            self.table((_column(first, ""), ""), [_in_words(row) for row in rows], head=False, indent=indent)

    @contextlib.contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Callable[[int | str], None]]:
        """A bar on standard error that goes away when it is full.

        Yields a function that moves it on by a number, or says in words what is done now.
        """
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        off = self.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=off) as bar:
            row = bar.add_task(what, total=total)
            yield lambda n: bar.update(row, description=n) if isinstance(n, str) else bar.advance(row, n)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _in_words(row: dict[str, Any]) -> tuple[str, Text]:
    """The first value of a record, and the others with their names."""
    (_, first), *others = row.items()
    words = [Text.assemble((f"{name} ", "dim"), _value(value)) for name, value in others]
    return _value(first), Text(", ").join(words)


def _column(name: str, value: Any) -> Column:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    is_id = name == "id" or name.endswith("_id")  # to be copied in one piece
    return Column(name, justify="right" if number else "left", no_wrap=is_id, overflow="fold")


def _needed(rows: Sequence[dict[str, Any]]) -> int:
    """The width at which no cell of a table of records is wrapped."""
    return sum(max(len(name), *(len(_value(row[name])) for row in rows)) + 2 for name in rows[0])


def call_text(tool: str, arguments: dict[str, Any]) -> Text:
    """A call as Python writes it."""
    inside = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return Text.assemble((tool, "bold cyan"), f"({inside})")


def signature(tool: Tool) -> str:
    """`name(needed, [optional])`."""
    return f"{tool.name}({', '.join(p.name if p.required else f'[{p.name}]' for p in tool.params)})"


def counted(n: int, noun: str) -> str:
    """ "1 turn", "2 turns"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


# ---------------------------------------------------------------------- a task, shown


def show_task(screen: Screen, task: Task) -> None:
    """Turns, gold calls, what needs what, and the profile."""
    depth, now = task.depth, task.world.now
    screen.line(task.id, style="bold")
    size = f"{counted(len(task.turns), 'turn')}, {counted(len(task.calls), 'call')}"
    screen.line(f"{task.kind} · {size}" + (f", depth {depth}" if depth else ""))
    screen.line(f"APIs: {', '.join(task.apis)}" + (f" · it is {now.replace('T', ', ')}" if now else ""))
    if task.parent:
        screen.line(f"a variant of {task.parent}")
    missing = {"missing_function": "a function", "missing_parameter": "a value"}.get(task.kind, "something")
    number, numbers = 0, Column(justify="right", style="dim", min_width=len(str(len(task.calls))))
    for at, turn in enumerate(task.turns, 1):
        screen.title(f"Turn {at}")
        message = f"turn {at}: {turn.message}" if screen.quiet else turn.message
        screen.line(message, style="italic green", indent=1)
        if turn.adds:
            screen.line(f"offered from here on: {', '.join(turn.adds)}", style="yellow", indent=1)
        if not turn.calls:
            screen.line(f"No call: {missing} is missing, and the agent should ask.", style="yellow", indent=1)
        rows: list[Sequence[Cell]] = []
        for call in turn.calls:
            number += 1
            mark = Text("" if call.spoken else "has to be found", "dim")
            rows.append((str(number), call_text(call.tool, call.arguments), mark))
        if rows:
            screen.table((numbers, "", Column(no_wrap=True)), rows, head=False)
    if not depth:
        return  # there are no gold calls
    profile = task.profile
    screen.title("What needs what (the dependency graph)")
    screen.table((numbers, Column(no_wrap=True), ""), _needs(task, repeat=screen.quiet), head=False)
    screen.title("Profile (what a variant keeps)")
    calls = "+".join(map(str, profile.calls))
    screen.line(f"{profile.kind}, calls by turn {calls}, depth {profile.depth}, graph {profile.digest[:12]}", indent=1)


def _needs(task: Task, *, repeat: bool) -> Iterator[Sequence[Cell]]:
    """A row for each edge of the graph, and one for a call that needs nothing; `repeat` names the call on each."""
    graph = task.graph
    said: dict[tuple[int, int, str], str] = {}
    for m in (mention for turn in task.turns for mention in turn.mentions):
        said.setdefault((m.source, m.call, m.argument), m.text)  # later ones say it again for another call
    for node, call in enumerate(task.calls):
        name: tuple[str, Cell] = (str(node + 1), Text(call.tool, "cyan"))
        for source in sorted(graph.predecessors(node)):
            kind = graph.edges[source, node]["kind"]
            values = [f"{a} (“{text}”)" for (s, c, a), text in said.items() if (s, c) == (source, node)]
            what = f": {', '.join(values)}" if kind == "data" and values else ""
            style = "magenta" if kind == "state" else ""
            yield (*name, Text.assemble((kind, style), f" of {source + 1} {task.calls[source].tool}{what}"))
            name = name if repeat else ("", "")
        if not graph.in_degree(node):
            yield (*name, Text("nothing", "dim"))


# ---------------------------------------------------------------------- a task beside its variants


_WHO = Column(style="dim", no_wrap=True, min_width=4)  # "seed", or the number of a variant


def show_variants(screen: Screen, seed: Task, variants: Sequence[Task]) -> None:
    """A task beside its variants, turn by turn: above the calls what all have in common, below what each has."""
    from rods_env.benchmarks.variants import overlap

    if seed.ENVIRONMENT != Task.ENVIRONMENT:
        _show_beside(screen, seed, variants)
        return
    profile, tasks = seed.profile, {"seed": seed} | {str(n): task for n, task in enumerate(variants, 1)}
    screen.line(f"{seed.id} and {counted(len(variants), 'variant')}", style="bold")
    calls = "+".join(map(str, profile.calls))
    what = f"{profile.kind}, calls by turn {calls}, depth {profile.depth}, graph {profile.digest[:12]}"
    screen.line(f"The same in all: {what}.")
    screen.title("What is new")
    rows: list[Sequence[Cell]] = []
    for name, task in tasks.items():
        others = sum(a.tool != b.tool for a, b in zip(seed.calls, task.calls, strict=True))
        new = ("", "") if task is seed else (f"{others} of {len(seed.calls)}", f"{overlap(seed, task):.2f}")
        rows.append((name, task.id, task.world.now.replace("T", ", "), *new))
    screen.table((_WHO, "id", "it is", "other tools", "words in common"), rows)
    for at, turn in enumerate(seed.turns):
        screen.title(f"Turn {at + 1}")
        lead = [f"turn {at + 1}"] if screen.quiet else []
        said: list[Sequence[Cell]] = [(*lead, name, _said(task.turns[at])) for name, task in tasks.items()]
        screen.table((_WHO, ""), said, head=False)
        if not turn.calls:
            screen.line("No call: something is missing, and the agent should ask.", style="yellow", indent=1)
            continue
        nodes = [node for node, where in enumerate(seed.turn_of_call) if where == at]
        if screen.quiet:
            screen.table((), [row for node in nodes for row in _call_rows(node, tasks)])
            continue
        for some in _fitting(nodes, tasks, screen.width):
            screen.line()
            _show_tools(screen, some, tasks)


def _show_beside(screen: Screen, seed: Task, variants: Sequence[Task]) -> None:
    """The same for tasks that keep all their functions: messages and calls, turn by turn, and no graph."""
    from rods_env.benchmarks.variants import overlap

    tasks = {"seed": seed} | {str(n): task for n, task in enumerate(variants, 1)}
    screen.line(f"{seed.id} and {counted(len(variants), 'variant')}", style="bold")
    rows = [(name, task.id, "" if task is seed else f"{overlap(seed, task):.2f}") for name, task in tasks.items()]
    screen.table((_WHO, "id", "words in common"), rows)
    for at in range(len(seed.turns)):
        screen.title(f"Turn {at + 1}")
        for name, task in tasks.items():
            said: list[Sequence[Cell]] = [(name, _said(task.turns[at]))]
            said += [("", call_text(call.tool, call.arguments)) for call in task.turns[at].calls]
            screen.table(("", ""), said, head=False)


def _said(turn: Turn) -> Text:
    more = f" (offered from here on: {', '.join(turn.adds)})" if turn.adds else ""
    return Text.assemble((turn.message, "italic green"), (more, "yellow"))


def _call_rows(node: int, tasks: dict[str, Task]) -> Iterator[Sequence[Cell]]:
    for name, task in tasks.items():
        call = task.calls[node]
        _, _, needs = _in_common(task, node).plain.partition("\n")
        yield f"call {node + 1}", name, _bracketed(task, node, "skill"), needs, call_text(call.tool, call.arguments)


def _bracketed(task: Task, node: int, what: str) -> str:
    """The skill or tool of a call; in brackets if it is unspoken."""
    data = task.graph.nodes[node]
    return str(data[what] if data["spoken"] else f"[{data[what]}]")


def _in_common(task: Task, node: int) -> Text:
    """What a call is in all variants: its number and skill, and below what it needs."""
    needs: dict[str, list[str]] = {"data": [], "state": []}
    for source in sorted(task.graph.predecessors(node)):
        needs[task.graph.edges[source, node]["kind"]].append(str(source + 1))
    said = [f"{word} {', '.join(needs[kind])}" for kind, word in (("data", "needs"), ("state", "after")) if needs[kind]]
    return Text.assemble((f"{node + 1} {_bracketed(task, node, 'skill')}", "bold"), "\n", (", ".join(said), "dim"))


def _fitting(nodes: Sequence[int], tasks: dict[str, Task], width: int) -> Iterator[list[int]]:
    """The calls of a turn, as many at once as stand beside each other in a line."""
    some: list[int] = []
    left = width - 6
    for node in nodes:
        heads = _in_common(tasks["seed"], node).plain.split("\n")
        needed = 1 + max(map(len, [*heads, *(_bracketed(task, node, "tool") for task in tasks.values())]))
        if some and needed > left:
            yield some
            some, left = [], width - 6
        some.append(node)
        left -= needed
    yield some


def _show_tools(screen: Screen, nodes: Sequence[int], tasks: dict[str, Task]) -> None:
    """A column for each call: what it is in all, and its tool in each; other tools than the seed's are coloured."""
    seed = tasks["seed"]
    rows: list[Sequence[Cell]] = []
    if all(task.calls[node].tool == seed.calls[node].tool for task in tasks.values() for node in nodes):
        tasks = {"all": seed}
    for name, task in tasks.items():
        cells = []
        for node in nodes:
            other = task.calls[node].tool != seed.calls[node].tool
            cells.append(Text(_bracketed(task, node, "tool"), "bold cyan" if other else ""))
        rows.append((name, *cells))
    screen.table((_WHO, *(Column(_in_common(seed, node), no_wrap=True) for node in nodes)), rows)


def show_world(screen: Screen, task: Task) -> None:
    """The tables of the initial world."""
    from rods_env.apis.worlds import world_to_data

    for api, config in getattr(task.world, "config", {}).items():
        screen.title(api)
        screen.line(msgspec.json.format(msgspec.json.encode(config)).decode())
    empty = []
    for name, rows in world_to_data(task.world).tables.items():
        if rows:
            screen.title(f"{name} ({counted(len(rows), 'row')})")
            if screen.quiet:
                screen.line(f"{name}\t{len(rows)}")
            screen.records(rows)
        else:
            empty.append(name)
    if empty:
        screen.line()
        screen.remark(f"empty tables: {', '.join(empty)}")
