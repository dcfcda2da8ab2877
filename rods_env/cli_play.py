"""Tasks in a terminal: the screen, how a task is shown, and the session in which a person plays the agent."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from rods_env.apis.registry import APIS, TOOLS, Port, Tool
from rods_env.tasks.task import Task

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
    """ "1 turn", "2 turns". """
    return f"{n} {noun}{'' if n == 1 else 's'}"


# ---------------------------------------------------------------------- a task, shown


def show_task(screen: Screen, task: Task) -> None:
    """Turns, gold calls, what needs what, and the profile."""
    profile, now = task.profile, task.world.now
    screen.line(task.id, style="bold")
    size = f"{counted(len(task.turns), 'turn')}, {counted(len(task.calls), 'call')}, depth {profile.depth}"
    screen.line(f"{task.kind} · {size}")
    screen.line(f"APIs: {', '.join(task.apis)} · it is {now.replace('T', ', ')}")
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


def show_world(screen: Screen, task: Task) -> None:
    """The tables of the initial world."""
    from rods_env.apis.worlds import world_to_data

    empty = []
    for name, rows in world_to_data(task.world)["tables"].items():
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


# ---------------------------------------------------------------------- a task, played

_WELCOME = (
    "You are the agent. Call tools, as in find_customer(name='Ana Ruiz'). A text without a call answers the user and "
    "closes the turn. /tools lists the tools, /help the commands."
)
_WHY = {
    "world": "something was not changed as the user asked, or was changed although nobody asked",
    "answers": "something that the user asked to see was not looked up",
    "called": "something was missing, so the agent should have asked and called nothing",
}


class Session:
    """A person plays the agent, line by line.

    Args:
        env: the environment.
        screen: where to print.
        file: the task file that was named, for the hint at the end.
    """

    def __init__(self, env: gym.Env[Any, Any], screen: Screen, file: str | None = None) -> None:
        self.file = f" --file {file}" if file else ""
        self.env: Any = env.unwrapped
        self.screen = screen
        self.undo: list[Any] = []  # snapshots, one before each step
        self.failed: dict[int, tuple[str, ...]] = {}  # by turn, what was found when it closed last
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, tuple[str, Callable[[str], None]]] = {
            "/tools": ("what can be called", self._tools),
            "/tool": ("/tool NAME: what a tool does and takes", self._tool),
            "/hint": ("the tool that the solution calls next", self._hint),
            "/undo": ("take the last call or answer back", self._undo),
            "/state": ("which turns passed so far", self._state),
            "/help": ("this list", self._help),
            "/quit": ("stop", lambda _: None),
        }

    def run(self, **reset: Any) -> None:
        """Plays one episode; `reset` goes to the environment's `reset`."""
        message, _ = self.env.reset(**reset)
        self._look()
        task = self.env.task
        size = counted(len(task.turns), "turn")
        self.screen.line(f"{task.id} · {task.kind} · {size} · it is {task.world.now.replace('T', ', ')}", style="bold")
        self.screen.remark(_WELCOME)
        self._user(message)
        while self.env.snapshot().termination is None:
            line = self._read()
            if line is None or line == "/quit":
                self.screen.remark("Stopped before the end.")
                break
            if line.startswith("/"):
                self._command(line)
            elif line:
                self._act(line)
        self._end()

    def _read(self) -> str | None:
        """The next line without spaces around it; None at the end of the input."""
        prompt = "" if self.screen.quiet else "> "
        if sys.stdin.isatty():
            with _completion([*self.tools, *self.commands]):
                try:
                    return input(prompt).strip()
                except EOFError:
                    self.screen.line()
                    return None
        line = sys.stdin.readline()
        if line and not self.screen.quiet:
            self.screen.line(f"{prompt}{line.strip()}", style="cyan")  # a transcript that reads like a session
        return line.strip() if line else None

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        if name in self.commands:
            self.commands[name][1](rest.strip())
        else:
            self.screen.line(f"There is no command {name}. The commands are {', '.join(self.commands)}.", style="red")

    def _act(self, line: str) -> None:
        before = self.env.snapshot()
        self.undo.append(before)
        _, _, _, truncated, info = self.env.step(line)
        new = list(info["messages"])[len(before.transcript) :]
        for message in new:
            if message["role"] == "tool":
                self._result(msgspec.json.decode(message["content"]), info)
        if info["turn_passed"] is not None:
            self._closed(before.turn, info)
        if truncated:
            self.screen.line(f"The episode is cut off after {self.env.max_steps} steps.", style="red")
        elif new[-1]["role"] == "user":
            self._user(new[-1]["content"])
            self._look()

    def _result(self, result: Any, info: dict[str, Any]) -> None:
        if isinstance(result, dict) and list(result) == ["error"]:
            left = info["attempts_left"] if info["turn_passed"] is None else 0
            self.screen.line(f"✗ {result['error']}", style="red", indent=2)
            self.screen.remark(f"{counted(left, 'attempt')} left in this turn; /undo takes this one back", indent=4)
        else:
            self.screen.records(result, indent=2)

    def _closed(self, turn: int, info: dict[str, Any]) -> None:
        self.failed[turn] = info["failed_checks"]
        why = "" if info["closed_by"] == "answer" else " (no attempts were left)"
        if info["turn_passed"]:
            if not self.env.task.turns[turn].calls:
                why = ": right, something was missing; it counts if the next turn passes too"
            self.screen.line(f"✓ turn {turn + 1} passed{why}", style="green", indent=2)
        else:
            reasons = self._why(turn)
            undo = "" if info["termination"] else "; /undo takes it back"
            self.screen.line(f"✗ turn {turn + 1} failed{why}: {reasons}{undo}", style="red", indent=2)

    def _user(self, message: str) -> None:
        if not self.screen.quiet:
            self.screen.line()
        self.screen.line(Text.assemble(("User: ", "bold"), (message, "italic green")))

    def _look(self) -> None:
        """Notes which tools are offered now; tells which are new."""
        from rods_env.tasks.validation import offered_tools

        offered = {name: TOOLS[name] for name in offered_tools(self.env.task, self.env.turn)}
        new = [name for name in offered if self.tools and name not in self.tools]
        if new:
            self.screen.remark(f"now also offered: {', '.join(new)}", indent=2)
        self.tools = offered

    # ------------------------------------------------------------------ commands

    def _help(self, _: str) -> None:
        rows = [(name, what) for name, (what, _) in self.commands.items()]
        self.screen.table((Column(style="cyan"), ""), rows, head=False)

    def _tools(self, _: str) -> None:
        for api in self.env.task.apis:
            self.screen.title(api)
            rows = [(Text(signature(t), "cyan"), t.description) for t in self.tools.values() if t.api is APIS[api]]
            self.screen.table(("", Column(style="dim")), rows, head=False)

    def _tool(self, name: str) -> None:
        tool = self.tools.get(name)
        if tool is None:
            text = f"/tool needs the name of a tool that is offered now, and {name!r} is none; /tools lists them."
            self.screen.line(text, style="red")
            return
        self.screen.line(signature(tool), style="bold cyan", indent=1)
        self.screen.line(tool.description, indent=1)
        properties = tool.schema["function"]["parameters"]["properties"]
        rows = [(p.name, _takes(p, properties[p.name]), "" if p.required else "optional", tool.param_docs[p.name])
                for p in tool.params]  # fmt: skip
        self.screen.table((Column(style="cyan", no_wrap=True), "", Column(style="dim"), ""), rows, head=False)
        returns = "a list of records" if tool.many else "a record"
        self.screen.line(f"Returns {returns}: {', '.join(f.name for f in tool.fields)}.", indent=1)

    def _hint(self, _: str) -> None:
        from rods_env.envs.rendering import done_calls

        task, turn = self.env.task, self.env.turn
        done = done_calls(self.env.snapshot())
        left = [i for i, t in enumerate(task.turn_of_call) if t == turn and i not in done]
        if not task.turns[turn].calls:
            text = "Something is missing for that: call nothing, ask the user."
        elif left:
            tool = TOOLS[task.calls[left[0]].tool]
            text = f"The solution calls {signature(tool)}: {tool.description}"
        else:
            text = "All calls of this turn are done: answer with a text."
        self.screen.line(text, style="yellow", indent=2)

    def _undo(self, _: str) -> None:
        if not self.undo:
            self.screen.line("There is nothing to take back.", style="red", indent=2)
            return
        snapshot = self.undo.pop()
        self.env.restore(snapshot)
        self.tools = {}
        self._look()
        self.screen.remark(f"Taken back. This is turn {snapshot.turn + 1} again.", indent=2)

    def _state(self, _: str) -> None:
        snapshot = self.env.snapshot()
        rows: list[Sequence[Cell]] = []
        for number, passed in enumerate(snapshot.passed, 1):
            rows.append((f"turn {number}", Text("✓ passed", "green") if passed else Text("✗ failed", "red")))
        if snapshot.termination is None:
            rows.append((f"turn {snapshot.turn + 1}", "open"))
        rows.append(("progress", f"{snapshot.progress:.2f}"))
        self.screen.table(("", ""), rows, head=False)

    def _end(self) -> None:
        snapshot, turns = self.env.snapshot(), len(self.env.task.turns)
        if not self.screen.quiet:
            self.screen.line()
        won = snapshot.passed == (True,) * turns
        text = f"{sum(snapshot.passed)} of {counted(turns, 'turn')} passed, progress {snapshot.progress:.2f}"
        self.screen.line(text, style="bold green" if won else "bold yellow")
        for number in range(turns):
            if number >= len(snapshot.passed):
                self.screen.line(f"turn {number + 1}: not played to its end", indent=1)
            elif not snapshot.passed[number]:
                self.screen.line(f"turn {number + 1} failed: {self._why(number)}", style="red", indent=1)
        self.screen.remark(f"rods-env show {self.env.task.id}{self.file} shows the solution.")

    def _why(self, turn: int) -> str:
        return "; ".join(_WHY[check] for check in self.failed[turn])


def _takes(port: Port, schema: dict[str, Any]) -> str:
    """What a parameter takes, in words."""
    if port.choices:
        return " | ".join(map(repr, port.choices))
    if port.ref:
        return f"id of: {port.ref.replace('_', ' ')}"
    kind = {"date": "YYYY-MM-DD", "time": "HH:MM"}.get(port.kind) or _TYPES[port.type]
    limits = [f"{word} {schema[key]:g}" for key, word in _LIMITS.items() if key in schema]
    return " ".join([kind, *limits])


_TYPES = {"str": "text", "int": "whole number", "float": "number"}
_LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}


@contextlib.contextmanager
def _completion(words: Sequence[str]) -> Iterator[None]:
    """The tabulator key completes names of tools and commands, where the platform has readline."""
    try:
        import readline
    except ImportError:
        yield
        return

    def complete(text: str, state: int) -> str | None:
        return next((word for n, word in enumerate(w for w in words if w.startswith(text)) if n == state), None)

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n([,=")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
