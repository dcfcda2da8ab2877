"""The space of texts: every valid Unicode string, of any length. Gymnasium's `Text` takes alphanumerics only."""

from __future__ import annotations

from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.vector.utils import create_shared_memory

_SAMPLED = (
    "I can do that.", "Which one do you mean?", "Ich weiß es nicht.", "好的。", "👍", "{", "[", "<tool_call>",
    "</tool_call>", '{"name": "list_orders", "arguments": {}}', "[cancel_order(order_id='ord_7')]", "\n", " ", "\t",
    "e\u0301", "\u202e", "\x00",
)  # fmt: skip


class UnicodeText(gym.Space[str]):
    """All strings that can be written as UTF-8, that is, without lone surrogates.

    `sample` draws short texts of several scripts, with braces and tags among them: enough to try a parser, no
    distribution over all strings, which there is none of.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A random text.

        Raises:
            ValueError: if a mask or probabilities are given; there is nothing they could be about.
        """
        if mask is not None or probability is not None:
            raise ValueError(f"UnicodeText takes no mask and no probability; got {mask!r} and {probability!r}.")
        n = int(self.np_random.integers(0, 9))
        return "".join(_SAMPLED[int(i)] for i in self.np_random.integers(0, len(_SAMPLED), n))

    def contains(self, x: Any) -> bool:
        if not isinstance(x, str):
            return False
        return x.isascii() or not any("\ud800" <= c <= "\udfff" for c in x)

    def to_jsonable(self, sample_n: Any) -> list[str]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        return [str(sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText)

    def __hash__(self) -> int:
        return hash(UnicodeText)

    def __repr__(self) -> str:
        return "UnicodeText()"


@create_shared_memory.register(UnicodeText)
def _no_shared_memory(space: UnicodeText, n: int = 1, ctx: Any = None) -> NoReturn:
    # AsyncVectorEnv's default, which returns '0000…' for Gymnasium's own Text.
    raise CustomSpaceError(
        "Texts of any length do not fit shared memory. Pass shared_memory=False: gym.make_vec(id, num_envs=n, "
        'vectorization_mode="async", vector_kwargs={"shared_memory": False}).'
    )
