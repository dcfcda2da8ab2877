"""Writes the table of settings in docs/training.md from the docstring of `TrainSettings`: `make docs`."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from rods_env.agents.settings import PRESETS, TrainSettings
from rods_env.tasks.task import write_atomically

BEGIN, END = "<!-- settings: made by python -m rods_env.agents.settings_page -->", "<!-- end of settings -->"


def meanings() -> dict[str, str]:
    """What the docstring says about each setting, by name."""
    text = inspect.getdoc(TrainSettings) or ""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in text.split("Attributes:\n")[1].splitlines():
        head = re.match(r"    (\w[\w, ]*): (.*)", line)
        if head:
            names = [name.strip() for name in head[1].split(",")]
            found.update(dict.fromkeys(names, head[2]))
        elif line.strip():
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found


def table() -> str:
    """A row for each setting: its default, what presets have instead, and what it means."""
    rows = ["| setting | default | presets | meaning |", "|---|---|---|---|"]
    defaults = TrainSettings()
    said = meanings()
    for name in TrainSettings.__struct_fields__:
        others = [f"{preset}: {_shown(values[name])}" for preset, values in PRESETS.items() if name in values]
        cells = (f"`{name}`", _shown(getattr(defaults, name)), "<br>".join(others), said[name])
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | dict) and not value:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"`{key}={_plain(item)}`" for key, item in value.items())
    return f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def page(text: str) -> str:
    """The page with its table made anew.

    Raises:
        ValueError: if the marks between which the table stands are missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the lines {BEGIN!r} and {END!r} in the page.")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/training.md")
    write_atomically(place, page(place.read_text()).encode())
    print(place)
