"""The grid of the benchmark of curricula: trained by workers, kept, gone on with after a break, packed."""

from __future__ import annotations

import gzip
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from curricula_fakes import cell_of, spec_of

from rods_env import RodsError
from rods_env.benchmarks.curricula.arms import ARMS
from rods_env.benchmarks.curricula.cells import Recorder, read_cell, write_cell
from rods_env.benchmarks.curricula.grid import ARCHIVE, Grid, all_cells, kept_cell, make_specs
from rods_env.benchmarks.curricula.learners import Learner, learner_for
from rods_env.benchmarks.curricula.workers import cores

FAKE = Learner("curricula_fakes:train")


def grid_of(folder, arms=("rods", "fixed", "stream"), seeds=(0, 1), counts=(50,), **others) -> Grid:
    return Grid(folder, make_specs(arms, seeds, counts, policy="pointer", tasks="seeds", rollouts=900, **others))


def log(folder) -> list[list[str]]:
    """Name, process and threads of each cell that was trained."""
    return [line.split() for line in (folder / "log.txt").read_text().splitlines()]


def assert_no_drafts(folder) -> None:
    drafts = [Path(line) for line in (folder / "drafts.txt").read_text().splitlines()]
    assert drafts
    assert not any(draft.exists() or draft.parent.exists() for draft in drafts)


def keep(folder, *cells):
    (folder / "cells").mkdir(exist_ok=True)
    for cell in cells:
        (folder / "cells" / f"{cell.spec.name}.json").write_bytes(write_cell(cell))


# ---------------------------------------------------------------------- trained


def test_every_block_has_one_process_and_begins_with_fixed(tmp_path):
    events = []
    grid = grid_of(tmp_path, seeds=(0, 1, 2))
    cells = grid.run(FAKE, processes=2, on_event=events.append)
    assert [cell.spec for cell in cells] == grid.specs
    assert cells == [cell_of(spec) for spec in grid.specs]
    rows = log(tmp_path)
    for seed in (0, 1, 2):
        block = [row for row in rows if row[0].endswith(f"-s{seed}")]
        assert [name.split("-")[2] for name, *_ in block] == ["fixed", "rods", "stream"]
        assert len({process for _, process, _ in block}) == 1
    assert {threads for *_, threads in rows} == {"1"}
    assert len({process for _, process, _ in rows}) == 2
    assert str(os.getpid()) not in {process for _, process, _ in rows}

    done = [event for event in events if event.kind == "done"]
    assert [event.done for event in done] == list(range(1, 10))
    assert {event.total for event in events} == {9}
    assert [event.checkpoint for event in done] == [cell_of(event.spec).checkpoints[-1] for event in done]
    assert all(event.left is None for event in events[: events.index(done[0])])
    assert all(event.left is not None and event.seconds > 0 for event in done)
    assert done[-1].left == 0
    assert sum(event.kind == "begun" for event in events) == 9
    assert sum(event.kind == "checkpoint" for event in events) == 9 * 4
    assert all(event.spec.name in event.running for event in events if event.kind != "done")


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ("refuse", "50-rods-s0: this arm needs what is not there."),
        ("break", "failed with ZeroDivisionError: a bug (the traceback is in"),
        ("die", "the process that trained seeds-50-rods-s0 ended with code 9"),
        ("other", "another than it was asked for"),
    ],
)
def test_a_failure_names_its_cell_and_what_is_done_is_not_made_again(tmp_path, wish, says):
    (tmp_path / "wish-seeds-50-rods-s0").write_text(wish)
    with pytest.raises(RodsError) as caught:
        grid_of(tmp_path).run(FAKE, processes=1)
    assert says in str(caught.value)
    assert "seeds-50-rods-s0" in str(caught.value)
    assert (tmp_path / "errors" / "seeds-50-rods-s0.txt").exists() == (wish == "break")
    assert list(grid_of(tmp_path).kept()) == ["seeds-50-fixed-s0"]
    if wish == "break":
        assert "ZeroDivisionError" in (tmp_path / "errors" / "seeds-50-rods-s0.txt").read_text()
    if wish == "refuse":
        (tmp_path / "wish-seeds-50-rods-s0").unlink()
        events = []
        assert len(grid_of(tmp_path).run(FAKE, processes=1, on_event=events.append)) == 6
        assert [name for name, *_ in log(tmp_path)].count("seeds-50-fixed-s0") == 1
        assert events[0].done == 1
        grid_of(tmp_path).run(FAKE, on_event=lambda _: pytest.fail("trained again"))


def test_others_that_are_running_are_finished_before_a_failure_ends_the_grid(tmp_path):
    (tmp_path / "wish-seeds-50-fixed-s0").write_text("refuse")
    (tmp_path / "wish-seeds-50-fixed-s1").write_text("slow")
    with pytest.raises(RodsError, match="50-fixed-s0"):
        grid_of(tmp_path).run(FAKE, processes=2)
    assert list(grid_of(tmp_path).kept()) == ["seeds-50-fixed-s1"]
    assert len(log(tmp_path)) == 2  # and nothing else was begun


def test_an_interrupt_ends_the_workers_and_leaves_what_is_kept(tmp_path):
    def interrupt(event):
        if event.kind == "done":
            raise KeyboardInterrupt

    (tmp_path / "wish-seeds-50-rods-s0").write_text("wait")
    with pytest.raises(KeyboardInterrupt):
        grid_of(tmp_path, seeds=(0,)).run(FAKE, processes=1, on_event=interrupt)
    assert list(grid_of(tmp_path).kept()) == ["seeds-50-fixed-s0"]
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["seeds-50-fixed-s0.json"]
    assert_no_drafts(tmp_path)


def test_after_a_kill_only_the_rest_is_made(tmp_path):
    (tmp_path / "wish-seeds-50-rods-s0").write_text("wait")
    code = (
        "if __name__ == '__main__':\n"
        "    import sys; from pathlib import Path; from curricula_fakes import spec_of\n"
        "    from rods_env.benchmarks.curricula.grid import Grid\n"
        "    from rods_env.benchmarks.curricula.learners import Learner\n"
        "    specs = [spec_of(arm) for arm in ('fixed', 'rods', 'stream')]\n"
        "    Grid(Path(sys.argv[1]), specs).run(Learner('curricula_fakes:train'), processes=1)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    started = subprocess.Popen([sys.executable, script, tmp_path], env={**os.environ, "PYTHONPATH": paths})
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "log.txt").exists() or len(log(tmp_path)) < 2:
            assert started.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
    worker = int(log(tmp_path)[1][1])
    while _runs(worker):  # it ends with whoever started it, in the middle of a cell
        assert time.monotonic() < until
        time.sleep(0.02)
    assert_no_drafts(tmp_path)
    (tmp_path / "wish-seeds-50-rods-s0").unlink()
    cells = grid_of(tmp_path, seeds=(0,)).run(FAKE, processes=1)
    assert cells == [cell_of(spec) for spec in grid_of(tmp_path, seeds=(0,)).specs]
    assert [name for name, *_ in log(tmp_path)].count("seeds-50-fixed-s0") == 1


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # ended, not yet buried
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_learner_travels_as_a_name():
    for policy in ("pointer", "tiny", "some/model"):
        learner = learner_for(policy)
        assert pickle.loads(pickle.dumps(learner)) == learner
    assert learner_for("pointer") != learner_for("tiny") == learner_for("some/model")
    with pytest.raises(RodsError, match="expected a policy"):
        learner_for(" ")


def test_cores_are_those_that_this_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)


# ---------------------------------------------------------------------- asked for


def test_cells_come_by_seed_count_and_seed_and_arms_as_they_are_listed(tmp_path):
    grid = grid_of(tmp_path, arms=[*reversed(ARMS), "rods"], seeds=(1, 0, 1), counts=(400, 50))
    assert len(grid.specs) == 2 * 2 * len(ARMS)
    assert [(spec.seed_count, spec.seed) for spec in grid.specs[:: len(ARMS)]] == [(50, 0), (50, 1), (400, 0), (400, 1)]
    assert [spec.arm for spec in grid.specs[: len(ARMS)]] == list(ARMS)


def test_what_cannot_be_asked_for_is_refused(tmp_path):
    with pytest.raises(RodsError, match="unknown arm 'rod'"):
        grid_of(tmp_path, arms=["fixed", "rod"])
    for nothing in ({"arms": []}, {"seeds": []}, {"counts": []}):
        with pytest.raises(RodsError, match="expected at least one"):
            grid_of(tmp_path, **nothing)
    with pytest.raises(RodsError, match="asked for twice"):
        Grid(tmp_path, [spec_of("rods"), spec_of("rods", rollouts=100)])
    with pytest.raises(RodsError, match="needs the arm 'fixed'"):
        grid_of(tmp_path, arms=["rods"], match="tokens")
    with pytest.raises(RodsError, match="at least one process"):
        grid_of(tmp_path).run(FAKE, processes=0)
    assert grid_of(tmp_path, match="tokens").kept() == {}


def test_a_kept_cell_of_other_settings_is_refused(tmp_path):
    keep(tmp_path, cell_of(spec_of("rods", rollouts=300)))
    with pytest.raises(RodsError, match="rods-s0 made with rollouts 300 and not 900: choose another folder"):
        grid_of(tmp_path).kept()
    keep(tmp_path, cell_of(spec_of("rods", settings='{"lr":"1"}')))
    with pytest.raises(RodsError, match="settings"):
        kept_cell(tmp_path, spec_of("rods"))
    (tmp_path / "cells" / "seeds-50-rods-s0.json").write_text("{}")
    with pytest.raises(RodsError, match="is no cell of this benchmark"):
        grid_of(tmp_path).kept()


# ---------------------------------------------------------------------- kept


def test_a_cell_keeps_everything(tmp_path):
    cell = cell_of(spec_of("rods"), tasks=13, digests={"seen": "abc"})
    assert read_cell(write_cell(cell), "here") == cell
    assert kept_cell(tmp_path, cell.spec) is None
    keep(tmp_path, cell)
    assert kept_cell(tmp_path, cell.spec) == cell
    turned = msgspec.structs.replace(cell, seconds=dict(reversed(cell.seconds.items())))
    assert write_cell(turned) == write_cell(cell)
    without = msgspec.json.decode(write_cell(cell))
    del without["digests"]  # as cells were at first
    assert read_cell(msgspec.json.encode(without), "here").digests == {}
    assert Recorder(cell.spec, {"seen": 1}, {"seen": "abc"}).cell().digests == {"seen": "abc"}


def test_an_archive_holds_all_cells_and_equal_ones_give_equal_bytes(tmp_path):
    cells = [cell_of(spec_of(arm, seed)) for arm in ("fixed", "rods") for seed in (0, 1, 10)]
    packed = []
    for name, order in (("a", cells), ("b", cells[::-1])):
        folder = tmp_path / name
        folder.mkdir()
        keep(folder, *order[:4])
        Grid(folder, []).pack()
        assert list((folder / "cells").iterdir()) == []
        keep(folder, *order[4:])
        packed.append(Grid(folder, []).pack().read_bytes())
        assert sorted(all_cells(folder), key=lambda c: c.spec.name) == sorted(cells, key=lambda c: c.spec.name)
        assert list(grid_of(folder, arms=["rods"], seeds=[10, 3]).kept()) == ["seeds-50-rods-s10"]
        assert kept_cell(folder, cells[0].spec) == cells[0]
    assert packed[0] == packed[1]
    lines = gzip.decompress(packed[0]).splitlines()
    names = [read_cell(line, "here").spec.name for line in lines]
    assert names == sorted(names)


def test_a_new_cell_comes_before_a_packed_one(tmp_path):
    keep(tmp_path, cell_of(spec_of("rods")))
    Grid(tmp_path, []).pack()
    newer = cell_of(spec_of("rods"), gain=0.5)
    keep(tmp_path, newer)
    assert list(grid_of(tmp_path).kept().values()) == [newer] == all_cells(tmp_path)
    Grid(tmp_path, []).pack()
    assert all_cells(tmp_path) == [newer]


def test_what_is_no_archive_is_said(tmp_path):
    with pytest.raises(RodsError, match="no finished cell to pack"):
        Grid(tmp_path, []).pack()
    for content in (b"no gzip", gzip.compress(b"{}\n"), gzip.compress(b"{}\n" * 50)[:-9]):
        (tmp_path / ARCHIVE).write_bytes(content)
        with pytest.raises(RodsError, match=ARCHIVE):
            grid_of(tmp_path).kept()
