"""What several test modules share: the frozen tasks, a small task made by hand, and ways to play and to write down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
import pytest

import rods_env
from rods_env.agents.scripted import Oracle, RandomCalls
from rods_env.apis.draw import Draw
from rods_env.apis.worlds import draw_world, world_to_data
from rods_env.envs.calls import write_calls
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.tasks.task import Call, Task, Turn, make_task

Reply = tuple[str, float, bool, bool, dict[str, Any]]

# Lone surrogates are no Unicode text and outside the space; the environment must survive them all the same.
NASTY = (
    "", " ", "\x00", "\n" * 50, "a" * 20_000, "Grüße, señor", "好的。", "e\u0301\u0323", "👩‍👩‍👧‍👦",
    "\u202eabc\u2066", "\ufeff", "\ufffe", "\U0010ffff", "\ud800", "\udfff</think>ok", "a\ud83d\ude00b", "\x1b[2J",
    "{", "[", "]]]", "<tool_call>", "</tool_call>", "<tool_call>{}</tool_call>", "<tool_call>[]</tool_call>",
    "<tool_call></tool_call><tool_call>", "```json\n[", "</think>", "<think>", "[find_me(name='\\ud800')]",
    '<tool_call>{"name": "\\ud800", "arguments": {"\\udc00": "\\ud800"}}</tool_call>',
    '<tool_call>{"name": "好的", "arguments": {"名": "\u0000"}}</tool_call>', "[ﬁnd_customer(name='x')]",
    '[{"name": "\x00", "arguments": {}}]',
    '\ud800</think><tool_call>{"name": "nothing", "arguments": {}}</tool_call>',
)  # fmt: skip


def plain(value: Any) -> Any:
    """Observations, rewards and information as JSON data; the conversation as a list."""
    if isinstance(value, dict):
        return {key: list(item) if key == "messages" else item for key, item in value.items()}
    return value


def as_json(reply: Sequence[Any]) -> bytes:
    return msgspec.json.encode([plain(part) for part in reply])


class Player:
    """A policy that is now right, now random, now nonsense: its episodes reach every path of a step."""

    def __init__(self, seed: int, *, nasty: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.nasty = nasty

    def action(self, env: gym.Env[Any, Any], info: dict[str, Any], tools: Sequence[dict[str, Any]]) -> str:
        base: Any = env.unwrapped
        roll = self.rng.random()
        gold = base.task.turns[base.turn].calls
        if roll < 0.5 and gold:
            chosen = [gold[int(i)] for i in self.rng.integers(0, len(gold), int(self.rng.integers(1, 3)))]
            return write_calls([(call.tool, call.arguments) for call in chosen], base.call_format)
        if roll < 0.75:
            return RandomCalls(int(self.rng.integers(1 << 30))).act(list(info["messages"]), tools)
        if roll < 0.85 and self.nasty:
            return NASTY[int(self.rng.integers(len(NASTY)))]
        return "Done."


class Helpers:
    """Functions that test modules use; `tests` is no package, so they come as a fixture."""

    nasty = NASTY
    Player = Player
    as_json = staticmethod(as_json)

    @staticmethod
    def state(env: gym.Env[Any, Any]) -> bytes:
        """The whole episode, its world included, as bytes."""
        base: Any = env.unwrapped
        task, world, transcript, *rest = base.snapshot()
        return msgspec.json.encode([task.id, world_to_data(world), list(transcript), *rest])

    @staticmethod
    def episode(
        env: gym.Env[Any, Any], player: Player, steps: int = 200, **reset: Any
    ) -> tuple[list[str], list[bytes]]:
        """The actions of an episode and, as JSON, what `reset` and each step returned."""
        obs, info = env.reset(**reset)
        tools, actions, replies = info["tools"], [], [as_json((obs, info))]
        for _ in range(steps):
            actions.append(player.action(env, info, tools))
            reply = env.step(actions[-1])
            replies.append(as_json(reply))
            info = reply[4]
            tools = info.get("tools", tools)
            if reply[2] or reply[3]:
                break
        return actions, replies

    @staticmethod
    def replay(env: gym.Env[Any, Any], actions: Sequence[str]) -> list[bytes]:
        return [as_json(env.step(action)) for action in actions]

    @staticmethod
    def oracle(env: gym.Env[Any, Any], **reset: Any) -> tuple[float, dict[str, Any]]:
        """The sum of rewards of an episode of the oracle, and its last information."""
        _, info = env.reset(**reset)
        agent, total, ended = Oracle(env), 0.0, False
        agent.begin(info)
        while not ended:
            _, reward, terminated, truncated, info = env.step(agent.act(list(info["messages"]), []))
            total += float(reward)
            ended = terminated or truncated
        return total, info

    @staticmethod
    def say(env: gym.Env[Any, Any], *calls: Call) -> Reply:
        """One message with these calls; without any, a message that closes the turn."""
        base: Any = env.unwrapped
        text = write_calls([(call.tool, call.arguments) for call in calls], base.call_format) if calls else "Done."
        return env.step(text)  # type: ignore[return-value]


@pytest.fixture(scope="session")
def play() -> type[Helpers]:
    return Helpers


@pytest.fixture(scope="session")
def seeds() -> list[Task]:
    return rods_env.load_tasks("seeds")


@pytest.fixture(scope="session")
def heldout() -> list[Task]:
    return rods_env.load_tasks("heldout")


@pytest.fixture(scope="session")
def some(seeds: list[Task]) -> Callable[..., Task]:
    """The first seed of a kind for which a condition holds."""

    def first(kind: str, condition: Callable[[Task], bool] = lambda _: True) -> Task:
        return next(task for task in seeds if task.kind == kind and condition(task))

    return first


class Story:
    """A world with a shop and a bank, calls that work in it, and tasks of any turns made of them."""

    def __init__(self) -> None:
        self.world, _ = draw_world(Draw(np.random.default_rng(5)), ["shop", "bank"])
        rows = {name: [table[key] for key in sorted(table)] for name, table in self.world.tables.items()}
        customers: list[Any] = rows["shop.customers"]
        product: Any = max(rows["shop.products"], key=lambda p: p.stock)
        account: Any = max(rows["bank.accounts"], key=lambda a: a.balance)
        payee: Any = rows["bank.payees"][0]
        names = {c.id: c.name for c in customers}
        reviewed = {(r.product_id, r.author) for r in rows["shop.reviews"]}
        received: Any = next(
            o
            for o in rows["shop.orders"]
            if o.status in ("shipped", "delivered")
            and (o.product_id, names[o.customer_id]) not in reviewed
            and o.product_id != product.id
        )
        self.customer: Any = next(c for c in customers if c.id == received.customer_id)
        self.product = product
        self.read = Call("list_orders", {"customer_id": self.customer.id})
        self.quote = Call("quote_price", {"product_id": product.id, "quantity": 2})
        self.order = Call("place_order", {"customer_id": self.customer.id, "product_id": product.id, "quantity": 2})
        opinion = {"rating": 4, "text": "Well made and quick to arrive."}
        bought = {"product_id": received.product_id, "customer_id": self.customer.id}
        self.review = Call("write_review", {**bought, **opinion})
        self.standing = Call("set_up_standing_order", {"account_id": account.id, "payee_id": payee.id, "amount": 25.0})
        self.fails = Call("list_orders", {"customer_id": "cus_nobdy"})

    def task(self, *turns: Sequence[Call], kind: Any = "base") -> Task:
        said = [Turn(f"Message {number}, bitte schön.", tuple(calls)) for number, calls in enumerate(turns, 1)]
        return make_task(kind, ("shop", "bank"), tuple(said), self.world)

    def env(self, *turns: Sequence[Call], **options: Any) -> ToolUseEnv:
        """An environment that has begun the task of these turns."""
        env = ToolUseEnv(tasks=[self.task(*turns)], **options)
        env.reset(seed=0)
        return env


@pytest.fixture(scope="session")
def story() -> Story:
    return Story()
