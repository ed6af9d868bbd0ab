"""First passage from V: processes whose law is known, what is refused, and the command."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erfc

import dmft
from dmft.core.errors import DmftWarning, UserError
from dmft.model.runfile import parse_run
from dmft.result.escape import first_passage, growth_of
from tests.solver_cases import make_run
from workbench.cli.commands import run_command


def test_one_growing_mode_is_known_exactly():
    """X = x exp(gamma t): the bound is the law, and times grow as ln(N)/(2 gamma)."""
    t, rate = np.linspace(0, 8, 81), 0.6
    V = 1.5 * np.exp(rate * (t[:, None] + t))
    X = np.random.default_rng(1).standard_normal((20_000, 1)) * np.sqrt(np.diag(V))
    laws = [first_passage(t, X, np.diag(V), 0.2, N, growth_of(t, V, t >= 0)) for N in (500, 5000)]
    for law in laws:
        exact = erfc(0.2 * np.sqrt(law.N / (2 * np.diag(V))))
        np.testing.assert_allclose(law.bound, exact)
        assert np.abs((law.probability - exact) / np.maximum(law.probability_error, 1e-3)).max() < 4.5
        assert law.growth is not None
        np.testing.assert_allclose((law.growth.rate, law.growth.v), (rate, 1.5), rtol=1e-9)
        assert abs(law.growth.time(law.b, law.N) - law.time()) < 0.1
    assert laws[0].growth is not None
    np.testing.assert_allclose(laws[0].growth.time(0.2, 5000) - laws[0].growth.time(0.2, 500), np.log(10) / (2 * rate), rtol=1e-9)


def test_brownian_motion_passes_more_often_than_its_end_tells():
    """P(max |B| >= c by t = 1) = 4 sum (-1)^k/(2k+1) ... ; steps of 1/400 miss some, and the erfc bound misses half."""
    t = np.linspace(0, 1, 401)
    X = np.cumsum(np.random.default_rng(1).standard_normal((20_000, 401)) * np.sqrt(np.append(0.0, np.diff(t))), axis=1)
    law = first_passage(t, X, t, 0.1, 100, growth_of(t, np.minimum(t[:, None], t), t >= 0))
    k = np.arange(50)
    inside = 4 / np.pi * np.sum((-1) ** k / (2 * k + 1) * np.exp(-((2 * k + 1) ** 2) * np.pi**2 / 8))
    shift = 0.5826 / np.sqrt(400)  # a discrete watch sees the level this much higher
    watched = 1 - 4 / np.pi * np.sum((-1) ** k / (2 * k + 1) * np.exp(-((2 * k + 1) ** 2) * np.pi**2 / 8 / (1 + shift) ** 2))
    assert abs(law.probability[-1] - watched) < 4.5 * law.probability_error[-1] + 1e-3
    assert law.probability[-1] < 1 - inside and law.bound[-1] < 0.6 * law.probability[-1]
    assert law.growth is None and np.isnan(first_passage(t, X, t, 0.4, 100).time())


def test_what_is_refused():
    t, X = np.linspace(0, 1, 11), np.ones((3, 11))
    for b, N in ((0.0, 100), (-0.1, 100), (0.2, 1)):
        with pytest.raises(UserError, match="escape"):
            first_passage(t, X, np.ones(11), b, N)
    with pytest.warns(DmftWarning, match="linear in m"):
        first_passage(t, X, np.ones(11), 0.6, 100)


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    path = tmp_path_factory.mktemp("escape") / "random.h5"
    text = ('[problem]\nalpha = 2.5\nstart = "random"\n[algorithm]\nkind = "gd"\nlearning_rate = 0.02\nt_max = 0.24\n'
            "[theory]\nsamples = 128\nreplicas = 3\n")
    return path, dmft.solve(parse_run(text), output=path, quiet=True)


def test_a_result_has_its_fluctuations_and_keeps_them(solved):
    path, theory = solved
    again = dmft.load(path)
    assert np.all(theory.m == 0) and theory.V[0] == theory.gain[0] == 1 and theory.V[-1] > 2
    for name, array in theory.curves.items():
        np.testing.assert_array_equal(getattr(again, name), array)
    for name, array in theory.kernels.arrays.items():
        np.testing.assert_array_equal(getattr(again.kernels, name), array)
    np.testing.assert_allclose(np.diag(theory.kernels.V), theory.V, rtol=1e-14)
    assert np.all(theory.V_error[1:] > 0) and theory.V_error[0] == 0
    assert theory.bias["V"].shape == theory.V.shape
    np.testing.assert_array_equal(again.escape(0.1, 300).probability, theory.escape(0.1, 300).probability)


def test_more_replicas_are_added(solved, tmp_path):
    _, theory = solved
    first = dmft.solve(theory.run.replace(replicas=2), output=tmp_path / "a.h5", quiet=True)
    more = dmft.solve(theory.run, output=tmp_path / "a.h5", resume=True, quiet=True)
    np.testing.assert_array_equal(more.V, theory.V)
    np.testing.assert_array_equal(more.V_error, theory.V_error)
    assert not np.array_equal(first.V, theory.V)


@pytest.mark.long
def test_the_command_prints_and_draws(solved, capsys):
    path, _ = solved
    assert run_command(["escape", str(path), "--dimension", "100,400", "--level", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "N = 100" in out and "N = 400" in out and path.with_name("random.escape.png").stat().st_size > 20_000
    assert run_command(["escape", str(path), "--dimension", "100,400", "--level", "0.6"]) == 0
    said = "warning: escape: level b = 0.6 is above 0.5: the theory is linear in m, and holds for small m alone"
    assert capsys.readouterr().err.splitlines() == [said]
    assert run_command(["inspect", str(path)]) == 0
    assert run_command(["escape", str(path), "--dimension", "ten", "--level", "0.1"]) == 2
    assert run_command(["escape", str(path), "--dimension", "100", "--level", "-1"]) == 2


def test_a_warm_start_does_not_escape():
    theory = dmft.solve(make_run({"kind": "gd"}, steps=2, samples=16, replicas=1), quiet=True)
    with pytest.raises(UserError, match='start = "random"'):
        theory.escape(0.3, 100)
