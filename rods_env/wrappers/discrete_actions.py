"""`DiscreteActions`: the valid calls of a state as a discrete space with a mask, for classic RL and small networks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium.error import ResetNeeded

from rods_env.apis.registry import TOOLS
from rods_env.envs.calls import CallError, parse_calls, write_calls
from rods_env.envs.candidates.facts import COLUMNS, HIGHEST
from rods_env.envs.candidates.layout import WIDTH
from rods_env.envs.candidates.reading import BUCKETS
from rods_env.envs.candidates.seen import Seen
from rods_env.envs.candidates.signatures import signatures
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.envs.transcript import Message
from rods_env.errors import RodsError
from rods_env.tasks.validation import offered_tools

Observation = dict[str, np.ndarray[Any, Any]]

_MOST = 255
_DAY = re.compile(r"(\d{4})-\d{2}-\d{2}")


class DiscreteActions(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """
    ## Description
    A `ToolUseEnv` for agents that choose among numbered actions. Action 0 answers and so closes the turn; the others
    are the calls that are possible now: every offered tool with every combination of values that fit its parameters.
    They follow from what a policy sees, and from nothing else: messages, results, and the signatures of the tools.

    * An id comes out of a result that showed an id of the same kind of thing.
    * Other values come out of the present message or the one before: dates, times, numbers with their units, e-mail
      addresses, what is quoted, and the words of choices and kinds ("urgent", "Oslo"). People may have been named in
      any message.
    * A plain value comes out of a result if one of these two messages names its field ("its origin"), and the e-mail
      address of a person always.
    * No value stands twice in a call. A tool that lacks a value for a required argument cannot be called.
    * Of the ids that these two messages do not describe, only those that were shown last are kept once there are more
      than a few; of all values of a kind at most 16, and at most 64 calls of a tool. If there are still too many, the
      tools that have most lose theirs first.

    ## Action Space
    `Discrete(max_actions)`. `info["action_mask"]` and `action_masks()` say which are valid. An invalid action is no
    exception: it is written as a call of a tool that does not exist, which the environment answers with an error, and
    one attempt is spent. What the agent did stands in `info["messages"]` as if a text policy had written it.

    ## Observation Space
    A `Dict` of arrays. M is `max_actions`, T the number of registered tools.

    | key | shape | meaning |
    |---|---|---|
    | `tool` | (M,) uint16 | the tool of each action, by name from 1; 0 for the answer (row 0) and for no action |
    | `arguments` | (M, 4, 8) uint8 | what is known of the arguments of each action, in order: see below |
    | `made` | (M,) uint8 | whether the same call was made before in this episode |
    | `offered` | (T,) uint8 | whether each tool is offered in this turn |
    | `called` | (T,) uint8 | how often each tool was called in this turn |
    | `words` | (2, 256) uint8 | counts of the words of the present message and of the one before |
    | `state` | (5,) uint8 | turn, attempts left, results so far, rows of the last one, whether the last call failed |

    A word that is not quoted counts at `crc32(word in lower case) % 256`. Eight numbers are known of an argument:

    0. its origin: 0 there is no such parameter, 1 it is left to its default, 2 it was only in results, 3 said in an
       earlier message, 4 in the message before, 5 in the present one (a person also by first name or as "me");
    1. its place among the values of its kind that the present message gives, from 1; or 0;
    2. how many results ago it was shown last, 1 for the last result; or 0;
    3. the row of that result in which it stands, from 1 (at most 31);
    4. how many rows that result has (at most 31);
    5. in how many results it was shown (at most 15);
    6. how many fields of its row these two messages give ("my *open* order for the *blue lamp*"; at most 15);
    7. whether they ask for the least or the greatest of a list ("the *cheapest*"), and its row is that.

    Counts stop at 255.

    ## Starting State
    As in the environment inside.

    ## Rewards
    As in the environment inside.

    ## Episode End
    As in the environment inside. Then no tool is offered any more, and only the answer is valid.

    ## Information
    As in the environment inside; and `action_mask`, (M,) int8, and `candidates_dropped`, the calls that were left out
    because there were more than 64 of a tool or M in all.

    ## Arguments
    See `__init__`.

    ## Version History
    * v0: initial version
    """

    def __init__(self, env: gym.Env[str, str], max_actions: int = 256) -> None:
        """Wraps an environment.

        Args:
            env: a `ToolUseEnv`, also within wrappers that leave actions and observations texts.
            max_actions: the number of actions.

        Raises:
            RodsError: if there is no `ToolUseEnv` inside, or `max_actions` is no integer of at least 2.
        """
        gym.utils.RecordConstructorArgs.__init__(self, max_actions=max_actions)
        super().__init__(env)
        if not isinstance(env.unwrapped, ToolUseEnv) or not env.unwrapped.typed_tools:
            raise RodsError(
                "DiscreteActions expected a ToolUseEnv on this project's services, bare or within wrappers; "
                f"got {env.unwrapped}."
            )
        if not isinstance(max_actions, int) or isinstance(max_actions, bool) or max_actions < 2:
            raise RodsError(f"max_actions must be an integer of at least 2; got {max_actions!r}.")
        self.max_actions = max_actions
        self.action_space = gym.spaces.Discrete(max_actions)
        self.observation_space = _space(max_actions)
        self._tools = len(signatures().names)
        self._base: ToolUseEnv = env.unwrapped
        self._tagged = self._base.call_format in ("any", "hermes")
        self._seen: Seen | None = None

    # ------------------------------------------------------------------ the Gymnasium interface

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode, as the environment inside does."""
        _, info = self.env.reset(seed=seed, options=options)
        return self._observation(self._follow(info["tools"], info["messages"]), info), info

    def step(self, action: int) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Makes the call of this number, or answers.

        Raises:
            ResetNeeded: before `reset`, or after the end of an episode.
            RodsError: for what is no member of the action space.
        """
        seen, row = self._seen, action if type(action) is int else self._number(action)
        if seen is None:
            raise ResetNeeded("there is no episode yet: call reset() before step().")
        if 0 < row <= seen.calls.size:
            name, call = seen.make(row)
            if self._tagged and "<" not in call:
                text = f"<tool_call>{call}</tool_call>"  # what `write_calls` writes, in a tenth of the time
            else:
                text = write_calls([seen.call(row)], self._base.call_format)
        else:
            name, text = "", self._without_call(row)
        result, reward, terminated, truncated, info = self.env.step(text)
        if info["error"]:
            seen.fail()
        elif name:
            seen.see(name, result)
        if "tools" in info:
            seen = self._follow(info["tools"], info["messages"])
        elif info["closed_by"] is not None and info["messages"][-1]["role"] == "user":
            seen.hear(info["messages"][-1]["content"])
        if terminated or truncated:
            seen.end()
        return self._observation(seen, info), reward, terminated, truncated, info

    def action_masks(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which actions are valid, shape `(max_actions,)`: what sb3-contrib's MaskablePPO asks for.

        Raises:
            ResetNeeded: before `reset`.
        """
        return self._mask(self._begun().calls.size).astype(np.bool_)

    # ------------------------------------------------------------------ actions and calls

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The tool and the arguments of each valid action from 1 on.

        Raises:
            ResetNeeded: before `reset`.
        """
        seen = self._begun()
        return [seen.call(row) for row in range(1, seen.calls.size + 1)]

    def action_of(self, name: str, arguments: Mapping[str, Any]) -> int | None:
        """The action that makes this call, or None if none does. For demonstrations: `Oracle` knows the gold calls.

        Raises:
            ResetNeeded: before `reset`.
        """
        return self._begun().find(name, arguments)

    def refresh(self) -> tuple[Observation, dict[str, Any]]:
        """Looks at the conversation again, after `env.unwrapped.restore(snapshot)`.

        Returns:
            The observation of this state, and `action_mask` and `candidates_dropped`.

        Raises:
            ResetNeeded: if the environment has no episode.
        """
        snapshot = self._base.snapshot()
        tools = [TOOLS[name].schema for name in offered_tools(snapshot.task, snapshot.turn)]
        seen = self._follow(tools, snapshot.transcript)
        if snapshot.termination is not None:
            seen.end()
        info: dict[str, Any] = {"attempts_left": self._base.attempts_per_turn - snapshot.attempts}
        observation = self._observation(seen, info)
        return observation, {key: info[key] for key in ("action_mask", "candidates_dropped")}

    def take_over(self, other: DiscreteActions) -> None:
        """Goes on from where another environment stands, which may go on by itself: a tenth of the time of `refresh`.

        Raises:
            ResetNeeded: if the other has no episode.
            RodsError: if it has another number of actions.
        """
        if other.max_actions != self.max_actions:
            raise RodsError(f"expected an environment of {self.max_actions} actions; got {other.max_actions}.")
        seen = other._begun().copy()
        self._base.restore(other._base.snapshot())
        self._seen = seen

    def __getstate__(self) -> dict[str, Any]:
        # What tools are made of cannot be pickled; the conversation says all that is needed to have it again.
        return {**self.__dict__, "_seen": self._seen is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        begun, self._seen = self._seen, None
        if begun:
            self.refresh()

    # ------------------------------------------------------------------ inside

    def _begun(self) -> Seen:
        if self._seen is None:
            raise ResetNeeded("there is no episode yet: call reset() first.")
        return self._seen

    def _number(self, action: Any) -> int:
        """An action that is no plain `int`."""
        if isinstance(action, np.ndarray) and action.shape == ():
            action = action[()]
        if isinstance(action, (int, np.integer)) and not isinstance(action, bool):
            return int(action)
        raise RodsError(f"expected an action as an integer from 0 to {self.max_actions - 1}; got {action!r}.")

    def _without_call(self, row: int) -> str:
        """What is written for an action that makes none of the calls."""
        if row == 0:
            called = any(self._begun().called)
            return "Done." if called else "I am missing something for that. Could you tell me more?"
        if not 0 < row < self.max_actions:
            raise RodsError(f"expected an action from 0 to {self.max_actions - 1}; got {row}.")
        return write_calls([(f"action_{row}", {})], self._base.call_format)

    def _follow(self, tools: Sequence[Message], messages: Sequence[Message]) -> Seen:
        """Goes through a conversation from its beginning."""
        day, call_format = _DAY.search(messages[0]["content"]), self._base.call_format
        names = [schema["function"]["name"] for schema in tools]
        seen = Seen(names, day[1] if day else "", self.max_actions)
        if len(seen.offered) != self._tools:
            raise RodsError("tools were registered since this environment was made: make it anew.")
        self._seen = seen
        for message in messages[1:]:
            content = message["content"]
            if message["role"] == "user":
                seen.hear(content)
            elif message["role"] == "assistant":
                seen.update()  # as there was an observation before it: calls keep the order in which they appeared
                for name, arguments in _calls(content, call_format):
                    seen.made(name, arguments)
            elif content.startswith('{"error":'):
                seen.fail()
            else:
                seen.see(message["name"], content)
        return seen

    def _observation(self, seen: Seen, info: dict[str, Any]) -> Observation:
        """The observation; the mask and the number of calls left out go into the information."""
        seen.update()
        calls = seen.calls
        info["action_mask"] = self._mask(calls.size)
        info["candidates_dropped"] = calls.dropped
        attempts, results = info["attempts_left"], seen.results
        state = bytearray(5)  # quicker than a list of numbers
        state[0] = seen.turn if seen.turn < _MOST else _MOST
        state[1] = attempts if attempts < _MOST else _MOST
        state[2] = results if results < _MOST else _MOST
        state[3] = seen.rows if seen.rows < _MOST else _MOST
        state[4] = seen.failed
        return {
            "tool": calls.tools.copy(),
            "arguments": calls.known.copy(),
            "made": calls.made(),
            "offered": seen.offered.copy(),
            "called": np.frombuffer(seen.called[:], np.uint8),
            "words": seen.words.copy(),
            "state": np.frombuffer(state, np.uint8),
        }

    def _mask(self, calls: int) -> np.ndarray[Any, np.dtype[np.int8]]:
        mask = np.zeros(self.max_actions, np.int8)
        mask[: calls + 1] = 1
        return mask


def _space(actions: int) -> gym.spaces.Dict:
    """The space of observations with so many actions."""

    def counts(highest: int, *shape: int) -> gym.spaces.Box:
        return gym.spaces.Box(0, highest, shape, np.uint8)

    tools = len(signatures().names)
    highest = np.broadcast_to(np.array(HIGHEST, np.uint8), (actions, WIDTH, COLUMNS))
    return gym.spaces.Dict(
        {
            "tool": gym.spaces.Box(0, tools, (actions,), np.uint16),
            "arguments": gym.spaces.Box(np.zeros_like(highest), highest, dtype=np.uint8),
            "made": counts(1, actions),
            "offered": counts(1, tools),
            "called": counts(_MOST, tools),
            "words": counts(_MOST, 2, BUCKETS),
            "state": counts(_MOST, 5),
        }
    )


def _calls(text: str, call_format: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that an assistant's message holds; none if it cannot be read."""
    try:
        return [(call.name, msgspec.json.decode(call.arguments)) for call in parse_calls(text, call_format)]
    except CallError:
        return []


def make_discrete(max_actions: int = 256, **kwargs: Any) -> DiscreteActions:
    """What `gym.make("ToolUse-RODS-Discrete-v0")` makes.

    Args:
        max_actions: of `DiscreteActions`.
        kwargs: of `ToolUseEnv`.
    """
    return DiscreteActions(ToolUseEnv(**kwargs), max_actions)
