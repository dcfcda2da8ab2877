"""Writes the documentation page of each family of environments from its class docstring: `make docs`."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path

from rods_env.envs import BFCL_ENVIRONMENTS, DISCRETE_ENVIRONMENTS, ENVIRONMENTS
from rods_env.tasks.task import write_atomically

_EVERY = {**ENVIRONMENTS, **BFCL_ENVIRONMENTS, **DISCRETE_ENVIRONMENTS}
_DOCUMENTED = {"make_discrete": "DiscreteActions"}  # functions that make environments, and the classes that say what


def pages() -> dict[str, str]:
    """The text of each page by file name."""
    families: dict[str, list[str]] = {}
    for name, (entry_point, _) in _EVERY.items():
        families.setdefault(entry_point, []).append(name)
    found = {}
    for entry_point, names in families.items():
        module, _, maker = entry_point.partition(":")
        class_name = _DOCUMENTED.get(maker, maker)
        environment = getattr(import_module(module), class_name)
        text = inspect.cleandoc(environment.__doc__).replace("See `__init__`.", _arguments(environment))
        ids = "\n".join(f"| `{name}` | {_kwargs(name)} |" for name in names)
        head = f"# {class_name}\n\n| id | made with |\n|---|---|\n{ids}\n\n"
        found[f"{module.rpartition('.')[2]}.md"] = f"{head}{text}\n"
    return found


def _kwargs(name: str) -> str:
    kwargs = _EVERY[name][1]
    return ", ".join(f"`{key}={value!r}`" for key, value in kwargs.items()) or "defaults"


def _arguments(environment: type) -> str:
    """A table of the constructor's arguments: name, default, meaning."""
    parameters = inspect.signature(environment.__init__).parameters  # type: ignore[misc]
    doc = inspect.getdoc(environment.__init__) or ""  # type: ignore[misc]
    rows = ["| argument | default | meaning |", "|---|---|---|"]
    for line in doc.split("Args:")[1].split("Raises:")[0].strip().splitlines():
        name, _, meaning = line.strip().partition(": ")
        default = parameters[name].default
        shown = "required" if default is inspect.Parameter.empty else f"`{default!r}`"
        rows.append(f"| `{name}` | {shown} | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/environments")
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, text in pages().items():
        write_atomically(folder / file_name, text.encode())
        print(folder / file_name)
