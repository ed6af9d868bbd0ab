"""Bocchi et al., wide quadratic networks: figures 1 to 4 and the degrees of freedom (5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onepass.networks import landscape, phases
from onepass.networks.named import QuadraticNetwork
from onepass.result import Ensemble, Trajectory
from reproduction.companions import study


@dataclass(frozen=True)
class Overlaps:
    """Figure 1: alpha (times,), the ODE and an ensemble. plateau_risk is that of the paper, E[(y - yhat)^2], which is twice the
    `risk` of ODE and ensemble."""

    alpha: np.ndarray
    ode: Trajectory
    ensemble: Ensemble
    plateau_risk: float
    title: str


def figure1(quick: bool = False) -> Overlaps:
    """p = 6, p* = 3: order parameters from one random start, the ODE against the exact chain in N dimensions."""
    changes = ["model.gamma=0.2", "simulation.dimension=1000", "simulation.instances=3"] if quick else []
    run = study("bocchi/figure1.toml", changes)
    net, s, t, start = run.model, run.simulation, run.time.grid(), run.start()
    assert isinstance(net, QuadraticNetwork)
    ensemble = net.chain(s.dimension, s.instances, start, t, s.seed)
    risk = phases.plateau_risk(net.width, net.teacher_width)
    title = f"{run.title}, eta = {net.gamma / 2:g}, N = {s.dimension}"
    return Overlaps(t * net.width / net.gamma, net.solve(start, t), ensemble, risk, title)


@dataclass(frozen=True)
class RateScans:
    """Figure 2: alpha_c against eta, and the best eta against the width, with the stability limits."""

    first: phases.RateScan
    widths: list[int]
    best: np.ndarray
    limits: np.ndarray
    slope: float
    slope_error: float


def figure2(quick: bool = False) -> RateScans:
    """p* = 3, eps = 0.01: samples needed to halve the risk; best learning rate by width."""
    shares = np.linspace(0.1, 1.3, 5 if quick else 17)
    widths, starts = ([3, 6], 3) if quick else ([3, 4, 6, 8, 10, 12], 20)
    first = phases.scan_learning_rate(3, 3, shares * phases.stability_limit(3, 3), starts=starts)
    limits = np.array([phases.stability_limit(p, 3) for p in widths])
    middle = shares if quick else np.linspace(0.4, 1.1, 15)
    best = [phases.scan_learning_rate(p, 3, middle * limit, starts=3 if quick else 8).best for p, limit in zip(widths, limits)]
    line = np.polyfit(widths, best, 1)
    scatter = np.std(best - np.polyval(line, widths)) * np.sqrt(len(widths) / max(len(widths) - 2, 1))
    error = scatter / (np.std(widths) * np.sqrt(len(widths))) if len(widths) > 2 else np.nan
    return RateScans(first, widths, np.array(best), limits, float(line[0]), float(error))


@dataclass(frozen=True)
class Selection:
    """Figures 3 and 4: t = eta alpha, distance of rho(t) to the predicted solution and risks (starts, times), the
    first start being the one predicted for; entries of S(t) (times, p, p*) from orthonormal and from iid students."""

    t: np.ndarray
    distance: np.ndarray
    risk: np.ndarray
    s_orthonormal: np.ndarray
    s_iid: np.ndarray


def figure3(quick: bool = False) -> Selection:
    """p = 6, p* = 3, eta = 0.01, eps = 0.01: the solution that is reached, and what is conserved."""
    p, k, eta = 6, 3, 0.01
    t = np.linspace(0.0, 60.0, 61 if quick else 241)
    net = QuadraticNetwork.from_bocchi(p, k, eta)
    times = 2.0 * t / p

    def path(start):
        return net.solve(start, times, rtol=1e-10, atol=1e-13)

    paths = [path(phases.random_orthogonal_start(p, k, 0.01, 1, i)) for i in range(3 if quick else 9)]
    target, _ = phases.selected_solution(paths[0].M[0])
    distance = np.array([np.linalg.norm(one.M - target, axis=(1, 2)) for one in paths])
    iid = {name: v if name == "a" else v[0] for name, v in net.random_start(100, 1, seed=2).items()}
    risks = np.array([2.0 * one.risk for one in paths])
    return Selection(t, distance, risks, phases.polar(paths[0].M), phases.polar(path(iid).M))


@dataclass(frozen=True)
class Dimensions:
    """Figures 5 and 6: by width p, degrees of freedom of the outputs and dimension of the solutions, per p*."""

    widths: np.ndarray
    n: int
    outputs: np.ndarray
    solutions: dict[int, np.ndarray]


def figure5(quick: bool = False) -> Dimensions:
    """Degrees of freedom and dimension of the solutions by width, for N = 12."""
    n, widths = 12, np.arange(1, 21)
    outputs = np.array([landscape.degrees_of_freedom(int(p), n) for p in widths])
    solutions = {
        k: np.array([landscape.manifold_dimension(int(p), k, n) if p >= k else np.nan for p in widths], float)
        for k in (1, 2, 4, 8)
    }
    return Dimensions(widths, n, outputs, solutions)
