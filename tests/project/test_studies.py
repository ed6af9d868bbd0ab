"""The example studies run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

STUDIES = Path(__file__).resolve().parents[2] / "runs" / "studies"


def _run(script: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, str(STUDIES / script), "--quick", "--output", str(folder)], capture_output=True,
                          text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_aging(tmp_path):
    """Both algorithms forget what they were at the start faster than what they are later; the response table is filled."""
    text = _run("aging.py", tmp_path)
    assert len(re.findall(r"^(?:gradient descent|persistent SGD)\s+[\d.]+\s+[\d.]+\s+[\d.]+$", text, re.MULTILINE)) == 6
    assert (tmp_path / "aging.png").stat().st_size > 20_000


@pytest.mark.slow
def test_columns(tmp_path):
    """Columns of the theory on a simulation of a few lines: 16 numbers, small samples and N, within five errors."""
    text = _run("columns.py", tmp_path)
    z = [float(word) for word in re.findall(r"\)\s+(-?[\d.]+)$", text, re.MULTILINE)]
    assert len(z) == 16 and max(map(abs, z)) < 5
    assert (tmp_path / "columns.png").stat().st_size > 20_000


@pytest.mark.slow
def test_small_steps(tmp_path):
    """The extrapolation predicts a finer step within its errors, and a second start finds everything done."""
    text = _run("small_steps.py", tmp_path)
    z = [float(word) for word in re.findall(r"\+- [\d.e+-]+\s+[\d.]+ \+- [\d.e+-]+\s+(-?[\d.]+)$", text, re.MULTILINE)]
    assert len(z) > 5 and max(map(abs, z)) < 5
    assert (tmp_path / "small-steps.png").exists() and _run("small_steps.py", tmp_path) == text


@pytest.mark.slow
@pytest.mark.parametrize(("script", "lines"), [("reuse", 9), ("published", 7), ("many_samples", 2), ("specialisation", 2),
                                               ("late", 4)])
def test_networks(tmp_path, script, lines):
    """Tables with errors, and the picture; theory and simulation within five errors where they are held against each other."""
    text = _run(f"networks/{script}.py", tmp_path)
    told = re.findall(r"^(?:GD|SGD|persistent|[mC]\[|alpha =|t =).*", text, re.MULTILINE)
    assert len(told) >= lines and (tmp_path / f"network-{script.replace('_', '-')}-quick.png").stat().st_size > 20_000
    assert all(abs(float(z)) < 5 for z in re.findall(r"max \|z\| ([\d.]+)", text))


@pytest.mark.slow
def test_closed(tmp_path):
    """A line of thresholds for GD and for Langevin dynamics, and the picture."""
    text = _run("closed.py", tmp_path)
    assert len(re.findall(r"1/Delta_3 = [\d.]+: +\S+ +[\d.]+$", text, re.MULTILINE)) >= 2
    assert list(tmp_path.glob("*.png"))


@pytest.mark.slow
def test_recovery(tmp_path):
    """A line for every share, with a time for every dimension."""
    line = r"^ *(?:5|10|25|50)%(?: +(?:\d+ \+- \d+|> \d+)){3}"
    assert len(re.findall(line, _run("recovery.py", tmp_path), re.MULTILINE)) == 4


@pytest.mark.slow
def test_escape(tmp_path):
    """Tables of V with errors for five algorithms, and the pictures."""
    text = _run("escape/study.py", tmp_path).partition("What V changes by")[0]
    assert len(re.findall(r"^\| (?:GD|SGD|persistent SGD, tau = \d|Langevin, T = 0.5) \| 2\.\d+\(\d+\)", text, re.MULTILINE)) == 5
    assert {path.name for path in tmp_path.glob("*.png")} >= {"escape-growth-quick.png", "escape-alpha-quick.png",
                                                              "escape-collapse-gd-quick.png", "escape-passage-gd-quick.png"}


@pytest.mark.slow
def test_reshuffling(tmp_path):
    """A line for every law of the mini-batches, with its interval."""
    text = _run("reshuffling.py", tmp_path)
    assert len(re.findall(r"\d+/24 +0\.\d\d +0\.\d\d to 0\.\d\d", text)) == 5
    assert (tmp_path / "reshuffling.png").stat().st_size > 20_000


@pytest.mark.slow
def test_spectral(tmp_path):
    """Theory and simulation from the spectral estimate agree within their errors; the two starts are told apart by the loss."""
    text = _run("spectral.py", tmp_path)
    lines = [line.split() for line in text.splitlines() if line.startswith(("spectral start", "warm start"))]
    assert len(lines) == 8 and max(abs(float(line[6 + 3])) for line in lines) < 5
    at_start = {line[0]: float(line[10]) for line in lines if float(line[2]) == 0.0}
    assert at_start["spectral"] > 2 * at_start["warm"]


@pytest.mark.slow
def test_momentum(tmp_path):
    text = _run("momentum.py", tmp_path)
    assert len(re.findall(r"\d+/24 +0\.\d\d to [01]\.\d\d", text)) == 8
    assert (tmp_path / "momentum.png").stat().st_size > 20_000


@pytest.mark.slow
def test_schedules(tmp_path):
    """The optimum below the power law below the constant, each where the exact chain is."""
    text = _run("schedules.py", tmp_path)
    rows = re.findall(r"excess risk (\S+), chain \(d = 1000\) (\S+) \+- (\S+)$", text, re.MULTILINE)
    ode, chain, error = np.array(rows, float).T
    assert len(rows) == 6 and np.all(np.diff(ode.reshape(2, 3)) > 0) and np.all(abs(chain - ode) < 5 * error)
    assert (tmp_path / "study-schedules-quick.png").stat().st_size > 20_000


@pytest.mark.slow
def test_decay(tmp_path):
    text = _run("decay.py", tmp_path)
    assert len(re.findall(r"^ +[01]\S* +[\d.]+ +[\d.]+ \+- [\d.]+", text, re.MULTILINE)) == 5
    assert (tmp_path / "decay.png").stat().st_size > 20_000


@pytest.mark.slow
def test_landscape(tmp_path):
    """When the landscape points to the teacher; m and the softest direction of theory and simulation at three times of six runs."""
    text = _run("landscape.py", tmp_path)
    assert len(re.findall(r"^ +(?:GD|persistent SGD) +[246] +\S+ +\S+ +(?:no time|[\d., ]+)$", text, re.MULTILINE)) == 6
    assert len(re.findall(r"^ +[014] +0\.\d+|^ +4 +1\.0", text, re.MULTILINE)) == 18
    assert (tmp_path / "landscape.png").stat().st_size > 20_000


@pytest.mark.slow
def test_temperature(tmp_path):
    """Persistent mini-batches are colder at short lags than at long ones, in simulations; Langevin dynamics has its temperature."""
    text = _run("temperature.py", tmp_path)
    lines = [line.split() for line in text.splitlines() if "+-" in line]
    seen = np.array([[float(line[-3]), float(line[-1])] for line in lines]).reshape(3, -1, 2)
    assert seen.shape[1] == 10 and abs(seen[0, 0, 0] - 0.01) < 5 * seen[0, 0, 1]
    assert seen[2, 5, 0] - seen[2, 0, 0] > 3 * seen[2, 5, 1]
    assert (tmp_path / "temperature.png").stat().st_size > 20_000


def test_every_study_is_run_by_a_test():
    named = set(re.findall(r'_run\("(\w+\.py)"', Path(__file__).read_text()))
    assert named == {path.name for path in STUDIES.glob("*.py")} - {"options.py"}  # which the studies share
