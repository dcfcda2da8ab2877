"""The grid of cells in a run folder: which are wanted, which are kept, and how the others are trained."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rods_env.benchmarks.curricula.arms import FIXED, base_of, order_of
from rods_env.benchmarks.curricula.cells import Cell, Spec, read_cell, write_cell
from rods_env.benchmarks.curricula.learners import Learner
from rods_env.benchmarks.curricula.workers import Event, cores, train_all
from rods_env.errors import RodsError
from rods_env.tasks.task import write_atomically

ARCHIVE = "cells.jsonl.gz"


class Grid:
    """Cells that are wanted, in a folder that keeps those that are done.

    A finished cell is `cells/NAME.json`. `pack` moves all of them into one archive, `cells.jsonl.gz`, small enough for
    a repository; both are read.

    Args:
        folder: of the run; made when the first cell is kept.
        specs: of the cells.

    Raises:
        RodsError: if two cells have one name, or arms are to match the tokens of `fixed` without it.
    """

    def __init__(self, folder: Path, specs: Sequence[Spec]) -> None:
        self.folder = folder
        self.specs = sorted(specs, key=order_of)
        names = [spec.name for spec in specs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise RodsError(f"the cell {twice} is asked for twice: name every arm, seed and number of seeds once.")
        blocks = {(spec.seed_count, spec.seed) for spec in specs if spec.match == "tokens"}
        if missing := blocks - {(spec.seed_count, spec.seed) for spec in specs if spec.arm == FIXED}:
            raise RodsError(f"--match tokens needs the arm {FIXED!r}, whose tokens the others match; "
                            f"seed {min(missing)[1]} is without it.")  # fmt: skip

    def kept(self) -> dict[str, Cell]:
        """The wanted cells that are done, by name, in the order of the grid.

        Raises:
            RodsError: if a kept cell is not the one that is wanted, or cannot be read.
        """
        packed = _unpack(self.folder)
        found = {}
        for spec in self.specs:
            cell = _read(self.folder, spec.name) or packed.get(spec.name)
            if cell is not None:
                _check_same(cell.spec, spec, self.folder)
                found[spec.name] = cell
        return found

    def run(
        self,
        learner: Learner,
        *,
        processes: int | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> list[Cell]:
        """Trains what is missing, and returns all cells in the order of the grid.

        The cells of one seed and one number of seeds go to one worker, `fixed` first, so that its warm-up and
        held-out sets are made once.

        Args:
            learner: trains a cell, in a worker.
            processes: how many workers; None: one for each core that this process may use.
            on_event: told what happens; an exception that it raises stops the grid.

        Raises:
            RodsError: if a cell fails; those running are finished and kept first.
        """
        kept = self.kept()
        blocks: dict[tuple[int, int], list[Spec]] = {}
        for spec in self.specs:
            if spec.name not in kept:
                blocks.setdefault((spec.seed_count, spec.seed), []).append(spec)
        if blocks:
            (self.folder / "cells").mkdir(parents=True, exist_ok=True)
            train_all(
                list(blocks.values()), learner, self.folder, processes=cores() if processes is None else processes,
                done=len(kept), total=len(self.specs), on_event=on_event,
            )  # fmt: skip
        return list(self.kept().values())

    def pack(self) -> Path:
        """Moves every finished cell of the folder, wanted or not, into the archive; equal cells give equal bytes.

        Raises:
            RodsError: if there is none.
        """
        loose = sorted((self.folder / "cells").glob("*.json"))
        cells = sorted(all_cells(self.folder), key=lambda cell: cell.spec.name)
        if not cells:
            raise RodsError(f"{self.folder} has no finished cell to pack.")
        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
            for cell in cells:
                file.write(write_cell(cell) + b"\n")
        write_atomically(self.folder / ARCHIVE, buffer.getvalue())
        for path in loose:  # only now: whenever it is stopped, every cell stands in one of the two places
            path.unlink()
        return self.folder / ARCHIVE


def make_specs(
    arms: Sequence[str],
    seeds: Sequence[int],
    seed_counts: Sequence[int],
    *,
    policy: str,
    tasks: str,
    rollouts: int,
    match: str = "rollouts",
    settings: str = "{}",
) -> list[Spec]:
    """All combinations of arms, seeds and numbers of seeds.

    Raises:
        RodsError: for an unknown arm, or if one of them is empty.
    """
    for name, values in (("arm", arms), ("seed", seeds), ("number of seeds", seed_counts)):
        if not values:
            raise RodsError(f"expected at least one {name}; got none.")
    for arm in arms:
        base_of(arm)
    return [
        Spec(policy, tasks, count, arm, seed, rollouts, match, settings)
        for count in dict.fromkeys(seed_counts)
        for seed in dict.fromkeys(seeds)
        for arm in dict.fromkeys(arms)
    ]


def kept_cell(folder: Path, spec: Spec) -> Cell | None:
    """A finished cell of a run folder, or None; for learners that need what `fixed` did.

    Raises:
        RodsError: if it was made otherwise than the spec says, or cannot be read.
    """
    cell = _read(folder, spec.name) or _unpack(folder).get(spec.name)
    if cell is not None:
        _check_same(cell.spec, spec, folder)
    return cell


def all_cells(folder: Path) -> list[Cell]:
    """Every finished cell of a folder, in the order of a grid.

    Raises:
        RodsError: if one cannot be read.
    """
    cells = _unpack(folder)
    for path in sorted((folder / "cells").glob("*.json")):
        cells[path.stem] = read_cell(path.read_bytes(), str(path))
    return sorted(cells.values(), key=lambda cell: order_of(cell.spec))


def _read(folder: Path, name: str) -> Cell | None:
    path = folder / "cells" / f"{name}.json"
    return read_cell(path.read_bytes(), str(path)) if path.exists() else None


def _unpack(folder: Path) -> dict[str, Cell]:
    """The cells of the archive by name; none without an archive."""
    path = folder / ARCHIVE
    if not path.exists():
        return {}
    try:
        lines = gzip.decompress(path.read_bytes()).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise RodsError(f"{path} cannot be read: {error}.") from None
    cells = [read_cell(line, f"{path}, line {number},") for number, line in enumerate(lines, 1)]
    return {cell.spec.name: cell for cell in cells}


def _check_same(kept: Spec, wanted: Spec, folder: Path) -> None:
    """Refuses a kept cell that was made otherwise: it would be reported as what it is not."""
    if kept == wanted:
        return
    fields = [name for name in wanted.__struct_fields__ if getattr(kept, name) != getattr(wanted, name)]
    differences = ", ".join(f"{name} {getattr(kept, name)} and not {getattr(wanted, name)}" for name in fields)
    raise RodsError(
        f"{folder} keeps the cell {wanted.name} made with {differences}: choose another folder with --run, or ask for "
        "what was made."
    )
