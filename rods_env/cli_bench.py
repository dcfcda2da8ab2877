"""`rods-env bench`: one subcommand for each module of `rods_env.benchmarks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rods_env.cli_bench_curricula import bench_curricula
from rods_env.cli_options import Json, Limit, Quick, Quiet, Seed, check_place, fail_with, make_screen
from rods_env.errors import RodsError

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

    fail_with(failures(_measure("Variants", run, seed, quick, json, quiet)))


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


@bench.command("bfcl")
def bench_bfcl(seed: Seed = 0, quick: Quick = False, json: Json = None, quiet: Quiet = False) -> None:
    """Measure calls on BFCL's simulators, beside its own executor; exit code 1 if the executor is faster."""
    from rods_env.benchmarks.bfcl import failures, run

    fail_with(failures(_measure("BFCL", run, seed, quick, json, quiet)))


@bench.command("bfcl-variants")
def bench_bfcl_variants(seed: Seed = 0, quick: Quick = False, json: Json = None, quiet: Quiet = False) -> None:
    """Make and play variants of BFCL's training tasks; exit code 1 if too few tasks have five, or one is wrong."""
    from rods_env.benchmarks.bfcl_variants import failures, run

    fail_with(failures(_measure("BFCL variants", run, seed, quick, json, quiet)))


@bench.command("rollouts")
def bench_rollouts(
    policy: Annotated[str, typer.Option(metavar="NAME", help="A tiny policy: `tiny`, or a folder.")] = "tiny",
    seed: Seed = 0,
    quick: Quick = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Measure how fast the tiny policy plays, beside TRL's own loop; exit code 1 if it is too slow."""
    from functools import partial

    from rods_env.benchmarks.rollouts import failures, run

    fail_with(failures(_measure("Rollouts", partial(run, policy=policy), seed, quick, json, quiet)))


def _measure(title: str, run: Any, seed: int, quick: bool, json: Path | None, quiet: bool) -> dict[str, float]:
    """Runs a benchmark, prints and saves its figures, and returns them."""
    from rods_env import cli_tables as tables

    check_place(json)
    screen = make_screen(quiet)
    with screen.progress("measuring") as done:
        figures: dict[str, float] = run(seed=seed, quick=quick, progress=done)
    tables.print_figures(screen, title, figures, json)
    return figures


@bench.command("training")
def bench_training(
    seeds: Annotated[str, typer.Option(metavar="N,N,…", help="Seeds of the runs.")] = "0,1,2",
    run: Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs go; those done are not made again.")] = Path(
        "runs/bench-training"
    ),
    limit: Limit = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="As of `train`.")] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train the tiny policy with several seeds, and measure it before and after; exit code 1 if it gains too little."""
    from rods_env import cli_tables as tables
    from rods_env.agents.settings import assignment
    from rods_env.benchmarks.training import failures, figures, run_all, table

    check_place(json)
    if not all(word.strip().isdecimal() for word in seeds.split(",")):
        raise RodsError(f"--seeds must be whole numbers with commas between, such as 0,1,2; got {seeds!r}.")
    screen = make_screen(quiet)
    numbers = [int(word) for word in seeds.split(",")]
    with screen.progress("training") as done:
        results = run_all(
            numbers, run, overrides=dict(map(assignment, settings or [])), limit=limit,
            on_row=lambda seed, row: done(f"seed {seed}, step {row['step']}"),
        )  # fmt: skip
    tables.print_figures(screen, "Training", figures(results), json)
    print(table(results))
    fail_with(failures(results))


bench.command("curricula")(bench_curricula)
