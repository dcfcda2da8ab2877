"""The rules of a valid task, as far as they make sense for BFCL's, and which of its tasks break one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rods_env.bfcl.graphs import leaves, parsed
from rods_env.bfcl.said import Text
from rods_env.bfcl.source import entries
from rods_env.bfcl.supply import QUOTED, Supply, graded
from rods_env.bfcl.tools import BfclTool
from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.bfcl.tasks import BfclTask

REASONS = {
    "unknown": "a value stands in no text so far, no earlier result, no doc and not in the simulators' data, and two "
    "known numbers do not give it",
    "later": "a value is said only in a later turn",
    "wording": "a text that is compared word by word holds words that nobody said",
    "characters": "a text that is compared by characters stands in the text or a result word for word, but with other "
    "case, signs, line ends or order",
    "unread": "a value is not said, and the gold calls do not look it up; the read that is named would tell it",
    "hidden": "a value is in the simulators' data and not said, and no read that was tried tells it",
    "error": "a gold call's result is an error, or says that nothing came of the call",
    "idle": "a gold call that should change something changes nothing",
    "twice": "a turn needs one and the same result twice",
    "nothing new": "a turn's gold calls change nothing and return only what was returned before",
    "no calls": "a turn has no gold calls, and it is not the one turn of asking of its kind, or nothing follows it",
    "not missing": "a turn of asking, and yet the next turn's gold calls take nothing of what is supplied then",
    "held out": "a function is held out that an earlier turn needs",
    "spare": "a function is held out that no gold call needs",
}  # fmt: skip
WEAK = frozenset({"unread", "hidden", "idle", "twice", "nothing new", "spare"})

_READS = ("get_", "list_", "view_", "display", "check_", "find", "search_", "estimate_", "compute_", "retrieve_",
          "verify_", "contact_", "message_get", "posting_get", "ticket_get", "trading_get", "travel_get")  # fmt: skip
_READING = frozenset({"ls", "pwd", "cat", "wc", "sort", "grep", "du", "tail", "diff", "filter_stocks_by_price",
                      "notify_price_change", "liter_to_gallon", "gallon_to_liter"})  # fmt: skip


_DIGITS = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")


class Finding(NamedTuple):
    """A rule that a task breaks.

    Attributes:
        task: the task's id.
        turn: the turn, counted from 1.
        reason: a key of `REASONS`.
        call: the gold call that it is about, as Python writes it, or an empty text.
        what: the argument and its value, and what there is to say of it.
    """

    task: str
    turn: int
    reason: str
    call: str
    what: str

    def __str__(self) -> str:
        about = f", {self.call}" if self.call else ""
        weak = " (weak)" if self.reason in WEAK else ""
        return f"Turn {self.turn}{about}: {self.reason}{weak}: {self.what}."


def broken_rules(task: Any) -> list[str]:
    """`findings` as sentences, or why the gold calls do not replay."""
    try:
        return [str(finding) for finding in findings(task)]
    except RodsError as error:
        return [f"The gold calls do not replay: {error}"]


def findings(task: BfclTask) -> list[Finding]:
    """Every rule that a task breaks, in the order of the turns.

    Raises:
        RodsError: if the gold calls do not fit their functions.
    """
    found = [*_arguments(task), *_calls(task), *_turns(task)]
    return sorted(found, key=lambda finding: finding.turn)


def _arguments(task: BfclTask) -> Iterator[Finding]:
    found: dict[tuple[int, str, str, str, str], list[Any]] = {}  # values of one call, argument and reason together
    for index, call in enumerate(task.calls):
        supply = Supply(task, index)
        for name, value in call.arguments.items():
            for leaf in dict.fromkeys(leaves(value)):
                given = supply.gives(name, leaf)
                if (not given or supply.retold(leaf)) and graded(supply.run, name, leaf):
                    reason, why = ("characters", "") if given else _why(supply, name, leaf)
                    found.setdefault((supply.turn, reason, call.tool, name, why), []).append(leaf)
    for (turn, reason, tool, name, why), values in found.items():
        more = f" and {len(values) - 3} more" if len(values) > 3 else ""
        yield Finding(task.id, turn + 1, reason, tool, f"{name}={', '.join(map(_shown, values[:3]))}{more}{why}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:120]} … {text[-30:]}"


def _why(supply: Supply, name: str, leaf: Any) -> tuple[str, str]:
    read = supply.told_by(name, leaf)
    if read is not None:
        return "unread", f": {read} would tell"
    turn = supply.later(leaf)
    if turn is not None:
        return "later", f" is said in turn {turn}"
    if supply.stored(leaf):
        return "hidden", ""
    words = supply.new_words(leaf) if isinstance(leaf, str) and len(leaf.split()) > 2 else []
    if words:
        return "wording", f"; not said: {', '.join(words)}"
    return "unknown", ""


def _calls(task: BfclTask) -> Iterator[Finding]:
    seen: set[tuple[int, str, str]] = set()
    for run, call, turn in zip(task.runs, task.calls, task.turn_of_call, strict=True):
        written = f"{call.tool}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"
        if run.failed or (_writes(run.tool, call.arguments) and _refused(run.text)):
            yield Finding(task.id, turn + 1, "error", call.tool, f"{written} returns {run.text}")
        elif not run.changed and _writes(run.tool, call.arguments):
            yield Finding(task.id, turn + 1, "idle", call.tool, written)
        if (turn, written, run.text) in seen and not run.changed:
            yield Finding(task.id, turn + 1, "twice", call.tool, written)
        seen.add((turn, written, run.text))


def _refused(text: str) -> bool:
    """Whether a result says that nothing came of the call: a field such as `authentication_status` is false."""
    record = parsed(text)
    fields = record.items() if isinstance(record, dict) else ()
    return any(value is False and key.endswith(("status", "success")) for key, value in fields)


def _writes(tool: BfclTool, arguments: dict[str, Any]) -> bool:
    """Whether a function is there to change something."""
    if tool.api == "MathAPI" or tool.name in _READING or tool.name.startswith(_READS):
        return False
    return tool.name != "echo" or bool(arguments.get("file_name"))


def _turns(task: BfclTask) -> Iterator[Finding]:
    asking = task.kind in ("missing_function", "missing_parameter")
    empty = [at for at, turn in enumerate(task.turns) if not turn.calls]
    for at in empty[int(asking) :]:
        yield Finding(task.id, at + 1, "no calls", "", "it is not the turn of asking")
    if asking and empty:
        if empty[0] == len(task.turns) - 1:
            yield Finding(task.id, empty[0] + 1, "no calls", "", "nothing follows it")
        elif task.kind == "missing_parameter":
            given = _unused(task, empty[0])
            if given:
                what = f"the user then gives {', '.join(given)}, which no call takes"
                yield Finding(task.id, empty[0] + 1, "not missing", "", what)
    returned: set[str] = set()
    for at, turn in enumerate(task.turns):
        runs = [run for run, of in zip(task.runs, task.turn_of_call, strict=True) if of == at]
        if runs and not any(run.changed for run in runs) and returned.issuperset(run.text for run in runs):
            yield Finding(task.id, at + 1, "nothing new", "", ", ".join(run.tool.name for run in runs))
        returned.update(run.text for run in runs)
        needed = {call.tool for later in task.turns[at:] for call in later.calls}
        for name in turn.adds:
            if name not in needed:
                yield Finding(task.id, at + 1, "spare", name, "offered from here on, and no gold call needs it")
        for name in _withheld().get(task.id, {}).get(at, ()):
            if name not in turn.adds:
                yield Finding(task.id, at + 1, "held out", name, "offered from here on, and an earlier turn needs it")
    if task.kind == "missing_function" and empty and empty[0] + 1 < len(task.turns):
        after = task.turns[empty[0] + 1]
        if after.adds and not {call.tool for call in after.calls} & set(after.adds):
            yield Finding(task.id, empty[0] + 1, "not missing", "", "no call of the next turn needs what is held out")


@cache
def _withheld() -> dict[str, dict[int, list[str]]]:
    """What the package holds out, by task and turn; `BfclTask` leaves out what an earlier turn needs."""
    found = {}
    for row, _ in entries("miss_func"):
        found[row["id"]] = {int(turn): names for turn, names in row.get("missed_function", {}).items()}
    return found


def _unused(task: BfclTask, at: int) -> list[str]:
    """What the user supplies after the turn of asking, numbers in digits and what is quoted, if no argument of the
    calls of that turn takes any of it, and every argument was known before: said, returned, or named by the doc."""
    message = task.turns[at + 1].message
    given = list(dict.fromkeys([*QUOTED.findall(message), *_DIGITS.findall(message)]))
    for index, call in enumerate(task.calls):
        if task.turn_of_call[index] == at + 1:
            for name, leaf in ((name, leaf) for name, value in call.arguments.items() for leaf in leaves(value)):
                said, tool = task.texts[at], task.tools[call.tool]
                known = said.gives(leaf) or tool.names(name, leaf)
                if not known and not any(held.supplies(name, leaf, said) for held in task.held[:index]):
                    return []
                if not isinstance(leaf, bool) and leaf not in ("", "."):
                    given = [some for some in given if not Text(some).gives(leaf) and not Text(str(leaf)).holds(some)]
    return given
