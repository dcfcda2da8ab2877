"""A run that was killed, stopped or could not save goes on exactly as it would have gone on."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import grpo_tools as tools
import pytest
import torch

from rods_env.agents import decoding
from rods_env.agents.grpo import GrpoAgent
from rods_env.errors import RodsError

CALLS = 110  # what `killed_at` counts in a run of four steps, about


def same_as_straight(one: GrpoAgent, curriculum: str = "fixed") -> None:
    """No row doubled or lacking, the same groups and rollouts, the same weights to the bit."""
    whole, rows = tools.straight(curriculum)
    assert tools.timeless(one.folder.rows()) == tools.timeless(rows)
    assert [row["step"] for row in one.folder.rows()] == [0, 1, 2, 3, 4]
    assert one.curriculum is not None
    assert whole.curriculum is not None
    assert one.curriculum.state_dict() == whole.curriculum.state_dict()
    assert one.player.state_dict() == whole.player.state_dict()
    theirs = tools.weights(whole)
    for name, value in tools.weights(one).items():
        assert torch.equal(value, theirs[name]), name
    assert one.folder.evaluation(4).read_bytes() == whole.folder.evaluation(4).read_bytes()


@pytest.mark.parametrize("curriculum", ["fixed", "frontier"])
def test_killed_at_a_random_moment(tmp_path: Path, curriculum: str) -> None:
    moment = random.SystemRandom().randrange(2, CALLS)
    run = tmp_path / "run"
    command = [sys.executable, "-W", "ignore", tools.__file__, run, tools.saved_policy(), str(moment), curriculum]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode in (-signal.SIGKILL, 0), f"{moment}: {ended.stderr}"
    again = tools.agent(run, tools.saved_policy(), curriculum=curriculum)
    again.train(resume=True)
    try:
        same_as_straight(again, curriculum)
    except AssertionError as error:
        raise AssertionError(f"killed at call {moment}: {error}") from error


def test_stopped_by_the_one_who_watches(tmp_path: Path) -> None:
    def stop(row: dict) -> None:
        if row["step"] == 2:
            raise KeyboardInterrupt

    first = tools.agent(tmp_path / "run", tools.saved_policy(), save_every=100)
    with pytest.raises(KeyboardInterrupt):
        first.train(on_row=stop)
    assert [step for step, _ in first.folder.checkpoints()] == [2]
    again = tools.agent(tmp_path / "run", tools.saved_policy(), save_every=100)
    again.train(resume=True)
    same_as_straight(again)


def test_ctrl_c_ends_the_step_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tools.agent(tmp_path / "run", tools.saved_policy(), save_every=100)
    real, seen = decoding.Sampler.generate, []

    def generate(self: decoding.Sampler, requests: list) -> list:
        if first.step == 1 and not seen:  # the second step plays
            seen.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, requests)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(decoding.Sampler, "generate", generate)
    with pytest.raises(KeyboardInterrupt):
        first.train()
    assert signal.getsignal(signal.SIGINT) is before
    assert [step for step, _ in first.folder.checkpoints()] == [2]
    again = tools.agent(tmp_path / "run", tools.saved_policy(), save_every=100)
    again.train(resume=True)
    same_as_straight(again)


def test_ctrl_c_twice_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tools.agent(tmp_path / "run", tools.saved_policy())
    real = decoding.Sampler.generate

    def generate(self: decoding.Sampler, requests: list) -> list:
        if first.step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, requests)

    monkeypatch.setattr(decoding.Sampler, "generate", generate)
    with pytest.raises(KeyboardInterrupt):
        first.train()
    assert [step for step, _ in first.folder.checkpoints()] == [1]


@pytest.mark.parametrize("place", ["torch", "agent"])
def test_a_full_disk_damages_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    first = tools.agent(tmp_path / "run", tools.saved_policy())
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def refuse(real):  # type: ignore[no-untyped-def]
        def write(*args, **kwargs):  # type: ignore[no-untyped-def]
            if first.step == 2:
                raise full
            return real(*args, **kwargs)

        return write

    with monkeypatch.context() as patch:
        if place == "torch":
            patch.setattr(torch, "save", refuse(torch.save))
        else:
            patch.setattr("rods_env.agents.run_folder.os.rename", refuse(os.rename))
        with pytest.raises(RodsError, match=r"No space left on device.*go on from the one before"):
            first.train()
    assert [step for step, _ in first.folder.checkpoints()] == [1]
    assert not list(first.folder.path.glob("checkpoint-*"))
    again = tools.agent(tmp_path / "run", tools.saved_policy())
    again.train(resume=True)
    same_as_straight(again)


def test_another_configuration_or_a_broken_checkpoint(tmp_path: Path) -> None:
    first = tools.agent(tmp_path / "run", tools.saved_policy(), steps=1, heldout=0)
    first.train()
    files = {path: path.read_bytes() for path in first.folder.path.rglob("*") if path.is_file()}
    with pytest.raises(RodsError, match=r"made with learning_rate = 0.001, not 0.002"):
        tools.agent(tmp_path / "run", tools.saved_policy(), steps=1, heldout=0, learning_rate=2e-3).train(resume=True)
    with pytest.raises(RodsError, match="made with heldout = "):
        tools.agent(tmp_path / "run", tools.saved_policy(), steps=1).train(resume=True)
    with pytest.raises(RodsError, match="holds a run already"):
        tools.agent(tmp_path / "run", tools.saved_policy(), steps=1, heldout=0).train()
    with pytest.raises(RodsError, match="is no run folder"):
        tools.agent(tmp_path / "other", tools.saved_policy()).train(resume=True)
    assert files == {path: path.read_bytes() for path in first.folder.path.rglob("*") if path.is_file()}
    state = first.folder.checkpoint(1) / "agent.json"
    state.write_text(json.dumps({"step": 1}))
    with pytest.raises(RodsError, match=r"cannot be read .*: remove it"):
        tools.agent(tmp_path / "run", tools.saved_policy(), steps=2, heldout=0).train(resume=True)
