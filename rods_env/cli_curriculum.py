"""`rods-env curriculum`: what curricula do, shown with a simulated learner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rods_env.cli_options import Json, Quiet, Seed, check_place, make_screen

if TYPE_CHECKING:
    from rods_env.benchmarks.demo import Demo
    from rods_env.cli_screen import Cell, Screen

curriculum = typer.Typer(no_args_is_help=True, help="See what curricula do.")


@curriculum.callback()
def _group() -> None:
    """Keeps `demo` a subcommand although it is the only one so far."""


@curriculum.command()
def demo(
    arms: Annotated[
        str, typer.Option(metavar="NAMES", help="Which, with commas between; a wrong name lists all.")
    ] = "fixed,random,rods-mean,rods,stream",
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many runs of each.")] = 1,
    groups: Annotated[int, typer.Option(min=100, metavar="N", help="Groups of a run.")] = 3000,
    group_size: Annotated[int, typer.Option(min=2, metavar="N", help="Rollouts of a group.")] = 8,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also draw the picture.")] = None,
    seed: Seed = 0,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Let curricula train a simulated learner: what they play, and what it learns, in seconds."""
    from rods_env.benchmarks.demo import run
    from rods_env.cli_tables import save_figures

    check_place(png)
    check_place(json)
    if png is not None:
        from rods_env.benchmarks.demo_picture import check_matplotlib, figure

        check_matplotlib()
    names = [name.strip() for name in arms.split(",") if name.strip()]
    screen = make_screen(quiet)
    with screen.progress("training", len(set(names)) * seeds * groups) as done:
        found = run(names, seeds=seeds, groups=groups, group_size=group_size, seed=seed, progress=done)
    print_demo(screen, found)
    save_figures(found.figures(), json)
    if png is not None:
        from rods_env.tasks.drawing import save_png

        save_png(figure(found), png)
        screen.title(f"The picture is in {png}.")


_INJECTED = "injected_variance_share"
# Of each column: the figure, its head, and how it is written.
_COLUMNS = (
    ("zero_variance_share", "equal", ".2f"),
    ("zero_variance_change", "rise", "+.2f"),
    ("settled_share", "settled", ".2f"),
    ("frontier_share", "pool", ".2f"),
    (_INJECTED, "new", ".2f"),
    ("heldout_success", "held-out", ".3f"),
    ("calls_ratio", "calls", ".2f"),
    ("turns_ratio", "turns", ".2f"),
    ("distinct_seeds_ratio", "seeds", ".2f"),
)


def print_demo(screen: Screen, found: Demo) -> None:
    """A row for each curriculum, and a sentence that says what to see; of several seeds also the least and the most."""
    from rich.table import Column
    from rich.text import Text

    rows: list[Sequence[Cell]] = []
    for arm, figures in found.by_arm().items():
        makes = any(figures["injected_total"])
        shown = [None if name == _INJECTED and not makes else (figures[name], form) for name, _, form in _COLUMNS]
        rows.append((arm, *("" if one is None else format(_mean(one[0]), one[1]) for one in shown)))
        for word, of in (("least", min), ("most", max)) if len(figures[_INJECTED]) > 1 else ():
            cells = ["" if one is None else format(of(one[0]), one[1]) for one in shown]
            name = f"{arm} {word}" if screen.quiet else f"  {word}"
            rows.append((Text(name, "dim"), *(Text(cell, "dim") for cell in cells)))
    screen.title(f"{found.groups} groups of {found.group_size}, by a simulated learner")
    heads = [Column(head, justify="right", no_wrap=True) for _, head, _ in _COLUMNS]
    screen.table((Column(no_wrap=True), *heads), rows)
    screen.line(what_to_see(found))
    screen.remark(
        "equal: groups whose returns are all equal, in the second half of the run; rise: against the first half; "
        "settled: those of them between 0 and 1. pool: its tasks whose groups would differ, at the end. "
        "new: fresh variants whose first group differed. held-out: success there at the end. calls, turns, "
        "(distinct) seeds: of what is played in the second half, relative to the seeds. "
        "The learner is simulated: a picture of the mechanism, no evidence."
    )


def what_to_see(found: Demo) -> str:
    """One sentence for the curricula at hand."""
    by_arm = found.by_arm()

    def mean(arm: str, name: str) -> float:
        return _mean(by_arm[arm][name])

    least = min(by_arm, key=lambda arm: mean(arm, "zero_variance_share"))
    most = max(by_arm, key=lambda arm: mean(arm, "zero_variance_share"))
    words = f"What to see: {mean(most, 'zero_variance_share'):.0%} of the groups of {most!r} teach nothing"
    if least != most:
        words += f", and {mean(least, 'zero_variance_share'):.0%} of those of {least!r}"
    if "rods-mean" in by_arm and "rods" in by_arm:
        words += (
            "; the rule about means takes for the frontier what is settled: "
            f"{mean('rods-mean', 'settled_share'):.0%} of the groups of 'rods-mean' have equal returns between 0 and "
            f"1, against {mean('rods', 'settled_share'):.0%} of those of 'rods'"
        )
    return words + "."


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
