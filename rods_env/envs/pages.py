"""Writes the documentation page of each family of environments from its class docstring: `make docs`."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path

from rods_env.envs import ENVIRONMENTS
from rods_env.tasks.task import write_atomically


def pages() -> dict[str, str]:
    """The text of each page by file name."""
    families: dict[str, list[str]] = {}
    for name, (entry_point, _) in ENVIRONMENTS.items():
        families.setdefault(entry_point, []).append(name)
    found = {}
    for entry_point, names in families.items():
        module, _, class_name = entry_point.partition(":")
        environment = getattr(import_module(module), class_name)
        text = inspect.cleandoc(environment.__doc__).replace("See `__init__`.", _arguments(environment))
        ids = "\n".join(f"| `{name}` | {_kwargs(name)} |" for name in names)
        head = f"# {class_name}\n\n| id | made with |\n|---|---|\n{ids}\n\n"
        found[f"{module.rpartition('.')[2]}.md"] = f"{head}{text}\n"
    return found


def _kwargs(name: str) -> str:
    kwargs = ENVIRONMENTS[name][1]
    return ", ".join(f"`{key}={value!r}`" for key, value in kwargs.items()) or "defaults"


def _arguments(environment: type) -> str:
    """A table of the constructor's arguments: name, default, meaning."""
    parameters = inspect.signature(environment.__init__).parameters  # type: ignore[misc]
    doc = inspect.getdoc(environment.__init__) or ""  # type: ignore[misc]
    rows = ["| argument | default | meaning |", "|---|---|---|"]
    for line in doc.split("Args:")[1].split("Raises:")[0].strip().splitlines():
        name, _, meaning = line.strip().partition(": ")
        rows.append(f"| `{name}` | `{parameters[name].default!r}` | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/environments")
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, text in pages().items():
        write_atomically(folder / file_name, text.encode())
        print(folder / file_name)
