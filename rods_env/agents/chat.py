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
import datetime
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rods_env.agents.speech import (
    SPEECHES,
    CompactSpeech,
    PlainSpeech,
    Speech,
    check_words,
    make_speech,
    signature,
    tool_name,
    with_signatures,
)
from rods_env.envs.transcript import Message
from rods_env.errors import RodsError
from rods_env.tasks.task import Task

__all__ = ["TOOL_DOCS", "Chat", "CompactSpeech", "Dialogue", "PlainSpeech", "Speech", "signature"]

_MARK = "⁂said⁂"  # stands for what an assistant said
_CUT = "⁂cut⁂"  # where a special token in a content is cut in two
# Contents, numbered at the %, that show whether a template changes what it is given.
_PROBES = ("⁂%⁂", ' \n⁂%"b"<&é>\\\n\n⁂ \t', "", "%", "<tool_response>%</tool_response>", '{"a": [%]}', "</think>%")
_MOST_FRAMED = 24  # messages between two of the policy's; more than this is rare
_MOST_OPENINGS = 64
_MOST_TEXTS = 1 << 12  # the members of a group hear much the same
TOOL_DOCS = ("template", "signatures")


class Chat:
    """A tokenizer with its chat template, checked.

    What a message of the environment holds is text and nothing else: a special token spelled in it, `<|im_end|>` in a
    result, say, is read as the letters that it is made of, so that nobody closes a message but the template.

    Args:
        tokenizer: of transformers.
        speech: "plain", of chat models; of tiny policies "compact", or "calls" for BFCL.
        tool_docs: "template": the tools are given to the chat template as JSON schemas; "signatures": one line for each
            tool in the system message, a tenth of the length. A template that knows no tools needs the latter, and gets
            it; tiny policies know no system message, and need the former.
        name: what errors call the template.
        template_options: further variables of the template, such as `enable_thinking`. `date_string`, which Llama's
            templates would ask the clock for, is the day of the task unless it is given here.

    Attributes:
        end_ids: the token that ends a message.
        knows_tools: whether the template renders tools.
        tool_docs: as it was given, or "signatures" for a template that knows no tools.

    Raises:
        RodsError: if there is no template, or one that changes earlier messages when a conversation goes on, that
            refuses results of tools, or that ends messages without a token for it; for signatures in the speech of a
            tiny policy.
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
        if speech not in SPEECHES:
            raise RodsError(f"expected a speech from {', '.join(SPEECHES)}; got {speech!r}.")
        if tool_docs not in TOOL_DOCS:
            raise RodsError(f"expected tool_docs from {', '.join(TOOL_DOCS)}; got {tool_docs!r}.")
        self.tokenizer = tokenizer
        self.speech = speech
        self.name = name or str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        if tool_docs == "signatures" and speech != "plain":  # they would stand in a system message
            raise RodsError(
                f"tool_docs=signatures is for chat models; the policy {self.name} is a tiny one, and told of tools in "
                "words of its own: leave tool_docs at template."
            )
        self._options = dict(template_options or {})
        if not getattr(tokenizer, "chat_template", None):
            raise RodsError(
                f"the tokenizer of {self.name} has no chat template: use a chat ('instruct') model, or set "
                "tokenizer.chat_template before the chat is made."
            )
        self._backend = _backend(tokenizer)
        self._encoded = lru_cache(maxsize=_MOST_TEXTS)(self._encode)
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {token.content for token in added.values() if token.special and len(token.content) > 1}
        pattern = "|".join(map(re.escape, sorted(special))) or r"(?!)"
        self._special, self._overlapping = re.compile(pattern), re.compile(f"(?={pattern})")
        self._frames: dict[tuple[str, ...], list[str] | None] = {}
        self._openings: dict[Any, tuple[str, Sequence[int]]] = {}
        from jinja2 import TemplateError

        try:
            self.knows_tools = self._check_template()
        except TemplateError as error:
            raise RodsError(
                f"the chat template of {self.name} refuses a conversation with tools: {error}. Use a model whose "
                "template takes system messages and results of tools."
            ) from error
        self.tool_docs = tool_docs if self.knows_tools else "signatures"
        self.end_ids = self.encode(self._after([{"role": "user", "content": "x"}]))[:1]
        if self.end_ids[0] not in added:
            raise RodsError(
                f"the chat template of {self.name} ends a message with {self.decode(self.end_ids)!r}, which is no "
                "special token, so that nobody could tell when a policy has finished: add the end mark to the "
                "tokenizer as a special token."
            )

    # ------------------------------------------------------------------ texts and ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text, special tokens in it recognised and none added."""
        return list(self._encoded(text))

    def _encode(self, text: str) -> tuple[int, ...]:
        if self._backend is not None:
            return tuple(self._backend.encode(text, add_special_tokens=False).ids)
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""
        if self._backend is not None:
            return str(self._backend.decode(list(ids), skip_special_tokens=False))
        return str(
            self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def written(
        self, messages: Sequence[Message], write: Callable[[Sequence[Message]], str]
    ) -> tuple[str, list[int]]:
        """The text and the ids of messages of the environment, special tokens of the template's alone recognised.

        Args:
            messages: what is said.
            write: how the template writes messages; `after`, say.
        """
        if not any(self._special.search(m["content"]) or self._special.search(m.get("name", "")) for m in messages):
            text = write(messages)
            return text, self.encode(text)
        # Special tokens in contents are cut in two; the pieces between the cuts are encoded one by one.
        cut = _unused(_CUT, messages)

        def apart(text: str) -> str:
            at = [match.start() + 1 for match in self._overlapping.finditer(text)]
            return cut.join(text[i:j] for i, j in zip([0, *at], [*at, len(text)], strict=True))

        marked = [{k: v if k == "role" else apart(v) for k, v in m.items()} for m in messages]
        pieces = write(marked).split(cut)
        return "".join(pieces), [token for piece in pieces for token in self.encode(piece)]

    def opening(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> tuple[str, Sequence[int]]:
        """The text and the ids of the beginning of an episode; kept, because the episodes of a group begin alike."""
        key = (tuple([(m["role"], m["content"]) for m in messages]), tuple(map(tool_name, tools or ())))
        known = self._openings.pop(key, None)
        if known is None:
            known = self.written(messages, lambda some: self.render(some, tools))
            if len(self._openings) >= _MOST_OPENINGS:
                del self._openings[next(iter(self._openings))]  # the one that was not used for the longest time
        self._openings[key] = known
        return known

    def render(self, messages: Sequence[Message], tools: Sequence[Any] | None = None, *, open_turn: bool = True) -> str:
        """A whole conversation as the template writes it, what assistants said to the letter behind their headers.

        Where a template would itself put something before what was said, as Qwen3's does with an empty
        `<think>` block, it is left out: whatever stands behind a header was said.

        Args:
            messages: in the policy's words.
            tools: schemas of the tools offered at the beginning.
            open_turn: whether the header of the assistant's next message follows.
        """
        mark = _unused(_MARK, messages)
        said = [m["content"] for m in messages if m["role"] == "assistant"]
        marked = [{**m, "content": mark} if m["role"] == "assistant" else m for m in messages]
        pieces = self._template(marked, tools, open_turn).split(self._lead + mark)
        if len(pieces) != len(said) + 1:
            raise self._edits()
        return "".join(piece + text for piece, text in zip(pieces, [*said, ""], strict=True))

    def check_tasks(self, tasks: Iterable[Task]) -> None:
        """Checks that the policy has words for these tasks.

        Raises:
            RodsError: if it is a tiny one, and a task is not of the services whose words it knows.
        """
        check_words(self.speech, self.name, tasks)

    def begin(self, info: Mapping[str, Any]) -> Dialogue:
        """The dialogue of an episode that was just reset, from the information of the environment."""
        return Dialogue(self, make_speech(self.speech, info), info)

    def after(self, news: Sequence[Message]) -> str:
        """What the template writes after what an assistant said, when these messages follow.

        Quick where the template copies what it is given: then a frame is kept for messages of the same roles.
        """
        pattern = tuple([m["role"] for m in news])
        if self._tells_names or len(news) > _MOST_FRAMED:  # names are the policy's to invent: no end of frames
            return self._after(news)
        if pattern not in self._frames:
            self._frames[pattern] = self._frame(news)
        frame = self._frames[pattern]
        if frame is None:
            return self._after(news)
        return "".join([piece + m["content"] for piece, m in zip(frame, news, strict=False)]) + frame[-1]

    # ------------------------------------------------------------------ the template

    def _template(self, messages: Sequence[Message], tools: Sequence[Any] | None, open_turn: bool) -> str:
        options = {"date_string": _date(messages), **self._options}
        if tools and self.speech == "compact":  # whose template writes names only; schemas take transformers long
            tools = [{"function": {"name": tool_name(tool)}} for tool in tools]
        return str(
            self.tokenizer.apply_chat_template(
                list(messages), tools=list(tools) if tools else None, tokenize=False, add_generation_prompt=open_turn,
                **options,
            )
        )  # fmt: skip

    def _after(self, news: Sequence[Message]) -> str:
        base = [{"role": "user", "content": "x"}, {"role": "assistant", "content": _MARK}]
        return self._template([*base, *news], None, True).partition(_MARK)[2]

    def _frame(self, news: Sequence[Message]) -> list[str] | None:
        """What stands between the contents of messages of these roles; None if contents are changed or looked at."""
        frame: list[str] | None = None
        for probe in _PROBES:
            contents = [probe.replace("%", str(number)) for number in range(len(news))]
            rest = self._after([{**m, "content": content} for m, content in zip(news, contents, strict=True)])
            if frame is None:
                frame = []
                for content in contents:
                    piece, found, rest = rest.partition(content)
                    frame.append(piece)
                    if not found:
                        return None
                frame.append(rest)
            elif rest != "".join(piece + content for piece, content in zip(frame, [*contents, ""], strict=True)):
                return None
        return frame

    def _check_template(self) -> bool:
        """Checks that the template keeps what stands. Returns whether it renders tools."""
        system = [] if self.speech != "plain" else [{"role": "system", "content": "s"}]
        talk: list[Message] = [*system, {"role": "user", "content": "u"}]
        result = {"role": "tool", "name": "probe_tool", "content": "r"}
        call = {"type": "function", "function": {"name": "probe_tool", "description": "d", "parameters": {}}}
        tools = [call] if "probe_tool" in self._template(talk, [call], True) else None
        before, closed = self._template(talk, tools, True), self._template(talk, tools, False)
        if before == closed:
            raise RodsError(
                f"the chat template of {self.name} writes no header for the assistant's next message: make it honour "
                "add_generation_prompt."
            )
        answered = self._template([*talk, {"role": "assistant", "content": _MARK}], tools, False)
        if not answered.startswith(before):
            raise self._edits()
        self._lead = answered[len(before) :].partition(_MARK)[0]
        self._tells_names = self._after([result]) != self._after([{**result, "name": "another_tool"}])
        thinking = "</think>" not in before
        raw, spliced = before, before
        for number, news in enumerate(([result], [result, result], [{"role": "user", "content": "v"}]) * 5):
            news = [{**m, "content": f"{m['content']} {number}"} for m in news]
            text = f"<think>\n{number} t\n</think>\n\n{number} s" if thinking else f"{number} s"
            talk += [{"role": "assistant", "content": text}, *news]
            now_raw, now = self._template(talk, tools, True), self.render(talk, tools)
            if not now_raw.startswith(raw + text) or not now.startswith(spliced + text):
                raise self._edits()
            if now != spliced + text + self._after(news):
                raise RodsError(
                    f"the chat template of {self.name} writes a message differently late in a conversation, so that it "
                    "cannot be written when it comes: use a template that writes every message for itself."
                )
            raw, spliced = now_raw, now
        return tools is not None

    def _edits(self) -> RodsError:
        return RodsError(
            f"the chat template of {self.name} changes earlier messages when a conversation goes on, so what a policy "
            "said or heard would not be what it is trained on: use a template that keeps them (TRL ships training "
            "templates: trl.chat_template_utils.get_training_chat_template)."
        )


def _backend(tokenizer: Any) -> Any:
    """The fast tokenizer inside, ten times as fast as what is around it; a copy, which nobody tells to truncate."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    backend = copy.deepcopy(backend)
    backend.no_truncation()
    backend.no_padding()
    return backend


def _unused(mark: str, messages: Sequence[Message]) -> str:
    """A mark that stands in none of the messages."""
    while any(mark in m["content"] or mark in m.get("name", "") for m in messages):
        mark += mark
    return mark


def _date(messages: Sequence[Message]) -> str:
    """The day that the system message tells, as Llama's templates write it; else the day that they fall back to."""
    told = re.search(r"Today is (\d{4}-\d\d-\d\d)", messages[0]["content"]) if messages else None
    if told is None:
        return "26 Jul 2024"
    return datetime.date.fromisoformat(told[1]).strftime("%d %b %Y")


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
            self.conversation = with_signatures(self.conversation, info["tools"])
            self.tools = None
        self._known = {tool_name(schema) for schema in info["tools"]}
        self.text, ids = chat.opening(self.conversation, self.tools)
        self.ids = list(ids)
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
        fresh = [schema for schema in info.get("tools", ()) if tool_name(schema) not in self._known]
        if fresh:
            self._known.update(map(tool_name, fresh))
            at = next(i for i in range(len(news) - 1, -1, -1) if news[i]["role"] == "user")
            news[at] = {**news[at], "content": self._announce(fresh) + news[at]["content"]}
        text, ids = self.chat.written(news, self.chat.after)
        if self._ended:  # the policy said the end mark itself
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
            return f"<tools> {' '.join(map(tool_name, schemas))} "
        if self.chat.speech == "calls":
            return "".join(f"{tool_name(schema)}(" for schema in schemas) + "\n"
        told = map(signature if self.tools is None else json.dumps, schemas)
        return f"[New tools: {' '.join(told)}]\n"
