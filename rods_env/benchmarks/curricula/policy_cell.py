"""Trains a cell with a language model: `GrpoAgent` on the curriculum of an arm, evaluated at checkpoints.

    cell = train(Spec("tiny", "seeds", 50, "stream", 0, 12_800), Path("results"), print)

All arms of a seed begin with the same policy, seeds and sets, make the same number of updates of the same size, and are
evaluated with the same noise task by task; so the evaluation before training is played by the first arm of a seed, and
kept with its warm-up for the others. Two differ: `dapo` plays the further groups that its filter asks for, which
count as rollouts, so it makes fewer updates; `sft-more` learns from as many demonstrations as others play rollouts, in
batches of as many. `augmented` trains in an environment whose errors help; it is evaluated without such help.

Evaluations are sampled at temperature 1, as rollouts are: what reward changes is the distribution. (`eval_temperature`
0 takes the likeliest tokens.)
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rods_env.agents import warmup
from rods_env.agents.evaluate import Evaluation
from rods_env.agents.loading import find_device, quiet_libraries
from rods_env.agents.policy import Policy, load_policy
from rods_env.agents.policy_evaluation import evaluate_policy, read_evaluation
from rods_env.agents.settings import PRESETS, TrainSettings, make_settings
from rods_env.benchmarks.curricula.arms import AUGMENTED, BOUND, DAPO, FIXED, SFT_MORE, base_of, make_arm
from rods_env.benchmarks.curricula.cells import Cell, Checkpoint, Recorder, Spec, digest_of
from rods_env.benchmarks.curricula.grid import kept_cell
from rods_env.benchmarks.curricula.heldout import (
    seeds_of,
    seen_tasks,
    set_for,
    tuning_tasks,
    unseen_tasks,
)  # fmt: skip
from rods_env.benchmarks.curricula.warmups import is_tiny, stream, warmed_up
from rods_env.errors import RodsError
from rods_env.tasks.task import Task
from rods_env.tasks.tiny_sets import long_tasks

if TYPE_CHECKING:
    from rods_env.agents.group_player import PlayedGroup

_LONGEST = 20  # a run that matches tokens ends after so many times the planned steps at the latest
# What a cell says itself.
_OWN = frozenset(
    {"policy", "tasks", "tasks_limit", "heldout", "heldout_limit", "curriculum", "curriculum_options", "steps", "seed",
     "eval_every", "save_every", "keep"}
)  # fmt: skip


class CellSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cell beside those of training, by the same way.

    Attributes:
        unseen, seen, tuning: how many tasks each set has.
        checkpoints: how often is evaluated, at the beginning and the end too.
        start_steps: of the warm-up of the seed, see `warmups`; 0: every seed starts from the policy as it is.
        sft_batch: demonstrations of an update of `sft-more`; 0: as many as others play rollouts in a step.
        sft_learning_rate: of `sft-more`; 0: 1e-3 for a tiny policy, as at the end of its warm-up, and 1e-5 for others.
    """

    unseen: int = 1000
    seen: int = 1000
    tuning: int = 400
    checkpoints: int = 5
    start_steps: int = 300
    sft_batch: int = 0
    sft_learning_rate: float = 0.0


def settings_of(spec: Spec) -> tuple[TrainSettings, CellSettings]:
    """The settings of a cell: a preset's, changed by those of the spec.

    The preset is that of the policy's name, "tiny" for other tiny policies, and "qwen2.5-1.5b" for other chat models.

    Raises:
        RodsError: for an unknown setting, one that the cell says itself, or rollouts that are no whole steps.
    """
    given = msgspec.json.decode(spec.settings, type=dict[str, Any])
    names = {field.name for field in msgspec.structs.fields(CellSettings)}
    try:
        own = msgspec.convert({k: v for k, v in given.items() if k in names}, CellSettings, strict=False)
    except msgspec.ValidationError as error:
        raise RodsError(f"the settings of the cell {spec.name}: {error}.") from None
    if min(own.unseen, own.seen, own.tuning) < 1 or own.checkpoints < 2 or min(own.start_steps, own.sft_batch) < 0:
        raise RodsError("unseen, seen and tuning must be at least 1, checkpoints 2, start_steps and sft_batch 0.")
    said = sorted(_OWN & given.keys())
    if said:
        raise RodsError(f"{said[0]} follows from which cell it is: it cannot be set.")
    tiny = spec.policy not in PRESETS and is_tiny(spec.policy)
    preset = spec.policy if spec.policy in PRESETS else "tiny" if tiny else "qwen2.5-1.5b"
    # One thread, for cells are trained side by side, and another number rounds differently.
    changes: dict[str, Any] = {"eval_temperature": 1.0, **({"threads": 1} if preset == "tiny" else {})}
    if spec.policy not in PRESETS:
        changes["policy"] = spec.policy
    changes.update({name: value for name, value in given.items() if name not in names})
    settings = make_settings(preset, overrides={**changes, "seed": spec.seed})
    step = settings.group_size * settings.groups_per_step
    if spec.rollouts < step or spec.rollouts % step:
        raise RodsError(f"rollouts must be a multiple of the {step} of a step; got {spec.rollouts}.")
    steps = spec.rollouts // step
    own = msgspec.structs.replace(own, sft_batch=own.sft_batch or step)
    return msgspec.structs.replace(
        settings, steps=steps, eval_every=-(-steps // (own.checkpoints - 1)), save_every=10**9,
        keep=1, tasks=set_for(spec.policy, spec.tasks),
    ), own  # fmt: skip


def train(spec: Spec, folder: Path, on_checkpoint: Callable[[Checkpoint], None] = lambda _: None) -> Cell:
    """Trains a cell.

    Args:
        spec: which.
        folder: of the benchmark. Warm-ups are kept in `warmups/`; with `match="tokens"` the cell of `fixed` is read
            from `cells/`. Nothing else is written there.
        on_checkpoint: called with every checkpoint.

    Raises:
        RodsError: for settings out of range, a set or policy that is not there, or no cell to match.
    """
    arm = base_of(spec.arm)
    if arm == BOUND:
        raise RodsError(f"the arm {BOUND} plays far more than is counted: it is for the pointer policy only.")
    settings, own = settings_of(spec)
    tokens = _tokens_to_match(spec, folder)
    seeds = seeds_of(settings.tasks, spec.seed_count, spec.seed)
    sets = {
        "unseen": unseen_tasks(settings.tasks, own.unseen),  # first: the noise of a task belongs to its place
        "seen": seen_tasks(seeds, own.seen, spec.seed),
        "tuning": tuning_tasks(settings.tasks, seeds, own.tuning, spec.seed),
    }
    with quiet_libraries():  # the workers' bars would tear that of the grid
        start = warmed_up(settings.policy, spec.seed, folder, own.start_steps)
        policy = load_policy(
            start, dtype="float32" if arm == SFT_MORE else settings.dtype, device=settings.device,
            attention=settings.attention, tool_docs=settings.tool_docs, lora_rank=settings.lora_rank,
            lora_alpha=settings.lora_alpha, gradient_checkpointing=settings.gradient_checkpointing, seed=settings.seed,
        )  # fmt: skip
        shared = None if start == settings.policy else Path(start)
        run = _Run(spec, settings, sets, tokens, on_checkpoint, shared)
        if arm == SFT_MORE:
            run.demonstrations(policy, seeds, own)
        else:
            run.reward(policy, seeds)
    return run.recorder.cell()


def _tokens_to_match(spec: Spec, folder: Path) -> int | None:
    """The tokens that the block's `fixed` sampled; None where rollouts are matched, and for `fixed` itself."""
    if spec.match == "rollouts" or (spec.match == "tokens" and spec.arm == FIXED):
        return None
    if spec.match != "tokens":
        raise RodsError(f"expected match from rollouts, tokens; got {spec.match!r}.")
    fixed = kept_cell(folder, msgspec.structs.replace(spec, arm=FIXED))
    if fixed is None:
        raise RodsError(f"{spec.arm} is to sample as many tokens as fixed, which is not done: train fixed first.")
    return fixed.checkpoints[-1].tokens


class _Run:
    """A cell that is being trained."""

    def __init__(
        self, spec: Spec, settings: TrainSettings, sets: Mapping[str, Sequence[Task]], tokens: int | None,
        on_checkpoint: Callable[[Checkpoint], None], warmup: Path | None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.settings = settings
        self.sets = sets
        self.tokens = tokens
        sizes = {name: len(tasks) for name, tasks in sets.items()}
        self.recorder = Recorder(spec, sizes, {name: digest_of(tasks) for name, tasks in sets.items()})
        self._evaluated = [task for tasks in sets.values() for task in tasks]
        self._on_checkpoint = on_checkpoint
        self._start = warmup / f"evaluation-{self._start_key()}.json" if warmup else None

    def reward(self, policy: Policy, seeds: Sequence[Task]) -> None:
        """Trains on what the arm's curriculum chooses."""
        from rods_env.agents.grpo import GrpoAgent

        spec, settings, recorder = self.spec, self.settings, self.recorder
        curriculum = make_arm(
            spec.arm, seeds, spec.seed, source=long_tasks if policy.chat.speech == "compact" else None,
        )  # fmt: skip
        if self.tokens is not None:
            settings = msgspec.structs.replace(settings, steps=_LONGEST * settings.steps)

        def on_group(group: PlayedGroup) -> None:
            recorder.group(group.task, group.origin, group.returns)
            recorder.tokens += group.tokens

        def on_evaluation(step: int, evaluation: Evaluation) -> None:
            recorder.updates = step
            if step == 0:
                self._share(evaluation)
            self._checkpoint(curriculum, evaluation)

        def on_row(row: Mapping[str, Any]) -> None:
            seconds = recorder.seconds
            seconds["evaluate"] += row.get("evaluate_s", 0.0)
            seconds["play"] += row.get("generate_s", 0.0) + row.get("environment_s", 0.0)
            seconds["update"] += row.get("train_s", 0.0)  # and what the curriculum takes, see below

        # What a run writes is of no use after it; if it is killed, its worker's folder of drafts goes with it.
        with tempfile.TemporaryDirectory(prefix="rods-cell-") as place:
            agent = GrpoAgent(
                policy, settings, place, tasks=seeds, heldout=self._evaluated, curriculum=curriculum,
                make_env=_augmented(settings) if base_of(spec.arm) == AUGMENTED else None, on_group=on_group,
            )  # fmt: skip
            enough = self._played_enough if base_of(spec.arm) == DAPO else None
            done = enough if self.tokens is None else self._sampled_enough
            agent.train(on_row, before=self._shared(), on_evaluation=on_evaluation, done=done)
        recorder.seconds["curriculum"] = agent.player.curriculum_s
        recorder.seconds["update"] -= agent.player.curriculum_s

    def demonstrations(self, policy: Policy, seeds: Sequence[Task], own: CellSettings) -> None:
        """Trains on the oracle's episodes: further ones of the warm-up, for a chat model those of the seeds."""
        from rods_env.agents.run_setup import evaluating, use_threads

        settings, recorder = self.settings, self.recorder
        tiny = policy.chat.speech == "compact"
        use_threads(settings.threads, policy.model)
        shown = self._shown(policy, seeds)
        steps = self._sft_steps(policy, seeds, own)
        every = -(-steps // (own.checkpoints - 1))

        def evaluate() -> None:
            begun = time.perf_counter()
            with evaluating(policy.model):
                found = (self._shared() if recorder.updates == 0 else None) or self._played(policy)
            if recorder.updates == 0:
                self._share(found)
            self._checkpoint(None, found)
            recorder.seconds["evaluate"] += time.perf_counter() - begun

        def on_batch(some: Sequence[warmup.Demonstration]) -> None:
            recorder.rollouts += len(some)
            recorder.tokens += sum(sum(one.mask) for one in some)
            recorder.updates += 1
            if recorder.updates % every == 0 or recorder.updates == steps:
                evaluate()

        begun = time.perf_counter()
        evaluate()
        warmup.train(
            policy.model, shown, steps=steps, batch=own.sft_batch, seed=self.spec.seed, on_batch=on_batch,
            learning_rate=own.sft_learning_rate or (1e-3 if tiny else 1e-5), heard_weight=0.5 if tiny else 0.0,
        )  # fmt: skip
        recorder.seconds["update"] = time.perf_counter() - begun - recorder.seconds["evaluate"]

    # ------------------------------------------------------------------ inside

    def _shown(self, policy: Policy, seeds: Sequence[Task]) -> Iterator[warmup.Demonstration]:
        if seeds[0].ENVIRONMENT != Task.ENVIRONMENT:
            raise RodsError(f"{SFT_MORE} has demonstrations of this project's own services only.")
        tasks = stream(self.spec.seed) if policy.chat.speech == "compact" else cycle(seeds)
        return warmup.demonstrations(policy.chat, tasks, seed=self.spec.seed)

    def _sft_steps(self, policy: Policy, seeds: Sequence[Task], own: CellSettings) -> int:
        """Updates on as many demonstrations as rollouts; or with as many tokens, judged by the first demonstrations."""
        if self.tokens is None:
            return max(1, self.spec.rollouts // own.sft_batch)
        some = list(islice(self._shown(policy, seeds), 256))
        mean = sum(sum(one.mask) for one in some) / len(some)
        return max(1, round(self.tokens / mean / own.sft_batch))

    def _played_enough(self) -> bool:
        return self.recorder.rollouts >= self.spec.rollouts

    def _sampled_enough(self) -> bool:
        assert self.tokens is not None
        return self.recorder.tokens >= self.tokens

    def _start_key(self) -> str:
        """Names what an evaluation depends on beside the weights."""
        s = self.settings
        limits = [s.max_message, s.max_turn, s.max_messages, s.max_episode, s.slots]
        machine = [find_device(s.device).type, s.dtype]
        what = [s.seed, machine, s.eval_temperature, s.top_p, limits, s.environment_options, self.recorder.digests]
        return hashlib.sha256(msgspec.json.encode(what, order="sorted")).hexdigest()[:16]

    def _shared(self) -> Evaluation | None:
        """The evaluation before training of another arm of the seed, which begins with the same weights."""
        if not self._start or not self._start.exists():
            return None
        try:
            return read_evaluation(self._start)
        except RodsError as error:
            raise RodsError(f"{error} Remove it to have it played again.") from None

    def _share(self, evaluation: Evaluation) -> None:
        if self._start and not self._start.exists() and not evaluation.crashed:
            evaluation.save(self._start)

    def _played(self, policy: Policy) -> Evaluation:
        s = self.settings
        return evaluate_policy(
            policy, self._evaluated, s.seed, temperature=s.eval_temperature, top_p=s.top_p, slots=s.slots,
            max_message=s.max_message, max_turn=s.max_turn, max_messages=s.max_messages, max_episode=s.max_episode,
            environment_options=s.environment_options,
        )  # fmt: skip

    def _checkpoint(self, curriculum: Any, evaluation: Evaluation) -> None:
        if evaluation.crashed:
            raise RodsError(f"{evaluation.crashed} environments crashed in an evaluation: the cell cannot be compared.")
        found = {episode.task_id: episode for episode in evaluation.episodes}
        played = {name: [found[task.id] for task in tasks] for name, tasks in self.sets.items()}
        solved = {name: [episode.success for episode in some] for name, some in played.items()}
        progress = {name: sum(one.progress for one in some) / len(some) for name, some in played.items()}
        self._on_checkpoint(self.recorder.checkpoint(curriculum, solved, progress))


def _augmented(settings: TrainSettings) -> Callable[[Task], Any]:
    """Makes environments whose errors help."""
    from rods_env.agents.policy_evaluation import env_maker
    from rods_env.wrappers.augmented_feedback import AugmentedFeedback

    make = env_maker(settings.environment_options)
    return lambda task: AugmentedFeedback(make(task))
