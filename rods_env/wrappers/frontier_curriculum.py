"""`FrontierCurriculum`: an environment whose tasks a curriculum chooses, group by group."""

from __future__ import annotations

import inspect
from typing import Any, SupportsFloat, TypeVar

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from rods_env.curricula.base import Curriculum
from rods_env.curricula.groups import Groups, Ticket
from rods_env.curricula.server import CurriculumClient
from rods_env.errors import RodsError

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")

_GROUP_SIZE = 16  # rollouts of a task, as in RODS (arXiv 2606.19047)
_ROUNDING = 1e-9  # by how much a sum of rewards may miss [0, 1]


class FrontierCurriculum(gym.Wrapper[ObsType, ActType, ObsType, ActType], RecordConstructorArgs):
    """Plays each task `group_size` times and tells the curriculum what the episodes returned.

    It works for any environment whose `reset(options={"task": …})` plays a task and says so in `info["task_id"]`, and
    whose rewards sum up to a return in [0, 1]. Nothing else is asked of the agent:

    ```python
    import gymnasium as gym
    import numpy as np
    import rods_env
    from rods_env.agents.scripted import Oracle
    from rods_env.wrappers import FrontierCurriculum

    env = FrontierCurriculum(gym.make("ToolUse-RODS-v0"), group_size=8)
    agent, rng = Oracle(env), np.random.default_rng(0)  # an agent that knows what to do nine times out of ten
    for _ in range(512):
        _, info = env.reset()
        agent.begin(info)
        while info["termination"] is None:
            *_, info = env.step(agent.act([], []) if rng.random() < 0.9 else "I give up.")
    shown = "groups_total", "distinct_seeds", "mean_return", "zero_variance_share", "frontier_share"
    print({key: round(value, 2) for key, value in env.metrics().items() if key in shown})
    ```

    `reset()` takes the next episode of the curriculum, and first hands back one that has not ended; the end of an
    episode reports its return; a complete group goes to the curriculum. An error of the environment is no return of 0:
    the episode is handed out again and the error passes on. `reset(options={"task": …})` plays a task of one's own
    outside of the curriculum.

    While an episode is the curriculum's, `info["curriculum"]` holds: `generation` (0 for a seed), `parent` (the id of
    the task it is a variant of, or None), `group` (counted over the run), `member` (from 0), and `on_frontier` (whether
    the curriculum took the task to be there when it chose it).

    What ends episodes or changes rewards, such as `TimeLimit`, belongs inside: this wrapper sees neither what a wrapper
    around it cuts off, nor an episode that one below it begins (`Autoreset` belongs around it).
    """

    def __init__(
        self,
        env: gym.Env[ObsType, ActType],
        curriculum: Curriculum | Groups | CurriculumClient | None = None,
        *,
        group_size: int = _GROUP_SIZE,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        """Wraps an environment.

        Args:
            env: the environment.
            curriculum: None makes a `Frontier` over `env.unwrapped.tasks`, and a `Curriculum` gets `Groups` of its own:
                both for one environment. `Groups` are for several environments of a process, and
                `CurriculumServer.client()` for the workers of an `AsyncVectorEnv`.
            group_size: episodes of a group, at least 2.
            seed: seeds the `Frontier` that is made.
            settings: further arguments of `Frontier`.

        Raises:
            RodsError: if the environment has no tasks or takes none, as far as that can be told before it is reset, or
                if `seed`, `settings` or `group_size` contradict the curriculum that is given.
        """
        recorded = {"curriculum": curriculum, "group_size": group_size, "seed": seed, **settings}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **recorded)  # a curriculum is shared, not copied
        gym.Wrapper.__init__(self, env)
        parameters = inspect.signature(env.unwrapped.reset).parameters.values()
        if not any(p.name == "options" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise RodsError(
                f"expected that reset(options={{'task': …}}) plays a task; the reset of {env} has no options."
            )
        self.groups = self._made_or_given(curriculum, group_size, seed, settings)
        self._ticket: Ticket | None = None
        self._about: dict[str, Any] = {}
        self._return = 0.0
        self._live = False

    @property
    def curriculum(self) -> Curriculum | None:
        """The curriculum, or None if it stands in another process."""
        return None if isinstance(self.groups, CurriculumClient) else self.groups.curriculum

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # read-only, as in gymnasium.Wrapper
        """As Gymnasium has it: `gym.make(env.spec)` makes the environment again, unless a live curriculum was given."""
        spec = super().spec
        if spec is not None and isinstance(self._saved_kwargs["curriculum"], (Curriculum, Groups)):
            spec.additional_wrappers[-1].kwargs = None  # how Gymnasium says that a wrapper cannot be made again
        return spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Begins the next episode of the curriculum; one that has not ended is handed back first.

        Args:
            seed: seeds the environment; the curriculum has its own seed.
            options: of the environment. `{"task": …}` plays that task outside of the curriculum.

        Raises:
            RodsError: if the environment did not play the task, or the server of the curriculum has ended.
        """
        self._give_back()
        if options is not None and options.get("task") is not None:
            began = self.env.reset(seed=seed, options=options)
            self._live = True
            return began
        ticket = self._ticket = self.groups.take()
        task, origin = ticket.task, ticket.origin
        try:
            observation, info = self.env.reset(seed=seed, options={**(options or {}), "task": task})
            if info.get("task_id") != task.id:
                raise RodsError(
                    f"expected that {self.unwrapped} plays the task of reset(options={{'task': …}}) and says so by "
                    f"info['task_id'] = {task.id!r}; got {info.get('task_id', 'no such key')!r}."
                )
        except BaseException:
            self._give_back()
            raise
        self._live, self._return = True, 0.0
        self._about = {
            "generation": origin.generation,
            "parent": origin.parent,
            "group": ticket.group,
            "member": ticket.member,
            "on_frontier": origin.on_frontier,
        }
        info["curriculum"] = self._about
        return observation, info

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes a step; the last one of an episode reports the return.

        Raises:
            ResetNeeded: before `reset`, and after the end of an episode or an error in it.
            RodsError: at the end of an episode whose return is not in [0, 1].
        """
        if not self._live:
            raise ResetNeeded("the episode has ended, failed or not begun: call reset() before step().")
        try:
            reply = self.env.step(action)
        except BaseException:
            self._give_back()
            raise
        _, reward, terminated, truncated, info = reply
        self._live = not (terminated or truncated)
        if self._ticket is not None:
            info["curriculum"] = self._about
            self._return += float(reward)
            if not self._live:
                self._report(self._ticket.number)
        return reply

    def metrics(self) -> dict[str, float]:
        """The metrics of the curriculum, flat: what is played, what the pool holds, what was injected and retired."""
        return self.groups.metrics()

    def close(self) -> None:
        """Hands an episode that has not ended back, and closes the environment."""
        try:
            self._give_back()
        finally:
            super().close()

    def _give_back(self) -> None:
        ticket, self._ticket, self._live = self._ticket, None, False
        if ticket is not None:
            self.groups.give_back(ticket.number)

    def _report(self, number: int) -> None:
        if not -_ROUNDING <= self._return <= 1 + _ROUNDING:  # also if it is NaN
            self._give_back()
            raise RodsError(
                f"expected the rewards of an episode to sum up to a return in [0, 1]; {self.unwrapped} returned "
                f"{self._return}. Scale them by a wrapper inside of FrontierCurriculum."
            )
        self._ticket = None
        self.groups.report(number, min(max(self._return, 0.0), 1.0))

    def _made_or_given(
        self, curriculum: Any, group_size: int, seed: int, settings: dict[str, Any]
    ) -> Groups | CurriculumClient:
        """The groups that are given, or those of the curriculum that is given or made."""
        if curriculum is None:
            tasks = getattr(self.unwrapped, "tasks", None)
            if tasks is None:
                raise RodsError(f"expected a curriculum, or an environment with `tasks`; {self.unwrapped} has none.")
            from rods_env.curricula.frontier import Frontier  # with it comes all that makes tasks

            return Groups(Frontier(tasks, seed=seed, **settings), group_size)
        kind = type(curriculum).__name__
        if not isinstance(curriculum, (Curriculum, Groups, CurriculumClient)):
            raise RodsError(f"expected None, a Curriculum, Groups or a CurriculumClient as the curriculum; got {kind}.")
        if seed or settings:
            raise RodsError(
                f"{', '.join(settings) or 'seed'}: expected only without a curriculum, for the Frontier that is made "
                f"then; got a {kind} too. Pass it where that is made."
            )
        if isinstance(curriculum, Curriculum):
            return Groups(curriculum, group_size)
        if group_size not in (_GROUP_SIZE, curriculum.group_size):
            raise RodsError(f"group_size: expected that of the groups, {curriculum.group_size}; got {group_size}.")
        return curriculum
