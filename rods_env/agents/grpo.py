"""The GRPO agent: TRL's trainer, whose rollouts a curriculum chooses and `RolloutEngine` plays.

    agent = GrpoAgent(policy, settings, "runs/first")
    agent.train(on_row=print)
    agent.evaluate().success

A step: the curriculum names `groups_per_step` tasks; each is played `group_size` times; the curriculum learns the
returns; TRL updates the policy. No group is asked for before the step that plays it.

The rows of `metrics.jsonl` hold, for each step: `return_mean` and `success_mean` (of all episodes that were played, of
exchanged groups too), `zero_variance_share` (of the step's groups), `frontier_share` (of the curriculum's pool),
`episodes`, `crashed`, `termination/<reason>` (shares), `tokens` (sampled), `tokens_per_s` (while sampling), `seconds`
and of these `generate_s`, `environment_s`, `train_s`, `evaluate_s`; TRL's `loss`, `grad_norm`, `entropy`, `kl`,
`learning_rate`; `curriculum/<figure>`; and where there was an evaluation `heldout_success` and `heldout_progress`. The
row of step 0 holds the evaluation before training.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
from transformers import TrainerCallback

from rods_env.agents.credit import turn_advantages
from rods_env.agents.decoding import Sampler
from rods_env.agents.evaluate import Evaluation
from rods_env.agents.group_player import GroupPlayer, PlayedGroup
from rods_env.agents.group_trainer import (
    GroupTrainer,
    columns,
    completions_of,
    make_trainer,
    micro_batch,
    quiet_trainer,
)  # fmt: skip
from rods_env.agents.heap import frozen_heap
from rods_env.agents.policy_evaluation import (
    env_maker,
    episode_of,
    evaluation_of_episodes,
    play_once,
    read_evaluation,
)  # fmt: skip
from rods_env.agents.rollout import RolloutEngine
from rods_env.agents.run_folder import RunFolder, share_files
from rods_env.agents.run_setup import (
    Clock,
    chosen_tasks,
    evaluating,
    find_ranks,
    identity,
    make_curriculum,
    reference_of,
    sampling_model,
    synchronize,
    use_threads,
)  # fmt: skip
from rods_env.agents.settings import TrainSettings, check
from rods_env.curricula import Curriculum
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, write_atomically

_LOG = logging.getLogger(__name__)
_TRAINER_FIGURES = ("loss", "grad_norm", "entropy", "kl", "learning_rate", "clip_ratio/region_mean")
Row = dict[str, Any]


class GrpoAgent:
    """Trains a policy on tasks that a curriculum chooses.

    With `accelerate launch` or `torchrun` every process makes the same agent; the first owns the curriculum and writes.

    Args:
        policy: what is trained, see `rods_env.agents.policy.Policy`. Its model is changed in place.
        settings: of the run.
        run: the run folder.
        tasks: the seeds of the curriculum; those that the settings name if not given.
        heldout: what is evaluated on; those that the settings name if not given; none if empty.
        curriculum: chooses the tasks; the one that the settings name, over `tasks`, if not given.
        make_env: makes the environments of training; `ToolUseEnv` with the options of the settings if not given.
            Evaluations are played in the latter.
        on_group: called in the first process with every group that was played.

    Attributes:
        curriculum: the curriculum, in the first process.
        folder: the run folder.
        before: the evaluation at step 0, when there was one.
        latest: the latest evaluation.
        step: how many steps were made.

    Raises:
        RodsError: for settings out of range, tasks that cannot be read, or tasks that the policy has no words for.
    """

    def __init__(
        self,
        policy: Any,
        settings: TrainSettings,
        run: str | Path | RunFolder,
        *,
        tasks: Sequence[Task] | None = None,
        heldout: Sequence[Task] | None = None,
        curriculum: Curriculum | None = None,
        make_env: Callable[[Task], gym.Env[Any, Any]] | None = None,
        on_group: Callable[[PlayedGroup], None] = lambda _: None,
    ) -> None:
        check(settings)
        self.policy = policy
        self.settings = settings
        self.folder = run if isinstance(run, RunFolder) else RunFolder(run)
        self.tasks = list(tasks) if tasks is not None else chosen_tasks(settings.tasks, settings.tasks_limit)
        self.heldout = list(heldout) if heldout is not None else chosen_tasks(settings.heldout, settings.heldout_limit)
        policy.chat.check_tasks([*self.tasks, *self.heldout])
        self.ranks = find_ranks(policy.model)
        micro_batch(settings, self.ranks.count)
        if settings.credit == "turn" and settings.groups_per_step % self.ranks.count:
            raise RodsError(
                f'credit "turn" needs whole groups in a process: groups_per_step must be divisible by the number of '
                f"processes, {self.ranks.count}; got {settings.groups_per_step}."
            )
        self.curriculum = (curriculum or make_curriculum(settings, self.tasks)) if self.ranks.first else None
        self.before: Evaluation | None = None
        self.latest: Evaluation | None = None
        self.step = 0
        self._sampling = sampling_model(policy.model, settings)
        options: dict[str, Any] = {
            "slots": settings.slots, "max_length": settings.max_episode, "temperature": settings.temperature,
            "top_p": settings.top_p,
        }  # fmt: skip
        self._sampler: Sampler = (
            policy.sampler(**options) if self._sampling is policy.model
            else Sampler(self._sampling, policy.chat.end_ids, **options)
        )  # fmt: skip
        self.player = GroupPlayer(
            self.curriculum, self._engine(make_env), group_size=settings.group_size, groups=settings.groups_per_step,
            ranks=self.ranks, on_group=on_group,
        )  # fmt: skip
        self._evaluator = self._engine()
        self._on_row: Callable[[Row], None] = lambda _: None
        self._on_evaluation: Callable[[int, Evaluation], None] = lambda _step, _evaluation: None
        self._done: Callable[[], bool] | None = None
        self._ended = False
        self._stopping = False
        self._saving = False
        self._clock = Clock(self.player.engine)
        self._threads = settings.threads
        self._heldout_figures: dict[str, float] = {}
        self._credited: list[list[float]] | None = None
        self._figures: dict[str, float] = {}

    # ------------------------------------------------------------------ what it does

    def train(
        self,
        on_row: Callable[[Row], None] | None = None,
        resume: bool = False,
        *,
        before: Evaluation | None = None,
        on_evaluation: Callable[[int, Evaluation], None] = lambda _step, _evaluation: None,
        done: Callable[[], bool] | None = None,
    ) -> Evaluation | None:
        """Trains to the end.

        Args:
            on_row: called with the row of each step, in the first process.
            resume: goes on with the run in the folder, exactly as it would have gone on.
            before: the evaluation at step 0, of another run that began from the same policy; it is not played again.
            on_evaluation: called with the step and its evaluation, in the first process, before the row.
            done: asked after every step, in the first process, whether the run ends with it before `settings.steps`.

        Returns:
            The last evaluation, if there was one.

        Raises:
            RodsError: for a folder that holds another run, a checkpoint that cannot be written or read, a loss that is
                no number.
            KeyboardInterrupt: after Ctrl-C, or if `on_row` raised it: the step was ended and a checkpoint saved. A
                second Ctrl-C does not wait.
        """
        self._on_row = on_row or (lambda _: None)
        self._on_evaluation, self._done, self._ended = on_evaluation, done, False
        with frozen_heap():
            return self._run(resume, before)

    def _run(self, resume: bool, before: Evaluation | None) -> Evaluation | None:
        self._stopping = self._saving = False
        start = self._open(resume)
        self._threads = use_threads(self._threads, self.policy.model)
        if self.heldout and start is None:
            self.before = self._evaluate_at(0, before)
            if self.ranks.first:
                self._write({"step": 0, **self._heldout_figures})
        elif self.heldout and self.folder.evaluation(0).exists():
            self.before = read_evaluation(self.folder.evaluation(0))
        if self.step < self.settings.steps:
            self._train(start)
        elif self.heldout:
            self.latest = self.evaluate()
        if self._stopping and self.step < self.settings.steps and not self._ended:
            raise KeyboardInterrupt
        return self.latest

    def evaluate(self) -> Evaluation:
        """Plays every held-out task once with the policy as it is.

        Raises:
            RodsError: if there are no held-out tasks.
        """
        synchronize(self._sampling, self.policy.model)
        mine = range(self.ranks.number, len(self.heldout), self.ranks.count)
        self._sampler.temperature = self.settings.eval_temperature
        try:
            with evaluating(self.policy.model):
                rollouts = play_once(self._evaluator, [self.heldout[n] for n in mine], list(mine))
        finally:
            self._sampler.temperature = self.settings.temperature
        found = self.ranks.gathered(
            [(n, episode_of(rollout)) for n, rollout in zip(mine, rollouts, strict=True)]
        )
        found.sort(key=lambda one: one[0])
        return evaluation_of_episodes([episode for _, episode in found], self.settings.seed)

    # ------------------------------------------------------------------ a run

    def _open(self, resume: bool) -> Path | None:
        """Prepares the folder. Returns the checkpoint to go on from."""
        config = identity(self.settings, self.tasks, self.heldout)
        problem, start = None, None
        if self.ranks.first:
            try:
                if resume:
                    self.folder.check(config)
                    self.folder.clean()
                else:
                    self.folder.begin(config)
                whole = self.folder.checkpoints()
                start = whole[-1][1] if whole else None
            except RodsError as error:
                problem = str(error)
        problem, start = self.ranks.told((problem, start))
        if problem:
            raise RodsError(problem)
        if start is not None:
            self._load(start)
        if self.ranks.first:
            self.folder.cut(self.step if start is not None else -1)
        return start

    def _load(self, checkpoint: Path) -> None:
        try:
            state = json.loads((checkpoint / "agent.json").read_bytes())
            self.step = int(state["step"])
            self._threads = self.settings.threads or int(state["threads"])  # another number rounds differently
            if self.curriculum is not None:
                self.curriculum.load(checkpoint / "curriculum.json")
            self.player.load_state_dict(state["player"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RodsError(
                f"the checkpoint {checkpoint} cannot be read ({error}): remove it to go on from the one before."
            ) from error

    def _train(self, start: Path | None) -> None:
        model = self.policy.model
        with reference_of(model, self.settings, self.folder, self.ranks):
            trainer = make_trainer(
                model, self.policy.tokenizer, self.settings, self.folder, rollout=self._rollout,
                callback=_Callback(self), processes=self.ranks.count,
            )  # fmt: skip
        trainer.further = self._further
        trainer.credited = lambda: self._credited
        self._trainer = trainer
        try:
            with quiet_trainer(), self._interruptible():
                trainer.train(resume_from_checkpoint=None if start is None else str(start))
        except Exception as error:  # of transformers, torch or safetensors, each with errors of its own
            if not self._saving:
                raise
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:300].rstrip(".")
            raise RodsError(
                f"checkpoint {trainer.state.global_step} cannot be written in {self.folder.path}: {reason}. "
                "Make room, then go on from the one before (--resume)."
            ) from error
        finally:
            model.eval()
            if self._saving and self.ranks.first:
                self.folder.clean()

    def _rollout(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """TRL's `rollout_func`. The prompts are slots without content."""
        synchronize(self._sampling, self.policy.model)
        with evaluating(self.policy.model):
            rollouts = self.player.play()
        if len(rollouts) != len(prompts):
            raise RodsError(f"expected to play {len(rollouts)} episodes in this process; TRL asks for {len(prompts)}.")
        self._credited = None
        if self.settings.credit == "turn":
            scaled = self.settings.scale_rewards == "group"
            advantages = turn_advantages(rollouts, self.settings.group_size, scaled=scaled)
            self._credited = completions_of(rollouts, advantages)
        return columns(rollouts, self.policy.tokenizer.pad_token_id)

    # ------------------------------------------------------------------ told by the callback

    def _step_ended(self, step: int) -> bool:
        """Evaluates if it is time. Returns whether to save."""
        self._clock.end()
        self.step = step
        if self._done is not None:
            self._ended = self.ranks.told(self._done() if self.ranks.first else None)
        last = step >= self.settings.steps or self._ended
        self._heldout_figures = {}
        every = self.settings.eval_every
        if self.heldout and (last or (every and step % every == 0)):
            self._evaluate_at(step)
        if not last and not self._whole(step):
            return False
        self._stopping = any(self.ranks.gathered([self._stopping]))
        return last or self._stopping or step % self.settings.save_every == 0

    def _whole(self, step: int) -> bool:
        """Whether the next step plays. Between two updates with the same rollouts a checkpoint would lack them."""
        return step % self.settings.updates == 0

    def _further(self) -> dict[str, float]:
        """What joins TRL's log of a step, and so reaches its reporters."""
        figures = {
            **self.player.figures,
            **self._clock.figures(self.player.figures["tokens"], self._heldout_figures.get("evaluate_s", 0.0)),
            **self._heldout_figures,
        }
        if self.curriculum is not None:
            curriculum = self.curriculum.metrics()
            figures["frontier_share"] = curriculum["frontier_share"]
            figures.update({f"curriculum/{name}": value for name, value in curriculum.items()})
        self._figures = figures
        return figures

    def _logged(self, logs: Mapping[str, Any]) -> None:
        """Writes the row of a step, and shows it."""
        if not math.isfinite(logs["loss"]):
            raise RodsError(
                f"the loss of step {self.step} is {logs['loss']}: try a lower learning_rate or another dtype; the last "
                "checkpoint is whole."
            )
        if self.ranks.first:
            trainer = {name: logs[name] for name in _TRAINER_FIGURES if logs.get(name) is not None}
            self._write({"step": self.step, **self._figures, **trainer})

    def _write(self, row: Row) -> None:
        self.folder.append(row)
        try:
            self._on_row(row)
        except KeyboardInterrupt:
            self._stopping = True

    def _saved(self, step: int, trainer: GroupTrainer) -> None:
        """Completes the checkpoint that transformers has written, and gives it its name."""
        self.ranks.wait()  # each process writes the state of its generators
        if self.ranks.first:
            assert self.curriculum is not None
            place = self.folder.unfinished(step)
            self.policy.save(place / "policy")
            share_files(place, place / "policy")
            self.curriculum.save(place / "curriculum.json")
            state = {"step": step, "threads": self._threads, "player": self.player.state_dict()}
            write_atomically(place / "agent.json", json.dumps(state).encode())
            self.folder.finish(step)
            self.folder.prune(self.settings.keep)
        self.ranks.wait()
        self._saving = False

    # ------------------------------------------------------------------ inside

    def _engine(self, make_env: Callable[[Task], gym.Env[Any, Any]] | None = None) -> RolloutEngine:
        s = self.settings
        make_env = make_env or env_maker(s.environment_options)
        return RolloutEngine(
            self._sampler, self.policy.chat, make_env=make_env, max_message=s.max_message,
            max_turn=s.max_turn, max_messages=s.max_messages, seed=s.seed,
        )  # fmt: skip

    def _evaluate_at(self, step: int, known: Evaluation | None = None) -> Evaluation:
        begun = time.perf_counter()
        self.latest = known or self.evaluate()
        if self.ranks.first:
            self.latest.save(self.folder.evaluation(step))
            self._on_evaluation(step, self.latest)
        took = time.perf_counter() - begun
        self._heldout_figures = {
            "heldout_success": self.latest.success, "heldout_progress": self.latest.progress, "evaluate_s": took,
        }  # fmt: skip
        return self.latest

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Ctrl-C ends the step first, so that the checkpoint is exact."""

        def stop(number: int, frame: Any) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self._stopping = True
            _LOG.warning("the step is ended and saved; Ctrl-C again stops at once, without saving")

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


class _Callback(TrainerCallback):
    """Tells the agent what the trainer does."""

    def __init__(self, agent: GrpoAgent) -> None:
        self._agent = agent

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._agent._clock.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = self._agent._step_ended(state.global_step)
        control.should_training_stop |= self._agent._ended

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        agent = self._agent
        if logs is None or "loss" not in logs:
            return
        agent._logged(logs)
        if agent._stopping and agent.ranks.count == 1 and agent._whole(state.global_step):
            control.should_save = True  # on_row has said so; of several processes the others learn it at the next step
        control.should_training_stop |= control.should_save and agent._stopping
        agent._saving = control.should_save  # comes next

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._agent._saved(state.global_step, self._agent._trainer)
