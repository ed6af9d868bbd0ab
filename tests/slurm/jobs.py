"""What the tests of jobs share: a small run and a user's folder on the cluster."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from cluster import Cluster

from dmft.core import store
from tests.brake import Brake
from tests.run_files import run_text

RUN = run_text(t_max=1.6, theory={"samples": 200, "replicas": 2, "checkpoint_interval": 1000.0},
               simulation={"dimension": 50, "instances": 8})


class Site:
    """A user's folder on the cluster: commands run in it, results appear in it."""

    def __init__(self, cluster: Cluster, folder: Path):
        self.cluster, self.folder = cluster, folder
        (folder / "run.toml").write_text(RUN)

    def dmft(self, *arguments: str) -> subprocess.CompletedProcess:
        return self.cluster.command(sys.executable, "-m", "dmft", *arguments, cwd=self.folder)

    def submit(self, *arguments: str) -> list[str]:
        """Job ids of `dmft submit run.toml ...`."""
        done = self.dmft("submit", "run.toml", *arguments)
        assert done.returncode == 0, done.stderr
        return re.findall(r"^job (\d+):", done.stdout, re.MULTILINE)

    def log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def submit_slow(self, *arguments: str) -> str:
        """A job of two ranks whose march takes a second for every step until the brake is released."""
        self.brake = Brake(self.folder, 1.0)
        job, = self.submit("--plugin", "crawl.py", "-o", "slow.h5", "--ranks", "2", *arguments)
        return job

    def slow_job(self, *arguments: str) -> str:
        """The same, once it computes."""
        job = self.submit_slow(*arguments)
        self.cluster.wait_until(lambda: len(self.ranks("slow.h5")) == 2, "the ranks to start")
        return job

    def ranks(self, output: str) -> list[int]:
        """Process ids of the ranks that hold an output, once they compute (their signal handlers stand)."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                caught = re.search(r"SigCgt:\s*(\w+)", (entry / "status").read_text())
            except OSError:
                continue
            ready = caught is not None and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1
            if words[0] == sys.executable and str(self.folder / output) in words and ready:
                found.append(int(entry.name))
        return sorted(found)


def assert_same(path: Path, expected: store.Stored) -> None:
    """Every number of a result, bit for bit."""
    result = store.load(path)
    assert result.shapes == expected.shapes
    different = [name for name, array in expected.arrays.items()
                 if not np.array_equal(array, result.arrays[name], equal_nan=array.dtype.kind == "f")]
    assert different == []
