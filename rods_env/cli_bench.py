"""`rods-env bench`: one subcommand for each module of `rods_env.benchmarks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rods_env.cli_options import Json, Quick, Quiet, Seed, check_place, complain, make_screen

bench = typer.Typer(no_args_is_help=True, help="Measure how fast it is, and how well curricula do.")


@bench.command()
def throughput(seed: Seed = 0, quick: Quick = False, json: Json = None, quiet: Quiet = False) -> None:
    """Measure steps, resets, snapshots and syntheses per second on this machine."""
    from rods_env.benchmarks.throughput import run

    _measure("Throughput", run, seed, quick, json, quiet)


@bench.command("variants")
def bench_variants(seed: Seed = 0, quick: Quick = False, json: Json = None, quiet: Quiet = False) -> None:
    """Check 10,000 variants of the seeds, and measure how many a second are made; exit code 1 if a check fails."""
    from rods_env.benchmarks.variants import failures, run

    failed = failures(_measure("Variants", run, seed, quick, json, quiet))
    for sentence in failed:
        complain(sentence)
    if failed:
        raise typer.Exit(1)


@bench.command("curriculum")
def bench_curriculum(seed: Seed = 0, quick: Quick = False, json: Json = None, quiet: Quiet = False) -> None:
    """Measure how long curricula take to choose a task and to learn from a group, in a pool of 100,000 tasks."""
    from rods_env.benchmarks.curriculum import run

    _measure("Curriculum", run, seed, quick, json, quiet)


@bench.command("discrete")
def bench_discrete(seed: Seed = 0, quick: Quick = False, json: Json = None, quiet: Quiet = False) -> None:
    """Measure steps of ToolUse-RODS-Discrete-v0 with random valid actions."""
    from rods_env.benchmarks.discrete import run

    _measure("Discrete", run, seed, quick, json, quiet)


def _measure(title: str, run: Any, seed: int, quick: bool, json: Path | None, quiet: bool) -> dict[str, float]:
    """Runs a benchmark, prints and saves its figures, and returns them."""
    from rods_env import cli_tables as tables

    check_place(json)
    screen = make_screen(quiet)
    with screen.progress("measuring") as done:
        figures: dict[str, float] = run(seed=seed, quick=quick, progress=done)
    tables.print_figures(screen, title, figures, json)
    return figures
