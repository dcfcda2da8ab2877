"""Between a conversation and token ids: what was sampled stays as it was sampled, what is heard is appended.

A `Chat` belongs to a tokenizer and its chat template. `begin` opens a `Dialogue`, the ids of one episode:

    dialogue = chat.begin(info)          # ids of the tools, the system message, the user's, and the assistant's header
    action = dialogue.say(sampled)       # sampled ids are appended as they are; the text goes to the environment
    news = dialogue.hear(info)           # ids of the results or the next user message, and the next header

Nothing is ever decoded and encoded again, and nothing that stands is changed, so the ids of a step begin with the ids
of the step before. This needs a template that renders the beginning of a conversation in the same way however it goes
on; one that does not is refused when the chat is made.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rods_env.agents.compact import CompactChat
from rods_env.apis.registry import TOOLS
from rods_env.envs.transcript import Message
from rods_env.errors import RodsError

_LOG = logging.getLogger(__name__)
_MARK = "⁂said⁂"  # stands for what an assistant said; no template and no task holds it
_PROBES = ("⁂a⁂", ' ⁂"b"<&é>\n\n⁂ ')  # contents that show whether a template changes what it is given
TOOL_DOCS = ("template", "signatures")


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
        from rods_env.envs.calls import write_calls

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
        from rods_env.agents.compact import NO_CALL

        return " ".join(self._chat.call(TOOLS[name], arguments) for name, arguments in calls) or NO_CALL


def year_of(messages: Sequence[Message]) -> str:
    """The current year, which the system message tells."""
    _, _, rest = messages[0]["content"].partition("Today is ")
    return str(rest[:4])


class Chat:
    """A tokenizer with its chat template, checked.

    Args:
        tokenizer: of transformers.
        speech: "plain" or "compact".
        tool_docs: "template": the tools are given to the chat template as JSON schemas; "signatures": one line for each
            tool in the system message, a tenth of the length. A template that knows no tools needs the latter, and gets
            it.
        name: what errors call the template.
        template_options: further variables of the template, such as `enable_thinking`.

    Raises:
        RodsError: if there is no template, or if it changes earlier messages when a conversation goes on.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        speech: str = "plain",
        tool_docs: str = "template",
        name: str | None = None,
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        if speech not in ("plain", "compact"):
            raise RodsError(f"expected a speech from plain, compact; got {speech!r}.")
        if tool_docs not in TOOL_DOCS:
            raise RodsError(f"expected tool_docs from {', '.join(TOOL_DOCS)}; got {tool_docs!r}.")
        self.tokenizer = tokenizer
        self.speech = speech
        self.name = name or str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        self._options = dict(template_options or {})
        if not getattr(tokenizer, "chat_template", None):
            raise RodsError(
                f"the tokenizer of {self.name} has no chat template: use a chat ('instruct') model, or set "
                "tokenizer.chat_template before the chat is made."
            )
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._backend = backend  # ten times as fast as calling the tokenizer
        self._frames: dict[tuple[str, ...], list[str] | None] = {}
        self.knows_tools = self._check_template()
        self.tool_docs = tool_docs if self.knows_tools else "signatures"
        self.end_ids = self.encode(self._after([{"role": "user", "content": "x"}]))[:1]

    # ------------------------------------------------------------------ texts and ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text, special tokens in it recognised and none added."""
        if self._backend is not None:
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""
        return str(
            self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def render(self, messages: Sequence[Message], tools: Sequence[Any] | None = None, *, open_turn: bool = True) -> str:
        """A whole conversation as the template writes it, what assistants said to the letter.

        Args:
            messages: in the policy's words.
            tools: schemas of the tools offered at the beginning.
            open_turn: whether the header of the assistant's next message follows.
        """
        said = [m["content"] for m in messages if m["role"] == "assistant"]
        marked = [{**m, "content": _MARK} if m["role"] == "assistant" else m for m in messages]
        pieces = self._template(marked, tools, open_turn).split(_MARK)
        return "".join(piece + text for piece, text in zip(pieces, [*said, ""], strict=True))

    def begin(self, info: Mapping[str, Any]) -> Dialogue:
        """The dialogue of an episode that was just reset, from the information of the environment."""
        return Dialogue(self, CompactSpeech(info) if self.speech == "compact" else PlainSpeech(), info)

    # ------------------------------------------------------------------ the template

    def _template(self, messages: Sequence[Message], tools: Sequence[Any] | None, open_turn: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                list(messages), tools=list(tools) if tools else None, tokenize=False, add_generation_prompt=open_turn,
                **self._options,
            )
        )  # fmt: skip

    def _after(self, news: Sequence[Message]) -> str:
        """What the template writes after what an assistant said, when these messages follow."""
        base = [{"role": "user", "content": "x"}, {"role": "assistant", "content": _MARK}]
        return self._template([*base, *news], None, True).rpartition(_MARK)[2]

    def after(self, news: Sequence[Message]) -> str:
        """As `_after`, from a frame that is kept for messages of the same roles, where the template changes none."""
        pattern = tuple(f"{m['role']} {m.get('name', '')}" for m in news)
        if pattern not in self._frames:
            self._frames[pattern] = self._frame(news)
        frame = self._frames[pattern]
        if frame is None:
            return self._after(news)
        return "".join(piece + m["content"] for piece, m in zip(frame, news, strict=False)) + frame[-1]

    def _frame(self, news: Sequence[Message]) -> list[str] | None:
        frames = []
        for probe in _PROBES:
            pieces = self._after([{**m, "content": probe} for m in news]).split(probe)
            frames.append(pieces if len(pieces) == len(news) + 1 else None)
        return frames[0] if frames[0] == frames[1] else None

    def _check_template(self) -> bool:
        """Checks that the template keeps what stands. Returns whether it renders tools."""
        call = {"type": "function", "function": {"name": "probe_tool", "description": "d", "parameters": {}}}
        said = f"<think>\n{_MARK}\n</think>\n\n{_MARK}"
        system = [{"role": "system", "content": "s"}]
        if self.speech == "compact":
            system = []
        talk: list[Message] = [*system, {"role": "user", "content": "u"}]
        knows_tools = "probe_tool" in self._template(talk, [call], True)
        tools = [call] if knows_tools else None
        before = self._template(talk, tools, True)
        result = {"role": "tool", "name": "probe_tool", "content": "r"}
        for number, news in enumerate(([result], [result, result], [{"role": "user", "content": "v"}]) * 2):
            text = f"{number} {said}" if number % 2 else said
            talk += [{"role": "assistant", "content": text}, *news]
            now = self._template(talk, tools, True)
            if not now.startswith(before + text):
                raise RodsError(
                    f"the chat template of {self.name} changes earlier messages when a conversation goes on, so what a "
                    "policy said would not be what it is trained on: use a template that keeps them "
                    "(TRL ships training templates: trl.chat_template_utils.get_training_chat_template)."
                )
            before = now
        if any(self._after(n) != self.render([*talk, {"role": "assistant", "content": _MARK}, *n], tools)
               .rpartition(_MARK)[2] for n in ([result], [{"role": "user", "content": "v"}])):  # fmt: skip
            raise RodsError(f"the chat template of {self.name} writes a message differently late in a conversation.")
        return knows_tools


class Dialogue:
    """The token ids of one episode.

    Attributes:
        ids: all ids so far.
        mask: for each id, 1 if it was sampled by the policy, else 0.
        logprobs: for each id, its log-probability when it was sampled; 0 where it was not.
        prompt_length: how many ids stood before the first sampled one.
        conversation: the messages in the policy's words.
        text: the same as a text; `chat.render(conversation, tools)` gives it again.
    """

    def __init__(self, chat: Chat, speech: Speech, info: Mapping[str, Any]) -> None:
        self.chat = chat
        self.speech = speech
        messages = info["messages"]
        self._heard = len(messages)
        self.conversation = speech.messages(messages)
        self.tools: Sequence[Any] | None = info["tools"]
        if chat.tool_docs == "signatures":
            self.conversation = _with_signatures(self.conversation, info["tools"])
            self.tools = None
        self._known = {_name(schema) for schema in info["tools"]}
        self.text = chat.render(self.conversation, self.tools)
        self.ids = chat.encode(self.text)
        self.mask = [0] * len(self.ids)
        self.logprobs = [0.0] * len(self.ids)
        self.prompt_length = len(self.ids)
        self._ended = False

    def fork(self) -> Dialogue:
        """A copy that goes its own way."""
        twin = copy.copy(self)
        twin.ids, twin.mask, twin.logprobs = list(self.ids), list(self.mask), list(self.logprobs)
        twin.conversation, twin._known = list(self.conversation), set(self._known)
        twin.speech = copy.deepcopy(self.speech)
        return twin

    def say(self, ids: Sequence[int], logprobs: Sequence[float]) -> str:
        """Appends what the policy sampled, the end mark included if it was sampled. Returns the action."""
        self.ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs
        self._ended = bool(ids) and ids[-1] in self.chat.end_ids
        said = self.chat.decode(ids[:-1] if self._ended else ids)
        self.conversation.append({"role": "assistant", "content": said})
        self.text += said
        return self.speech.action(said)

    def hear(self, info: Mapping[str, Any]) -> list[int]:
        """Appends what the environment said since, and the header of the next message. Returns the new ids."""
        messages = info["messages"]
        news = self.speech.messages(messages[self._heard + 1 :])  # the first is what the policy said
        self._heard = len(messages)
        fresh = [schema for schema in info.get("tools", ()) if _name(schema) not in self._known]
        if fresh:
            self._known.update(map(_name, fresh))
            at = next(i for i in range(len(news) - 1, -1, -1) if news[i]["role"] == "user")
            news[at] = {**news[at], "content": self._announce(fresh) + news[at]["content"]}
        text = self.chat.after(news)
        ids = self.chat.encode(text)
        if self._ended:
            ids = ids[1:]
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.text += text
        self.conversation += news
        return ids

    def _announce(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """How tools that were not offered before are told to the policy, before what the user says."""
        if self.chat.speech == "compact":
            return f"<tools> {' '.join(map(_name, schemas))} "
        return f"[New tools: {' '.join(map(signature, schemas))}]\n"


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["function"]["name"])


def signature(schema: Mapping[str, Any]) -> str:
    """A tool in a line: `cancel_order(order_id): Cancels an order.`; optional arguments with a question mark."""
    function = schema["function"]
    parameters = function["parameters"]
    required = parameters.get("required", ())
    arguments = ", ".join(name if name in required else name + "?" for name in parameters.get("properties", {}))
    return f"{function['name']}({arguments})"


def _with_signatures(messages: Sequence[Message], schemas: Sequence[Mapping[str, Any]]) -> list[Message]:
    lines = "\n".join(map(signature, schemas))
    told = f"Tools:\n{lines}"
    if messages and messages[0]["role"] == "system":
        return [{**messages[0], "content": f"{messages[0]['content']}\n{told}"}, *messages[1:]]
    return [{"role": "system", "content": told}, *messages]
