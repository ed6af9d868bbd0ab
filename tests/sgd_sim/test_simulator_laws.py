"""Laws that the simulator shares with the theory but writes on its own: the persistent chain, and the spectral start."""

from __future__ import annotations

import numpy as np
import pytest

import sgd_sim
from dmft.model.runfile import parse_run
from sgd_sim.cpu.dynamics import make_work
from sgd_sim.landscape import make_landscape
from sgd_sim.starts import spectral_start, spectral_weights
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


def test_large_labels_are_left_out_of_the_spectral_start():
    """T(y) = y up to 9 times the mean of y, 0 above."""
    h0 = np.array([1.0, -1.0, 2.0, 0.5, *[1.0] * 20, 12.0])
    mean = np.mean(h0**2)
    assert 4.0 < 9 * mean < 144.0
    assert spectral_weights(h0).tolist() == [1.0, 1.0, 4.0, 0.25, *[1.0] * 20, 0.0]


def test_the_spectral_start_is_the_leading_eigenvector_of_trimmed_labels():
    """Against a dense eigenvector; the one without trimming points elsewhere."""
    landscape = make_landscape(7, 0, 60, 3.0)
    h0 = landscape.h0
    h0[3] = 11.0 * np.sqrt(np.mean(h0**2))               # a label that would take over
    w = spectral_start(landscape, make_work(landscape), np.random.default_rng(1).standard_normal(60))
    X = landscape.data[:h0.size, :60].astype(float)

    def leading(weights):
        return np.linalg.eigh((X * weights[:, None]).T @ X)[1][:, -1]

    trimmed = np.where(h0**2 <= 9 * np.mean(h0**2), h0**2, 0.0)
    assert trimmed[3] == 0.0
    assert abs(leading(trimmed) @ w) / np.sqrt(60) == pytest.approx(1.0, abs=1e-4)
    assert abs(leading(h0**2) @ w) / np.sqrt(60) < 0.9
