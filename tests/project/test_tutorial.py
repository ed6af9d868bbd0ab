"""The code blocks of the tutorial and of docs/hdf5.md are executed as they stand."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

import dmft
from dmft.cli import main as dmft_command
from dmft.model import losses
from sgd_sim.cli import main as simulator_command

pytestmark = pytest.mark.cli

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"dmft": dmft_command, "sgd-sim": simulator_command}


def _blocks(document: str) -> list[tuple[str, str]]:
    return re.findall(r"```(toml|sh|python)\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def _execute(document: str, names: dict) -> int:
    """Run all blocks in order: toml is saved as first.toml, sh runs in this process (no start-up time), python shares names."""
    blocks = _blocks(document)
    for language, text in blocks:
        if language == "toml":
            Path("first.toml").write_text(text)
        elif language == "python" and "h5netcdf" in text and find_spec("h5netcdf") is None:
            continue
        elif language == "python":
            exec(compile(text, document, "exec"), names)
        else:
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                assert COMMANDS[program](arguments) == 0, line
    return len(blocks)


@pytest.fixture
def own_losses(monkeypatch):
    """Losses that a document registers are forgotten afterwards."""
    for name, value in vars(losses).items():
        if isinstance(value, dict) and "phase_retrieval" in value:
            monkeypatch.setattr(losses, name, dict(value))


@pytest.mark.long
def test_the_tutorial(tmp_path, monkeypatch, capsys, own_losses):
    for extra in ("matplotlib", "plotly", "pandas", "xarray"):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)
    fences = re.findall(r"^```\w+$", (ROOT / "docs/tutorial.md").read_text(), re.MULTILINE)
    assert _execute("docs/tutorial.md", {}) == len(fences)      # no block in a language that is not executed
    made = {file.name for file in tmp_path.iterdir()}
    assert {"theory.h5", "sim.h5", "compare.png", "theory.png", "sim.png", "study.h5", "study.png", "report.html", "tables"} <= made
    assert "max |z| =" in capsys.readouterr().out
    # The HDF5 page reads the file that the tutorial made.
    assert _execute("docs/hdf5.md", names := {}) == 2
    assert (names["m"] == dmft.load("theory.h5").m).all()


def test_the_schema_page_names_every_dataset(results):
    """docs/hdf5.md mentions each dataset of real files (errors and replicas by their rule)."""
    from dmft.core import store

    text = (ROOT / "docs/hdf5.md").read_text()
    for path in (results.theory, results.simulation):
        for name in store.load_header(path).shapes:
            if not name.startswith("state/"):
                assert name.rpartition("/")[2].removesuffix("_error") in text, name
    for attribute in store.load_header(results.theory).attrs:
        assert attribute in text or attribute == "outcomes", attribute


def test_citation_names_the_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {dmft.__version__}\n" in text and text.startswith("cff-version: 1.2.0\n")
