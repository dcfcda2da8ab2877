"""Who a user speaks of: full names, first names of people that were named before, and himself."""

from __future__ import annotations

from rods_env.envs.candidates.reading import Reading

_ME = frozenset({"me", "my", "My", "I", "myself"})


class People:
    """The people of a conversation.

    Attributes:
        user: the name by which the user introduced himself, or "".
        names: the full names of all who were named, the latest last.
    """

    def __init__(self) -> None:
        self.user = ""
        self.names: dict[str, None] = {}

    def named(self, message: Reading) -> list[str]:
        """Those whom the next message names, in its order, and then those whom it means by a first name or "me"."""
        self.user = self.user or message.speaker
        said = dict.fromkeys(message.names)
        if message.perhaps:
            firsts = {first_name(name) for name in (*self.names, *said)}
            said.update(dict.fromkeys([name for name in message.perhaps if name.split(" ", 1)[1] not in firsts]))
        me = self.speaks(message.words)
        for name in reversed(self.names):
            if name == me or first_name(name) in message.words:
                said[name] = None
        for name in reversed(said):
            self.names.pop(name, None)
            self.names[name] = None
        return list(said)

    def speaks(self, words: frozenset[str]) -> str:
        """The user's name, if the words speak of himself; else ""."""
        return "" if _ME.isdisjoint(words) else self.user


def first_name(name: str) -> str:
    """The first word of a name."""
    return name.split(" ", 1)[0]
