"""Ranks that stall are named in the log; a rank that is dead ends the job, with its number, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from conftest import HANG, KILLS, PATIENCE, RUN, Bench, wait_until  # type: ignore[import-not-found]
from test_kills import ranks_of  # type: ignore[import-not-found]

from dmft.core import store
from tests.brake import Brake
from tests.conftest import mpirun

STALLED = 8.0


def rank_of(process: int) -> int:
    """The number that the launcher gave a process."""
    with open(f"/proc/{process}/environ", "rb") as file:
        words = dict(word.split(b"=", 1) for word in file.read().split(b"\0") if b"=" in word)
    return int(words[b"PMI_RANK"])


@pytest.fixture
def crawling(bench, tmp_path):
    """A run on three ranks in the middle of its work, as (process, {rank: process id}); ended whatever happens."""
    (bench.folder / "a.toml").write_text(RUN.replace("samples = 100", "samples = 96"))
    brake = Brake(bench.folder, 0.05)

    def start(*options: str, quiet: bool = True) -> tuple[subprocess.Popen, dict[int, int]]:
        words = [word for word in bench.words("--resume", "--plugin", str(brake.plugin)) if quiet or word != "--quiet"]
        process = subprocess.Popen([mpirun(), *options, "-n", "3", *words], cwd=bench.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, "DMFT_STALLED": str(STALLED)})
        started.append(process)
        wait_until(lambda: process.poll() is not None or bench.checkpoint.exists())
        assert process.poll() is None, process.communicate()
        time.sleep(6.0)                         # signs of life of all ranks
        return process, {rank_of(pid): pid for pid in ranks_of(process.pid)}

    started: list[subprocess.Popen] = []
    yield start, brake
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.parametrize("victim", [0, 2] if KILLS > 10 else [0])
def test_a_stalled_rank_is_named(crawling, fault, victim):
    start, brake = crawling
    process, ranks = start()
    with fault():
        os.kill(ranks[victim], signal.SIGSTOP)
        time.sleep(STALLED + 4.0)
        os.kill(ranks[victim], signal.SIGCONT)
        time.sleep(3.0)                         # a sign of life, which comes every second, before the run is over
        brake.release()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        named = f"rank {victim} (process {ranks[victim]} on "
        assert errors.count(named) == 2 and "has not been heard of for" in errors and "is back" in errors, errors
        assert all(f"rank {rank} (" not in errors for rank in range(3) if rank != victim), errors


def test_a_dead_rank_ends_the_job_with_its_number_and_what_it_left_goes_on(crawling, bench: Bench, fault, tmp_path):
    """The rank before it says so at once (tests/dmft/core/test_watch.py), but this launcher, when it notices too, ends the others
    within milliseconds and may drop what they said last: the log has the process of every rank."""
    start, brake = crawling
    process, ranks = start(quiet=False)
    begin = time.monotonic()
    os.kill(ranks[2], signal.SIGKILL)
    said, errors = process.communicate(timeout=HANG)
    assert process.returncode != 0 and time.monotonic() - begin < HANG
    assert "3 ranks: rank 0 (process " in errors and f"rank 2 (process {ranks[2]} on " in errors, said + errors
    brake.release()
    with fault():
        whole = Bench(tmp_path / "whole")
        (whole.folder / "a.toml").write_text((bench.folder / "a.toml").read_text())
        assert whole.go().returncode == 0
        done = bench.go("--resume", "--plugin", str(brake.plugin))
        assert done.returncode == 0, done.stderr
        bench.holds(store.load(whole.output).arrays)
