"""Python's garbage collector, kept from what will not be garbage for as long as a run lasts."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen_heap() -> Iterator[None]:
    """The collector leaves what exists now alone meanwhile.

    Libraries and tasks are half a million objects. Episodes make and drop so many small ones that the collector would
    look through all of them every few seconds, which took a third of the environment's time. Whoever has frozen objects
    already is not interfered with.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
