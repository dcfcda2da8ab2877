"""Forward passes over sequences in slots: for any model of transformers, and a lean one for small Llamas.

Keys and values of all slots lie in one buffer for each layer, (rows, heads, length + 1, size); the last place of a row
takes what belongs nowhere (padding). While messages are sampled, the sequences at work lie in the first rows, so that
attention reads memory in order and nothing is kept twice: what has ended changes places with what still goes on.
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
        self.mask = self.positions = torch.empty(0)
        self._row = np.arange(slots)  # of each slot
        self._slot = np.arange(slots)  # of each row
        self._filled = np.zeros(slots, dtype=np.int64)  # places of each row that hold something

    # ------------------------------------------------------------------ reading: many tokens for each row

    def place(self, slots: Sequence[int], starts: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> None:
        """The next pass reads `counts[i]` tokens of slot `slots[i]` behind its `starts[i]`, padded on the right."""
        rows = self._row[list(slots)]
        self._filled[rows] = starts + counts
        self._rows = torch.as_tensor(rows, device=self.device)
        first, some = torch.as_tensor(starts, device=self.device), torch.as_tensor(counts, device=self.device)
        at = torch.arange(int(counts.max()), device=self.device)
        self.positions = first[:, None] + at
        self._written = torch.where(at < some[:, None], self.positions, self.nowhere)
        self._end = int((starts + counts).max())
        self._fresh = not starts.any()
        self.mask = (torch.arange(self._end, device=self.device) <= self.positions[:, :, None])[:, None]
        self.positions = self.positions.clamp(max=self.nowhere - 1)  # of padding; models with a table know no others
        self._reading = True

    def copy(self, source: int, targets: Sequence[int], start: int, end: int) -> None:
        """The tokens of a slot from one place to another, to others that hold the same up to there."""
        rows = self._row[list(targets)]
        self._filled[rows] = end
        row, to = int(self._row[source]), torch.as_tensor(rows, device=self.device)
        self.keys[:, to, :, start:end] = self.keys[:, row, None, :, start:end]
        self.values[:, to, :, start:end] = self.values[:, row, None, :, start:end]

    # ------------------------------------------------------------------ sampling: one token for each row at work

    def begin(self, slots: Sequence[int], lengths: np.ndarray[Any, Any]) -> torch.Tensor:
        """Messages are sampled for these slots, which hold `lengths` tokens.

        Returns:
            The order in which they are at work from now on, as indices of `slots`.
        """
        n = len(slots)
        working = np.zeros(len(self._row), dtype=bool)
        working[self._row[list(slots)]] = True
        self._exchange(np.flatnonzero(~working[:n]), n + np.flatnonzero(working[n:]))
        asked = np.empty(len(self._row), dtype=np.int64)
        asked[list(slots)] = np.arange(n)
        order = asked[self._slot[:n]]
        self._lengths = torch.as_tensor(lengths[order], device=self.device)
        self._longest = int(lengths.max())
        self._reading = False
        self._count(n)
        return torch.as_tensor(order, device=self.device)

    def keep(self, going: torch.Tensor) -> torch.Tensor:
        """Only those rows at work go on for which `going` is true.

        Returns:
            Their order from now on, as indices of the rows that were at work.
        """
        goes = going.cpu().numpy()
        n = int(goes.sum())
        holes, movers = np.flatnonzero(~goes[:n]), n + np.flatnonzero(goes[n:])
        self._exchange(holes, movers)
        order = np.arange(n)
        order[holes] = movers
        kept = torch.as_tensor(order, device=self.device)
        self._lengths = self._lengths[kept]
        self._count(n)
        return kept

    def next(self) -> None:
        """The next pass reads one token of each row at work."""
        self._at = self._lengths.clamp(max=self.nowhere)  # what ended at the limit still goes on, and belongs nowhere
        self.positions = self._at[:, None].clamp(max=self.nowhere - 1)
        self._longest = min(self._longest + 1, self.nowhere)
        self._end = self._longest
        self.mask = (torch.arange(self._end, device=self.device) <= self.positions[:, :, None])[:, None]
        self._lengths = self._lengths + 1
        self._filled[: len(self._order)] = np.minimum(self._filled[: len(self._order)] + 1, self.nowhere)

    def _count(self, n: int) -> None:
        """The first n rows are at work."""
        self._order = torch.arange(n, device=self.device)

    def _exchange(self, some: np.ndarray[Any, Any], others: np.ndarray[Any, Any]) -> None:
        """These rows change places with as many others."""
        if not len(some):
            return
        to, source = np.concatenate([some, others]), np.concatenate([others, some])
        end = int(self._filled[to].max())
        targets, sources = torch.as_tensor(to, device=self.device), torch.as_tensor(source, device=self.device)
        for buffer in (self.keys, self.values):
            for layer in buffer:
                part = layer[:, :, :end]
                part.index_copy_(0, targets, part.index_select(0, sources))
        self._filled[to] = self._filled[source]
        self._slot[to] = self._slot[source]
        self._row[self._slot[to]] = to

    # ------------------------------------------------------------------ inside a pass

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> Tensors:
        """Takes the keys and values (rows, heads, tokens, size) of the pass; returns those that it may attend to."""
        all_keys, all_values = self.keys[layer], self.values[layer]
        if self._reading:
            rows = self._rows[:, None]
            all_keys[rows, :, self._written] = keys.transpose(1, 2)
            all_values[rows, :, self._written] = values.transpose(1, 2)
            if self._fresh:
                return keys, values
            some_keys, some_values = all_keys[:, :, : self._end], all_values[:, :, : self._end]
            return some_keys.index_select(0, self._rows), some_values.index_select(0, self._rows)
        all_keys[self._order, :, self._at] = keys[:, :, 0]
        all_values[self._order, :, self._at] = values[:, :, 0]
        n = len(self._order)
        return all_keys[:n, :, : self._end], all_values[:n, :, : self._end]


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

    def refresh(self) -> None:
        """The weights of the model may have changed since the last pass."""

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
    """The same for Llamas, with a third of the calls: at this size the interpreter costs more than the arithmetic.

    Weights that read the same input are joined, and the scales of the norms before them are multiplied into them:
    `refresh` does so anew, which costs about as much as one pass of a batch.
    """

    def __init__(self, model: Any, slots: int, max_length: int) -> None:
        super().__init__(model, slots, max_length)
        config = model.config
        self._heads, self._kv = config.num_attention_heads, config.num_key_value_heads
        self._size = config.head_dim
        positions = torch.arange(max_length + 1, device=model.device)[None]
        cos, sin = model.model.rotary_emb(model.model.embed_tokens.weight, positions)
        half = self._size // 2
        self._cos, self._sin = cos[0], torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        self._layers = []
        for layer in self.model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            self._layers.append((
                _joined(layer.input_layernorm, attention.q_proj, attention.k_proj, attention.v_proj),
                (attention.o_proj.weight, attention.o_proj.bias),
                _joined(layer.post_attention_layernorm, mlp.gate_proj, mlp.up_proj),
                (mlp.down_proj.weight, mlp.down_proj.bias),
            ))  # fmt: skip
        self._head = _joined(self.model.model.norm, self.model.lm_head)

    def _pass(self, tokens: torch.Tensor, last: torch.Tensor | None) -> torch.Tensor:
        slots, heads, kv, size = self.slots, self._heads, self._kv, self._size
        n, width = tokens.shape
        eps = self.model.config.rms_norm_eps
        cos, sin = self._cos[slots.positions][:, :, None], self._sin[slots.positions][:, :, None]
        # As numbers to add, made once for all layers; attention would make them of a boolean mask in each.
        mask = torch.zeros(slots.mask.shape).masked_fill_(~slots.mask, -torch.inf)
        every = self._for_heads(mask)
        x = F.embedding(tokens, self.model.model.embed_tokens.weight)
        for number, (qkv, out, gate_up, down) in enumerate(self._layers):
            h = F.linear(_norm(x, eps), *qkv).view(n, width, heads + 2 * kv, size)
            qk = h[:, :, : heads + kv]
            qk = torch.addcmul(qk * cos, torch.cat((qk[..., size // 2 :], qk[..., : size // 2]), dim=-1), sin)
            keys, values = slots.write(number, qk[:, :, heads:].transpose(1, 2), h[:, :, heads + kv :].transpose(1, 2))
            q = qk[:, :, :heads]
            if last is not None and number == len(self._layers) - 1:  # what follows is asked for the last tokens only
                at = torch.arange(n, device=x.device)
                q, x, every = q[at, last][:, None], x[at, last][:, None], self._for_heads(mask[at, :, last][:, None])
            x = x + F.linear(self._attended(q, keys, values, every), *out)
            gate, up = F.linear(_norm(x, eps), *gate_up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate).mul_(up), *down)
        return F.linear(_norm(x[:, 0], eps), *self._head)

    def _for_heads(self, mask: torch.Tensor) -> torch.Tensor:
        """The mask, (rows, 1, tokens, keys), as `_attended` takes it: heads that share keys are further queries there,
        which spares repeating the keys."""
        n, _, width, _ = mask.shape
        if width > 1:
            return mask.repeat(1, 1, self._heads // self._kv, 1)
        return mask.expand(n, self._kv, 1, -1).flatten(0, 1)

    def _attended(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """What queries (rows, tokens, heads, size) find, as (rows, tokens, all heads' sizes)."""
        n, width, heads, size = q.shape
        kv = self._kv
        if width == 1:  # the fused attention is slower here: it is made for many queries
            scores = torch.baddbmm(
                mask, q.reshape(n * kv, heads // kv, size), keys.flatten(0, 1).transpose(1, 2), alpha=size**-0.5
            )
            return torch.bmm(scores.softmax(-1), values.flatten(0, 1)).view(n, 1, -1)
        q = q.view(n, width, kv, heads // kv, size).permute(0, 2, 3, 1, 4).reshape(n, kv, -1, size)
        found = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return found.view(n, kv, heads // kv, width, size).permute(0, 3, 1, 2, 4).reshape(n, width, -1)


def _norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), None, eps)


def _joined(norm: Any, *modules: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weight and bias of linear layers that read the same normed input, with the scale of the norm in the weight."""
    weight = torch.cat([module.weight for module in modules]) * norm.weight
    if all(module.bias is None for module in modules):
        return weight, None
    return weight, torch.cat([m.weight.new_zeros(len(m.weight)) if m.bias is None else m.bias for m in modules])


def make_forward(model: Any, slots: int, max_length: int, lean: bool = True) -> Forward:
    """The passes of a model: lean for a plain float32 Llama on a CPU, its own otherwise.

    Raises:
        RodsError: if they do not compute what the model computes.
    """
    kind = LeanLlama if lean and is_plain_llama(model) else Forward
    forward = kind(model, slots, max_length)
    _check_logits(model, forward, max_length)
    return forward


def is_plain_llama(model: Any) -> bool:
    """Whether our own passes compute what a model computes: a float32 Llama on a CPU, without adapters."""
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
