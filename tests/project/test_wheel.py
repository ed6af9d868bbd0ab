"""An installed package in an empty folder: the run files of the figures come with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dmft

pytestmark = pytest.mark.cli

ROOT = Path(__file__).resolve().parents[2]


def _copy(source: Path) -> None:
    """The sources that a package is built from."""
    for name in ("dmft", "sgd_sim", "onepass", "workbench", "reproduction", "runs"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("out", "__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folder with the contents of a wheel that was built from a copy of the sources."""
    pytest.importorskip("setuptools")
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    _copy(source)
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-q", "-w",
                           str(source / "wheel"), str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((source / "wheel").glob("*.whl"))) as wheel:
        wheel.extractall(site)
    return site


@pytest.mark.long
def test_figures_find_their_run_files_in_an_empty_folder(installed, tmp_path):
    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(installed)})

    listed = run("-m", "dmft", "figure", "all", "--quick", "--commands")
    assert listed.returncode == 0, listed.stderr
    files = {word for line in listed.stdout.splitlines() for word in line.split() if word.endswith(".toml")}
    assert len(files) > 20 and all(Path(name).is_relative_to(installed / "dmft" / "runs") and Path(name).exists() for name in files)
    companions = run("-m", "onepass", "figure", "--list")
    assert companions.returncode == 0 and "bocchi5" in companions.stdout, companions.stderr
    study = run("-c", "from reproduction.companions import study; print(study('loureiro/classical.toml'))")
    assert study.returncode == 0, study.stderr


def test_every_run_file_is_shipped(installed):
    there = {path.relative_to(installed / "dmft" / "runs") for path in (installed / "dmft" / "runs").rglob("*.toml")}
    here = {path.relative_to(ROOT / "runs") for path in (ROOT / "runs").rglob("*.toml") if "out" not in path.parts}
    assert there == here


def test_what_is_installed_is_called_learning_dmft(installed):
    metadata = next(installed.glob("*.dist-info")) / "METADATA"
    fields = metadata.read_text().split("\n\n")[0]
    assert metadata.parent.name == f"learning_dmft-{dmft.__version__}.dist-info" and "Name: learning-dmft\n" in fields
    assert all(f"\n{field}: " in fields for field in ("Summary", "Author", "License", "Keywords", "Project-URL", "Requires-Python"))
    assert (installed / "dmft" / "core" / "references.bib").exists()


def test_a_source_distribution_holds_what_a_wheel_holds(installed, tmp_path):
    """The run files are behind a link, which an archive must not hold as such."""
    source = tmp_path / "source"
    source.mkdir()
    _copy(source)
    build = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("learning_dmft-*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
        assert not any(member.issym() for member in archive.getmembers())
    files = (path.relative_to(installed) for path in installed.rglob("*") if path.is_file())
    wanted = {str(path) for path in files if "__pycache__" not in path.parts and ".dist-info" not in path.parts[0]}
    assert len(wanted) > 100 and wanted <= inside
