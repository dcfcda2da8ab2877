"""`table.md`: the results of a grid as Markdown tables, with sentences that say what the columns are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rods_env.benchmarks.curricula.arms import FIXED
from rods_env.benchmarks.curricula.cells import HARD, KEPT_SETS, MASTERED
from rods_env.benchmarks.curricula.statistics import LEVEL, RESAMPLES, Interval, median_reached
from rods_env.benchmarks.curricula.summary import Comparison, Part, Results
from rods_env.benchmarks.curricula.targets import OTHER_RUNS, RUNS

NONE = "–"
Seconds = dict[str, dict[str, float]]  # by arm and part


def tables(results: Results) -> str:
    """All tables of the results, each with a heading and a note."""
    blocks = [_title(results)]
    for count, part in results.parts.items():
        blocks += [f"## {count} seeds", _main(part, results.seconds[count]), _main_note(part)]
        if any(comparison.verdict for comparison in part.comparisons):
            blocks += [f"### Targets with {count} seeds", _targets(part, results.policy), _TARGETS_NOTE]
        if others := [c for c in part.comparisons if not c.verdict and c.baseline != FIXED]:
            blocks += [f"### Further differences with {count} seeds", _differences(others), _DIFFERENCES_NOTE]
        blocks += [
            f"### What was played with {count} seeds", _played(part), _PLAYED_NOTE,
            f"### Spread over runs with {count} seeds", _spread(part), _SPREAD_NOTE,
            f"### Cost with {count} seeds", _cost(part, results.seconds[count]), _COST_NOTE,
        ]  # fmt: skip
    if unequal := results.unfair + results.begun_apart:
        blocks += ["## What is not equal", "\n".join(f"* {sentence}" for sentence in unequal)]
    return "\n\n".join(blocks) + "\n"


def brief_tables(results: Results) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, heads and rows of what fits on a screen: how every arm does, and the targets that are required."""
    for count, part in results.parts.items():
        rows = [
            [name, str(len(arm.seeds)), *(_between(arm.sets[one].final) for one in KEPT_SETS),
             *(_minus_fixed(part, name, one) for one in KEPT_SETS)]
            for name, arm in part.arms.items()
        ]  # fmt: skip
        heads = ["arm", "runs", "seen shapes", "unseen", "minus fixed, seen", "unseen"]
        yield f"Success at the end, {count} seeds", heads, rows
        rows = [
            [f"{c.arm} minus {c.baseline}", c.set, c.wanted, _signed(c.final), _verdict(c, results.policy)]
            for c in part.comparisons
            if c.required
        ]
        if rows:
            yield f"Targets, {count} seeds", ["target", "shapes", "wanted", "difference", ""], rows


def _title(results: Results) -> str:
    settings = "" if results.settings == "{}" else f", settings {results.settings}"
    most = max(len(arm.seeds) for part in results.parts.values() for arm in part.arms.values())
    equal = "as many rollouts" if results.match == "rollouts" else "as many tokens as `fixed` samples"
    lines = [
        "# Curricula compared",
        "",
        f"Policy `{results.policy}`, seeds from `{results.tasks}`, {results.rollouts:,} rollouts{settings}. "
        f"Every arm gets {equal}, starts from the same warm-ups, and is tested on the same held-out tasks.",
        "",
        f"Brackets are {LEVEL:.0%} intervals: percentiles of {RESAMPLES:,} bootstrap samples of runs and held-out "
        "tasks; differences are paired by run and task. "
        + (
            "There is one run of each arm, so intervals hold the luck of the tasks and not that of the runs."
            if most == 1
            else f"Up to {most} runs of each arm: with so few the intervals are somewhat too narrow."
            if most < 10
            else f"Up to {most} runs of each arm."
        ),
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------------- the tables


def _main(part: Part, seconds: Seconds) -> str:
    heads = [
        "arm", "runs", "seen, final", "unseen, final", "best on tuning: seen, unseen", "AUC, seen",
        "minus fixed, seen", "minus fixed, unseen", "rollouts to target", "distinct tasks", "updates",
        "zero variance, last", "frontier of pool, last", "minutes",
    ]  # fmt: skip
    rows = []
    for name, arm in part.arms.items():
        seen, unseen = arm.sets["seen"], arm.sets["unseen"]
        rows.append([
            f"`{name}`", str(len(arm.seeds)), _between(seen.final), _between(unseen.final),
            f"{seen.best:.3f}, {unseen.best:.3f}", _between(seen.area),
            _minus_fixed(part, name, "seen"), _minus_fixed(part, name, "unseen"), _reached(seen.rollouts_to_target),
            f"{arm.distinct_tasks:,.0f}", f"{arm.updates:,.0f}",
            _two(arm.groups.get("zero_variance_share")), _two(arm.groups.get("frontier_share")),
            f"{seconds[name]['total'] / len(arm.seeds) / 60:,.1f}",
        ])  # fmt: skip
    return _table(heads, rows)


def _main_note(part: Part) -> str:
    starts = {f"{arm.sets['seen'].first:.3f} and {arm.sets['unseen'].first:.3f}" for arm in part.arms.values()}
    start = f"At the start success was {starts.pop()} on seen and unseen shapes. " if len(starts) == 1 else ""
    target = ""
    if part.target:
        target = (
            f"Rollouts to target: until success on seen shapes first reached {part.target['seen']:.3f}, the median "
            "over runs, and how many reached it. "
        )
    return (
        f"{start}Final: the last checkpoint. Best on tuning: the checkpoint with the greatest success on the tuning "
        f"set. AUC: mean success over the rollouts. {target}Zero variance: share of groups whose returns are all "
        "equal; frontier of pool: share of its tasks believed to disagree; both since the checkpoint before the last."
    )


def _targets(part: Part, policy: str) -> str:
    rows = [
        [
            f"`{c.arm}` minus `{c.baseline}`", c.set, str(c.seeds), c.wanted, _signed(c.final),
            f"{c.improvement:.2f}", f"**{_verdict(c, policy)}**" if c.required else f"{_verdict(c, policy)} (compared)",
        ]
        for c in part.comparisons
        if c.verdict
    ]  # fmt: skip
    return _table(["target", "shapes", "runs", "wanted", "difference in final success", "P(improvement)", ""], rows)


def _verdict(comparison: Comparison, policy: str) -> str:
    """What the interval says; with too few runs that it is not yet the answer."""
    wanted = RUNS.get(policy, OTHER_RUNS)
    few = f", with {comparison.seeds} of {wanted} runs" if comparison.seeds < wanted else ""
    return f"{comparison.verdict}{few}"


_TARGETS_NOTE = (
    "Above 0 is reached if the whole interval is above 0, and not reached if none of it is; not below 0 is reached if "
    "the difference itself is not, and not reached if the whole interval is below 0. Else it is undecided. Compared: "
    "no target of the benchmark. "
    "P(improvement): probability that a run of the first arm ends above one of the second. Of many "
    "95 % intervals one in twenty misses the truth: they are not corrected for their number."
)


def _differences(comparisons: Sequence[Comparison]) -> str:
    rows = [
        [f"`{c.arm}` minus `{c.baseline}`", c.set, str(c.seeds), _signed(c.final), _signed(c.area)]
        for c in comparisons
    ]
    return _table(["difference", "shapes", "runs", "in final success", "in AUC"], rows)


_DIFFERENCES_NOTE = "Asked for with `--against`; nothing is wanted of them."


def _played(part: Part) -> str:
    heads = [
        "arm", "made tasks, first groups", "hard", "middle", "mastered", "disagreed",
        "variance in band", "outside", "ratio", "groups in band", "zero variance, whole run", "distinct seeds, last",
        "calls, last", "turns, last",
    ]  # fmt: skip
    rows = []
    for name, arm in part.arms.items():
        groups, last = arm.injected["groups"], arm.groups
        shares = [_two(arm.injected[key] / groups if groups else None) for key in _LANDINGS]
        rows.append([
            f"`{name}`", f"{groups / len(arm.seeds):,.0f}", *shares,
            _three(arm.inside_variance), _three(arm.outside_variance), _two(arm.variance_ratio),
            _two(arm.inside_share), _two(arm.zero_variance_share),
            NONE if not last else f"{last['distinct_seeds']:,.0f}",
            _two(last.get("calls_mean")), _two(last.get("turns_mean")),
        ])  # fmt: skip
    return _table(heads, rows)


_LANDINGS = ("hard", "middle", "mastered", "disagreed")
_PLAYED_NOTE = (
    f"Made tasks land by the mean return of their first group: hard below {HARD:.2f}, mastered above {MASTERED:.2f}; "
    "disagreed: its returns differ. The band is a mean return from "
    f"{HARD:.2f} to {MASTERED:.2f}; the paper found 2.0 to 2.2 times the variance in it. Distinct seeds, calls and "
    "turns are of what was played since the checkpoint before the last."
)


def _spread(part: Part) -> str:
    heads = ["arm", "IQM, seen", "IQM, unseen", "lowest, seen", "highest, seen", "above fixed, seen", "unseen"]
    rows = []
    for name, arm in part.arms.items():
        seen, unseen = arm.sets["seen"], arm.sets["unseen"]
        chances = [c.improvement if (c := _find(part, name, one)) else None for one in ("seen", "unseen")]
        rows.append([
            f"`{name}`", _between(seen.iqm), _between(unseen.iqm), f"{min(seen.final_by_seed):.3f}",
            f"{max(seen.final_by_seed):.3f}", *map(_two, chances),
        ])  # fmt: skip
    return _table(heads, rows)


_SPREAD_NOTE = (
    "IQM: mean of the middle half of the runs. Above fixed: probability that a run ends above one of `fixed`."
)


def _cost(part: Part, seconds: Seconds) -> str:
    names = [name for name in next(iter(seconds.values())) if name != "total"]
    rows = []
    for name, arm in part.arms.items():
        runs = len(arm.seeds)
        spent = [f"{seconds[name][key] / runs:,.1f}" for key in names]
        minutes = f"{seconds[name]['total'] / runs / 60:,.1f}"
        rows.append([f"`{name}`", f"{arm.rollouts:,.0f}", f"{arm.tokens:,.0f}", *spent, minutes])
    return _table(["arm", "rollouts", "tokens", *(f"{name}, s" for name in names), "minutes"], rows)


_COST_NOTE = "Wall clock of one run by part, the mean over runs; synthesis is part of curriculum."


# ---------------------------------------------------------------------- what they share


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; numbers, which all but the first column are, stand at the right."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _find(part: Part, arm: str, one: str) -> Comparison | None:
    return next((c for c in part.comparisons if (c.arm, c.baseline, c.set) == (arm, FIXED, one)), None)


def _minus_fixed(part: Part, arm: str, one: str) -> str:
    found = _find(part, arm, one)
    return NONE if found is None else _signed(found.final)


def _between(found: Interval) -> str:
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _signed(found: Interval) -> str:
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _reached(places: Sequence[float | None]) -> str:
    if not places:
        return NONE
    median, count = median_reached(places), sum(place is not None for place in places)
    return f"{'never' if median is None else f'{median:,.0f}'} ({count} of {len(places)})"


def _number(digits: int) -> Callable[[float | None], str]:
    return lambda value: NONE if value is None else f"{value:.{digits}f}"


_two, _three = _number(2), _number(3)

