"""The `rods-env` command. Adding a subcommand: a function under `@app.command()`, with the shared options below.

Subcommands raise `RodsError` for whatever the user can put right; `_Group` turns it into one sentence and exit code 2.
Exit codes: 0 done, 1 a check failed, 2 wrong use, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import difflib
import gzip
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.agents.evaluate import Evaluation, Score
    from rods_env.cli_play import Screen
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
    from rods_env.cli_play import Screen

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


def _apis_used(task: Task) -> list[str]:
    from rods_env.apis.registry import TOOLS

    return list(dict.fromkeys(TOOLS[call.tool].api.NAME for call in task.calls))


def _number(value: float) -> str:
    """A figure for people: 400, 6.11, 0.043, 12,345."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


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
    if tasks is not None:
        _list_tasks(_screen(quiet), tasks, _check_kind(kind), api or [], limit)
    elif kind or api or limit:
        raise RodsError("--kind, --api and --limit choose among the tasks of a set: say which, as in 'list seeds'.")
    else:
        _list_everything(_screen(quiet))


def _list_everything(screen: Screen) -> None:
    from rods_env.apis.registry import APIS, tools_of
    from rods_env.envs import ENVIRONMENTS
    from rods_env.tasks.datasets import describe
    from rods_env.tasks.task import PACKAGED, load_tasks

    with screen.progress("reading the packaged sets", len(PACKAGED)) as done:
        figures = {}
        for name in PACKAGED:
            figures[name] = describe(load_tasks(name))
            done(1)
    screen.title("Environments, for gymnasium.make")
    rows = [(name, ", ".join(kwargs.get("apis", ("tasks of all APIs",)))) for name, (_, kwargs) in ENVIRONMENTS.items()]
    screen.table(("id", "plays"), rows)
    screen.title("APIs")
    counts = {name: len(tools_of([name])) for name in APIS}
    about = [((api.__doc__ or "").strip().split("\n")[0], name) for name, api in APIS.items()]
    screen.table(("name", _right("tools"), "what it is"), [(name, str(counts[name]), text) for text, name in about])
    screen.remark(f"{len(APIS)} APIs, {sum(counts.values())} tools", indent=1)
    screen.title("Task sets")
    _print_sets(screen, figures)
    screen.line()
    screen.remark("rods-env list seeds lists the tasks of a set.")


def _print_sets(screen: Screen, figures: dict[str, dict[str, float]]) -> None:
    """The figures of task sets, a column for each set."""
    keys = next(iter(figures.values()))
    rows = [(key, *(_number(f[key]) for f in figures.values())) for key in keys]
    screen.table(("", *(_right(name) for name in figures)), rows)


def _right(header: str) -> Any:
    from rich.table import Column

    return Column(header, justify="right", no_wrap=True)


def _list_tasks(screen: Screen, name: str, kind: str | None, apis: list[str], limit: int | None) -> None:
    from rich.table import Column
    from rich.text import Text

    from rods_env.apis.registry import check_apis
    from rods_env.tasks.task import load_tasks

    wanted = set(check_apis(apis))
    tasks = load_tasks(name)
    fitting = [(i, t) for i, t in enumerate(tasks) if kind in (None, t.kind) and wanted.issubset(_apis_used(t))]
    shown = fitting[:limit]
    rows: list[list[Any]] = []
    with screen.progress("deriving the dependency graphs", len(shown)) as done:
        for index, task in shown:
            sizes = (len(task.turns), len(task.calls), task.profile.depth)
            used, message = ",".join(_apis_used(task)), task.turns[0].message
            rows.append([str(index), task.id, task.kind, *map(str, sizes), used, message])
            done(1)
    heads = ["#", "id", "kind", "turns", "calls", "depth", "APIs called", "first message"]
    taken = [max(len(row[at]) for row in [heads, *rows]) + 2 for at in range(len(heads))]
    room = screen.width - 1 - sum(taken[:-1])
    if room < 24 and not screen.quiet:  # the message goes below the id, which begins with the APIs that are offered
        room = screen.width - 1 - sum(taken[:1] + taken[2:-2])
        both = [Text.assemble(row[1], "\n", (row[7], "dim")) for row in rows]
        rows = [[row[0], text, *row[2:6]] for row, text in zip(rows, both, strict=True)]
        heads = [*heads[:1], "id and first message", *heads[2:6]]
    numbers = ("#", "turns", "calls", "depth")
    columns = [_right(h) if h in numbers else Column(h, no_wrap=True, overflow="ellipsis") for h in heads]
    columns[1 if len(heads) == 6 else -1].max_width = room
    screen.table(columns, rows)
    example = f" To see one: rods-env show {shown[0][0]}{'' if name == 'seeds' else f' --file {name}'}" if shown else ""
    screen.remark(f"{len(shown)} of {len(tasks)} tasks.{example}", indent=1)


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
    from rods_env.cli_play import show_task, show_world

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
    from rods_env.agents.evaluate import evaluate
    from rods_env.agents.scripted import AGENTS
    from rods_env.tasks.task import load_tasks

    _one_of("agent", agent, list(AGENTS))
    _check_place(json)
    chosen = load_tasks(tasks)[:limit]
    screen = _screen(quiet)
    with screen.progress(f"{agent} plays {tasks}", len(chosen)) as done:
        found = evaluate(lambda env: AGENTS[agent](env, seed), chosen, seed, progress=done)
    _print_evaluation(screen, found, f"{agent} on {tasks}, seed {seed}")
    if json is not None:
        found.save(json)


def _print_evaluation(screen: Screen, found: Evaluation, title: str) -> None:
    def row(name: str, score: Score) -> tuple[str, ...]:
        success = (f"{score.success:.3f}", f"[{score.success_low:.3f}, {score.success_high:.3f}]")
        progress = (f"{score.progress:.3f}", f"[{score.progress_low:.3f}, {score.progress_high:.3f}]")
        return (name, str(score.episodes), *success, *progress)

    rows: list[tuple[str, ...] | None] = [row("all tasks", found.overall)]
    for prefix, group in (("", found.by_kind), ("depth ", found.by_depth), ("API ", found.by_api)):
        rows += [None, *(row(f"{prefix}{name}", score) for name, score in group.items())]
    screen.title(title)
    heads = ("", _right("tasks"), _right("success"), _right("95 %"), _right("progress"), _right("95 %"))
    screen.table(heads, rows)
    ends = ", ".join(f"{name} {n}" for name, n in found.terminations.items())
    screen.remark(f"Episodes ended: {ends or 'none'}. success: every turn passed; progress: share of turns passed. "
                  "A task counts for every API that it calls.", indent=1)  # fmt: skip
    if found.crashed:
        screen.line(f"{found.crashed} episodes crashed and are left out.", style="red", indent=1)


# ---------------------------------------------------------------------- validate, make-tasks


@app.command()
def validate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task file, seeds or heldout.")],
    limit: Limit = None,
    quiet: Quiet = False,
) -> None:
    """Check every task of a file; exit code 1 if one breaks a rule."""
    from rods_env.tasks.validation import validate as check

    screen = _screen(quiet)
    read = list(_lines(file))[:limit]
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
            try:
                rules = check(item)
            except Exception as error:  # a file may hold anything, and the lines after this one are to be checked too
                rules = [f"It cannot be checked: {type(error).__name__}: {error}."]
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


def _lines(name: str) -> Iterator[tuple[int, Task | RodsError]]:
    """Every line of a task file with its number: the task, or what is wrong with it. (`load_tasks` stops there.)"""
    from rods_env.tasks.task import PACKAGED, load_tasks, task_from_json

    path = Path(name)
    if name in PACKAGED or not path.is_file():
        yield from enumerate(load_tasks(name), 1)
        return
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise RodsError(f"{name} cannot be read: {error}.") from None
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield number, task_from_json(line)
            except RodsError as error:
                yield number, error


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
    for path, tasks in made.items():
        save_tasks(tasks, path)
    _print_sets(screen, {path.name: datasets.describe(tasks) for path, tasks in made.items()})
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
    from rods_env.benchmarks.throughput import run

    _check_place(json)
    screen = _screen(quiet)
    with screen.progress("measuring") as done:
        figures = run(seed=seed, quick=quick, progress=done)
    _print_figures(screen, "Throughput", figures, json)


def _print_figures(screen: Screen, title: str, figures: dict[str, float], json: Path | None) -> None:
    """Flat figures as a table, and as a JSON file."""
    screen.title(title)
    screen.table(("figure", _right("value")), [(key, _number(value)) for key, value in figures.items()])
    if json is not None:
        import msgspec

        from rods_env.tasks.task import write_atomically

        write_atomically(json, msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")


if __name__ == "__main__":
    main()
