"""`AugmentedFeedback`: error messages that say what a call has to be like and which tools supply what it lacks."""

from __future__ import annotations

import gymnasium as gym

from rods_env.envs.feedback import explain
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.errors import RodsError


class AugmentedFeedback(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Words the errors of a `ToolUseEnv` so that they help: the environment augmentation that curricula compare with.

    "There is no order with the id 'lamp'." goes on with "Order ids look like ord_k0v9x and come from list_orders or,
    for a new order, place_order." Only tools that are offered in the turn are named. What is added follows from their
    signatures and from what the policy wrote (`rods_env.envs.feedback`), not from the world or the gold calls.
    Observations, `info["messages"]` and snapshots carry the same text. Rewards, attempts and worlds are
    those of the environment without the wrapper.

    The environment inside is changed: its errors read so from now on, however it is stepped.
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        """Wraps an environment.

        Args:
            env: a `ToolUseEnv`, also within other wrappers.

        Raises:
            RodsError: if there is no `ToolUseEnv` inside, or one on BFCL's simulators.
        """
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, ToolUseEnv) or not inner.typed_tools:
            raise RodsError(
                "AugmentedFeedback expected a ToolUseEnv on this project's services, bare or within wrappers; "
                f"got {inner}."
            )
        inner.explain = explain
