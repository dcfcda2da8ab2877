"""The update of a small Llama on a CPU: hidden states with gradients, of those tokens alone whose loss is wanted.

Three tokens in four of an episode were heard, not said, and more have no advantage. All layers must read them, but of
the last layer only their keys and values matter: its queries, its output and its MLP are computed for wanted tokens.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from rods_env.agents.forward import is_plain_llama


def states_of(model: Any, ids: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The last hidden states of wanted tokens, from which the output layer computes the logits of the next ones.

    Args:
        model: a causal language model of transformers with causal attention.
        ids: (rows, tokens), padded on the right only; every row begins at position 0.
        wanted: (rows, tokens), true for at least one token.

    Returns:
        (wanted tokens, hidden size), row by row.
    """
    if not is_plain_llama(model) or (model.training and _more_than_plain(model)):
        states: torch.Tensor = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[wanted]
        return states
    base = model.model
    x = F.embedding(ids, base.embed_tokens.weight)
    angles = base.rotary_emb(x, torch.arange(ids.shape[1], device=ids.device)[None])
    for layer in base.layers[:-1]:
        x = _layer(layer, x, *angles)
    return _norm(base.norm, _last_layer(base.layers[-1], x, wanted, *angles))


def _more_than_plain(model: Any) -> bool:
    """Whether training asks for what only the model's own pass does."""
    checkpointing = any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
    return checkpointing or model.config.attention_dropout > 0.0


def _layer(layer: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """A layer for all tokens: (rows, tokens, size) to the same."""
    attention = layer.self_attn
    read = _joined(_norm(layer.input_layernorm, x), attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (_heads(part, attention.head_dim) for part in read)
    q, k = _turned(q, cos, sin), _turned(k, cos, sin)
    found = F.scaled_dot_product_attention(q, *_shared(k, v, q.shape[1]), is_causal=True)
    return _mlp(layer, x + attention.o_proj(found.transpose(1, 2).flatten(2)))


def _last_layer(
    layer: Any, x: torch.Tensor, wanted: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """The last layer for wanted tokens: (rows, tokens, size) to (wanted tokens, size)."""
    attention, size = layer.self_attn, layer.self_attn.head_dim
    h = _norm(layer.input_layernorm, x)
    k, v = (_heads(part, size) for part in _joined(h, attention.k_proj, attention.v_proj))
    # The places of the wanted tokens of each row, padded on the right with those of others.
    counts = wanted.sum(1)
    places = wanted.int().argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]
    real = torch.arange(places.shape[1], device=places.device) < counts[:, None]
    rows = torch.arange(len(places), device=places.device)[:, None]
    q = _turned(_heads(attention.q_proj(h[rows, places]), size), cos[0][places], sin[0][places])
    seen = (torch.arange(x.shape[1], device=x.device) <= places[:, :, None])[:, None]
    k = _turned(k, cos, sin)
    found = F.scaled_dot_product_attention(q, *_shared(k, v, q.shape[1]), attn_mask=seen)
    return _mlp(layer, x[wanted] + attention.o_proj(found.transpose(1, 2).flatten(2)[real]))


def _mlp(layer: Any, x: torch.Tensor) -> torch.Tensor:
    mlp = layer.mlp
    gate, up = _joined(_norm(layer.post_attention_layernorm, x), mlp.gate_proj, mlp.up_proj)
    y: torch.Tensor = x + mlp.down_proj(F.silu(gate) * up)
    return y


def _norm(norm: Any, x: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _joined(x: torch.Tensor, *modules: Any) -> tuple[torch.Tensor, ...]:
    """Linear layers of the same input, as one product."""
    bias = None if modules[0].bias is None else torch.cat([module.bias for module in modules])
    y = F.linear(x, torch.cat([module.weight for module in modules]), bias)
    parts: tuple[torch.Tensor, ...] = y.split([module.out_features for module in modules], dim=-1)
    return parts


def _heads(x: torch.Tensor, size: int) -> torch.Tensor:
    return x.view(*x.shape[:-1], -1, size).transpose(1, 2)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions: x (rows, heads, tokens, size), angles (rows or 1, tokens, size)."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos[:, None] + turned * sin[:, None]


def _shared(k: torch.Tensor, v: torch.Tensor, heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values for each head of queries; one head for all is not copied."""
    rows, kv, tokens, size = k.shape
    if kv == heads:
        return k, v
    shape = (rows, kv, heads // kv, tokens, size)
    return k[:, :, None].expand(shape).flatten(1, 2), v[:, :, None].expand(shape).flatten(1, 2)
