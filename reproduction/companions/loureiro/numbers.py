"""Loureiro, "Dimension-free limits of SGD for two-layers neural networks" (slides): the regimes of erf committees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onepass.networks import scaling
from onepass.networks.named import Committee
from onepass.result import Ensemble, Trajectory
from reproduction.companions import study


@dataclass(frozen=True)
class Regime:
    """Excess risks of one regime: gradient flow (gamma -> 0), the ODE with its noise term, and SGD."""

    name: str
    title: str
    noise: float
    flow: Trajectory
    ode: Trajectory
    paths: Ensemble


@dataclass(frozen=True)
class Reduction:
    """Mean-field reduction against the full ODE by width: mean |M - M_reduced| and largest off-diagonal of Q."""

    widths: np.ndarray
    overlap: np.ndarray
    off_diagonal: np.ndarray
    full: Trajectory
    reduced: Trajectory


@dataclass(frozen=True)
class Approach:
    """How far SGD is from a limit: the mean over runs of the largest distance of M, against x = p (mean field, d fixed) or d."""

    x: np.ndarray
    distance: np.ndarray
    error: np.ndarray
    fit: scaling.Fit


@dataclass(frozen=True)
class Regimes:
    """`mean_field`: distance of SGD from gradient flow by width in fixed dimension; `dimensions`: distance from the ODE by d;
    `time_scales`: excess risk by the rate of the second layer (one index, ODE), and of the chain at the largest rate."""

    regimes: list[Regime]
    reduction: Reduction
    mean_field: Approach
    dimensions: Approach
    time_scales: dict[float, Trajectory]
    fast_chain: Ensemble


def _regime(name: str, quick: bool) -> Regime:
    changes = ["simulation.dimension=100", "simulation.instances=3", "time.points=31", "time.t_max=30.0"] if quick else []
    run = study(f"loureiro/{name}.toml", changes)
    net, s, t = run.model, run.simulation, run.time.grid()
    assert isinstance(net, Committee)
    start = run.start()
    flow = Committee("erf", net.width, net.teacher_width, 1e-9)
    paths = (net.chain if s.process == "chain" else net.simulate)(s.dimension, s.instances, start, t, s.seed)
    title = f"{run.title}, d = {s.dimension}"
    return Regime(name, title, net.noise, flow.solve(start, t, rtol=1e-6), net.solve(start, t, rtol=1e-6), paths)


def _one(net: Committee, dimension: int, seed: int = 3) -> dict[str, np.ndarray]:
    """The first random start in that dimension."""
    return {name: v if name == "a" else v[0] for name, v in net.random_start(dimension, 1, seed=seed).items()}


def _reduction(quick: bool) -> Reduction:
    widths = np.array([4, 8, 16] if quick else [4, 8, 16, 32, 64])
    overlap, off_diagonal = [], []
    t = np.geomspace(0.05, 20.0, 40)
    for p in widths:
        net = Committee("erf", int(p), 2, 0.5, 0.001)
        start = _one(net, 10**4)
        full, reduced = net.solve(start, t, rtol=1e-6), net.reduced().solve(start, t, rtol=1e-6)
        overlap.append(np.abs(full.M - reduced.M).mean(axis=(1, 2)).max())
        off = ~np.eye(p, dtype=bool)
        off_diagonal.append(np.abs(full.Q - reduced.Q)[:, off].max())
    return Reduction(widths, np.array(overlap), np.array(off_diagonal), full, reduced)


def _approach(cases: list[tuple[int, int]], x: list[int], runs: int, flow: bool) -> Approach:
    """(p, d) by case: mean over runs of max_t |M - limit| with k = 1, gamma = 1; the limit is the ODE, or gradient flow."""
    t = np.linspace(0.4, 2.0, 5)
    distance, error = [], []
    for p, d in cases:
        net = Committee("erf", p, 1, 1.0)
        start = {"M": np.full((p, 1), 0.2), "Q": 0.7 * np.eye(p) + 0.3}
        limit = (Committee("erf", p, 1, 1e-9) if flow else net).solve(start, t, rtol=1e-6)
        largest = np.abs(net.chain(d, runs, start, t).M - limit.M).max(axis=(1, 2, 3))
        distance.append(largest.mean())
        error.append(largest.std(ddof=1) / np.sqrt(runs))
    return Approach(np.array(x), np.array(distance), np.array(error), scaling.fit_power(x, distance, error))


def _time_scales(quick: bool) -> tuple[dict[float, Trajectory], Ensemble]:
    """y = s(w*.x), p = 10, second layer trained at eps times the rate of the first: the slide of two time scales."""
    t = np.geomspace(1e-2, 30.0, 40)
    paths = {}
    for rate in (0.1, 1.0, 10.0):
        net = Committee("erf", 10, 1, 0.1, second_layer="trained", second_layer_rate=rate)
        start = _one(net, 1000)
        start["a"] = np.tile([1.0, -1.0], 5)    # so that the output at the start is zero on average
        paths[rate] = net.solve(start, t, rtol=1e-6)
    return paths, net.chain(1000, 2 if quick else 5, start, t[:20] if quick else t)


def regimes(quick: bool = False) -> Regimes:
    """Classical (small gamma: SGD is gradient flow), k = 2 and 5; high-dimensional (Saad and Solla), gamma = 0.1 as on the
    slides and 2, where the noise term is felt; mean field (p -> infinity at fixed d), mean field with high dimension
    (Q ~ M P^-1 M^T + diag), the approach to the ODE with d, and two time scales."""
    names = ["classical", "classical_k5", "high_dimensional", "high_dimensional_fast"]
    found = [_regime(name, quick) for name in (names[::3] if quick else names)]
    runs = 6 if quick else 40
    widths, sizes = ([2, 8], [100, 400]) if quick else ([2, 4, 8, 16, 32], [100, 300, 1000, 3000])
    by_width = _approach([(p, 20 + p) for p in widths], widths, runs, True)
    by_size = _approach([(4, d) for d in sizes], sizes, runs, False)
    return Regimes(found, _reduction(quick), by_width, by_size, *_time_scales(quick))
