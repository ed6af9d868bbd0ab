"""A theory against numbers that did not come from this package: arrays, tables, CSV files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray

import dmft
from dmft.cli import main
from dmft.core.errors import UserError


@pytest.fixture
def theory(results):
    return results.result


@pytest.fixture
def own(theory):
    """Twelve curves about the theory's m, each with a shift of its own, at times between its steps."""
    t = np.linspace(0.01, 0.39, 9)
    shift = 0.01 * np.random.default_rng(1).standard_normal((12, 1))
    return t, np.interp(t, theory.t, theory.m) + shift


def test_every_form_says_the_same(theory, own, results, tmp_path):
    """Arrays, a mean with its error, a DataFrame, a Dataset and a CSV file; our own simulation as arrays and as a result; twin:
    data that are off by far disagree."""
    t, m = own
    found = dmft.compare(theory, t=t, m=m)
    assert found.verdict == "agree" and found.where == "your data" and found.comparisons[0].simulation.count == 12
    np.testing.assert_allclose(found.comparisons[0].t, t)
    sim = results.sim
    assert dmft.compare(theory, t=sim.t, m=sim.m).max_z == pytest.approx(dmft.compare(theory, sim).max_z, rel=1e-9)
    rows = pd.DataFrame({"t": np.tile(t, 12), "instance": np.repeat(np.arange(12), t.size), "m": m.ravel()}).sample(frac=1.0)
    rows.to_csv(tmp_path / "mine.csv", index=False)
    dataset = xarray.Dataset({"m": (("t", "instance"), m.T)}, coords={"t": t})
    for table in (rows, dataset, tmp_path / "mine.csv", {"t": t, "m": m}):
        assert dmft.compare(theory, table).max_z == pytest.approx(found.max_z, rel=1e-9)
    mean, error = m.mean(axis=0), m.std(axis=0, ddof=1) / 12**0.5
    given = dmft.compare(theory, t=t, m=mean, m_error=error)
    assert given.max_z == pytest.approx(found.max_z, rel=1e-9) and "error bars as given" in str(given)
    assert dmft.compare(theory, t=t, m=m + 0.2).verdict == "disagree"


def test_times_beyond_the_theory_are_left_out(theory, own):
    t, m = own
    found = dmft.compare(theory, t=np.append(t, 99.0), m=np.hstack([m, m[:, -1:]]))
    np.testing.assert_allclose(found.comparisons[0].t, t)
    assert "1 times beyond those of the theory" in str(found)
    end = theory.t[-1] * (1 + 1e-12)        # rounding is no reason to leave a time out
    assert dmft.compare(theory, t=[0.1, end], m=m[:, :2]).comparisons[0].t.size == 2
    with pytest.raises(UserError, match="no time within those of the theory"):
        dmft.compare(theory, t=t + 99.0, m=m)


def test_several_dimensions_of_ones_own(theory, own, results):
    """With its dimension given, data join a simulation on the way to infinity; without, that is refused."""
    t, m = theory.t, np.interp(theory.t, *own[:1], own[1][0])[None] + np.array([[0.0], [0.01], [-0.01]])
    assert dmft.compare(theory, results.sim, t=t, m=m, dimension=500).where == "N -> infinity"
    with pytest.raises(UserError, match="dimension of your own"):
        dmft.compare(theory, results.sim, t=t, m=m)


@pytest.mark.parametrize(("wrong", "words"), [
    ({"m": [[0.5, 0.6]]}, "there are no times, named t; it has m"), ({"t": [0.2, 0.1], "m": [0.5, 0.6]}, "growing times"),
    ({"t": [0.1, 0.2]}, "no curve beside t"), ({"t": [0.1, 0.2], "x": [0.5, 0.6]}, "no curve 'x'; it has .*loss"),
    ({"t": [0.1, 0.2], "m": [0.5]}, r"m has the shape \(1,\), but t has 2 times"),
    ({"t": [0.1, 0.2], "m_error": [0.1, 0.1]}, "without m"), ({"t": [0.1, 0.2], "m": [0.5, np.nan]}, "not a number"),
    ({"t": [0.1, 0.2], "m": [[0.5, np.nan], [0.5, np.inf]]}, "not a number"),
    ({"t": [0.1, 0.2], "m": [0.5, 0.5], "m_error": [0.1, -0.1]}, "below 0"),
    ({"t": [0.1, 0.2], "m": ["a", "b"]}, "tables of numbers"),
    ({"t": [0.1, 0.2], "kernels/C": [0.5, 0.5]}, "no curve"), ({"t": [0.1, 0.2], "m": [0.5, 0.5], "dimension": -5}, "above 0")])
def test_what_does_not_fit_is_refused(theory, wrong, words):
    with pytest.raises(UserError, match=words) as error:
        dmft.compare(theory, **wrong)
    assert "\n" not in str(error.value)


def test_an_array_without_a_name_is_refused(theory):
    with pytest.raises(UserError, match=r"ndarray cannot be compared.*t=\.\.\., m=\.\.\."):
        dmft.compare(theory, np.ones((3, 4)))


@pytest.mark.cli
def test_the_command(results, own, tmp_path, capsys):
    """A CSV file beside a theory file; one that is no table is refused in one line, as one with a missing row."""
    t, m = own
    path = tmp_path / "mine.csv"
    path.write_text("# mine\nt,m,m_error\n" + "\n".join(f"{a},{b},0.01" for a, b in zip(t, m.mean(axis=0))))
    assert main(["compare", str(results.theory), "--data", str(path)]) == 0
    assert "your data" in capsys.readouterr().out
    for text in ("t,m\n0.1,much\n", "t,m\n0.1\n", "t,instance,m\n0.1,0,0.5\n0.2,0,0.5\n0.1,1,0.5\n"):
        path.write_text(text)
        assert main(["compare", str(results.theory), "--data", str(path)]) == 2
        said = capsys.readouterr().err
        assert str(path) in said and said.count("\n") == 1
