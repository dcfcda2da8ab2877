"""Our own pass of the update computes what the model computes, states and gradients, and less of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from rods_env.agents import lean_states
from rods_env.agents.lean_states import states_of

SIZE: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip


def llama(**changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZE, "num_key_value_heads": 1, **changes}))
    for value in model.parameters():
        if value.dim() == 1:  # norms are all ones and biases all zeros before training
            value.data += 0.1 * torch.randn_like(value)
    return model.train()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    some = torch.Generator().manual_seed(1)
    ids = torch.randint(50, (5, 20), generator=some)
    wanted = torch.rand(5, 20, generator=some) < 0.2
    wanted[0] = False  # a row of which nothing is wanted
    wanted[1] = True
    wanted[2, -1] = wanted[3, 0] = True
    return ids, wanted


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"num_key_value_heads": 2}, {"num_key_value_heads": 4}, {"attention_bias": True, "mlp_bias": True},
        {"num_hidden_layers": 1}, {"tie_word_embeddings": True}, {"head_dim": 16}, {"attn_implementation": "eager"},
    ],
    ids=lambda changes: ",".join(changes) or "plain",
)  # fmt: skip
def test_states_and_gradients_are_those_of_the_model(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama(**changes)
    ids, wanted = batch()
    weights = torch.randn(int(wanted.sum()), 32, generator=torch.Generator().manual_seed(2))
    theirs = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[wanted]
    (theirs * weights).sum().backward()
    gradients = {name: value.grad for name, value in model.model.named_parameters()}
    model.zero_grad()
    monkeypatch.setattr(type(model.model), "forward", lambda *_, **__: pytest.fail("the model's own pass was made"))
    mine = states_of(model, ids, wanted)
    (mine * weights).sum().backward()
    assert torch.allclose(mine, theirs, atol=1e-5)
    for name, value in model.model.named_parameters():
        assert torch.allclose(value.grad, gradients[name], atol=1e-4), name
        assert value.grad.abs().max() > 0, name


def test_other_models_make_their_own_pass() -> None:
    torch.manual_seed(0)
    ids, wanted = batch()
    qwen = Qwen2ForCausalLM(Qwen2Config(**SIZE, num_key_value_heads=2)).eval()
    states = states_of(qwen, ids, wanted)
    assert torch.equal(states, qwen.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[wanted])


@pytest.mark.parametrize("kind", ["checkpointing", "dropout"])
def test_what_only_the_model_does_is_left_to_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama(**({"attention_dropout": 0.5} if kind == "dropout" else {}))
    if kind == "checkpointing":
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable()
    calls: list[int] = []
    real = lean_states._last_layer
    monkeypatch.setattr(lean_states, "_last_layer", lambda *args: calls.append(1) or real(*args))
    states_of(model, *batch())
    assert not calls
    states_of(model.eval(), *batch())
    assert calls
