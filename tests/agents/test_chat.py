"""Tokens of a conversation: exact over five chat templates, whatever is said and heard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import play_tools as tools_of
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from play_tools import DATE, PLAIN, TEMPLATES, Spans, chat_of, episode, make_env, tasks

from rods_env.agents.chat import Chat
from rods_env.envs.calls import write_calls
from rods_env.errors import RodsError

SYSTEM = "You act for the user. Today is 2026-03-05, 09:00."
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
NASTY = (
    "<|im_end|>", "<|im_start|>assistant\n", "<|eot_id|>", "<|end_header_id|>", "<|begin_of_text|>", "<end>", "<unk>",
    "⁂said⁂", "⁂cut⁂", "⁂", "</tool_response>", "<think>", "</think>", "{{ x }}", "{% endfor %}", "\r\n", "\x00",
    "<|im_<|im_end|>end|>", " ", "\n", '"', "\\", "😀", "\ufeff", "e\u0301",
)  # fmt: skip
DROPS = (
    "{% for m in messages %}{% if m.role != 'tool' or loop.index0 > messages|length - 8 %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
KEEPS = DROPS.replace("8", "10000")
texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=8), max_size=5).map("".join)


def system(chat: Chat) -> list[dict[str, Any]]:
    return [{"role": "system", "content": SYSTEM}]


def schema(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    return {"type": "function", "function": {"name": name, "description": "Finds.", "parameters": parameters}}


def info_of(messages: list[Any], *names: str) -> dict[str, Any]:
    return {"messages": list(messages), **({"tools": [schema(name) for name in names]} if names else {})}


def opened(chat: Chat, user: str) -> tuple[Spans, list[Any]]:
    messages = [*system(chat), {"role": "user", "content": user}]
    return Spans(chat, info_of(messages, "find_me", "drop_me")), messages


rounds = st.lists(
    st.tuples(
        st.lists(st.integers(0, 10_000), min_size=1, max_size=6),  # what is sampled, modulo the vocabulary
        st.booleans(),  # whether the end mark is sampled at last, or the message hits its limit
        st.lists(texts, max_size=3),  # results
        st.none() | texts,  # what the user says
        st.booleans(),  # whether a tool is offered from now on
    ),
    max_size=4,
)


@pytest.mark.parametrize("name", TEMPLATES)
@QUICK
@given(user=texts, rounds=rounds)
def test_any_conversation_is_exact(name: str, user: str, rounds: list[Any]) -> None:
    """The rules of `Spans`, for any sampled ids and any Unicode in results and messages of the user."""
    chat = chat_of(name)
    spans, messages = opened(chat, user)
    size = len(chat.tokenizer)
    for number, (sampled, ended, results, message, fresh) in enumerate(rounds):
        ids = [i % size for i in sampled if i % size not in chat.end_ids] + (chat.end_ids if ended else [])
        if not ids:
            continue
        messages.append({"role": "assistant", "content": spans.say(ids)})
        for result in results:
            content = result if chat.speech == "plain" else json.dumps({"id": "ord_ab1c2", "name": result})
            messages.append({"role": "tool", "name": result, "content": content})
        if message is not None or not results:
            messages.append({"role": "user", "content": message or ""})
            new = [f"new_{number}"] if fresh else []
            spans.hear(info_of(messages, *new))
            assert all(tool in spans.dialogue.text for tool in new)
        else:
            spans.hear(info_of(messages))


heard = st.lists(st.tuples(st.lists(texts, min_size=1, max_size=3), texts), max_size=3)


@pytest.mark.parametrize("name", PLAIN)
@QUICK
@given(user=texts, heard=heard, data=st.data())
def test_byte_equal_to_the_template_itself(name: str, user: str, heard: list[Any], data: Any) -> None:
    """What a policy says in the form of its template gives the very bytes that transformers renders."""
    chat = chat_of(name)
    spans, messages = opened(chat, user)
    word = st.from_regex(r"[A-Za-z{<][\w\n ,.:{}<>]{0,8}[\w}>]", fullmatch=True).filter(lambda s: "</think" not in s)
    for results, message in heard:
        said = data.draw(word)
        if "qwen3" in name:
            said = f"<think>\n{data.draw(word)}\n</think>\n\n{said}"
        messages.append({"role": "assistant", "content": spans.say(chat.encode(said) + chat.end_ids)})
        assert messages[-1]["content"] == said
        messages += [{"role": "tool", "name": "find_me", "content": result} for result in results]
        spans.hear(info_of(messages))
        spans.say([*chat.encode(said), *chat.end_ids])
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": message}]
        spans.hear(info_of(messages))
    dialogue = spans.dialogue
    rendered = chat.tokenizer.apply_chat_template(
        dialogue.conversation, tools=dialogue.tools, tokenize=False, add_generation_prompt=True, date_string=DATE
    )
    assert dialogue.text == rendered
    assert chat.decode(dialogue.ids) == rendered


def said_by(rng: np.random.Generator, chat: Chat) -> Any:
    """The oracle's calls, two in a message where the language has it, nonsense, and messages cut off by a limit."""

    def said(env: Any, dialogue: Any) -> list[int]:
        gold = [(call.tool, call.arguments) for call in env.task.turns[env.turn].calls]
        roll = rng.random()
        if roll < 0.5 and gold:
            some = gold[:2] if chat.speech == "plain" else gold[:1]
            return [*chat.encode(dialogue.speech.calls(some)), *chat.end_ids]
        if roll < 0.8:
            return [*chat.encode(dialogue.speech.calls([])), *chat.end_ids]
        return [int(i) for i in rng.integers(len(chat.tokenizer), size=5) if i not in chat.end_ids] or [1]

    return said


@pytest.mark.parametrize("name", TEMPLATES)
def test_whole_episodes_are_exact(name: str) -> None:
    chat, rng = chat_of(name), np.random.default_rng(3)
    roles: set[tuple[str, ...]] = set()
    for task in tasks():
        for spans in episode(chat, task, said_by(rng, chat)):
            conversation = spans.dialogue.conversation
            roles.add(tuple(m["role"] for m in conversation[-3:]))
        prompt = chat.decode(spans.dialogue.ids[: spans.dialogue.prompt_length])
        asked = next(m["content"] for m in spans.dialogue.conversation if m["role"] == "user")
        assert " ".join(asked.split()) in " ".join(prompt.split()), "the policy saw what the user asked for"
        assert chat.speech == "compact" or asked == task.turns[0].message
    assert ("user", "assistant", "tool") in roles
    assert ("user", "assistant", "user") in roles
    if chat.speech == "plain":
        assert ("assistant", "tool", "tool") in roles, "several calls in one message were heard"


def test_the_template_of_a_tiny_policy_writes_what_it_would_of_whole_schemas() -> None:
    chat, task = chat_of("tiny"), tasks()[0]
    _, info = make_env(task).reset(options={"task": task})
    said = [{"role": "user", "content": "hello"}]
    whole = chat.tokenizer.apply_chat_template(said, tools=info["tools"], tokenize=False, add_generation_prompt=True)
    assert chat.render(said, info["tools"]) == whole
    assert info["tools"][0]["function"]["name"] in whole


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_turn_closed_by_failed_calls_is_heard_with_its_error(name: str) -> None:
    """The error and the next message of the user come together."""
    chat, task = chat_of(name), next(t for t in tasks() if len(t.turns) > 1)
    env = make_env(task)
    _, info = env.reset(options={"task": task})
    spans = Spans(chat, info)
    bad = chat.encode("find_nobody" if chat.speech == "compact" else write_calls([("find_nobody", {})]))
    while info["closed_by"] is None:
        *_, info = env.step(spans.say([*bad, *chat.end_ids]))
        spans.hear(info)
    assert info["closed_by"] == "attempts"
    assert [m["role"] for m in spans.dialogue.conversation[-3:]] == ["assistant", "tool", "user"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_tools_of_a_later_turn_are_told(name: str) -> None:
    chat = chat_of(name)
    task = next(t for t in tasks() if t.kind == "missing_function")
    new = {tool for turn in task.turns for tool in turn.adds}

    def close(env: Any, dialogue: Any) -> list[int]:
        return [*chat.encode(dialogue.speech.calls([])), *chat.end_ids]

    *_, spans = episode(chat, task, close)
    dialogue = spans.dialogue
    assert new
    for tool in new:
        assert tool not in chat.decode(dialogue.ids[: dialogue.prompt_length])
        (told,) = [m for m in dialogue.conversation if tool in m["content"].replace("(", " ").replace('"', " ").split()]
        assert told["role"] == "user", "told once, with what the user says when it is offered"
        assert (f'"name": "{tool}"' in told["content"]) == (chat.tool_docs == "template" and name != "tiny")


def test_sampled_tokens_are_never_encoded_again() -> None:
    """Two tokens whose text is one token, half a letter, and the padding token stay what they are."""
    chat = chat_of("qwen2_5")
    vocabulary = chat.tokenizer.get_vocab()
    whole = next(t for t in vocabulary if len(t) == 2 and t.isalpha() and t.isascii())
    apart = [vocabulary[whole[0]], vocabulary[whole[1]]]
    assert chat.encode(chat.decode(apart)) != apart
    half = chat.encode("é")[:1]
    assert "\ufffd" in chat.decode(half)
    assert chat.tokenizer.pad_token_id in chat.end_ids, "this tokenizer pads with its end mark"
    for ids in (apart, half, [*apart, *chat.end_ids], [*half, *half, *chat.end_ids], list(chat.end_ids)):
        spans, messages = opened(chat, "Hello.")
        at = len(spans.dialogue.ids)
        said = spans.say(list(ids))
        spans.hear(info_of([*messages, {"role": "assistant", "content": said}, {"role": "user", "content": "Well?"}]))
        assert spans.dialogue.ids[at : at + len(ids)] == list(ids)
        assert spans.dialogue.mask[at : at + len(ids)] == [1] * len(ids)
        ends = 1 if ids[-1] in chat.end_ids else 2  # of the user's message, and of the policy's if it did not end it
        assert spans.dialogue.ids[at + len(ids) :].count(chat.end_ids[0]) == ends


@pytest.mark.parametrize("name", PLAIN)
def test_special_tokens_in_results_are_letters(name: str) -> None:
    """A policy that has its own words echoed by an error cannot write a message of the user."""
    chat = chat_of(name)
    spans, messages = opened(chat, "Hello.")
    plain = len([i for i in spans.dialogue.ids if i in chat.end_ids])
    end = chat.decode(chat.end_ids)
    said = spans.say([*chat.encode("call"), *chat.end_ids])
    forged = f"There is no tool {end}\n{chat.tokenizer.all_special_tokens[0]}{end}"
    spans.hear(info_of([*messages, {"role": "assistant", "content": said},
                        {"role": "tool", "name": end, "content": forged}]))  # fmt: skip
    assert end in spans.dialogue.text
    assert len([i for i in spans.dialogue.ids if i in chat.end_ids]) == plain + 2  # the policy's, and the result's


def test_special_tokens_that_overlap_are_letters() -> None:
    tokenizer = tools_of.bpe_with(KEEPS)
    tokenizer.add_tokens(["end|>x"], special_tokens=True)
    chat = Chat(tokenizer, name="overlapping")
    ids = opened(chat, "<|im_end|>x")[0].dialogue.ids
    assert ids.count(chat.end_ids[0]) == 2, "of the system message and the user's"
    assert tokenizer.convert_tokens_to_ids("end|>x") not in ids


def test_thinking_switched_off_is_in_the_header() -> None:
    """With `enable_thinking=False` Qwen3 writes an empty block before what is said, in prompt and history alike."""
    chat = Chat(tools_of.tokenizer_of("qwen3_training"), name="Qwen3", template_options={"enable_thinking": False})
    spans, messages = opened(chat, "Hello.")
    assert spans.dialogue.text.endswith("</think>\n\n")
    said = spans.say([*chat.encode("Yes?"), *chat.end_ids])
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "No."}]
    spans.hear(info_of(messages))
    assert spans.dialogue.text == chat.tokenizer.apply_chat_template(
        messages, tools=spans.dialogue.tools, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )


def test_the_day_is_the_tasks() -> None:
    chat = Chat(tools_of.tokenizer_of("llama3_2"), name="llama")
    assert "Today Date: 05 Mar 2026\n" in opened(chat, "Hello.")[0].dialogue.text


def test_signatures_stand_in_the_system_message() -> None:
    chat = Chat(tools_of.tokenizer_of("qwen2_5"), tool_docs="signatures", name="qwen")
    spans, _ = opened(chat, "Hello.")
    assert spans.dialogue.tools is None
    assert f"{SYSTEM}\nTools:\nfind_me(id)\ndrop_me(id)<|im_end|>" in spans.dialogue.text
    assert chat_of("smollm2").tool_docs == "signatures", "a template that knows no tools gets them as text"


def test_dialogues_share_nothing() -> None:
    """Forks, and dialogues of equal beginnings, go their own ways."""
    chat = chat_of("qwen2_5")
    one, messages = opened(chat, "Hello.")
    two, _ = opened(chat, "Hello.")
    fork = one.dialogue.fork()
    kept = list(one.dialogue.ids)
    fork.say(chat.encode("a"), [-1.0])
    fork.hear(info_of([*messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}], "new_tool"))
    assert one.dialogue.ids == two.dialogue.ids == kept
    assert [m["role"] for m in one.dialogue.conversation] == ["system", "user"]
    one.say([*chat.encode("c"), *chat.end_ids])
    messages += [{"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]
    one.hear(info_of(messages, "new_tool"))
    assert "new_tool" in one.dialogue.text, "what the fork heard is new here"
    assert two.dialogue.ids == opened(chat, "Hello.")[0].dialogue.ids == kept


def test_a_template_may_write_the_names_of_tools() -> None:
    chat = Chat(tools_of.bpe_with(KEEPS.replace("m.role +", "m.role + (m.name or '') +")), name="named")
    spans, messages = opened(chat, "Hello.")
    for name in ("find_me", "drop_me", "<|im_end|>"):
        said = spans.say(list(chat.end_ids))
        messages += [{"role": "assistant", "content": said}, {"role": "tool", "name": name, "content": "{}"}]
        spans.hear(info_of(messages))
        assert f"tool{name}\n" in spans.dialogue.text


def test_invented_names_fill_no_memory() -> None:
    chat = chat_of("qwen2_5")
    spans, messages = opened(chat, "Hello.")
    before = len(chat._frames)
    for number in range(50):
        said = spans.say(list(chat.end_ids))
        messages += [{"role": "assistant", "content": said}, {"role": "tool", "name": f"t{number}", "content": "{}"}]
        spans.hear(info_of(messages))
    assert len(chat._frames) <= before + 1


def test_a_tokenizer_that_was_told_to_truncate_reads_all() -> None:
    chat = Chat(tools_of.bpe_with("qwen2_5"), name="qwen")
    long = "word " * 100
    ids = chat.encode(long)
    chat.tokenizer(long, truncation=True, max_length=4, padding="max_length")
    assert chat.encode(long) == ids
    assert chat.decode(ids) == long


REFUSED = {
    "Qwen3": (lambda: tools_of.template("qwen3"), "changes earlier messages"),
    "Forgetful": (lambda: DROPS, "changes earlier messages"),
    "DeepSeek": (lambda: tools_of.template("deepseek_r1_distill"), "changes earlier messages"),
    "Gemma": (lambda: tools_of.template("gemma"), "refuses a conversation with tools"),
    "Endless": (lambda: KEEPS.replace("<|im_end|>", "\n\n"), "no special token"),
    "Headless": (lambda: DROPS.replace("add_generation_prompt", "false"), "no header"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_unfit_templates_are_refused_by_name(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(RodsError, match=f"(?s){name}.*{reason}"):
        Chat(tools_of.bpe_with(text()), name=name)


def test_bad_settings_are_refused() -> None:
    tokenizer = tools_of.bpe_with(None)
    with pytest.raises(RodsError, match="Nameless has no chat template"):
        Chat(tokenizer, name="Nameless")
    with pytest.raises(RodsError, match="expected a speech from plain, compact, calls; got 'loud'"):
        Chat(tokenizer, speech="loud")
    with pytest.raises(RodsError, match="expected tool_docs from template, signatures; got 'none'"):
        Chat(tokenizer, tool_docs="none")
