"""The driver with workers that only count: rounds, stops, checkpoints, and what is told."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from dmft.core import driver, store
from dmft.core.crew import Crew
from dmft.core.driver import drive
from dmft.core.errors import FileError, RunError, Stopped
from dmft.core.locks import lock
from dmft.core.parallel import world
from dmft.core.parts import Part
from dmft.core.progress import Progress
from dmft.core.tree import flatten, nest
from tests.marks import slow
from tests.small_results import StopAfter

LINES = 7       # of every counter


class Counter:
    """Adds its index + 1 to each of its lines until it was stepped `steps` times; lines go to ranks in turn."""

    note = ""

    def __init__(self, index, group, steps, short=None):
        self.index, self.steps, self.n, self.taken, self.closed = index, 2 if index == short else steps, 0, 0, 0
        self.lines = slice(group.rank, LINES, group.size)
        self.values = np.zeros(len(range(LINES)[self.lines]))

    done = property(lambda self: self.n == self.steps)
    progress = property(lambda self: self.n / self.steps if self.steps else 1.0)

    def step(self):
        self.n, self.taken = self.n + 1, self.taken + 1
        self.values += self.index + 1

    def state(self):
        return {"count": Part({"deep": {"n": np.array(self.n)}}, {"values": self.values}, self.lines, LINES)}

    def restore(self, parts):
        self.n = int(parts["count"].shared["deep/n"])
        self.values[:] = parts["count"].own["values"]

    def solution(self):
        return Part({"index": np.array(self.index)}, {"values": self.values}, self.lines, LINES)

    def close(self):
        self.closed += 1


class Counting:
    """A job of so many counters; the result is a list of (index, values)."""

    kind, checkpoint_layout, checkpoint_interval = "theory", 1, 1000.0

    def __init__(self, wanted=3, steps=5, short=None, text="the run"):
        self.wanted, self.steps, self.short, self.run_text = wanted, steps, short, text
        self.finished, self.entered, self.made = 0, [], []

    @property
    def steps_taken(self):
        return sum(worker.taken for worker in self.made)

    def compare(self, stored_text, source):
        if stored_text.split(" x")[0] != self.run_text.split(" x")[0]:
            raise RunError("another run")
        return ["more"] if stored_text != self.run_text else []

    def take_up(self, header, grew):
        self.entered = [(k, row) for k, row in enumerate(store.read_group(header, "entered").get("rows", []))]
        self.finished = len(self.entered)
        return True

    def pending(self):
        return list(range(self.finished, self.wanted))

    def label(self, indices):
        return "count"

    def worker(self, index, group):
        self.made.append(Counter(index, group, self.steps, self.short))
        return self.made[-1]

    def enter(self, index, solution):
        assert index == int(solution.shared["index"]) == len(self.entered)
        self.entered.append((index, solution.own["values"]))

    def state(self):
        return {"entered": {"rows": np.array([row for _, row in self.entered])}} if self.entered else {}

    def finish(self, attrs, output):
        if output:
            store.save(output, self.kind, self.run_text, self.state(), {**attrs, "outcome": "done"})
        return self.entered

    def load(self, output):
        return [(k, row) for k, row in enumerate(store.load(output).arrays["entered/rows"])]


def expected(count, steps=5):
    return [(k, [steps * (k + 1.0)] * LINES) for k in range(count)]


def plain(result):
    return [(index, values.tolist()) for index, values in result]


def test_all_workers_in_order_and_closed():
    job = Counting()
    ended = drive(job)
    assert ended.worked and plain(ended.result) == expected(3)
    assert [worker.closed for worker in job.made] == [1, 1, 1]


@pytest.mark.parametrize("polls", range(18))
def test_a_stop_at_any_poll_loses_nothing(tmp_path, polls):
    """6 polls a counter: one before each step, and one that sees it done, where a stop waits for the next."""
    first, second = Counting(), Counting()
    with pytest.raises(Stopped, match="--resume continues") if polls < 17 else nullcontext():
        drive(first, tmp_path / "a.h5", stop=StopAfter(polls))
    assert plain(drive(second, tmp_path / "a.h5", resume=True).result) == expected(3)
    assert first.steps_taken == polls - polls // 6 and first.steps_taken + second.steps_taken == 15
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_a_resumed_job_makes_only_what_is_left(tmp_path):
    with pytest.raises(Stopped):
        drive(Counting(), tmp_path / "a.h5", stop=StopAfter(8))     # 6 polls for the first, 2 steps of the second
    header = store.load_header(store.checkpoint_path(tmp_path / "a.h5"))
    assert header.attrs["progress"] == pytest.approx((1 + 2 / 5) / 3) and header.attrs["progress_before"] == 0.0
    job = Counting()
    assert plain(drive(job, tmp_path / "a.h5", resume=True).result) == expected(3)
    assert [(worker.index, worker.taken) for worker in job.made] == [(1, 3), (2, 5)]


def test_without_an_output_a_stop_keeps_nothing():
    with pytest.raises(Stopped, match="nothing is kept") as end:
        drive(Counting(), stop=StopAfter(3))
    assert end.value.exit_code == 75


@pytest.mark.parametrize("short", [0, 1, 2])
def test_a_worker_that_ends_early_ends_no_other(short):
    result = plain(drive(Counting(short=short)).result)
    assert result.pop(short) == (short, [2 * (short + 1.0)] * LINES)
    assert result == [line for line in expected(3) if line[0] != short]


def test_a_worker_that_is_done_slows_no_other_down(monkeypatch):
    """Two ranks by a clock of their own: this one is done, the other has steps of a millisecond, and one that took half a second.
    Were this one's sleep counted as work, the other would continue with one step at a time: some 5000 exchanges, not 36."""
    clock, looks = [0.0], []
    monkeypatch.setattr(driver.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(driver.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds + 1e-4))

    class TwoRanks:
        size, rank, is_root, left, steps, took = 2, 0, True, 5000, 1, 0.0

        def gather(self, mine):
            """The other rank, as `_steps` would have it."""
            looks.append(mine.took)
            other = mine._replace(running=self.left > 0, took=self.took)
            self.steps = work._steps_to_go(self.steps, max(mine.took, self.took))
            self.left -= self.steps
            self.took = 1e-3 * self.steps + (0.5 if len(looks) == 5 else 0.0)
            return [mine, other]

    work = driver._Driver(Counting(2), None, True, driver.Never(), {}, TwoRanks(), None)
    work._steps(driver._Round(Crew({0: Counter(0, world(), 0)}), world(), [[0], [1]]), Progress(1.0, "", quiet=True))
    assert max(looks) == 0.0 and len(looks) < 60


def test_an_error_of_a_worker_closes_it(tmp_path):
    job = Counting()

    def worker(index, group):
        job.made.append(Counter(index, group, 5))
        job.made[-1].step = lambda: 1 / 0
        return job.made[-1]

    job.worker = worker
    with pytest.raises(ZeroDivisionError):
        drive(job, tmp_path / "a.h5")
    assert job.made[0].closed == 1 and list(tmp_path.iterdir()) == []


def test_a_complete_result_is_left_alone_and_a_grown_one_extended(tmp_path, caplog):
    caplog.set_level(logging.INFO, "dmft")
    path = tmp_path / "a.h5"
    drive(Counting(2, text="the run x2"), path)
    before = path.read_bytes()
    again = drive(Counting(2, text="the run x2"), path, resume=True)
    assert not again.worked and plain(again.result) == expected(2) and path.read_bytes() == before
    assert caplog.messages == [f"{path}: complete (done); nothing to do"]
    job = Counting(4, text="the run x4")
    assert plain(drive(job, path, resume=True).result) == expected(4) and len(job.made) == 2
    assert caplog.messages[1:] == [f"continuing from {path}, 50 % done"]


def test_what_cannot_be_used_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    drive(Counting(), path, attrs={"plugin:a.py": "abc"})
    before = path.read_bytes()
    with pytest.raises(RunError, match="another run"):
        drive(Counting(text="else"), path, resume=True)
    with pytest.raises(FileError, match="another plugin"):
        drive(Counting(), path, resume=True, attrs={"plugin:a.py": "def"})
    job = Counting()
    job.kind = "simulation"
    with pytest.raises(FileError, match="a theory file, not a simulation"):
        drive(job, path, resume=True)
    with lock(path), pytest.raises(FileError, match="another job"):
        drive(Counting(), path)
    assert path.read_bytes() == before
    (tmp_path / "b.h5").write_bytes(before[:-100])
    with pytest.raises(FileError):
        drive(Counting(), tmp_path / "b.h5", resume=True)


def test_checkpoints_come_at_the_interval(tmp_path, monkeypatch):
    written = []
    write = driver.Checkpoint.write
    monkeypatch.setattr(driver.Checkpoint, "write", lambda self, *rest: (written.append(1), write(self, *rest)))
    drive(Counting(), tmp_path / "a.h5")
    assert written == []
    job = Counting()
    job.checkpoint_interval = 0.0
    drive(job, tmp_path / "a.h5")
    assert len(written) == 15
    # Large ones, by a clock that only their writing moves: the first comes at once, and none before ten times that has gone by.
    now = [0.0]
    monkeypatch.setattr(driver.time, "monotonic", lambda: now[0])
    for seconds, expected_writes in ((0.5, 15), (2.0, 1)):
        written.clear()
        monkeypatch.setattr(driver.Checkpoint, "write", lambda self, *rest, took=seconds: (
            written.append(1), now.__setitem__(0, now[0] + took)))
        job = Counting()
        job.checkpoint_interval = 0.0
        drive(job, tmp_path / f"{seconds}.h5")
        assert len(written) == expected_writes


def test_quiet_prints_nothing(tmp_path, capsys):
    with pytest.raises(Stopped):
        drive(Counting(), tmp_path / "a.h5", stop=StopAfter(8))
    drive(Counting(), tmp_path / "a.h5", resume=True)
    drive(Counting(), tmp_path / "a.h5", resume=True)
    assert capsys.readouterr() == ("", "")


def test_nested_names():
    nested = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    flat = {"a/b": 1, "a/c/d": 2, "e": 3}
    assert flatten(nested) == flat and nest(flat) == nested and flatten(flat) == flat and nest(nested) == nested


@pytest.mark.long
@pytest.mark.mpi
@pytest.mark.parametrize("ranks, later", [slow(2, 1), (3, 2), slow(1, 3)])
def test_ranks_change_nothing(run_python, tmp_path, ranks, later):
    """Stopped and resumed on another number of ranks; more ranks than counters share their lines."""
    for number, polls in ((ranks, 4), (later, 10**6)):
        done = run_python(str(Path(__file__)), str(polls), ranks=number)
        assert done.returncode == 0, done.stderr
    assert plain(Counting().load(tmp_path / "a.h5")) == expected(2, 300)


if __name__ == "__main__":
    with_stop = StopAfter(int(sys.argv[1]))
    driver.LOOK = 0.0       # look at every step
    try:
        drive(Counting(2, 300), "a.h5", resume=True, stop=with_stop)
    except Stopped:
        assert world().size == 1 or with_stop.left < 0
