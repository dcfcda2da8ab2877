"""Forward passes over sequences in slots: for any model of transformers, and a lean one for small Llamas.

Keys and values of all slots lie in one buffer for each layer, (slots, heads, length + 1, size); the last place takes
what belongs nowhere (padding). While messages are sampled, the rows at work are contiguous copies, so that attention
reads memory in order; new keys and values are written to both.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from transformers.cache_utils import Cache

from rods_env.errors import RodsError

Tensors = tuple[torch.Tensor, torch.Tensor]


class Slots:
    """The buffers of keys and values, and where the tokens of the present pass belong."""

    def __init__(self, model: Any, slots: int, max_length: int) -> None:
        config = model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, slots, heads, max_length + 1, size)
        self.keys = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.values = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.device = model.device
        self.nowhere = max_length
        self._slots = slots

    # ------------------------------------------------------------------ reading: many tokens for each row

    def place(self, rows: Sequence[int], starts: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> None:
        """The next pass reads `counts[i]` tokens of slot `rows[i]` behind its `starts[i]`, padded on the right."""
        self.rows = torch.as_tensor(rows, device=self.device)
        first, some = torch.as_tensor(starts, device=self.device), torch.as_tensor(counts, device=self.device)
        at = torch.arange(int(counts.max()), device=self.device)
        self.positions = first[:, None] + at
        self._written = torch.where(at < some[:, None], self.positions, self.nowhere)
        self._end = int((starts + counts).max())
        self.mask = (torch.arange(self._end, device=self.device) <= self.positions[:, :, None])[:, None]
        self.positions = self.positions.clamp(max=self.nowhere - 1)  # of padding; models with a table know no others
        self._work: Tensors | None = None

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """The first tokens of a slot, to others."""
        to = torch.as_tensor(targets, device=self.device)
        self.keys[:, to, :, :length] = self.keys[:, source, None, :, :length]
        self.values[:, to, :, :length] = self.values[:, source, None, :, :length]

    # ------------------------------------------------------------------ sampling: one token for each row at work

    def begin(self, rows: Sequence[int], lengths: np.ndarray[Any, Any], most: int) -> None:
        """Messages of up to `most` tokens are sampled for these slots, which hold `lengths` tokens."""
        self.rows = torch.as_tensor(rows, device=self.device)
        self.lengths = torch.as_tensor(lengths, device=self.device)
        self._longest = int(lengths.max())
        end = min(self._longest + most, self.nowhere) + 1
        whole = list(rows) == list(range(self._slots))
        self._work = self.keys, self.values
        if not whole:
            self._work = self.keys[:, self.rows, :, :end], self.values[:, self.rows, :, :end]

    def keep(self, kept: torch.Tensor) -> None:
        """Only these of the rows at work go on."""
        assert self._work is not None
        keys, values = self._work
        self._work = keys[:, kept], values[:, kept]
        self.rows, self.lengths = self.rows[kept], self.lengths[kept]

    def next(self) -> None:
        """The next pass reads one token of each row at work."""
        self._at = self.lengths.clamp(max=self.nowhere)  # what ended at the limit still goes on, and belongs nowhere
        self.positions = self._at[:, None].clamp(max=self.nowhere - 1)
        self._longest = min(self._longest + 1, self.nowhere)
        self._end = self._longest
        self.mask = (torch.arange(self._end, device=self.device) <= self.positions[:, :, None])[:, None]
        self.lengths = self.lengths + 1

    # ------------------------------------------------------------------ inside a pass

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> Tensors:
        """Takes the keys and values (rows, heads, tokens, size) of the pass; returns those that it may attend to."""
        if self._work is None:
            rows = self.rows[:, None]
            self.keys[layer][rows, :, self._written] = keys.transpose(1, 2)
            self.values[layer][rows, :, self._written] = values.transpose(1, 2)
            return self.keys[layer][self.rows, :, : self._end], self.values[layer][self.rows, :, : self._end]
        at = self._at
        work_keys, work_values = self._work[0][layer], self._work[1][layer]
        order = torch.arange(len(at), device=self.device)
        work_keys[order, :, at] = keys[:, :, 0]
        work_values[order, :, at] = values[:, :, 0]
        if self._work[0] is not self.keys:
            self.keys[layer][self.rows, :, at] = keys[:, :, 0]
            self.values[layer][self.rows, :, at] = values[:, :, 0]
        return work_keys[:, :, : self._end], work_values[:, :, : self._end]


class Forward:
    """Passes of any causal language model of transformers with full attention, through its own `forward`.

    Raises:
        RodsError: if the model has layers that a buffer of keys and values does not serve.
    """

    def __init__(self, model: Any, slots: int, max_length: int) -> None:
        _check_layers(model, max_length)
        self.model = model
        self.slots = Slots(model, slots, max_length)
        self._cache = _SlotCache(self.slots)
        names = inspect.signature(model.get_decoder().forward).parameters
        self._name = "cache" if "cache" in names else "past_key_values"  # its name before transformers 5.20

    def read(
        self, rows: Sequence[int], ids: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]
    ) -> torch.Tensor:
        """Reads new tokens, (rows, width) padded on the right. Returns the logits after the last of each row."""
        self.slots.place(rows, starts, counts)
        tokens = torch.from_numpy(ids).to(self.slots.device)
        last = torch.as_tensor(counts - 1, device=self.slots.device)
        return self._pass(tokens, last)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Reads one token of each row at work. Returns the logits after it, (rows, words)."""
        self.slots.next()
        return self._pass(tokens[:, None], None)

    def _pass(self, tokens: torch.Tensor, last: torch.Tensor | None) -> torch.Tensor:
        base = self.model.get_decoder()
        mask = self.slots.mask
        if base.config._attn_implementation == "eager":  # adds the mask to the scores
            mask = torch.zeros_like(mask, dtype=self.model.dtype).masked_fill_(~mask, torch.finfo(self.model.dtype).min)
        hidden = base(
            input_ids=tokens, attention_mask=mask, position_ids=self.slots.positions,
            use_cache=True, **{self._name: self._cache},
        ).last_hidden_state  # fmt: skip
        at = torch.arange(len(tokens), device=tokens.device)
        chosen = hidden[at, last] if last is not None else hidden[:, 0]
        logits: torch.Tensor = self.model.get_output_embeddings()(chosen)
        return logits


class _SlotCache(Cache):
    """The slots, as transformers' models see them."""

    def __init__(self, slots: Slots) -> None:
        super().__init__(layers=[])
        self._slots = slots

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> Tensors:
        return self._slots.write(layer_idx, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0  # positions are always given


class LeanLlama(Forward):
    """The same for Llamas, with a third of the calls: at this size the interpreter costs more than the arithmetic."""

    def __init__(self, model: Any, slots: int, max_length: int) -> None:
        super().__init__(model, slots, max_length)
        config = model.config
        self._heads, self._kv = config.num_attention_heads, config.num_key_value_heads
        self._size = config.head_dim
        self._shape = self._kv, self._heads // self._kv, self._size
        positions = torch.arange(max_length + 1, device=model.device)[None]
        cos, sin = model.model.rotary_emb(model.model.embed_tokens.weight, positions)
        self._cos, self._sin = cos[0], sin[0]

    def _pass(self, tokens: torch.Tensor, last: torch.Tensor | None) -> torch.Tensor:
        model, slots = self.model.model, self.slots
        n, width = tokens.shape
        kv, group, size = self._shape
        cos, sin = self._cos[slots.positions][:, :, None], self._sin[slots.positions][:, :, None]
        mask = slots.mask if width == 1 else slots.mask.repeat(1, 1, group, 1)
        x = F.embedding(tokens, model.embed_tokens.weight)
        for number, layer in enumerate(model.layers):
            attention = layer.self_attn
            h = _norm(x, layer.input_layernorm)
            q = _linear(h, attention.q_proj).view(n, width, self._heads, size)
            k = _linear(h, attention.k_proj).view(n, width, kv, size)
            v = _linear(h, attention.v_proj).view(n, width, kv, size)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
            keys, values = slots.write(number, k.transpose(1, 2), v.transpose(1, 2))
            # Heads that share keys are further queries, which spares repeating the keys.
            q = q.view(n, width, kv, group, size).permute(0, 2, 3, 1, 4).reshape(n, kv, group * width, size)
            out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            out = out.view(n, kv, group, width, size).permute(0, 3, 1, 2, 4).reshape(n, width, -1)
            x = x + _linear(out, attention.o_proj)
            h = _norm(x, layer.post_attention_layernorm)
            mlp = layer.mlp
            x = x + _linear(F.silu(_linear(h, mlp.gate_proj)) * _linear(h, mlp.up_proj), mlp.down_proj)
        x = x[torch.arange(n, device=x.device), last] if last is not None else x[:, 0]
        return F.linear(_norm(x, model.norm), self.model.lm_head.weight)


def _norm(x: torch.Tensor, norm: Any) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _linear(x: torch.Tensor, module: Any) -> torch.Tensor:
    return F.linear(x, module.weight, module.bias)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def make_forward(model: Any, slots: int, max_length: int, lean: bool = True) -> Forward:
    """The passes of a model: lean for a plain float32 Llama on a CPU, its own otherwise.

    Raises:
        RodsError: if they do not compute what the model computes.
    """
    kind = LeanLlama if lean and _is_plain_llama(model) else Forward
    forward = kind(model, slots, max_length)
    _check_logits(model, forward, max_length)
    return forward


def _is_plain_llama(model: Any) -> bool:
    from transformers import LlamaForCausalLM

    if type(model) is not LlamaForCausalLM or model.dtype != torch.float32 or model.device.type != "cpu":
        return False
    rotary = model.model.rotary_emb
    # Adapters put layers of their own where linear ones were.
    linear = [m for layer in model.model.layers for m in (*layer.self_attn.children(), *layer.mlp.children())]
    return (
        model.config.hidden_act == "silu"
        and rotary.attention_scaling == 1.0
        and rotary.rope_type in ("default", "linear", "llama3")  # others depend on the length
        and all(type(module) is torch.nn.Linear for module in linear if next(module.parameters(), None) is not None)
        and type(model.lm_head) is torch.nn.Linear
        and model.lm_head.bias is None
    )


def _check_layers(model: Any, max_length: int) -> None:
    config = model.config.get_text_config()
    name = type(model).__name__
    kinds = set(getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None)
    others = sorted(kinds - {"full_attention", "sliding_attention"})
    if others:
        raise RodsError(f"expected a model with full attention; {name} has layers of {', '.join(others)}.")
    if window and window < max_length and (not kinds or "sliding_attention" in kinds):
        raise RodsError(
            f"expected a model with full attention; {name} attends to {window} tokens only: allow an episode at most "
            f"{window} tokens; now it may have {max_length}."
        )
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager"):
        raise RodsError(f"expected a model with the attention 'sdpa' or 'eager' for sampling; got {attention!r}.")


@torch.no_grad()
def _check_logits(model: Any, forward: Forward, max_length: int) -> None:
    """Compares a few tokens read in two passes with the model's own forward: scaled or capped logits, say, differ."""
    ids = np.arange(1, 1 + min(5, max_length, model.config.get_text_config().vocab_size - 1))[None]
    if ids.shape[1] < 2:
        return
    training = model.training
    model.eval()
    try:
        expected = model(input_ids=torch.from_numpy(ids).to(model.device)).logits[0, -1].float()
        forward.read([0], ids[:, :-1], np.array([0]), np.array([ids.shape[1] - 1]))
        found = forward.read([0], ids[:, -1:], np.array([ids.shape[1] - 1]), np.array([1]))[0].float()
    finally:
        model.train(training)
    allowed = (1e-3 if model.dtype == torch.float32 else 0.1) * max(1e-3, float(expected.abs().max()))
    if not float((found - expected).abs().max()) <= allowed and bool(expected.isfinite().all()):
        raise RodsError(
            f"the logits of {type(model).__name__} are not what sampling with kept keys and values computes (off by "
            f"{float((found - expected).abs().max()):.2g}): use a Llama, Qwen2, Qwen3 or another model whose logits "
            "are its output embedding times its last hidden state."
        )
