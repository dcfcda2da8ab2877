"""The arms of the benchmark of curricula, and arguments that are written behind their names."""

from __future__ import annotations

import pytest

from rods_env.benchmarks.curricula.arms import ARMS, SFT_MORE, base_of, make_arm, options_of, order_of
from rods_env.benchmarks.curricula.cells import Spec
from rods_env.benchmarks.curricula.targets import aims
from rods_env.errors import RodsError


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_is_made_and_plays(seeds, name):
    curriculum = make_arm(name, seeds[:6], 3)
    if name == SFT_MORE:
        assert curriculum is None
        return
    for _ in range(8):
        task = curriculum.next_group()
        curriculum.observe(task.id, [0.0, 1.0])
    assert curriculum.metrics()["groups_total"] == 8


def test_arguments_behind_a_name(seeds):
    name = "stream:sharpness=1.5+rule=ranked+explore=0.3"
    assert base_of(name) == "stream"
    assert options_of(name) == {"sharpness": 1.5, "rule": "ranked", "explore": 0.3}
    config = make_arm(name, seeds[:4], 0).config
    assert (config["mode"], config["sharpness"], config["rule"], config["explore"]) == ("stream", 1.5, "ranked", 0.3)
    assert make_arm("rods:retire=false", seeds[:4], 0).config["retire"] is False
    assert options_of("fixed") == {}


@pytest.mark.parametrize("name", ["stream:", "stream:sharpness", "stream:sharpness=", "stream:=1", "sft-more:a=1"])
def test_arguments_that_cannot_be_read(name):
    with pytest.raises(RodsError, match="such as stream or stream:sharpness=1"):
        base_of(name)


@pytest.mark.parametrize("name", ["rod", "", "rod:a=1"])
def test_unknown_arms(seeds, name):
    with pytest.raises(RodsError, match=r"unknown arm .*: expected one of fixed, dapo"):
        make_arm(name, seeds[:2], 0)


@pytest.mark.parametrize(("name", "sentence"), [("stream:speed=3", "speed"), ("stream:sharpness=-1", "sharpness")])
def test_arguments_that_an_arm_does_not_take(seeds, name, sentence):
    with pytest.raises(RodsError, match=sentence):
        make_arm(name, seeds[:2], 0)


def test_an_arm_with_arguments_stands_beside_its_own():
    specs = [Spec("pointer", "seeds", 50, arm, 0, 32) for arm in ("stream:sharpness=1", "stream", "rods", "fixed")]
    assert [spec.arm for spec in sorted(specs, key=order_of)] == ["fixed", "rods", "stream", "stream:sharpness=1"]
    assert specs[0].name == "seeds-50-stream@sharpness=1-s0"
    named = [(aim.arm, aim.baseline, aim.required) for aim in aims(["fixed", "fresh", "stream:sharpness=1"])]
    assert ("stream:sharpness=1", "fresh", False) in named
    assert ("stream:sharpness=1", "fixed", True) in named


def test_the_bound_is_compared_and_not_required():
    assert "bound" not in ARMS
    assert [tuple(aim) for aim in aims(["fixed", "fresh", "bound"])] == [
        ("fresh", "fixed", "above 0", True),
        ("bound", "fresh", "above 0", False),
    ]
