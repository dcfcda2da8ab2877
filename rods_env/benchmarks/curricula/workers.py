"""Cells trained by several processes: a block of cells stays with one worker, blocks go to whoever is free."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal, NamedTuple

from rods_env.benchmarks.curricula.cells import Cell, Checkpoint, Spec, write_cell
from rods_env.benchmarks.curricula.learners import Learner
from rods_env.errors import RodsError
from rods_env.tasks.task import write_atomically

# One thread for each worker: two that share a core's worth of threads are slower than one after the other. The
# libraries read these when they are loaded, which in a new process is before any line of ours.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
) | {"TOKENIZERS_PARALLELISM": "false"}

_GONE = (BrokenPipeError, ConnectionResetError)  # what writing to a process that ended raises


class Event(NamedTuple):
    """What happened to a cell, and where the grid stands.

    Attributes:
        kind: whether the cell was begun, has a new checkpoint, or is done and kept.
        spec: of the cell.
        checkpoint: the new one, or the last of a cell that is done.
        done, total: cells of the grid.
        seconds: what a cell that is done took; 0 otherwise.
        left: seconds that the others will take, by the mean of those done in this run; None before the first.
        running: names of the cells being trained.
    """

    kind: Literal["begun", "checkpoint", "done"]
    spec: Spec
    checkpoint: Checkpoint | None
    done: int
    total: int
    seconds: float
    left: float | None
    running: tuple[str, ...]


class _Worker:
    """A process, the block it works on, and the cell it trains."""

    def __init__(self, learner: Learner, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads and a CUDA context that do not fork
        self.pipe, theirs = context.Pipe()
        self.block: deque[Spec] = deque()
        self.cell: Spec | None = None
        self.since = 0.0
        self.drafts = tempfile.TemporaryDirectory(prefix="rods-worker-")
        self.process: BaseProcess = context.Process(
            target=_work, args=(theirs, learner, folder, self.drafts.name), daemon=True
        )
        with _environment(_ONE_THREAD):
            self.process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    def begin(self, spec: Spec) -> None:
        self.cell, self.since = spec, time.monotonic()
        # A process that died between two cells is noticed by `wait`, which names this cell.
        with contextlib.suppress(*_GONE):
            self.pipe.send(spec)

    def end(self) -> None:
        """Stops the process at once; what it keeps is written under a temporary name first, so nothing is torn."""
        self.pipe.close()
        self.process.terminate()
        self.process.join()
        self.drafts.cleanup()


def cores() -> int:
    """How many cores this process may use, which `taskset` and containers may restrict."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def train_all(
    blocks: Sequence[Sequence[Spec]],
    learner: Learner,
    folder: Path,
    *,
    processes: int,
    done: int,
    total: int,
    on_event: Callable[[Event], None],
) -> None:
    """Trains the cells of all blocks and keeps each in the folder as soon as it is done.

    Args:
        blocks: cells in order; those of a block are trained one after the other by the same process.
        learner: trains a cell.
        folder: of the grid; has a folder `cells`.
        processes: how many workers, at least 1.
        done, total: cells kept already, and all of them.
        on_event: told what happens.

    Raises:
        RodsError: if a cell fails, once the others that are running are kept.
    """
    if processes < 1:
        raise RodsError(f"expected at least one process; got {processes}.")
    waiting = deque(deque(block) for block in blocks)
    workers: list[_Worker] = []
    took: list[float] = []
    failures: list[str] = []

    def tell(kind: Literal["begun", "checkpoint", "done"], spec: Spec, checkpoint: Checkpoint | None = None) -> None:
        cells = tuple(worker.cell.name for worker in workers if worker.cell is not None)
        left = None
        if took:
            mean = sum(took) / len(took)
            spent = sum(min(time.monotonic() - w.since, mean) for w in workers if w.cell is not None)
            left = ((total - done) * mean - spent) / max(len(workers), 1)
        on_event(Event(kind, spec, checkpoint, done, total, took[-1] if kind == "done" else 0.0, left, cells))

    def hand_out(worker: _Worker) -> None:
        worker.cell = None
        if not worker.block and waiting:
            worker.block = waiting.popleft()
        if worker.block:
            worker.begin(worker.block.popleft())
            if worker.cell is not None:
                tell("begun", worker.cell)

    try:
        for _ in range(min(processes, len(blocks))):
            workers.append(_Worker(learner, folder))
            hand_out(workers[-1])
        while busy := {worker.pipe: (worker, worker.cell) for worker in workers if worker.cell is not None}:
            for pipe in wait(list(busy)):
                worker, spec = busy[pipe]  # type: ignore[index]
                message = _receive(worker, spec)
                if isinstance(message, Checkpoint):
                    tell("checkpoint", spec, message)
                    continue
                if isinstance(message, str):
                    failures.append(message)
                    worker.cell = None
                    continue
                took.append(time.monotonic() - worker.since)
                done += 1
                worker.cell = None
                tell("done", spec, message.checkpoints[-1])
                if not failures:  # otherwise the others finish what they have begun, and nothing else begins
                    hand_out(worker)
    finally:
        for worker in workers:
            worker.end()
    if failures:
        raise RodsError(" ".join(failures))


def _receive(worker: _Worker, spec: Spec) -> Checkpoint | Cell | str:
    """What a worker reports: a checkpoint, the cell, or in a sentence why there is none."""
    try:
        message: Checkpoint | Cell | str = worker.pipe.recv()
    except (EOFError, *_GONE):
        worker.process.join()
        code = worker.process.exitcode
        return f"the process that trained {spec.name} ended with code {code}: it was killed, or ran out of memory."
    return message


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for processes that are started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# ---------------------------------------------------------------------- in the worker


def _work(pipe: Connection, learner: Learner, folder: Path, drafts: str) -> None:
    """Trains what it is sent, until the pipe closes; temporary files go to a folder that does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; who started the worker ends it
    tempfile.tempdir = drafts
    threading.Thread(target=_end_with_parent, args=(drafts,), daemon=True).start()
    while True:
        try:
            spec = pipe.recv()
        except (EOFError, *_GONE):
            return
        _send(pipe, _train(spec, learner, folder, pipe))


def _end_with_parent(drafts: str) -> None:
    """Ends this process, in the middle of a cell too, when the one that started it was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(drafts, ignore_errors=True)  # the cell may be writing there still
    os._exit(1)


def _send(pipe: Connection, message: Checkpoint | Cell | str) -> None:
    """Reports; ends this process if whoever started it is gone."""
    try:
        pipe.send(message)
    except _GONE:
        raise SystemExit(1) from None


def _train(spec: Spec, learner: Learner, folder: Path, pipe: Connection) -> Cell | str:
    """The finished and kept cell, or why there is none."""
    try:
        cell = learner.train(spec, folder, partial(_send, pipe))
        if cell.spec != spec or not cell.checkpoints:
            raise RodsError("the learner returned a cell without a checkpoint, or another than it was asked for.")
        write_atomically(folder / "cells" / f"{spec.name}.json", write_cell(cell))
    except RodsError as error:
        return f"{spec.name}: {error}"
    except Exception as error:
        place = folder / "errors" / f"{spec.name}.txt"
        place.parent.mkdir(exist_ok=True)
        write_atomically(place, traceback.format_exc().encode())
        return f"{spec.name} failed with {type(error).__name__}: {error} (the traceback is in {place})."
    return cell
