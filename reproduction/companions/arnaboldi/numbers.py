"""Arnaboldi, Krzakala, Loureiro, Stephan, "Escaping mediocrity": figures 1 to 5, and the scalings behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onepass.first_passage import ExitTimes, measure_exit, risk_measure
from onepass.networks import exit_times, scaling
from onepass.networks.named import QuadraticNetwork
from onepass.result import Ensemble, Trajectory
from reproduction.companions import study


@dataclass(frozen=True)
class Paths:
    """Many paths from one start: the ODE, ensembles by name, and exit times (from the recorded risk) by name."""

    title: str
    noise: float
    threshold: float
    ode: Trajectory
    ensembles: dict[str, Ensemble]
    exits: dict[str, np.ndarray] = field(default_factory=dict)


def _exits(t: np.ndarray, risk: np.ndarray, noise: float, threshold: float) -> np.ndarray:
    """(paths,) first time at which each path of the risk (paths, times) is below its level, interpolated linearly; NaN if never."""
    level = (1.0 - threshold) * (risk[:, :1] - noise / 2.0) + noise / 2.0
    below = risk <= level
    first = np.argmax(below, axis=1)
    out = np.full(len(risk), np.nan)
    for i in np.flatnonzero(below.any(axis=1)):
        j = first[i]
        a, b = risk[i, j - 1] - level[i, 0], risk[i, j] - level[i, 0]
        out[i] = t[j - 1] + (t[j] - t[j - 1]) * a / (a - b)
    return out


def _sgd_and_sde(name: str, quick: bool, threshold: float) -> Paths:
    changes = ["simulation.dimension=500", "simulation.instances=6"] if quick else []
    run = study(f"arnaboldi/{name}.toml", changes)
    net, start, t, s = run.model, run.start(), run.time.grid(), run.simulation
    ode = net.solve(start, t)
    ensembles = {
        "SGD": net.simulate(s.dimension, s.instances, start, t, s.seed),
        "SDE": net.diffuse(s.dimension, 5 * s.instances, start, t, s.seed),
    }
    assert isinstance(net, QuadraticNetwork)
    noise = net.noise
    exits = {"ODE": _exits(t, ode.risk[None], noise, threshold)}
    exits |= {key: _exits(t, e.risk, noise, threshold) for key, e in ensembles.items()}
    found = measure_exit(net, s.dimension, 20 if quick else 200, risk_measure(net, threshold), run.time.t_max, initial=start)
    exits["chain"] = found.times
    return Paths(f"{run.title}, d = {s.dimension}", noise, threshold, ode, ensembles, exits)


def figure1(quick: bool = False) -> Paths:
    """One unit on the sphere: SGD and SDE from the same start, exit times of both and of the ODE."""
    return _sgd_and_sde("figure1", quick, 0.2)


def figure5(quick: bool = False) -> Paths:
    """The same for two units."""
    return _sgd_and_sde("figure5", quick, 0.2)


@dataclass(frozen=True)
class ExitRatios:
    """Measured exit time over formula, (widths, dimensions), with errors."""

    widths: list[int]
    dimensions: list[int]
    rate: float
    threshold: float
    measured: np.ndarray
    error: np.ndarray
    annealed: np.ndarray
    quenched: np.ndarray


def figure2(quick: bool = False) -> ExitRatios:
    """Exit times of the exact chain from random starts over annealed and quenched formulas, gamma/p fixed."""
    widths, dimensions = ([1, 4], [100, 300]) if quick else ([1, 2, 4, 8], [100, 300, 1000, 3000])
    instances, rate, threshold = (60 if quick else 200), 0.1, 0.1
    shape = (len(widths), len(dimensions))
    measured, error, annealed, quenched = (np.empty(shape) for _ in range(4))
    for i, p in enumerate(widths):
        for j, d in enumerate(dimensions):
            net = QuadraticNetwork(p, 1, rate * p, constraint="sphere")
            found = measure_exit(net, d, instances, risk_measure(net, threshold), 8.0, resolution=2e-3)
            measured[i, j], error[i, j] = found.mean, found.error
            annealed[i, j] = exit_times.annealed(p, d, rate * p, 0.0, threshold)
            quenched[i, j] = exit_times.quenched(p, d, rate * p, 0.0, threshold, 4000).mean
    return ExitRatios(widths, dimensions, rate, threshold, measured, error, annealed, quenched)


@dataclass(frozen=True)
class LargestOverlap:
    """max_j |m_j| against time, fixed and trained second layer: chain paths (instances, times) and ODE (times,)."""

    width: int
    t: np.ndarray
    chain: dict[str, np.ndarray]
    ode: dict[str, np.ndarray]


def figure3(quick: bool = False) -> list[LargestOverlap]:
    """p = 20 and 50, d = 1000: growth of the largest overlap from the same random start."""
    panels = []
    instances = 2 if quick else 5
    for p in (5, 20) if quick else (20, 50):
        t = np.linspace(0.0, 2.0, 81)
        chain, ode = {}, {}
        for layer in ("fixed", "trained"):
            net = QuadraticNetwork(p, 1, 0.1 * p, second_layer=layer, constraint="sphere")
            start = {name: v if name == "a" else v[0] for name, v in net.random_start(1000, 1, seed=4).items()}
            ode[layer] = np.abs(net.solve(start, t, rtol=1e-6).M).max(axis=(1, 2))
            chain[layer] = np.abs(net.chain(1000, instances, start, t, seed=4).M).max(axis=(2, 3))
        panels.append(LargestOverlap(p, t, chain, ode))
    return panels


def figure4(quick: bool = False) -> list[Paths]:
    """p = 5 and 20, d = 5000: the ODE and SGD runs from one random start."""
    panels = []
    for p in (5, 20):
        changes = [f"model.width={p}", f"model.gamma={0.1 * p}"]
        if quick:
            changes += ["simulation.dimension=500", "simulation.instances=3"]
        run = study("arnaboldi/figure4.toml", changes)
        t, s, start = run.time.grid(), run.simulation, run.start()
        sgd = run.model.simulate(s.dimension, s.instances, start, t, s.seed)
        title = f"p = {p}, d = {s.dimension}"
        panels.append(Paths(title, run.model_keys["noise"], 0.0, run.model.solve(start, t, rtol=1e-6), {"SGD": sgd}))
    return panels


@dataclass(frozen=True)
class Gain:
    """Steps to exit against the width: at the formally optimal rate and at gamma = x p; share of runs that exit."""

    widths: list[int]
    dimension: int
    rate: float
    formal: list[ExitTimes]
    formal_formula: np.ndarray
    honest: list[ExitTimes]
    honest_formula: np.ndarray
    steps_per_time: dict[str, np.ndarray]


@dataclass(frozen=True)
class Scalings:
    """Escape by information exponent, distance from the ODE, and the gain by width."""

    escapes: dict[int, scaling.Escape]
    tau: np.ndarray
    distance: np.ndarray
    fit: scaling.Fit
    gain: Gain


def _gain(quick: bool) -> Gain:
    widths, d, x = ([1, 2, 4] if quick else [1, 2, 4, 8, 20]), (300 if quick else 1000), 0.15
    formal: list[ExitTimes] = []
    honest: list[ExitTimes] = []
    instances = 20 if quick else 60
    formulas: dict[str, list[float]] = {"formal": [], "honest": []}
    scale: dict[str, list[float]] = {"formal": [], "honest": []}
    for p in widths:
        for key, gamma, found in (("formal", exit_times.optimal_gamma(p), formal), ("honest", x * p, honest)):
            net = QuadraticNetwork(p, 1, gamma, constraint="sphere")
            found.append(measure_exit(net, d, instances, risk_measure(net, 0.1), 6.0))
            scale[key].append(p * d / gamma)
            formulas[key].append(scale[key][-1] * exit_times.annealed(p, d, gamma, 0.0, 0.1))
    arrays = {key: np.array(values) for key, values in scale.items()}
    return Gain(widths, d, x, formal, np.array(formulas["formal"]), honest, np.array(formulas["honest"]), arrays)


def scalings(quick: bool = False) -> Scalings:
    """Steps to escape for information exponents 1, 2, 3; mean distance of chain and ODE against gamma/(p d); steps by
    width."""
    sizes = {1: [100, 400, 1600], 2: [100, 400, 1600], 3: [30, 60]} if quick else {
        1: [100, 300, 1000, 3000, 10000], 2: [100, 300, 1000, 3000, 10000], 3: [30, 60, 120]}  # fmt: skip
    escapes = {k: scaling.escape_steps(k, d, 10 if quick else 40) for k, d in sizes.items()}
    cases = [(1, 500), (1, 2000), (2, 4000), (4, 8000)] if quick else [
        (1, 300), (1, 1000), (1, 3000), (2, 1000), (2, 10000), (4, 3000), (4, 30000), (8, 100000)]  # fmt: skip
    nets = [QuadraticNetwork(p, 1, 0.1 * p, constraint="sphere") for p, _ in cases]

    def start(net):
        return {"M": np.full((net.width, 1), 0.3), "Q": 0.5 * np.eye(net.width) + 0.5}

    times = np.linspace(0.1, 0.5, 5)
    tau, distance, fit = scaling.ode_distance(nets, [d for _, d in cases], start, times, 20 if quick else 60)
    return Scalings(escapes, tau, distance, fit, _gain(quick))


