"""SIGKILL at random moments: whatever is under the final names is whole, and --resume ends at the same result."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from conftest import HANG, KILLS, PATIENCE, TRIALS, wait_until  # type: ignore[import-not-found]

from dmft.cli import main
from dmft.core import store


def progress(bench) -> float:
    """How far the checkpoint has come; it must be whole. 0 without one."""
    stored = store.checkpoint_header(bench.output)
    if stored is None:
        return 0.0
    return float(stored.attrs["progress"])


def kill_again_and_again(bench, expected, fault, kills: int, rng) -> None:
    """Start, kill at a random moment of the work, look at what is left, continue; a finished result is checked and removed."""
    for _ in range(kills):
        before = progress(bench)
        seen = bench.checkpoint.stat().st_mtime_ns if bench.checkpoint.exists() else 0
        process = bench.start("--resume")

        def moved(process=process, seen=seen) -> bool:
            return process.poll() is not None or (bench.checkpoint.exists() and bench.checkpoint.stat().st_mtime_ns != seen)

        wait_until(moved)
        time.sleep(rng.uniform(0.0, 0.3))
        writing = any(bench.folder.glob("*.part"))
        process.kill()
        process.communicate(timeout=HANG)
        with fault(writing):
            if bench.output.exists():
                bench.holds(expected)
                for path in (bench.output, bench.checkpoint):
                    path.unlink(missing_ok=True)
            else:
                assert progress(bench) >= before
    bench.resumes_to(expected)


def test_kill_of_the_solver(bench, undisturbed, fault):
    kill_again_and_again(bench, undisturbed["theory"], fault, KILLS, np.random.default_rng(1))


def test_kill_of_the_simulator(simulation, undisturbed, fault):
    kill_again_and_again(simulation, undisturbed["simulation"], fault, max(2, KILLS // 5), np.random.default_rng(2))


@pytest.mark.parametrize("kind", ["theory", "simulation"])
def test_kill_before_the_first_checkpoint(request, undisturbed, fault, kind):
    """There is nothing to continue from yet; who looks for the result is told so, and --resume begins again."""
    bench = request.getfixturevalue("bench" if kind == "theory" else "simulation")
    lock = bench.folder / "a.h5.lock"
    for _ in range(TRIALS):
        process = bench.start("--set", f"{kind}.checkpoint_interval=1000")
        wait_until(lambda process=process: lock.exists() or process.poll() is not None, nap=0.0)
        process.kill()
        _, errors = process.communicate(timeout=HANG)
        if lock.exists():
            break
        bench.too_late(errors)
    assert sorted(path.name for path in bench.folder.iterdir()) == ["a.h5.lock", "a.toml"]
    with fault():
        for words in (["inspect", str(bench.output)], ["compare", str(bench.output), str(bench.output)]):
            said = StringIO()
            with redirect_stderr(said):
                assert main(words) == 2
            assert said.getvalue().count("\n") == 1 and "has not come to its first checkpoint" in said.getvalue()
        bench.resumes_to(undisturbed[kind])


def test_output_folder_deleted_under_a_run(bench, undisturbed, fault):
    """The run makes it again for its next checkpoint, and for its result."""
    place = bench.folder / "out"
    for _ in range(TRIALS):
        process = bench.start("--set", "theory.checkpoint_interval=0.01", "-o", "out/a.h5")
        wait_until(lambda process=process: (place / "a.h5.checkpoint").exists() or process.poll() is not None, nap=0.0)
        os.kill(process.pid, signal.SIGSTOP)
        early = not (place / "a.h5").exists()
        shutil.rmtree(place, ignore_errors=True)
        os.kill(process.pid, signal.SIGCONT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert len(errors.splitlines()) <= 1, errors        # the folder may have gone in the middle of a write
        if early and process.returncode == 0:
            break
        assert process.returncode in (0, 2), errors
    assert early
    with fault():
        bench.output = place / "a.h5"
        bench.holds(undisturbed["theory"])
        assert [path.name for path in place.iterdir()] == ["a.h5"]


PARTS = {"checkpoint": "a.h5.checkpoint.*.part", "result": "a.h5.[0-9]*.part"}


def kill_in_write(bench, part: str, rng) -> bool:
    """Start, wait for a file under construction, kill. Whether one was left behind, i.e. the kill was in time."""
    process = bench.start("--resume")
    wait_until(lambda: any(bench.folder.glob(part)) or process.poll() is not None, nap=0.0)
    time.sleep(rng.uniform(0.0, 0.005))         # a write takes some 10 ms
    process.kill()
    process.communicate(timeout=HANG)
    return any(bench.folder.glob(part))


@pytest.mark.parametrize("part", ["checkpoint", "result"])
@pytest.mark.parametrize("kind", ["theory", "simulation"])
def test_kill_in_the_middle_of_a_write(request, undisturbed, fault, kind, part):
    """A new checkpoint, or the result, half written: the checkpoint before it is whole, and continues."""
    bench = request.getfixturevalue("bench" if kind == "theory" else "simulation")
    rng, wanted, hits = np.random.default_rng(5), max(1, KILLS // 10), 0
    for _ in range(5 * wanted):
        before = progress(bench)
        hit = kill_in_write(bench, PARTS[part], rng)
        hits += hit
        with fault(hit):
            assert progress(bench) >= before
            if bench.output.exists():
                assert not hit or part == "checkpoint"
                bench.holds(undisturbed[kind])
                for path in (bench.output, bench.checkpoint):
                    path.unlink(missing_ok=True)
        if hits == wanted:
            break
    assert hits == wanted, f"only {hits} of {5 * wanted} kills met a write"
    bench.resumes_to(undisturbed[kind])


def test_grace_shorter_than_the_write(bench, undisturbed, fault):
    """A warning, and SIGKILL while the checkpoint it asked for is being written: the one before counts, byte for byte."""
    wanted, hits = max(1, KILLS // 10), 0
    bench.interrupted(0.1)
    before = bench.checkpoint.read_bytes()
    for _ in range(TRIALS):
        process = bench.start("--resume", "--set", "theory.checkpoint_interval=1000")
        wait_until(lambda process=process: catches(process.pid, signal.SIGUSR1) or process.poll() is not None)
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda process=process: any(bench.folder.glob(PARTS["checkpoint"])) or process.poll() is not None, nap=0.0)
        process.kill()
        _, errors = process.communicate(timeout=HANG)
        if any(bench.folder.glob(PARTS["checkpoint"])):
            hits += 1
            with fault(True):
                assert bench.checkpoint.read_bytes() == before
        elif bench.output.exists():
            bench.too_late(errors)
        bench.checkpoint.write_bytes(before)
        if hits == wanted:
            break
    assert hits == wanted, f"only {hits} kills met a write"
    bench.resumes_to(undisturbed["theory"])


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal."""
    try:
        mask = (Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split() or ["0"])[0]
    except OSError:
        return False
    return bool(int(mask, 16) >> (number - 1) & 1)


def ranks_of(launcher: int) -> list[int]:
    """Process ids of the ranks below mpirun."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [launcher]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += [pid for pid in below if b"-m\0" in _command_line(pid) and b"mpirun" not in _command_line(pid)]
    return sorted(found)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("kind", ["theory", "simulation"])
def test_kill_of_one_rank_of_two(request, undisturbed, fault, kind):
    """The other rank ends too, and soon; the checkpoint is whole, and one rank takes it to the end."""
    bench = request.getfixturevalue("bench" if kind == "theory" else "simulation")
    rng = np.random.default_rng(3)
    for victim in [0, 1] * max(1, KILLS // 20):
        process = bench.start("--resume", ranks=2)
        seen = bench.checkpoint.stat().st_mtime_ns if bench.checkpoint.exists() else 0
        wait_until(lambda process=process, seen=seen: process.poll() is not None or (
            bench.checkpoint.exists() and bench.checkpoint.stat().st_mtime_ns != seen))
        time.sleep(rng.uniform(0.0, 0.2))
        pids = ranks_of(process.pid)
        writing = any(bench.folder.glob("*.part"))
        if len(pids) == 2:
            os.kill(pids[victim], signal.SIGKILL)
        with fault(writing):
            process.communicate(timeout=HANG)
            assert not any(_command_line(pid) for pid in pids), "a rank lives on"
            if bench.output.exists():
                bench.holds(undisturbed[kind])
                bench.output.unlink()
                bench.checkpoint.unlink(missing_ok=True)
            else:
                assert process.returncode != 0
                progress(bench)
    bench.resumes_to(undisturbed[kind])
