"""The `rods-env` command. Adding a subcommand: a function under `@app.command()`, with the options of `cli_options`.

Subcommands raise `RodsError` for whatever the user can put right; `_Group` turns it into one sentence and exit code 2.
Exit codes: 0 done, 1 a check failed, 2 wrong use, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rods_env.cli_bench import bench
from rods_env.cli_curriculum import curriculum
from rods_env.cli_options import (
    KIND_HELP,
    File,
    Json,
    Limit,
    Quiet,
    Seed,
    TaskName,
    check_place,
    complain,
    find_task,
    make_screen,
    one_of,
)
from rods_env.cli_train import train
from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.tasks.task import Task


class _Group(TyperGroup):
    """Ends every command as people and scripts expect it: without a traceback for what is not a bug."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except RodsError as error:
            complain(f"Error: {error}")
            raise typer.Exit(2) from None
        except BrokenPipeError:  # the reader has read enough, such as `head`
            with contextlib.suppress(OSError, ValueError):  # no file behind it: nothing to point elsewhere
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            complain(f"Error: cannot read or write{where}: {error.strerror or error}.")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            complain("\nStopped.")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Group, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
app.add_typer(bench, name="bench")
app.add_typer(curriculum, name="curriculum")


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


def _check_kind(kind: str | None) -> Any:
    from rods_env.tasks.task import KINDS

    if kind is not None:
        one_of("kind", kind, KINDS)
    return kind


# ---------------------------------------------------------------------- list


@app.command("list")
def list_(
    tasks: Annotated[
        str | None, typer.Argument(metavar="SET", help="seeds, heldout, bfcl:test, or a task file.")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"Only this kind: {KIND_HELP}.")] = None,
    api: Annotated[list[str] | None, typer.Option(metavar="API", help="Only what calls this API; repeatable.")] = None,
    limit: Limit = None,
    quiet: Quiet = False,
) -> None:
    """List environments, APIs and task sets; or the tasks of a set."""
    from rods_env import cli_tables as tables

    if tasks is not None:
        tables.list_tasks(make_screen(quiet), tasks, _check_kind(kind), api or [], limit)
    elif kind or api or limit:
        raise RodsError("--kind, --api and --limit choose among the tasks of a set: say which, as in 'list seeds'.")
    else:
        tables.list_everything(make_screen(quiet))


# ---------------------------------------------------------------------- show, play


@app.command()
def show(
    task: TaskName,
    file: File = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also draw the dependency graph.")] = None,
    world: Annotated[bool, typer.Option("--world", metavar="", help="Also print the initial world's tables.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show a task: turns, solution, dependency graph."""
    from rods_env.cli_screen import show_task, show_world

    check_place(png)
    screen, found = make_screen(quiet), find_task(task, file)
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
    from rods_env.tasks.task import load_tasks

    tasks: Any = [find_task(task, file)] if task is not None else file or "seeds"
    if isinstance(tasks, str):
        tasks = load_tasks(tasks)
    Session(gym.make(tasks[0].ENVIRONMENT, tasks=tasks), make_screen(quiet), file).run(seed=seed)


@app.command()
def variants(
    task: TaskName,
    n: Annotated[int, typer.Option("--n", "-n", min=1, metavar="N", help="How many.")] = 5,
    keep_tools: Annotated[
        bool, typer.Option("--keep-tools", metavar="", help="The task's own tools: other people, world and words only.")
    ] = False,
    file: File = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also draw the graphs beside it.")] = None,
    seed: Seed = 0,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show a task beside variants of it, made now; exit code 1 if fewer were found than wanted."""
    import time

    from rods_env import cli_tables as tables
    from rods_env.cli_screen import show_variants
    from rods_env.errors import SynthesisError
    from rods_env.tasks.families import make_synthesizer
    from rods_env.tasks.variants import Synthesizer

    check_place(png)
    check_place(json)
    screen, found = make_screen(quiet), find_task(task, file)
    own = isinstance(synthesizer := make_synthesizer([found], seed), Synthesizer)
    if own:
        synthesizer = Synthesizer(seed, keep_tools=keep_tools)
    made: list[Task] = []
    why = ""
    begun = time.perf_counter()
    with screen.progress(f"making variants of {found.id}", n) as done:
        while len(made) < n and not why:
            try:
                made.append(synthesizer.variant(found))
                done(1)
            except SynthesisError as error:
                why = str(error)
    seconds = time.perf_counter() - begun
    show_variants(screen, found, made)
    if png is not None:
        from rods_env.tasks import drawing

        shown = [found, *made[: drawing.MOST - 1]]
        titles = [f"{f'variant {k}' if k else 'seed'}: {', '.join(tables.apis_used(t))}" for k, t in enumerate(shown)]
        drawing.save_png(drawing.side_by_side(shown, titles), png)
        screen.title(f"The picture is in {png}; it shows {len(shown) - 1} of {len(made)} variants.")
    rejected = {f"rejected_{reason}": count for reason, count in synthesizer.rejected.most_common()}
    tables.save_figures({"wanted": n, "made": len(made), **rejected, "variants_per_s": len(made) / seconds}, json)
    if why:
        complain(f"Only {len(made)} of {n} variants were found: {why}")
        raise typer.Exit(1)


# ---------------------------------------------------------------------- eval


@app.command("eval")
def eval_(
    agent: Annotated[
        str,
        typer.Option(
            metavar="AGENT",
            help="oracle, do-nothing, random, read-everything; or a policy: a run folder, tiny, smollm2, OWNER/NAME.",
        ),
    ] = "oracle",
    tasks: Annotated[
        str | None, typer.Option(metavar="SET", help="seeds, heldout, bfcl:test, or a task file; heldout if not given.")
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Play an agent on every task of a set, and say how well it does."""
    from rods_env import cli_tables as tables
    from rods_env.agents.evaluate import evaluate
    from rods_env.agents.scripted import AGENTS
    from rods_env.cli_policy import POLICIES, is_policy, play_policy
    from rods_env.tasks.task import load_tasks

    check_place(json)
    screen = make_screen(quiet)
    if agent not in AGENTS and is_policy(agent):
        found, place = play_policy(screen, agent, tasks, limit, seed)
    else:
        one_of("agent", agent, [*AGENTS, *POLICIES, "a folder", "OWNER/NAME of Hugging Face"])
        place = tasks or "heldout"
        chosen = load_tasks(place)[:limit]
        with screen.progress(f"{agent} plays {place}", len(chosen)) as done:
            found = evaluate(lambda env: AGENTS[agent](env, seed), chosen, seed, progress=done)
    tables.print_evaluation(screen, found, f"{agent} on {place}, seed {seed}")
    if json is not None:
        found.save(json)


app.command("train")(train)


# ---------------------------------------------------------------------- validate, make-tasks


@app.command()
def validate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A task file, seeds, heldout, bfcl, bfcl:train, or an id of BFCL.")
    ],
    limit: Limit = None,
    quiet: Quiet = False,
) -> None:
    """Check every task of a file, or of BFCL; exit code 1 if one breaks a rule."""
    from rods_env.tasks.task import load_tasks, read_lines
    from rods_env.tasks.validation import validate as check

    screen = make_screen(quiet)
    bfcl = file == "bfcl" or file.startswith(("bfcl:", "multi_turn_"))
    read: list[tuple[int, Task | RodsError]]
    if bfcl:
        name = "all" if file == "bfcl" else file.removeprefix("bfcl:")
        read = [*enumerate(load_tasks(f"bfcl:{name}")[:limit], 1)]
    else:
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
            screen.line(f"{name}: {rule}" if bfcl else f"line {number}, {name}: {rule}", style="red")
    valid, style = len(read) - len(broken), "yellow" if broken else "green"
    what = "have no finding; docs/bfcl-findings.md explains them" if bfcl else "are valid"
    screen.line(f"{file}: {valid} of {len(read)} tasks {what}.", style=style)
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
    screen, made = make_screen(quiet), {}
    if frozen is not None:
        if n or kind or api:
            raise RodsError("--frozen makes the packaged sets as they are defined: leave out --n, --kind and --api.")
        places = [frozen / f"{name}.jsonl.gz" for name in ("seeds", "heldout")]
        check_place(places[0])
        with screen.progress("making the packaged sets", 2 * sum(datasets.QUOTAS.values())) as done:
            sets = datasets.make_frozen(datasets.SEED if seed is None else seed, progress=done)
        made = dict(zip(places, sets, strict=True))
    else:
        place, total = Path(str(out)), n or 100
        check_place(place)
        apis, some = check_apis(api) if api else None, _check_kind(kind or "base")
        with screen.progress("making tasks", total) as done:
            made[place] = datasets.make_tasks(total, seed or 0, kind=some, apis=apis, progress=done)
    for path, found in made.items():
        save_tasks(found, path)
    tables.print_sets(screen, {path.name: datasets.describe(tasks) for path, tasks in made.items()})
    screen.remark(f"written: {', '.join(map(str, made))}", indent=1)


if __name__ == "__main__":
    main()
