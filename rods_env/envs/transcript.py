"""A conversation that only grows: adding a message or keeping an old state of it costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

Message = dict[str, Any]


class Transcript(Sequence[Message]):
    """Messages in the OpenAI chat shape, as an immutable sequence.

    `plus` and `after` give a longer transcript that shares all messages with this one. The list of messages is made
    when it is first asked for, so a step that nobody looks into does not pay for it. Pickled as a plain list.
    """

    __slots__ = ("_before", "_list", "_news")

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._before: Transcript | None = None
        self._news: tuple[str, Sequence[tuple[str, str]]] | Message | None = None
        self._list: list[Message] | None = list(messages)

    def plus(self, message: Message) -> Transcript:
        """This conversation with one more message."""
        longer = _new(Transcript)
        longer._before, longer._news, longer._list = self, message, None
        return longer

    def after(self, action: str, results: Sequence[tuple[str, str]]) -> Transcript:
        """This conversation with an assistant's message and the results of its calls, as (tool name, JSON text)."""
        longer = _new(Transcript)
        longer._before, longer._news, longer._list = self, (action, results), None
        return longer

    def results(self) -> Iterator[str]:
        """The JSON texts of all results, the newest first, without making the list."""
        at = self
        while at._list is None:
            if isinstance(at._news, tuple):
                for _, text in reversed(at._news[1]):
                    yield text
            at = at._before  # type: ignore[assignment]  # set wherever _list is not
        for message in reversed(at._list):
            if message["role"] == "tool":
                yield message["content"]

    def calls_since_user(self) -> int:
        """How many calls were written since the user spoke last; a message that cannot be read is none."""
        count, at = 0, self
        while at._list is None:
            if isinstance(at._news, tuple):
                count += sum(name != "" for name, _ in at._news[1])
            elif at._news["role"] == "user":  # type: ignore[index]  # a message
                return count
            at = at._before  # type: ignore[assignment]  # set wherever _list is not
        for message in reversed(at._list):
            if message["role"] == "user":
                break
            count += message["role"] == "tool" and message["name"] != ""
        return count

    def _messages(self) -> list[Message]:
        if self._list is None:
            backwards: list[Message] = []
            at = self
            while at._list is None:
                if isinstance(at._news, tuple):
                    action, results = at._news
                    backwards += [{"role": "tool", "name": name, "content": text} for name, text in reversed(results)]
                    backwards.append({"role": "assistant", "content": action})
                else:
                    backwards.append(at._news)  # type: ignore[arg-type]  # a message
                at = at._before  # type: ignore[assignment]  # set wherever _list is not
            # What came before is kept as it is: older transcripts may still be in use, and this one costs a pointer.
            self._list = at._list + backwards[::-1]
        return self._list

    def __len__(self) -> int:
        return len(self._messages())

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages()[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return self._messages() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # messages are dictionaries

    def __repr__(self) -> str:
        return f"Transcript({self._messages()!r})"

    def __reduce__(self) -> tuple[type[Transcript], tuple[list[Message]]]:
        return (Transcript, (self._messages(),))


_new = Transcript.__new__
