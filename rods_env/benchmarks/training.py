"""What reward teaches the tiny policy: the default run with several seeds, measured before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rods_env.agents.evaluate import Evaluation
from rods_env.agents.policy import load_policy
from rods_env.agents.policy_evaluation import evaluate_policy
from rods_env.agents.settings import TrainSettings, make_settings
from rods_env.errors import RodsError
from rods_env.tasks.task import load_tasks, write_atomically
from rods_env.tasks.tiny_sets import TINY_SETS

TARGET = 15.0  # points by which the held-out success should rise
_SETS = {"heldout": "tiny:heldout", "short": "tiny:short"}
_TEMPERATURES = {"sampled": 1.0, "greedy": 0.0}


class Result(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
        seed: of the run.
        steps: that it made.
        rollouts: that it played.
        train_s: how long training took, its evaluations included, in seconds.
        before, after: success by set and way of choosing tokens, such as "heldout, sampled", in [0, 1].
        zero_variance: share of groups without variance in the first and in the last tenth of the steps.
        made_with: the settings and the limit, as JSON: a kept result of others is not this one's.
    """

    seed: int
    steps: int
    rollouts: int
    train_s: float
    before: dict[str, float]
    after: dict[str, float]
    zero_variance: tuple[float, float]
    made_with: str = ""

    @property
    def gain(self) -> float:
        """By how many points the success on the held-out tasks rose, sampled as in training."""
        return 100 * (self.after["heldout, sampled"] - self.before["heldout, sampled"])


def run_all(
    seeds: Sequence[int],
    folder: str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    limit: int | None = None,
    on_row: Callable[[int, dict[str, Any]], None] = lambda _seed, _row: None,
) -> list[Result]:
    """Trains with each seed and evaluates. A run whose result stands in the folder is not made again.

    Args:
        seeds: of the runs.
        folder: gets a run folder and a result for each seed.
        overrides: settings other than those of the preset `tiny`.
        limit: only the first tasks of each set.
        on_row: told the seed and each row of the run.

    Raises:
        RodsError: if no seed is given, or as training does.
    """
    if not seeds:
        raise RodsError("expected at least one seed; got none.")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    return [_one(seed, place, dict(overrides or {}), limit, on_row) for seed in dict.fromkeys(seeds)]


def _one(
    seed: int, place: Path, overrides: dict[str, Any], limit: int | None, on_row: Callable[[int, dict[str, Any]], None]
) -> Result:
    from rods_env.agents.grpo import GrpoAgent

    kept = place / f"seed-{seed}.json"
    settings = make_settings("tiny", overrides={**overrides, "seed": seed})
    made_with = msgspec.json.encode([settings, limit]).decode()
    if kept.exists():
        found = msgspec.json.decode(kept.read_bytes(), type=Result)
        if found.made_with != made_with:
            raise RodsError(f"{kept} is the result of other settings: choose another folder, or remove it.")
        return found
    policy = load_policy(settings.policy, seed=seed)
    before = _scores(policy, settings, limit)
    agent = GrpoAgent(policy, settings, place / f"seed-{seed}")
    agent.train(on_row=lambda row: on_row(seed, row), resume=bool(agent.folder.checkpoints()))
    rows = agent.folder.rows()  # those before a break, too
    took_s = sum(row.get("seconds", row.get("evaluate_s", 0.0)) for row in rows)
    shares = [row["zero_variance_share"] for row in rows if "zero_variance_share" in row]
    tenth = max(1, len(shares) // 10)
    result = Result(
        seed=seed, steps=settings.steps, rollouts=settings.steps * settings.group_size * settings.groups_per_step,
        train_s=round(took_s, 1), before=before, after=_scores(policy, settings, limit),
        zero_variance=(sum(shares[:tenth]) / tenth, sum(shares[-tenth:]) / tenth),
        made_with=made_with,
    )  # fmt: skip
    write_atomically(kept, msgspec.json.format(msgspec.json.encode(result), indent=1))
    return result


def _scores(policy: Any, settings: TrainSettings, limit: int | None) -> dict[str, float]:
    return {
        f"{name}, {way}": evaluate(policy, settings, tasks, temperature, limit).success
        for name, tasks in _SETS.items()
        for way, temperature in _TEMPERATURES.items()
    }


def evaluate(policy: Any, settings: TrainSettings, tasks: str, temperature: float, limit: int | None) -> Evaluation:
    """A policy on a set of tasks, with the limits of the settings."""
    return evaluate_policy(
        policy, load_tasks(tasks)[:limit], settings.seed, temperature=temperature, slots=settings.slots,
        max_message=settings.max_message, max_turn=settings.max_turn, max_messages=settings.max_messages,
        max_episode=settings.max_episode, environment_options=settings.environment_options,
    )  # fmt: skip


def failures(results: Sequence[Result]) -> list[str]:
    """What does not hold, a sentence each."""
    return [
        f"seed {one.seed}: held-out success rose by {one.gain:.1f} points; at least {TARGET:.0f} are wanted."
        for one in results
        if one.gain < TARGET
    ]


def figures(results: Sequence[Result]) -> dict[str, float]:
    """All figures, flat."""
    flat: dict[str, float] = {}
    for one in results:
        flat[f"seed_{one.seed}/gain_points"] = one.gain
        flat[f"seed_{one.seed}/train_s"] = one.train_s
        flat[f"seed_{one.seed}/zero_variance_first"], flat[f"seed_{one.seed}/zero_variance_last"] = one.zero_variance
        for when, scores in (("before", one.before), ("after", one.after)):
            flat.update({f"seed_{one.seed}/{when}/{name.replace(', ', '/')}": value for name, value in scores.items()})
    return flat


def table(results: Sequence[Result]) -> str:
    """The results as a Markdown table."""
    n = TINY_SETS["tiny:heldout"]
    lines = [
        f"| seed | held-out ({n:,} long tasks), sampled | greedy | short tasks, sampled | minutes |"
        " groups without variance, first → last tenth |",
        "|---|---|---|---|---|---|",
    ]
    for one in results:
        cells = [
            f"{one.before[name]:.3f} → {one.after[name]:.3f}"
            for name in ("heldout, sampled", "heldout, greedy", "short, sampled")
        ]
        cells[0] += f" (**{one.gain:+.1f}** points)"
        first, last = one.zero_variance
        lines.append(f"| {one.seed} | {' | '.join(cells)} | {one.train_s / 60:.1f} | {first:.2f} → {last:.2f} |")
    return "\n".join(lines)
