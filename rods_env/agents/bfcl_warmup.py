"""A tiny policy for BFCL, made from nothing: supervised training on the oracle's episodes of tasks and their variants.

    folder = make_bfcl_policy("runs/tiny-bfcl", load_tasks("bfcl:train"))

Nothing but these tasks is read: tokenizer and demonstrations are made of them. A network of this size knows no English,
and a hundred stories teach it little, so two things keep it from learning them by heart: pieces that only few stories
have are exchanged at random for others, the same ones throughout an episode, so that they can be copied but mean
nothing; and some of the words that it hears and need not repeat are lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rods_env.agents.bfcl_words import LENGTH, make_tokenizer
from rods_env.agents.chat import Chat
from rods_env.agents.tiny import UNKNOWN, make_model
from rods_env.agents.warmup import Demonstration, Demonstrator, train
from rods_env.errors import RodsError
from rods_env.tasks.families import make_synthesizer
from rods_env.tasks.task import Task
from rods_env.version import SUITE_VERSION

_FEW = 3  # pieces that more stories have are common


class Pool(NamedTuple):
    """What the policy learns from.

    Attributes:
        tasks: the tasks.
        variants: those of each.
        stories: for each task, which story it tells; those of the four categories of a number tell one.
    """

    tasks: list[Task]
    variants: list[list[Task]]
    stories: list[str]


def make_pool(
    tasks: Sequence[Task], variants: int, seed: int = 0, progress: Callable[[int], None] = lambda _: None
) -> Pool:
    """Makes the variants of tasks.

    Args:
        tasks: of BFCL.
        variants: most of each.
        seed: of the synthesizer.
        progress: called with 1 after every task.

    Raises:
        RodsError: if a task is none of BFCL, or there is none.
    """
    foreign = next((task.id for task in tasks if task.ENVIRONMENT != "ToolUse-BFCL-v0"), None)
    if foreign is not None or not tasks:
        raise RodsError(f"a tiny policy for BFCL learns from tasks of BFCL only; got {foreign or 'none'}.")
    synthesizer = make_synthesizer(tasks, seed)
    made = []
    for task in tasks:
        made.append(list(synthesizer.variants(task, variants)))
        progress(1)
    return Pool(list(tasks), made, [(task.parent or task.id).rpartition("_")[2] for task in tasks])


def tokenizer_for(pool: Pool, functions: Sequence[str]) -> Any:
    """The tokenizer made of the oracle's episodes of a pool, `bfcl_words.make_tokenizer`."""
    letters = Chat(make_tokenizer([]), speech="calls", name="letters")
    player = Demonstrator(letters, mistakes=0.0)
    texts: dict[str, list[str]] = {story: [] for story in pool.stories}
    for task, variants, story in zip(pool.tasks, pool.variants, pool.stories, strict=True):
        texts[story] += [letters.decode(player.demonstration(one).ids) for one in (task, *variants)]
    return make_tokenizer(texts.values(), functions)


class Demonstrations:
    """The oracle's episodes of a pool, again and again in random order, each time with other names.

    Args:
        chat: of the policy; episodes that are too long for it are left out.
        pool: what is shown.
        mistakes: see `Demonstrator`.
        exchanged: in which share of the episodes rare pieces are exchanged for others.
        lost: which share of the words that are heard and not said becomes `<unk>`.
        seed: of all that.

    Attributes:
        shown: the episodes as they are.
        left_out: how many were too long.
        rare: the ids of the pieces that are exchanged, in groups within which they are.
    """

    def __init__(
        self,
        chat: Chat,
        pool: Pool,
        *,
        mistakes: float = 0.1,
        exchanged: float = 0.5,
        lost: float = 0.05,
        seed: int = 0,
    ) -> None:
        player = Demonstrator(chat, mistakes=mistakes, seed=seed)
        self._rng = np.random.default_rng([seed, 17])
        self._exchanged, self._lost = exchanged, lost
        self.shown: list[Demonstration] = []
        self.left_out = 0
        having: dict[int, set[str]] = {}
        for task, variants, story in zip(pool.tasks, pool.variants, pool.stories, strict=True):
            for number, one in enumerate((task, *variants)):
                shown = player.demonstration(one)
                if number == 0:
                    for piece in set(shown.ids):
                        having.setdefault(piece, set()).add(story)
                if len(shown.ids) <= chat.tokenizer.model_max_length:
                    self.shown.append(shown)
                else:
                    self.left_out += 1
        words = {i: piece for piece, i in chat.tokenizer.get_vocab().items() if piece.isalpha() and piece.isascii()}
        rare = [i for i in sorted(words) if len(having.get(i, ())) <= _FEW]
        self.rare = [
            np.array([i for i in rare if fits(words[i])], dtype=np.int64)
            for fits in (str.islower, lambda word: not word.islower())
        ]
        self._word = np.zeros(len(chat.tokenizer), dtype=bool)
        self._word[list(words)] = True
        self._unknown = chat.tokenizer.convert_tokens_to_ids(UNKNOWN)

    def __iter__(self) -> Iterator[Demonstration]:
        while True:
            for place in self._rng.permutation(len(self.shown)):
                yield self._changed(self.shown[place])

    def _changed(self, shown: Demonstration) -> Demonstration:
        rng, ids, mask = self._rng, np.array(shown.ids), np.array(shown.mask)
        if rng.random() < self._exchanged:
            pieces, first = np.unique(ids, return_index=True)
            known = pieces[mask[first] == 1]  # said before anybody else said it: known, not copied
            table = np.arange(len(self._word))
            for some in self.rare:
                copied = np.setdiff1d(some, known)
                table[copied] = rng.permutation(copied)
            ids = table[ids]
        said = np.zeros(len(self._word), dtype=bool)
        said[ids[mask == 1]] = True
        may_go = self._word[ids] & ~said[ids] & (mask == 0)
        ids[may_go & (rng.random(len(ids)) < self._lost)] = self._unknown
        return Demonstration(ids.tolist(), shown.mask)


class BfclRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a policy was made; `recipe.json` beside its weights.

    Attributes:
        suite_version: of the package that made it.
        tasks, variants: how many of each it learned from.
        demonstrations, left_out: how many episodes it learned from, and how many were too long.
        steps, batch, learning_rate, seed: of the training.
        pieces, parameters: of the tokenizer and the network.
        seconds: how long it took.
    """

    suite_version: str
    tasks: int
    variants: int
    demonstrations: int
    left_out: int
    steps: int
    batch: int
    learning_rate: float
    seed: int
    pieces: int
    parameters: int
    seconds: float


def make_bfcl_policy(
    folder: str | os.PathLike[str],
    tasks: Sequence[Task],
    *,
    steps: int = 2000,
    variants: int = 5,
    batch: int = 4,
    learning_rate: float = 3e-3,
    seed: int = 0,
    model_options: Mapping[str, Any] | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
    on_row: Callable[[dict[str, float]], None] = lambda _: None,
) -> Path:
    """Makes a tiny policy that plays BFCL from nothing and saves it, with its tokenizer and recipe.

    Args:
        folder: where to; it is replaced as a whole.
        tasks: of BFCL; nothing else is learned from.
        steps, batch, learning_rate: see `warmup.train`.
        variants: most variants of each task.
        seed: of everything.
        model_options: keywords of `make_model`.
        on_stage: told what is being done.
        on_row: called every 50 steps with `step`, `steps`, `loss`, `seconds`.

    Returns:
        The folder.

    Raises:
        RodsError: if a task is none of BFCL, or fewer than a batch of their episodes are short enough.
    """
    from rods_env.agents.policy import Policy

    begun = time.monotonic()
    on_stage("making variants")
    pool = make_pool(tasks, variants, seed)
    from rods_env.bfcl.tools import tools_by_name  # there are tasks of BFCL, so its package is installed

    on_stage("making the tokenizer")
    tokenizer = tokenizer_for(pool, list(tools_by_name()))
    chat = Chat(tokenizer, speech="calls", name="tiny-bfcl")
    on_stage("playing the oracle")
    shown = Demonstrations(chat, pool, seed=seed)
    if not shown.shown:
        raise RodsError(f"expected an episode of at most {LENGTH} tokens; those of all {len(tasks)} tasks are longer.")
    model = make_model(len(tokenizer), seed, max_length=LENGTH, **(model_options or {}))
    mean = [0.0, 0.0]

    def on_step(step: int, loss: float) -> None:
        mean[0], mean[1] = 0.98 * mean[0] + 0.02 * loss, 0.98 * mean[1] + 0.02
        if step % 50 == 0 or step == steps:
            on_row({"step": step, "steps": steps, "loss": mean[0] / mean[1], "seconds": time.monotonic() - begun})

    on_stage("training")
    train(model, iter(shown), steps=steps, batch=batch, learning_rate=learning_rate, seed=seed, on_step=on_step)
    recipe = BfclRecipe(
        suite_version=SUITE_VERSION, tasks=len(pool.tasks), variants=sum(map(len, pool.variants)),
        demonstrations=len(shown.shown), left_out=shown.left_out, steps=steps, batch=batch,
        learning_rate=learning_rate, seed=seed, pieces=len(tokenizer),
        parameters=sum(p.numel() for p in model.parameters()), seconds=round(time.monotonic() - begun),
    )  # fmt: skip
    Policy("tiny-bfcl", model, tokenizer, chat).save(folder, recipe=msgspec.to_builtins(recipe))
    return Path(folder)
