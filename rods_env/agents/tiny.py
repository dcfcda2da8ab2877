"""The tiny policy: a stock Llama of about a million parameters, with words of its own.

It plays three of the services (`TINY_APIS`) in the compact words of `CompactChat`; its chat template names the tools
and says nothing else about them:

    <tools> find_customer list_orders … <user> Cancel my latest order , please . <agent> find_customer Ana Ruiz <end>
    <tool> Ana Ruiz @1 Oslo #1 <agent> …

What such small networks need to learn to look things up was tried out, see `docs/results.md`: a large initial range,
biases in attention, and two heads that begin as a look-up of what followed the present word before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

TOOLS_MARK, USER, AGENT, TOOL, END, PAD, UNKNOWN = "<tools>", "<user>", "<agent>", "<tool>", "<end>", "<pad>", "<unk>"
SPECIAL = (PAD, UNKNOWN, TOOLS_MARK, USER, AGENT, TOOL, END)
MAX_LENGTH = 512
_FAST, _SLOW = 0.15, 0.05  # radians a position: pairs that tell neighbours apart, pairs that hardly turn

TEMPLATE = (
    "{{ '<tools>' }}{% for tool in tools or [] %}{{ ' ' + tool.function.name }}{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}{{ ' <agent> ' + m.content + ' <end>' }}"
    "{% elif m.role == 'tool' %}{{ ' <tool> ' + m.content }}"
    "{% elif m.role == 'user' %}{{ ' <user> ' + m.content }}"
    "{% else %}{{ raise_exception('the tiny template knows the roles user, assistant and tool only') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ ' <agent> ' }}{% endif %}"
)


def vocabulary(texts: Iterable[str], size: int = 2000) -> list[str]:
    """The words of texts, the most frequent first, behind the marks and the numbers that every policy needs."""
    counted: Counter[str] = Counter()
    for text in texts:
        counted.update(text.split())
    always = [*SPECIAL, *map(str, range(100)), *(f"0{n}" for n in range(10))]
    always += [f"{sign}{n}" for sign, most in (("#", 48), ("@", 12), ('"', 16)) for n in range(1, most + 1)]
    known = dict.fromkeys(always)
    for word, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if len(known) >= size:
            break
        known[word] = None
    return list(known)


def make_tokenizer(words: list[str]) -> Any:
    """A tokenizer of transformers whose tokens are words between spaces."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, eos_token=END, model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    return fast


def make_model(
    vocabulary_size: int,
    seed: int = 0,
    *,
    width: int = 128,
    layers: int = 4,
    heads: int = 4,
    kv_heads: int = 1,
    inner: int = 384,
    initializer_range: float = 0.06,
    rope_theta: float = 1e6,
    look_up_heads: bool = True,
    max_length: int = MAX_LENGTH,
) -> Any:
    """An untrained Llama. The seed is not a global one: torch's generator is left as it was."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary_size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, intermediate_size=inner, max_position_embeddings=max_length,
        initializer_range=initializer_range, attention_bias=True, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta}, bos_token_id=None,
        pad_token_id=SPECIAL.index(PAD), eos_token_id=SPECIAL.index(END),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    if look_up_heads:
        look_at_previous_word(model)
        if layers > 1:
            look_up_what_followed(model, seed)
    return model.eval()


def look_at_previous_word(model: Any, sharpness: float = 6.0) -> None:
    """Sets the biases of one head of the first layer so that it begins by attending to the word before.

    With rotary positions the score of a query bias b rotated by m and a key bias c rotated by n is b·R(n-m)c. With
    b = R(-1)c it is largest where n = m - 1.

    Args:
        model: a Llama with `attention_bias`.
        sharpness: by how much the score of the word before exceeds that of its neighbours.
    """
    import torch

    config = model.config
    size = config.head_dim
    half = size // 2
    frequency = _frequencies(model)
    used = (frequency > _FAST).float()  # slower ones do not tell neighbours apart
    gain = ((1 - torch.cos(frequency)) * used).sum()
    scale = math.sqrt(sharpness * math.sqrt(size) / float(gain))
    key = torch.cat([used * scale, torch.zeros(half)])
    # transformers rotates the pair (i, i + half): (x, y) to (x cos - y sin, y cos + x sin).
    query = torch.cat([used * scale * torch.cos(frequency), -used * scale * torch.sin(frequency)])
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        attention.q_proj.bias[:size] = query
        attention.k_proj.bias[:size] = key


def look_up_what_followed(model: Any, seed: int = 0, sharpness: float = 1.4) -> None:
    """Sets one head of the second layer so that it begins by looking for where the present word stood before.

    The first layer's head that looks at the word before (`look_at_previous_word`) writes what it finds there into a
    subspace of its own; the second layer's head compares the present word with that subspace, and copies the word it
    finds: after "Ana … Ana" it attends to what followed the first "Ana". Only those pairs of a head's dimensions are
    used that rotary positions turn slowly.

    Args:
        model: a Llama with `attention_bias`, of two layers or more.
        seed: of the subspaces.
        sharpness: scale of the comparison.
    """
    import torch

    config = model.config
    size, width = config.head_dim, config.hidden_size
    frequency = _frequencies(model)
    rows = _pairs(frequency < _SLOW)
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(width, width, generator=generator))[0].T
    n = min(len(rows), width // 3)
    rows = rows[:n]
    words, place, copied = basis[:n], basis[n : 2 * n], basis[:size]
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    with torch.no_grad():
        first.q_proj.weight[:size] = 0.0  # where to look depends on the position only
        first.k_proj.weight[_pairs(frequency > _FAST)] = 0.0  # heads that share keys find words by the other rows
        first.v_proj.weight[:n] = words
        first.o_proj.weight[:, :n] = 0.12 * place.T  # about as long as an embedding
        second.q_proj.weight[:size] = 0.0
        second.q_proj.weight[rows] = sharpness * words
        second.k_proj.weight[rows] = sharpness * place
        second.v_proj.weight[:size] = copied
        second.o_proj.weight[:, :size] = 0.12 * copied.T


def _frequencies(model: Any) -> Any:
    """By how much each pair of a head's dimensions turns from one position to the next, in radians."""
    import torch

    half = model.config.head_dim // 2
    theta = model.config.rope_parameters["rope_theta"]
    return theta ** (-torch.arange(half, dtype=torch.float32) / half)


def _pairs(chosen: Any) -> list[int]:
    """The rows of a head's projection for the chosen pairs of dimensions; transformers pairs i with i + half."""
    some = [i for i, is_chosen in enumerate(chosen.tolist()) if is_chosen]
    return [*some, *(i + len(chosen) for i in some)]
