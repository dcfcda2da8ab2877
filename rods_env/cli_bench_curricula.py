"""`rods-env bench curricula`: trains the cells of a grid, or only reads them, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rods_env.cli_options import Json, Quiet, check_place, complain, fail_with, make_screen, one_of
from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.benchmarks.curricula.cells import Cell
    from rods_env.benchmarks.curricula.grid import Grid
    from rods_env.benchmarks.curricula.learners import Learner
    from rods_env.benchmarks.curricula.workers import Event
    from rods_env.cli_screen import Screen

_ARMS, _SEEDS, _COUNTS = "all", "5", "50,100,400"
_NAMES = (  # of all arms: written down, as --help is to load nothing
    "fixed, dapo, replay, augmented, random, oneshot, no-retire, binary, rods-mean, offline17k, sft-more, rods, fresh, "
    "fresh-shapes, stream"
)


def bench_curricula(
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help=f"What is compared, of {_NAMES}; or all (default); and bound. "
            "stream:sharpness=1+explore=0.3 sets arguments.",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N", help=f"How many runs of each arm; or which: 3-7, or 1,4 (default: {_SEEDS})."),
    ] = None,
    seed_counts: Annotated[
        str | None, typer.Option(metavar="N,…", help=f"How many tasks a run begins with (default: {_COUNTS}).")
    ] = None,
    rollouts: Annotated[int, typer.Option(min=1, metavar="N", help="Rollouts of a run.")] = 40960,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="pointer, tiny, or the path or id of a model.")
    ] = "pointer",
    tasks: Annotated[
        str, typer.Option(metavar="SET", help="Where seeds are drawn from: seeds, bfcl:train, or a task file.")
    ] = "seeds",
    match: Annotated[
        str, typer.Option(metavar="WHAT", help="What arms get equally much of: rollouts, or tokens (as fixed samples).")
    ] = "rollouts",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the learner; may be repeated.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at the same time (default: one for each core).")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For runs and the report (default: runs/bench-curricula/POLICY)."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, metavar="X", help="Success to count rollouts to (default: where fixed ends)."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Arms to tell the others' differences from too (fixed always is one)."),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", metavar="", help="Train nothing: report on what the folder keeps.")
    ] = False,
    pack: Annotated[
        bool, typer.Option("--pack", metavar="", help="Move finished runs into one small file, cells.jsonl.gz.")
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compare curricula: every arm from the same warm-ups, with equally many rollouts, on the same held-out tasks.

    Writes results.json, table.md and pictures into the folder of the run.
    What is finished is kept: the same command goes on after a break.
    Exit code 1: a target is clearly missed, or arms differ in rollouts or updates.
    """
    from rods_env import cli_tables
    from rods_env.benchmarks.curricula.grid import Grid, all_cells, make_specs
    from rods_env.benchmarks.curricula.learners import learner_for
    from rods_env.benchmarks.curricula.report import flat, write_report
    from rods_env.benchmarks.curricula.summary import summarize
    from rods_env.benchmarks.curricula.tables import brief_tables
    from rods_env.benchmarks.demo_picture import check_matplotlib

    one_of("--match", match, ("rollouts", "tokens"))
    check_place(json)
    check_matplotlib()  # before hours of training, not after them
    learner = learner_for(policy)
    others = _arms(against or "")
    folder = Path("runs/bench-curricula") / _folder_name(policy) if run is None else run
    screen = make_screen(quiet)
    if report_only:
        cells = [cell for cell in all_cells(folder) if cell.spec.tasks == tasks]
        cells = _wanted(cells, arms, seeds, seed_counts)
        if not cells:
            raise RodsError(f"{folder} keeps no finished run that was asked for; without --report-only they are made.")
    else:
        named = _arms(arms or _ARMS)
        if unknown := [arm for arm in others if arm not in named]:  # before hours of training too
            raise RodsError(f"--against must name arms of --arms, {', '.join(named)}; got {unknown[0]!r}.")
        specs = make_specs(
            named, _seeds(seeds or _SEEDS), _counts(seed_counts or _COUNTS), policy=policy, tasks=tasks,
            rollouts=rollouts, match=match, settings=_settings(settings or []),
        )  # fmt: skip
        cells = _train(Grid(folder, specs), learner, processes, screen)
    results = summarize(cells, target, others)
    made = write_report(folder, cells, results)
    if pack:
        made.append(Grid(folder, [cell.spec for cell in cells]).pack())
    cli_tables.save_figures(flat(results), json)
    for title, heads, rows in brief_tables(results):
        screen.title(title)
        screen.table(heads, rows)
    screen.line()
    screen.remark(f"In {folder}: {', '.join(path.name for path in made)}.")
    fail_with(results.failures())


# ---------------------------------------------------------------------- training, watched


def _train(grid: Grid, learner: Learner, processes: int | None, screen: Screen) -> list[Cell]:
    """All cells of a grid; those that are missing are trained."""
    kept = len(grid.kept())
    missing = len(grid.specs) - kept
    if missing:
        already = f"; {kept} are kept already" if kept else ""
        runs = "1 run" if missing == 1 else f"{missing} runs"
        screen.remark(f"{runs} to train{already}. Ctrl-C stops; the same command goes on.")
    with _watch(screen, kept, len(grid.specs)) as on_event:
        return grid.run(learner, processes=processes, on_event=on_event)


@contextmanager
def _watch(screen: Screen, kept: int, total: int) -> Iterator[Callable[[Event], None]]:
    """A bar on a terminal, otherwise a line for each finished run; nothing if quiet."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if screen.quiet:
        yield lambda _: None
    elif not console.is_terminal:
        yield _say
    else:
        columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=console, transient=True) as bar:
            row = bar.add_task("", total=total, completed=kept)
            yield lambda event: bar.update(row, completed=event.done, description=_standing(event))


def _say(event: Event) -> None:
    if event.kind == "done" and event.checkpoint is not None:
        success = event.checkpoint.success
        complain(
            f"[{event.done}/{event.total}] {event.spec.name}: seen {success['seen']:.3f}, unseen "
            f"{success['unseen']:.3f}, {_duration(event.seconds)}; {_standing(event)}"
        )


def _standing(event: Event) -> str:
    """How long it will take, and what is trained now and how far that is."""
    left = "" if event.left is None else f"about {_duration(event.left)} left"
    now = ", ".join(event.running)
    return " · ".join(filter(None, (left, f"running {now}" if now else "")))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


# ---------------------------------------------------------------------- what was asked for


def _arms(text: str) -> list[str]:
    """Names with commas between; "all" are all of them, none twice."""
    from rods_env.benchmarks.curricula.arms import ARMS

    names = [name.strip() for name in text.split(",") if name.strip()]
    return list(dict.fromkeys(arm for name in names for arm in (ARMS if name == "all" else [name])))


def _seeds(text: str) -> list[int]:
    """ "5" is 0 to 4, "3-7" is 3 to 7, "1,4" and "1,3-5" are what they say; "4," is 4 alone."""
    if text.strip().isdecimal():
        return list(range(int(text)))
    found: list[int] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = (part.strip() for part in word.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise RodsError(f"--seeds must be how many, such as 5, or which, such as 3-7 or 1,4; got {text!r}.")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise RodsError(f"--seed-counts must be numbers from 1 with commas between, such as 50,400; got {text!r}.")
    return [int(word) for word in words]


def _settings(assignments: Sequence[str]) -> str:
    """As `Spec` keeps them; values are text, which the learner reads as it does those of `train --set`."""
    from rods_env.agents.settings import assignment
    from rods_env.benchmarks.curricula.cells import write_settings

    return write_settings(dict(map(assignment, assignments)))


def _wanted(cells: Sequence[Cell], arms: str | None, seeds: str | None, counts: str | None) -> list[Cell]:
    """Of kept cells those that options name; an option that is not given takes all."""
    found = list(cells)
    if arms is not None:
        names = _arms(arms)
        found = [cell for cell in found if cell.spec.arm in names]
    if seeds is not None:
        numbers = _seeds(seeds)
        found = [cell for cell in found if cell.spec.seed in numbers]
    if counts is not None:
        sizes = _counts(counts)
        found = [cell for cell in found if cell.spec.seed_count in sizes]
    return found


def _folder_name(policy: str) -> str:
    """The last part of a path or id, as the name of a folder."""
    name = Path(policy).name.strip(".")
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name) or "policy"
