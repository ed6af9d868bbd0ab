"""Ben Arous, Gheissari, Jagannath, "High-dimensional limit theorems for SGD": figures 1 to 3.

Trajectories and endpoints are direct SGD on full vectors; lines, bands and crosses are theory (errata corrected).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import betaincinv

from onepass.effective.dynamics import EffectiveDynamics, LinearSDE, jacobian
from onepass.mixtures.binary_mixture import BinaryMixture
from onepass.mixtures.xor_components import fixed_point_of
from onepass.mixtures.xor_mixture import XorMixture
from onepass.result import Ensemble
from onepass.runfile import OnePassRun
from onepass.spiked.phases import FixedPoint, fixed_points
from onepass.spiked.tensor import SpikedTensor
from reproduction.companions import study


@dataclass(frozen=True)
class Portrait:
    """A flow in the plane: grid axes x (nx,), y (ny,), its field dx, dy (ny, nx), curves (points, 2)."""

    x: np.ndarray
    y: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    stable_curves: list[np.ndarray] = field(default_factory=list)
    unstable_curves: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class SpikedPanel:
    """One model of figure 1: SGD paths t (times,), m, r2 (runs, times), band (times,) = standard deviation of m by the
    Ornstein-Uhlenbeck limit (empty where it does not apply), fixed points and portrait."""

    model: SpikedTensor
    dimension: int
    t: np.ndarray
    m: np.ndarray
    r2: np.ndarray
    band: np.ndarray
    points: list[FixedPoint]
    portrait: Portrait


@dataclass(frozen=True)
class Fraction:
    """hits of runs, a predicted probability, and the 95 % interval of Clopper and Pearson."""

    hits: int
    runs: int
    predicted: float

    @property
    def value(self) -> float:
        return self.hits / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        low = betaincinv(self.hits, self.runs - self.hits + 1, 0.025) if self.hits else 0.0
        high = betaincinv(self.hits + 1, self.runs - self.hits, 0.975) if self.hits < self.runs else 1.0
        return float(low), float(high)


@dataclass(frozen=True)
class MixtureFigure:
    """Figures 2 and 3: fraction of runs at the optimal classifier, endpoints (runs, 2) in a plane of m and which are optimal,
    rings' radius and isolated points (n, 2) there, portrait, and the fluctuations sqrt(N)(m - a) about a ring of infinite
    snr: t (times,), paths (runs, times, variables), standard deviations by the SDE and as printed (times,), and the
    covariance (variables, variables) of the SDE at the last time. `finite`: the same fluctuations at the last time (runs,
    variables) by snr, from the exact chain; `chain_fraction`: more runs of that chain than SGD has."""

    dimension: int
    snr: float
    fraction: Fraction
    endpoints: np.ndarray
    optimal: np.ndarray
    radius: float
    points: np.ndarray
    portrait: Portrait | None
    t: np.ndarray
    paths: np.ndarray
    deviation: np.ndarray
    printed: np.ndarray
    covariance: np.ndarray
    names: tuple[str, ...]
    chain_fraction: Fraction
    finite: dict[float, np.ndarray]


def _manifolds(model: SpikedTensor, point: FixedPoint) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Stable and unstable curves of a saddle: the flow run backwards and forwards from beside it."""
    x = np.array([point.m, point.r2])
    values, vectors = np.linalg.eig(jacobian(model, x))
    backwards = EffectiveDynamics({"m": (), "r2": ()}, f=model.drift)
    forwards = EffectiveDynamics({"m": (), "r2": ()}, f=lambda u: -model.drift(u))
    curves: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for value, vector in zip(values.real, vectors.real.T, strict=True):
        for side in (1e-4, -1e-4):
            start = x + side * vector
            flow = forwards if value > 0 else backwards
            path = flow.solve({"m": start[0], "r2": start[1]}, np.geomspace(1e-3, 200.0, 600) / abs(value))
            curve = np.stack([path.m, path.r2], axis=-1)
            curves[int(value > 0)].append(curve[np.isfinite(curve).all(-1)])
    return curves


def _spiked_panel(run: OnePassRun, initial: dict, runs: int, width: float) -> SpikedPanel:
    model, n, t = run.model, run.simulation.dimension, run.time.grid()
    assert isinstance(model, SpikedTensor)
    sgd = model.simulate(n, runs, initial, t, run.simulation.seed)
    band = np.zeros(0)
    if model.order == 2:  # sqrt(n) m from a standard normal start, r2 = 1
        ou = LinearSDE(np.array([[4.0 * (model.signal - 1.0)]]), np.array([[8.0]]))
        band = np.sqrt([(ou.mean(s, np.ones(1))[0] ** 2 + ou.covariance(s)[0, 0]) / n for s in t])
    x, y = np.linspace(-width, width, 61), np.linspace(0.01, 1.8, 45)
    drift = model.drift(np.stack(np.meshgrid(x, y), axis=-1))
    points = fixed_points(model)
    stable, unstable = [], []
    for point in points:
        if point.eigenvalues.real.min() < 0.0 < point.eigenvalues.real.max():
            s, u = _manifolds(model, point)
            stable += s
            unstable += u
    portrait = Portrait(x, y, drift[..., 0], drift[..., 1], stable, unstable)
    return SpikedPanel(model, n, t, sgd.m, sgd.r2, band, points, portrait)


def figure1(quick: bool = False) -> list[SpikedPanel]:
    """Matrix PCA below and above the threshold from random starts for 10 n steps, and order 3 from warm starts on both
    sides of m_dagger."""
    runs = 6 if quick else 12
    panels = []
    for name in ("below", "above"):
        run = study(f"benarous/matrix_pca_{name}.toml", ["simulation.dimension=300"] if quick else [])
        panels.append(_spiked_panel(run, run.start(runs), runs, 0.8))
    run = study("benarous/tensor_pca.toml", ["simulation.dimension=600"] if quick else [])
    warm = {"m": np.linspace(0.12, 0.5, runs), "r2": np.ones(runs)}
    panels.append(_spiked_panel(run, warm, runs, 1.4))
    return panels


def _deviations(sde: LinearSDE, t: np.ndarray, index: int) -> np.ndarray:
    return np.sqrt([sde.covariance(s)[index, index] for s in t])


def _printed_sign(sde: LinearSDE, force: np.ndarray) -> LinearSDE:
    """The SDE of propositions 4.3 and 5.1 as printed, with the wrong sign of the force towards the ring."""
    return LinearSDE(sde.A + 2.0 * np.tile(force, (2, 2)), sde.S)


def _ends(name: str, quick: bool) -> tuple[OnePassRun, Ensemble]:
    """SGD of a run file from random starts, recorded at the last time alone."""
    run = study(name, ["simulation.dimension=100", "simulation.instances=100"] if quick else [])
    s = run.simulation
    return run, run.model.simulate(s.dimension, s.instances, run.start(s.instances), [run.time.t_max], s.seed)


FINITE_SNR = (100.0, 1000.0)


def _about_the_ring(model, a: dict, t_max: float, dimension: int, runs: int, entries) -> dict[float, np.ndarray]:
    """sqrt(N)(m - a) at the last time, by snr: the exact chain from the ring, with W^perp as large as at random starts."""
    found = {}
    for snr in FINITE_SNR:
        finite = replace(model, snr=snr)
        start = {**a, "R": np.eye(model.neurons) / snr}
        paths = finite.chain(dimension, runs, start, [t_max]).m[:, 0] - a["m"]
        found[snr] = np.sqrt(dimension) * entries(paths)
    return found


def _chain_fraction(run: OnePassRun, optimal, runs: int, predicted: float) -> Fraction:
    """The share of optimal runs of the exact chain, with other random numbers than those of SGD."""
    s = run.simulation
    draw = run.model.random_start  # type: ignore[attr-defined]
    end = run.model.chain(s.dimension, runs, draw(s.dimension, runs, s.seed + 1), [run.time.t_max], s.seed + 1)
    return Fraction(int(optimal(end.v[:, 0], end.m[:, 0]).sum()), runs, predicted)


def figure2(quick: bool = False) -> MixtureFigure:
    """Binary mixture, N = 250, lambda = 100, alpha = 0.1: where SGD ends, and how it fluctuates about a ring."""
    run, end = _ends("benarous/binary_mixture.toml", quick)
    model, N = run.model, run.simulation.dimension
    assert isinstance(model, BinaryMixture)
    optimal = model.classify(end.v[:, 0], end.m[:, 0]) == "optimal"

    around = study("benarous/binary_ring.toml", ["simulation.dimension=100", "simulation.instances=60"] if quick else [])
    limit, a, t, s = around.model, around.start(), around.time.grid(), around.simulation
    assert isinstance(limit, BinaryMixture)
    sde = limit.ring_sde(a["v"])
    paths = np.sqrt(s.dimension) * (limit.simulate(s.dimension, s.instances, a, t, s.seed).m - a["m"])
    printed = _printed_sign(sde, (limit.ridge - 2.0 * limit.ridge**2) * np.outer(a["v"], a["v"]))

    axis = np.linspace(-1.8, 1.8, 60)  # even: no grid line on an axis
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    flow = limit.drift(np.concatenate([grid, grid, np.zeros(grid.shape[:2] + (3,))], axis=-1))
    return MixtureFigure(
        N, model.snr, Fraction(int(optimal.sum()), len(optimal), 0.5), end.m[:, 0], optimal,
        float(np.sqrt(model.ring)), np.stack([p["m"] for p in model.optimal_points()]),
        Portrait(axis, axis, flow[..., 2], flow[..., 3]), t, paths, _deviations(sde, t, 2), _deviations(printed, t, 2),
        sde.covariance(float(t[-1]))[2:, 2:], ("m_1", "m_2"),
        _chain_fraction(run, lambda v, m: model.classify(v, m) == "optimal", 60 if quick else 4000, 0.5),
        _about_the_ring(limit, a, float(t[-1]), s.dimension, s.instances, lambda m: m),
    )  # fmt: skip


def figure3(quick: bool = False) -> MixtureFigure:
    """XOR mixture, N = 250, lambda = 1000, alpha = 0.1: the same, in the plane of m_1 and m_2 along mu."""
    run, end = _ends("benarous/xor_mixture.toml", quick)
    model, N = run.model, run.simulation.dimension
    assert isinstance(model, XorMixture)
    optimal = model.is_optimal(end.v[:, 0], end.m[:, 0])

    limit, watched = replace(model, snr=np.inf), 60 if quick else 500
    a = fixed_point_of(("+mu", "+mu", "-nu", "-nu"), limit.ring, np.array([2.0, 1.0, 1.0, 2.0]))
    sde = limit.ring_sde(a["v"])
    t = np.linspace(0.0, 20.0, 41)
    own = limit.simulate(N, watched, a, t).m[..., [0, 1, 2, 3], [0, 0, 1, 1]]
    group = np.kron(np.eye(2), np.ones((2, 2)))
    printed = _printed_sign(sde, (limit.ridge - 4.0 * limit.ridge**2) * np.outer(a["v"], a["v"]) * group)
    r = float(np.sqrt(model.ring))
    points = np.array([[r, -r], [-r, r], [r, 0.0], [-r, 0.0], [0.0, r], [0.0, -r], [0.0, 0.0]])
    return MixtureFigure(
        N, model.snr, Fraction(int(optimal.sum()), len(optimal), 3 / 32), end.m[:, 0, :2, 0], optimal, r, points, None, t,
        np.sqrt(N) * (own - a["v"]), _deviations(sde, t, 4), _deviations(printed, t, 4), sde.covariance(float(t[-1]))[4:, 4:],
        (r"m_1^\mu", r"m_2^\mu", r"m_3^\nu", r"m_4^\nu"), _chain_fraction(run, model.is_optimal, 60 if quick else 2000, 3 / 32),
        _about_the_ring(limit, a, float(t[-1]), N, watched, lambda m: m[:, [0, 1, 2, 3], [0, 0, 1, 1]]),
    )  # fmt: skip
