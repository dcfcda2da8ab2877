"""The folder of a training run: its configuration, the rows of its metrics, its checkpoints. Whole, or not there.

    config.json          all settings, versions of the packages, and which tasks it is about
    metrics.jsonl        one JSON object for each step
    evaluations/         every evaluation on the held-out tasks, episode by episode
    checkpoints/step-000025/
                         what training goes on from; `policy/` in it is the policy
    reference/           the policy that the run began with, where the KL divergence to it needs one
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rods_env.errors import RodsError
from rods_env.tasks.task import write_atomically

_LOG = logging.getLogger(__name__)
_STEP = re.compile(r"step-(\d{6,})")
# What a run may go on with a changed value of: nothing that was learned or drawn depends on it.
MAY_CHANGE = ("steps", "device", "slots", "eval_every", "save_every", "keep", "threads", "report_to")


class RunFolder:
    """A run folder.

    Args:
        path: of the folder; it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints_folder = self.path / "checkpoints"
        self.evaluations_folder = self.path / "evaluations"
        self.reference = self.path / "reference"

    # ------------------------------------------------------------------ configuration

    def begin(self, config: Mapping[str, Any]) -> None:
        """Makes the folder for a new run and writes its configuration.

        Args:
            config: `settings` and whatever else identifies the run, as plain JSON data.

        Raises:
            RodsError: if a run was begun there already, or the folder cannot be made.
        """
        if self.metrics_file.exists() or self.checkpoints():
            raise RodsError(
                f"{self.path} holds a run already: go on with it (--resume {self.path}), or give another folder."
            )
        try:
            for folder in (self.path, self.checkpoints_folder, self.evaluations_folder):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RodsError(f"cannot make the run folder {self.path}: {error.strerror}.") from None
        write_atomically(self.config_file, msgspec.json.format(msgspec.json.encode(config), indent=1) + b"\n")

    def config(self) -> dict[str, Any]:
        """The configuration of the run.

        Raises:
            RodsError: if there is none that can be read.
        """
        try:
            found = msgspec.json.decode(self.config_file.read_bytes())
        except OSError as error:
            raise RodsError(
                f"{self.path} is no run folder: config.json cannot be read ({error.strerror}); name the folder that "
                "`rods-env train` made."
            ) from None
        except msgspec.DecodeError as error:
            raise RodsError(f"{self.config_file} is broken: {error}.") from None
        if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
            raise RodsError(f"{self.config_file} is no configuration of a run: expected a table `settings` in it.")
        return found

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuses to go on with another configuration.

        Raises:
            RodsError: names the first setting that differs.
        """
        theirs, mine = self.config(), dict(config)
        for name in dict.fromkeys([*theirs["settings"], *mine["settings"]]):
            if name not in MAY_CHANGE:
                _compare(self.path, name, theirs["settings"].get(name), mine["settings"].get(name))
        for name in mine:
            if name not in ("settings", "versions", "preset"):
                _compare(self.path, name, theirs.get(name), mine[name])
        versions, now = theirs.get("versions", {}), mine.get("versions", {})
        other = [f"{name} {versions.get(name)} → {now[name]}" for name in now if versions.get(name) != now[name]]
        if other:
            _LOG.warning("going on with other versions: %s; results may differ in the last digits", ", ".join(other))

    # ------------------------------------------------------------------ metrics

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row.

        Raises:
            RodsError: if it cannot be written.
        """
        try:
            with open(self.metrics_file, "ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")
        except OSError as error:
            raise RodsError(
                f"cannot write {self.metrics_file}: {error.strerror}; make room, then go on from the last checkpoint "
                f"(--resume {self.path})."
            ) from None

    def rows(self) -> list[dict[str, Any]]:
        """All rows; a last line that was not written to its end is left out."""
        if not self.metrics_file.exists():
            return []
        *lines, _ = self.metrics_file.read_bytes().split(b"\n")
        return [msgspec.json.decode(line) for line in lines]

    def cut(self, step: int) -> None:
        """Drops the rows after a step; they will be written again."""
        kept = [row for row in self.rows() if row["step"] <= step]
        if self.metrics_file.exists():
            write_atomically(self.metrics_file, b"".join(msgspec.json.encode(row) + b"\n" for row in kept))

    def evaluation(self, step: int) -> Path:
        """Where the evaluation after a step stands, if there was one."""
        return self.evaluations_folder / f"step-{step:06d}.json"

    # ------------------------------------------------------------------ checkpoints

    def checkpoints(self) -> list[tuple[int, Path]]:
        """The whole checkpoints with their steps, the oldest first."""
        if not self.checkpoints_folder.is_dir():
            return []
        found = [(_STEP.fullmatch(place.name), place) for place in self.checkpoints_folder.iterdir()]
        return sorted((int(match[1]), place) for match, place in found if match and place.is_dir())

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step stands, if it does."""
        return self.checkpoints_folder / f"step-{step:06d}"

    def unfinished(self, step: int) -> Path:
        """Where the checkpoint of a step is written, before `finish`. (transformers chooses the name.)"""
        return self.path / f"checkpoint-{step}"

    def finish(self, step: int) -> Path:
        """Gives a checkpoint that is whole its place, in one move."""
        place = self.checkpoint(step)
        if place.exists():  # of a run that went on from an earlier one
            shutil.rmtree(place)
        os.rename(self.unfinished(step), place)
        return place

    def prune(self, keep: int) -> None:
        """Removes all but the newest checkpoints."""
        for _, place in self.checkpoints()[:-keep]:
            doomed = place.with_name(f".{place.name}")  # a half removed one must not look whole
            os.rename(place, doomed)
            shutil.rmtree(doomed)

    def clean(self) -> None:
        """Removes what was being written or removed when a run ended."""
        names = ("checkpoint-*", ".config.json.*", ".metrics.jsonl.*", ".reference.tmp")
        doomed = [place for name in names for place in self.path.glob(name)]
        doomed += [*self.checkpoints_folder.glob(".step-*"), *self.evaluations_folder.glob(".step-*")]
        for place in doomed:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()


def share_files(whole: Path, part: Path) -> None:
    """Replaces files of a folder by those of the same name and size in a folder in it: written twice, stored once."""
    for file in part.iterdir():
        twin = whole / file.name
        if file.suffix in (".safetensors", ".bin") and twin.is_file() and twin.stat().st_size == file.stat().st_size:
            spare = whole / f".{file.name}"
            try:
                os.link(file, spare)
            except OSError:  # a file system without links keeps both
                return
            os.replace(spare, twin)


def _compare(path: Path, name: str, theirs: Any, mine: Any) -> None:
    # Tuples and lists are the same in JSON.
    if msgspec.json.encode(theirs) != msgspec.json.encode(mine):
        raise RodsError(
            f"the run in {path} was made with {name} = {theirs!r}, not {mine!r}: go on with its own settings, or begin "
            "a new run in another folder."
        )
