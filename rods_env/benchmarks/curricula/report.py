"""The report of a grid: `results.json`, `table.md` and pictures, from its cells alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rods_env.benchmarks.curricula.cells import Cell
from rods_env.benchmarks.curricula.statistics import Interval
from rods_env.benchmarks.curricula.summary import Results, summarize
from rods_env.benchmarks.curricula.tables import tables
from rods_env.tasks.task import write_atomically

_DIGITS = 6


def write_report(folder: Path, cells: Sequence[Cell], results: Results) -> list[Path]:
    """Writes `results.json`, `table.md` and the pictures into a folder; returns their paths.

    Raises:
        RodsError: if matplotlib is not installed, or the folder cannot be written.
    """
    from rods_env.benchmarks.curricula.plots import draw

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "results.json", to_json(results))
    write_atomically(folder / "table.md", tables(results).encode())
    return [folder / "results.json", folder / "table.md", *draw(folder, cells, results)]


def to_json(results: Results) -> bytes:
    """`results.json`: sorted keys, rounded numbers; only what is below the key "seconds" differs from run to run."""
    rounded = _rounded(msgspec.to_builtins(results, str_keys=True))
    return msgspec.json.format(msgspec.json.encode(rounded, order="sorted"), indent=1) + b"\n"


def figures(cells: Sequence[Cell], target: float | None = None) -> dict[str, float]:
    """The results flat, such as "400/rods/seen/final_success_low"."""
    return flat(summarize(cells, target))


def flat(results: Results) -> dict[str, float]:
    """Results as flat figures with units; what does not exist, such as a frontier without a pool, is left out."""
    found: dict[str, float | None] = {}
    for count, part in results.parts.items():
        for name, arm in part.arms.items():
            here = f"{count}/{name}"
            for one, on in arm.sets.items():
                found.update(_ends(f"{here}/{one}/final_success", on.final))
                found.update(_ends(f"{here}/{one}/final_success_iqm", on.iqm))
                found.update(_ends(f"{here}/{one}/mean_success", on.area))
                found[f"{here}/{one}/first_success"] = on.first
                found[f"{here}/{one}/best_success"] = on.best
                found[f"{here}/{one}/final_progress"] = on.progress
            for key in ("rollouts", "updates", "tokens", "distinct_tasks", "zero_variance_share", "inside_variance",
                        "outside_variance", "inside_share", "variance_ratio"):  # fmt: skip
                found[f"{here}/{key}"] = getattr(arm, key)
            found |= {f"{here}/last/{key}": value for key, value in arm.groups.items()}
            found |= {f"{here}/injected/{key}": float(value) for key, value in arm.injected.items()}
            found |= {f"{here}/{key}_s": value for key, value in results.seconds[count][name].items()}
        for c in part.comparisons:
            here = f"{count}/{c.arm}_minus_{c.baseline}/{c.set}"
            found |= _ends(f"{here}/final_success", c.final) | _ends(f"{here}/mean_success", c.area)
            found[f"{here}/improvement_probability"] = c.improvement
    return {name: round(float(value), _DIGITS) for name, value in found.items() if value is not None}


def _ends(name: str, found: Interval) -> dict[str, float]:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
