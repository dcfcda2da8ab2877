"""`rods-env play`: a person plays the agent in the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import msgspec
from rich.table import Column
from rich.text import Text

from rods_env.apis.registry import APIS, Port, Tool
from rods_env.cli_screen import Cell, Screen, counted, signature

_WELCOME = (
    "You are the agent. Call tools, as in find_customer(name='Ana Ruiz'). A text without a call answers the user and "
    "closes the turn. /tools lists the tools, /help the commands."
)
_WHY = {
    "world": "something was not changed as the user asked, or was changed although nobody asked",
    "answers": "something that the user asked to see was not looked up",
    "called": "something was missing, so the agent should have asked and called nothing",
    "silent": "nothing was called",
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
        now = f" · it is {task.world.now.replace('T', ', ')}" if task.world.now else ""
        self.screen.line(f"{task.id} · {task.kind} · {size}{now}", style="bold")
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
                self._result(message["content"], info)
        if info["turn_passed"] is not None:
            self._closed(before.turn, info)
        if truncated:
            self.screen.line(f"The episode is cut off after {self.env.max_steps} steps.", style="red")
        elif new[-1]["role"] == "user":
            self._user(new[-1]["content"])
            self._look()

    def _result(self, text: str, info: dict[str, Any]) -> None:
        if not self.env.typed_tools and not text.startswith('{"error"'):  # a simulator's text, which need not be JSON
            self.screen.line(text, indent=2)
            return
        result = msgspec.json.decode(text)
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
        offered = self.env.tools
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
            some = [tool for tool in self.tools.values() if tool.api in (api, APIS.get(api))]
            rows = [(Text(signature(tool), "cyan"), tool.description) for tool in some]
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
        if not self.env.typed_tools:
            return
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
            tool = self.env.tools[task.calls[left[0]].tool]
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
    kind = {"date": "YYYY-MM-DD", "time": "HH:MM"}.get(port.kind) or _TYPES.get(port.type, port.type)
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
