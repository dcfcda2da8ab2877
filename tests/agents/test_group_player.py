"""`GroupPlayer`: whose group an episode is, what is played again, what a curriculum is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpo_tools as tools

from rods_env.agents.group_player import GroupPlayer, Ranks
from rods_env.agents.rollout import Rollout, Start
from rods_env.curricula import FixedCurriculum
from rods_env.curricula.base import Curriculum


class FakeEngine:
    """Returns what a function of task, number and attempt says; None crashes."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.starts: list[list[Start]] = []

    def play(self, starts: Sequence[Start]) -> list[Rollout]:
        self.starts.append(list(starts))
        return [self._rollout(start) for start in starts]

    def _rollout(self, start: Start) -> Rollout:
        value = self.value(start)
        end = "crashed" if value is None else "completed"
        return Rollout(start.task, start.group, [1, 2], [0, 1], [0.0, -1.0], 1, value, value == 1, end, 1, [""], 0.0)


class Told(FixedCurriculum):
    """Notes what it is told; a group whose returns agree is not worth training on."""

    def __init__(self, *args: Any, picky: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.told: list[tuple[str, list[float]]] = []
        self.picky = picky

    def observe(self, task_id: str, returns: Sequence[float]) -> bool:
        self.told.append((task_id, list(returns)))
        super().observe(task_id, returns)
        return not self.picky or len(set(returns)) > 1


def player(engine: FakeEngine, curriculum: Curriculum, groups: int = 2) -> GroupPlayer:
    return GroupPlayer(curriculum, engine, group_size=3, groups=groups, ranks=Ranks())  # type: ignore[arg-type]


def test_a_group_shares_its_task_and_no_noise_is_used_twice() -> None:
    engine, curriculum = FakeEngine(lambda start: start.number % 2), Told(tools.tasks())
    one = player(engine, curriculum)
    played = [*one.play(), *one.play()]
    numbers = [start.number for starts in engine.starts for start in starts]
    assert len(set(numbers)) == 12
    for at in range(0, 12, 3):
        group = played[at : at + 3]
        assert len({rollout.task.id for rollout in group}) == 1
        assert curriculum.told[at // 3] == (group[0].task.id, [rollout.value for rollout in group])
    assert curriculum.metrics()["open_groups"] == 0  # nothing was asked for ahead


def test_an_episode_that_crashed_is_played_again_and_never_counted_as_zero() -> None:
    crashes: list[int] = []

    def value(start: Start) -> float | None:
        if start.number == 1:
            crashes.append(start.number)
            return None
        return 1.0

    engine, curriculum = FakeEngine(value), Told(tools.tasks())
    one = player(engine, curriculum)
    rollouts = one.play()
    assert crashes == [1]
    assert [len(starts) for starts in engine.starts] == [6, 1]
    assert [rollout.value for rollout in rollouts] == [1.0] * 6
    assert [returns for _, returns in curriculum.told] == [[1.0] * 3] * 2
    assert one.figures["crashed"] == 0


def test_a_member_that_always_crashes_is_left_out_of_its_group() -> None:
    curriculum = Told(tools.tasks())
    calls: list[int] = []

    def value(start: Start) -> float | None:
        calls.append(start.number or 0)
        return None if start.number in (0, 6, 7, 8) else 0.5

    rollouts = player(FakeEngine(value), curriculum).play()
    assert calls == [0, 1, 2, 3, 4, 5, 6, 7, 8]  # once, and three times again
    assert [rollout.value for rollout in rollouts] == [None, *[0.5] * 5]
    assert [returns for _, returns in curriculum.told] == [[0.5] * 2, [0.5] * 3]


def test_a_group_that_cannot_be_played_is_told_to_nobody_and_resuming_skips_it_too() -> None:
    poison = tools.tasks()[1].id

    def value(start: Start) -> float | None:
        return None if start.task.id == poison else start.number % 2

    curriculum = Told(tools.tasks(), seed=1)
    one = player(FakeEngine(value), curriculum)
    for _ in range(4):
        one.play()
    assert all(task_id != poison for task_id, _ in curriculum.told)
    assert one.state_dict()["left_out"] == {poison: 2}
    assert one.figures["return_mean"] == 0.5 if one.figures["crashed"] == 0 else 0 < one.figures["return_mean"] < 1
    resumed = Told(tools.tasks(), seed=1)
    other = player(FakeEngine(value), resumed)
    resumed.load_state_dict(curriculum.state_dict())
    other.load_state_dict(one.state_dict())
    assert [r.task.id for r in one.play()] == [r.task.id for r in other.play()]
    assert one.state_dict() == other.state_dict()


def test_groups_that_are_not_worth_training_on_are_exchanged_but_counted() -> None:
    curriculum = Told(tools.tasks(), picky=True)
    engine = FakeEngine(lambda start: float(start.number % 2) if (start.number or 0) >= 6 else 0.0)
    one = player(engine, curriculum)
    rollouts = one.play()
    assert [len(starts) for starts in engine.starts] == [6, 6]
    assert {rollout.value for rollout in rollouts} >= {0.0, 1.0}
    assert one.figures["episodes"] == 12
    assert one.figures["return_mean"] < sum(r.value or 0 for r in rollouts) / 6  # unfiltered
    stubborn = player(FakeEngine(lambda _: 0.0), Told(tools.tasks(), picky=True))
    assert len(stubborn.play()) == 6  # it ends
    assert stubborn.figures["zero_variance_share"] == 1


def test_a_listener_hears_of_every_group_also_of_exchanged_ones() -> None:
    curriculum, heard = Told(tools.tasks(), picky=True), []
    engine = FakeEngine(lambda start: float(start.number % 2) if (start.number or 0) >= 6 else 0.0)
    one = GroupPlayer(
        curriculum, engine, group_size=3, groups=2, ranks=Ranks(), on_group=heard.append  # type: ignore[arg-type]
    )
    one.play()
    assert [(group.task.id, list(group.returns)) for group in heard] == curriculum.told
    assert [(group.tokens, group.origin.generation) for group in heard] == [(3, 0)] * 4
    assert one.curriculum_s > 0
