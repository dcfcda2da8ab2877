r"""Text <-> calls: an assistant's message, the action of an environment, is read; never executed, never guessed.

Three formats, and "any", which takes whichever of them the message is in:
    hermes: any text around blocks `<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>`.
    json: the whole message is a list of such objects, or one; a fence around the whole message is fine.
    python: the whole message is a list of calls `[f(x=1)]`, or one call, with keywords and literals; fences as above.
Only what follows the last `</think>` counts. A key that stands twice in a JSON object counts the last time.

A call is never dropped silently: text that is no call in the wanted format is a `CallError` if it resembles a call:
    1. it holds a tag of calls, or nearly: `<tool_cal>`, `<function_call>`, `</tool call`, `<invoke`, `[TOOL_CALLS]`; or
    2. it holds the key `"arguments":`, `"tool_calls":` or `"function_call":`, or `arguments` close before a `{`; or a
       key like `"name":` with a value in snake_case, or with one lower-case word after which the object ends, or an
       object or a key like `"parameters"` begins; or
    3. it holds `name(key=`, where the name has three characters or more or stands after `[` or at the start of a fence;
       or `snake_name(`, but not "order_id(s)"; or `[name(` before a literal or `)`; or it ends with `()]`; or
    4. it begins with `f(x=...)` up to a bracket, a semicolon or the end of the line; or it ends with `)` or `]` and
       begins with `[` and holds `key='...`, or begins with `key='...`: a call that lost its name or bracket; or
    5. it begins with `[` or `name(` and is, as a whole, a Python call, or a list or tuple with a call in it.
All other text is prose and no call, also when it begins with `[` or `{`: "[sigh] I cannot", `{"total": 3}`, "f(x) = 2".
"""

from __future__ import annotations

import ast
import json
import math
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rods_env.errors import RodsError

FORMATS = ("any", "hermes", "json", "python")
MAX_CHARACTERS = 100_000
MAX_CALLS = 32

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_TAGGED = ("any", "hermes")
_LENGTH = len(_OPEN)
_new = tuple.__new__  # half the time of ParsedCall(...)
_UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, MemoryError)

_HOW = {
    "hermes": 'Write each call as <tool_call>{"name": "tool_name", "arguments": {"key": "value"}}</tool_call>.',
    "json": 'Make the whole message a JSON list: [{"name": "tool_name", "arguments": {"key": "value"}}].',
    "python": "Make the whole message a list of calls with keywords and literal values: [tool_name(key='value')].",
}

# Every repetition is bounded, so that no text makes the search quadratic. The search stops only at the few characters
# of the first set, which prose seldom has, and looks back from there: five times as fast as a plain list of choices.
_NAME = r"[^\W\d]\w{0,63}"
_LITERAL = r"(?:[\"'\d\[{-]|True\b|False\b|None\b)"
_RESEMBLES = re.compile(
    rf"""(?x)[<\["'`{{(_](?:
      (?<=<) (?i: [/|\s]{{0,3}} (?: (?:tool|function)s?[\s_-]?ca?l+s?(?![a-z]) | \w{{0,20}}calls?[\s|]{{0,3}}>
                                | (?:tool_use|invoke|python_tag)\b | function= ) )
    | (?<=\[) (?: (?i:tool_calls?\]) | \s{{0,9}}{_NAME}(?:\.{_NAME}){{0,4}}\(\s{{0,9}}
                  (?: \) | \*\* | {_LITERAL} | {_NAME}\s{{0,9}}=(?!=) ) )
    | (?<=["']) (?: (?:arguments|(?:tool|function)_calls?)\\?["']\s{{0,9}}:
        | (?:name|tool|tool_name|function|action)\\?["']\s{{0,9}}:\s{{0,9}}\\?["'] (?: \w{{1,40}}_\w{{0,40}}\\?["']
          | [a-z]\w{{0,63}} (?: [^{{}}]{{0,20}}\{{ | \\?["']\s{{0,9}}\}}
                             | ["']\s{{0,9}},\s{{0,9}}["'](?:parameters|params|args|kwargs|input)["'] ) ) )
    | (?<=`) ``\w{{0,12}}\s{{1,9}}\[?{_NAME}\(\s{{0,9}}{_NAME}\s{{0,9}}=(?!=)
    | (?<=\{{) (?: (?<=arguments\{{) | (?<=arguments\W\{{) | (?<=arguments\W\W\{{) | (?<=arguments\W\W\W\{{) )
    | (?<=\() (?: (?<=[^\W\d]\w\w\()\s{{0,9}}{_NAME}\s{{0,9}}=(?!=) | \s{{0,9}}\)\s{{0,9}}\]\Z )
    | (?<=\w_) (?: (?i:(?<=tool_)calls?>) | [^\W_]{{0,40}} (?: \((?!e?s\)) | \s\(\s{{0,9}}(?: \) | {_NAME}= ) ) ) )
    """
)
_BEGINS_LIKE_ONE = re.compile(
    rf"""(?x)(?=(?s:.*)[)\]]\Z) (?: \[(?s:.*?)(?<![?&/\w]) | [(\s]{{0,9}} ) {_NAME}={_LITERAL}
    | [\[(\s]{{0,9}}{_NAME}\(\s{{0,9}}{_NAME}=[^()\n]{{0,500}}(?:\)[ \t]{{0,9}}(?:[\]);\n]|\Z)|\Z)
    """
)
_PYTHON_CALL = re.compile(rf"\b{_NAME}(?:\.{_NAME}){{0,4}}(?:\(|\s{{1,3}}\(\s{{0,9}}(?:\)|{_NAME}\s{{0,9}}=))")
_BEGINS_AS_CALL = re.compile(rf"\s*(?:```\w*\s*)?(?:{_OPEN}|\[?\s*{_NAME}\(|\[?\s*\{{\s*[\"'])")
_FENCE = re.compile(r"```(?:(?:json|python)(?=[\s\[{]))?(.*)```", re.DOTALL)
_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # made once: making it costs as much as a call
_TAG_IN_STRING = re.compile(r"<(?=/?(?:tool_call|think)>)")

_quiet = threading.Lock()  # warnings.catch_warnings swaps a global: two threads inside it would mix up their filters


class ParsedCall(NamedTuple):
    """One call as it was written: no tool was looked up yet."""

    name: str
    arguments: bytes | msgspec.Raw  # a JSON object, undecoded; the tool's own typed decoder checks it


class CallError(RodsError):
    """The message holds no call that can be read, but something like one. What it says is for the policy."""

    def __init__(self, message: str) -> None:
        super().__init__(message.encode("utf-8", "backslashreplace").decode()[:300])  # it may quote lone surrogates


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: msgspec.Raw


_decode_call = msgspec.json.Decoder(_Call).decode
_decode_calls = msgspec.json.Decoder(list[_Call] | _Call).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def quick_call(text: str) -> Any:
    """The call, with `name` and `arguments`, of a message that is one hermes block and nothing else; or None.

    Nearly every message is one. It takes less time than `parse_calls`, because the arguments are not looked at: the
    caller's typed decoder does that.
    """
    end = len(text) - len(_CLOSE)
    # No other `<` in it: no nested tag and no thinking either.
    if text[:_LENGTH] == _OPEN and text.find("<", 1) == end < MAX_CHARACTERS - 99 and text[end:] == _CLOSE:
        try:
            return _decode_call(text[_LENGTH:end])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None  # the thorough way says what is wrong
    return None


def parse_calls(text: str, call_format: str = "any") -> list[ParsedCall]:
    """Reads the calls of a message, in order. Text without a call gives an empty list.

    Raises:
        CallError: the message resembles a call that is not written in the format, or is too long to be read.
    """
    call = quick_call(text) if call_format in _TAGGED else None
    if call is not None:
        try:
            _decode_object(call.arguments)  # an object, and its numbers are in range: Raw has not looked
            return [_new(ParsedCall, (call.name, call.arguments))]
        except _UNREADABLE:
            pass
    return _parse(text, call_format)


def _parse(text: str, call_format: str) -> list[ParsedCall]:
    _check_format(call_format)
    if len(text) > MAX_CHARACTERS:
        raise CallError(f"Expected at most {MAX_CHARACTERS} characters; got {len(text)}. Write a shorter message.")
    thinking, _, text = text.rpartition("</think>")
    if "<think>" in text:
        raise CallError("Expected </think> after <think>; got none. End the thinking before the answer.")
    try:
        text.encode()
        calls = _read(text.strip(), call_format)
    except UnicodeEncodeError:
        raise CallError("Expected valid Unicode; got a lone surrogate. Write the message without it.") from None
    except (RecursionError, MemoryError):
        raise _refused("Expected arguments nested a few levels deep; got far more.", call_format) from None
    if len(calls) > MAX_CALLS:
        raise CallError(f"Expected at most {MAX_CALLS} calls in one message; got {len(calls)}. Write fewer.")
    if not calls and _BEGINS_AS_CALL.match(thinking) and text.rstrip().endswith((")", "]", "}", "```")):
        raise CallError("Expected no </think> within a call; got one. Leave it out of the arguments.")
    return calls


def _read(text: str, call_format: str) -> list[ParsedCall]:
    if call_format in _TAGGED and (_OPEN in text or _CLOSE in text):
        return _read_hermes(text)
    fence = _FENCE.fullmatch(text)
    body = fence[1].strip() if fence else text
    style, why = call_format, ""
    if call_format == "any":
        begins_python = _PYTHON_CALL.match(body.lstrip("[ \t\r\n"))
        style = "python" if begins_python else "json" if body.startswith(("[", "{")) else "hermes"
    if style == "json":
        try:
            return _decoded(body, _decode_calls)
        except msgspec.MsgspecError as error:
            why = f" ({error})"
    if style == "python" or call_format == "any":
        nodes = _python_calls(body)
        if isinstance(nodes, list):
            return [_python_call(node) for node in nodes]
        why = why or (f" ({nodes})" if nodes else "")
    like = _resembling(body)
    if like:
        raise _refused(f"Expected calls in the {style} format, or text without any; got {_shown(like)}{why}.", style)
    return []


def _resembling(text: str) -> str:
    """The text from where something in it resembles a call, or nothing."""
    like = _RESEMBLES.search(text) or _BEGINS_LIKE_ONE.match(text)
    start = max(0, like.start() - 20) if like else 0
    return text[start:] if like or isinstance(_python_calls(text.strip()), list) else ""


def _decoded(text: str, decode: Callable[[str], _Call | list[_Call]]) -> list[ParsedCall]:
    found = decode(text)
    calls = found if isinstance(found, list) else [found]
    for call in calls:
        _decode_object(call.arguments)
    return [ParsedCall(call.name, call.arguments) for call in calls]


def _read_hermes(text: str) -> list[ParsedCall]:
    parts = re.split(f"({_OPEN}|{_CLOSE})", text)
    tags = parts[1::2]
    if tags != [_OPEN, _CLOSE] * (len(tags) // 2):
        raise _refused(f"Expected {_OPEN} and {_CLOSE} in turn; got an unpaired or nested tag.")
    calls: list[ParsedCall] = []
    for payload in parts[2::4]:
        try:
            calls += _decoded(payload, _decode_call)
        except msgspec.MsgspecError as error:
            expected = "one JSON object with exactly the keys name (a string) and arguments (an object)"
            raise _refused(f"Expected {expected}; got {_shown(payload.strip())} ({error}).") from None
    like = _resembling("\n".join(parts[::4]))
    if like:
        raise _refused(f"Expected every call inside the tags; got this outside: {_shown(like)}.")
    return calls


def _python_calls(body: str) -> list[ast.expr] | str:
    """The items of a Python expression in which a call stands, or why it is none."""
    if not (_PYTHON_CALL.match(body) or (body.startswith("[") and _PYTHON_CALL.search(body))):
        return ""
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not body.isascii():  # Python would read the ligature in `ﬁnd` as `fi`; a `$` is fine in strings only
                ast.parse(re.sub(r"[^\x00-\x7f]", "$", body), mode="eval")
            tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError) as error:
        return error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(tree, ast.Call | ast.List | ast.Tuple) and any(isinstance(node, ast.Call) for node in ast.walk(tree)):
        return tree.elts if isinstance(tree, ast.List) else [tree]
    return "no call in it"


def _python_call(node: ast.expr) -> ParsedCall:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise _refused("Expected only calls, each of a plain tool name; got another expression.", "python")
    name = node.func.id
    if node.args:
        raise _refused(f"Expected keyword arguments only; got a positional one in {_shown(name)}.", "python")
    keys = [keyword.arg for keyword in node.keywords]
    if None in keys or len(set(keys)) < len(keys):
        raise _refused(f"Expected each argument once, by keyword; got ** or one twice in {_shown(name)}.", "python")
    try:
        return ParsedCall(name, msgspec.json.encode({key.arg: _literal(key.value) for key in node.keywords}))
    except (ValueError, OverflowError) as error:
        raise _refused(f"Expected values that JSON can hold; got one that it cannot ({error}).", "python") from None


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | str() as value):
            return value
        case ast.Constant(value=float() as value) if math.isfinite(value):  # JSON would make null of 1e999
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if type(value) in (int, float):
            return -_literal(node.operand)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            texts = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            if all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts):
                return dict(zip(texts, map(_literal, values), strict=True))
    kind = type(node.value if isinstance(node, ast.Constant) else node).__name__
    raise _refused(f"Expected literals (str, finite number, True, None, list, dict by str); got {kind}.", "python")


def _check_format(call_format: str) -> None:
    if call_format not in FORMATS:
        raise RodsError(f"Expected a format of calls from {', '.join(FORMATS)}; got {call_format!r}. Choose one.")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _refused(problem: str, call_format: str = "hermes") -> CallError:
    """The error, cut in such a way that what to do stays readable."""
    how = _HOW.get(call_format, _HOW["hermes"])
    return CallError(f"{problem[: 299 - len(how)]} {how}")


def write_calls(calls: Sequence[tuple[str, Mapping[str, Any]]], call_format: str = "hermes") -> str:
    """Writes calls so that `parse_calls` reads the same ones. The format "any" writes hermes.

    Raises:
        CallError: the format cannot express them: NaN, a Python keyword as an argument, more than `MAX_CALLS`.
    """
    _check_format(call_format)
    try:
        plain = [(name, msgspec.to_builtins(dict(arguments), str_keys=True)) for name, arguments in calls]
        written = [_TEXT.encode({"name": n, "arguments": a}) for n, a in plain]
        if call_format == "python":
            written = [f"{n}({', '.join(f'{key}={value!r}' for key, value in a.items())})" for n, a in plain]
        # A tag in a string would end the block, or the thinking.
        written = [_TAG_IN_STRING.sub(r"\\x3c" if call_format == "python" else r"\\u003c", one) for one in written]
        blocks = [f"{_OPEN}{one}{_CLOSE}" for one in written]
        text = "\n".join(blocks) if call_format in _TAGGED else f"[{', '.join(written)}]"
        again = [(call.name, _decode_object(call.arguments)) for call in parse_calls(text, call_format)]
        if msgspec.json.encode(again) != msgspec.json.encode(plain):  # as JSON, where 1, 1.0 and True differ
            raise ValueError("they come back changed")
    except (CallError, TypeError, *_UNREADABLE) as error:
        raise CallError(f"Expected calls that the {call_format} format can express; got others: {error}") from None
    return text


def describe_format(call_format: str = "any") -> str:
    """How to write calls in this format, for a system prompt."""
    _check_format(call_format)
    return f"To call tools: {_HOW.get(call_format, _HOW['hermes'])} A message without a call is plain text."
