"""An installed package in an empty folder: the run files of the figures come with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folder with the contents of a wheel that was built from a copy of the sources."""
    pytest.importorskip("setuptools")
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name in ("dmft", "sgd_sim", "onepass", "runs"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("out", "__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-q", "-w",
                           str(source / "wheel"), str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((source / "wheel").glob("*.whl"))) as wheel:
        wheel.extractall(site)
    return site


def test_figures_find_their_run_files_in_an_empty_folder(installed, tmp_path):
    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(installed)})

    listed = run("-m", "dmft", "figure", "all", "--quick", "--commands")
    assert listed.returncode == 0, listed.stderr
    files = {word for line in listed.stdout.splitlines() for word in line.split() if word.endswith(".toml")}
    assert len(files) > 20 and all(Path(name).is_relative_to(installed / "dmft" / "runs") and Path(name).exists() for name in files)
    study = run("-c", "from onepass.papers import study; print(study('loureiro/classical.toml'))")
    assert study.returncode == 0, study.stderr


def test_every_run_file_is_shipped(installed):
    there = {path.relative_to(installed / "dmft" / "runs") for path in (installed / "dmft" / "runs").rglob("*.toml")}
    here = {path.relative_to(ROOT / "runs") for path in (ROOT / "runs").rglob("*.toml") if "out" not in path.parts}
    assert there == here
