"""`ToolUseEnv`: one user, several turns, simulated APIs; text in, text out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, SupportsFloat

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium.error import ResetNeeded

from rods_env.apis.api import World
from rods_env.apis.registry import TOOLS, Services, Tool, generation
from rods_env.envs.calls import FORMATS, CallError, ParsedCall, describe_format, parse_calls, quick_call
from rods_env.envs.grading import failed_checks
from rods_env.envs.options import check_api_names, check_choice, check_positive, chosen_tasks
from rods_env.envs.spaces import UnicodeText
from rods_env.envs.transcript import Message, Transcript
from rods_env.errors import RodsError, ToolError
from rods_env.tasks.distractors import with_distractors
from rods_env.tasks.replay import encode_result
from rods_env.tasks.task import Task
from rods_env.tasks.validation import offered_tools

_SYSTEM = (
    "You are an assistant who acts for the user by calling tools. Today is {day}, {time}. {calls} When you have done "
    "what the user asked for, answer without a call. Never make up ids or values. If a request cannot be carried out "
    "because a tool is not offered or a value is missing that only the user knows, say so or ask, and call nothing."
)

_PREPARED = 1000  # how many tasks are kept with their distractors

_encode_error = msgspec.json.Encoder().encode


class Snapshot(NamedTuple):
    """The whole state of an episode. Everything in it is immutable, so taking one copies nothing."""

    task: Task
    world: World
    transcript: Transcript
    turn: int
    attempts: int
    steps: int
    called: bool
    progress: float
    owed: float
    passed: tuple[bool, ...]
    termination: str | None


class Failure(NamedTuple):
    """What went wrong with a call or a message, for `ToolUseEnv.explain`.

    Attributes:
        tools: the tools that are offered now, by name.
        name: the name of the tool as it was written; "" for a message that cannot be read.
        arguments: the arguments as they were written, a JSON object; or the message that cannot be read.
        error: what was raised, or None where no such tool is offered.
        message: what the environment says of itself.
    """

    tools: Mapping[str, Tool]
    name: str
    arguments: bytes | str | msgspec.Raw
    error: Exception | None
    message: str


class ToolUseEnv(gym.Env[str, str]):
    """
    ## Description
    A user asks for something, in one to six turns. The agent acts through the tools of simulated services (a shop, a
    bank, a calendar, …), whose state is a world of linked records. What a turn needs often has to be found first: the
    user says "my latest order", not "ord_k3v9x". Some turns cannot be served yet, because a tool or a value is
    missing; there the agent should ask.

    ## Action Space
    The assistant's message, any Unicode text (`UnicodeText`). Calls are read from it in one of three formats:

    | format | example |
    |---|---|
    | hermes | `<tool_call>{"name": "list_orders", "arguments": {"customer_id": "cus_k3v9x"}}</tool_call>` |
    | json | `[{"name": "list_orders", "arguments": {"customer_id": "cus_k3v9x"}}]` |
    | python | `[list_orders(customer_id='cus_k3v9x')]` (parsed, never evaluated) |

    Several calls in one message run in order. A message without a call closes the turn.

    ## Observation Space
    Text (`UnicodeText`): the results of the calls as JSON, one line for each, or the next message of the user. An
    error is `{"error": "…"}`. After the last turn it is empty, unless a failed call closed that turn.

    ## Starting State
    A task drawn uniformly by the environment's own random generator, or `reset(options={"task": …})`: a `Task`, its
    id, or its index. The world is the task's; the clock stands still.

    ## Rewards
    1/N when a turn closes passed (N: turns of the task), else 0; their sum over an episode is the progress in [0, 1].
    A turn passes if the agent's world equals the gold world after that turn, and every result that the user asked to
    see is among the results the agent has seen. A turn in which something is missing passes if nothing is called in
    it; with `refrain_credit="with_recovery"` its 1/N is paid when the next turn, which supplies what was missing,
    passes too. The whole contract: docs/grading.md.

    ## Episode End
    Terminated after the last turn (`completed`), or, with `stop_at_failed_turn`, after the first that fails
    (`failed_turn`). Truncated after `max_steps` steps (`step_limit`).

    ## Information
    On every step: `task_id`, `turn` (counted from 0), `turns`, `progress`, `turn_passed` (None unless a turn closed in
    this step), `failed_checks` (of the turn that closed: `world`, `answers`, `called`), `closed_by` (None, `answer` or
    `attempts`), `error` (whether a call of this step failed), `attempts_left`, `termination` (None while it runs),
    `messages` (the conversation in the OpenAI chat shape). On `reset`, and when they change, also `tools` (OpenAI-style
    JSON schemas). In a vector environment Gymnasium makes an array of each, in which a `turn_passed` of None reads
    False: look at `closed_by`.

    ## Arguments
    See `__init__`.

    ## Version History
    * v0: initial version
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as gymnasium.Env declares it
        "render_modes": ["ansi", "rgb_array"], "render_fps": 1,
    }
    # The kind of tasks that it plays: `Task.ENVIRONMENT` of each must be this.
    plays = Task.ENVIRONMENT
    # Whether tools are this project's own, whose typed ports the wrappers read.
    typed_tools = True
    # Words the errors that the policy sees, in place of the environment itself; set by `AugmentedFeedback`.
    explain: Callable[[Failure], str] | None = None

    def __init__(
        self,
        *,
        tasks: str | os.PathLike[str] | Sequence[Task] = "seeds",
        apis: Sequence[str] | None = None,
        distractor_apis: Sequence[str] = (),
        call_format: str = "any",
        attempts_per_turn: int = 10,
        max_steps: int = 100,
        stop_at_failed_turn: bool = False,
        refrain_credit: str = "with_recovery",
        render_mode: str | None = None,
    ) -> None:
        """Makes an environment.

        Args:
            tasks: "seeds", "heldout", the path of a task file, or tasks.
            apis: only tasks whose APIs are all among these; None for all tasks.
            distractor_apis: APIs whose tools are offered in every task beside its own.
            call_format: "hermes", "json", "python", or "any" of them.
            attempts_per_turn: failed calls and unreadable messages in a turn, after which it closes.
            max_steps: steps after which an episode is truncated.
            stop_at_failed_turn: whether the first failed turn ends the episode.
            refrain_credit: "with_recovery" or "immediate": when a turn in which the agent could only ask is paid.
            render_mode: None, "ansi" or "rgb_array".

        Raises:
            RodsError: for a value that is none of these, or if no task is left.
        """
        check_choice("call_format", call_format, FORMATS)
        check_choice("refrain_credit", refrain_credit, ("with_recovery", "immediate"))
        check_choice("stop_at_failed_turn", stop_at_failed_turn, (False, True))
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        check_positive("attempts_per_turn", attempts_per_turn)
        check_positive("max_steps", max_steps)
        self.observation_space: gym.Space[str] = UnicodeText()
        self.action_space: gym.Space[str] = UnicodeText()
        self.call_format = call_format
        self._tagged = call_format in ("any", "hermes")
        self.attempts_per_turn = attempts_per_turn
        self.max_steps = max_steps
        self.stop_at_failed_turn = stop_at_failed_turn
        self.refrain_credit = refrain_credit
        self.render_mode = render_mode
        self.distractor_apis = check_api_names("distractor_apis", distractor_apis)
        self.tasks = chosen_tasks(tasks, apis)
        for task in self.tasks:
            self._check_playable(task)
        self._by_id = {task.id: task for task in self.tasks}
        self._prepared: dict[str, tuple[Task, Task]] = {}
        self._services: Services | None = None
        self._task: Task = self.tasks[0]
        self._turn = 0
        self._live = False
        self._tools: dict[str, Tool] = {}

    # ------------------------------------------------------------------ the Gymnasium interface

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begins an episode.

        Args:
            seed: seeds the generator that draws tasks.
            options: `{"task": …}` with a `Task`, a task id or an index plays that task.

        Returns:
            The user's first message, and the information with the tools.

        Raises:
            RodsError: for an unknown option or task.
        """
        super().reset(seed=seed)
        task = self._chosen(options or {})
        if self.distractor_apis:
            task = self._prepare(task)
        transcript = Transcript(
            [{"role": "system", "content": self._system(task)}, {"role": "user", "content": task.turns[0].message}]
        )
        self.restore(Snapshot(task, task.world, transcript, 0, 0, 0, False, 0.0, 0.0, (), None))
        info = self._info()
        info["tools"] = self._schemas()
        return task.turns[0].message, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes the assistant's message.

        Returns:
            The results or the user's next message, the reward, whether the episode terminated or was truncated, and
            the information.

        Raises:
            ResetNeeded: before `reset`, or after the end of an episode.
        """
        if not self._live:
            raise ResetNeeded("the episode has ended or not begun: call reset() before step().")
        if not isinstance(action, str):
            raise RodsError(f"expected the assistant's message as a str; got {type(action).__name__}.")
        self._steps += 1
        quick = quick_call(action) if self._tagged else None
        if quick is not None:
            observation = self._run(action, (quick,))
        else:
            try:
                calls = parse_calls(action, self.call_format)
            except CallError as error:
                observation = self._refuse(action, error)
            else:
                if not calls:
                    return self._close(action)
                observation = self._run(action, calls)
        if self._attempts >= self.attempts_per_turn:
            return self._close(None, observation)
        if self._steps >= self.max_steps:
            self._end("step_limit")
            return observation, 0.0, False, True, self._info()
        return observation, 0.0, False, False, self._info()

    def render(self) -> Any:
        """The conversation and what is done, as text (`ansi`), or the task's graph (`rgb_array`, H x W x 3 bytes)."""
        if self.render_mode is None:
            gym.logger.warn(
                'render() was called, but no render mode was chosen: gym.make(id, render_mode="ansi") or "rgb_array".'
            )
            return None
        from rods_env.envs.rendering import picture, text

        snapshot = self.snapshot()
        return text(snapshot) if self.render_mode == "ansi" else picture(snapshot)

    # ------------------------------------------------------------------ snapshots

    def snapshot(self) -> Snapshot:
        """The episode as it is now. O(1): worlds and conversations are persistent values.

        The generator that draws tasks is no part of it: a snapshot is of an episode, not of the environment.

        Raises:
            ResetNeeded: before the first `reset`.
        """
        if self._services is None:
            raise ResetNeeded("there is no episode yet: call reset() before snapshot().")
        return Snapshot(
            self._task, self._services.state.world, self._transcript, self._turn, self._attempts, self._steps,
            self._called, self._progress, self._owed, self._passed, self._termination,
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Goes on from a snapshot, also from another environment's."""
        if self._services is None or snapshot.task is not self._task or snapshot.turn != self._turn:
            self._tools = self._offered(snapshot.task, snapshot.turn)
        (self._task, world, self._transcript, self._turn, self._attempts, self._steps, self._called, self._progress,
         self._owed, self._passed, self._termination) = snapshot  # fmt: skip
        if self._services is None:
            self._services = self._serving(world)
        else:
            self._services.state.world = world
        self._failed = False
        self._live = self._termination is None

    def __getstate__(self) -> dict[str, Any]:
        # Tools hold decoders, which cannot be pickled; a snapshot says all that is needed to have them again.
        episode = None if self._services is None else self.snapshot()
        return {**self.__dict__, "_services": None, "_tools": {}, "_episode": episode}

    def __setstate__(self, state: dict[str, Any]) -> None:
        episode = state.pop("_episode")
        self.__dict__.update(state)
        if episode is not None:
            self.restore(episode)

    @property
    def task(self) -> Task:
        """The task that is played."""
        return self._task

    @property
    def world(self) -> World:
        """The agent's world."""
        if self._services is None:
            raise ResetNeeded("there is no episode yet: call reset() first.")
        return self._services.state.world

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools that are offered now, by name; to be read only."""
        return self._tools

    @property
    def turn(self) -> int:
        """The turn that is open, counted from 0."""
        return self._turn

    # ------------------------------------------------------------------ what other kinds of tasks have otherwise

    def _system(self, task: Task) -> str:
        """The first message of the conversation."""
        now = task.world.now
        return _SYSTEM.format(day=now[:10], time=now[11:], calls=describe_format(self.call_format))

    def _serving(self, world: World) -> Services:
        """What runs calls, from now on, over this world."""
        return Services(world)

    def _offered(self, task: Task, turn: int) -> dict[str, Tool]:
        """The tools offered in a turn, by name."""
        return _offered(task, turn)

    def _failed_checks(self, transcript: Transcript) -> tuple[str, ...]:
        """What the open turn fails if it closes now, after this conversation."""
        return failed_checks(self._task, self._turn, self.world, transcript.results(), self._called)

    # ------------------------------------------------------------------ inside a step

    def _run(self, action: str, calls: Sequence[ParsedCall]) -> str:
        """Runs calls in order. A refused one costs an attempt; the others run all the same, while attempts are left."""
        self._called = True
        self._failed = False
        results = []
        for call in calls:
            if self._failed and self._attempts >= self.attempts_per_turn:
                text = self._error("This call was not run: no attempts are left in this turn.")
            else:
                text = self._call(call.name, call.arguments)
            results.append((call.name, text))
        self._transcript = self._transcript.after(action if action.isascii() else _valid(action), results)
        return text if len(results) == 1 else "\n".join([text for _, text in results])

    def _call(self, name: str, arguments: Any) -> str:
        """The result of one call as JSON text, or an error that the policy sees."""
        tool = self._tools.get(name)
        if tool is None:
            return self._fail(name, arguments, None, self._unknown(name))
        try:
            result = self._services.run(tool, tool.decode(arguments))  # type: ignore[union-attr]  # set by reset
        except ToolError as error:
            return self._fail(name, arguments, error, str(error))
        except msgspec.ValidationError as error:
            return self._fail(name, arguments, error, f"{name}: {error}.")
        except msgspec.DecodeError as error:
            return self._fail(name, arguments, error, f"{name}: the arguments are no valid JSON: {error}.")
        return encode_result(result)

    def _fail(self, name: str, arguments: Any, error: Exception | None, message: str) -> str:
        """An error in the environment's own words, or in those of `explain`."""
        if self.explain is not None:
            message = self.explain(Failure(self._tools, name, arguments, error, message))
        return self._error(message)

    def _error(self, message: str) -> str:
        self._attempts += 1
        self._failed = True
        return _encode_error({"error": message}).decode()

    def _refuse(self, action: str, error: CallError) -> str:
        """A message that cannot be read: nothing runs, one attempt is spent, the policy is told why."""
        self._called = True
        result = self._fail("", action, error, str(error))
        self._transcript = self._transcript.after(_valid(action), [("", result)])
        return result

    def _unknown(self, name: str) -> str:
        close = _closest(name[:60], tuple(self._tools))
        hint = f" Did you mean {close}?" if close else ""
        return f"There is no tool {_valid(name[:60])!r} at the moment.{hint}"

    def _close(
        self, action: str | None, observation: str = ""
    ) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Grades the open turn and opens the next."""
        task, turn, transcript = self._task, self._turn, self._transcript
        if action is not None:
            transcript = transcript.plus({"role": "assistant", "content": _valid(action)})
            self._failed = False
        failed = self._failed_checks(transcript)
        reward = self._pay(not failed, not task.turns[turn].calls)
        self._passed = (*self._passed, not failed)
        closed_by = "answer" if action is not None else "attempts"
        self._transcript, self._called, self._attempts = transcript, False, 0
        if turn + 1 == len(task.turns):
            self._end("completed")
        elif failed and self.stop_at_failed_turn:
            self._end("failed_turn")
        else:
            self._turn = turn + 1
            message = task.turns[self._turn].message
            self._transcript = transcript.plus({"role": "user", "content": message})
            observation = f"{observation}\n{message}" if observation else message
            if self._steps >= self.max_steps:
                self._end("step_limit")
        if self._termination is not None and action is not None:
            observation = ""
        info = self._info(not failed, failed, closed_by)
        if self._live and task.turns[self._turn].adds:
            self._tools = self._offered(task, self._turn)
            info["tools"] = self._schemas()
        truncated = self._termination == "step_limit"
        return observation, reward, self._termination is not None and not truncated, truncated, info

    def _pay(self, passed: bool, refrained: bool) -> float:
        """The reward of the turn that closed; what turns of asking are owed is paid with the next turn that has calls.

        Behind the last of those, where nothing can be supplied any more, it is paid at once if that one passed.
        """
        turns = self._task.turns
        share = 1.0 / len(turns)
        if refrained and self.refrain_credit == "with_recovery":
            served = [at for at in range(self._turn) if turns[at].calls]
            if any(turn.calls for turn in turns[self._turn + 1 :]):
                self._owed += share if passed else 0.0
                return 0.0
            passed = passed and bool(served) and self._passed[served[-1]]
        reward = share + self._owed if passed else 0.0
        self._owed = 0.0
        # The sum of N shares is exactly 1 only if it is counted, not added up.
        before = self._progress
        self._progress = round((before + reward) * len(turns)) / len(turns)
        return self._progress - before

    def _end(self, termination: str) -> None:
        self._termination = termination
        self._live = False

    def _info(
        self,
        turn_passed: bool | None = None,
        failed: tuple[str, ...] = (),
        closed_by: str | None = None,
    ) -> dict[str, Any]:
        task = self._task
        return {
            "task_id": task.id,
            "turn": self._turn,
            "turns": len(task.turns),
            "progress": self._progress,
            "turn_passed": turn_passed,
            "failed_checks": failed,
            "closed_by": closed_by,
            "error": self._failed,
            "attempts_left": self.attempts_per_turn - self._attempts,
            "termination": self._termination,
            "messages": self._transcript,
        }

    def _schemas(self) -> list[Message]:
        return [tool.schema for tool in self._tools.values()]

    def _prepare(self, task: Task) -> Task:
        """The task with the distractors; kept, because most tasks are played more than once."""
        known = self._prepared.get(task.id)
        if known is None or known[0] is not task:
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()  # a stream of new tasks must not fill the memory
            known = self._prepared[task.id] = (task, with_distractors(task, self.distractor_apis))
        return known[1]

    def _chosen(self, options: dict[str, Any]) -> Task:
        unknown = sorted(set(options) - {"task"})
        if unknown:
            raise RodsError(f"unknown option {unknown[0]!r}; the only one is 'task'.")
        wanted = options.get("task")
        if wanted is None:
            return self.tasks[int(self.np_random.integers(len(self.tasks)))]
        if isinstance(wanted, Task):
            self._check_playable(wanted)
            return wanted
        index = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
        if index and -len(self.tasks) <= wanted < len(self.tasks):
            return self.tasks[int(wanted)]
        if isinstance(wanted, str) and wanted in self._by_id:
            return self._by_id[wanted]
        raise RodsError(f"expected a Task, a task id or an index below {len(self.tasks)}; got {wanted!r}.")

    def _check_playable(self, task: Task) -> None:
        if self.plays != task.ENVIRONMENT:
            raise RodsError(f"expected tasks for {self.plays}; got {task.id}, which {task.ENVIRONMENT} plays.")


@lru_cache(maxsize=1 << 10)  # a policy makes the same mistake again and again, and comparing names takes its time
def _closest(name: str, offered: tuple[str, ...]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(name, offered, 1)), None)


_OFFERED: dict[tuple[int, tuple[str, ...], tuple[str, ...]], dict[str, Tool]] = {}


def _offered(task: Task, turn: int) -> dict[str, Tool]:
    """The tools offered in a turn, by name; the same dictionary for tasks that offer the same."""
    key = (generation(), task.apis, tuple(name for later in task.turns[turn + 1 :] for name in later.adds))
    if key not in _OFFERED:
        _OFFERED[key] = {name: TOOLS[name] for name in offered_tools(task, turn)}
    return _OFFERED[key]


def _valid(text: str) -> str:
    """The text with lone surrogates replaced, which no message can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
