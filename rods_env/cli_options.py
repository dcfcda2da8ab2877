"""What subcommands share: options that mean the same in all, and checks of what was given. Imports nothing heavy."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.cli_screen import Screen
    from rods_env.tasks.task import Task

Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Equal seeds give equal results.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N tasks.")]
Quiet = Annotated[bool, typer.Option("--quiet", metavar="", help="Plain lines with tabs: no bars, headers or colours.")]
Quick = Annotated[bool, typer.Option("--quick", metavar="", help="Less work, less exact: a few seconds.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures to this file.")]
File = Annotated[str | None, typer.Option("--file", metavar="FILE", help="seeds, heldout, bfcl:test, or a task file.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task id, or a number in the file (of the seeds).")]
KIND_HELP = "base, missing_function, missing_parameter or long_context"


def make_screen(quiet: bool = False) -> Screen:
    """The terminal of a command."""
    from rods_env.cli_screen import Screen

    return Screen(quiet)


def complain(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr)


def fail_with(failed: Sequence[str]) -> None:
    """Says which checks failed, and ends the command with exit code 1 if one did."""
    for sentence in failed:
        complain(sentence)
    if failed:
        raise typer.Exit(1)


def one_of(what: str, value: str, allowed: Sequence[str]) -> None:
    """Refuses a value that is not among those allowed."""
    if value not in allowed:
        raise RodsError(f"unknown {what} {value!r}: expected one of {', '.join(allowed)}.")


def check_place(path: Path | None) -> None:
    """Refuses a file that cannot be written before the work begins, not after it."""
    if path is not None:
        if path.is_dir():
            raise RodsError(f"cannot write {path}: it is a folder; name a file.")
        if not path.absolute().parent.is_dir():
            raise RodsError(f"cannot write {path}: there is no folder {path.parent}; make it first.")


def find_task(name: str, file: str | None) -> Task:
    """The task with an id, or with an index in the file (the seeds by default)."""
    from rods_env.tasks.task import PACKAGED, load_tasks

    known: list[str] = []
    if name.startswith(("bfcl:", "multi_turn_")) and file is None:  # the ids of BFCL, with or without the set's name
        found = load_tasks(f"bfcl:{name.removeprefix('bfcl:')}")
        if len(found) > 1:
            raise RodsError(f"expected one task; {name} is a set of {len(found)}: `rods-env list {name}` lists them.")
        return found[0]
    for place in [file] if file else PACKAGED:
        tasks = load_tasks(place)
        if name.isdecimal():
            if int(name) < len(tasks):
                return tasks[int(name)]
            raise RodsError(f"expected an index below {len(tasks)}, as {place} has {len(tasks)} tasks; got {name}.")
        for task in tasks:
            if task.id == name:
                return task
        known += [task.id for task in tasks]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"`rods-env list {file or 'seeds'}` lists them."
    raise RodsError(f"no task {name!r} in {file or ' or '.join(PACKAGED)}; {hint}")
