"""What stands in a BFCL task: its texts, arguments, names and numbers, taken apart once."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from rods_env.bfcl.execution import executed
from rods_env.bfcl.replacing import Replacement
from rods_env.bfcl.tasks import BfclTask


class Contents:
    """The texts of a task, taken apart once: what entities are looked for in.

    Attributes:
        text: all messages, one below the other.
        arguments: (tool, parameter, value) of all gold calls, lists taken apart, but for empty and boolean values.
        names: the names of all files and folders of the configuration, folders first.
        keys, strings, integers: all keys, texts and whole numbers of the configuration.
        tools, steps: the names of the gold calls, and these executed.
    """

    def __init__(self, task: BfclTask) -> None:
        self.task = task
        self.config: dict[str, Any] = task.world.config  # type: ignore[attr-defined]  # a BfclWorld
        self.text = "\n".join(turn.message for turn in task.turns)
        self.arguments = [
            (call.tool, name, value)
            for call in task.calls
            for name, given in call.arguments.items()
            for value in (given if isinstance(given, list) else [given])
            if not isinstance(value, bool | dict | None) and value != ""
        ]
        self.folders, self.files = _tree(self.config.get("GorillaFileSystem", {}).get("root", {}))
        self.keys: list[str] = []
        self.strings: list[str] = []
        self.integers: set[int] = set()
        self._walk(self.config)
        self.tools = {call.tool for call in task.calls}
        self.steps = executed(task)

    def _walk(self, value: Any) -> None:
        if isinstance(value, str):
            self.strings.append(value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                self.keys.append(key)
                self._walk(inner)
        elif isinstance(value, list):
            for inner in value:
                self._walk(inner)
        elif isinstance(value, int) and not isinstance(value, bool):
            self.integers.add(value)

    @cached_property
    def said_arguments(self) -> list[tuple[str, str, str]]:
        """The texts among the arguments that a message holds as they are."""
        return [(tool, name, v) for tool, name, v in self.arguments if isinstance(v, str) and self.says(v)]

    def says(self, word: str) -> bool:
        """Whether a message has this word, written so."""
        return "\0" in Replacement({word: word}).masked(self.text)

    def configured(self, word: str) -> bool:
        """Whether it is a key or a whole text of the configuration."""
        return word in self.keys or word in self.strings


def _tree(folders: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The names of all folders and of all files below some folders."""
    found: tuple[list[str], list[str]] = ([], [])
    for name, node in folders.items():
        folder = isinstance(node, dict) and node.get("type") == "directory"
        found[0 if folder else 1].append(name)
        if folder:
            inner = _tree(node.get("contents", {}))
            found[0].extend(inner[0])
            found[1].extend(inner[1])
    return found


def written_amounts(value: float, text: str) -> list[str]:
    """The ways in which a text writes a number, such as "20,000" for 20000.0."""
    found = re.finditer(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\d])(?!\.\d)", text.replace("$", " "))
    return list(dict.fromkeys(one[0] for one in found if float(one[0].replace(",", "")) == value))
