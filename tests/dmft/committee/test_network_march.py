"""The march of networks: histories in blocks, estimators, checkpoints, and the driver around it."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.committee.march import CommitteeMarch
from dmft.equations.tuning import Estimator
from tests.network_cases import PAIR, UNEQUAL, estimates, made, marched, network_run
from workbench.inspection.difference import difference
from workbench.inspection.opening import open_file


def test_blocks_without_merges_are_the_full_history():
    run = network_run(PAIR)
    full, blocks = marched(run, 128), marched(run, 128, per_level=10)
    assert np.array_equal(full.curves["m"], blocks.curves["m"]) and np.array_equal(full.curves["C"], blocks.curves["C"])


def test_pivots_are_held_to_what_the_estimator_says():
    """Those of gradient descent are below a tenth of the variance."""
    run = network_run(UNEQUAL)
    floored = [marched(run, 64, estimator=by).weights.state.floored for by in (
        Estimator(jitter=0.01), Estimator(jitter=0.01, least_of_jitter=10.0), Estimator(jitter=0.05, least_of_jitter=2.0))]
    assert floored[0] == 0 and floored[1] > 5 and floored[2] > 5


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("full_tangents", [False, True])
def test_blocks_cost_little(full_tangents):
    """64 steps in blocks against all 64 steps, with the same random numbers. The twin forgets the older half of the past."""
    run = network_run(PAIR, t_max=6.4)
    full = marched(run, 256, full_tangents=full_tangents)
    blocks = marched(run, 256, per_level=8, full_tangents=full_tangents)
    off = np.abs(full.curves["C"] - blocks.curves["C"]).max() + np.abs(full.curves["m"] - blocks.curves["m"]).max()
    assert blocks.history.slots < 48 and off < 0.03
    forgets = made(run, 256, per_level=8, full_tangents=full_tangents)
    while not forgets.done:
        forgets.step()
        forgets.weights.state.M_C[: forgets.weights.used // 2] = 0.0
        forgets.weights.state.M_C[:, : forgets.weights.used // 2] = 0.0
        np.fill_diagonal(forgets.weights.state.M_C, 1.0)
        forgets.weights.state.factor_from = 0
    assert forgets.diverged or np.abs(full.curves["C"] - forgets.curves["C"]).max() > 2.0 * off


@pytest.mark.long
@pytest.mark.statistical
def test_estimators_of_the_response_agree():
    """Tangents on all samples, one sign vector on all, and the identity with sign vectors on some: the same means."""
    run = network_run({**UNEQUAL, "t_max": 1.5})
    kinds = [(("sobol",), 1.0, True), (("sobol",), 1.0, False), (("sobol", "ibp"), 1 / 8, False)]
    found = [estimates([marched(run, 1024, i, parts, share, full_tangents=full) for i in range(6)], lambda s: s.curves["C"][-1])
             for parts, share, full in kinds]
    for mean, error in found[1:]:
        assert np.all(np.abs(mean - found[0][0]) < 7.0 * np.hypot(error, found[0][1]) + 1e-12)
        assert error.max() < 0.01


@pytest.mark.long
def test_a_march_goes_on_from_its_state():
    run = network_run({**PAIR, "train": 0.05, "temperature": 0.1, "momentum": 0.3}, t_max=2.0)
    whole, first, second = (made(run, 64, per_level=4) for _ in range(3))
    while not whole.done:
        whole.step()
    for _ in range(12):
        first.step()
    second.restore(first.shared(), first.per_sample(), first.per_tangent())
    while not second.done:
        second.step()
    for name, curve in whole.curves.items():
        assert np.array_equal(curve, second.curves[name]), name
    assert all(np.array_equal(kernel, second.kernels[name]) for name, kernel in whole.kernels.items())


@pytest.mark.statistical
def test_epochs_visit_every_sample_once():
    """Reshuffled epochs of two steps differ from independent draws in C; means of both are finite and ordered as for one unit."""
    common = {key: value for key, value in PAIR.items() if key not in ("kind", "persistence")}
    runs = {law: [marched(network_run({**common, "kind": "sgd", "minibatch": law}, t_max=1.0), 1024, i) for i in range(4)]
            for law in ("bernoulli", "reshuffled")}
    (a, a_error), (b, b_error) = (estimates(found, lambda s: s.curves["loss"][-1]) for found in runs.values())
    assert b < a - 4.0 * np.hypot(a_error, b_error)


@pytest.mark.long
@pytest.mark.parametrize("more", [{"history": "full"}, {"history": "dyadic", "blocks_per_level": 4, "nesterov": True,
                                                        "variance_reduction": ["sobol", "stein"]}])
def test_a_kept_state_goes_on_to_a_later_time(tmp_path, monkeypatch, more):
    run = network_run({**PAIR, "samples": 64, "replicas": 1, "momentum": 0.3, "temperature": 0.1, "keep_state": True, "t_max": 1.7,
                       **more})
    dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    longer = run.replace(t_max=3.1)
    rows, take = [], CommitteeMarch.take
    monkeypatch.setattr(CommitteeMarch, "take", lambda march, totals: (rows.append(march.n), take(march, totals)))
    found = dmft.solve(longer, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert min(rows) == 17  # where the shorter one ended
    whole = dmft.solve(longer, quiet=True)
    for name in ("m", "C", "loss", "delta_nu"):
        assert np.array_equal(found.curves[name], whole.curves[name]), name
    assert all(np.array_equal(array, whole.kernels.arrays[name], equal_nan=True) for name, array in found.kernels.arrays.items())
    assert all(np.array_equal(array, whole.columns.arrays[name], equal_nan=True) for name, array in found.columns.arrays.items())


@pytest.mark.long
def test_results_are_saved_with_named_axes(tmp_path):
    run = network_run({**PAIR, "samples": 64, "replicas": 2, "t_max": 0.3, "waiting_times": [0.1]})
    theory = dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    again = dmft.load(tmp_path / "a.h5")
    assert np.array_equal(theory.m, again.m) and again.m.shape == (4, 2, 2) and again.kernels.C.shape == (4, 4, 2, 2)
    import h5py
    with h5py.File(tmp_path / "a.h5") as file:
        assert [axis.label for axis in file["m"].dims] == ["t", "unit", "direction"]
        assert [axis.label for axis in file["replicas/C"].dims] == ["replica", "t", "unit", "unit_prime"]
    C = again.columns.C                     # (t, t_w, unit, unit) of all later times
    np.testing.assert_array_equal(C[np.isfinite(C[:, 0, 0, 0]), 0], again.kernels.C[1:, 1])
    assert again.columns.t_w == pytest.approx([0.1]) and again.bias["columns/chi"].shape == C.shape
    opened = open_file(tmp_path / "a.h5")
    assert "C[0,1](t, t_w)" in [one.name for one in difference(opened, opened).compared]
    more = dmft.solve(run.replace(replicas=3), output=tmp_path / "a.h5", resume=True, quiet=True)
    assert np.array_equal(more.replicas["C"][:2], theory.replicas["C"]) and len(more.replicas["C"]) == 3
    assert more.bias["C"].shape == (4, 2, 2) and np.isfinite(more.mse).all()
