"""C(t, t') of networks between their units: the simulator against its own curves, its files, and the theory on simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import RunError
from tests.network_cases import UNEQUAL, network_run

TIMES = [0.0, 0.2, 0.5, 1.0]
RUN = network_run({**UNEQUAL, "dimension": 200, "instances": 24, "record": [0.2, 0.7], "kernels": True, "waiting_times": TIMES,
                   "samples": 1024, "replicas": 4, "t_max": 1.0, "history": "full"})


@pytest.fixture(scope="module")
def simulation(tmp_path_factory):
    """In memory, and in pieces and from a file."""
    path = tmp_path_factory.mktemp("kernels") / "sim.h5"
    sgd_sim.simulate(RUN.replace(instances=2), output=path)
    return sgd_sim.simulate(RUN), sgd_sim.simulate(RUN, output=path, resume=True), path


def test_kernels_are_those_of_the_weights(simulation):
    """On the diagonal C of the curves; between times w_r(t).w_s(t')/N, so that both orders of times are transposed; the same from a
    file and of a run that had fewer instances at first."""
    found, resumed, path = simulation
    C = found.kernels.C
    assert C.shape == (24, 4, 4, 2, 2) and found.kernels.R is None and found.states.copies == 1
    at = np.searchsorted(found.t, np.array(TIMES) - 1e-9)
    np.testing.assert_allclose(np.einsum("ijjrs->ijrs", C), found.C[:, at], atol=1e-6)
    np.testing.assert_allclose(C, np.transpose(C, (0, 2, 1, 4, 3)), atol=1e-7)
    assert np.isnan(found.columns.C[:, 1, 2:]).all() and np.isfinite(found.columns.C[:, -1]).all()
    for other in (resumed, sgd_sim.load(path)):
        np.testing.assert_array_equal(other.kernels.C, C)


@pytest.mark.long
@pytest.mark.statistical
def test_theory_on_simulation(simulation, tmp_path):
    """All four pairs of units agree. Twin: the units of the earlier time exchanged."""
    theory = dmft.solve(RUN)
    found = dmft.compare(theory, simulation[0], kernels=True, plot=tmp_path / "kernels.png")
    assert [one.pairs.observable for one in found.kernels] == ["C[0,0]", "C[0,1]", "C[1,0]", "C[1,1]"]
    assert all(one.pairs.verdict == "agree" for one in found.kernels), str(found)
    kernels = theory.kernels
    wrong = replace(theory, kernels=replace(kernels, C=np.swapaxes(kernels.C, 2, 3)))
    assert dmft.compare(wrong, simulation[0], kernels=True).verdict == "disagree"


def test_a_card_is_refused_in_one_line():
    with pytest.raises(RunError, match=r"\[simulation\] (device|kernels)"):
        sgd_sim.simulate(RUN.replace({"simulation.device": "gpu"}))
