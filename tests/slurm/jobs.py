"""What the tests of jobs share: a small run, a brake for it, and a user's folder on the cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from cluster import Cluster

from dmft.core import store

RUN = """
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "persistent_sgd"
learning_rate = 0.02
t_max = 1.6
batch_fraction = 0.5
persistence = 1.0
[theory]
samples = 200
replicas = 2
checkpoint_interval = 1000.0
[simulation]
dimension = 50
instances = 8
"""

# While the file `crawl` lies beside it, this plugin lets every step of the march take half a second.
CRAWL = """
import time
from pathlib import Path
from dmft.march import March
_step, _flag = March.step, Path(__file__).with_name("crawl")
def crawl(self):
    if _flag.exists():
        time.sleep(0.5)
    _step(self)
March.step = crawl
"""


class Site:
    """A user's folder on the cluster: commands run in it, results appear in it."""

    def __init__(self, cluster: Cluster, folder: Path):
        self.cluster, self.folder = cluster, folder
        (folder / "run.toml").write_text(RUN)
        (folder / "crawl.py").write_text(CRAWL)
        self.crawl = folder / "crawl"

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

    def slow_job(self, *arguments: str) -> str:
        """Submit a job of two ranks that crawls until `crawl` is removed, and wait until it computes."""
        self.crawl.touch()
        job, = self.submit("--plugin", "crawl.py", "-o", "slow.h5", "--ranks", "2", *arguments)
        self.cluster.wait_until(lambda: len(self.ranks("slow.h5")) == 2, 60, "the ranks to start")
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


def project(folder: Path, root: Path) -> Path:
    """A project folder as `make setup` leaves it, whose commands are those of this Python and this checkout."""
    place = folder / "project"
    binaries = place / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name in ("dmft", "slurm"):
        os.symlink(root / name, place / name)
    for name, module in (("dmft", "dmft"), ("sgd-sim", "sgd_sim")):
        (binaries / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (binaries / name).chmod(0o755)
    return place


def assert_same(path: Path, expected: store.Stored) -> None:
    """Every number of a result, bit for bit."""
    result = store.load(path)
    assert result.shapes == expected.shapes
    different = [name for name, array in expected.arrays.items()
                 if not np.array_equal(array, result.arrays[name], equal_nan=array.dtype.kind == "f")]
    assert different == []
