"""The first two steps of the macroscopic equations written out by hand, from the kernels and curves of a run. Eqs. [dmft-m],
[dmft-Q], [dmft-R], [dmft-a], [dmft-nu]."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.solver_cases import ALGORITHMS, CONSTRAINTS, make_march, make_run

ETA, HEAT = 0.02, 0.3


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("algorithm", ["persistent", "persistent and hot"])
def test_two_steps_by_hand(constraint, algorithm):
    march = make_march(make_run(ALGORITHMS[algorithm], CONSTRAINTS[constraint], steps=4, eta=ETA))
    k, c = march.kernels, march.curves
    sphere, hot = constraint == "sphere", "hot" in algorithm
    ridge, m0 = (0.0, 0.3) if sphere else (0.3, 0.3)
    kick = ETA**2 * k["M_C"] + 2 * (HEAT if hot else 0.0) * ETA * np.eye(len(k["M_C"]))
    keep = 1 - ETA * c["delta_nu"] - ETA * ridge

    # step 0: nothing to remember
    Q00 = (1 - m0**2) if sphere else 1.0
    m_u, q_u = (1 - ETA * ridge) * m0 - ETA * c["mu"][0], keep[0] ** 2 * Q00 + kick[0, 0]
    a0 = 1 / np.sqrt(q_u + m_u**2) if sphere else 1.0
    Q10, Q11, m1 = a0 * keep[0] * Q00, a0**2 * q_u, a0 * m_u
    assert_allclose(c["m"][1], m1, rtol=1e-12)
    assert_allclose(k["C"][1, 0], Q10 + m1 * m0, rtol=1e-12)
    assert_allclose(k["C"][1, 1], Q11 + m1**2, rtol=1e-12)
    assert_allclose(c["nu_hat"][0], (1 / a0 - 1) / ETA if sphere else ridge, rtol=1e-9)
    assert_allclose(k["R"][1, 0], a0, rtol=1e-12)

    # step 1 remembers step 0: by the response M_R(1, 0), and by the noise chi_0 that is in h_1 (a0 of it)
    memory, noise = ETA**2 * k["M_R"][1, 0], ETA**2 * k["M_C"][1, 0]
    x1, x0 = keep[1] * Q11 + memory * Q10 + a0 * noise, keep[1] * Q10 + memory * Q00
    m_u, q_u = (1 - ETA * ridge) * m1 - ETA * c["mu"][1], keep[1] * x1 + memory * x0 + keep[1] * a0 * noise + kick[1, 1]
    a1 = 1 / np.sqrt(q_u + m_u**2) if sphere else 1.0
    m2 = a1 * m_u
    assert_allclose(c["m"][2], m2, rtol=1e-12)
    assert_allclose(k["C"][2, 1], a1 * x1 + m2 * m1, rtol=1e-12)
    assert_allclose(k["C"][2, 0], a1 * x0 + m2 * m0, rtol=1e-12)
    assert_allclose(k["C"][2, 2], a1**2 * q_u + m2**2, rtol=1e-12)
    assert_allclose(k["R"][2, 0], a1 * keep[1] * a0, rtol=1e-12)

    # step 2 responds to step 0 through step 1 as well
    a2 = k["R"][3, 2]
    assert_allclose(k["R"][3, 0], a2 * (keep[2] * k["R"][2, 0] + ETA**2 * k["M_R"][2, 1] * a0), rtol=1e-12)
