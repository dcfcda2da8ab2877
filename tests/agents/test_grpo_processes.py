"""Two processes train as one does: the first owns the curriculum, each plays its own half."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import grpo_tools as tools
import torch
from safetensors.torch import load_file


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        **os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", tools.__file__, str(run), str(tools.saved_policy()), "0", "fixed"]
    both = [
        subprocess.Popen(command, env={**shared, "RANK": rank, "LOCAL_RANK": rank}, stderr=subprocess.PIPE, text=True)
        for rank in ("0", "1")
    ]
    try:
        ends = [one.communicate(timeout=300)[1] for one in both]
    finally:
        for one in both:
            one.kill()
    assert [one.returncode for one in both] == [0, 0], "\n".join(ends)

    whole, rows = tools.straight()
    theirs = tools.agent(run, tools.saved_policy()).folder
    found = theirs.rows()
    assert [row["step"] for row in found] == [0, 1, 2, 3, 4]
    assert [step for step, _ in theirs.checkpoints()] == [1, 2, 3, 4]
    # The first step plays with equal weights: the same groups, the same episodes, the same update but for rounding.
    same = ("heldout_success", "return_mean", "success_mean", "tokens", "episodes", "curriculum/mean_return")
    for mine, other in zip(found[:2], rows[:2], strict=True):
        assert {key: mine[key] for key in same if key in mine} == {key: other[key] for key in same if key in other}
    assert abs(found[1]["grad_norm"] - rows[1]["grad_norm"]) < 1e-4
    name = "policy/model.safetensors"
    one, other = (load_file(folder.checkpoint(1) / name) for folder in (theirs, whole.folder))
    assert all(torch.allclose(one[key], other[key], atol=1e-4) for key in one)
    assert found[-1]["curriculum/groups_total"] == 16
