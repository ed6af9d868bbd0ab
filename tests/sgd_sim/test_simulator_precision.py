"""Data rounded to float16: the rounded matrix is the data set; and runs on a GPU where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.errors import RunError
from dmft.model.runfile import parse_run
from sgd_sim.landscape import make_landscape, round_to_half
from tests.run_files import run_text


def test_rounding_is_that_of_float16():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(20000), 10.0 ** rng.uniform(-9, 4, 20000) * rng.choice([-1, 1], 20000),
                        np.arange(4096) / 2048.0 * 2.0**-14, [0.0, -0.0, 65504.0]]).astype(np.float32)
    want = x.astype(np.float16).astype(np.float32)
    round_to_half(x.view(np.uint32))
    np.testing.assert_array_equal(x.view(np.uint32), want.view(np.uint32))


def test_labels_are_made_of_the_rounded_data():
    coarse, fine = (make_landscape(1, 0, 50, 3.0, False, precision) for precision in ("float16", "float32"))
    n = coarse.w0.size
    np.testing.assert_array_equal(coarse.w0, fine.w0)
    np.testing.assert_array_equal(coarse.data, fine.data.astype(np.float16))
    np.testing.assert_array_equal(coarse.test, fine.test.astype(np.float16))
    np.testing.assert_allclose(coarse.h0, coarse.data[:150, :n].astype(float) @ coarse.w0 / np.sqrt(n), rtol=0, atol=1e-14)
    assert 1e-5 < np.abs(coarse.h0 - fine.h0).max() < 1e-2


def test_precision_is_a_key_of_the_run():
    text = run_text("gd")
    assert parse_run(text).simulation.precision == "float32"
    run = parse_run(text, overrides=["simulation.precision=float16"])
    assert parse_run(run.to_toml()) == run
    with pytest.raises(RunError, match="precision.*float32.*float16"):
        parse_run(text, overrides=["simulation.precision=float64"])
