"""The package as a whole: what importing it costs, what it offers, what it registers."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import inspect
import subprocess
import sys
from importlib import import_module

import gymnasium as gym
import pytest

import rods_env
from rods_env.envs import BFCL_ENVIRONMENTS, DISCRETE_ENVIRONMENTS, ENVIRONMENTS, register_environments
from rods_env.errors import RodsError, SynthesisError, ToolError

HEAVY = ("torch", "transformers", "trl", "datasets", "peft", "accelerate", "ray", "matplotlib", "networkx", "faker")
HEADINGS = (
    "Description", "Action Space", "Observation Space", "Starting State", "Rewards", "Episode End", "Information",
    "Arguments", "Version History",
)  # fmt: skip


def imported_by(code: str) -> set[str]:
    """The top-level modules that a fresh process has loaded after running the code."""
    printing = "import sys; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{printing}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_is_light():
    loaded = imported_by("import rods_env")
    assert {"rods_env", "gymnasium", "numpy", "msgspec"} <= loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "rods_env", "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rods-env {rods_env.__version__}\n", "")


def test_playing_the_frozen_tasks_is_light_too():
    loaded = imported_by(
        "import gymnasium as gym, rods_env\n"
        "env = gym.make('ToolUse-RODS-v0'); env.reset(seed=0); env.step('[x()]'); env.step('Done.')"
    )
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("name", rods_env.__all__)
def test_public_names_are_there(name):
    assert getattr(rods_env, name) is not None
    namespace: dict[str, object] = {}
    exec(f"from rods_env import {name}", namespace)
    assert namespace[name] is getattr(rods_env, name)


def test_public_names_are_sorted_once_and_documented():
    assert len(set(rods_env.__all__)) == len(rods_env.__all__)
    for name in rods_env.__all__:
        thing = getattr(rods_env, name)
        assert name == "__version__" or inspect.getdoc(thing), name


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = rods_env.nothing
    assert not hasattr(rods_env, "nothing")


def test_version_is_that_of_the_metadata():
    assert rods_env.__version__ == importlib.metadata.version("rods-env")


def test_the_package_is_typed_and_carries_its_data():
    root = importlib.resources.files("rods_env")
    assert root.joinpath("py.typed").is_file()
    for name in ("seeds", "heldout"):
        assert root.joinpath("data", f"{name}.jsonl.gz").is_file()


def test_errors_are_one_family():
    assert issubclass(SynthesisError, RodsError)
    assert issubclass(ToolError, RodsError)
    assert SynthesisError("x").reason
    assert ToolError("gone", "It is gone.").code == "gone"


@pytest.mark.parametrize("name", list(ENVIRONMENTS))
def test_ids_are_registered_and_documented(name):
    spec = gym.spec(name)
    module, _, attribute = str(spec.entry_point).partition(":")
    environment = getattr(import_module(module), attribute)
    assert issubclass(environment, gym.Env)
    page = inspect.getdoc(environment) or ""
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert headings == list(HEADINGS)
    assert all(part.strip() for part in page.split("\n## ")), "no heading without a text"
    assert spec.kwargs == ENVIRONMENTS[name][1]


def test_no_other_ids_are_ours():
    ours = [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith("rods_env")]
    assert sorted(ours) == sorted([*ENVIRONMENTS, *BFCL_ENVIRONMENTS, *DISCRETE_ENVIRONMENTS])


def test_registering_again_changes_nothing(recwarn):
    before = {name: gym.spec(name) for name in ENVIRONMENTS}
    register_environments()
    assert {name: gym.spec(name) for name in ENVIRONMENTS} == before
