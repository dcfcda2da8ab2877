"""Supervised warm-up: a policy learns from the oracle's episodes how to speak, look things up, and recover from errors.

`make_base` makes the tiny policy that ships with the package, from nothing; `train` is of use for any policy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import msgspec
import numpy as np

from rods_env.agents.chat import Chat, Dialogue
from rods_env.agents.compact import SEPARATOR
from rods_env.agents.tiny import SPECIAL, make_model, make_tokenizer, vocabulary
from rods_env.apis.lexicon import CITIES, lexicon
from rods_env.apis.registry import TOOLS
from rods_env.tasks.task import Task
from rods_env.tasks.text import MONTHS
from rods_env.tasks.tiny_sets import fingerprint, long_tasks, short_tasks, tiny_set
from rods_env.version import SUITE_VERSION

_NAMES_COUNT = 20  # names count as if each had been met so often


class Demonstration(NamedTuple):
    """An oracle's episode as a policy would have lived it.

    Attributes:
        ids: its token ids.
        mask: 1 on the ids that the policy should learn to say.
    """

    ids: list[int]
    mask: list[int]


class Demonstrator:
    """Plays the oracle through a policy's own chat.

    Args:
        chat: of the policy.
        mistakes: the chance before each call that a wrong one is made first, whose error the episode shows. What was
            wrong is not to be learned, how to go on after it is.
        seed: of the mistakes.
    """

    def __init__(self, chat: Chat, *, mistakes: float = 0.1, seed: int = 0) -> None:
        self.chat = chat
        self.mistakes = mistakes
        self._rng = np.random.default_rng([seed, 7])
        self._env: Any = None

    def demonstration(self, task: Task) -> Demonstration:
        """The episode of a task."""
        env = self._opened(task)
        _, info = env.reset(options={"task": task})
        dialogue = self.chat.begin(info)
        for turn in task.turns:
            for call in turn.calls:
                if self._rng.random() < self.mistakes:
                    self._mistake(env, dialogue, task, call.tool, dict(call.arguments))
                info = self._say(env, dialogue, [(call.tool, call.arguments)])
                dialogue.hear(info)
            info = self._say(env, dialogue, [])
            if info["termination"] is None:
                dialogue.hear(info)
        return Demonstration(dialogue.ids, dialogue.mask)

    def babble(self, task: Task, calls: int = 6) -> list[int]:
        """Says random calls from the first turn on. Returns the ids of what a policy that knows nothing is told."""
        rng, env = self._rng, self._opened(task)
        _, info = env.reset(options={"task": task})
        dialogue = self.chat.begin(info)
        told: list[int] = []
        names = [schema["function"]["name"] for schema in info["tools"]]
        for _ in range(calls):
            heard = [word for word in dialogue.text.split() if word not in SPECIAL] + ["0", "7", "#9"]
            name, *given = (heard[n] for n in rng.integers(len(heard), size=1 + rng.integers(5)))
            if rng.random() < 0.9:
                name = names[rng.integers(len(names))]
            words = f"{name} " + f" {SEPARATOR} ".join(given)
            *_, info = env.step(dialogue.say(self.chat.encode(words), [0.0] * len(words.split())))
            if info["termination"] is not None:
                break
            told += dialogue.hear(info)
        return told

    def _opened(self, task: Task) -> Any:
        if self._env is None:
            self._env = gym.make(task.ENVIRONMENT, tasks=[task], disable_env_checker=True).unwrapped
        return self._env

    def _say(self, env: Any, dialogue: Dialogue, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        ids = [*self.chat.encode(dialogue.speech.calls(calls)), *self.chat.end_ids]
        *_, info = env.step(dialogue.say(ids, [0.0] * len(ids)))
        return dict(info)

    def _mistake(self, env: Any, dialogue: Dialogue, task: Task, name: str, arguments: dict[str, Any]) -> None:
        """A call that is refused, if one is found at the first try; the episode then shows its error."""
        rng = self._rng
        named = [p.name for p in TOOLS[name].params] if task.ENVIRONMENT == Task.ENVIRONMENT else list(arguments)
        texts = [one for one in named if isinstance(arguments.get(one), str)]
        if rng.random() < 0.5 or not texts:  # an argument is missing
            wrong = dict(list(arguments.items())[:-1])
        else:
            others = [v for c in task.calls for v in c.arguments.values() if isinstance(v, str)]
            wrong = {**arguments, texts[rng.integers(len(texts))]: others[rng.integers(len(others))]}
        before = env.snapshot()
        words = dialogue.speech.calls([(name, wrong)])
        ids = [*self.chat.encode(words), *self.chat.end_ids]
        *_, info = env.step(dialogue.speech.action(words))
        if not info["error"] or info["termination"] is not None or info["closed_by"] is not None:
            env.restore(before)
            return
        said = len(ids)
        dialogue.say(ids, [0.0] * said)
        dialogue.mask[-said:] = [0] * said
        dialogue.hear(info)


def demonstrations(
    chat: Chat, tasks: Iterable[Task], *, mistakes: float = 0.1, seed: int = 0
) -> Iterator[Demonstration]:
    """The episodes of a stream of tasks; those too long for the chat are left out.

    In the words of a tiny policy, where a name is one token, names of people are exchanged for others, consistently
    within an episode. Tasks that follow each other share worlds; a policy would learn by heart which surname goes with
    which first name, and fail with people it never met.
    """
    demonstrator = Demonstrator(chat, mistakes=mistakes, seed=seed)
    limit = chat.tokenizer.model_max_length
    rng = np.random.default_rng([seed, 13])
    known = chat.tokenizer.get_vocab()
    names = [  # "April" and "Price" are other words too
        np.array([known[n] for n in some if n in known and n.lower() not in known and n not in MONTHS], dtype=np.int64)
        for some in ((lexicon().first_names, lexicon().last_names) if chat.speech == "compact" else ())
    ]
    exchanged = np.arange(max(known.values()) + 1)
    for task in tasks:
        shown = demonstrator.demonstration(task)
        if len(shown.ids) <= limit:
            for some in names:
                exchanged[some] = rng.permutation(some)
            yield Demonstration(exchanged[shown.ids].tolist(), shown.mask)


def batches(shown: Iterator[Demonstration], size: int, seed: int) -> Iterator[list[Demonstration]]:
    """Batches of episodes of similar length, in random order: little padding, and no order by length."""
    rng = np.random.default_rng([seed, 11])
    while True:
        pool = sorted(islice(shown, 16 * size), key=lambda one: len(one.ids))
        if len(pool) < size:
            return
        parts = [pool[at : at + size] for at in range(0, len(pool) - size + 1, size)]
        for index in rng.permutation(len(parts)):
            yield parts[index]


def train(
    model: Any,
    shown: Iterator[Demonstration],
    *,
    steps: int,
    batch: int = 16,
    learning_rate: float = 3e-3,
    cooldown: float = 0.4,
    heard_weight: float = 0.5,
    seed: int = 0,
    on_step: Callable[[int, float], None] = lambda _step, _loss: None,
    on_batch: Callable[[Sequence[Demonstration]], None] = lambda _: None,
) -> None:
    """Supervised training on demonstrations.

    Args:
        model: a causal language model of transformers.
        shown: demonstrations.
        steps: optimizer steps.
        batch: demonstrations of a step.
        learning_rate: of AdamW; it rises over 100 steps, stays, and falls to nothing.
        cooldown: over which share of the steps it falls.
        heard_weight: weight of predicting what the policy only hears. It teaches to look things up: users and tools
            repeat names and ids far more often than the policy says them.
        seed: of the order.
        on_step: called with the number of steps done and the loss on what the policy says.
        on_batch: called with what the step was about, after it.
    """
    import torch
    import torch.nn.functional as F  # noqa: N812 - its usual name

    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step, some in zip(range(steps), batches(shown, batch, seed), strict=False):
        rate = min(1.0, (step + 1) / 100, (steps - step) / max(cooldown * steps, 1.0))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * rate
        ids, mask = (part.to(model.device) for part in padded(some))
        hidden = model.get_decoder()(ids[:, :-1]).last_hidden_state
        said, heard = mask[:, 1:] == 1, mask[:, 1:] == 0
        head = model.get_output_embeddings()
        loss = F.cross_entropy(head(hidden[said]), ids[:, 1:][said])
        total = loss
        if heard_weight and bool(heard.any()):
            total = loss + heard_weight * F.cross_entropy(head(hidden[heard]), ids[:, 1:][heard])
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        on_step(step + 1, float(loss.detach()))
        on_batch(some)
    model.eval()


def padded(some: Sequence[Demonstration]) -> tuple[Any, Any]:
    """Ids and masks (rows, length), padded on the right with 0 and -1."""
    import torch

    length = max(len(one.ids) for one in some)
    ids = np.zeros((len(some), length), dtype=np.int64)
    mask = np.full((len(some), length), -1, dtype=np.int64)
    for row, one in enumerate(some):
        ids[row, : len(one.ids)] = one.ids
        mask[row, : len(one.mask)] = one.mask
    return torch.from_numpy(ids), torch.from_numpy(mask)


class _Words(Chat):
    """A chat whose vocabulary grows with what it meets: it finds out which words the tiny policy needs."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self.texts: list[str] = []
        super().__init__(make_tokenizer([*SPECIAL]), speech="compact", name="tiny")

    def encode(self, text: str) -> list[int]:
        self.texts.append(text)
        return [self._number.setdefault(word, len(self._number)) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        known = list(self._number)
        return " ".join(known[i] for i in ids)


def needed_words(tasks: Iterable[Task], seed: int = 0) -> list[str]:
    """The vocabulary for the episodes of these tasks, errors included, and every name that a world may hold."""
    chat = _Words()
    demonstrator = Demonstrator(chat, mistakes=0.15, seed=seed)
    for number, task in enumerate(tasks):
        demonstrator.demonstration(task)
        if number % 4 == 0:
            demonstrator.babble(task)
    names = lexicon()
    always = [*names.first_names, *names.last_names, *CITIES]
    return vocabulary([*chat.texts, *always * _NAMES_COUNT])


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the warm-up.

    Attributes:
        steps: optimizer steps.
        uses: for how many tasks a world serves. Few worlds, met often, are a good school for looking things up; many
            worlds keep a policy from learning them by heart instead.
        learning_rate: see `train`.
        cooldown: over which share of the steps the learning rate falls to nothing.
        long_share: which share of the demonstrations are long tasks.
    """

    steps: int
    uses: int
    learning_rate: float
    cooldown: float
    long_share: float = 0.0


# Short tasks only, until they are known: such a policy does every turn well that is a first one, and answers the first
# request again when it hears a second. Then a hundred long ones, after which it sometimes goes on, as reward can teach.
PHASES = (
    Phase(steps=3000, uses=72, learning_rate=3e-3, cooldown=0.0),
    Phase(steps=4500, uses=4, learning_rate=3e-3, cooldown=0.5),
    Phase(steps=60, uses=4, learning_rate=1e-3, cooldown=0.5, long_share=0.1),
)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a base was made and what it scores; `recipe.json` beside its weights.

    Attributes:
        suite_version: of the package whose tasks it was made for.
        tasks: `tiny_sets.fingerprint()` of these tasks.
        phases, batch, seed: of the training.
        parameters: of the network.
        seconds: how long it took.
        scores: success by set and sampling temperature.
    """

    suite_version: str
    tasks: str
    phases: tuple[Phase, ...]
    batch: int
    seed: int
    parameters: int
    seconds: float
    scores: dict[str, float]


def make_base(
    folder: str | os.PathLike[str],
    *,
    steps: int = 0,
    phases: Sequence[Phase] = PHASES,
    batch: int = 16,
    seed: int = 0,
    word_tasks: int = 16_000,
    model_options: Mapping[str, Any] | None = None,
    score: Callable[[Any], dict[str, float]] | None = None,
    on_row: Callable[[dict[str, float]], None] = lambda _: None,
) -> Path:
    """Makes a tiny policy from nothing and saves it, with its tokenizer and recipe.

    Args:
        folder: where to; it is replaced as a whole.
        steps: of all phases together, which are shortened or lengthened alike; 0: as they are.
        phases: the parts of the training, each with an optimizer of its own.
        batch: see `train`.
        seed: of everything.
        word_tasks: from how many tasks the vocabulary is taken.
        model_options: keywords of `make_model`.
        score: makes the scores of the recipe from the policy; `base_scores` if not given.
        on_row: called every 50 steps with `step`, `steps`, `loss`, `seconds`.

    Returns:
        The folder.
    """
    from rods_env.agents.policy import Policy

    begun = time.monotonic()
    half, uses = word_tasks // 2, phases[0].uses
    words = needed_words(
        [*islice(short_tasks(seed + 11, uses), half), *islice(long_tasks(seed + 12, uses), half)], seed
    )
    tokenizer = make_tokenizer(words)
    chat = Chat(tokenizer, speech="compact", name="tiny")
    model = make_model(len(words), seed, **(model_options or {}))
    total = sum(phase.steps for phase in phases)
    parts = [phase if not steps else msgspec.structs.replace(phase, steps=round(phase.steps * steps / total))
             for phase in phases]  # fmt: skip
    whole = sum(part.steps for part in parts)
    mean = [0.0, 0.0]

    def on_step(at: int, loss: float) -> None:
        mean[0], mean[1] = 0.98 * mean[0] + 0.02 * loss, 0.98 * mean[1] + 0.02
        if at % 50 == 0 or at == whole:
            on_row({"step": at, "steps": whole, "loss": mean[0] / mean[1], "seconds": time.monotonic() - begun})

    train_phases(model, chat, parts, batch=batch, seed=seed, on_step=on_step)
    policy = Policy("tiny", model, tokenizer, chat)
    recipe = Recipe(
        suite_version=SUITE_VERSION, tasks=fingerprint(), phases=tuple(parts), batch=batch, seed=seed,
        parameters=sum(p.numel() for p in model.parameters()), seconds=round(time.monotonic() - begun),
        scores=(score or base_scores)(policy),
    )  # fmt: skip
    policy.save(folder, recipe=msgspec.to_builtins(recipe))
    return Path(folder)


def train_phases(
    model: Any,
    chat: Chat,
    phases: Sequence[Phase],
    *,
    batch: int = 16,
    seed: int = 0,
    on_step: Callable[[int, float], None] = lambda _step, _loss: None,
) -> None:
    """Trains a tiny policy through the parts of a warm-up, each with an optimizer of its own.

    Args:
        model, chat: of the policy.
        phases: the parts.
        batch: see `train`.
        seed: of the tasks, the mistakes and the order.
        on_step: called with the number of steps done altogether, and the loss.
    """
    done = 0
    for number, part in enumerate(phases):
        tasks = mixed_tasks(seed + 1000 * (number + 1), part.long_share, part.uses)
        shown = demonstrations(chat, tasks, seed=seed + number)

        def told(step: int, loss: float, done: int = done) -> None:
            on_step(done + step, loss)

        train(
            model, shown, steps=part.steps, batch=batch, learning_rate=part.learning_rate, cooldown=part.cooldown,
            seed=seed + number, on_step=told,
        )  # fmt: skip
        done += part.steps


def base_scores(policy: Any, limit: int = 500) -> dict[str, float]:
    """Success on short tasks and on held-out long ones, as they are sampled in training and with the likeliest tokens.

    Args:
        policy: a tiny one.
        limit: how many tasks of each set are played.
    """
    from rods_env.agents.policy_evaluation import evaluate_policy
    from rods_env.agents.settings import make_settings

    s = make_settings("tiny")
    return {
        f"{name}, {way}": evaluate_policy(
            policy, tiny_set(name)[:limit], temperature=temperature, slots=s.slots, max_message=s.max_message,
            max_turn=s.max_turn, max_messages=s.max_messages, max_episode=s.max_episode,
        ).success
        for name in ("tiny:short", "tiny:heldout")
        for way, temperature in (("sampled", 1.0), ("greedy", 0.0))
    }  # fmt: skip


def mixed_tasks(seed: int, long_share: float, uses: int) -> Iterator[Task]:
    """An endless stream of short tasks with a share of long ones among them."""
    rng = np.random.default_rng([seed, 5])
    short, long = short_tasks(seed + 1, uses), long_tasks(seed + 2, uses)
    while True:
        yield next(long if rng.random() < long_share else short)
