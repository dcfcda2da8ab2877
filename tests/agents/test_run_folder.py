"""`RunFolder`: nothing half written is taken for whole, and nothing that exists is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rods_env.agents.run_folder import RunFolder, share_files
from rods_env.errors import RodsError

CONFIG: dict = {
    "settings": {"steps": 4, "learning_rate": 0.1, "report_to": []}, "versions": {"torch": "2"}, "tasks": {"n": 3}
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "one")
    made.begin(CONFIG)
    return made


def test_a_folder_that_holds_a_run_is_not_begun_again(folder: RunFolder) -> None:
    folder.begin(CONFIG)  # nothing has happened there yet
    folder.append({"step": 0})
    before = folder.metrics_file.read_bytes()
    with pytest.raises(RodsError, match=r"holds a run already: go on with it \(--resume .*one\)"):
        folder.begin(CONFIG)
    assert folder.metrics_file.read_bytes() == before


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RodsError, match="cannot make the run folder"):
        RunFolder(tmp_path / "file" / "run").begin(CONFIG)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"settings": {**CONFIG["settings"], "learning_rate": 0.2}}, "made with learning_rate = 0.1, not 0.2"),
        ({"tasks": {"n": 4}}, r"made with tasks = \{'n': 3\}, not \{'n': 4\}"),
        ({"settings": {**CONFIG["settings"], "more": 1}}, "made with more = None, not 1"),
    ],
)
def test_another_configuration_is_refused_by_name(folder: RunFolder, changed: dict, message: str) -> None:
    with pytest.raises(RodsError, match=message):
        folder.check({**CONFIG, **changed})


def test_what_may_change(folder: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    folder.check({**CONFIG, "settings": {**CONFIG["settings"], "steps": 9, "report_to": ("wandb",)}})
    assert not caplog.records
    folder.check({**CONFIG, "versions": {"torch": "3"}})
    assert "torch 2 → 3" in caplog.text


@pytest.mark.parametrize(("content", "message"), [(None, "is no run folder"), ("{", "is broken"), ("[]", "no config")])
def test_a_configuration_that_cannot_be_read(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(RodsError, match=message):
        RunFolder(tmp_path).config()


def test_rows_are_cut_after_a_step_and_a_torn_line_is_left_out(folder: RunFolder) -> None:
    for step in range(4):
        folder.append({"step": step, "loss": step / 3})
    with open(folder.metrics_file, "ab") as file:
        file.write(b'{"step": 4, "lo')
    assert [row["step"] for row in folder.rows()] == [0, 1, 2, 3]
    folder.cut(2)
    folder.append({"step": 3})
    assert [json.loads(line)["step"] for line in folder.metrics_file.read_text().splitlines()] == [0, 1, 2, 3]


def test_rows_that_cannot_be_written(folder: RunFolder) -> None:
    folder.metrics_file.mkdir()
    with pytest.raises(RodsError, match=r"cannot write .*metrics\.jsonl"):
        folder.append({"step": 0})


def test_only_whole_checkpoints_count_and_remains_are_removed(folder: RunFolder) -> None:
    for step in (25, 50, 1_000_000):
        folder.unfinished(step).mkdir()
        (folder.unfinished(step) / "weights").write_text(str(step))
        folder.finish(step)
    folder.unfinished(75).mkdir()
    (folder.checkpoints_folder / ".step-000010").mkdir()
    (folder.path / ".metrics.jsonl.abc").write_text("half")
    assert [step for step, _ in folder.checkpoints()] == [25, 50, 1_000_000]
    folder.clean()
    assert sorted(place.name for place in folder.path.iterdir()) == ["checkpoints", "config.json", "evaluations"]
    folder.prune(2)
    assert [place.name for place in folder.checkpoints_folder.iterdir() if place.name[0] == "."] == []
    assert [step for step, _ in folder.checkpoints()] == [50, 1_000_000]


def test_a_checkpoint_replaces_an_older_one_of_its_step(folder: RunFolder) -> None:
    for text in ("old", "new"):
        folder.unfinished(3).mkdir()
        (folder.unfinished(3) / "weights").write_text(text)
        folder.finish(3)
    assert (folder.checkpoint(3) / "weights").read_text() == "new"


def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    part = tmp_path / "policy"
    part.mkdir()
    for place in (tmp_path, part):
        (place / "model.safetensors").write_bytes(b"weights")
        (place / "config.json").write_bytes(b"{}")
    share_files(tmp_path, part)
    assert (tmp_path / "model.safetensors").read_bytes() == b"weights"
    assert (tmp_path / "model.safetensors").stat().st_ino == (part / "model.safetensors").stat().st_ino
