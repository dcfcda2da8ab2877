"""How a policy is told what the environment says, and how it is understood: chat models, and tiny ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rods_env.agents.compact import NO_CALL, CompactChat
from rods_env.apis.registry import TOOLS
from rods_env.envs.calls import write_calls
from rods_env.envs.transcript import Message
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

SPEECHES = ("plain", "compact", "calls")
# Whose words a tiny policy knows: the environment, and what errors call its tasks.
_PLAYS = {
    "compact": (Task.ENVIRONMENT, "this project's own services"),
    "calls": ("ToolUse-BFCL-v0", "BFCL's functions"),
}
RESULT_SHOWN = 200  # characters of a result; those of long contexts have up to 31,706


class Speech(Protocol):
    """The language of one episode: how a policy is told what the environment says, and how it is understood."""

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        """The environment's messages in the policy's words."""

    def action(self, said: str) -> str:
        """What the policy said, in the environment's words."""

    def calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """Calls as the policy should say them, or, for none, the answer that closes a turn."""


class PlainSpeech:
    """The language of chat models: nothing is changed; calls are written as the environment reads them."""

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    def action(self, said: str) -> str:
        return said

    def calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        return write_calls(calls) if calls else "Done."


class CompactSpeech:
    """The language of tiny policies (`CompactChat`): no system message, one call in a message."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        self._chat = CompactChat(year_of(info["messages"]))

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        return [self._chat.message(message) for message in messages if message["role"] != "system"]

    def action(self, said: str) -> str:
        return self._chat.action(said)

    def calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        return " ".join(self._chat.call(TOOLS[name], arguments) for name, arguments in calls) or NO_CALL


class CallSpeech:
    """The language of tiny policies that play BFCL: Python calls as the environment reads them, long results cut off,
    no system message."""

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        return [_shortened(message) for message in messages if message["role"] != "system"]

    def action(self, said: str) -> str:
        return said

    def calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        written = write_calls(calls, "python") if calls else f"[{NO_CALL}]"
        return written[1:-1] if len(calls) < 2 else written


def _shortened(message: Message) -> Message:
    content = message["content"]
    if message["role"] != "tool" or len(content) <= RESULT_SHOWN:
        return message
    return {**message, "content": content[:RESULT_SHOWN] + "…"}


def make_speech(kind: str, info: Mapping[str, Any]) -> Speech:
    """The speech of an episode that was just reset; `kind` is one of `SPEECHES`."""
    if kind == "plain":
        return PlainSpeech()
    return CompactSpeech(info) if kind == "compact" else CallSpeech()


def check_words(kind: str, name: str, tasks: Iterable[Task]) -> None:
    """Checks that a policy that speaks so has words for these tasks.

    Raises:
        RodsError: if it is a tiny one, and a task is not of the services whose words it knows.
    """
    if kind not in _PLAYS:
        return
    environment, services = _PLAYS[kind]
    foreign = next((task for task in tasks if environment != task.ENVIRONMENT), None)
    if foreign is not None:
        raise RodsError(
            f"the policy {name} has words for {services} only, and {foreign.id} is a task of {foreign.ENVIRONMENT}: "
            "choose a chat model (--preset smollm2, or --policy OWNER/NAME)."
        )


def year_of(messages: Sequence[Message]) -> str:
    """The current year, which the system message tells."""
    _, _, rest = messages[0]["content"].partition("Today is ")
    return str(rest[:4])


def tool_name(schema: Mapping[str, Any]) -> str:
    """The name in a tool's schema."""
    return str(schema["function"]["name"])


def signature(schema: Mapping[str, Any]) -> str:
    """A tool in a line: `cancel_order(order_id): Cancels an order.`; optional arguments with a question mark."""
    function = schema["function"]
    parameters = function["parameters"]
    required = parameters.get("required", ())
    arguments = ", ".join(name if name in required else name + "?" for name in parameters.get("properties", {}))
    return f"{function['name']}({arguments})"


def with_signatures(messages: Sequence[Message], schemas: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages with a line for each tool at the end of the system message."""
    lines = "\n".join(map(signature, schemas))
    told = f"Tools:\n{lines}"
    if messages and messages[0]["role"] == "system":
        return [{**messages[0], "content": f"{messages[0]['content']}\n{told}"}, *messages[1:]]
    return [{"role": "system", "content": told}, *messages]
