"""From a base task to one in which something is missing at first: explicit operations that keep the base graph.

Both insert a turn in which the agent can only ask. What the user wanted in that turn is supplied in the next one, and
the gold calls move there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from rods_env.apis.draw import Draw
from rods_env.apis.registry import TOOLS, Port
from rods_env.errors import SynthesisError
from rods_env.tasks.graph import source_of
from rods_env.tasks.task import Kind, Task, Turn, make_task
from rods_env.tasks.text import is_said, say, stands_in

_GRANTED = (
    "You should have what you need for that now. Please go ahead.",
    "I asked our administrator; you can do that now. Please try again.",
    "Sorry, the permission for that was missing. It is there now, so please go on.",
    "That should work from now on. Please do what I asked for.",
    "That function was switched off; it is back now. Go ahead, please.",
    "You have been given access to that. Please try once more.",
)

_GREETING = re.compile(r"(?:Hi|Hello|Good morning), [^.]*\. ")

# How a person leaves a value open, by kind, and how it is supplied. `{}` is the value as it is said.
_OPEN = {
    "amount": ("a certain amount", ("Sorry, I forgot the amount: it is {}.", "Make it {}.", "I mean {}.")),
    "date": ("a certain day", ("Sorry, I forgot the day: it is {}.", "The day is {}.", "I mean {}.")),
    "time": ("a certain time", ("The time is {}.", "Sorry, I forgot the time: {}, please.", "I mean {}.")),
    "quantity": ("a few", ("Sorry, I forgot the number: {}.", "Make it {}, please.", "I mean {}.")),
    "minutes": ("some minutes", ("I mean {}.", "Sorry, I forgot how long: {}.", "Make it {}, please.")),
    "city": ("a certain city", ("The city is {}.", "Sorry, I forgot the city: it is {}.", "I mean {}.")),
    "email": ("a certain address", ("The address is {}.", "Sorry, I forgot the address: it is {}.")),
    "rating": ("a few", ("Sorry, I forgot how many: {}.", "I mean {}, please.")),
    "person": ("someone", ("I mean {}.", "Sorry, I forgot the name: {}.", "The name is {}.")),
}


def _candidates(task: Task) -> Iterator[int]:
    """Turns in which the user asks for one thing only: then nothing of it can be done while something is missing."""
    if task.kind != "base":
        raise SynthesisError(f"expected a base task; {task.id} is of kind {task.kind}.", reason="transform")
    for t, turn in enumerate(task.turns):
        if sum(call.spoken for call in turn.calls) == 1:
            yield t


def _insert(
    task: Task, kind: Kind, at: int, asked: str, supplied: str, adds: tuple[str, ...], open_: tuple[str, str] = ("", "")
) -> Task:
    old = task.turns[at]
    mentions = tuple(msgspec.structs.replace(m, text=m.text.replace(*open_)) if open_[0] else m for m in old.mentions)
    turns = (
        *task.turns[:at],
        Turn(asked),
        Turn(supplied, old.calls, adds, mentions),
        *task.turns[at + 1 :],
    )
    return make_task(kind, task.apis, turns, task.world, task.parent)


def missing_function(task: Task, draw: Draw) -> Task:
    """The same task with a needed tool withheld for one turn.

    Raises:
        SynthesisError: `transform`, when no turn asks for exactly one thing by a tool that no earlier turn needs.
    """
    for t in draw.shuffled(list(_candidates(task))):
        wanted = next(call.tool for call in task.turns[t].calls if call.spoken)
        before = {call.tool for turn in task.turns[:t] for call in turn.calls}
        if wanted not in before and not TOOLS[wanted].reads:
            return _insert(task, "missing_function", t, task.turns[t].message, draw.choice(_GRANTED), (wanted,))
    raise SynthesisError("no tool can be withheld for a turn.", reason="transform")


def missing_parameter(task: Task, draw: Draw) -> Task:
    """The same task with a value that only the user knows left out, and supplied in the next turn.

    Raises:
        SynthesisError: `transform`, when no turn has such a value.
    """
    year = task.world.now[:4]
    steps, turn_of = task.gold.steps, task.turn_of_call
    for t in draw.shuffled(list(_candidates(task))):
        message = task.turns[t].message
        before = "\n".join(turn.message for turn in task.turns[:t])
        first = turn_of.index(t)
        for offset, call in draw.shuffled(list(enumerate(task.turns[t].calls))):
            for name, value in draw.shuffled(list(call.arguments.items())):
                port = TOOLS[call.tool].by_name[name]
                if port.kind not in _OPEN or port.quote or value == 1 or is_said(port, value, before, year):
                    continue
                if port.kind == "person" and call.spoken:
                    continue  # "look someone up" is no wish that anybody has
                if source_of(port, value, steps[: first + offset]) is not None:
                    continue
                said = say(port, value, year)
                asked = _left_open(message, port, said)
                if asked:
                    supplied = draw.choice(_OPEN[port.kind][1]).format(said)
                    return _insert(task, "missing_parameter", t, asked, supplied, (), (said, _OPEN[port.kind][0]))
    raise SynthesisError("no value can be left out.", reason="transform")


def _left_open(message: str, port: Port, said: str) -> str:
    """The message with the value left open, or "" where the value stands there twice or not by itself."""
    greeting = _GREETING.match(message)
    at = message.find(said)
    if at < (greeting.end() if greeting else 0) or not stands_in(said, message) or message.count(said) != 1:
        return ""
    before, after = message[:at], message[at + len(said) :]
    if after.startswith(("'s", "-")) or before.endswith("-") or at == 0:
        return ""
    if before.count('"') % 2:  # inside a quoted text
        return ""
    return before + _OPEN[port.kind][0] + after
