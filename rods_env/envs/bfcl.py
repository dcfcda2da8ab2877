"""`BfclEnv`: the tasks of BFCL V3 multi-turn on the simulators of its package; text in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from rods_env.apis.api import World
from rods_env.apis.registry import Services, Tool
from rods_env.bfcl.grading import failed_checks
from rods_env.bfcl.simulators import BfclWorld, Simulators
from rods_env.bfcl.tasks import BfclTask, bfcl_tasks
from rods_env.envs.calls import describe_format
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.envs.transcript import Transcript
from rods_env.tasks.task import Task, load_tasks

_SYSTEM = (
    "You are an assistant who acts for the user by calling tools. {calls} When you have done what the user asked for, "
    "answer without a call. Never make up ids or values. If a request cannot be carried out because a tool is not "
    "offered or a value is missing that only the user knows, say so or ask, and call nothing."
)


class BfclEnv(ToolUseEnv):
    """
    ## Description
    The 800 multi-turn tasks of the Berkeley Function-Calling Leaderboard, V3, in its four categories (`base`,
    `miss_func`, `miss_param`, `long_context`), on the eight simulators that come with the package `bfcl-eval`. All of
    it is read from that package, which is no dependency of this one: docs/bfcl.md says how to install it.

    ## Action Space
    As of `ToolUseEnv`: the assistant's message.

    ## Observation Space
    As of `ToolUseEnv`, but a result is the text that BFCL's own executor makes of it: JSON for a dictionary, what `str`
    gives for other values, `Error during execution: …` where a simulator raises. Calls that never reach a simulator
    (no such function, arguments that do not fit the schema, an unreadable message) are `{"error": "…"}`.

    ## Starting State
    A task drawn uniformly from those of `split` and `categories`, or `reset(options={"task": …})`.

    ## Rewards
    As of `ToolUseEnv`: 1/N for a turn that passes. A turn passes as BFCL's checker has it: something was called, the
    simulators have the state of the gold ones after that turn, and every result of the turn's gold calls is among the
    results so far. A turn without gold calls passes if nothing is called in it.

    ## Episode End
    As of `ToolUseEnv`. A result that is an error of a simulator costs an attempt, like a refused call.

    ## Information
    As of `ToolUseEnv`; `failed_checks` may also hold `silent`: the turn has gold calls, and nothing was called.

    ## Snapshots
    Exact, and nobody can change one that is held. Simulators are copied when they are called, not when a snapshot is
    taken: taking one costs 2 µs (4 µs in a long context), going on from it 1.5 µs, and the first call on a simulator
    after either 3 to 80 µs for a deep copy of that one simulator.

    ## Arguments
    See `__init__`.

    ## Version History
    * v0: initial version
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as gymnasium.Env declares it
    plays = BfclTask.ENVIRONMENT
    typed_tools = False

    def __init__(
        self,
        *,
        split: str = "train",
        categories: Sequence[str] | None = None,
        tasks: str | Sequence[Task] | None = None,
        call_format: str = "any",
        attempts_per_turn: int = 10,
        max_steps: int = 100,
        stop_at_failed_turn: bool = False,
        refrain_credit: str = "with_recovery",
        render_mode: str | None = None,
    ) -> None:
        """Makes an environment.

        Args:
            split: "train" or "test", 100 numbers with their tasks of each category; or "all".
            categories: some of "base", "miss_func", "miss_param", "long_context"; None for all.
            tasks: tasks of BFCL, or their name ("bfcl:test"), to play instead of those that the two above choose.
            call_format: "hermes", "json", "python", or "any" of them.
            attempts_per_turn: failed calls and unreadable messages in a turn, after which it closes.
            max_steps: steps after which an episode is truncated.
            stop_at_failed_turn: whether the first failed turn ends the episode.
            refrain_credit: "with_recovery" or "immediate": when a turn in which the agent could only ask is paid.
            render_mode: None or "ansi".

        Raises:
            RodsError: for a value that is none of these, or if the package `bfcl-eval` is not installed.
        """
        if isinstance(tasks, str):
            tasks = load_tasks(tasks)
        found: Sequence[Task] = bfcl_tasks(split, categories) if tasks is None else tasks
        super().__init__(
            tasks=found, call_format=call_format, attempts_per_turn=attempts_per_turn, max_steps=max_steps,
            stop_at_failed_turn=stop_at_failed_turn, refrain_credit=refrain_credit, render_mode=render_mode,
        )  # fmt: skip

    def _system(self, task: Task) -> str:
        return _SYSTEM.format(calls=describe_format(self.call_format))

    def _serving(self, world: World) -> Services:
        return Simulators(cast(BfclWorld, world))

    def _offered(self, task: Task, turn: int) -> dict[str, Tool]:
        return cast(dict[str, Tool], cast(BfclTask, task).offered(turn))  # what is used of them has the same names

    def _failed_checks(self, transcript: Transcript) -> tuple[str, ...]:
        task, state = cast(BfclTask, self._task), cast(Any, self._services).state
        ran = transcript.calls_since_user() > 0
        return failed_checks(task, self._turn, state.simulators, transcript.results(), self._called, ran)

    def _call(self, name: str, arguments: Any) -> str:
        tool: Any = self._tools.get(name)
        if tool is None:
            return self._fail(name, arguments, None, self._unknown(name))
        try:
            values = tool.decode(arguments)
        except msgspec.ValidationError as error:
            return self._fail(name, arguments, error, f"{name}: {error}.")
        except msgspec.DecodeError as error:
            return self._fail(name, arguments, error, f"{name}: the arguments are no valid JSON: {error}.")
        text, failed = cast(Simulators, self._services).call(tool, values)
        if failed:
            self._attempts += 1
            self._failed = True
        return text
