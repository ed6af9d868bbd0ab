"""Mean overlaps of schedules, momentum and epochs against an independent solution of the theory (a NumPy march, 8 solutions of 4096
or 16384 samples): phase retrieval, alpha = 3, m0 = 0.5, m at steps 5, 20, 60."""

from __future__ import annotations

import numpy as np
import pytest

import sgd_sim
from dmft.model.runfile import parse_run
from tests.run_files import run_text

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def steps(*points):
    return {"kind": "steps", "points": points}


CHAIN = {"kind": "persistent_sgd", "learning_rate": steps((0, 0.02), (30, 0.01)), "persistence": steps((0, 0.5), (30, 1.0)),
         "batch_fraction": steps((0, 0.5), (20, 0.25), (40, 0.7))}
# changes, time of 60 steps, m and its error
CASES = {
    "langevin, eta and T": ({"kind": "langevin", "learning_rate": {"kind": "power", "start": 0.03, "exponent": 1.0, "steps": 20.0},
                             "temperature": steps((0, 0.5), (30, 0.0))}, float(np.sum(0.03 / (1 + np.arange(60) / 20))),
                            (0.6599, 0.7685, 0.8799), (0.0004, 0.0012, 0.0011)),
    "l": ({"kind": "sgd", "batch_fraction": steps((0, 0.3), (20, 0.8), (40, 1.0)), "learning_rate": 0.01}, 0.6,
          (0.5898, 0.7363, 0.8823), (0.0007, 0.0003, 0.0008)),
    "jump": (CHAIN, 0.9, (0.6289, 0.7578, 0.8614), (0.0006, 0.0012, 0.0014)),
    "relax": ({**CHAIN, "batch_change": "relax"}, 0.9, (0.6289, 0.7585, 0.8434), (0.0012, 0.0032, 0.0036)),
    "heavy ball": ({"momentum": 0.8, "learning_rate": 0.006}, 0.36, (0.6203, 0.8430, 0.9754), (0.0001, 0.0004, 0.0014)),
    "nesterov": ({"momentum": 0.8, "nesterov": True, "learning_rate": 0.006}, 0.36, (0.6189, 0.8462, 0.9760),
                 (0.0001, 0.0003, 0.0014)),
    "heavy ball, ridge, sgd": ({"momentum": 0.7, "learning_rate": 0.005, "constraint": "ridge", "ridge": 0.2, "kind": "sgd",
                                "batch_fraction": 0.5}, 0.3, (0.4881, 0.6961, 0.8714), (0.0007, 0.0006, 0.0008)),
    "reshuffled": ({"kind": "sgd", "batch_fraction": 0.25, "minibatch": "reshuffled", "learning_rate": 0.01}, 0.6,
                   (0.5965, 0.7437, 0.8874), (0.0004, 0.0002, 0.0007)),
    "cyclic": ({"kind": "sgd", "batch_fraction": 0.25, "minibatch": "cyclic", "learning_rate": 0.01}, 0.6,
               (0.5959, 0.7435, 0.8871), (0.0003, 0.0002, 0.0008)),
    "ten mini-batches an epoch": ({"kind": "sgd", "batch_fraction": 0.1, "minibatch": "reshuffled", "learning_rate": 0.005}, 0.3,
                                  (0.5495, 0.6623, 0.7983), (0.0010, 0.0002, 0.0006)),
}
TWINS = {"reshuffled": (0.5887, 0.7349, 0.8799), "jump": CASES["relax"][2]}      # of Bernoulli mini-batches; of `relax`


@pytest.mark.parametrize("case", CASES)
def test_means_are_those_of_the_theory(case):
    """Four errors, and 0.003 for terms of order 1/N at N = 500."""
    changes, t_max, want, bars = CASES[case]
    run = parse_run(run_text("gd", t_max=t_max, problem={"alpha": 3.0, "m0": 0.5},
                             simulation={"dimension": 500, "instances": 80, "record": "linear"})).replace(t_max=t_max, **changes)
    assert run.algorithm.steps == 60
    result = sgd_sim.simulate(run)
    mean, error = result.mean().m[[5, 20, 60]], np.hypot(result.error().m[[5, 20, 60]], bars)
    assert np.all(np.abs(mean - want) < 4 * error + 0.003), (mean, want, error)
    if case in TWINS:
        assert np.max(np.abs(mean - TWINS[case]) / error) > 3.5
