"""Random starts, eqs. [random-K], [random-ibp], [random-V]: exact oracles, simulations, and twins that must fail."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dmft.core.errors import RunError
from dmft.core.parallel import Comm
from dmft.equations.history import History
from dmft.equations.kernels import Wanted, history_for
from dmft.equations.random_start import (
    OverlapKernels,
    OverlapRows,
    fluctuations,
    overlap_residual,
    raw_row,
    sample_paths,
)
from dmft.equations.tuning import Estimator
from dmft.equations.weights import WeightDynamics
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.runfile import Run, parse_run
from dmft.result.fluctuations import jackknife_error
from dmft.samples.process import Samples
from dmft.samples.sampling import PARTS, Sampling, draw
from dmft.solvers.blocks import normalised
from dmft.solvers.march import March
from tests.solver_cases import ALGORITHMS

PLAIN = frozenset({"sobol", "weights"})  # every sample has tangents, and nothing completes them
CASES = {"gd": {"kind": "gd"}, "sgd": {"kind": "sgd", "batch_fraction": 0.5},
         "persistent": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0},
         "langevin": {"kind": "langevin", "temperature": 2.0}}


MOVING = CASES | {"heavy ball": {"kind": "gd", "momentum": 0.6},
                  "slower": {"kind": "sgd", "batch_fraction": 0.5, "learning_rate": [[0.0, 0.02], [0.1, 0.01]]}}


def random_run(algorithm: dict, steps: int, problem: str = "", eta: float = 0.02, start: str = 'start = "random"', **theory) -> Run:
    lines = [f"{key} = {value!r}" for key, value in ({"learning_rate": eta} | algorithm).items()]
    options = [f"{key} = {value!r}" for key, value in theory.items()]
    return parse_run("\n".join(["[problem]", "alpha = 2.5", start, problem, "[algorithm]", *lines, f"t_max = {steps * eta}",
                                "[theory]", *options]))


def marched(experiment: Experiment, samples: int, seed: int = 1, parts=PARTS, per_level: int | None = None,
            carriers: int = 512) -> March:
    sampling = Sampling(samples, seed, (0,), frozenset(parts), 1 / 16, estimator=Estimator(least_carriers=carriers))
    march = March(experiment, sampling, per_level, Wanted.plain(experiment.steps), Comm())
    while not march.done:
        march.step()
    return march


def of(march: March, per_level: int | None = None):
    assert march.overlaps is not None
    wanted = Wanted.plain(march.experiment.steps)
    return fluctuations(march.experiment, history_for(march.experiment, per_level, wanted), march.overlaps.rows, wanted)


def made_up(steps: int, slots: int) -> OverlapRows:
    """Rows of a full history with all terms of order one."""
    rng = np.random.default_rng(3)
    K1 = np.tril(rng.normal(size=(steps + 1, slots)), -1) * 20
    noise = rng.normal(size=(steps + 1, steps + 1))
    Z = np.zeros((steps + 1, slots))
    Z[:, : steps + 1] = (40 * noise @ noise.T / steps)[:, :slots]
    now = np.diag(40 * noise @ noise.T / steps)
    return OverlapRows(K1, rng.normal(size=steps + 1) * 10, np.tril(Z, -1), now, 1 + 0.05 * rng.normal(size=steps + 1))


def inverted(experiment: Experiment, rows: OverlapRows) -> tuple[np.ndarray, np.ndarray]:
    """V (rows, rows) and the gain by one matrix inversion: A X = forces."""
    steps, eta = experiment.steps, experiment.eta_0
    A, S = np.eye(steps + 1), np.zeros((steps + 1, steps + 1))
    S[0, 0] = experiment.h_start_variance
    Z = rows.Z[:steps, :steps] + rows.Z[:steps, :steps].T + np.diag(rows.Z_now[:steps])
    a = rows.a[:steps]
    S[1:, 1:] = np.outer(a, a) * (eta**2 * Z + np.diag(2 * experiment.temperature * eta))
    for n in range(steps):
        A[n + 1, : n + 1] += a[n] * eta * np.append(rows.K1[n, :n], rows.K1_now[n])
        A[n + 1, n] -= a[n] * (1 - eta * experiment.constraint.decay)
    inverse = np.linalg.inv(A)
    return inverse @ S @ inverse.T, inverse[:, 0]


@pytest.mark.parametrize("problem", ["", 'constraint = "ridge"\nridge = 0.4\nstart_variance = 0.7'])
def test_the_recursion_is_the_matrix_inversion(problem):
    experiment = Experiment.from_run(random_run(CASES["langevin"], 16, problem))
    rows = made_up(16, 16)
    V, gain = inverted(experiment, rows)
    found = fluctuations(experiment, History(16), rows, Wanted.plain(16))
    assert_allclose(found.kernels["V"], V, rtol=1e-12, atol=1e-13 * V.max())
    assert_allclose(found.V, np.diag(V), rtol=1e-12)
    assert_allclose(found.gain, gain, rtol=1e-12, atol=1e-13)
    # Twins: without the thermal term, without Z, without K1(n,n).
    cold = Experiment.from_run(random_run(CASES["gd"], 16, problem))
    for broken, e in ((rows, cold), (rows._replace(Z=0 * rows.Z, Z_now=0 * rows.Z_now), experiment),
                      (rows._replace(K1_now=0 * rows.K1_now), experiment)):
        assert np.abs(fluctuations(e, History(16), broken, None).V / np.diag(V) - 1).max() > 0.02


@pytest.mark.parametrize("per_level", [None, 4])
def test_sampled_paths_have_the_covariance(per_level):
    """Heat, Z and K1 all act on paths as in V, also over blocks."""
    march = marched(Experiment.from_run(random_run(CASES["langevin"], 20)), 512, per_level=per_level)
    found = of(march, per_level)
    history = history_for(march.experiment, per_level, Wanted.plain(march.experiment.steps))
    X = sample_paths(march.experiment, history, OverlapRows(**march.random_start()), 20_000, np.random.default_rng(1))
    assert_allclose(np.mean(X**2, axis=0), found.V, rtol=0.05)  # 5 errors of sqrt(2/20000)
    at = 5 if per_level is None else int(np.searchsorted(history.fences, 8))  # step 8 has a cell of its own
    assert_allclose(np.mean(X[:, 5 if per_level is None else 8] * X[:, 20]), found.kernels["V"][-1, at], rtol=0.07)


def test_the_first_step_in_closed_form():
    """K1(0,0) = 0 and Z(0,0) = 12 alpha are Gaussian moments, and so is a_0: early V grows as 1 + 4 alpha t. Within five errors,
    which are 3e-4 of V and 2.6e-3 of the slope over eight seeds."""
    alpha, eta = 2.5, 0.02
    V = of(marched(Experiment.from_run(random_run(CASES["gd"], 1)), 1 << 13)).V
    assert V[0] == 1
    assert_allclose(V[1], (1 + 12 * alpha * eta**2) / ((1 - 2 * alpha * eta) ** 2 + 12 * alpha * eta**2), rtol=1.5e-3)
    slope = (of(marched(Experiment.from_run(random_run(CASES["gd"], 1, eta=1e-4)), 1 << 13)).V[1] - 1) / 1e-4
    assert_allclose(slope, 4 * alpha, rtol=0.013)


@pytest.mark.parametrize("name", MOVING)
def test_the_gain_is_the_finite_difference_in_m0(name):
    """dm_n/dm_0 with the random numbers of the m = 0 march: mirrored samples make all kernels even in m0."""
    steps, e = 12, 1e-4
    base = Experiment.from_run(random_run(MOVING[name], steps))
    sampling, gain = Sampling(256, 5, (0,), PLAIN), of(marched(base, 256, 5, PLAIN)).gain

    def m_from(m0: float) -> np.ndarray:
        experiment = Experiment.from_run(random_run(MOVING[name], steps, start=f"m0 = {m0}"))
        march = March(experiment, sampling, None, Wanted.plain(experiment.steps), Comm())
        draws = draw(base, sampling, march.blocks.indices())
        weight = normalised(draws.weight, march.blocks, Comm())
        march.samples = Samples(experiment, march.history, draws, weight, march.blocks.size, sampling)
        while not march.done:
            march.step()
        return march.curves["m"]

    assert_allclose((m_from(e) - m_from(-e)) / (2 * e), gain, rtol=1e-5)
    rows = OverlapRows(**marched(base, 256, 5, PLAIN).random_start())
    broken = fluctuations(base, History(base.steps), rows._replace(K1_now=0 * rows.K1_now), None).gain
    assert np.abs(broken / gain - 1).max() > 0.02


@pytest.mark.parametrize("name", ["gd", "persistent", "langevin"])
def test_the_weighted_identity_holds(name, monkeypatch):
    """At early times, where plain tangents are tame, what rows fail [random-ibp] by is noise; without Z it is not."""
    experiment, seen = Experiment.from_run(random_run(CASES[name], 8)), []

    def watch(self, weights: WeightDynamics, sums, carried, use):
        row = raw_row(weights, sums, carried)
        seen.append([overlap_residual(weights.beside(), each, sums).now for each in (row, row._replace(M_C=0 * row.M_C))])
        return row

    monkeypatch.setattr(OverlapKernels, "estimate", watch)
    gaps = []
    for seed in range(12):
        seen.clear()
        marched(experiment, 2048, seed, PLAIN | {"ibp"}, carriers=2048)
        gaps.append(np.array(seen)[4:8])
    z = np.mean(gaps, axis=0) / (np.std(gaps, axis=0, ddof=1) / np.sqrt(12))
    assert np.abs(z[:, 0]).max() < 6  # Student's t with 11 degrees of freedom: |t| > 6 in 9e-5 of cases
    assert np.abs(z[:, 1]).max() > 8


def test_blocks_change_little():
    """V from rows over a dyadic history, the same random numbers. Measured: 4.6e-3 in V, 8.2e-3 in its kernel; bounds are twice
    that."""
    experiment = Experiment.from_run(random_run(CASES["persistent"], 30))
    full, blocks = of(marched(experiment, 512)), of(marched(experiment, 512, per_level=8), 8)
    assert_allclose(blocks.V, full.V, rtol=0.0092)
    marks = history_for(experiment, 8, Wanted.plain(30)).fences
    assert_allclose(blocks.kernels["V"][:, 5], full.kernels["V"][np.append(marks[marks < 30], 30), 5], rtol=0.0165)
    assert not np.array_equal(blocks.V, full.V)


# Simulations at N = 400 (1280 runs; Langevin T = 2: 960), N <m^2> at t = 0.1, 0.2, 0.4, 0.6, 0.8, 1 and its error.
SIMULATED = {"gd": ((2.27, 3.71, 5.85, 7.08, 7.86, 8.40), (0.05, 0.10, 0.19, 0.24, 0.27, 0.30)),
             "sgd": ((2.27, 3.67, 5.79, 7.15, 8.03, 8.66), (0.05, 0.11, 0.19, 0.26, 0.29, 0.32)),
             "persistent": ((2.16, 3.03, 3.99, 4.67, 5.31, 5.84), (0.05, 0.09, 0.13, 0.15, 0.18, 0.19)),
             "langevin": ((1.99, 3.03, 4.88, 6.40, 7.68, 8.57), (0.07, 0.13, 0.24, 0.29, 0.38, 0.42))}
AT = [5, 10, 20, 30, 40, 50]


def distances(experiment: Experiment, stack: dict[str, np.ndarray], name: str) -> np.ndarray:
    """V minus simulation in combined errors."""
    count = len(stack["a"])
    V = fluctuations(experiment, History(experiment.steps), OverlapRows.mean(stack), None).V[AT]
    without = [fluctuations(experiment, History(experiment.steps), OverlapRows.mean(stack, i), None).V[AT] for i in range(count)]
    mean, error = np.array(SIMULATED[name])
    return (V - mean) / np.hypot(error, jackknife_error(np.array(without)))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_against_simulations(name):
    """Agreement up to t = 1 where tangents alone fail from t = 0.6 on. Six replicas: Student's t with 5 degrees of freedom."""
    run = random_run(CASES[name], 50)
    experiment, rows = Experiment.from_run(run), []
    for seed in range(6):
        rows.append(marched(experiment, 4096, seed).random_start())
    stack = {key: np.array([row[key] for row in rows]) for key in OverlapRows._fields}
    assert np.abs(distances(experiment, stack, name)).max() < 4.5
    assert np.abs(distances(experiment, {**stack, "Z": 0 * stack["Z"], "Z_now": 0 * stack["Z_now"]}, name)).max() > 8
    assert np.abs(distances(experiment, {**stack, "K1_now": 0 * stack["K1_now"]}, name)).max() > 10
    if name == "langevin":
        cold = Experiment.from_run(random_run({"kind": "gd"}, 50))
        assert np.abs(distances(cold, stack, name)).max() > 4.5


def test_what_cannot_start_at_random():
    mixture = 'data = "mixture"\nloss = "logistic"\nclusters = [[1.0, 0.5, 1.0, 1.0], [-1.0, 0.5, -1.0, 1.0]]'
    for problem, options, words in (('loss = "linear"', {}, "even in h0"), (mixture, {}, "clusters"),
                                    (mixture + "\nbias = true", {}, "intercept"), ("", {"method": "iterate"}, "march")):
        with pytest.raises(RunError, match=words) as error:
            theory_experiment(random_run(ALGORITHMS["gd"], 5, problem, **options))
        assert "\n" not in str(error.value) and 'start = "random"' in str(error.value)
    with pytest.raises(RunError, match="m0.*not used"):
        random_run(ALGORITHMS["gd"], 5, "m0 = 0.2")
    assert theory_experiment(random_run(ALGORITHMS["gd"], 5, 'labels = "square"')).centred
