"""The documentation pages are the docstrings."""

from __future__ import annotations

from pathlib import Path

from rods_env.envs import DISCRETE_ENVIRONMENTS, ENVIRONMENTS
from rods_env.envs.pages import pages

DOCS = Path(__file__).parents[2] / "docs" / "environments"


def test_the_pages_are_up_to_date():
    for name, text in pages().items():
        assert (DOCS / name).read_text() == text, "run `make docs`"


def test_every_id_and_argument_has_its_row():
    text = "".join(pages().values())
    assert all(f"| `{name}` |" in text for name in {**ENVIRONMENTS, **DISCRETE_ENVIRONMENTS})
    arguments = ("attempts_per_turn", "refrain_credit", "distractor_apis", "max_steps")
    assert all(f"| `{name}` |" in text for name in arguments)
