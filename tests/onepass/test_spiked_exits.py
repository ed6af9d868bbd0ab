"""Exit times of spiked matrices and tensors: the stitched formula against the chain and SGD, and samples against the dimension."""

import numpy as np
import pytest

import onepass
from dmft.core.errors import UserError
from onepass.first_passage import measure_exit, overlap_measure
from onepass.spiked.exits import matrix_exit_time, sample_complexity
from tests.marks import slow


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("step", [slow(1.0), 0.5])
def test_mean_exit_time_of_matrices(step):
    """At c = 1/2 r2 falls from 1 to 1/2 on the way. Twins: no noise of SGD; r2 at rest from the start."""
    model, n, level = onepass.SpikedTensor(2, 2.0, step), 10000, 0.5
    found = measure_exit(model, n, 400, overlap_measure(level, "m"), 4.0, resolution=1e-3)
    assert found.share == 1.0
    w, t = 2.0 - step, matrix_exit_time(model, n, level)
    assert abs(found.mean - t) < 4.5 * found.error
    if step == 1.0:
        noiseless = t + np.log(1.0 + 1.0 / w) / (8.0 * w)       # V = 1 in place of 1 + c^2/w
        assert abs(found.mean - noiseless) > 4.5 * found.error
    else:
        assert abs(found.mean - matrix_exit_time(model, n, level, r2=step)) > 4.5 * found.error


@pytest.mark.statistical
def test_sgd_itself():
    model = onepass.SpikedTensor(2, 3.0)
    found = measure_exit(model, 500, 60, overlap_measure(0.7, "m"), 2.0, "sgd", resolution=2e-3)
    assert abs(found.mean - matrix_exit_time(model, 500, 0.7)) < 4.5 * found.error
    assert abs(found.mean - matrix_exit_time(onepass.SpikedTensor(2, 2.0), 500, 0.7)) > 6.0 * found.error


@pytest.mark.slow
@pytest.mark.statistical
def test_samples_grow_as_n_log_n_above_the_critical_signal_alone():
    """Twin: the slope of a signal of 3."""
    found = sample_complexity(onepass.SpikedTensor(2, 2.0), (250, 1000, 4000), 0.5, 250)
    assert found.verdict.startswith("n log n steps") and found.share.min() == 1.0
    assert found.slope / found.slope_error > 8.0        # a logarithm there is
    below = sample_complexity(onepass.SpikedTensor(2, 0.8), (250, 4000), 0.4, 40, 2.0)
    assert below.verdict.startswith("not found") and below.share[-1] == 0.0
    assert abs(found.slope - 0.5 * found.expected) > 4.5 * found.slope_error


@pytest.mark.statistical
@pytest.mark.slow
def test_tensors_need_a_diverging_signal():
    """k = 3: a share of the runs, the same in all dimensions, finds the spike after a number of steps that is linear in n."""
    found = sample_complexity(onepass.SpikedTensor(3, 0.4, 0.5), (2000, 8000, 32000), 0.5, 400, 3.0, diverging=True)
    assert found.verdict.startswith("n steps") and 0.1 < found.share.min() <= found.share.max() < 0.9
    error = np.sqrt(found.share * (1 - found.share) / 400)
    assert np.ptp(found.share) < 4.5 * np.hypot(error[0], error[-1])
    fixed = sample_complexity(onepass.SpikedTensor(3, 5.0, 0.5), (2000, 8000), 0.5, 60, 3.0)
    assert fixed.verdict.startswith("not found")


def test_what_is_not_known_is_one_line():
    at_the_edge = sample_complexity(onepass.SpikedTensor(2, 1.0), (60, 80), 0.5, 4, 0.1)
    assert at_the_edge.verdict.startswith("not found") and np.isnan(at_the_edge.expected)
    assert matrix_exit_time(onepass.SpikedTensor(2, 0.9), 100, 0.5) == np.inf
    with pytest.raises(UserError, match="matrices without ridge"):
        matrix_exit_time(onepass.SpikedTensor(3, 4.0), 100, 0.5)
    with pytest.raises(UserError, match="take a level between"):
        matrix_exit_time(onepass.SpikedTensor(2, 2.0), 100, 1.5)
