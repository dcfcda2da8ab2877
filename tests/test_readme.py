"""README's Python examples print what README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


def test_there_are_examples():
    assert len(EXAMPLES) == 3
    assert "gym.make" in EXAMPLES[0][0]


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_prints_what_stands_below_it(code, output):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output
