"""Where the values of BFCL's gold calls could come from, if neither the text nor an earlier result gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec

from rods_env.bfcl.cells import cells_of, changes
from rods_env.bfcl.graphs import Held, Run, leaves
from rods_env.bfcl.said import Text, is_slight
from rods_env.bfcl.simulators import BfclWorld, Simulators

if TYPE_CHECKING:
    from rods_env.bfcl.tasks import BfclTask

# Words that nobody has to be told to write them into a sentence.
_COMMON = frozenset(
    ("a", "an", "the", "of", "and", "or", "to", "in", "on", "at", "for", "from", "with", "by", "is", "are", "was",
     "were", "be", "been", "it", "its", "this", "that", "my", "your", "our", "we", "i", "you", "me", "please", "not",
     "no", "has", "have", "had", "as")
)  # fmt: skip
_NAMES = re.compile(r"[A-Z][\w&'-]*\.?(?: (?:[A-Z][\w&'-]*|of|the)\.?)*")
QUOTED = re.compile(r"(?<!\w)['\"‘“]([^'\"’”\n]{1,60})['\"’”](?!\w)")
_MOST_NUMBERS = 60  # of a result that values are worked out from; more would give any value by chance

# Functions that read, by what they take. They are tried on the state before a call, to see what would tell a value.
_LOOKS = ("ls", "find", "du", "list_users", "view_messages_sent", "get_watchlist", "get_order_history",
          "get_account_info", "get_all_credit_cards", "list_all_following", "get_user_tickets", "check_tire_pressure",
          "find_nearest_tire_shop")  # fmt: skip
_ASKS = ("get_user_id", "get_symbol_by_name", "get_nearest_airport_by_city", "get_zipcode_based_on_city",
         "get_available_stocks", "get_user_tweets", "get_stock_info")  # fmt: skip
_SHORT = {"NYC": "New York", "LA": "Los Angeles", "SF": "San Francisco"}  # as people call cities
_CURRENCIES = {"USD": "usd dollars dollar $", "EUR": "eur euros euro €", "GBP": "gbp pounds pound £", "JPY": "jpy yen",
               "RMB": "rmb yuan cny"}  # fmt: skip
_ROUNDED = re.compile(r"round|nearest|integer|whole|approximate|about|minimum")


def graded(run: Run, name: str, leaf: Any) -> bool:
    """Whether it is seen, in the result or in the simulator, if a call has another value for one of its arguments."""
    tool = run.tool
    position = list(tool.param_docs).index(name)
    for other in _others(leaf):
        arguments = list(run.arguments)
        arguments[position] = _exchanged(arguments[position], leaf, other)
        simulators = Simulators(run.world)
        text, _ = simulators.call(tool, tuple(arguments))
        state: Any = simulators.state
        before, after = (cells_of(s[tool.api]) for s in (run.world.simulators, state.simulators))
        if text != run.text or changes(before, after) != run.changed:
            return True
    return False


def _others(leaf: Any) -> tuple[Any, ...]:
    return (f"{leaf}x", f"{leaf} and more") if isinstance(leaf, str) else (leaf + 1, leaf - 1)


def _exchanged(value: Any, leaf: Any, other: Any) -> Any:
    if isinstance(value, list):
        return [_exchanged(item, leaf, other) for item in value]
    if isinstance(value, dict):
        return {key: _exchanged(item, leaf, other) for key, item in value.items()}
    return other if value == leaf and not isinstance(value, bool) else value


def _rounded(results: list[float]) -> set[float]:
    """What numbers become when they are rounded to whole ones (up too), tens, hundreds and thousands."""
    return {round(r, -places) for r in results for places in range(4)} | {float(ceil(r)) for r in results}


def _straight(text: str) -> str:
    for curly, straight in ("‘'", "’'", '“"', '”"'):
        text = text.replace(curly, straight)
    return text.replace("\\'", "'").replace("\\n", "\n")


class Supply:
    """What is known before a gold call: the user's text so far, earlier results and arguments, the functions' docs.

    Args:
        task: the task.
        index: the gold call.
    """

    def __init__(self, task: BfclTask, index: int) -> None:
        self.task, self.index = task, index
        self.run = task.runs[index]
        self.turn = task.turn_of_call[index]
        self.text = task.texts[self.turn]
        self.held = task.held[:index]
        self._doc = Text(msgspec.json.encode(self.run.tool.schema).decode())

    def gives(self, name: str, leaf: Any) -> bool:
        """Whether a value can be known: said, named by the doc, in an earlier result or call, or worked out."""
        tool = self.run.tool
        default = next(port.default for port in tool.params if port.name == name)
        if self.text.gives(leaf) or tool.names(name, leaf) or default == leaf:
            return True
        if any(held.supplies(name, leaf, self.text) for held in self.held):
            return True
        if any(leaf in leaves(call.arguments) for call in self.task.calls[: self.index]):
            return True  # where it stands first, it is reported
        if isinstance(leaf, str):
            if not leaf.isdecimal():
                return self._put_together(leaf)
            leaf = int(leaf)
        known = self._doc.numbers.union(*(held.numbers for held in self.held))
        if float(leaf) in known:
            return True
        # The numbers of a mean are taken as they are; two of many would give almost any of them.
        return "numbers" not in tool.param_docs and self._worked_out(leaf)

    def _put_together(self, leaf: str) -> bool:
        """Whether all words of a text stand somewhere: in what was said, in results, in the function's doc."""
        return not self.new_words(leaf) and len(re.findall(r"\w+", leaf)) > 1

    def new_words(self, leaf: str) -> list[str]:
        """The words of a text that nobody said and nothing returned, without the commonest."""
        words = dict.fromkeys(re.findall(r"[a-z0-9]+", leaf.casefold()))
        some = [self.text, *(Text(held.text) for held in self.held)]
        left = [word for word in words if word not in _COMMON and not any(text.holds(word) for text in some)]
        return [word for word in left if not word.isdecimal() or not self._worked_out(float(word))]

    def _worked_out(self, value: float, *more: float) -> bool:
        """Whether two known numbers give a value (sum, difference, product, share, percentage), perhaps rounded."""
        known = set(more) | self.text.numbers
        for held in self.held:
            known |= held.numbers if len(held.numbers) <= _MOST_NUMBERS else held.fields
        others = known | self._doc.numbers
        rounds = _ROUNDED.search(self.text.text) is not None
        for a in known:
            for b in others:
                results = [a + b, a - b, b - a, a * b, a * b / 100, a * (1 + b / 100), a * (1 - b / 100)]
                results += [a / b] if b else []
                results += [b / a] if a else []
                if any(abs(result - value) < 0.0051 for result in results) or (rounds and value in _rounded(results)):
                    return True
        return rounds and value in _rounded(list(known))

    def retold(self, leaf: Any) -> bool:
        """Whether a text of at least three words stands somewhere word for word, but nowhere to the character: other
        case, signs or line ends, or a result's words in another order. Curly quotation marks and straight ones are the
        same."""
        if not isinstance(leaf, str) or len(leaf.split()) < 3:
            return False
        said = [turn.message for turn in self.task.turns[: self.turn + 1]]
        returned = [value for held in self.held for value in held.values if len(value) >= len(leaf) // 2]
        exact = any(_straight(leaf) in _straight(text) for text in (*said, *returned))
        if exact or ("\n" in leaf and self.text.holds("line")):  # "one line for each"
            return False
        words = sorted(Text(leaf).words.split())
        others = [Text(value) for value in returned]
        return self.text.holds(leaf) or any(o.holds(leaf) or sorted(o.words.split()) == words for o in others)

    def later(self, leaf: Any) -> int | None:
        """The turn, counted from 1, in which a value is said that was not said before."""
        if is_slight(leaf):
            return None
        for at in range(self.turn + 1, len(self.task.turns)):
            if self.task.texts[at].gives(leaf):
                return at + 1
        return None

    def told_by(self, name: str, leaf: Any) -> str | None:
        """A read that would tell a value here, as a call; None if none of those tried does."""
        number = next((float(part) for part in re.findall(r"\d+", str(leaf))), 0.0) if isinstance(leaf, str) else leaf
        for call, text in self._reads():
            held = Held(text)
            if isinstance(leaf, str) and call.startswith(("get_order_details", "compute_exchange_rate")):
                continue  # they tell prices
            within = number > 99 and number in held.numbers and len(held.numbers) < 4
            if within or held.supplies(name, leaf, self.text):
                return call
            if isinstance(leaf, int | float):
                telling = not is_slight(leaf) or call.startswith("displayCarStatus")
                if (telling and leaf in held.fields) or any(self._worked_out(leaf, field) for field in held.fields):
                    return call
        return None

    def stored(self, leaf: Any) -> bool:
        """Whether a value stands in the initial configuration."""
        return Text(msgspec.json.encode(self.run.world.config).decode()).gives(leaf)

    def _reads(self) -> Iterator[tuple[str, str]]:
        """Calls that change nothing, with their results on the state before the gold call."""
        world = self.run.world
        simulators = Simulators(BfclWorld(world.now, world.tables, world.apis, world.config, world.long_context,
                                          dict(world.simulators)))  # fmt: skip
        offered = self.task.offered(self.turn)

        def run(name: str, *arguments: Any) -> str:
            tool = offered[name]
            defaults = tuple(port.default for port in tool.params[len(arguments) :])
            return simulators.call(tool, (*arguments, *defaults))[0]

        for name in filter(offered.__contains__, _ASKS):
            for phrase in self._phrases():
                yield f"{name}({phrase!r})", run(name, phrase)
        if "compute_exchange_rate" in offered:
            said = [name for name, words in _CURRENCIES.items() if any(w in self.text.text for w in words.split())]
            for number in sorted(self.text.numbers):
                for base, target in ((a, b) for a in said for b in {"USD": None, **dict.fromkeys(said)} if a != b):
                    call = f"compute_exchange_rate({base!r}, {target!r}, {number:g})"
                    yield call, run("compute_exchange_rate", base, target, number)
        if "get_booking_history" in offered:
            tokens = dict.fromkeys(call.arguments.get("access_token") for call in self.task.calls)
            yield from (("get_booking_history()", run("get_booking_history", token)) for token in tokens if token)
        if "displayCarStatus" in offered:
            yield "displayCarStatus('fuel')", run("displayCarStatus", "fuel")
        for name in filter(offered.__contains__, _LOOKS):
            text = run(name)
            yield f"{name}()", text
            if name == "ls" and "cat" in offered:
                yield from ((f"cat({file!r})", run("cat", file)) for file in _strings(text) if "." in file)
            if name == "get_order_history" and "get_order_details" in offered:
                for number in re.findall(r"\d+", text):
                    yield f"get_order_details({number})", run("get_order_details", int(number))

    def _phrases(self) -> list[str]:
        """Names in the messages so far, as they are written, and the parts of longer ones."""
        found: dict[str, None] = {}
        for turn in self.task.turns[: self.turn + 1]:
            for whole in (*_NAMES.findall(turn.message), *QUOTED.findall(turn.message)):
                words = whole.split()
                parts = [" ".join(words[a:b]) for a in range(len(words)) for b in range(len(words), a, -1)]
                for part in parts[:20]:
                    part = _SHORT.get(part, part)
                    found |= dict.fromkeys((part, part.rstrip("."), part.removesuffix("'s").removesuffix("’s")))
        return list(found)


def _strings(text: str) -> list[str]:
    return re.findall(r'"([^"]+)"', text)[1:30]
