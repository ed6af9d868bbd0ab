"""Laws that the simulator shares with the theory but writes on its own: the persistent chain, and the spectral start."""

from __future__ import annotations

import numpy as np
import pytest

import sgd_sim
from dmft.model.constraints import Sphere
from dmft.model.runfile import parse_run
from sgd_sim.cpu.by_rows import make_rows
from sgd_sim.cpu.starts import spectral_start, spectral_weights, start_weights
from sgd_sim.landscape import make_landscape
from tests.run_files import run_text


@pytest.mark.parametrize("fraction", [0.2, 0.5])
def test_the_persistent_chain_keeps_its_share(fraction):
    """Eq. 7 with P(1 -> 0) = (1 - l) eta/(l tau) is stationary at l: after 12 correlation times a share l of the samples is in.
    Without the l below, the share would drift to 1/(2 - l)."""
    run = parse_run(run_text(t_max=1.0, algorithm={"batch_fraction": fraction, "persistence": 0.05 / fraction + 0.05},
                             simulation={"dimension": 80, "instances": 12}))
    s = sgd_sim.simulate(run).states.s
    assert s.size == 12 * 240 and set(np.unique(s)) == {0, 1}
    error = np.sqrt(fraction * (1 - fraction) / s.size)
    assert abs(s.mean() - fraction) < 4 * error < abs(1 / (2 - fraction) - fraction) / 2


def problem_of(preprocessing: str, alpha: float = 3.0):
    return parse_run(run_text(problem={"alpha": alpha, "start": "spectral", "preprocessing": preprocessing})
                     .replace("m0 = 0.5\n", "")).problem


def test_preprocessings_of_the_spectral_start():
    """y = h0^2: kept up to 9; 1 above 2; (y - 1)/(y + sqrt(2 alpha) - 1)."""
    h0, alpha = np.array([1.0, -1.0, 2.0, 0.5, 12.0]), 2.0
    y = h0**2
    for name, want in (("truncated", np.where(y <= 9, y, 0.0)), ("subset", np.where(y > 2, 1.0, 0.0)),
                       ("mondelli_montanari", (y - 1) / (y + 1))):
        np.testing.assert_allclose(spectral_weights(problem_of(name, alpha), h0), want, rtol=1e-14)


@pytest.mark.parametrize("name", ["mondelli_montanari", "truncated", "subset"])
def test_the_spectral_start_is_the_leading_eigenvector(name):
    """Against a dense eigenvector; that of labels as they are points elsewhere."""
    landscape = make_landscape(7, 0, 60, 3.0)
    h0 = landscape.h0
    h0[3] = 11.0               # a label that would take over
    w = spectral_start(problem_of(name), landscape, make_rows(landscape), np.random.default_rng(1).standard_normal(60))
    X = landscape.data[:h0.size, :60].astype(float)

    def leading(weights):
        return np.linalg.eigh((X * weights[:, None]).T @ X)[1][:, -1]

    assert abs(leading(spectral_weights(problem_of(name), h0)) @ w) / np.sqrt(60) == pytest.approx(1.0, abs=1e-10)
    assert abs(leading(h0**2) @ w) / np.sqrt(60) < 0.9


def test_the_spectral_start_goes_on_where_eigenvalues_are_close():
    """At alpha = 0.6, data whose two largest eigenvalues are 0.03 apart: 500 steps of power iteration end at 0.9957."""
    problem, size = problem_of("mondelli_montanari", 0.6), 200
    landscape = make_landscape(7, 3, size, 0.6)
    w = start_weights(problem, Sphere(), landscape, make_rows(landscape), 7, 3)
    X = landscape.data[:landscape.h0.size, :size].astype(float)
    leading = np.linalg.eigh((X * spectral_weights(problem, landscape.h0)[:, None]).T @ X)[1][:, -1]
    assert abs(leading @ w) / np.sqrt(size) > 0.99999


def test_the_overlap_of_the_spectral_start():
    """At alpha = 3 it is 0.79133 in the limit (Lu and Li; Mondelli and Montanari); trimmed labels give less."""
    found = {}
    for name in ("mondelli_montanari", "truncated"):
        problem, size = problem_of(name), 500
        found[name] = []
        for index in range(16):
            landscape = make_landscape(3, index, size, 3.0)
            start = start_weights(problem, Sphere(), landscape, make_rows(landscape), 3, index)
            found[name].append(start @ landscape.w0 / size)
    error = np.std(found["mondelli_montanari"], ddof=1) / 4
    assert abs(np.mean(found["mondelli_montanari"]) - 0.79133) < 4 * error + 2 / size and error < 0.02
    assert np.mean(found["truncated"]) < 0.75
