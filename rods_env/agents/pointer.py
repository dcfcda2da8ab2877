"""The pointer policy: a small torch network that scores the calls which `DiscreteActions` lists.

It is the reference for an agent of one's own: it reads nothing but the observations of
`ToolUse-RODS-Discrete-v0`, and gives every valid action a score, from the action's tool, from where its arguments were
seen, from the words of the messages, and from what was called. Copying is built in, so it is cheap to train and many
seeds can be run on a laptop.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from rods_env.agents.pointer_tree import Node
from rods_env.envs.candidates.facts import ROW, ROWS
from rods_env.envs.candidates.layout import WIDTH
from rods_env.envs.candidates.reading import BUCKETS
from rods_env.errors import RodsError

# How many bins each number that is known of an argument falls into, by column, and where each bin begins.
_BINS = (
    (0, 1, 2, 3, 4, 5),  # origin: a bin for each
    (0, 1, 2, 3),  # its place among the values that the present message gives
    (0, 1, 2, 3, 4, 7),  # how many results ago it was shown
    (0, 1, 2, 3),  # the row of that result
    (0, 1, 2, 4),  # rows of that result
    (0, 1, 2, 3),  # in how many results it was shown
    (0, 1, 2, 3, 4),  # how many fields of its row the messages give
    (0, 1),  # whether it is the least or greatest one that they ask for
)
_FACTS = sum(map(len, _BINS)) + 1  # and one for "the last of several rows"
_STATE = (6, 5, 8, 5, 2)  # turn, attempts left, results so far, rows of the last one, whether the last call failed
_STATE_STEPS = np.array((1, 2, 1, 1, 1), np.uint8)


# Where the bin of each number of each column stands among the facts of an argument: 256 places a column.
_PLACES = np.concatenate(
    [
        sum(map(len, _BINS[:column])) + np.searchsorted(begins, np.arange(256), "right") - 1
        for column, begins in enumerate(_BINS)
    ]
)
_COLUMNS = 256 * np.arange(len(_BINS))  # where each column begins there


class Batch:
    """The observations of several states as tensors; row 0 of each state's actions is the answer.

    Args:
        nodes: the states, at least one.

    Attributes:
        counts: how many actions each has, int64 of shape `(states,)`.
        state_of: the place of the state of each action, int64 of shape `(actions,)`.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        counts = np.array([len(node.tool) for node in nodes])
        known = np.concatenate([node.known for node in nodes])
        arguments = known.reshape(-1, known.shape[-1])
        facts = np.zeros((len(arguments), _FACTS), np.float32)
        bins = np.take(_PLACES, arguments + _COLUMNS) + (np.arange(len(arguments)) * _FACTS)[:, None]
        facts.reshape(-1)[bins.reshape(-1)] = 1.0
        facts[:, -1] = (arguments[:, ROWS] > 1) & (arguments[:, ROW] == arguments[:, ROWS])
        self.counts = torch.from_numpy(counts)
        self.state_of = torch.repeat_interleave(self.counts)
        self.tool = torch.from_numpy(np.concatenate([node.tool for node in nodes]).astype(np.int64))
        self.made = torch.from_numpy(np.concatenate([node.made for node in nodes]).astype(np.float32))
        self.facts = torch.from_numpy(facts.reshape(len(known), -1))
        words = np.stack([node.words for node in nodes]).reshape(len(nodes), -1)
        called = np.stack([node.called for node in nodes])
        self.words = torch.from_numpy(np.minimum(words, 3).astype(np.float32))
        self.called = torch.from_numpy(np.minimum(called, 2).astype(np.float32))
        state = np.stack([node.state for node in nodes]) // _STATE_STEPS
        self.state = torch.from_numpy(np.minimum(state, np.array(_STATE) - 1).astype(np.int64))

    def __len__(self) -> int:
        return len(self.counts)


class PointerNet(nn.Module):
    """Scores the actions of states.

    An action's score is that of a two-layer network over the sum of what its state, its tool and its arguments give,
    and a product of its tool with the state.

    Args:
        tools: how many tools are registered.
        width: of the hidden layers.
        seed: of the initial weights; torch's own generator is left as it was.
    """

    def __init__(self, tools: int, *, width: int = 96, seed: int = 0) -> None:
        super().__init__()
        self.tools = tools
        self.width = width
        self.seed = seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.words = nn.Linear(2 * BUCKETS, width)
            self.called = nn.Linear(tools, width, bias=False)
            self.state = nn.Embedding(sum(_STATE), width)
            self.context = nn.Linear(width, width)
            self.tool = nn.Embedding(tools + 1, width)
            self.key = nn.Embedding(tools + 1, width)
            self.arguments = nn.Linear((WIDTH + 1) * _FACTS + 1, width, bias=False)
            self.hidden = nn.Linear(width, width)
            self.out = nn.Linear(width, 1)
            self.query = nn.Linear(width, width)
            nn.init.normal_(self.state.weight, std=0.1)
            nn.init.normal_(self.tool.weight, std=0.3)
            nn.init.normal_(self.key.weight, std=0.3)

    def forward(self, batch: Batch) -> torch.Tensor:
        """The log-probability of each action among those of its state, float32 of shape `(actions,)`."""
        starts = torch.tensor((0, *np.cumsum(_STATE)[:-1]))
        state = self.state(batch.state + starts).sum(1)
        context = torch.relu(self.words(batch.words) + self.called(batch.called) + state)
        every = batch.facts.view(len(batch.facts), WIDTH, _FACTS).sum(1)  # arguments alike, wherever they stand
        given = self.arguments(torch.cat((batch.facts, every, batch.made[:, None]), 1))
        first = torch.relu(self.context(context)[batch.state_of] + self.tool(batch.tool) + given)
        scores = self.out(torch.relu(self.hidden(first)))[:, 0]
        scores = scores + (self.query(context)[batch.state_of] * self.key(batch.tool)).sum(1) / self.width**0.5
        return log_softmax(scores, batch)

    def save(self, path: str | Path) -> None:
        """Writes the weights; a file that stands there is replaced at once or not at all."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}.part")
        kept = {"tools": self.tools, "width": self.width, "seed": self.seed, "weights": self.state_dict()}
        torch.save(kept, temporary)
        temporary.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> PointerNet:
        """Reads what `save` wrote.

        Raises:
            RodsError: if the file cannot be read.
        """
        try:
            kept = torch.load(path, weights_only=True)
            net = cls(kept["tools"], width=kept["width"], seed=kept["seed"])
            net.load_state_dict(kept["weights"])
        except (OSError, KeyError, TypeError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RodsError(f"cannot read the pointer policy {path}: {why}.") from None
        return net


def log_softmax(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Log-probabilities among the actions of each state."""
    n = len(batch)
    most = torch.full((n,), -torch.inf).scatter_reduce(0, batch.state_of, scores.detach(), "amax")
    shifted = scores - most[batch.state_of]
    total = torch.zeros(n).index_add(0, batch.state_of, shifted.exp())
    return shifted - total.log()[batch.state_of]
