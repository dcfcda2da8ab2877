"""Sampling many at once with kept keys and values gives what one by one without gives: tokens and log-probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from play_tools import MODELS, model_of

from rods_env.agents.decoding import Request, Sample, Sampler
from rods_env.agents.forward import Forward, LeanLlama
from rods_env.errors import RodsError

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = 40
ENDS = (3, 5)
LENGTH = 64
Plan = list[tuple[int, list[int], int]]  # slot, new tokens, limit


@torch.no_grad()
def plainly(
    model: Any, ids: Sequence[int], limit: int, noise: Any, heat: float = 1.0, top_p: float = 1.0, ends: Any = ()
) -> Sample:
    """A message sampled by the definition: one sequence, all of it through the model for every token."""
    said: list[int] = []
    logs: list[float] = []
    while len(said) < limit and (not said or said[-1] not in ends):
        logits = model(input_ids=torch.tensor([[*ids, *said]])).logits[0, -1].double()
        log = F.log_softmax(logits / (heat or 1.0), -1).numpy()
        chances, order = np.exp(log), np.argsort(-log)
        others = np.cumsum(chances[order]) - chances[order] >= top_p
        chances[order[others]] = 0.0
        cumulated = np.cumsum(chances)
        wanted = noise[len(said)] * cumulated[-1]
        token = int(np.argmax(cumulated > wanted)) if heat else int(order[0])
        said.append(token)
        logs.append(float(log[token]))
    return Sample(said, logs)


def rounds(rng: np.random.Generator) -> list[Plan]:
    """Four rounds over five slots: other lengths, other members, equal beginnings, slots that begin anew."""

    def some(n: int) -> list[int]:
        return rng.integers(6, WORDS, n).tolist()

    same = some(7)
    return [
        [(0, some(3), 6), (3, same, 9), (1, some(11), 1), (4, list(same), 4), (2, list(same), 9)],
        [(4, some(2), 8), (0, some(1), 8)],
        [(2, some(5), 3), (1, some(4), 12), (3, some(9), 6), (0, some(1), 5)],
        [(3, some(4), 6), (0, some(12), 9), (2, list(same), 5)],  # 0 and 2 were emptied
    ]


def play(sampler: Sampler, model: Any, plans: list[Plan], seed: int, heat: float, top_p: float) -> int:
    """Plays rounds both ways and compares. Returns how many tokens were sampled."""
    rng, done, total = np.random.default_rng(seed), {slot: [] for slot in range(5)}, 0
    unread: dict[int, list[int]] = {slot: [] for slot in range(5)}
    for number, plan in enumerate(plans):
        if number == 3:
            for slot in (0, 2):
                sampler.release(slot)
                done[slot], unread[slot] = [], []
        requests = [Request(s, [*unread[s], *new], limit, rng.random(limit + 2)) for s, new, limit in plan]
        samples = sampler.generate(requests)
        for (slot, new, limit), request, sample in zip(plan, requests, samples, strict=True):
            done[slot] += new
            alone = plainly(model, done[slot], limit, request.noise, heat, top_p, ENDS)
            assert sample.ids == alone.ids, (number, slot)
            assert np.abs(np.subtract(sample.logprobs, alone.logprobs)).max() <= 1e-4
            done[slot] += sample.ids
            unread[slot] = sample.ids[-1:]
            assert sampler.length(slot) == len(done[slot]) - 1
            total += len(sample.ids)
    return total


@pytest.mark.parametrize("heat", [0.0, 1.0, 0.6])
@pytest.mark.parametrize("name", MODELS)
def test_many_at_once_is_one_by_one(name: str, heat: float) -> None:
    model = model_of(name, WORDS, LENGTH)
    sampler = Sampler(model, ENDS, slots=5, max_length=LENGTH, temperature=heat, lean="generic" not in name)
    assert type(sampler._forward) is (LeanLlama if name.startswith("tiny") or name == "llama" else Forward)
    assert play(sampler, model, rounds(np.random.default_rng(7)), 7, heat, 1.0) > 30


@pytest.mark.parametrize("name", ["tiny", "llama, generic"])
def test_equal_sequences_are_read_once_and_part_when_they_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(name, WORDS, LENGTH)
    sampler = Sampler(model, ENDS, slots=4, max_length=LENGTH, lean="generic" not in name)
    rows: list[int] = []
    read = sampler._forward.read
    monkeypatch.setattr(sampler._forward, "read", lambda some, *rest: rows.append(len(some)) or read(some, *rest))
    noise = np.random.default_rng(5).random((3, 8))
    said: list[list[int]] = [[] for _ in range(4)]
    # Slots 0 to 2 say the same in the first round, in the second two of them hear the same; slot 3 always says more.
    for heard, expected in ([[9, 8, 7]] * 4, 1), ([[11], [11], [12, 13], [11]], 3), ([[14], [14], [14], [14, 15]], 3):
        numbers = [noise[0], noise[0], noise[0], noise[1]]
        unread = [one[-1:] for one in said]
        requests = [Request(s, [*unread[s], *heard[s]], 3 if s < 3 else 5, numbers[s]) for s in range(4)]
        rows.clear()
        samples = sampler.generate(requests)
        assert sum(rows) == expected
        for slot, sample in enumerate(samples):
            before = [*said[slot], *heard[slot]]
            alone = plainly(model, before, requests[slot].limit, requests[slot].noise, 1.0, 1.0, ENDS)
            assert sample.ids == alone.ids
            assert np.abs(np.subtract(sample.logprobs, alone.logprobs)).max() <= 1e-4
            said[slot] = [*before, *sample.ids]
    sampler.release(0)
    sampler.release(3)
    rows.clear()
    fresh = [Request(slot, [9, 8, 7], 3, noise[2]) for slot in (0, 3)]
    one, other = sampler.generate(fresh)
    assert one == other
    assert sum(rows) == 1


@pytest.mark.parametrize("chunk", [1, 20])
def test_long_texts_are_read_in_parts(chunk: int) -> None:
    model = model_of("tiny", WORDS, LENGTH)
    sampler = Sampler(model, ENDS, slots=5, max_length=LENGTH, chunk=chunk)
    assert play(sampler, model, rounds(np.random.default_rng(chunk)), chunk, 1.0, 1.0) > 30


@pytest.mark.parametrize("top_p", [0.9, 0.3, 1e-9])
def test_top_p(top_p: float) -> None:
    model = model_of("tiny", WORDS, LENGTH)
    sampler = Sampler(model, ENDS, slots=5, max_length=LENGTH, top_p=top_p)
    assert play(sampler, model, rounds(np.random.default_rng(1)), 2, 1.0, top_p) > 30


def test_the_smallest_top_p_is_the_likeliest_token() -> None:
    model = model_of("tiny", WORDS, LENGTH)
    noise = np.random.default_rng(0).random(10)
    ask = [Request(0, [7, 8, 9], 10, noise)]
    greedy = Sampler(model, (), slots=1, max_length=LENGTH, temperature=0).generate(ask)
    assert Sampler(model, (), slots=1, max_length=LENGTH, top_p=1e-9).generate(ask) == greedy


def test_sampling_draws_from_the_distribution() -> None:
    """With evenly spread numbers every token comes as often as it is likely."""
    model = model_of("tiny", WORDS, LENGTH)
    n = 4000
    sampler = Sampler(model, (), slots=n, max_length=4)
    asked = [Request(slot, [7, 8, 9], 1, np.array([(slot + 0.5) / n])) for slot in range(n)]
    drawn = np.bincount([sample.ids[0] for sample in sampler.generate(asked)], minlength=WORDS) / n
    with torch.no_grad():
        chances = model(input_ids=torch.tensor([[7, 8, 9]])).logits[0, -1].softmax(-1).numpy()
    assert np.abs(drawn - chances).max() <= 1.5 / n


@pytest.mark.parametrize("number", [0.0, np.nextafter(1.0, 0.0)])
def test_the_outermost_numbers_draw_tokens_that_may_be_drawn(number: float) -> None:
    model, noise = model_of("tiny", WORDS, LENGTH), np.array([number])
    for top_p in (1.0, 0.3):
        for first in range(6, 12):
            (sample,) = Sampler(model, (), slots=1, max_length=8, top_p=top_p).generate([Request(0, [first], 1, noise)])
            assert sample.ids == plainly(model, [first], 1, noise, top_p=top_p).ids


@pytest.mark.parametrize("name", ["tiny", "gpt2"])
def test_sequences_may_fill_their_slots(name: str) -> None:
    """Also beside others that go on, and with a model that knows no position behind the last."""
    model = model_of(name, WORDS, LENGTH)
    sampler = Sampler(model, (), slots=9, max_length=LENGTH)
    noise = np.random.default_rng(0).random(LENGTH)
    prompts = [[7] * (LENGTH - 1), *([8] * n for n in range(5, 12)), [9] * LENGTH]
    limits = [2, *[30] * 7, 1]
    samples = sampler.generate([Request(i, prompts[i], limits[i], noise) for i in range(9)])
    for prompt, limit, sample in zip(prompts, limits, samples, strict=True):
        assert sample.ids == plainly(model, prompt, limit, noise).ids
    # Beside a longer text, what is read last is padded beyond the last place.
    sampler.release(8)
    last, new = [*samples[7].ids[-1:], *[6] * 20], [10] * 40
    again = sampler.generate([Request(7, last, 4, noise), Request(8, new, 4, noise)])
    assert again[0].ids == plainly(model, [*prompts[7], *samples[7].ids, *last[1:]], 4, noise).ids
    assert again[1].ids == plainly(model, new, 4, noise).ids
    with pytest.raises(RodsError, match="of 64 tokens, 1 new ones and up to 1 sampled ones does not fit into 64"):
        sampler.generate([Request(0, [7], 1, noise)])


def test_a_trained_model_is_read_as_it_is_now() -> None:
    """The sampler holds no copy of weights."""
    model = model_of("tiny", WORDS, LENGTH, fresh=True)
    sampler = Sampler(model, (), slots=1, max_length=LENGTH, temperature=0)
    ask = [Request(0, [7, 8], 12, np.zeros(12))]
    before = sampler.generate(ask)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for weights in model.parameters():
            weights += 0.05 * torch.randn_like(weights)
    sampler.release(0)
    after = sampler.generate(ask)
    assert after != before
    assert after[0].ids == plainly(model, [7, 8], 12, np.zeros(12), 0.0, 1.0).ids


@pytest.mark.parametrize("lean", [True, False])
def test_training_mode_changes_nothing(lean: bool) -> None:
    """No dropout, and keys and values are kept although the gradients are checkpointed; the mode is put back."""
    model = model_of("tiny", WORDS, LENGTH, fresh=True)
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    ask = [Request(0, [7, 8], 12, np.random.default_rng(0).random(12))]
    expected = Sampler(model, (), slots=1, max_length=LENGTH, lean=lean).generate(ask)
    model.activation_checkpointing_enable()
    model.train()
    assert Sampler(model, (), slots=1, max_length=LENGTH, lean=lean).generate(ask) == expected
    assert model.training


def test_adapters_are_part_of_the_policy() -> None:
    """LoRA inside a Llama: its layers, not the lean pass that knows none."""
    from peft import LoraConfig, get_peft_model

    warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)  # peft uses an old name
    base = model_of("tiny", WORDS, LENGTH, fresh=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    policy.eval()
    noise = np.random.default_rng(0).random(20)
    for model in (policy, policy.base_model.model):
        (sample,) = Sampler(model, (), slots=2, max_length=LENGTH).generate([Request(1, [7, 8], 20, noise)])
        alone = plainly(policy, [7, 8], 20, noise)
        assert sample.ids == alone.ids
        assert np.allclose(sample.logprobs, alone.logprobs, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"temperature": -0.1}, "temperature must be 0 or more; got -0.1"),
        ({"temperature": float("nan")}, "temperature must be 0 or more"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1; got 0.0"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1"),
        ({"slots": 0}, "slots must be a whole number from 1 on; got 0"),
        ({"max_length": 0}, "max_length must be"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(RodsError, match=reason):
        Sampler(model_of("tiny", WORDS, LENGTH), ENDS, **settings)


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([Request(0, [7], 1, np.zeros(1)), Request(0, [8], 1, np.zeros(1))], "expected requests for different slots"),
        ([Request(2, [7], 1, np.zeros(1))], "different slots below 2"),
        ([Request(0, [], 1, np.zeros(1))], "got 0 tokens"),
        ([Request(0, [7], 0, np.zeros(1))], "the limit 0"),
        ([Request(0, [7], 2, np.zeros(1))], "1 numbers for slot 0"),
        ([Request(0, [7] * 60, 9, np.zeros(9))], "does not fit into 64"),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(requests: list[Request], reason: str) -> None:
    sampler = Sampler(model_of("tiny", WORDS, LENGTH), ENDS, slots=2, max_length=LENGTH)
    with pytest.raises(RodsError, match=reason):
        sampler.generate(requests)
    assert sampler.length(0) == sampler.length(1) == 0
    assert sampler.generate([]) == []


def test_a_diverged_model_is_told_of() -> None:
    model = model_of("tiny", WORDS, LENGTH, fresh=True)
    sampler = Sampler(model, ENDS, slots=1, max_length=LENGTH)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(RodsError, match="expected finite logits"):
        sampler.generate([Request(0, [7], 2, np.zeros(2))])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("window", "attends to 16 tokens only: allow an episode at most 16 tokens; now it may have 64"),
        ("flash", "a model with the attention 'sdpa' or 'eager'"),
        ("scaled logits", "the logits of CohereForCausalLM are not what sampling"),
        ("convolution", "Lfm2ForCausalLM has layers of conv"),
    ],
)
def test_models_that_slots_do_not_serve_are_refused(name: str, reason: str) -> None:
    with pytest.raises(RodsError, match=reason):
        Sampler(model_of(name, WORDS, LENGTH), ENDS, slots=1, max_length=LENGTH)


def test_a_window_wider_than_an_episode_is_no_window() -> None:
    model = model_of("window", WORDS, LENGTH)
    noise = np.random.default_rng(0).random(16)
    (sample,) = Sampler(model, (), slots=1, max_length=16).generate([Request(0, [7, 8], 10, noise)])
    assert sample.ids == plainly(model, [7, 8], 10, noise).ids
