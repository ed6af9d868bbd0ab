"""Full disks, damaged files, two jobs at once, changed runs: one clear line, nothing lost, --resume where it is possible."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import HANG, KILLS, PATIENCE, TRIALS, Bench, wait_until  # type: ignore[import-not-found]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no right to mount a small file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


# Runs whose checkpoints are larger than that disk.
LARGE = {"theory": ["--set", "theory.samples=1000"], "simulation": ["--set", "simulation.instances=10000"]}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", ["theory", "simulation"])
def test_full_disk(small_disk, fault, kind, ranks):
    bench = Bench(small_disk, kind)
    with fault():
        bench.refused("--resume", *LARGE[kind], ranks=ranks, env=dict(os.environ),
                      saying="No space left on device; make room, then continue with --resume")
        assert sorted(path.name for path in small_disk.iterdir()) == ["a.toml"], "a half-written file is left"


@pytest.mark.parametrize("ranks", [1, 2])
def test_disk_that_fills_up_later(small_disk, undisturbed, fault, ranks):
    """The checkpoint before stays whole, and continues when there is room again."""
    bench = Bench(small_disk)
    bench.interrupted()
    before = bench.checkpoint.read_bytes()
    filler = small_disk / "filler"
    with open(filler, "wb") as file:
        while os.statvfs(small_disk).f_bavail:
            file.write(bytes(4096))
            file.flush()
    with fault():
        bench.refused("--resume", ranks=ranks, saying="No space left on device", env=dict(os.environ))
        assert bench.checkpoint.read_bytes() == before
        filler.unlink()
        bench.resumes_to(undisturbed["theory"])


def test_file_size_limit(bench, fault):
    """What stands in for a full disk where nothing may be mounted."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with fault():
        bench.refused("--resume", saying="a.h5.checkpoint: cannot be written: File too large", preexec_fn=limit)
        assert not bench.output.exists() and not bench.checkpoint.exists()


@pytest.mark.parametrize("ranks", [1, 2])
def test_read_only_folder(tmp_path, fault, ranks):
    bench = Bench(tmp_path / "bench")
    readonly = tmp_path / "readonly"
    readonly.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(readonly)], capture_output=True)
    if mounted.returncode:
        readonly.chmod(0o555)
    if mounted.returncode and os.getuid() == 0:
        pytest.skip("root writes everywhere, and nothing may be mounted")
    try:
        with fault():
            bench.refused("--resume", "-o", str(readonly / "a.h5"), ranks=ranks, saying="cannot be written")
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(readonly)], check=True)


@pytest.mark.parametrize("kind", ["theory", "simulation"])
def test_damaged_checkpoints(request, undisturbed, fault, kind):
    """Cut short or with a flipped bit, anywhere: refused with what to do, and left as it is."""
    bench = request.getfixturevalue("bench" if kind == "theory" else "simulation")
    bench.interrupted(0.2 if kind == "theory" else -1.0)
    whole = bench.checkpoint.read_bytes()
    rng = np.random.default_rng(4)
    damages = [whole[:int(rng.integers(len(whole)))] for _ in range(max(2, KILLS // 15))] + [whole[:-1], b""]
    for _ in range(max(3, KILLS // 10)):
        flipped = bytearray(whole)
        flipped[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        damages.append(bytes(flipped))
    for damage in damages:
        bench.checkpoint.write_bytes(damage)
        with fault():
            bench.refused("--resume", saying="--force starts afresh")
            assert bench.checkpoint.read_bytes() == damage
    bench.checkpoint.write_bytes(damages[0])
    with fault():
        bench.refused("--resume", ranks=2, saying="--force starts afresh")
    bench.checkpoint.write_bytes(whole)
    bench.resumes_to(undisturbed[kind])


def test_damaged_result_is_noticed(bench, undisturbed, fault):
    bench.resumes_to(undisturbed["theory"])
    whole = bytearray(bench.output.read_bytes())
    whole[len(whole) // 2] ^= 1
    bench.output.write_bytes(whole)
    with fault():
        bench.refused("--resume", saying="damaged")


@pytest.mark.parametrize("kind", ["theory", "simulation"])
def test_two_jobs_on_one_output(request, undisturbed, fault, kind):
    def said(lock: Path) -> bool:
        """Whether someone holds the lock, who writes there who it is: the file alone is there a moment before."""
        return lock.exists() and lock.stat().st_size > 0

    bench = request.getfixturevalue("bench" if kind == "theory" else "simulation")
    for _ in range(TRIALS):
        first = bench.start("--resume", "--set", f"{kind}.seed=1")
        lock = bench.folder / "a.h5.lock"
        wait_until(lambda first=first, lock=lock: said(lock) or first.poll() is not None)
        os.kill(first.pid, signal.SIGSTOP)       # holds the lock for as long as we like
        if said(lock):
            break
        os.kill(first.pid, signal.SIGCONT)
        bench.too_late(first.communicate(timeout=HANG)[1])
    try:
        with fault():
            bench.refused("--resume", saying=f"another job is writing it (process {first.pid}")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    _, errors = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, errors
    bench.holds(undisturbed[kind])


def test_stray_files_of_a_killed_writer_are_removed(bench, undisturbed, fault):
    bench.interrupted()
    for name in ("a.h5.123.part", "a.h5.checkpoint.123.part"):
        (bench.folder / name).write_bytes(b"half")
    (bench.folder / "a.h5.lock").write_text("process 1 on nowhere")        # its holder is dead
    with fault():
        bench.resumes_to(undisturbed["theory"])


def test_changed_run_file_on_resume(bench, undisturbed, fault):
    bench.interrupted()
    text = (bench.folder / "a.toml").read_text()
    (bench.folder / "a.toml").write_text(text.replace("alpha = 3.0", "alpha = 2.5"))
    with fault():
        bench.refused("--resume", saying="problem.alpha: 3.0 -> 2.5", ranks=1)
    with fault():
        bench.refused("--resume", saying="problem.alpha: 3.0 -> 2.5", ranks=2)
    (bench.folder / "a.toml").write_text(text)
    bench.resumes_to(undisturbed["theory"])


# A clock that jumps by days, back and forth, at every look; the monotonic clock is left alone, as by a real jump.
JUMPING = """
import itertools, sys, time
jumps, true = itertools.cycle([-3e6, 5e6, 0.0, -1e9]), time.time
time.time = lambda: true() + next(jumps)
from dmft.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_clock_jumps(bench, undisturbed, fault):
    """Time limit and checkpoints go by the monotonic clock: a jumping wall clock neither stops nor delays them."""
    with fault():
        done = subprocess.run([sys.executable, "-c", JUMPING, *bench.words("--resume", "--time-limit", "3600")[3:]],
                              cwd=bench.folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        bench.holds(undisturbed["theory"])
    bench.output.unlink()
    with fault():
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-c", JUMPING, *bench.words("--resume", "--time-limit", "0.01")[3:]],
                              cwd=bench.folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 75 and time.monotonic() - begin < PATIENCE
        os.utime(bench.checkpoint, (0, 0))          # a checkpoint from 1970 is as good as any
        bench.resumes_to(undisturbed["theory"])
