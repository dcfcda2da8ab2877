"""Sampling from a transformers model for many sequences at once, whose keys and values stay where they are.

Every sequence has a slot. A request gives the slot's new tokens (what was heard), which are read in one pass, and a
message is sampled after them, one token a step for all requests; what has ended leaves the batch. Sequences differ in
length: each token is written at its own place, so nothing is padded on the left. Sequences that are equal so far, as
the episodes of a group often are, are read once, and the keys and values copied.

The random numbers belong to the sequence, not to the batch: token k of a sequence is drawn with its k-th uniform
number, by inverting the cumulated probabilities. The same episode is sampled in the same way alone or among others, but
for rounding: a number that falls within about 1e-7 of the border between two tokens may draw either in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from rods_env.agents.forward import make_forward
from rods_env.errors import RodsError

_SHRINK = 0.85  # what has ended makes room when fewer than this share of the batch are still going


class Request(NamedTuple):
    """A message to sample.

    Attributes:
        slot: of the sequence.
        ids: its new tokens, which follow those already in the slot; at least one.
        limit: how many tokens the message may have, at least one.
        noise: one uniform number in [0, 1) for each token that may be sampled; at least `limit`.
        episode: the episode that it is for, for generators that look at more than tokens.
    """

    slot: int
    ids: Sequence[int]
    limit: int
    noise: np.ndarray[Any, Any]
    episode: Any = None


class Sample(NamedTuple):
    """A sampled message.

    Attributes:
        ids: its tokens, the end mark included if it was sampled.
        logprobs: of each token, under the whole distribution at the sampling temperature.
    """

    ids: list[int]
    logprobs: list[float]


class Sampler:
    """Samples messages from a causal language model.

    Args:
        model: of transformers; it is read at each call, so a trained model needs no copying.
        end_ids: tokens that end a message.
        slots: how many sequences are kept at once.
        max_length: the most tokens of a sequence.
        temperature: 0 takes the most likely token.
        top_p: samples among the most likely tokens whose probabilities sum up to this.
        chunk: how many tokens of new text are read in one pass. None: 16384 on a GPU; 1024 on a CPU, where larger
            passes leave the caches and pad more.
        lean: whether to use our own forward pass where there is one for the architecture; it computes the same.

    Raises:
        RodsError: for a setting out of range, or a model whose architecture the slots do not fit.
    """

    def __init__(
        self,
        model: Any,
        end_ids: Sequence[int],
        *,
        slots: int = 128,
        max_length: int = 512,
        temperature: float = 1.0,
        top_p: float = 1.0,
        chunk: int | None = None,
        lean: bool = True,
    ) -> None:
        if not temperature >= 0:
            raise RodsError(f"temperature must be 0 or more; got {temperature!r}.")
        if not 0 < top_p <= 1:
            raise RodsError(f"top_p must be above 0 and at most 1; got {top_p!r}.")
        if chunk is None:
            chunk = 1024 if model.device.type == "cpu" else 16384
        for name, value in (("slots", slots), ("max_length", max_length), ("chunk", chunk)):
            if not isinstance(value, int) or value < 1:
                raise RodsError(f"{name} must be a whole number from 1 on; got {value!r}.")
        self.model = model
        self.temperature = temperature
        self.top_p = top_p
        self.slots = slots
        self.max_length = max_length
        self._chunk = chunk
        self._ends = torch.tensor(list(end_ids), device=model.device)
        self._forward = make_forward(model, slots, max_length, lean)
        self._length = np.zeros(slots, dtype=np.int64)
        self._ids: list[list[int]] = [[] for _ in range(slots)]  # what was read, as many as `_length` says

    def release(self, slot: int) -> None:
        """Empties a slot."""
        self._length[slot] = 0
        self._ids[slot] = []

    def length(self, slot: int) -> int:
        """How many tokens of the slot's sequence were read. The last sampled one is read with the next request."""
        return int(self._length[slot])

    @torch.no_grad()
    def generate(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples a message for each request, each of another slot.

        A model in training mode is in evaluation mode meanwhile: dropout would make what is sampled not the policy's,
        and checkpointing would forget keys and values.

        Raises:
            RodsError: if a request does not fit, or what the model computes is not finite.
        """
        if not requests:
            return []
        self._check(requests)
        training = self.model.training
        if training:
            self.model.eval()
        self._forward.refresh()
        try:
            samples = self._sample(requests, self._read(requests))
        finally:
            if training:
                self.model.train()
        if not all(math.isfinite(value) for sample in samples for value in sample.logprobs):
            raise RodsError(
                "expected finite logits; the model computes NaN or infinite ones: it has diverged (lower the learning "
                "rate) or its number type is too small (use bfloat16 or float32)."
            )
        return samples

    def _check(self, requests: Sequence[Request]) -> None:
        slots = [request.slot for request in requests]
        if len(set(slots)) < len(slots) or not all(0 <= slot < self.slots for slot in slots):
            raise RodsError(f"expected requests for different slots below {self.slots}; got {slots}.")
        for slot, ids, limit, noise, _ in requests:
            if not len(ids) or limit < 1 or len(noise) < limit:
                raise RodsError(
                    f"expected new tokens, a limit from 1 on and a random number for each token of it; got {len(ids)} "
                    f"tokens, the limit {limit} and {len(noise)} numbers for slot {slot}."
                )
            if self._length[slot] + len(ids) + limit - 1 > self.max_length:
                raise RodsError(
                    f"a sequence of {self._length[slot]} tokens, {len(ids)} new ones and up to {limit} sampled ones "
                    f"does not fit into {self.max_length}."
                )

    def _read(self, requests: Sequence[Request]) -> torch.Tensor:
        """Reads the new tokens, those of equal sequences once: in a group, whose episodes begin alike, that is half of
        them. Returns the logits of the next tokens."""
        first: dict[tuple[int, ...], int] = {}  # sequences by their tokens: the request that reads the new ones
        copies: dict[int, list[int]] = {}
        readers: list[int] = []
        for number, request in enumerate(requests):
            start = len(self._ids[request.slot])
            self._ids[request.slot] += request.ids
            reader = first.setdefault((start, *self._ids[request.slot]), number)
            if reader == number:
                readers.append(number)
            else:
                copies.setdefault(reader, []).append(number)
        readers.sort(key=lambda n: len(requests[n].ids))
        found: list[torch.Tensor | None] = [None] * len(requests)
        for part in _parts([len(requests[n].ids) for n in readers], self._chunk):
            some = [readers[i] for i in part]
            rows = [requests[n].slot for n in some]
            counts = [len(requests[n].ids) for n in some]
            ids = np.zeros((len(some), max(counts)), dtype=np.int64)
            for row, n in enumerate(some):
                ids[row, : counts[row]] = requests[n].ids
            logits = self._forward.read(rows, ids, self._length[rows], np.array(counts))
            for row, n in enumerate(some):
                found[n] = logits[row]
        for n, others in copies.items():
            slot = requests[n].slot
            start = int(self._length[slot])
            self._forward.slots.copy(slot, [requests[m].slot for m in others], start, start + len(requests[n].ids))
            for m in others:
                found[m] = found[n]
        for request in requests:
            self._length[request.slot] += len(request.ids)
        return torch.stack([one for one in found if one is not None])

    def _sample(self, requests: Sequence[Request], logits: torch.Tensor) -> list[Sample]:
        device = logits.device
        n, most = len(requests), max(request.limit for request in requests)
        noise = np.zeros((n, most), dtype=np.float64)
        for row, request in enumerate(requests):
            noise[row, : request.limit] = request.noise[: request.limit]
        uniform = torch.from_numpy(noise).to(device)
        limits = torch.tensor([request.limit for request in requests], device=device)
        ids = torch.zeros((n, most), dtype=torch.long, device=device)
        logprobs = torch.zeros((n, most), dtype=torch.float32, device=device)
        counts = torch.zeros(n, dtype=torch.long, device=device)
        # The requests that are at work, in the order of the slots' rows; some may have ended.
        rows = self._forward.slots.begin([r.slot for r in requests], self._length[[r.slot for r in requests]])
        logits = logits[rows]
        going = torch.ones(n, dtype=torch.bool, device=device)
        for step in range(most):
            tokens, logs = self._draw(logits, uniform[rows, step])
            ids[rows, step] = tokens
            logprobs[rows, step] = logs
            counts[rows] += going
            going = going & (tokens[:, None] != self._ends).all(1) & (limits[rows] > step + 1)
            left = int(going.sum())
            if not left:
                break
            if left < _SHRINK * len(rows):
                kept = self._forward.slots.keep(going)
                rows, tokens, going = rows[kept], tokens[kept], going[kept]
            logits = self._forward.step(tokens)
        # Of every message but its last token was read.
        samples = [
            Sample(row[:count], logs[:count])
            for row, logs, count in zip(ids.tolist(), logprobs.tolist(), counts.tolist(), strict=True)
        ]
        for request, sample in zip(requests, samples, strict=True):
            self._length[request.slot] += len(sample.ids) - 1
            self._ids[request.slot] += sample.ids[:-1]
        return samples

    def _draw(self, logits: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = logits.float()
        if self.temperature == 0:
            tokens = logits.argmax(-1)
            return tokens, _at(F.log_softmax(logits, -1), tokens)
        logs = F.log_softmax(logits / self.temperature, -1)
        chances = logs.exp()
        if self.top_p < 1:
            ordered, order = chances.sort(dim=-1, descending=True, stable=True)
            before = ordered.cumsum(-1) - ordered
            chances = torch.zeros_like(chances).scatter(-1, order, ordered * (before < self.top_p))
        cumulated = chances.double().cumsum(-1)
        wanted = uniform[:, None] * cumulated[:, -1:]
        tokens = torch.searchsorted(cumulated, wanted, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
        return tokens, _at(logs, tokens)


def _at(logs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return logs.gather(-1, tokens[:, None])[:, 0]


def _parts(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Consecutive indices of ascending sizes, in parts whose padded size is at most `most`, or one each."""
    parts: list[list[int]] = []
    for index, size in enumerate(sizes):
        if parts and size * (len(parts[-1]) + 1) <= most:
            parts[-1].append(index)
        else:
            parts.append([index])
    return parts
