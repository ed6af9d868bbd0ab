"""Convergence studies of networks: matrices are compared as a whole."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from tests.network_cases import SPHERES, network_run


@pytest.mark.long
def test_a_study_of_a_network(tmp_path):
    run = network_run({**SPHERES, "kind": "gd", "samples": 1024, "replicas": 2, "t_max": 0.4})
    path = tmp_path / "study.h5"
    study = dmft.convergence_study(run, samples=[512, 1024], learning_rate=[0.1, 0.05, 0.025], output=path, quiet=True)
    axis = study["learning_rate"]
    assert axis.quantities == ("m", "loss", "delta_nu", "mu", "M_C", "M_R", "C", "R") and axis.main == "loss"
    assert axis.curves["m"].shape == (3, 5, 2, 2) and axis.limit["C"].shape == (5, 5, 2, 2)
    gap = axis.curves["m"][0] - axis.curves["m"][2]
    assert axis.table["distance"]["m"][0] == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(axis.curves["m"][2]))
    np.testing.assert_allclose(np.diagonal(axis.limit["C"][range(5), range(5)], axis1=1, axis2=2), 1.0)      # unit spheres
    np.testing.assert_allclose(axis.limit["C"], axis.limit["C"].transpose(1, 0, 3, 2))
    assert 0.3 < axis.orders["loss"][0] < 3.0         # 1.07(23)
    again = dmft.load(path)
    np.testing.assert_array_equal(again["learning_rate"].limit["M_R"], axis.limit["M_R"])
    assert repr(again) == repr(study) and "limit learning_rate -> 0 (Richardson): loss(0.4)" in repr(study)
    study.plot(tmp_path / "study.png")
