"""The points of a scan on this machine: programs side by side, each in a process of its own, that continue where they stopped."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dmft.core.progress import Progress
from dmft.core.stopping import EXIT_STOPPED, StopSignals

POLL = 0.1  # seconds
UNDER_WAY = 0.9  # the most of a result that a program counts for before it has ended
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Work:
    """A program with its arguments, the file that it makes, and where it says what went wrong."""

    words: Sequence[str]
    output: Path

    @property
    def log(self) -> Path:
        return self.output.with_suffix(".log")

    def start(self) -> subprocess.Popen:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", *self.words, "-o", str(self.output), "--resume", "--quiet"]
        with self.log.open("w") as log:  # in a group of its own: Ctrl-C reaches this process, which passes it on
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | ONE_THREAD, start_new_session=True)

    def said(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def run_side_by_side(work: Sequence[Work], processes: int, stop: StopSignals, quiet: bool) -> dict[Path, int]:
    """Do all of it, so many at a time; exit codes by output, of those that were begun. A stop reaches all that run, and they write
    checkpoints."""
    waiting, running, codes = list(work), dict[Path, subprocess.Popen](), dict[Path, int]()
    begun, took = dict[Path, float](), list[float]()
    with Progress(len(work), f"scan, {len(work)} results", quiet) as progress:
        while waiting or running:
            stopped = stop.flags
            while waiting and not stopped and len(running) < processes:
                one = waiting.pop(0)
                running[one.output], begun[one.output] = one.start(), time.monotonic()
            if stopped:
                waiting.clear()
                for process in running.values():
                    if process.poll() is None:
                        process.send_signal(signal.SIGTERM)
            for output, process in list(running.items()):
                if (process.wait() if stopped else process.poll()) is not None:
                    codes[output] = running.pop(output).returncode
                    took.append(time.monotonic() - begun[output])
            done = sum(code != EXIT_STOPPED for code in codes.values())
            elapsed = [time.monotonic() - begun[output] for output in running]
            progress.update(done + _begun(elapsed, took), f"{done} of {len(work)} done")
            if not stopped:
                time.sleep(POLL)
    return codes


def _begun(elapsed: Sequence[float], took: Sequence[float]) -> float:
    """How many results the running programs amount to, if they take as long as those that ended; 0 while none did."""
    each = sum(took) / len(took) if took else math.inf
    return sum(min(seconds / each, UNDER_WAY) for seconds in elapsed)
