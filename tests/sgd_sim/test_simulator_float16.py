"""Data rounded to float16 change nothing beyond statistical error, because the labels are those of the rounded data."""

from __future__ import annotations

import numpy as np
import pytest

import sgd_sim
from dmft.model.runfile import parse_run
from sgd_sim.landscape import make_landscape
from tests.run_files import run_text

pytestmark = pytest.mark.statistical


@pytest.mark.slow
def test_float16_and_float32_agree():
    """Independent ensembles (another seed) agree within their errors in m and in the share of instances that arrive."""
    run = parse_run(run_text(t_max=40.0, problem={"m0": 0.3},
                             simulation={"dimension": 100, "instances": 150, "record": [1.0, 4.0, 40.0]}))
    fine, coarse = sgd_sim.simulate(run), sgd_sim.simulate(run.replace({"simulation.precision": "float16", "simulation.seed": 2}))
    z = (fine.mean().m - coarse.mean().m) / np.hypot(fine.error().m, coarse.error().m)
    assert np.abs(z).max() < 3.5
    a, b = (result.share_below(1e-7).share[-1] for result in (fine, coarse))
    share = 0.5 * (a + b)
    assert 0.1 < share < 0.95 and abs(a - b) < 3.5 * np.sqrt(share * (1.0 - share) * 2 / 150)


def test_labels_of_other_data_would_show():
    """With its own labels the rounded data set is learnt to the end; with those of the unrounded one a loss remains."""
    coarse, fine = (make_landscape(1, 0, 100, 6.0, False, precision) for precision in ("float16", "float32"))
    data, w0, losses = coarse.data[:600, :100].astype(float), coarse.w0, []
    for h0 in (coarse.h0, fine.h0):
        w = 0.95 * w0 + 0.3 * np.random.default_rng(1).standard_normal(100)
        for _ in range(2000):
            h = data @ w / 10.0
            w = w - 0.01 * (h * (h**2 - h0**2)) @ data / 10.0
        losses.append(0.25 * np.mean((h**2 - h0**2) ** 2))
    assert losses[0] < 1e-20 and losses[1] > 1e-9
