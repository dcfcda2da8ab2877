"""The `rods-env` command. Adding a subcommand: a function under `@app.command()`, with the shared options below.

Subcommands raise `RodsError` for whatever the user can put right; `_Group` turns it into one sentence and exit code 2.
Exit codes: 0 done, 1 a check failed, 2 wrong use, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.cli_screen import Screen
    from rods_env.tasks.task import Task

# What these mean is the same in every subcommand.
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Equal seeds give equal results.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N tasks.")]
Quiet = Annotated[bool, typer.Option("--quiet", metavar="", help="Plain lines with tabs: no bars, headers or colours.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures to this file.")]
File = Annotated[str | None, typer.Option("--file", metavar="FILE", help="seeds, heldout, or a task file.")]
KIND_HELP = "base, missing_function, missing_parameter or long_context"


class _Group(TyperGroup):
    """Ends every command as people and scripts expect it: without a traceback for what is not a bug."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except RodsError as error:
            _complain(f"Error: {error}")
            raise typer.Exit(2) from None
        except BrokenPipeError:  # the reader has read enough, such as `head`
            with contextlib.suppress(OSError, ValueError):  # no file behind it: nothing to point elsewhere
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            _complain(f"Error: cannot read or write{where}: {error.strerror or error}.")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            _complain("\nStopped.")
            raise typer.Exit(130) from None


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


app = typer.Typer(
    cls=_Group, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
bench = typer.Typer(no_args_is_help=True, help="Measure how fast it is, and how well curricula do.")
app.add_typer(bench, name="bench")


def main() -> None:
    """The entry point; exits with the command's code."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign is no reason to fail
    app(prog_name="rods-env")


def _version(wanted: bool) -> None:
    if wanted:
        from rods_env.version import __version__

        print(f"rods-env {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Multi-turn tool-use tasks with provable solutions, behind the Gymnasium API.

    Begin with: rods-env list, rods-env show 0, rods-env play.
    """


def _screen(quiet: bool = False) -> Screen:
    from rods_env.cli_screen import Screen

    return Screen(quiet)


def _one_of(what: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise RodsError(f"unknown {what} {value!r}: expected one of {', '.join(allowed)}.")


def _check_kind(kind: str | None) -> Any:
    from rods_env.tasks.task import KINDS

    if kind is not None:
        _one_of("kind", kind, KINDS)
    return kind


def _check_place(path: Path | None) -> None:
    """Refuses a file that cannot be written before the work begins, not after it."""
    if path is not None:
        if path.is_dir():
            raise RodsError(f"cannot write {path}: it is a folder; name a file.")
        if not path.absolute().parent.is_dir():
            raise RodsError(f"cannot write {path}: there is no folder {path.parent}; make it first.")


def _find(name: str, file: str | None) -> Task:
    """The task with an id, or with an index in the file (the seeds by default)."""
    from rods_env.tasks.task import PACKAGED, load_tasks

    known: list[str] = []
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


# ---------------------------------------------------------------------- list


@app.command("list")
def list_(
    tasks: Annotated[str | None, typer.Argument(metavar="SET", help="seeds, heldout, or a task file.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"Only this kind: {KIND_HELP}.")] = None,
    api: Annotated[list[str] | None, typer.Option(metavar="API", help="Only what calls this API; repeatable.")] = None,
    limit: Limit = None,
    quiet: Quiet = False,
) -> None:
    """List environments, APIs and task sets; or the tasks of a set."""
    from rods_env import cli_tables as tables

    if tasks is not None:
        tables.list_tasks(_screen(quiet), tasks, _check_kind(kind), api or [], limit)
    elif kind or api or limit:
        raise RodsError("--kind, --api and --limit choose among the tasks of a set: say which, as in 'list seeds'.")
    else:
        tables.list_everything(_screen(quiet))


# ---------------------------------------------------------------------- show, play


@app.command()
def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task id, or a number in the file (of the seeds).")],
    file: File = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also draw the dependency graph.")] = None,
    world: Annotated[bool, typer.Option("--world", metavar="", help="Also print the initial world's tables.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show a task: turns, solution, dependency graph."""
    from rods_env.cli_screen import show_task, show_world

    _check_place(png)
    screen, found = _screen(quiet), _find(task, file)
    show_task(screen, found)
    if world:
        show_world(screen, found)
    if png is not None:
        from rods_env.tasks.drawing import figure, save_png

        save_png(figure(found), png)
        screen.title(f"The picture is in {png}.")


@app.command()
def play(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="A task id, or a number; drawn by --seed if not given.")
    ] = None,
    file: File = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Play the agent yourself, in the terminal."""
    import gymnasium as gym

    from rods_env.cli_play import Session

    tasks: Any = [_find(task, file)] if task is not None else file or "seeds"
    Session(gym.make("ToolUse-RODS-v0", tasks=tasks), _screen(quiet), file).run(seed=seed)


# ---------------------------------------------------------------------- eval


@app.command("eval")
def eval_(
    agent: Annotated[
        str, typer.Option(metavar="AGENT", help="oracle, do-nothing, random or read-everything.")
    ] = "oracle",
    tasks: Annotated[str, typer.Option(metavar="SET", help="seeds, heldout, or a task file.")] = "heldout",
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Play an agent on every task of a set, and say how well it does."""
    from rods_env import cli_tables as tables
    from rods_env.agents.evaluate import evaluate
    from rods_env.agents.scripted import AGENTS
    from rods_env.tasks.task import load_tasks

    _one_of("agent", agent, list(AGENTS))
    _check_place(json)
    chosen = load_tasks(tasks)[:limit]
    screen = _screen(quiet)
    with screen.progress(f"{agent} plays {tasks}", len(chosen)) as done:
        found = evaluate(lambda env: AGENTS[agent](env, seed), chosen, seed, progress=done)
    tables.print_evaluation(screen, found, f"{agent} on {tasks}, seed {seed}")
    if json is not None:
        found.save(json)


# ---------------------------------------------------------------------- validate, make-tasks


@app.command()
def validate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task file, seeds or heldout.")],
    limit: Limit = None,
    quiet: Quiet = False,
) -> None:
    """Check every task of a file; exit code 1 if one breaks a rule."""
    from rods_env.tasks.task import read_lines
    from rods_env.tasks.validation import validate as check

    screen = _screen(quiet)
    read = list(read_lines(file))[:limit]
    tasks: dict[int, Task] = {}
    broken: list[tuple[int, str, list[str]]] = []
    same: dict[Any, int] = {}  # texts, and ids, to the line that has them first
    with screen.progress(f"checking {file}", len(read)) as done:
        for number, item in read:
            done(1)
            if isinstance(item, RodsError):
                broken.append((number, "?", [str(item)]))
                continue
            tasks[number] = item
            rules = check(item)
            texts = tuple(turn.message for turn in item.turns)
            twin, namesake = same.setdefault(texts, number), same.setdefault(item.id, number)
            if twin != number and tasks[twin] == item:
                rules.append(f"It equals the task on line {twin}.")
            elif namesake != number:
                rules.append(f"Another task, on line {namesake}, has the same id.")
            if rules:
                broken.append((number, item.id, rules))
    for number, name, rules in broken:
        for rule in rules:
            screen.line(f"line {number}, {name}: {rule}", style="red")
    valid, style = len(read) - len(broken), "yellow" if broken else "green"
    screen.line(f"{file}: {valid} of {len(read)} tasks are valid.", style=style)
    if broken:
        raise typer.Exit(1)


@app.command("make-tasks")
def make_tasks(
    out: Annotated[Path | None, typer.Argument(metavar="OUT", help="The file to write: .jsonl or .jsonl.gz.")] = None,
    n: Annotated[int | None, typer.Option("--n", "-n", min=1, metavar="N", help="How many; 100 if not given.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"{KIND_HELP}; base if not given.")] = None,
    api: Annotated[list[str] | None, typer.Option(metavar="API", help="Use this API only; may be repeated.")] = None,
    frozen: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Make the packaged sets, seeds and heldout, in this folder.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="0 if not given.")] = None,
    quiet: Quiet = False,
) -> None:
    """Make new valid tasks, and save them."""
    from rods_env import cli_tables as tables
    from rods_env.apis.registry import check_apis
    from rods_env.tasks import datasets
    from rods_env.tasks.task import save_tasks

    if (out is None) == (frozen is None):
        raise RodsError("say where the tasks go: either a file OUT, or --frozen DIR for the packaged sets.")
    screen, made = _screen(quiet), {}
    if frozen is not None:
        if n or kind or api:
            raise RodsError("--frozen makes the packaged sets as they are defined: leave out --n, --kind and --api.")
        places = [frozen / f"{name}.jsonl.gz" for name in ("seeds", "heldout")]
        _check_place(places[0])
        with screen.progress("making the packaged sets", 2 * sum(datasets.QUOTAS.values())) as done:
            sets = datasets.make_frozen(datasets.SEED if seed is None else seed, progress=done)
        made = dict(zip(places, sets, strict=True))
    else:
        place, total = Path(str(out)), n or 100
        _check_place(place)
        apis, some = check_apis(api) if api else None, _check_kind(kind or "base")
        with screen.progress("making tasks", total) as done:
            made[place] = datasets.make_tasks(total, seed or 0, kind=some, apis=apis, progress=done)
    for path, found in made.items():
        save_tasks(found, path)
    tables.print_sets(screen, {path.name: datasets.describe(tasks) for path, tasks in made.items()})
    screen.remark(f"written: {', '.join(map(str, made))}", indent=1)


# ---------------------------------------------------------------------- bench


@bench.command()
def throughput(
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", metavar="", help="Less work, less exact: a few seconds.")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Measure steps, resets, snapshots and syntheses per second on this machine."""
    from rods_env import cli_tables as tables
    from rods_env.benchmarks.throughput import run

    _check_place(json)
    screen = _screen(quiet)
    with screen.progress("measuring") as done:
        figures = run(seed=seed, quick=quick, progress=done)
    tables.print_figures(screen, "Throughput", figures, json)


if __name__ == "__main__":
    main()
