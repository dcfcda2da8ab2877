"""The live view of a training run: a panel that is drawn anew after every step, or a plain line a step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rods_env.cli_screen import Screen

Row = Mapping[str, Any]

_BARS = "▁▂▃▄▅▆▇█"
_PARTS = ("generate", "environment", "train")


def duration(seconds: float) -> str:
    """How long, in words: 40 s, 12 min, 3 h 05 min."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def sparkline(values: list[float], width: int, low: float | None = None, high: float | None = None) -> str:
    """A curve made of block signs; neighbours are averaged where there are more values than signs.

    Args:
        values: in order.
        width: the most signs.
        low: what the lowest sign stands for; None: the least value that is drawn.
        high: what the highest one stands for; None: the largest value that is drawn.
    """
    n = min(width, len(values))
    if n < 1:
        return ""
    means = []
    for k in range(n):
        part = values[k * len(values) // n : (k + 1) * len(values) // n]
        means.append(sum(part) / len(part))
    least, most = min(means) if low is None else low, max(means) if high is None else high
    scale = (len(_BARS) - 1) / (most - least) if most > least else 0.0
    return "".join(_BARS[min(len(_BARS) - 1, max(0, round((value - least) * scale)))] for value in means)


class Progress:
    """What the rows of a run's metrics say so far.

    Args:
        steps: how many steps the run has.
        clock: seconds, from any beginning.
        fresh: see `pool_words`.

    Attributes:
        rows: the rows of this session with a step above 0.
        step: the latest step.
        earlier: seconds of the steps before this session.
        heldout: steps and success of the evaluations on held-out tasks, in order.
    """

    def __init__(self, steps: int, clock: Callable[[], float] = time.monotonic, *, fresh: bool = False) -> None:
        self.steps = steps
        self.fresh = fresh
        self.rows: list[Row] = []
        self.step = 0
        self.earlier = 0.0
        self.heldout: list[tuple[int, float]] = []
        self._clock = clock
        self._began = clock()
        self._before_first: float | None = None

    def know(self, row: Row) -> None:
        """Takes in a row of an earlier session, from before the run was resumed."""
        self.earlier += float(row.get("seconds") or 0.0)
        self._see(row)

    def _see(self, row: Row) -> None:
        self.step = int(row["step"])
        if row.get("heldout_success") is not None:
            self.heldout.append((self.step, float(row["heldout_success"])))

    def take(self, row: Row) -> None:
        """Takes in the row of a step, or that of step 0, which only holds the evaluation before training."""
        self._see(row)
        now = self._clock()
        if self.step == 0:
            self._before_first = now
            return
        if self._before_first is None:
            # The first step's own duration says when it began, so that what came before it is not counted.
            self._before_first = now - float(row.get("seconds") or 0.0)
        self.rows.append(row)

    @property
    def elapsed(self) -> float:
        """Seconds since the view was made."""
        return self._clock() - self._began

    @property
    def left(self) -> float | None:
        """Seconds to the end, evaluations included, if it goes on as so far; None before the first step."""
        if not self.rows or self._before_first is None:
            return None
        each = (self._clock() - self._before_first) / len(self.rows)
        return max(0.0, each * (self.steps - self.step))

    def split(self, last: int = 10) -> dict[str, float]:
        """Shares of the time of the last steps: generate, environment, train; empty if rows do not say."""
        recent = self.rows[-last:]
        sums = {name: sum(float(row.get(f"{name}_s") or 0.0) for row in recent) for name in _PARTS}
        total = sum(sums.values())
        return {name: value / total for name, value in sums.items()} if total > 0 else {}


def pool_words(row: Row, *, fresh: bool = False) -> str:
    """What the curriculum plays, in words; empty if the row does not say.

    Args:
        row: of the metrics.
        fresh: whether every group plays a new variant of a seed (mode "stream"), so that there is no pool.
    """

    def get(name: str) -> float | None:
        value = row.get(f"curriculum/{name}")
        return None if value is None else float(value)

    parts = []
    seeds, made = get("pool_seeds"), get("pool_synthetic")
    if seeds is not None and made is not None and made > 0:
        parts.append(f"{seeds:.0f} seeds and {made:.0f} made tasks")
    elif seeds is not None:
        parts.append(f"{'new variants of ' if fresh else ''}{seeds:.0f} seeds")
    calls, turns = get("calls_mean"), get("turns_mean")
    if calls is not None and turns is not None:
        parts.append(f"of late {turns:.1f} turns and {calls:.1f} calls a task")
    return "; ".join(parts)


def plain_line(row: Row, progress: Progress) -> str:
    """A step as one line with tabs between its figures."""
    cells = [f"step {progress.step}/{progress.steps}"]
    for name, key in (("return", "return_mean"), ("success", "success_mean"), ("held-out", "heldout_success"),
                      ("equal", "zero_variance_share"), ("frontier", "frontier_share")):  # fmt: skip
        if row.get(key) is not None:
            cells.append(f"{name} {row[key]:.3f}")
    if row.get("tokens_per_s") is not None:
        cells.append(f"tokens/s {row['tokens_per_s']:.0f}")
    cells += [f"{name} {share:.2f}" for name, share in progress.split(1).items()]
    if row.get("crashed"):
        cells.append(f"crashed {row['crashed']:.0f}")
    if progress.left is not None:
        cells.append(f"left {duration(progress.left)}")
    return "\t".join(cells)


def panel(progress: Progress, width: int, *, unicode: bool = True, doing: str = "") -> RenderableType:
    """The panel: where the run is, what it learns, what it plays, how fast.

    Args:
        progress: what is known.
        width: columns of the terminal.
        unicode: whether curves may be drawn.
        doing: what is being done, while no step is over.
    """
    head = Text.assemble((f"step {progress.step} of {progress.steps}", "bold"))
    head.append(f" · {duration(progress.elapsed)}", "dim")
    if progress.left is not None:
        head.append(f" · about {duration(progress.left)} left", "dim")
    parts: list[RenderableType] = [head]
    parts.append(_bar(progress.step / progress.steps, min(width - 1, 78), unicode))
    if not progress.rows:
        parts.append(Text(doing or "playing the first episodes …", "dim"))
        return Group(*parts)
    row = progress.rows[-1]
    room = min(24, width - 62) if unicode else 0
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="bold")
    if room >= 6:
        table.add_column(no_wrap=True, style="cyan", width=room)
    table.add_column(style="dim")

    def add(name: str, value: str, curve: list[float], words: str, *, share: bool = False) -> None:
        drawn = sparkline(curve, room, *((0.0, 1.0) if share else ()))
        cells = [name, value, *([drawn] if room >= 6 else []), words]
        table.add_row(*cells)

    def curve(key: str) -> list[float]:
        return [float(r[key]) for r in progress.rows if r.get(key) is not None]

    returns = curve("return_mean")
    if returns:
        recent = returns[-10:]
        words = f"mean of the last {len(recent)} steps: {sum(recent) / len(recent):.3f}" if len(returns) > 1 else ""
        add("return", f"{returns[-1]:.3f}", returns, words)
    if progress.heldout:
        step, success = progress.heldout[-1]
        first, before = progress.heldout[0]
        words = "before training" if step == 0 else f"at step {step}"
        if step != first:
            start = "before" if first == 0 else f"at step {first}"
            words += f"; {before:.3f} {start}: {100 * (success - before):+.1f} points"
        add("held-out success", f"{success:.3f}", [value for _, value in progress.heldout], words)
    equal = curve("zero_variance_share")
    if equal:
        add("zero variance", f"{equal[-1]:.2f}", equal, "of the groups: all rollouts end alike", share=True)
    frontier = curve("frontier_share")
    if frontier:
        add("frontier", f"{frontier[-1]:.2f}", frontier, "of the tasks: rollouts disagree", share=True)
    parts.append(table)
    wide: list[tuple[str, str]] = []
    if words := pool_words(row, fresh=progress.fresh):
        wide.append(("plays", words))
    speed = []
    if row.get("tokens_per_s") is not None:
        speed.append(f"{row['tokens_per_s']:,.0f} tokens/s")
    if split := progress.split():
        speed.append("time: " + ", ".join(f"{name} {share:.0%}" for name, share in split.items()))
    if speed:
        wide.append(("speed", "; ".join(speed)))
    if crashed := sum(float(r.get("crashed") or 0) for r in progress.rows):
        wide.append(("crashed", f"{crashed:.0f} episodes, left out"))
    if wide:
        more = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        more.add_column(no_wrap=True)
        more.add_column()
        for name, words in wide:
            more.add_row(name, Text(words, "red" if name == "crashed" else ""))
        parts.append(more)
    return Group(*parts)


def _bar(done: float, width: int, unicode: bool) -> Text:
    full = min(width, round(width * done))
    signs = ("━", "━") if unicode else ("=", "-")
    return Text.assemble((signs[0] * full, "cyan"), (signs[1] * (width - full), "bright_black"))


class _Panel:
    """Draws the panel at the moment rich asks for it, so that times go on between steps."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        unicode = not options.ascii_only
        yield panel(self.view.progress, options.max_width, unicode=unicode, doing=self.view.doing)


class View:
    """Shows a run while it goes on. Call it with every row of the metrics.

    Args:
        screen: where to; plain lines if it is quiet or no terminal.
        steps: how many steps the run has.
        every: of plain lines only every so many; evaluations and the last step are always shown. None: about 50 lines
            for the run.
        fresh: see `pool_words`.
        clock: seconds, from any beginning.
    """

    def __init__(
        self,
        screen: Screen,
        steps: int,
        *,
        every: int | None = None,
        fresh: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.screen = screen
        self.progress = Progress(steps, clock, fresh=fresh)
        self.every = every or max(1, steps // 50)
        self.lively = not screen.quiet and screen.console.is_terminal and not screen.console.is_dumb_terminal
        self.doing = ""
        self._live: Live | None = None

    def know(self, rows: list[dict[str, Any]]) -> None:
        """Takes in the rows from before a resumed run stopped."""
        for row in rows:
            self.progress.know(row)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """While this context is open, the panel is on the terminal; its last state stays there."""
        if not self.lively:
            yield
            return
        with Live(_Panel(self), console=self.screen.console, refresh_per_second=2) as self._live:
            yield

    def say(self, doing: str) -> None:
        """What is being done now, in words, until the next row."""
        self.doing = doing

    def __call__(self, row: Row) -> None:
        progress = self.progress
        progress.take(row)
        self.doing = ""
        if self._live is not None:
            self._live.refresh()
        elif not self.lively:
            step = progress.step
            due = step % self.every == 0 or step == progress.steps or row.get("heldout_success") is not None
            if due:
                print(plain_line(row, progress), file=self.screen.console.file, flush=True)
