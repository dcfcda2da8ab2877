"""The tables that commands print: environments and task sets, tasks, evaluations, figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rods_env.cli_screen import Screen

if TYPE_CHECKING:
    from rods_env.agents.evaluate import Evaluation, Score
    from rods_env.tasks.task import Task


def apis_used(task: Task) -> list[str]:
    """The APIs whose tools the gold calls use, in the order of their first call."""
    return list(task.called_apis)


def _number(value: float) -> str:
    """A figure for people: 400, 6.11, 0.043, 12,345."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def list_everything(screen: Screen) -> None:
    from rods_env.apis.registry import APIS, tools_of
    from rods_env.envs import BFCL_ENVIRONMENTS, DISCRETE_ENVIRONMENTS, ENVIRONMENTS
    from rods_env.tasks.datasets import describe
    from rods_env.tasks.task import PACKAGED, load_tasks

    with screen.progress("reading the packaged sets", len(PACKAGED)) as done:
        figures = {}
        for name in PACKAGED:
            figures[name] = describe(load_tasks(name))
            done(1)
    screen.title("Environments, for gymnasium.make")
    rows = [(name, ", ".join(kwargs.get("apis", ("tasks of all APIs",)))) for name, (_, kwargs) in ENVIRONMENTS.items()]
    for name, (_, kwargs) in BFCL_ENVIRONMENTS.items():
        rows.append((name, f"BFCL V3 multi-turn: {', '.join(kwargs.get('categories', ('all categories',)))}"))
    rows += [(name, "tasks of all APIs; actions are numbers") for name in DISCRETE_ENVIRONMENTS]
    screen.table(("id", "plays"), rows)
    screen.title("APIs")
    counts = {name: len(tools_of([name])) for name in APIS}
    about = [((api.__doc__ or "").strip().split("\n")[0], name) for name, api in APIS.items()]
    screen.table(("name", _right("tools"), "what it is"), [(name, str(counts[name]), text) for text, name in about])
    screen.remark(f"{len(APIS)} APIs, {sum(counts.values())} tools", indent=1)
    screen.title("Task sets")
    print_sets(screen, figures)
    screen.line()
    screen.remark("rods-env list seeds lists the tasks of a set.")


def print_sets(screen: Screen, figures: dict[str, dict[str, float]]) -> None:
    """The figures of task sets, a column for each set."""
    keys = next(iter(figures.values()))
    rows = [(key, *(_number(f[key]) for f in figures.values())) for key in keys]
    screen.table(("", *(_right(name) for name in figures)), rows)


def _right(header: str) -> Any:
    from rich.table import Column

    return Column(header, justify="right", no_wrap=True)


def list_tasks(screen: Screen, name: str, kind: str | None, apis: list[str], limit: int | None) -> None:
    from rich.table import Column
    from rich.text import Text

    from rods_env.apis.registry import check_apis
    from rods_env.tasks.task import load_tasks

    wanted = set(check_apis(apis))
    tasks = load_tasks(name)
    fitting = [(i, t) for i, t in enumerate(tasks) if kind in (None, t.kind) and wanted.issubset(apis_used(t))]
    shown = fitting[:limit]
    rows: list[list[Any]] = []
    with screen.progress("deriving the dependency graphs", len(shown)) as done:
        for index, task in shown:
            sizes = (len(task.turns), len(task.calls), task.depth or "-")
            used, message = ",".join(apis_used(task)), task.turns[0].message
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


def print_evaluation(screen: Screen, found: Evaluation, title: str) -> None:
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


def print_figures(screen: Screen, title: str, figures: dict[str, float], json: Path | None) -> None:
    """Flat figures as a table, and as a JSON file."""
    screen.title(title)
    screen.table(("figure", _right("value")), [(key, _number(value)) for key, value in figures.items()])
    save_figures(figures, json)


def save_figures(figures: dict[str, float], json: Path | None) -> None:
    """Flat figures as a JSON file, if one is named."""
    if json is not None:
        import msgspec

        from rods_env.tasks.task import write_atomically

        write_atomically(json, msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")
