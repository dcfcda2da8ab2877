"""Scripted agents where a rollout engine expects a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rods_env.agents.chat import Chat
from rods_env.agents.decoding import Request, Sample
from rods_env.envs.calls import parse_calls


class ScriptedSampler:
    """Scripted agents behind `generate`.

    Args:
        chat: in whose tokens they speak.
        make_agent: makes an agent from an environment; `Oracle`, say.
        slots: how many episodes are played at once.
        max_length: the most tokens of an episode.
    """

    def __init__(
        self, chat: Chat, make_agent: Callable[[Any], Any], *, slots: int = 128, max_length: int = 100_000
    ) -> None:
        self.slots = slots
        self.max_length = max_length
        self._chat = chat
        self._make_agent = make_agent
        self._agents: dict[int, Any] = {}

    def generate(self, requests: Sequence[Request]) -> list[Sample]:
        return [self._said(request) for request in requests]

    def release(self, slot: int) -> None:
        self._agents.pop(slot, None)

    def _said(self, request: Request) -> Sample:
        live = request.episode
        agent = self._agents.get(request.slot)
        if agent is None:
            agent = self._agents[request.slot] = self._make_agent(live.env)
            if hasattr(agent, "begin"):
                agent.begin(live.info)
        said = agent.act(list(live.info["messages"]), live.info.get("tools", []))
        calls = [(c.name, msgspec.json.decode(c.arguments)) for c in parse_calls(said)]
        ids = [*self._chat.encode(live.dialogue.speech.calls(calls)), *self._chat.end_ids][: request.limit]
        return Sample(ids, [0.0] * len(ids))
