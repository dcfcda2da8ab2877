"""Text <-> calls: what is a call, what is prose, and that nothing in between is dropped or guessed."""

from __future__ import annotations

import json
import keyword
import re
import threading
import warnings
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods_env.envs.calls import (
    FORMATS,
    MAX_CALLS,
    MAX_CHARACTERS,
    CallError,
    ParsedCall,
    describe_format,
    parse_calls,
    write_calls,
)
from rods_env.errors import RodsError

Calls = list[tuple[str, dict[str, Any]]]

EVERY_FORMAT = pytest.mark.parametrize("call_format", FORMATS)
STYLES = ("hermes", "json", "python")
CALLS: Calls = [("list_orders", {"customer_id": "cus_12"}), ("refund", {"amount": 12.5, "notify": True, "tags": ["a"]})]
HOW = {"hermes": "<tool_call>{", "json": "JSON list", "python": "[tool_name(key='value')]"}

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def block(payload: str) -> str:
    return f"<tool_call>{payload}</tool_call>"


def read(text: str, call_format: str = "any") -> Calls:
    calls = parse_calls(text, call_format)
    assert all(type(call) is ParsedCall for call in calls)
    return [(call.name, msgspec.json.decode(call.arguments, type=dict[str, Any])) for call in calls]


def refused(text: str, call_format: str = "any") -> str:
    """The message of the error, which must be fit for a policy."""
    with pytest.raises(CallError) as caught:
        parse_calls(text, call_format)
    message = str(caught.value)
    assert isinstance(caught.value, RodsError)
    assert 20 < len(message) <= 300
    message.encode()
    assert re.match("Expected .+; got ", message)
    return message


def outcome(text: str, call_format: str) -> str:
    """What comes of the text, whatever it is. Any other exception than `CallError` fails the test."""
    try:
        calls = read(text, call_format)
    except CallError:
        refused(text, call_format)
        return "error"
    return "calls" if calls else "prose"


# --- the formats ---


@pytest.mark.parametrize("call_format", ["any", "hermes"])
@pytest.mark.parametrize(
    "text",
    [
        block('{"name": "list_orders", "arguments": {"customer_id": "cus_12"}}'),
        block('\n{"arguments": {"customer_id": "cus_12"}, "name": "list_orders"}\n') + "\n",
        "I look it up (one moment).\n"
        + block('{"name":"list_orders","arguments":{"customer_id":"cus_12"}}')
        + " Done.",
        "```\n" + block('{"name": "list_orders", "arguments": {"customer_id": "cus_12"}}') + "\n```",
        block('{"name": "list_orders", "arguments": ' + " " * 3000 + '{"customer_id": "cus_12"}}'),
    ],
)
def test_hermes_reads_a_block_amid_any_text(text: str, call_format: str) -> None:
    assert read(text, call_format) == [("list_orders", {"customer_id": "cus_12"})]


def test_arguments_stay_undecoded() -> None:
    for style in STYLES:
        (call,) = parse_calls(write_calls(CALLS[:1], style))
        assert isinstance(call.arguments, bytes | msgspec.Raw)
        assert bytes(call.arguments).startswith(b"{")


def test_several_blocks_run_in_order() -> None:
    text = "".join(f"step {i} " + block(f'{{"name": "f", "arguments": {{"i": {i}}}}}') for i in range(5))
    assert read(text) == [("f", {"i": i}) for i in range(5)]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "</tool_call>",
        "<tool_call></tool_call>",
        '<tool_call>{"name": "f", "arguments": {}}',
        '{"name": "f", "arguments": {}}</tool_call>',
        block('<tool_call>{"name": "f", "arguments": {}}'),
        block(block('{"name": "f", "arguments": {}}')),
        block('{"name": "f", "arguments": {}}') + "</tool_call>",
        block('{"name": "f", "arguments": {}}') + "<tool_call>",
        block('{"name": "f", "arguments": {"text": "<tool_call>"}}'),
        block('{"name": "f", "arguments": {"text": "</tool_call>"}}'),
        block('{"name": "f", "arguments": {}} {"name": "g", "arguments": {}}'),
        block('[{"name": "f", "arguments": {}}]'),
        block('{"name": "f"}'),
        block('{"arguments": {}}'),
        block('{"name": "f", "arguments": {}, "id": 1}'),
        block('{"name": 3, "arguments": {}}'),
        block('{"name": null, "arguments": {}}'),
        block('{"name": "f", "arguments": []}'),
        block('{"name": "f", "arguments": "{}"}'),
        block('{"name": "f", "arguments": null}'),
        block('{"name": "f", "arguments": {"a": 1,}}'),
        block("{'name': 'f', 'arguments': {}}"),
        block("f(x=1)"),
        block("null"),
        block('{"name": "f", "arguments": {}}') + " Also: [cancel_order(order_id='x')]",
        "f(x=1)\n" + block('{"name": "f", "arguments": {}}'),
        '<tool_cal>{"name": "g"}</tool_cal>' + block('{"name": "f", "arguments": {}}'),
    ],
)
@pytest.mark.parametrize("call_format", ["any", "hermes"])
def test_hermes_refuses_everything_else(text: str, call_format: str) -> None:
    assert HOW["hermes"] in refused(text, call_format)


@pytest.mark.parametrize("call_format", ["any", "json"])
@pytest.mark.parametrize("fence", ["{}", "  {}\n", "```json\n{}\n```", "```\n{}\n```", "\n```json {}```\n"])
def test_json_is_the_whole_message(fence: str, call_format: str) -> None:
    one = '{"name": "refund", "arguments": {"id": "x", "n": -1.5e3}}'
    assert read(fence.format(one), call_format) == [("refund", {"id": "x", "n": -1500.0})]
    assert read(fence.format(f"[{one},\n{one}]"), call_format) == [("refund", {"id": "x", "n": -1500.0})] * 2
    assert read(fence.format("[]"), call_format) == []


@pytest.mark.parametrize("call_format", ["any", "python"])
@pytest.mark.parametrize("fence", ["{}", "  {}\n", "```python\n{}\n```", "```\n{}\n```"])
def test_python_is_the_whole_message(fence: str, call_format: str) -> None:
    assert read(fence.format("[cancel_order(order_id='ord_7'), f(x=1)]"), call_format) == [
        ("cancel_order", {"order_id": "ord_7"}),
        ("f", {"x": 1}),
    ]
    assert read(fence.format("f(x=1)"), call_format) == [("f", {"x": 1})]
    assert read(fence.format("[f(\n  x=1,  # one\n  y='''a\nb''',\n),]"), call_format) == [("f", {"x": 1, "y": "a\nb"})]


def test_python_takes_literals() -> None:
    text = "f(a='ä\\n', b=-1, c=-2.5, d=True, e=False, g=None, h=[1, [2]], i={'k': {'l': ()}}, j=(1, 'x'), k=0x10)"
    arguments = {"a": "ä\n", "b": -1, "c": -2.5, "d": True, "e": False, "g": None, "h": [1, [2]]}
    arguments |= {"i": {"k": {"l": []}}, "j": [1, "x"], "k": 16}
    for call_format in ("any", "python"):
        assert read(text, call_format) == [("f", arguments)]


NOT_LITERAL = """b'a' | f'a' | f'{1}' | y | 1 + 1 | +1 | --1 | -True | ~1 | not 1 | 1 if 1 else 2 | 1 < 2 | g() | 1j
... | {1} | {1: 2} | {**{}} | {'a': 1, 'a': 2} | [*y] | lambda: 1 | [i for i in y] | (y := 1) | 1e999 | -1e999 | [1e999]
'\\ud800' | __import__('os').getpid() | '\\N{no such}' | 'a | 1,,y=2 | 1, x=2 | 1, 2 | [1"""
NOT_A_CALL = "f('a') | f(1, x=2) | f(y) | f(**{'x': 1}) | f(*[1]) | a.f(x=1) | a.b.f() | f()(x=1) | ﬁ(x=1) | f(x=1"


@pytest.mark.parametrize("wrapping", ["{}", "[{}]", "[g(y=1), {}]"])
@pytest.mark.parametrize(
    "call", [*(f"f(x={value})" for value in re.split(r" \| |\n", NOT_LITERAL)), *NOT_A_CALL.split(" | ")]
)
@pytest.mark.parametrize("call_format", ["any", "python"])
def test_python_refuses_everything_else(call: str, wrapping: str, call_format: str) -> None:
    assert HOW["python"] in refused(wrapping.format(call), call_format)


@pytest.mark.parametrize("call_format", ["any", "python"])
@pytest.mark.parametrize("text", ["[f(x=1), 3]", "[[f(x=1)]]", "f(x=1), g(y=2)", "f(x=1)\ng(y=2)", "f(x=1); g(y=2)"])
def test_python_is_a_list_of_calls_or_one_call(text: str, call_format: str) -> None:
    refused(text, call_format)


def test_python_warnings_do_not_leak() -> None:
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(r"f(x='\d\.', y='\400')") == [("f", {"x": r"\d\.", "y": "\u0100"})]
        refused("f(x=1if 1 else 2)")
        refused("f(x=1 is 1)")
    threads = [threading.Thread(target=lambda: [read(r"f(x='\d')") for _ in range(20)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


# --- prose, and what resembles a call ---

PROSE = [
    "",
    " \n",
    "Your order was cancelled; the refund of 12.50 (incl. VAT) follows.",
    "[sigh] I cannot do that",
    "[sigh] (again) no",
    "I (really) need to know which order you mean.",
    "Use f(x) = 2 here",
    "P(X=1) is 0.5, and f(x) = 2.",
    "Your order (id=ord_7) was cancelled.",
    "Please give me the order_id(s) of the [item(s)].",
    "[x] packed\n[ ] sent",
    "[1] See Smith (2020).",
    "[our shop](https://example.org/orders?page=1)",
    "[1, 2, 3]",
    '["f(x)"]',
    '{"total": 3}',
    '{"name": "Ada", "city": "Bonn"}',
    '[{"name": "kettle", "price": 30}]',
    '{curly} and "quoted": text',
    "The arguments: none. The name: Ada.",
    "Item(s) found (3)",
    "Hello (world)",
    "<b>bold</b>, a <list> and std::function<void()>; the <toolchain>",
    "call me, please: the tool_call was not needed",
    "It's 5 < 6 and 'so' on. \x00",
    "```\nsome code\n```",
]

ATTEMPTS = [
    "Sure: [cancel_order(order_id='x')]",
    "Sure: cancel_order(order_id='x')",
    "Sure: `refund(order_id = 'x')`.",
    "Now I call list_orders().",
    "Sure: [refund('x')]",
    "Sure: [f(x=1)]",
    "Sure:\n```python\nf(x=1)\n```\nDone.",
    "```tool_code\ncancel_order(order_id='x')\n```",
    "[cancel_order(order_id='x')] Done.",
    "[cancel_order(order_id='x')",
    "cancel_order(order_id='x')]",
    "cancel_order(order_id='x'",
    "[cancel_orderorder_id='x')]",
    "[cancel_order order_id='x')]",
    "[(order_id='x')]",
    "[cancel_order (order_id='x')",
    "f(x=1",
    'Sure {"name": "cancel_order", "arguments": {"order_id": "x"}}',
    'Sure:\n```json\n[{"name": "f", "arguments": {}}]\n```\nDone.',
    '{"name": "f", "arguments": {}} Done.',
    '[{"name": "f", "arguments": {}}',
    '{"name": "f", "arguments": {}',
    '"name": "cancel_order", "arguments": {"order_id": "x"}}',
    '{"name": "refund"}',
    '{"name": "refund", "parameters": {}}',
    '{"name": "refund", "argments": {"id": "x"}}',
    '{"nme": "refund", "arguments": {"id": "x"}}',
    '{"name": "refund" "arguments": {"id": "x"}}',
    '{"tool": "cancel_order", "order_id": "x"}',
    "{'name': 'f', 'arguments': {}}",
    '{name: "f", arguments: {}}',
    '{"function": {"name": "f", "arguments": "{}"}}',
    '{"tool_calls": []}',
    '{"function_call": {}}',
    "<tool_cal>refund</tool_cal>",
    "<tool_call",
    "< tool_call >refund",
    "<TOOL_CALL>",
    "<toolcall>",
    "<tool-call>",
    "<function_call>refund",
    "<function_calls>",
    "<function=refund>",
    '<invoke name="refund">',
    "<|tool_call|>",
    "[TOOL_CALLS] refund",
    "tool_call>refund",
]


@EVERY_FORMAT
@pytest.mark.parametrize("text", PROSE)
def test_prose_is_no_call(text: str, call_format: str) -> None:
    assert parse_calls(text, call_format) == []


@EVERY_FORMAT
@pytest.mark.parametrize("text", ATTEMPTS)
def test_a_call_in_no_format_is_refused_with_how_to_write_it(text: str, call_format: str) -> None:
    message = refused(text, call_format)
    assert (HOW[call_format] in message) if call_format != "any" else any(how in message for how in HOW.values())


@pytest.mark.parametrize("expected", STYLES)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("calls", [CALLS, CALLS[:1], [("f", {"x": 1})]])
def test_a_call_in_another_format_is_refused_with_the_one_expected(expected: str, style: str, calls: Calls) -> None:
    text = write_calls(calls, style)
    if style == expected:
        assert read(text, expected) == calls
    else:
        message = refused(text, expected)
        assert HOW[expected] in message
        assert f"the {expected} format" in message
    if style == "python" != expected:
        assert HOW[expected] in refused(text.strip("[]"), expected)


def test_any_decides_by_the_tags_first() -> None:
    assert read("[1] " + write_calls(CALLS, "hermes")) == CALLS
    assert "<tool_call>" in refused("[f(x='<tool_call>')]")


# --- thinking ---


@pytest.mark.parametrize("style", STYLES)
def test_only_what_follows_the_thinking_counts(style: str) -> None:
    text = write_calls(CALLS, style)
    for thinking in ("<think>", "", f"<think>maybe {text} or [x", "<think>a</think>\n<think>"):
        assert read(f"{thinking} so be it.</think>\n\n{text}", style) == CALLS
        assert read(f"{thinking} so be it.</think>\n\n{text}") == CALLS
    assert read(f"<think>{text}</think>\n\nWhich order (or orders)?") == []


@EVERY_FORMAT
def test_thinking_has_to_end(call_format: str) -> None:
    for text in ("<think>", "<think>[f(x=1)]", "a <think> b", "</think> <think>", block('{"name": "f", <think>}')):
        assert "</think>" in refused(text, call_format)


@pytest.mark.parametrize("text", ["[f(x='</think>')]", "[f(x='</think>')", "f(x='</think>')"])
@pytest.mark.parametrize("json_text", ['{"name": "f", "arguments": {"x": "</think>"}}'])
def test_thinking_within_an_argument_drops_no_call(text: str, json_text: str) -> None:
    for one in (text, json_text, f"[{json_text}]", block(json_text), "<tool_call>" + json_text):
        refused(one)


# --- bounds and hostile text ---


@EVERY_FORMAT
def test_the_length_is_bounded(call_format: str) -> None:
    for part in ("x", "<tool_call>", "[f(x=1)]", "\ud800"):
        assert str(MAX_CHARACTERS) in refused((part * (10_000_000 // len(part) + 1))[:10_000_000], call_format)
    assert parse_calls("x" * MAX_CHARACTERS, call_format) == []
    refused("x" * (MAX_CHARACTERS + 1), call_format)
    refused(" " * MAX_CHARACTERS + write_calls(CALLS), call_format)


@EVERY_FORMAT
@pytest.mark.parametrize(
    "unit", ["(", "[", "{", "<", '"', "'", "_", "a", "a_", "a(", "[a(", "f(x=", "x=1 ", '"name": "a', "``` [a("]
)
def test_no_text_takes_long_to_read(unit: str, call_format: str) -> None:
    text = (unit * MAX_CHARACTERS)[: MAX_CHARACTERS - 20]
    for hostile in (text, f"[{text}]", f"[f(x={text})]", f"```{text}```"):
        outcome(hostile, call_format)


@EVERY_FORMAT
def test_the_number_of_calls_is_bounded(call_format: str) -> None:
    style = "hermes" if call_format == "any" else call_format
    separator = "" if style == "hermes" else ", "
    for count in (MAX_CALLS, MAX_CALLS + 1):
        one = write_calls([("f", {"x": 1})], style)
        text = separator.join([one if style == "hermes" else one[1:-1]] * count)
        text = text if style == "hermes" else f"[{text}]"
        if count <= MAX_CALLS:
            assert read(text, call_format) == [("f", {"x": 1})] * count
        else:
            assert str(MAX_CALLS) in refused(text, call_format)


def in_every_style(json_value: str, python_value: str) -> list[tuple[str, str]]:
    one = f'{{"name": "f", "arguments": {{"x": {json_value}}}}}'
    return [("hermes", block(one)), ("json", one), ("json", f"[{one}]"), ("python", f"[f(x={python_value})]")]


@pytest.mark.parametrize(
    "value",
    [
        ("[" * 10_000 + "]" * 10_000,) * 2,
        ('{"a":' * 10_000 + "1" + "}" * 10_000,) * 2,
        ("[" * 10_000,) * 2,
        ("9" * 5_000,) * 2,
        ("-" + "9" * 5_000,) * 2,
        ("1e999", "1e999"),
        ("-1e999", "-1e999"),
        ("NaN", "nan"),
        ("Infinity", "inf"),
        ("-Infinity", "-inf"),
        ('"\x00"', "'\x00'"),
        ('"\ud800"', "'\udfff'"),
        ('"\\ud800"', "'\\udfff'"),
        ("01", "01"),
        ("--" * 5_000 + "1", "-" * 10_000 + "1"),
        ("1" + "+1" * 20_000, "1" + "+1" * 20_000),
        ("f" + "()" * 20_000, "f" + "()" * 20_000),
        ("not " * 10_000 + "1", "not " * 10_000 + "1"),
    ],
)
def test_hostile_values_are_refused(value: tuple[str, str]) -> None:
    for style, text in in_every_style(*value):
        refused(text, style)
        refused(text)


@EVERY_FORMAT
def test_lone_surrogates_are_refused_everywhere(call_format: str) -> None:
    for text in ("\ud800", "Hello \udfff", "é\ud800", write_calls(CALLS) + "\ud800", "[f\ud800(x=1)]"):
        refused(text, call_format)
    assert parse_calls("\ud800</think>Hello", call_format) == []


def test_keys_that_stand_twice_count_the_last_time() -> None:
    assert read(block('{"name": "f", "name": "g", "arguments": {"a": 1, "a": 2}}')) == [("g", {"a": 2})]


def test_errors_are_short_and_valid_unicode() -> None:
    error = CallError("Expected \ud800" + "\udfff" * 500)
    assert len(str(error)) <= 300
    str(error).encode()
    refused(block('{"name": "' + "x" * 500))
    refused("[" + "ä" * 60 + "(1)]" + "ä" * 500)


# --- writing ---


@pytest.mark.parametrize("style", FORMATS)
def test_writing(style: str) -> None:
    expected = {
        "hermes": '<tool_call>{"name": "list_orders", "arguments": {"customer_id": "cus_12"}}</tool_call>',
        "json": '[{"name": "list_orders", "arguments": {"customer_id": "cus_12"}}]',
        "python": "[list_orders(customer_id='cus_12')]",
    }
    expected["any"] = expected["hermes"]
    assert write_calls(CALLS[:1], style) == expected[style]
    assert read(write_calls(CALLS, style), style) == CALLS
    assert read(write_calls(CALLS, style)) == CALLS
    assert read(write_calls([], style), style) == []
    assert read(write_calls([("f", {})], style), style) == [("f", {})]


@pytest.mark.parametrize("style", FORMATS)
def test_tags_in_arguments_survive(style: str) -> None:
    text = "</tool_call><tool_call>{</think>\\<think>\\\\<tool_call> ``` 'a' \"b\" 1 < 2"
    calls: Calls = [("f", {"text": text, "more": {text: [text]}})]
    assert read(write_calls(calls, style), style) == calls
    assert read(write_calls(calls, style)) == calls


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize(
    "arguments",
    [
        {"x": float("nan")},
        {"x": [float("inf")]},
        {"x": {"y": -float("inf")}},
        {"x": "\ud800"},
        {"\ud800": 1},
        {"x": object()},
        {"x": int("9" * 4_300) * 100},
        {"x": "y" * MAX_CHARACTERS},
    ],
)
def test_what_a_format_cannot_express_is_refused(style: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(CallError, match="Expected calls that the "):
        write_calls([("f", arguments)], style)


def test_python_cannot_express_every_name() -> None:
    for name, arguments in [("a-b", {}), ("f(x=1), g", {}), ("class", {}), ("", {}), ("ﬁ", {}), ("f", {"from": 1})]:
        assert read(write_calls([(name, arguments)], "json")) == [(name, arguments)]
        with pytest.raises(CallError):
            write_calls([(name, arguments)], "python")
    with pytest.raises(CallError):
        write_calls([("f", {"a b": 1})], "python")
    with pytest.raises(CallError):
        write_calls([("f", {})] * (MAX_CALLS + 1))


@EVERY_FORMAT
def test_the_description_shows_an_example_of_the_format(call_format: str) -> None:
    text = describe_format(call_format)
    assert len(text) < 300
    example = re.search(r"<tool_call>.*</tool_call>|\[.*\]", text)
    assert example is not None
    assert read(example[0], call_format) == [("tool_name", {"key": "value"})]


def test_an_unknown_format_is_an_error_of_the_user() -> None:
    for call in (lambda: parse_calls("", "xml"), lambda: write_calls([], "xml"), lambda: describe_format("xml")):
        with pytest.raises(RodsError, match="any, hermes, json, python") as caught:
            call()
        assert not isinstance(caught.value, CallError)
    with pytest.raises(RodsError, match="xml"):
        parse_calls(write_calls(CALLS), "xml")


# --- properties ---

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)


def calls_with(names: st.SearchStrategy[str]) -> st.SearchStrategy[Calls]:
    return st.lists(st.tuples(names, st.dictionaries(names, VALUES, max_size=4)), max_size=4)


PIECES = st.sampled_from(
    re.findall(
        r"\S+", '<tool_call> </tool_call> <think> </think> {"name":"f", "arguments":{ } ] [ { f( x= ) \' " \\ ```'
    )
    + re.findall(r"\S+", "json python , 1e999 - a.b ** \x00 \ud800 ﬁ 0x # f'")
)
MESSAGES = st.text(max_size=60) | st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


@settings(quick, max_examples=400)
@given(MESSAGES, st.sampled_from(FORMATS))
def test_any_text_gives_calls_or_a_call_error(text: str, call_format: str) -> None:
    outcome(text, call_format)


@quick
@given(calls_with(TEXT), st.sampled_from(["any", "hermes", "json"]))
def test_what_is_written_reads_back(calls: Calls, call_format: str) -> None:
    text = write_calls(calls, call_format)
    assert read(text, call_format) == calls
    assert read(text) == calls


@quick
@given(calls_with(IDENTIFIERS))
def test_what_is_written_in_python_reads_back(calls: Calls) -> None:
    text = write_calls(calls, "python")
    assert read(text, "python") == calls
    assert read(text) == calls


def plainly(text: str) -> str:
    """The text with its escapes resolved, and without quotes, spaces and backslashes, which a mutation moves around."""
    codes = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}

    def resolved(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else codes.get(code, code)

    text = re.sub(r"\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3}|.)", resolved, text, flags=re.DOTALL)
    return re.sub(r"[\s'\"\\]", "", text)


def strings_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings_in(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings_in(item)]
    return [value] if isinstance(value, str) else []


@st.composite
def mutated_calls(draw: st.DrawFn) -> tuple[str, str]:
    names = st.sampled_from(["list_orders", "refund", "cancel_order", "f"])
    values = st.sampled_from(["ord_7", "a \"b\" 'c'", "ä\n", "", 3, -2.5, None, True, ["x", {"y": "z"}]])
    arguments = st.dictionaries(st.sampled_from(["order_id", "x", "note"]), values, max_size=3)
    style = draw(st.sampled_from(STYLES))
    text = write_calls(draw(st.lists(st.tuples(names, arguments), min_size=1, max_size=3)), style)
    if draw(st.booleans()) and style == "hermes":
        text = f"I look it up. {text}\nDone."
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([1, 1, 1, 2, 5, 12, 40])))
        chunk = text[start:end]
        other = draw(st.sampled_from("ab_09[](){}<>\"'=,:/ \n\\`-."))
        inner = draw(st.sampled_from(["", other, other + chunk, chunk + chunk, chunk[::-1], chunk[1:] + chunk[:1]]))
        text = text[:start] + inner + text[end:]
    return style, text


@settings(quick, max_examples=400)
@given(mutated_calls(), st.booleans())
def test_a_mutated_call_is_refused_or_read_as_it_is_written(mutated: tuple[str, str], exactly: bool) -> None:
    style, text = mutated
    tagged = "<tool_call>" in text or "</tool_call>" in text
    try:
        calls = read(text, style if exactly else "any")
    except CallError:
        return
    assert calls or not tagged, "a call was dropped although its tags are there"
    for name, arguments in calls:
        assert name in text or json.dumps(name)[1:-1] in text or plainly(name) in plainly(text)
        for value in strings_in(arguments):
            assert value in text or plainly(value) in plainly(text)
    if tagged and calls:
        blocks = [json.loads(payload) for payload in re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)]
        assert blocks == [{"name": name, "arguments": arguments} for name, arguments in calls]


@settings(quick, max_examples=100)
@given(st.sampled_from(STYLES), st.sampled_from([CALLS, CALLS[:1]]), st.data())
def test_a_lost_bracket_or_quote_is_never_silent(style: str, calls: Calls, data: st.DataObject) -> None:
    text = write_calls(calls, style)
    at = data.draw(st.sampled_from([i for i, letter in enumerate(text) if letter in "<>[](){}\"':=,"]))
    for broken in (text[:at] + text[at + 1 :], text[:at] + text[at] + text[at:]):
        for call_format in ("any", style):
            assert outcome(broken, call_format) != "prose"
