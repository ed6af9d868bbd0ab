"""What companions tell: the finite-sample bias and the error by the blocks of the history, of every curve and column.

A companion is a solution like any other, so that a run with half the samples, or half the blocks, is an exact oracle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dmft
from dmft.convergence.planning import Target, pilot_of
from dmft.core.averages import standard_error
from dmft.equations.kernels import COLUMNS
from dmft.model.curves import ERRORS, TABLE
from dmft.result.theory import Theory
from workbench.inspection.checks import theory_checks

RUN = """
[problem]
alpha = 3.0
constraint = "ridge"
ridge = 0.2
{start}
[algorithm]
kind = "sgd"
batch_fraction = 0.5
learning_rate = 0.02
t_max = 0.8
[theory]
history = "dyadic"
samples = {samples}
replicas = {replicas}
blocks_per_level = {blocks}
"""


def solved(replicas: int, samples: int, blocks: int, start: str = "m0 = 0.5") -> Theory:
    return dmft.solve(dmft.parse_run(RUN.format(start=start, samples=samples, replicas=replicas, blocks=blocks)), quiet=True)


def figures(theory: Theory) -> dict[str, np.ndarray]:
    """Curves and columns by the names under which their bias goes."""
    names = [name for name in theory.curves if f"{name}_error" in theory.curves]
    return {name: theory.curves[name] for name in names} | {f"columns/{name}": getattr(theory.columns, name) for name in COLUMNS}


@pytest.mark.filterwarnings("ignore::dmft.core.errors.DmftWarning")
@pytest.mark.parametrize("start", ["m0 = 0.5", 'start = "random"'])
def test_companions_are_solutions_with_half_of_it(start):
    """One replica: bias and history error of every curve and column are those of runs with half the samples, and half the blocks
    besides. Twin: without the third, the history error is off by far more than rounding."""
    whole, half, coarse = (solved(1, *how, start) for how in ((64, 8), (32, 8), (32, 4)))
    ours, halved, coarsened = map(figures, (whole, half, coarse))
    for told, wanted in ((whole.bias, {name: halved[name] - ours[name] for name in ours}),
                         (whole.history_error, {name: (coarsened[name] - halved[name]) / 3 for name in ours})):
        assert {name for name in told if f"{name}_error" in told} == set(wanted)
        for name, array in wanted.items():
            assert_allclose(told[name], array, rtol=1e-10, atol=1e-12, err_msg=name)
            assert np.isnan(told[f"{name}_error"]).all()  # one replica has no error bar
    off = np.abs(coarsened["q"] - halved["q"] - whole.history_error["q"]).max()
    assert np.abs(whole.bias["q"]).max() > 1e-3 and off > 1e-9


@pytest.mark.filterwarnings("ignore::dmft.core.errors.DmftWarning")
@pytest.mark.parametrize("start", ["m0 = 0.5", 'start = "random"'])
def test_without_companions_solutions_are_the_same_and_nothing_is_told(start, tmp_path):
    """To the last bit, through a file to which replicas are added; a target of the error needs none of them. The check of the file
    says that bias and history error are not known, which it does not where there are companions."""
    text = RUN.format(start=start, samples=64, replicas=2, blocks=8)
    whole, alone = dmft.parse_run(text), dmft.parse_run(text).replace({"theory.companions": False})
    dmft.solve(alone.replace({"theory.replicas": 1}), tmp_path / "a.h5", quiet=True)
    told, found = dmft.solve(whole, quiet=True), dmft.solve(alone, tmp_path / "a.h5", resume=True, quiet=True)
    assert told.bias and told.history_error and not found.bias and not found.history_error
    for name, curve in told.curves.items():
        assert_array_equal(found.curves[name], curve, err_msg=name)
    for name, kernel in told.kernels.arrays.items():
        assert_array_equal(dmft.load(tmp_path / "a.h5").kernels.arrays[name], kernel, err_msg=name)
    assert pilot_of(alone, Target.parse("m:0.01@0.5")).theory.companions    # a plan needs the bias
    unknown = [[one for one in theory_checks(each) if "companions = false" in one.meaning] for each in (told, found)]
    assert [len(one) for one in unknown] == [0, 1]
    error = float(found.curves["m_error" if found.V is None else "V_error"].max())
    assert len(dmft.solve(alone.replace({"theory.target_error": 0.8 * error}), quiet=True).replicas["m"]) > 2


CLOSED = """
[problem]
data = "p_spin"
powers = [[3, 1.0]]
signal = [[2, 0.5]]
m0 = 0.2
constraint = "sphere"
[algorithm]
kind = "langevin"
temperature = 0.5
learning_rate = 0.05
t_max = 2.0
[theory]
history = "{history}"
blocks_per_level = 8
companions = {companions}
"""


@pytest.mark.parametrize(("history", "companions", "said"), [
    ("dyadic", "false", ["error by the blocks of the history"]), ("dyadic", "true", []), ("full", "false", [])])
def test_without_samples_the_error_by_the_blocks_alone_is_not_known(history, companions, said):
    """There is no bias of finitely many samples, and without blocks no error by them."""
    theory = dmft.solve(dmft.parse_run(CLOSED.format(history=history, companions=companions)), quiet=True)
    assert [one.name for one in theory_checks(theory) if "companions = false" in one.meaning] == said
    assert bool(theory.history_error) == (history == "dyadic" and companions == "true")


@pytest.mark.long
def test_estimates_are_means_over_replicas_with_their_errors(tmp_path):
    """Three replicas; only the first and the last have a companion with half the blocks. More replicas are added through a file,
    with the same bits."""
    whole, half, coarse = (solved(3, *how) for how in ((64, 8), (32, 8), (32, 4)))
    for name in set(whole.replicas) - {curve.name for curve in TABLE if curve.theory == ERRORS}:
        gaps = half.replicas[name] - whole.replicas[name]
        assert_allclose(whole.bias[name], gaps.mean(axis=0), rtol=1e-9, atol=1e-12, err_msg=name)
        assert_allclose(whole.bias[f"{name}_error"], standard_error(gaps), rtol=1e-6, atol=1e-10, err_msg=name)
        gaps = (coarse.replicas[name] - half.replicas[name])[::2] / 3
        assert_allclose(whole.history_error[name], gaps.mean(axis=0), rtol=1e-9, atol=1e-12, err_msg=name)
        assert_allclose(whole.history_error[f"{name}_error"], standard_error(gaps), rtol=1e-6, atol=1e-10, err_msg=name)
    dmft.solve(whole.run.replace(replicas=2), output=tmp_path / "a.h5", quiet=True)
    extended = dmft.solve(whole.run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert set(extended.datasets) == set(whole.datasets)
    for name, array in whole.datasets.items():
        assert_array_equal(extended.datasets[name], array, err_msg=name)


LINEAR = """
[problem]
alpha = 2.0
loss = "linear"
m0 = 0.3
constraint = "ridge"
ridge = 0.2
[algorithm]
kind = "sgd"
learning_rate = 0.1
batch_fraction = 0.3
t_max = 1.5
[theory]
samples = {samples}
replicas = {replicas}
seed = {samples}
"""


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::dmft.core.errors.DmftWarning")
def test_the_bias_of_q_is_what_more_samples_take_away():
    """With c/K, q(K) - q(4K) is three quarters of the bias of K samples. Measured at K = 32: q(1.5) is 0.022(5) above that of 4K,
    and three quarters of the estimate 0.028(5). Twins: no bias at all, or one of the other sign, is more than four errors off."""
    few, many = (dmft.solve(dmft.parse_run(LINEAR.format(samples=samples, replicas=replicas)), quiet=True)
                 for samples, replicas in ((32, 128), (128, 96)))
    gap, estimate = few.q[-1] - many.q[-1], 0.75 * few.bias["q"][-1]
    alone = np.hypot(few.q_error[-1], many.q_error[-1])
    error = np.hypot(alone, 0.75 * few.bias["q_error"][-1])
    assert abs(gap - estimate) < 4 * error
    assert gap > 4 * alone and abs(gap + estimate) > 4 * error
