"""`ToolUseEnv`: what earns, what fails and what ends. The fixture `story` is a small task made by hand."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from gymnasium.error import ResetNeeded

from rods_env.apis.registry import TOOLS
from rods_env.envs.calls import MAX_CALLS, write_calls
from rods_env.envs.tool_use import ToolUseEnv
from rods_env.tasks.task import Call

STYLES = ("hermes", "json", "python")
MISSING = pytest.mark.parametrize("kind", ["missing_function", "missing_parameter"])


def rewards(env, play, *messages):
    """The rewards of messages, each a list of calls; an empty one closes the turn."""
    return [play.say(env, *calls)[1] for calls in messages]


# --- rewards ---


def test_a_turn_earns_its_share_when_it_closes_passed(story, play):
    env = story.env([story.order], [story.review], [story.read])
    got = rewards(env, play, [story.order], [], [story.review], [], [story.read], [])
    assert got == pytest.approx([0, 1 / 3, 0, 1 / 3, 0, 1 / 3])
    assert sum(got) == 1.0


def test_rewards_add_up_to_the_progress(seeds, play):
    env, ended, between = ToolUseEnv(tasks=seeds), 0, 0
    for seed in range(150):
        _, info = env.reset(seed=seed)
        player, total, over = play.Player(seed), 0.0, False
        while not over:
            *_, reward, terminated, truncated, info = env.step(player.action(env, info, env._schemas()))
            total += reward
            assert reward >= 0
            assert total == pytest.approx(info["progress"], abs=1e-12)
            assert (reward > 0) <= bool(info["turn_passed"])
            over = terminated or truncated
        ended += 1
        between += 0 < total < 1
    assert ended == 150
    assert between > 20


def test_oracle_earns_exactly_one_for_every_number_of_turns(story, play):
    for turns in range(1, 8):
        for refrain in range(turns):  # a turn of asking is paid together with the one after it
            calls = [[] if number == refrain and number + 1 < turns else [story.quote] for number in range(turns)]
            env = story.env(*calls)
            for _ in range(2):
                assert play.oracle(env) == (1.0, play.oracle(env)[1])
                assert play.oracle(env)[1]["progress"] == 1.0


def test_a_failed_turn_does_not_end_the_episode(story, play):
    env = story.env([story.read], [story.quote])
    obs, reward, terminated, truncated, info = play.say(env)
    assert (obs, reward, terminated, truncated) == ("Message 2, bitte schön.", 0.0, False, False)
    assert info["turn_passed"] is False
    assert info["turn"] == 1
    assert info["termination"] is None
    assert rewards(env, play, [story.quote], []) == [0.0, 0.5]


def test_catching_up_makes_a_later_turn_pass(story, play):
    env = story.env([story.order], [story.review], [story.standing])
    assert rewards(env, play, [], [story.review, story.order], []) == pytest.approx([0, 0, 1 / 3])
    assert rewards(env, play, [story.standing], []) == pytest.approx([0, 1 / 3])
    assert env.snapshot().passed == (False, True, True)


def test_a_write_that_was_not_asked_for_fails_this_turn_and_the_next(story, play):
    env = story.env([story.order], [story.review])
    assert rewards(env, play, [story.order, story.order], [], [story.review], []) == [0, 0, 0, 0]


def test_extra_reads_change_nothing(story, play):
    """Row 15: a read never changes the world, nor the score."""
    env = story.env([story.order], [story.quote, story.review])
    before = env.world
    extra = [story.read, story.quote, Call("search_products", {"category": "lamps"}), story.read]
    play.say(env, *extra)
    assert env.world is before
    assert rewards(env, play, [story.order, *extra], extra, []) == [0, 0, 0.5]
    assert rewards(env, play, [*extra, story.review], extra, []) == [0, 0, 0.5]


def test_order_of_independent_calls_does_not_matter(story, play):
    """Row 14 and row 15: equal worlds are equal, whatever order made them; also for two rows of equal content."""
    calls = [story.order, story.review, story.standing, story.order]
    for order in set(permutations(range(4))):
        for together in (True, False):
            env = story.env(calls)
            chosen = [calls[i] for i in order]
            for message in [chosen] if together else [[call] for call in chosen]:
                play.say(env, *message)
            assert play.say(env)[1] == 1.0


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("name", "written", "instead"),
    [("quantity", "2", "2.0"), ("rating", "4", "4.00"), ("amount", "25.0", "25"), ("amount", "25.0", "2.5e1")],
)
def test_equal_numbers_are_equal(story, play, style, name, written, instead):
    """Row 15: 25 and 25.0 are the same number, also where an integer is wanted."""
    calls = [story.order, story.review, story.standing]
    env = story.env(calls, call_format=style)
    text = write_calls([(call.tool, call.arguments) for call in calls], style)
    key = f"{name}=" if style == "python" else f'"{name}": '
    assert text.count(key + written) == 1
    env.step(text.replace(key + written, key + instead))
    assert play.say(env)[1] == 1.0


def test_numbers_that_differ_are_not_equal(story, play):
    """Row 15, the other way: nothing is rounded to fit, and what is no number is none."""
    for wrong in (25.01, 24.999999, "25", True, None, [25]):
        env = story.env([story.standing])
        play.say(env, Call(story.standing.tool, {**story.standing.arguments, "amount": wrong}))
        assert play.say(env)[1] == 0.0
    for wrong in (2.5, "2", True, 1e300, -2, 2**70):
        env = story.env([story.order])
        reply = play.say(env, Call(story.order.tool, {**story.order.arguments, "quantity": wrong}))
        assert reply[4]["error"]
        assert env.world is story.world


def test_an_answer_counts_when_it_was_seen_before(story, play):
    env = story.env([story.order], [story.quote])
    assert rewards(env, play, [story.order, story.quote], [], []) == [0, 0.5, 0.5]
    env = story.env([story.quote], [story.quote])
    assert rewards(env, play, [story.quote], [], []) == [0, 0.5, 0.5]


# --- turns in which something is missing ---


@MISSING
def test_silence_earns_nothing(kind, seeds, play):
    """Row 13: refraining is paid with the recovery, so doing nothing scores 0 (and 1/N by the paper's rule)."""
    tasks = [task for task in seeds if task.kind == kind]
    for rule, share in (("with_recovery", 0.0), ("immediate", 1.0)):
        env = ToolUseEnv(tasks=tasks, refrain_credit=rule)
        for index, task in enumerate(tasks):
            env.reset(options={"task": index})
            total, info, over = 0.0, {}, False
            while not over:
                _, reward, over, _, info = env.step("Sorry.")
                total += reward
            assert total == pytest.approx(share / len(task.turns))
            assert total == pytest.approx(info["progress"])
    assert len(tasks) >= 20


@MISSING
@pytest.mark.parametrize("rule", ["with_recovery", "immediate"])
def test_when_refraining_is_paid(kind, rule, some, play):
    task = some(kind, lambda task: len(task.turns) >= 3)
    share = 1 / len(task.turns)
    asked = next(number for number, turn in enumerate(task.turns) if not turn.calls)
    env = ToolUseEnv(tasks=[task], refrain_credit=rule)
    for supplied in (True, False):
        env.reset(seed=0)
        for turn in task.turns[:asked]:
            play.say(env, *turn.calls)
            play.say(env)
        before = env.snapshot().progress
        reply = play.say(env)
        assert reply[4]["turn_passed"] is True
        assert reply[4]["failed_checks"] == ()
        assert reply[1] == pytest.approx(share if rule == "immediate" else 0.0)
        play.say(env, *(task.turns[asked + 1].calls if supplied else ()))
        if supplied:
            play.say(env)
        both = 2 * share if supplied else share if rule == "immediate" else 0.0
        assert env.snapshot().progress - before == pytest.approx(both)


@MISSING
@pytest.mark.parametrize("rule", ["with_recovery", "immediate"])
def test_calling_anything_where_one_should_ask_fails_the_turn(kind, rule, some):
    task = some(kind, lambda task: len(task.turns[0].calls) == 0 and len(task.turns) >= 2)
    env = ToolUseEnv(tasks=[task], refrain_credit=rule)
    env.reset(seed=0)
    read = next(name for name, tool in env._tools.items() if tool.reads)
    read_call = write_calls([(read, {p.name: "x" for p in TOOLS[read].params})])
    for action in ("<tool_call>{}</tool_call>", "<tool_call>", write_calls([("no_such_tool", {})]), read_call):
        env.reset(seed=0)
        assert env.step(action)[4]["turn_passed"] is None
        *_, info = env.step("Which one do you mean?")
        assert info["turn_passed"] is False
        assert info["failed_checks"] == ("called",)
        assert info["progress"] == 0.0
    env.reset(seed=0)
    *_, info = env.step("Which one do you mean?")
    assert info["turn_passed"] is True


def test_a_read_that_succeeds_fails_such_a_turn_too_and_only_that_one(story, play):
    env = story.env([], [story.order])
    assert rewards(env, play, [story.read], [], [story.order], []) == [0, 0, 0, 0.5]
    assert env.snapshot().passed == (False, True)


def test_a_withheld_tool_comes_with_its_turn(some, play):
    """Row 16: a tool that is not offered is an error the policy sees; from its turn on it is offered."""
    task = some("missing_function", lambda task: bool(task.turns[1].adds))
    (name,) = task.turns[1].adds
    env = ToolUseEnv(tasks=[task])
    _, info = env.reset(seed=0)
    assert name not in {tool["function"]["name"] for tool in info["tools"]}
    call = next(call for call in task.calls if call.tool == name)
    obs, *_, info = play.say(env, call)
    assert f"no tool '{name}'" in obs
    assert info["error"]
    assert env.world is task.world
    assert "tools" not in info
    *_, info = play.say(env)
    assert name in {tool["function"]["name"] for tool in info["tools"]}
    obs, *_, info = play.say(env, *task.turns[1].calls)
    assert not info["error"]


# --- what ends turns and episodes ---


def test_ten_failed_calls_close_the_turn(story, play):
    """Row 8: there is a cap on attempts, and the information names it."""
    env = story.env([story.order], [story.review])
    calls = [("nothing", {}), ("list_orders", {}), ("list_orders", {"customer_id": "x"})]
    wrong = ["<tool_call>{", *(write_calls([call]) for call in calls)]
    for spent in range(1, 10):
        obs, reward, terminated, truncated, info = env.step(wrong[spent % 4])
        assert (info["attempts_left"], info["closed_by"], info["turn"]) == (10 - spent, None, 0)
        assert (reward, terminated, truncated, info["turn_passed"]) == (0.0, False, False, None)
        play.say(env, story.read)  # a good call costs nothing
    obs, reward, terminated, truncated, info = env.step(wrong[0])
    assert (info["closed_by"], info["turn"], info["turn_passed"], info["attempts_left"]) == ("attempts", 1, False, 10)
    first, second = obs.split("\n")
    assert "error" in msgspec.json.decode(first)
    assert second == "Message 2, bitte schön."
    assert info["messages"][-1] == {"role": "user", "content": second}
    assert rewards(env, play, [story.order, story.review], []) == [0, 0.5]
    assert env.snapshot().termination == "completed"


def test_attempts_are_counted_by_call_and_do_not_spoil_what_was_done(story, play):
    env = story.env([story.order], attempts_per_turn=3)
    *_, info = play.say(env, story.fails, story.order, story.fails)
    assert (info["attempts_left"], info["error"], info["closed_by"]) == (1, True, None)
    _, reward, terminated, _, info = play.say(env, story.fails)
    assert (reward, terminated, info["closed_by"], info["termination"]) == (1.0, True, "attempts", "completed")


def test_looping_on_invalid_calls_ends_the_episode(seeds):
    """Row 7 and row 8: nothing a policy says keeps an episode from ending, with a named reason."""
    for action in ("<tool_call>", write_calls([("nothing", {})] * MAX_CALLS), "[f(x=1"):
        env = ToolUseEnv(tasks=seeds, max_steps=35)
        for seed in range(20):
            env.reset(seed=seed)
            steps, over, info = 0, False, {}
            while not over:
                *_, terminated, truncated, info = env.step(action)
                steps, over = steps + 1, terminated or truncated
            assert steps <= 35
            assert info["termination"] == ("step_limit" if truncated else "completed")


def test_the_step_limit_truncates(story, play):
    """Row 7: a limit of steps, with a named reason."""
    env = story.env([story.order], [story.review], max_steps=3)
    play.say(env, story.read)
    play.say(env, story.read)
    obs, reward, terminated, truncated, info = play.say(env, story.read)
    assert (reward, terminated, truncated, info["termination"]) == (0.0, False, True, "step_limit")
    assert msgspec.json.decode(obs) is not None
    with pytest.raises(ResetNeeded):
        play.say(env)
    env.reset(seed=0)
    assert rewards(env, play, [story.order], []) == [0, 0.5]
    obs, reward, terminated, truncated, info = env.step("<tool_call>")
    assert (terminated, truncated, info["termination"], info["error"]) == (False, True, "step_limit", True)


def test_a_turn_that_closes_with_the_last_step_is_paid(story, play):
    env = story.env([story.order], [story.review], max_steps=2)
    play.say(env, story.order)
    obs, reward, terminated, truncated, info = play.say(env)
    assert (obs, reward, terminated, truncated) == ("", 0.5, False, True)
    assert (info["termination"], info["turn_passed"], info["progress"]) == ("step_limit", True, 0.5)
    env = story.env([story.order], max_steps=2)
    play.say(env, story.order)
    assert play.say(env)[1:4] == (1.0, True, False), "an episode that is complete is not cut short"


def test_stop_at_failed_turn(story, play):
    env = story.env([story.order], [story.review], [story.standing], stop_at_failed_turn=True)
    assert rewards(env, play, [story.order], []) == pytest.approx([0, 1 / 3])
    obs, reward, terminated, truncated, info = play.say(env)
    assert (obs, reward, terminated, truncated, info["termination"]) == ("", 0.0, True, False, "failed_turn")
    assert info["progress"] == pytest.approx(1 / 3)
    assert info["turn"] == 1
    with pytest.raises(ResetNeeded):
        play.say(env)


def test_information_says_which_check_failed(story, play):
    """Row 22: it is clear what is graded."""
    turn = [story.order, story.quote]
    cases = ([], ("world", "answers")), ([story.order], ("answers",)), ([story.quote], ("world",)), (turn, ())
    for done, failed in cases:
        for after in ([], [story.review]):
            env = story.env(turn, after)
            play.say(env, *done) if done else None
            *_, info = play.say(env)
            assert (info["failed_checks"], info["turn_passed"], info["closed_by"]) == (failed, not failed, "answer")
    env = story.env([], [story.order])
    play.say(env, story.read)
    assert play.say(env)[4]["failed_checks"] == ("called",)


def test_information_of_every_step(story, play):
    env = ToolUseEnv(tasks=[story.task([story.read], [story.order])])
    obs, info = env.reset(seed=0)
    common = {
        "task_id", "turn", "turns", "progress", "turn_passed", "failed_checks", "closed_by", "error", "attempts_left",
        "termination", "messages",
    }  # fmt: skip
    assert set(info) == common | {"tools"}
    offered = [tool.name for tool in TOOLS.values() if tool.api.NAME in ("shop", "bank")]
    assert [tool["function"]["name"] for tool in info["tools"]] == offered
    assert [m["role"] for m in info["messages"]] == ["system", "user"]
    assert info["messages"][1]["content"] == obs
    assert story.world.now[:10] in info["messages"][0]["content"]
    obs, *_, info = play.say(env, story.read, story.fails)
    assert set(info) == common
    assert [m["role"] for m in info["messages"]][2:] == ["assistant", "tool", "tool"]
    assert [m["content"] for m in info["messages"]][3:] == obs.split("\n")
    assert [m["name"] for m in info["messages"] if m["role"] == "tool"] == ["list_orders"] * 2
    assert info["error"] is True
    assert play.say(env, story.read)[4]["error"] is False
