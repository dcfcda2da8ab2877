"""`GrpoAgent`: what a run writes, that TRL's loss is left as it is, and what settings change."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import grpo_tools as tools
import pytest
import torch
from trl import GRPOTrainer

from rods_env.agents.group_trainer import GroupTrainer, columns, micro_batch
from rods_env.agents.policy import load_policy
from rods_env.agents.policy_evaluation import evaluate_policy, evaluation_of_episodes, read_evaluation
from rods_env.agents.rollout import Rollout
from rods_env.agents.run_setup import use_threads
from rods_env.errors import RodsError

KEYS = {
    "step", "return_mean", "success_mean", "zero_variance_share", "frontier_share", "tokens", "tokens_per_s", "seconds",
    "generate_s", "environment_s", "train_s", "loss", "grad_norm", "entropy", "learning_rate", "crashed",
    "curriculum/mean_return",
}  # fmt: skip


# ---------------------------------------------------------------------- a run


def test_the_rows_of_a_run() -> None:
    one, rows = tools.straight()
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert one.folder.rows() == rows
    assert all(json.loads(line) for line in one.folder.metrics_file.read_text().splitlines())
    assert [row["step"] for row in rows if "heldout_success" in row] == [0, 2, 4]
    for row in rows[1:]:
        assert row.keys() >= KEYS
        assert all(math.isfinite(value) for value in row.values())
        ends = sum(value for key, value in row.items() if key.startswith("termination/"))
        assert ends == pytest.approx(1)
        assert row["generate_s"] + row["environment_s"] + row["train_s"] <= row["seconds"] - row["evaluate_s"] + 1e-6
    assert any(row["return_mean"] > 0 and row["grad_norm"] > 0 for row in rows[1:])


def test_the_curriculum_hears_of_every_group_of_its_step() -> None:
    one, rows = tools.straight()
    assert one.curriculum is not None
    assert one.curriculum.metrics()["groups_total"] == 16
    assert one.curriculum.metrics()["open_groups"] == 0
    assert [row["curriculum/groups_total"] for row in rows[1:]] == [4, 8, 12, 16]  # nothing is asked for ahead
    mean = sum(row["return_mean"] for row in rows[1:]) / 4
    assert one.curriculum.metrics()["mean_return_overall"] == pytest.approx(mean)


def test_a_run_ends_when_it_is_done_and_tells_of_its_evaluations(tmp_path: Path) -> None:
    straight, rows = tools.straight()
    one = tools.agent(tmp_path / "run", tools.saved_policy())
    told: list[tuple[int, float]] = []
    last = one.train(
        on_evaluation=lambda step, evaluation: told.append((step, evaluation.success)), done=lambda: one.step == 1
    )
    assert one.step == 1
    assert [step for step, _ in told] == [0, 1]  # the last step is evaluated, whatever `eval_every` says
    assert last is not None
    assert straight.before is not None
    assert told[0][1] == straight.before.success
    assert told[1][1] == last.success
    assert tools.timeless(one.folder.rows())[1]["loss"] == rows[1]["loss"]
    assert [step for step, _ in one.folder.checkpoints()] == [1]


def test_a_known_evaluation_before_training_is_not_played_again(tmp_path: Path) -> None:
    straight, rows = tools.straight()
    one = tools.agent(tmp_path / "run", tools.saved_policy())
    play, played = one.evaluate, []
    one.evaluate = lambda: played.append(one.step) or play()  # type: ignore[method-assign, func-returns-value]
    told: list[int] = []
    one.train(before=straight.before, on_evaluation=lambda step, _: told.append(step))
    assert played == told[1:]
    assert told[0] == 0
    assert one.before == straight.before == read_evaluation(one.folder.evaluation(0))
    assert tools.timeless(one.folder.rows()) == tools.timeless(rows)


def test_training_changes_the_policy_and_its_checkpoint_is_the_policy() -> None:
    one, _ = tools.straight()
    trained, before = tools.weights(one), load_policy(tools.saved_policy(), device="cpu").model.state_dict()
    assert any(not torch.equal(trained[name], before[name]) for name in trained)
    again = load_policy(one.folder.checkpoint(4) / "policy", device="cpu")
    ids = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(again.model(input_ids=ids).logits, one.policy.model(input_ids=ids).logits)
    assert not one.policy.model.training


def test_evaluations_are_those_of_the_policy() -> None:
    one, rows = tools.straight()
    assert one.before is not None
    assert one.latest is not None
    assert one.before.success == rows[0]["heldout_success"] == read_evaluation(one.folder.evaluation(0)).success
    assert one.latest == read_evaluation(one.folder.evaluation(4)) == one.evaluate()
    s = one.settings
    alone = evaluate_policy(
        load_policy(one.folder.checkpoint(4) / "policy", device="cpu"), tools.tasks(), s.seed, temperature=1.0, slots=3,
        max_message=s.max_message, max_turn=s.max_turn, max_messages=s.max_messages, max_episode=s.max_episode,
    )  # fmt: skip
    assert alone == one.latest


def test_evaluating_nothing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(RodsError, match="at least one task"):
        evaluation_of_episodes([])
    assert evaluation_of_episodes([None]).crashed == 1
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(RodsError, match="no saved evaluation"):
        read_evaluation(tmp_path / "x.json")


def test_an_environment_that_crashes_costs_its_episodes_only(tmp_path: Path) -> None:
    one = tools.agent(tmp_path / "run", tools.saved_policy(), steps=2, heldout=0)
    poison = tools.tasks()[0].id
    real = one.player.engine._make_env

    def make(task: Any) -> Any:
        env = real(task)
        step = env.unwrapped.step

        def crashing(action: Any) -> Any:
            if env.unwrapped.task.id == poison:
                raise RuntimeError("broken")
            return step(action)

        env.unwrapped.step = crashing  # type: ignore[method-assign]
        return env

    one.player.engine._make_env = make
    one.train()
    rows = one.folder.rows()
    assert [row["crashed"] for row in rows] == [4, 4]
    assert all(row["return_mean"] > 0 and math.isfinite(row["loss"]) for row in rows)
    assert one.curriculum is not None
    assert one.curriculum.metrics()["groups_total"] == 6


# ---------------------------------------------------------------------- what TRL is given


def rollout(ids: list[int], mask: list[int], prompt: int, value: float | None = 1.0) -> Rollout:
    return Rollout(tools.tasks()[0], 0, ids, mask, [0.0] * len(ids), prompt, value, False, "completed", 1, [], 0.0)


def test_columns_keep_every_id_and_mask() -> None:
    some = [
        rollout([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 0], 3),
        rollout([1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 0, 1, 1], 5),
        rollout([1, 2, 3, 4], [0, 0, 0, 0], 4, 0.0),  # nothing was said
        rollout([], [], 0, None),  # the environment did not even begin
        rollout([7], [0], 1, None),
    ]
    made = columns(some, 9)
    for one, prompt, said, mask in zip(some, made["prompt_ids"], made["completion_ids"], made["env_mask"], strict=True):
        assert prompt
        assert len(said) == len(mask) > 0
        assert (prompt + said)[: len(one.ids)] == one.ids
        assert ([0] * len(prompt) + mask)[: len(one.mask)] == one.mask
        assert sum(mask) == sum(one.mask)
    assert made["episode_return"] == [1.0, 1.0, 0.0, None, None]


@pytest.mark.parametrize("credit", ["episode", "turn"])
@pytest.mark.parametrize(
    ("loss", "beta"), [("dapo", 0.0), ("dapo", 0.05), ("grpo", 0.0), ("dr_grpo", 0.0), ("bnpo", 0.0)]
)
def test_loss_and_gradient_are_those_of_trl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str, beta: float, credit: str
) -> None:
    one = tools.agent(
        tmp_path / "run", tools.saved_policy(), steps=1, heldout=0, loss=loss, beta=beta, micro_batch=16, credit=credit
    )
    seen = []
    monkeypatch.setattr("rods_env.agents.group_trainer._PART", 512)

    def compare(self: GroupTrainer, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if credit == "turn":  # tasks of one turn have advantages up to their end: as if the last turns had agreed
            inputs["advantages"][:, inputs["advantages"].shape[1] // 2 :] = 0
        found = []
        for compute in (real, GRPOTrainer.compute_loss):
            value = compute(self, model, inputs, *args, **kwargs)
            value.backward()
            found.append((float(value.detach()), [p.grad.clone() for p in model.parameters()]))
            model.zero_grad()
        seen.append((found, self._parts(inputs), inputs))
        return real(self, model, inputs, *args, **kwargs)

    real = GroupTrainer.compute_loss
    monkeypatch.setattr(GroupTrainer, "compute_loss", compare)
    one.train()
    ((mine, theirs), parts, inputs) = seen[0]
    assert inputs["advantages"].count_nonzero() > 0
    assert mine[0] == pytest.approx(theirs[0], abs=1e-5)
    assert any(grad.abs().max() > 0 for grad in theirs[1])
    for a, b in zip(mine[1], theirs[1], strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert (len(parts) > 1) == (loss == "dapo")
    if credit == "turn":  # nothing behind the last advantage is computed, where that is exact
        assert any(bool((part["advantages"] == 0).all(0)[-1]) for part in parts) == (loss != "dapo" or beta > 0)


def test_credit_by_turn_is_grpo_where_tasks_have_one_turn(tmp_path: Path) -> None:
    made = []
    for credit in ("episode", "turn"):
        one = tools.agent(tmp_path / credit, tools.saved_policy(), steps=1, heldout=0, credit=credit)
        one.train()
        made.append((one.folder.rows()[0], tools.weights(one)))
    (plain, theirs), (by_turn, mine) = made
    assert plain["grad_norm"] > 0
    assert by_turn["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-3)
    assert all(torch.allclose(value, theirs[name], atol=1e-4) for name, value in mine.items())


def test_the_size_of_passes_changes_nothing(tmp_path: Path) -> None:
    made = []
    for micro in (1, 16):
        one = tools.agent(tmp_path / str(micro), tools.saved_policy(), steps=1, heldout=0, micro_batch=micro, seed=3)
        one.train()
        made.append((one.folder.rows()[0], tools.weights(one)))
    (small, mine), (large, theirs) = made
    assert 0 < small["zero_variance_share"] < 1  # some passes hold an episode without an advantage
    assert small["grad_norm"] == pytest.approx(large["grad_norm"], rel=1e-4)
    assert small["return_mean"] == large["return_mean"]
    assert all(torch.allclose(value, theirs[name], atol=1e-4) for name, value in mine.items())


@pytest.mark.parametrize("credit", ["episode", "turn"])
def test_reading_sampled_tokens_only_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, credit: str
) -> None:
    real, made = GroupTrainer._sampled, []
    for name in ("sampled", "all"):
        one = tools.agent(tmp_path / name, tools.saved_policy(), steps=1, heldout=0, credit=credit, temperature=0.9)
        used: list[bool] = []

        def sampled(self: GroupTrainer, part: dict[str, Any], name: str = name, used: list[bool] = used) -> Any:
            used.append(real(self, part) is not None)
            return real(self, part) if name == "sampled" else None

        monkeypatch.setattr(GroupTrainer, "_sampled", sampled)
        one.train()
        assert used
        assert all(used)
        made.append((one.folder.rows()[0], tools.weights(one)))
    (some, mine), (every, theirs) = made
    assert every["grad_norm"] > 0
    for figure in ("loss", "grad_norm", "entropy"):
        assert some[figure] == pytest.approx(every[figure], rel=1e-4, abs=1e-7)
    assert all(torch.allclose(value, theirs[name], atol=1e-4) for name, value in mine.items())


def test_trl_scores_what_was_sampled_as_it_was_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tools.agent(tmp_path / "run", tools.saved_policy(), steps=1, heldout=0, temperature=0.8, micro_batch=16)
    rollouts: list[Rollout] = []
    play = one.player.play
    monkeypatch.setattr(one.player, "play", lambda: rollouts.extend(play()) or rollouts)
    compared = []

    def compare(self: GroupTrainer, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        logs, *_ = self._get_per_token_logps_and_entropies(model, ids, mask, inputs["completion_ids"].shape[1])
        known = {tuple(one.ids): one for one in rollouts}
        start = inputs["prompt_ids"].shape[1]
        for row in range(len(ids)):
            played = known[tuple(ids[row][mask[row] == 1].tolist())]
            for at, said in enumerate(played.mask):
                if said:
                    compared.append(abs(float(logs[row, at - start].detach()) - played.logprobs[at]))
        return real(self, model, inputs, *args, **kwargs)

    real = GroupTrainer.compute_loss
    monkeypatch.setattr(GroupTrainer, "compute_loss", compare)
    one.train()
    assert len(compared) == sum(sum(played.mask) for played in rollouts) > 50
    assert max(compared) <= 1e-4


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "luspo", "scale_rewards": "none", "epsilon_high": 0.28},
        {"scale_rewards": "batch", "updates": 2, "gradient_checkpointing": True},
        {"dtype": "bfloat16"},
        {"lora_rank": 4, "beta": 0.1},
        {"beta": 0.1, "schedule": "cosine", "warmup_steps": 1, "steps": 3},
        {"curriculum": "dapo", "group_size": 3, "groups_per_step": 3, "micro_batch": 4, "slots": 2},
    ],
    ids=lambda changes: ",".join(changes),
)  # fmt: skip
def test_a_step_with_other_settings(tmp_path: Path, changes: dict[str, Any]) -> None:
    one = tools.agent(tmp_path / "run", tools.saved_policy(), heldout=2, **{"steps": 2, **changes})
    before = tools.weights(one)
    one.train()
    rows = one.folder.rows()[1:]
    assert len(rows) == one.settings.steps
    assert all(math.isfinite(row["loss"]) for row in rows)
    after = {name: value for name, value in tools.weights(one).items() if ".ref." not in name}  # TRL's reference
    changed = [name for name in after if not torch.equal(after[name], before[name])]
    assert changed
    assert ("kl" in rows[0]) == (changes.get("beta", 0) > 0)
    if "kl" in rows[0]:
        assert abs(rows[0]["kl"]) < 1e-6 < rows[-1]["kl"]  # to the policy that the run began with
    if changes.get("lora_rank"):
        assert all("lora" in name for name in changed)
    if changes.get("dtype"):
        assert one._sampling.dtype == torch.bfloat16
        assert one.policy.model.dtype == torch.float32
        for mine, theirs in zip(one._sampling.parameters(), one.policy.model.parameters(), strict=True):
            assert mine.dtype == torch.bfloat16
            assert theirs.dtype == torch.float32
    if changes.get("updates"):
        assert rows[0]["tokens"] == rows[1]["tokens"]  # one set of rollouts, two updates


def test_the_kl_reference_stays_that_of_the_beginning(tmp_path: Path) -> None:
    straight = tools.agent(tmp_path / "straight", tools.saved_policy(), heldout=0, beta=0.1, steps=3)
    straight.train()
    tools.agent(tmp_path / "run", tools.saved_policy(), heldout=0, beta=0.1, steps=2).train()
    resumed = tools.agent(tmp_path / "run", tools.saved_policy(), heldout=0, beta=0.1, steps=3)
    resumed.train(resume=True)
    assert tools.timeless(resumed.folder.rows()) == tools.timeless(straight.folder.rows())
    theirs = tools.weights(straight)
    assert all(torch.equal(value, theirs[name]) for name, value in tools.weights(resumed).items())


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tools.agent(tmp_path / "run", tools.saved_policy(), heldout=0)
    real = GroupTrainer.compute_loss
    factor = {0: 1.0, 1: math.nan}
    monkeypatch.setattr(GroupTrainer, "compute_loss", lambda self, *a, **k: real(self, *a, **k) * factor[one.step])
    with pytest.raises(RodsError, match=r"the loss of step 2 is nan: try a lower learning_rate"):
        one.train()
    assert [step for step, _ in one.folder.checkpoints()] == [1]
    assert [row["step"] for row in one.folder.rows()] == [1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "zigzag"}, "the trainer refuses these settings: .*zigzag"),
        ({"report_to": ("nonsense",)}, "the trainer refuses these settings: .*nonsense"),
        ({"group_size": 1}, "group_size must be at least 2; got 1"),
        ({"curriculum_options": {"capacity": -1}}, "capacity"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RodsError, match=message):
        tools.agent(tmp_path / "run", tools.saved_policy(), heldout=0, steps=1, **changes).train()


def test_episodes_are_divided_evenly() -> None:
    assert micro_batch(tools.settings(micro_batch=5), 1) == 4
    assert micro_batch(tools.settings(micro_batch=99), 2) == 8
    with pytest.raises(RodsError, match=r"divisible by the number of processes; got 16 episodes and 3"):
        micro_batch(tools.settings(), 3)


def test_threads_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = tools.straight()
    seconds = {1: 3.0, 2: 1.0, 4: 2.0}
    monkeypatch.setattr("rods_env.agents.run_setup._seconds", lambda threads, model: seconds[threads])
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    try:
        assert use_threads(0, one.policy.model) == 2 == torch.get_num_threads()
        assert use_threads(3, one.policy.model) == 3 == torch.get_num_threads()
    finally:
        torch.set_num_threads(1)


def test_measuring_threads_leaves_the_model_as_it_was() -> None:
    model = load_policy(tools.saved_policy(), device="cpu").model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        assert use_threads(0, model) in (1, 2, 4, 8, 16, len(os.sched_getaffinity(0)))
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
