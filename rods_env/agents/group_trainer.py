"""TRL's `GRPOTrainer`, configured for whole episodes: what it is told, and what it need not compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import is_peft_model
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from rods_env.agents.lean_states import states_of
from rods_env.agents.rollout import Rollout
from rods_env.agents.run_folder import RunFolder
from rods_env.agents.settings import TrainSettings
from rods_env.errors import RodsError

_PART = 4096  # tokens of a forward pass on a CPU, padding included: what stays in its caches [measured]


class GroupTrainer(GRPOTrainer):
    """The trainer, with its hooks for subclasses extended: `compute_loss`, `log`, and advantages token by token.

    Episodes differ in length, and many groups agree. TRL pads all to the longest of the step and computes a loss of
    zero for groups that agree. Here columns that hold padding only are cut off; episodes without an advantage, and what
    follows the last token that has one, are left out where their loss and gradient are exactly zero (figures such as
    the entropy are of what is left); episodes of like length are computed together; and on a CPU the output layer reads
    the sampled tokens only. Loss and gradient stay what they are.

    Attributes:
        further: figures that join the log of each step.
        credited: advantages of the step's completions, token by token; None leaves them to TRL.
    """

    further: Callable[[], dict[str, float]]
    credited: Callable[[], list[list[float]] | None]
    _said: torch.Tensor | None = None

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        parts = self._parts(inputs)
        if not parts:  # a gradient of zero, without a pass
            return sum(parameter.sum() for parameter in model.parameters() if parameter.requires_grad) * 0.0
        total = 0.0
        for part in parts:
            self._said = self._sampled(part)
            try:
                total += super().compute_loss(model, part, return_outputs, num_items_in_batch)
            finally:
                self._said = None
        return total

    def _sampled(self, part: dict[str, Any]) -> torch.Tensor | None:
        """Which of a part's completion tokens were sampled, where the loss may be computed from these alone."""
        on_cpu = part["completion_ids"].device.type == "cpu"  # elsewhere TRL's kernel does
        if not on_cpu or self.accelerator.num_processes > 1 or is_peft_model(self.model) or self.aux_loss_enabled:
            return None
        if not part["prompt_mask"].all() or "tool_mask" not in part:  # padding on the left needs a mask
            return None
        said: torch.Tensor = (part["completion_mask"] * part["tool_mask"]).bool()
        return said

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **more: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, Any]:
        # On a CPU TRL computes the vocabulary's logits at every token. Three in four were heard, not said, and their
        # loss is masked. What pads stands on the right, where causal attention does not see it.
        said = self._said
        if said is None:
            found: tuple[torch.Tensor, torch.Tensor | None, Any] = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **more
            )
            return found
        before = torch.zeros_like(input_ids, dtype=torch.bool)
        before[:, -logits_to_keep - 1 : -1] = said
        states = states_of(model, input_ids, before)
        logs = (model.get_output_embeddings()(states) / self.temperature).log_softmax(-1)
        tokens = input_ids[:, -logits_to_keep:][said]
        with torch.no_grad():
            entropies = -(logs.exp() * logs).sum(-1)
        zeros = logs.new_zeros(said.shape)
        return (
            zeros.masked_scatter(said, logs.gather(-1, tokens[:, None])[:, 0]),
            zeros.masked_scatter(said, entropies),
            None,
        )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # TRL's loss takes advantages of the shape (B, T) from subclasses; this is where it makes its own.
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        credited = self.credited()
        if credited is not None:
            found = torch.zeros(output["completion_ids"].shape, device=output["advantages"].device)
            for row, values in enumerate(credited):
                found[row, : len(values)] = torch.tensor(values)
            output["advantages"] = found
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            logs = {**logs, **self.further()}
        super().log(logs, start_time)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """None: a run folder is no repository of the hub."""

    def _parts(self, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        # Only the loss that is a sum over tokens, divided by the tokens of the whole step, may be divided.
        sums = self.loss_type == "dapo"
        rows = torch.arange(len(inputs["advantages"]), device=inputs["advantages"].device)
        if sums and self.beta == 0.0 and not self.aux_loss_enabled:
            # Those with an advantage first. Processes, which gather figures by episode, keep as many as the one that
            # has most; and the last pass of a step keeps one, for the figures.
            advantages = inputs["advantages"]
            silent = advantages == 0 if advantages.dim() == 1 else (advantages == 0).all(1)
            rows = silent.int().argsort(stable=True)
            telling = (~silent).sum()[None]
            most = int(self.accelerator.gather(telling).max())
            if not most and self.accelerator.num_processes == 1 and not self.accelerator.sync_gradients:
                return []
            rows = rows[: max(most, 1)]
            if advantages.dim() == 2:
                inputs = {**inputs, "completion_mask": inputs["completion_mask"] * _until_silent(advantages)}
        if not sums or self.accelerator.num_processes > 1 or rows.device.type != "cpu":
            return [_cut(inputs, rows)]  # processes must compute in step
        lengths = (inputs["prompt_mask"].sum(1) + inputs["completion_mask"].sum(1))[rows]
        order = rows[lengths.argsort(stable=True)]
        parts: list[list[int]] = []
        for row, length in zip(order.tolist(), lengths.sort(stable=True)[0].tolist(), strict=True):
            if parts and length * (len(parts[-1]) + 1) <= _PART:
                parts[-1].append(row)
            else:
                parts.append([row])
        return [_cut(inputs, torch.tensor(part)) for part in parts]


def _cut(inputs: dict[str, Any], rows: torch.Tensor) -> dict[str, Any]:
    """Some rows of a batch, without the columns that hold their padding only."""
    whole = {name: value[rows] if _is_rows(value) else value for name, value in inputs.items()}
    before = int((whole["prompt_mask"].sum(0) == 0).sum())  # padding stands on the left of prompts
    after = int((whole["completion_mask"].sum(0) > 0).sum())  # and on the right of completions
    width = whole["completion_mask"].shape[1]
    for name, value in whole.items():
        if name.startswith("prompt_"):
            whole[name] = value[:, before:]
        elif _is_rows(value) and value.dim() == 2 and value.shape[1] == width:
            whole[name] = value[:, :after]
    return whole


def _until_silent(advantages: torch.Tensor) -> torch.Tensor:
    """1 up to the last advantage of each row, (rows, tokens), then 0; 1 everywhere in a row without any."""
    telling = (advantages != 0).int()
    return (telling.flip(1).cumsum(1).flip(1) > 0).int().where(telling.any(1, keepdim=True), torch.ones_like(telling))


def _is_rows(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0


def columns(rollouts: Sequence[Rollout], pad: int) -> dict[str, Any]:
    """Rollouts as TRL's `rollout_func` returns them.

    TRL pads prompts on the left and completions on the right. Where the prompt ends makes no difference to the loss, as
    what a policy was told is masked; so all are divided at one place, which leaves no padding on the left.

    Log-probabilities of the sampling are not given. With one update per step TRL takes those of the update itself,
    whose ratio is exactly 1, without a further pass; with several it computes them once.

    Args:
        rollouts: of a step.
        pad: an id to stand where nothing was said.
    """
    cut = _place(rollouts)
    ids = [rollout.ids if len(rollout.ids) > 1 else [*rollout.ids, pad, pad][: cut + 1] for rollout in rollouts]
    masks = [[*rollout.mask, *[0] * len(one)][: len(one)] for rollout, one in zip(rollouts, ids, strict=True)]
    splits = [min(cut, len(one) - 1) for one in ids]
    return {
        "prompt_ids": [one[:at] for one, at in zip(ids, splits, strict=True)],
        "completion_ids": [one[at:] for one, at in zip(ids, splits, strict=True)],
        "env_mask": [mask[at:] for mask, at in zip(masks, splits, strict=True)],
        "logprobs": None,
        "episode_return": [rollout.value for rollout in rollouts],
    }


def _place(rollouts: Sequence[Rollout]) -> int:
    """Where all prompts of a step end."""
    lengths = [min(rollout.prompt_length, len(rollout.ids) - 1) for rollout in rollouts if len(rollout.ids) > 1]
    return max(min(lengths, default=1), 1)


def completions_of(rollouts: Sequence[Rollout], values: Sequence[list[float]]) -> list[list[float]]:
    """Numbers for each id, cut to the completions of `columns`."""
    cut = _place(rollouts)
    return [one[min(cut, max(len(one) - 1, 0)) :] for one in values]


def episode_return(*, episode_return: list[float | None], **_: Any) -> list[float | None]:
    """The reward of TRL: the return; None, which leaves the baseline too, for an episode that is no evidence."""
    return episode_return


@contextmanager
def quiet_trainer() -> Iterator[None]:
    """Without what TRL warns of at every use: that `rollout_func` may change, and its own use of an old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using 'rollout_func'", UserWarning)
        warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing(_enable|_disable)?` is", FutureWarning)
        yield


def _checkpointing(wanted: bool) -> dict[str, Any]:
    """Gradient checkpointing by its name in transformers, which newer versions call activation checkpointing."""
    new = "activation_checkpointing"
    return {new if new in GRPOConfig.__dataclass_fields__ else "gradient_checkpointing": wanted}


def micro_batch(settings: TrainSettings, processes: int) -> int:
    """Episodes of a forward pass: at most `settings.micro_batch`, and a divisor of a process's share.

    Raises:
        RodsError: if the episodes of a step cannot be divided among the processes.
    """
    total = settings.group_size * settings.groups_per_step
    if total % processes:
        raise RodsError(
            f"group_size * groups_per_step must be divisible by the number of processes; got {total} episodes and "
            f"{processes} processes."
        )
    share = total // processes
    return next(size for size in range(min(settings.micro_batch, share), 0, -1) if share % size == 0)


def make_trainer(
    model: Any,
    tokenizer: Any,
    settings: TrainSettings,
    folder: RunFolder,
    *,
    rollout: Callable[..., dict[str, Any]],
    callback: TrainerCallback,
    processes: int,
) -> GroupTrainer:
    """The trainer of a run.

    Args:
        model: to train.
        tokenizer: of the model.
        settings: of the run.
        folder: of the run.
        rollout: TRL's `rollout_func`.
        callback: is told of every step.
        processes: how many there are.

    Raises:
        RodsError: for settings that TRL or transformers refuses.
    """
    micro = micro_batch(settings, processes)
    passes = settings.group_size * settings.groups_per_step // processes // micro
    on_cpu = model.device.type == "cpu"
    try:
        with quiet_trainer():
            config = GRPOConfig(
                output_dir=str(folder.path),
                max_steps=settings.steps,
                num_generations=settings.group_size,
                per_device_train_batch_size=micro,
                gradient_accumulation_steps=passes,
                steps_per_generation=passes,
                num_iterations=settings.updates,
                max_completion_length=settings.max_episode,  # what dr_grpo divides by
                learning_rate=settings.learning_rate,
                lr_scheduler_type=settings.schedule,
                warmup_steps=settings.warmup_steps,
                weight_decay=settings.weight_decay,
                max_grad_norm=settings.max_grad_norm,
                beta=settings.beta,
                epsilon=settings.epsilon,
                epsilon_high=settings.epsilon_high or None,
                loss_type=settings.loss,
                importance_sampling_level="sequence" if settings.loss == "luspo" else "token",
                scale_rewards=settings.scale_rewards,
                temperature=settings.temperature,
                **_checkpointing(settings.gradient_checkpointing),
                bf16=settings.dtype == "bfloat16",
                fp16=settings.dtype == "float16",
                use_cpu=on_cpu,
                ddp_find_unused_parameters=False,
                disable_dropout=True,  # what is sampled and what is trained must be the same policy
                seed=settings.seed,
                save_strategy="no",  # the callback says when
                ignore_data_skip=True,  # rows are slots without content; the curriculum says what is played
                shuffle_dataset=False,
                dataloader_pin_memory=not on_cpu,
                remove_unused_columns=False,
                logging_steps=1,
                logging_nan_inf_filter=False,  # a loss that is no number must be seen
                report_to=list(settings.report_to) or "none",
                disable_tqdm=True,
            )
            trainer = GroupTrainer(
                model=model,
                reward_funcs=episode_return,
                args=config,
                train_dataset=Dataset.from_dict({"prompt": [str(slot) for slot in range(settings.groups_per_step)]}),
                processing_class=tokenizer,
                callbacks=[callback],
                rollout_func=rollout,
            )
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise RodsError(f"the trainer refuses these settings: {reason}") from error
    trainer.remove_callback(PrinterCallback)
    return trainer
