"""Variants: valid, isomorphic, new, reproducible; and what is said when there are none."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

import networkx as nx
import numpy as np
import pytest

from rods_env import Synthesizer, isomorphic, load_tasks, validate
from rods_env.apis.registry import TOOLS
from rods_env.errors import RodsError, SynthesisError
from rods_env.tasks.task import KINDS, Call, Task, Turn, task_from_json, task_to_json
from rods_env.tasks.variants import _LOOKS


@pytest.fixture(scope="module")
def seeds() -> list[Task]:
    return load_tasks("seeds")


@pytest.fixture(scope="module")
def some(seeds) -> list[Task]:
    """Twelve seeds of each kind."""
    return [task for kind in KINDS for task in [t for t in seeds if t.kind == kind][:12]]


@pytest.fixture(scope="module")
def pairs(some) -> list[tuple[Task, Task]]:
    """Seeds with six variants each."""
    synthesizer = Synthesizer(1)
    return [(task, variant) for task in some for variant in synthesizer.variants(task, 6)]


def fresh(task: Task) -> Task:
    """The task as a file has it, without anything that was worked out before."""
    return task_from_json(task_to_json(task))


def texts(task: Task) -> tuple[str, ...]:
    return tuple(turn.message for turn in task.turns)


def words(task: Task) -> set[str]:
    return set(re.findall(r"\w+", " ".join(texts(task)).lower()))


def tools(task: Task) -> list[str]:
    return [call.tool for call in task.calls]


def networkx_says(a: Task, b: Task) -> bool:
    """Isomorphism by networkx on the graphs, without what `isomorphic` remembers."""
    return nx.is_isomorphic(
        a.graph,
        b.graph,
        node_match=lambda u, v: u["label"] == v["label"],
        edge_match=lambda u, v: u["kind"] == v["kind"],
    )


def test_every_variant_is_valid_and_isomorphic(pairs, some):
    assert len(pairs) == 6 * len(some)
    for seed, variant in pairs:
        again = fresh(variant)
        assert validate(again) == []
        assert networkx_says(again, seed)
        assert again.kind == seed.kind
        assert [len(turn.calls) for turn in again.turns] == [len(turn.calls) for turn in seed.turns]
        assert again.profile == seed.profile == variant.profile
        assert len(again.apis) == len(seed.apis)
        assert variant.parent == seed.id


def test_a_variant_carries_nothing_that_was_worked_out_but_its_profile(pairs):
    for _, variant in pairs:
        assert set(variant.__dict__) <= {"profile"} | {"gold", "sources", "edges", "structure", "graph"}
        assert variant.__dict__["profile"] == fresh(variant).profile


def test_variants_differ_from_each_other_and_from_the_seed(pairs):
    assert len({texts(variant) for _, variant in pairs}) == len(pairs)
    for seed, variant in pairs:
        assert texts(variant) != texts(seed)
        assert variant.world != seed.world
    overlaps = [len(words(a) & words(b)) / len(words(a) | words(b)) for a, b in pairs]
    assert np.median(overlaps) < 0.5


def test_some_variants_use_other_tools_and_other_apis_of_the_same_skills(seeds):
    # Short tasks fit more tools than long ones.
    short = [task for task in seeds if task.kind == "base" and len(task.calls) <= 3][:8]
    synthesizer = Synthesizer(2)
    found = Counter()
    for task in short:
        for variant in synthesizer.variants(task, 20):
            assert [TOOLS[t].skill for t in tools(variant)] == [TOOLS[t].skill for t in tools(task)]
            found["tools"] += tools(variant) != tools(task)
            found["apis"] += {TOOLS[t].api for t in tools(variant)} != {TOOLS[t].api for t in tools(task)}
    assert found["tools"] > 40
    assert found["apis"] > 20


def test_tools_are_kept_when_asked(some):
    synthesizer = Synthesizer(3, keep_tools=True)
    for task in some[::4]:
        for variant in synthesizer.variants(task, 5):
            assert tools(variant) == tools(task)
            assert isomorphic(fresh(variant), task)


def test_every_variant_is_a_new_story_when_asked(some):
    synthesizer = Synthesizer(4, new=1.0)
    for task in some[:4]:
        assert len(synthesizer.variants(task, 4)) == 4
    assert all(story.told == 0 for recipe in synthesizer._recipes.values() for story in recipe.stories)


def test_a_variant_of_a_variant_has_the_profile_of_the_seed(some):
    synthesizer = Synthesizer(5)
    for seed in some[::6]:
        task = seed
        for _ in range(4):
            child = synthesizer.variant(task)
            assert child.parent == task.id
            task = child
        assert networkx_says(fresh(task), seed)


def test_the_random_generator_decides(some):
    def made(seed: int) -> bytes:
        synthesizer = Synthesizer(6)
        rng = np.random.default_rng(seed)
        return b"".join(task_to_json(synthesizer.variant(task, rng)) for task in some[::5])

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_a_global_generator_is_neither_read_nor_set(some):
    np.random.seed(5)
    before = np.random.get_state()[1].tolist()
    one = task_to_json(Synthesizer(7).variant(some[0]))
    assert np.random.get_state()[1].tolist() == before
    np.random.seed(6)
    assert task_to_json(Synthesizer(7).variant(some[0])) == one


SCRIPT = """
import hashlib, rods_env
from rods_env.tasks.task import task_to_json
synthesizer, digest = rods_env.Synthesizer(8), hashlib.sha256()
for task in rods_env.load_tasks("seeds")[::40]:
    for variant in synthesizer.variants(task, 5):
        digest.update(task_to_json(variant))
print(digest.hexdigest())
"""


def test_equal_seeds_give_equal_bytes_in_every_process():
    command = [sys.executable, "-c", SCRIPT]
    runs = [subprocess.run(command, capture_output=True, check=True, env={"PYTHONHASHSEED": h}) for h in ("0", "12345")]
    assert runs[0].stdout == runs[1].stdout


@pytest.mark.parametrize("between", ["nothing", "json", "later"])
def test_after_a_reload_the_same_variants_follow(some, between):
    one = Synthesizer(9)
    tasks = some[::3]
    for task in tasks:
        one.variants(task, 4)
    state = one.state_dict()
    if between == "later":  # the state is a copy: what comes after does not change it
        text = json.dumps(state)
        one.variants(tasks[0], 3)
        assert json.dumps(state) == text
        one = Synthesizer(9)
        one.load_state_dict(json.loads(text))
    other = Synthesizer(9)
    other.load_state_dict(json.loads(json.dumps(state)) if between == "json" else state)
    for _ in range(4):
        for task in tasks:
            assert task_to_json(one.variant(task)) == task_to_json(other.variant(task))
    assert one.state_dict() == other.state_dict()
    assert one.rejected == other.rejected


@pytest.mark.parametrize("settings", [{"seed": 1}, {"keep_tools": True}, {"new": 0.5}])
def test_the_state_of_another_configuration_is_refused(settings):
    name, value = next(iter(settings.items()))
    with pytest.raises(RodsError, match=f"{name}=.*this one has {name}={value}"):
        Synthesizer(**settings).load_state_dict(Synthesizer(0).state_dict())


@pytest.mark.parametrize("seed", [-1, 1.5, "x", True, None])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(RodsError, match="seed: expected a whole number"):
        Synthesizer(seed)


@pytest.mark.parametrize("new", [-0.1, 1.1, float("nan")])
def test_the_share_of_new_stories_is_a_share(new):
    with pytest.raises(RodsError, match="new: expected a share"):
        Synthesizer(new=new)


def test_rejections_are_counted_by_reason(some):
    synthesizer = Synthesizer(10)
    for task in some:
        synthesizer.variants(task, 2)
    assert synthesizer.made == 2 * len(some)
    assert synthesizer.rejected
    assert set(synthesizer.rejected) <= {
        "assign", "plan", "ambiguous", "phrasing", "edges", "profile", "transform", "renaming", "invalid", "duplicate",
    }  # fmt: skip


def test_duplicates_are_refused_and_the_reason_is_said(seeds):
    """A task that names nobody and nothing has few ways to be said; then there are no more variants."""
    task = min((t for t in seeds if t.kind == "base"), key=lambda t: (len(t.calls), t.id))
    synthesizer = Synthesizer(11)
    found = synthesizer.variants(task, 20)
    assert len({texts(variant) for variant in found}) == 20
    synthesizer._seen = _Everything()
    with pytest.raises(SynthesisError, match=f"no variant of {task.id} in 80 attempts .*duplicate: ") as caught:
        synthesizer.variant(task)
    assert caught.value.reason == "duplicate"
    assert synthesizer.variants(task, 3) == []


class _Everything(dict):
    """Holds every number."""

    def __contains__(self, _: object) -> bool:
        return True


def test_a_task_whose_tools_do_not_fit_the_type_graph_is_told_again_itself(seeds):
    """One seed has an edge that the type graph does not know; its variants are the seed about other entities."""
    task = next(t for t in seeds if t.id == "fleet-9dee1ac3")
    synthesizer = Synthesizer(12)
    found = synthesizer.variants(task, 20)
    assert len(found) == 20
    assert synthesizer.rejected["assign"] >= _LOOKS // 2
    for variant in found:
        assert validate(fresh(variant)) == []
        assert networkx_says(fresh(variant), task)


def test_a_broken_task_is_refused():
    task = load_tasks("seeds")[0]
    broken = Task("x", "base", task.apis, (Turn("Hello.", (Call("find_nothing", {}),)),), task.world)
    with pytest.raises(RodsError, match="find_nothing"):
        Synthesizer().variant(broken)


def test_variants_stay_in_the_services_that_are_named(seeds):
    few = [task for task in seeds if set(task.apis) <= {"shop", "mail"}][:5]
    free, bound = Synthesizer(4), Synthesizer(4, apis=("shop", "mail"))
    assert any(set(free.variant(task).apis) - {"shop", "mail"} for task in few for _ in range(8))
    assert all(set(bound.variant(task).apis) <= {"shop", "mail"} for task in few for _ in range(8))
    with pytest.raises(RodsError, match="apis"):
        Synthesizer(4).load_state_dict(bound.state_dict())
