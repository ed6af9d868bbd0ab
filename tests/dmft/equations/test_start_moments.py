"""At t = 0 every average is a Gaussian moment."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.model.experiment import Experiment
from dmft.model.minibatches import Poisson
from dmft.samples.sampling import Sampling, draw
from tests.solver_cases import ALGORITHMS, CONSTRAINTS, make_run

ALPHA, M0 = 3.0, 0.3
SECOND_MOMENT = {"gd": 1.0, "sgd": 2.0, "sgd with replacement": 3.0, "persistent": 2.0}   # <s^2>/l^2 at l = 1/2


@pytest.mark.parametrize("parts", ["[]", '["sobol", "weights", "stein"]'])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("algorithm", SECOND_MOMENT)
def test_moments_of_phase_retrieval(algorithm, constraint, parts):
    run = make_run(ALGORITHMS[algorithm], CONSTRAINTS[constraint], steps=1)
    theory = dmft.solve(run.replace({"theory.samples": 3000, "theory.replicas": 16, "theory.variance_reduction":
                                     [] if parts == "[]" else ["sobol", "weights", "stein"]}), quiet=True)
    q, m2 = theory.q[0], M0**2
    assert q == pytest.approx(1.0 if constraint == "sphere" else 1 + m2, rel=1e-14)
    exact = {
        "loss": (3 * q**2 - 2 * (q + 2 * m2) + 3) / 4,
        "delta_nu": ALPHA * (3 * q - 1),
        "mu": 3 * ALPHA * M0 * (q - 1),
        "M_C": ALPHA * SECOND_MOMENT[algorithm] * (15 * q**3 - 2 * (3 * q**2 + 12 * q * m2) + 3 * q + 12 * m2),
    }
    for name, value in exact.items():
        mean, error = ((theory.kernels.M_C[0, 0], theory.kernels.M_C_error[0, 0]) if name == "M_C" else
                       (getattr(theory, name)[0], getattr(theory, f"{name}_error")[0]))
        # Student's t with 15 degrees of freedom: |z| > 6 in 2e-5 of cases. A control variate may hit exactly.
        assert abs(mean - value) < 6 * error + 1e-9, (name, mean, value, error)


def test_poisson_weights():
    u = (np.arange(200_000) + 0.5) / 200_000
    s = Poisson(0.5).first(u)
    assert s.mean() == pytest.approx(0.5, abs=1e-4)
    assert s.var() == pytest.approx(0.5, abs=1e-4)


def test_samples_are_the_same_in_any_split():
    problem = Experiment.from_run(make_run(ALGORITHMS["persistent"]))
    for parts in (frozenset(), frozenset({"sobol", "weights"})):
        sampling = Sampling(100, 1, (0,), parts)
        whole = draw(problem, sampling, np.arange(100))
        pieces = [draw(problem, sampling, np.arange(first, first + count)) for first, count in ((0, 13), (13, 50), (63, 37))]
        for name in whole._fields:
            joined = np.concatenate([getattr(piece, name) for piece in pieces])
            np.testing.assert_array_equal(getattr(whole, name), joined, err_msg=name)
