"""`BfclSynthesizer`: from a task of BFCL others about other files, people, places, companies, texts and numbers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import numpy as np

from rods_env.apis.draw import Draw
from rods_env.bfcl.contents import Contents
from rods_env.bfcl.entities import Entity, entities_of
from rods_env.bfcl.execution import executed, same_structure
from rods_env.bfcl.rebuilding import Rebuilding, numbers_are_computed
from rods_env.bfcl.renaming import draw_names
from rods_env.bfcl.simulators import BfclWorld, initial_world
from rods_env.bfcl.tasks import BfclTask
from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.task import KINDS, Task, Turn, fingerprint

_ATTEMPTS = 40  # attempts at one variant before it is given up
_FREE = 0.75  # in which share of attempts each file gets a code name of its own
_SKIPPED = 0.35  # the share of entities that an attempt leaves as they are after some that took all of them
_WHOLE = 8  # attempts that take all entities
_REMEMBERED = 1024  # tasks whose entities are remembered


class BfclSynthesizer:
    """Makes variants of BFCL's tasks: the same calls for the same reasons, about other things.

    Files, folders, people, codes, cities, companies, dates, amounts and texts are exchanged in the initial
    configuration, the messages and the gold calls at once. Then the calls are executed on new simulators: each result
    must be the old one with the names exchanged, or differ in computed numbers only, which the later calls then take
    over; the same calls fail, and the same change something.

    Equal seeds and equal sequences of calls give equal variants.

    Args:
        seed: a whole number of at least 0.

    Attributes:
        rejected: how many attempts came to nothing, by reason: `nothing` (the task has nothing that may be exchanged),
            `names` (no names fit), `same` (no gold call or no message changed), `arguments` (they do not fit the
            function), `result` (a result is another than the names say), `said` (a message has a number that the
            results contradict), `structure` (an argument comes from elsewhere), `duplicate`.
        made: how many variants were made.
    """

    def __init__(self, seed: int = 0) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise RodsError(f"seed: expected a whole number of at least 0; got {seed!r}.")
        self.seed = int(seed)
        self.rejected: Counter[str] = Counter()
        self.made = 0
        self._draw = Draw(np.random.default_rng((self.seed, 0)))
        self._known: dict[str, tuple[BfclTask, Contents, list[Entity]]] = {}
        self._seen: dict[int, None] = {}  # the texts of all variants so far

    def variant(self, task: Task, rng: np.random.Generator | None = None) -> BfclTask:
        """A new valid variant of a task, whose `parent` it is.

        Args:
            task: a task of BFCL, or a variant of one.
            rng: the source of chance; the synthesizer's own stream when not given.

        Raises:
            SynthesisError: if 40 attempts found none; `reason` is the most frequent reason of their rejection.
            RodsError: for a task of another kind.
        """
        if not isinstance(task, BfclTask):
            raise RodsError(f"expected a task of BFCL; got {task!r}.")
        draw = self._draw if rng is None else Draw(rng)
        contents, entities = self._entities(task)
        failed: Counter[str] = Counter()
        for attempt in range(_ATTEMPTS if entities else 1):
            try:
                variant = self._attempt(task, contents, entities, draw, attempt)
            except SynthesisError as error:
                failed[error.reason] += 1
                self.rejected[error.reason] += 1
                continue
            self.made += 1
            return variant
        reasons = ", ".join(f"{reason}: {n}" for reason, n in failed.most_common())
        tries = sum(failed.values())
        tried = "1 attempt" if tries == 1 else f"{tries} attempts"
        reason = failed.most_common(1)[0][0]
        raise SynthesisError(f"no variant of {task.id} in {tried} ({reasons}).", reason=reason)

    def variants(self, task: Task, n: int) -> list[BfclTask]:
        """Up to `n` variants of a task, no two with equal texts; fewer if the task has no more.

        No variant has the text of an earlier one of the same kind.
        """
        found: list[BfclTask] = []
        while len(found) < n:
            try:
                found.append(self.variant(task))
            except SynthesisError:
                break
        return found

    def state_dict(self) -> dict[str, Any]:
        """Where the synthesizer stands, as plain JSON data: after `load_state_dict` the same variants follow."""
        return {
            "seed": self.seed,
            "made": self.made,
            "rejected": dict(self.rejected),
            "draw": self._draw.state_dict(),
            "seen": list(self._seen),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state.

        Raises:
            RodsError: if the state is of a synthesizer with another seed.
        """
        if state["seed"] != self.seed:
            raise RodsError(f"the state is of a synthesizer with seed={state['seed']}; this one has seed={self.seed}. "
                            f"Make it with the same settings.")  # fmt: skip
        self.made = state["made"]
        self.rejected = Counter(state["rejected"])
        self._draw.load_state_dict(state["draw"])
        self._seen = dict.fromkeys(state["seen"])

    def _entities(self, task: BfclTask) -> tuple[Contents, list[Entity]]:
        known = self._known.get(task.id)
        if known is None or known[0] is not task:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            entities = entities_of(task)
            if numbers_are_computed(task):
                fixed = {"amount", "fuel"}
                if any(call.tool == "estimate_distance" for call in task.calls):
                    fixed.add("place")
                entities = [entity for entity in entities if entity.kind not in fixed]
            known = self._known[task.id] = (task, Contents(task), entities)
        return known[1], known[2]

    def _attempt(
        self, task: BfclTask, contents: Contents, entities: list[Entity], draw: Draw, attempt: int
    ) -> BfclTask:
        if not entities:
            raise SynthesisError("the task has nothing that may be exchanged.", reason="nothing")
        if attempt >= _WHOLE:  # one of them may be the trouble
            entities = [entity for entity in entities if not draw.chance(_SKIPPED)] or entities
        plain = not draw.chance(_FREE)
        names = draw_names(entities, contents, draw, plain=plain)
        rebuilding = Rebuilding(task, names)
        steps = rebuilding.run()
        variant = _built(task, rebuilding, [step.call for step in steps])
        variant.__dict__["_steps"] = steps
        before, after = executed(task), steps
        used = any(a.call.arguments != b.call.arguments or a.text != b.text for a, b in zip(before, after, strict=True))
        if not used or fingerprint(variant) == fingerprint(task):
            raise SynthesisError("no message or no call speaks of anything new.", reason="same")
        rebuilding.check(steps)
        if not same_structure(task, variant):
            raise SynthesisError("arguments come from elsewhere than in the task.", reason="structure")
        text = fingerprint(variant) ^ KINDS.index(task.kind)  # BFCL has a text once more in a long context, too
        if text in self._seen:
            raise SynthesisError("a variant with these texts was made before.", reason="duplicate")
        self._seen[text] = None
        for kept in ("_steps", "_argument_places"):  # a pool holds many variants, and few are varied again
            variant.__dict__.pop(kept, None)
        return variant


def _built(task: BfclTask, rebuilding: Rebuilding, calls: list[Any]) -> BfclTask:
    turns, at = [], 0
    for turn, message in zip(task.turns, rebuilding.messages, strict=True):
        turns.append(Turn(message, tuple(calls[at : at + len(turn.calls)]), turn.adds))
        at += len(turn.calls)
    world = cast(BfclWorld, task.world)
    content = hashlib.blake2b(msgspec.json.encode((turns, rebuilding.config)), digest_size=4).hexdigest()
    stem = re.sub(r"-[0-9a-f]{8}$", "", task.id)
    fresh = initial_world(task.apis, rebuilding.config, world.long_context)
    return BfclTask(f"{stem}-{content}", task.kind, task.apis, tuple(turns), fresh, task.id)
