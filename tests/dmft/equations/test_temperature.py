"""Heat enters at the step that has it: exact differences of two runs with the same random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.solver_cases import CONSTRAINTS, make_march, make_run

ETA, HEAT = 0.02, 0.5


def march(temperature, constraint: str):
    return make_march(make_run({"kind": "langevin", "temperature": temperature}, CONSTRAINTS[constraint], steps=6, eta=ETA))


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("step", [0, 2])
def test_a_step_takes_its_own_temperature(constraint, step):
    """Heat at step n alone: nothing differs up to n; q(n+1) is larger by 2 T eta with ridge, and on the sphere, where the
    length before normalisation is 1 + eta nu_hat, its square by the same."""
    cold = march(0.0, constraint)
    heated = march([[0.0, 0.0], [step * ETA, HEAT], [(step + 1) * ETA, 0.0]] if step else [[0.0, HEAT], [ETA, 0.0]], constraint)
    for name in ("m", "q", "loss"):
        assert_array_equal(cold.curves[name][:step + 1], heated.curves[name][:step + 1], err_msg=name)
    if constraint == "ridge":
        assert_allclose(heated.curves["q"][step + 1] - cold.curves["q"][step + 1], 2 * HEAT * ETA, rtol=1e-12)
    else:
        length2 = [(1 + ETA * curves["nu_hat"][step]) ** 2 for curves in (heated.curves, cold.curves)]
        assert_allclose(length2[0] - length2[1], 2 * HEAT * ETA, rtol=1e-11)
    assert np.abs(heated.curves["loss"][step + 1] - cold.curves["loss"][step + 1]) > 1e-6


def test_the_direct_multiplier_has_the_temperature_in_it():
    """(A.19): nu_hat_direct(n) = T(n) - alpha <g h>; at n = 0 the second part knows no temperature."""
    cold, hot = march(0.0, "sphere"), march([[0.0, HEAT], [ETA, 0.0]], "sphere")
    assert_allclose(hot.curves["nu_hat_direct"][0] - cold.curves["nu_hat_direct"][0], HEAT, rtol=1e-12)
    later = march([[0.0, 0.0], [ETA, HEAT]], "sphere")
    assert later.curves["nu_hat_direct"][0] == cold.curves["nu_hat_direct"][0]
    assert_allclose(later.curves["nu_hat_direct"][1] - cold.curves["nu_hat_direct"][1], HEAT, rtol=1e-12)
