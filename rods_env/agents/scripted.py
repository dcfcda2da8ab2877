"""Agents without a network: the oracle, one that does nothing, one that calls at random, one that reads everything."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Protocol

import gymnasium as gym
import msgspec
import numpy as np

from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast, Person
from rods_env.apis.registry import TOOLS, Port, Tool
from rods_env.apis.worlds import literal
from rods_env.envs.calls import write_calls
from rods_env.envs.transcript import Message
from rods_env.errors import RodsError

Values = dict[tuple[str, str], list[Any]]


class Agent(Protocol):
    """Anything that answers a conversation. It may also have `begin(task_info)`, called at the start of an episode."""

    def act(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        """The assistant's next message, given the conversation and the tools in the OpenAI chat shape."""
        ...


class Oracle:
    """Plays the gold calls of the environment it is made from, one in a message, and answers where it should ask.

    Args:
        env: the environment that it plays.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env: Any = env.unwrapped
        self._turn = -1
        self._next = 0

    def begin(self, task_info: dict[str, Any]) -> None:
        self._turn, self._next = -1, 0

    def act(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        if self._env.turn != self._turn:
            self._turn, self._next = self._env.turn, 0
        calls = self._env.task.turns[self._turn].calls
        if self._next == len(calls):
            return "Done." if calls else "I am missing something for that. Could you tell me more?"
        call = calls[self._next]
        self._next += 1
        return write_calls([(call.tool, call.arguments)], self._env.call_format)


class DoNothing:
    """Answers every message and calls nothing."""

    def act(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        return "All right."


class RandomCalls:
    """Calls a random tool with values of the right kinds that it has seen, and closes a turn now and then.

    Args:
        seed: seeds its choices; `begin` starts them again from the seed and the task.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._draw = Draw(np.random.default_rng(seed))

    def begin(self, task_info: dict[str, Any]) -> None:
        content = np.frombuffer(task_info["task_id"].encode(), dtype=np.uint8)
        self._draw = Draw(np.random.default_rng([self._seed, *content.tolist()]))

    def act(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        draw = self._draw
        if draw.chance(0.25):
            return "Done."
        seen = seen_values(messages)
        for _ in range(20):
            tool = TOOLS[draw.choice(tools)["function"]["name"]]
            arguments = {p.name: self._value(p, seen, messages) for p in tool.params if p.required}
            if None not in arguments.values():
                return write_calls([(tool.name, arguments)])
        return "Done."

    def _value(self, port: Port, seen: Values, messages: Sequence[Message]) -> Any:
        known = seen.get((port.ref, port.kind))
        if known and (port.ref or self._draw.chance(0.8)):
            return self._draw.choice(known)
        day = next(m["content"] for m in messages if m["role"] == "system")
        today = re.search(r"\d{4}-\d{2}-\d{2}", day)
        people = tuple(Person(name, "nobody@example.com") for name in seen.get(("", "person"), ["Nobody"]))
        return literal(self._draw, port, today[0] if today else "2026-01-01", Cast(people))


class ReadEverything:
    """In every turn calls every read tool with every value of the right kind that it has seen, and changes nothing."""

    def __init__(self) -> None:
        self._done: set[str] = set()

    def begin(self, task_info: dict[str, Any]) -> None:
        self._done = set()

    def act(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        seen = seen_values(messages)
        calls: list[tuple[str, dict[str, Any]]] = []
        for schema in tools:
            tool = TOOLS[schema["function"]["name"]]
            if tool.reads:
                for arguments in self._combinations(tool, seen):
                    key = write_calls([(tool.name, arguments)])
                    if key not in self._done and len(calls) < 20:
                        self._done.add(key)
                        calls.append((tool.name, arguments))
        return write_calls(calls) if calls else "That is what I found."

    def _combinations(self, tool: Tool, seen: Values) -> list[dict[str, Any]]:
        ports = [port for port in tool.params if port.required]
        values = [list(port.choices or port.words[:5] or seen.get((port.ref, port.kind), [])[:12]) for port in ports]
        return [dict(zip((p.name for p in ports), some, strict=True)) for some in product(*values)][:40]


_NAMES = re.compile(r"\b([A-Z][a-z]+ [A-Z][A-Za-z'-]+)\b")
_EMAILS = re.compile(r"\b[\w.]+@[\w.]+\w")


def seen_values(messages: Sequence[Message]) -> Values:
    """All values in the results of a conversation by (reference, kind), and names and addresses in the user's words."""
    found: dict[tuple[str, str], dict[Any, None]] = {}
    for message in messages:
        content = message["content"]
        if message["role"] == "user":
            found.setdefault(("", "person"), {}).update(dict.fromkeys(_NAMES.findall(content)))
            found.setdefault(("", "email"), {}).update(dict.fromkeys(_EMAILS.findall(content)))
        elif message["role"] == "tool" and message["name"] in TOOLS:
            result = msgspec.json.decode(content)
            for row in result if isinstance(result, list) else [result]:
                for port in TOOLS[message["name"]].fields:
                    if port.name in row and (port.ref or port.kind):
                        found.setdefault((port.ref, port.kind), {})[row[port.name]] = None
    return {mark: list(values) for mark, values in found.items() if values}


AGENTS: dict[str, Callable[[gym.Env[Any, Any], int], Agent]] = {
    "oracle": lambda env, seed: Oracle(env),
    "do-nothing": lambda env, seed: DoNothing(),
    "random": lambda env, seed: _typed(env, RandomCalls(seed)),
    "read-everything": lambda env, seed: _typed(env, ReadEverything()),
}


def _typed(env: gym.Env[Any, Any], agent: Agent) -> Agent:
    """An agent that reads the types of this project's own tools, if the environment has such tools."""
    unwrapped: Any = env.unwrapped
    if not unwrapped.typed_tools:
        raise RodsError(f"{type(agent).__name__} needs tools with typed ports; play oracle or do-nothing on BFCL.")
    return agent
