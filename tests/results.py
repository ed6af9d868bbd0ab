"""Small results of every kind, made once by the real solver and simulator, for the tests of what looks into files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core import store
from dmft.core.errors import Stopped
from onepass.result import Ensemble, Trajectory
from tests.small_results import SMALL, StopAfter


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> SimpleNamespace:
    """Paths of files: theory, other (another learning rate), live (a checkpoint of theory), simulation, ode, ensemble."""
    folder = tmp_path_factory.mktemp("results")
    run = dmft.parse_run(SMALL)
    files = SimpleNamespace(folder=folder, run=run, theory=folder / "theory.h5", other=folder / "other.h5",
                            live=folder / "live.h5.checkpoint", simulation=folder / "sim.h5", ode=folder / "ode.h5",
                            ensemble=folder / "ensemble.h5")
    files.result = dmft.solve(run, output=files.theory, quiet=True)
    dmft.solve(run.replace(learning_rate=0.04, seed=2), output=files.other, quiet=True)
    with pytest.raises(Stopped):
        dmft.solve(run, output=folder / "live.h5", quiet=True, stop=StopAfter(33))
    files.sim = sgd_sim.simulate(run)
    files.sim.save(files.simulation)
    _onepass(files.ode, files.ensemble)
    return files


def _onepass(ode: Path, ensemble: Path) -> None:
    t = np.linspace(0.0, 1.0, 6)
    M = np.exp(-t)[:, None, None] * np.arange(1.0, 3.0)[:, None]
    Trajectory(t, {"M": M, "risk": np.exp(-t)}, "ode", "").save(ode)
    noise = 0.1 * np.random.default_rng(1).standard_normal((5, 6, 2, 1))
    Ensemble(t, {"M": M + noise, "risk": np.exp(-t) + noise[:, :, 0, 0]}, "sgd", "", diverged=np.zeros(5, bool)).save(ensemble)


@pytest.fixture
def edited(tmp_path):
    """edited(path, name=array or None, attrs={}): a copy of a file with datasets changed, as a broken program would."""
    def change(path: Path, changes: dict[str, np.ndarray], attrs: dict | None = None) -> Path:
        stored = store.load(path)
        place = tmp_path / f"edited.{path.name}"
        store.save(place, stored.kind, stored.run_text, {**stored.arrays, **changes}, {**stored.attrs, **(attrs or {})})
        return place

    return change
