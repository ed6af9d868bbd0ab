"""The whole solver with device = "gpu": both solutions of a replica, divergence, stops, and what is refused."""

from __future__ import annotations

from functools import partial
from itertools import count

import h5py
import numpy as np
import pytest

import dmft
from dmft.core import store
from dmft.core.command import load_plugin
from dmft.core.errors import OutcomeWarning, RunError, Stopped, UserError
from dmft.model.losses import register_loss
from dmft.model.runfile import parse_run
from dmft.samples.launches import HELD_BYTES, MOVERS
from dmft.samples.tiling import TILING
from tests.cards import Changed, given_out
from tests.emulate import HostGpu
from tests.run_files import run_text
from workbench.inspection.live import partial_theory

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def few_steps_a_visit(on_this_card, monkeypatch):
    for module in ("runner", "replica"):  # few steps a visit, so that a run of some dozen can be stopped on its way
        monkeypatch.setattr(f"dmft.running.{module}.VISIT", 4)


class After:
    """Wants to stop at the given look at its flags."""

    def __init__(self, looks: int):
        self._looks, self._seen = looks, count(1)

    @property
    def flags(self) -> int:
        return int(next(self._seen) >= self._looks)


def run_of(device: str = "gpu", **changes):
    theory = {"samples": 24, "replicas": 2, "history": "dyadic", "blocks_per_level": 4, "device": device}
    return parse_run(run_text(t_max=0.36, theory=theory)).replace(changes)


def test_every_array_of_a_file_is_that_of_the_cpu(tmp_path):
    """Curves, kernels, columns, bias and history error, and what a resumed run goes on from. The companion with half the blocks has
    as many slots here as the solution itself, but other levels: they must not go together. Rounding is that of a past in single
    precision, 2e-6 of the largest number of an array as measured."""
    changes = {"t_max": 0.8, "samples": 64, "waiting_times": [0.1, 0.3], "kind": "persistent_sgd", "batch_fraction": 0.5,
               "persistence": 0.2}
    arrays = []
    for device in ("gpu", "cpu"):
        dmft.solve(run_of(device, **changes), tmp_path / f"{device}.h5", quiet=True)
        with h5py.File(tmp_path / f"{device}.h5") as file:
            names: list[str] = []
            file.visit(names.append)
            arrays.append({name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)})
    got, want = arrays
    assert got.keys() == want.keys() and len(want) > 200
    for name, array in want.items():
        if array.dtype.kind == "f":
            close = 2e-5 * np.nanmax(np.abs(array), initial=0.0) + 1e-14
            np.testing.assert_allclose(got[name], array, rtol=0, atol=close, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize(("problem", "b_moves"), [
    ({"loss": "logistic", "flip": 0.1, "constraint": "ridge", "ridge": 0.3}, False),
    ({"loss": "smooth_hinge", "data": "mixture", "clusters": [[1, 0.3, 1, 0.5], [-1, 0.7, -1, 2]], "bias": True}, True),
    ({"loss": "door", "data": "mixture", "clusters": [[0, 0.5, -1, 0.5], [1, 0.25, 1, 0.5], [-1, 0.25, 1, 0.5]]}, False),
], ids=["flips", "two clusters", "three clusters"])
def test_data_models_on_a_gpu(card, problem, b_moves):
    """Every curve of a data model, errors and intercept too. The march itself is tested on the host as well (test_gpu_march.py)."""
    if isinstance(card, HostGpu):
        pytest.skip("on a card alone: the same sources are tested for the host step by step")
    got, want = (dmft.solve(run_of(device, **problem), quiet=True) for device in ("gpu", "cpu"))
    assert set(got.curves) == set(want.curves) >= {"error", "training_error"}
    assert (want.b is not None and abs(want.b[-1]) > 1e-3) == b_moves
    for name in ("m", "q", "loss", "error", "training_error", *(["b"] if b_moves else [])):
        np.testing.assert_allclose(got.curves[name], want.curves[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_plugin_runs_on_a_gpu_without_cuda_of_its_own(tmp_path):
    """Three functions of a file, with a helper and a branch; the derivative in y is a difference there and here."""
    (tmp_path / "mine.py").write_text("""
import dmft
from numba import njit

WIDTH = 0.8

@njit
def bend(x, width=WIDTH):
    return x * x / (2.0 * width) if abs(x) < width else abs(x) - 0.5 * width

def v(f, y): return bend(f - y) + 0.1 * (f - y) ** 2
def dv(f, y):
    d = f - y
    if abs(d) < WIDTH:
        slope = d / WIDTH
    else:
        slope = 1.0 if d > 0 else -1
    return slope + 0.2 * d
def d2v(f, y): return (1.0 / WIDTH if abs(f - y) < WIDTH else 0.0) + 0.2

dmft.register_loss("bent", v, dv, d2v, labels="field")
""")
    load_plugin(str(tmp_path / "mine.py"))
    got, want = (dmft.solve(run_of(device, loss="bent"), quiet=True) for device in ("gpu", "cpu"))
    assert abs(want.m[-1] - want.m[0]) > 0.01
    np.testing.assert_allclose(got.m, want.m, rtol=1e-6)
    np.testing.assert_allclose(got.loss, want.loss, rtol=1e-6)


def test_a_stopped_run_goes_on_to_the_last_bit(tmp_path):
    """Through the checkpoint file, in the middle of both replicas, which go abreast."""
    with pytest.raises(Stopped, match="--resume continues"):
        dmft.solve(run_of(), tmp_path / "a.h5", quiet=True, stop=After(4))
    got, want = dmft.solve(run_of(), tmp_path / "a.h5", resume=True, quiet=True), dmft.solve(run_of(), quiet=True)
    np.testing.assert_array_equal(got.m, want.m)
    np.testing.assert_array_equal(got.loss, want.loss)


def test_a_stopped_run_tells_the_means_of_its_replicas(tmp_path):
    """Of curves, kernels and columns, with errors, as far as both replicas have come: those of the whole run."""
    run = run_of(waiting_times=[0.0, 0.1])
    with pytest.raises(Stopped):
        dmft.solve(run, tmp_path / "a.h5", quiet=True, stop=After(4))
    live, whole = partial_theory(store.checkpoint_header(tmp_path / "a.h5")), dmft.solve(run, quiet=True)
    here = np.isfinite(live.m)
    assert 1 < here.sum() < here.size
    np.testing.assert_allclose(live.m[here], whole.m[here], rtol=1e-12)
    for part, times in ((live.columns, live.columns.t), (live.kernels, live.kernels.t)):
        there, want = times <= live.t[here][-1] + 1e-9, whole.columns if part is live.columns else whole.kernels
        assert 1 < there.sum() < there.size
        for name in ("C", "C_error", "R"):
            got, wanted = getattr(part, name), getattr(want, name).copy()
            wanted[~there] = np.nan
            if part is live.kernels:
                wanted[:, ~there] = np.nan
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("changes", [{}, {"snapshots": [0.2]}], ids=["by the card", "by the host"])
def test_replicas_that_begin_later_catch_up(tmp_path, changes):
    """One replica was stopped on its way, two more are asked for: the same bits as all three abreast from the start, and the first
    of them as alone. Where the card does the equations, and where the host does."""
    run = partial(run_of, **changes)
    with pytest.raises(Stopped, match="--resume continues"):
        dmft.solve(run(replicas=1), tmp_path / "a.h5", quiet=True, stop=After(3))
    got = dmft.solve(run(replicas=3), tmp_path / "a.h5", resume=True, quiet=True)
    want = dmft.solve(run(replicas=3), quiet=True)
    np.testing.assert_array_equal(got.replicas["m"], want.replicas["m"])
    np.testing.assert_array_equal(want.replicas["m"][:1], dmft.solve(run(replicas=1), quiet=True).replicas["m"])


def test_divergence_is_told_as_on_the_cpu():
    changes = {"learning_rate": 1.0, "t_max": 30.0, "constraint": "ridge", "ridge": 0.1, "replicas": 1}
    ends, said = [], []
    for device in ("gpu", "cpu"):
        with pytest.warns(OutcomeWarning) as told:
            theory = dmft.solve(run_of(device, **changes), quiet=True)
        ends.append((theory.outcome, int(np.isfinite(theory.m).sum())))
        said.append([str(warning.message) for warning in told])
    assert ends[0] == ends[1] and ends[0][0] == "diverged" and said[0] == said[1] and "diverged at t" in said[0][0]


def test_what_a_gpu_does_not_take_is_one_line(card):
    with pytest.raises(RunError, match='only method = "march" runs there'):
        dmft.solve(run_of(method="iterate"), quiet=True)
    register_loss("from_a_list", lambda f, y: (f - y) ** 2, lambda f, y: [2.0 * (f - y)][0], lambda f, y: 2.0 + 0.0 * f)
    with pytest.raises(RunError, match="'from_a_list': <lambda>: .* cannot be translated to CUDA .*; write it in plain arithmetic"):
        dmft.solve(run_of(loss="from_a_list"), quiet=True)
    short = Changed(card, shared_bytes=HELD_BYTES * (10 + max(TILING.rows_ahead * TILING.row_shares, TILING.ahead * MOVERS)))
    with given_out(short), pytest.raises(
            RunError, match='of 20 steps one by one is too long for this card, which takes 10; take history = "dyadic"'):
        dmft.solve(run_of(history="full"), quiet=True)
    with given_out(Changed(card, free_bytes=lambda: 1000)), pytest.raises(
            UserError, match=r"\[theory\] dyadic: .* GiB are needed and 0.0 GiB are free"):
        dmft.solve(run_of(), quiet=True)
