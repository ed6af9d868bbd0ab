"""One unit of a network is the single unit of the scalar solver: the same random numbers give the same solution."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.parallel import Comm
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.model.runfile import Experiment as make_run
from dmft.samples.sampling import Sampling
from dmft.solvers.march import March
from tests.network_cases import marched, network_run

STEPS, SAMPLES = 30, 300
# Phase retrieval as a network: f = h^2/sqrt(2), y = kappa^2/sqrt(2).
UNIT = {"units": 1, "activation": "square", "second_layer": [0.5**0.5], "teacher_weights": [0.5**0.5], "m0": [[0.5]]}
ALGORITHMS = {
    "persistent": ({"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.5}, "units"),
    "sgd with a ridge": ({"kind": "sgd", "batch_fraction": 0.5}, "none"),
    "hot, with momentum": ({"kind": "langevin", "temperature": 0.2, "momentum": 0.4}, "units"),
    "Nesterov": ({"kind": "sgd", "batch_fraction": 0.5, "momentum": 0.5, "nesterov": True, "temperature": 0.1}, "units"),
    "Nesterov with a ridge": ({"kind": "sgd", "batch_fraction": 0.5, "momentum": 0.3, "nesterov": True}, "none"),
    "epochs": ({"kind": "sgd", "batch_fraction": 0.5, "minibatch": "reshuffled"}, "none"),
    "drawn with replacement": ({"kind": "sgd", "batch_fraction": 0.5, "minibatch": "with_replacement"}, "units"),
}


@pytest.mark.parametrize("parts", [("sobol",), ("sobol", "ibp", "stein")], ids=["tangents", "all estimators"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_unit_is_the_scalar_solver(name, parts):
    algorithm, constraint = ALGORITHMS[name]
    common = {"alpha": 3.0, "learning_rate": 0.02, "t_max": 0.02 * STEPS, **algorithm}
    ridge = {"ridge": 0.3} if constraint == "none" else {}
    start = {"Q0": [[1.0]]} if ridge else {}
    network = marched(network_run({**UNIT, **common, **start, "constraint": constraint, **ridge}), SAMPLES, 0, parts, 0.5)
    run = make_run({**common, "m0": 0.5, "constraint": "ridge" if ridge else "sphere", **ridge})
    experiment = Experiment.from_run(run)
    scalar = March(experiment, Sampling(SAMPLES, 1, (0,), frozenset(parts), 0.5), None, Wanted.plain(STEPS), Comm())
    while not scalar.done:
        scalar.step()
    for ours, theirs in (("m", "m"), ("C", "q"), ("loss", "loss"), ("delta_nu", "delta_nu"), ("mu", "mu")):
        np.testing.assert_allclose(network.curves[ours].ravel(), scalar.curves[theirs], rtol=1e-12, atol=1e-12, err_msg=ours)
    for ours, theirs in ((network.kernels, scalar.kernels), (network.columns, scalar.columns)):
        for kernel, entries in theirs.items():
            np.testing.assert_allclose(ours[kernel][..., 0, 0], entries, rtol=1e-11, atol=1e-11, err_msg=kernel)
