"""The cluster, started once for all tests here, and the result they compare with."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cluster import Cluster, missing
from jobs import RUN, Site

from dmft.core import store


@pytest.fixture(scope="session")
def cluster():
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))        # short: the socket of munge lies in it
    try:
        with Cluster(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def site(cluster, tmp_path):
    return Site(cluster, tmp_path)


@pytest.fixture(scope="session", autouse=True)
def limited(cluster, serial, tmp_path_factory):
    """A job that meets its time limit, of one minute, while the other tests run: its folder and its id."""
    site = Site(cluster, tmp_path_factory.mktemp("limited"))
    return site, site.submit_slow("--nodes", "2", "--time", "00:01:00")


@pytest.fixture(scope="session")
def serial(tmp_path_factory):
    """The result of the run on one rank, without Slurm."""
    folder = tmp_path_factory.mktemp("serial")
    (folder / "run.toml").write_text(RUN)
    subprocess.run([sys.executable, "-m", "dmft", "solve", "run.toml", "-o", "serial.h5", "--quiet"], cwd=folder,
                   check=True, timeout=300)
    return store.load(folder / "serial.h5")
