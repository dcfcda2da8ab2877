"""The garbage collector leaves what existed before alone, and works again afterwards."""

from __future__ import annotations

import gc

import pytest

from rods_env.agents.heap import frozen_heap


def test_what_existed_is_frozen_for_as_long_as_the_block_lasts() -> None:
    assert gc.get_freeze_count() == 0
    with frozen_heap():
        assert gc.get_freeze_count() > 1000
        with frozen_heap():
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() > 1000  # the inner one leaves it to the outer one
    assert gc.get_freeze_count() == 0


def test_an_error_ends_it_too() -> None:
    with pytest.raises(ValueError, match="x"), frozen_heap():
        raise ValueError("x")
    assert gc.get_freeze_count() == 0
