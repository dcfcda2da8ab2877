"""A conversation that only grows: adding a message or keeping an old state of it costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

Message = dict[str, Any]


class Transcript(Sequence[Message]):
    """Messages in the OpenAI chat shape, as an immutable sequence.

    `plus` gives a longer transcript that shares all messages with this one. The list of messages is made when it is
    first asked for, so a step that nobody looks into does not pay for it. Pickled as a plain list.
    """

    __slots__ = ("_before", "_last", "_length", "_list")

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._before: Transcript | None = None
        self._last: Message | None = None
        self._list: list[Message] | None = list(messages)
        self._length = len(self._list)

    def plus(self, message: Message) -> Transcript:
        """This conversation with one more message."""
        longer = Transcript.__new__(Transcript)
        longer._before = self
        longer._last = message
        longer._list = None
        longer._length = self._length + 1
        return longer

    def _messages(self) -> list[Message]:
        if self._list is None:
            backwards, at = [], self
            while at._list is None:
                backwards.append(at._last)
                at = at._before  # type: ignore[assignment]  # set wherever _list is not
            self._list = at._list + backwards[::-1]  # type: ignore[operator]
            # The chain is kept: older transcripts may still be in use, and this one costs a pointer.
        return self._list

    def newest_first(self) -> Iterator[Message]:
        """The messages from the last to the first, without making the list."""
        at: Transcript | None = self
        while at is not None and at._list is None:
            yield at._last  # type: ignore[misc]
            at = at._before
        if at is not None:
            yield from reversed(at._list or [])

    def __len__(self) -> int:
        return self._length

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
