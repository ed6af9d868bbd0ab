"""Kinds of files are found by name: what looks at one kind loads nothing of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.marks import with_slow
from workbench.inspection.kinds import KINDS

DATA = Path(__file__).resolve().parents[2] / "data" / "schema-1"
ASKED = ("sgd_sim", "onepass", "matplotlib", "workbench.plots", "reproduction", "dmft.running", "scipy.stats")
# Which of these an inspection of that kind loads. An ensemble of onepass simulates SGD with models of the simulator.
NEEDED = {"theory": set(), "simulation": {"sgd_sim"}, "onepass": {"sgd_sim", "onepass"}, "convergence": set(), "sweep": set()}
INSPECT = ("import sys; from dmft.cli import main; code = main(['inspect', sys.argv[1]]); "
           f"print('loaded', *(name for name in {ASKED} if name in sys.modules)); sys.exit(code)")


@pytest.mark.long
@pytest.mark.cli
@pytest.mark.parametrize("kind", with_slow(KINDS, "simulation", "convergence"))
def test_inspecting_a_file_loads_what_its_kind_needs(kind, run_python):
    done = run_python("-c", INSPECT, str(DATA / f"{kind}.h5"))
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()[-1].split()[1:]) == NEEDED[kind]
