"""What `rods-env train` says: what is going to happen, what came out, where it is, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rods_env.cli_options import complain
from rods_env.cli_screen import counted
from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.agents.evaluate import Evaluation
    from rods_env.agents.settings import TrainSettings
    from rods_env.cli_live import View
    from rods_env.cli_screen import Screen


def announce(
    screen: Screen, settings: TrainSettings, preset: str, folder: Path, agent: Any, resumed: bool, verbose: bool
) -> None:
    """Says in two sentences what is going to happen, and then with which settings and where."""
    from rods_env.agents.settings import differences

    s = settings
    size = counted_parameters(agent.policy.parameters)
    tasks, heldout = len(agent.tasks), len(agent.heldout)
    how = {
        "fixed": "as they are", "fresh": "a new variant of one each time",
        "frontier": "with new variants of those on which its attempts disagree",
    }.get(s.curriculum, f"as the curriculum {s.curriculum!r} chooses")  # fmt: skip
    screen.line(
        f"The policy {s.policy} ({size} parameters) {'goes on learning' if resumed else 'learns'} from reward: in each "
        f"of its {counted(s.steps, 'step')} it plays {s.groups_per_step} tasks {s.group_size} times each, and what did "
        f"better than the other attempts at the same task becomes more likely."
    )
    screen.line(
        f"It starts from {tasks} tasks ({s.tasks}), {how}; the {heldout} held-out tasks ({s.heldout}) are never "
        f"trained on, so success on them before and after shows what it has learned."
    )
    changed = ", ".join(f"{name}={_said(value)}" for name, value in differences(s, preset).items())
    _gap(screen)
    screen.remark(f"settings: {preset}{f' with {changed}' if changed else ''}; all of them: {folder / 'config.json'}")
    if verbose:
        rows = [(name, _said(getattr(s, name))) for name in s.__struct_fields__]
        screen.table(("setting", "value"), rows, head=False)
    screen.remark("Ctrl-C saves and stops.")
    _gap(screen)


def _gap(screen: Screen) -> None:
    """An empty line for the eye; plain lines need none."""
    if not screen.quiet:
        screen.line()


def _said(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(value)
    import msgspec

    return msgspec.json.encode(value).decode()


def counted_parameters(number: int) -> str:
    """How many parameters, in words."""
    for size, word in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if number >= 0.95 * size:
            return f"{number / size:.1f} {word}" if number < 100 * size else f"{number / size:.0f} {word}"
    return str(number)


# ---------------------------------------------------------------------- the end of a run


def result(
    screen: Screen, before: Evaluation | None, after: Evaluation, settings: TrainSettings, minutes: float, view: View
) -> None:
    """Success on the held-out tasks before and after, with 95 % intervals, over all and by depth."""
    from rich.table import Column

    progress = view.progress
    _gap(screen)
    screen.line(verdict(before, after, settings, minutes), style="bold")
    few, first, last = returns(progress.rows)
    if few:
        over = counted(few, "step")
        screen.line(f"Return in training: {first:.3f} at the beginning, {last:.3f} at the end (means of {over}).")
    roomy = screen.width >= 76 or screen.quiet
    pairs: list[tuple[str, Any, Any]] = [("all tasks", before and before.overall, after.overall)]
    for depth, score in sorted(after.by_depth.items(), key=lambda item: int(item[0])):
        pairs.append((f"depth {depth}", before and before.by_depth.get(depth), score))
    rows: list[Any] = []
    for name, old, new in pairs:
        change = f"{100 * (new.success - old.success):+.1f}" if old is not None else ""
        cells = [name, str(new.episodes), *_cells(old, roomy), *_cells(new, roomy), change]
        rows.append(cells)
        if name.startswith("all"):
            rows.append(None)

    def right(head: str) -> Column:
        return Column(head, justify="right", no_wrap=True)

    interval = [right("95 %")] if roomy else []
    screen.title("Success on held-out tasks")
    screen.table(("", right("tasks"), right("before"), *interval, right("after"), *interval, right("points")), rows)
    screen.remark("depth: how many calls of a task need each other in a row.", indent=1)


def _cells(score: Any, roomy: bool) -> list[str]:
    if score is None:
        return ["", ""] if roomy else [""]
    interval = f"[{score.success_low:.3f}, {score.success_high:.3f}]"
    return [f"{score.success:.3f}", *([interval] if roomy else [])]


def returns(rows: Sequence[Mapping[str, Any]]) -> tuple[int, float, float]:
    """Over how many steps at each end of a run the mean return is taken, and the two means."""
    few = min(10, len(rows) // 2)
    return few, _mean_return(rows[:few]), _mean_return(rows[len(rows) - few :])


def _mean_return(rows: Sequence[Mapping[str, Any]]) -> float:
    values = [float(row["return_mean"]) for row in rows if row.get("return_mean") is not None]
    return sum(values) / len(values) if values else float("nan")


def verdict(before: Evaluation | None, after: Evaluation, settings: TrainSettings, minutes: float) -> str:
    """What came out, in one sentence, without saying more than the intervals do."""
    from rods_env.cli_live import duration

    n, took = after.overall.episodes, duration(60 * minutes)
    if before is None:
        return f"Success on {n} held-out tasks is {after.success:.1%} after {counted(settings.steps, 'step')} ({took})."
    old, new = before.overall, after.overall
    when = f"in {counted(settings.steps, 'step')} and {took}"
    points = 100 * (new.success - old.success)
    if points == 0:
        return f"Success on {n} held-out tasks stayed at {new.success:.1%} {when}."
    verb = "rose" if points > 0 else "fell"
    said = f"Success on {n} held-out tasks {verb} from {old.success:.1%} to {new.success:.1%} ({points:+.1f} points)"
    apart = new.success_low > old.success_high or new.success_high < old.success_low
    return f"{said} {when}{'' if apart else '; the 95 % intervals overlap, so this may be chance'}."


def figures(before: Evaluation | None, after: Evaluation, minutes: float, view: View) -> dict[str, float]:
    """What a run reached and took, flat."""
    flat: dict[str, float] = {"steps": view.progress.step, "minutes": minutes}
    for name, found in (("before", before), ("after", after)):
        if found is not None:
            flat |= {f"heldout_{name}/{key}": value for key, value in found.figures().items()}
    if view.progress.rows:
        few, first, last = returns(view.progress.rows)
        if few:
            flat |= {"return_first": first, "return_last": last, "return_steps": few}
        flat["tokens"] = sum(float(row.get("tokens") or 0) for row in view.progress.rows)
        split = view.progress.split(len(view.progress.rows))
        flat |= {f"{name}_share": share for name, share in split.items()}
    return flat


def draw_curves(folder: Path) -> bool:
    """Draws the curves; whether it could. Training does not fail for want of matplotlib."""
    from rods_env.agents.curves import draw

    try:
        draw(folder)
    except RodsError as error:
        complain(f"curves.png was not drawn: {error}")
        return False
    return True


def where(screen: Screen, folder: Path, settings: TrainSettings, drawn: bool) -> None:
    _gap(screen)
    what = f"config.json, metrics.jsonl{', curves.png' if drawn else ''}, checkpoints"
    screen.line(f"The run is in {folder}: {what}.")
    screen.line(f"evaluate it:  rods-env eval --agent {folder}")
    screen.line(f"go on:        rods-env train --resume {folder} --steps {2 * settings.steps}")


def stopped(screen: Screen, folder: Path, view: View) -> None:
    """After Ctrl-C: what is kept, and how to go on."""
    from rods_env.agents.run_folder import RunFolder

    _gap(screen)
    saved = max((step for step, _ in RunFolder(folder).checkpoints()), default=0)
    if saved:
        screen.line(f"Stopped. Step {saved} of {view.progress.steps} is saved, with all before it, in {folder}.")
    else:
        screen.line("Stopped before the first step was over; nothing was learned yet.")
    if view.progress.rows:
        draw_curves(folder)
    screen.line(f"{'go on' if saved else 'begin again'}:  rods-env train --resume {folder}")
