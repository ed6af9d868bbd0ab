"""Loureiro, "Dimension-free limits of SGD for two-layers neural networks" (slides): the regimes of erf committees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onepass.networks.committee import Committee
from onepass.papers import study
from onepass.result import Ensemble, Trajectory


@dataclass(frozen=True)
class Regime:
    """Excess risks of one regime: gradient flow (gamma -> 0), the ODE with its noise term, and SGD."""

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
class Regimes:
    classical: Regime
    high_dimensional: Regime
    reduction: Reduction


def _regime(name: str, quick: bool) -> Regime:
    changes = ["simulation.dimension=100", "simulation.instances=3", "time.points=31", "time.t_max=30.0"] if quick else []
    run = study(f"loureiro/{name}.toml", changes)
    net, s, t = run.model, run.simulation, run.time.grid()
    assert isinstance(net, Committee)
    start = run.start()
    flow = Committee("erf", net.width, net.teacher_width, 1e-9)
    paths = (net.chain if s.process == "chain" else net.simulate)(s.dimension, s.instances, start, t, s.seed)
    title = f"{run.title}, d = {s.dimension}"
    return Regime(title, net.noise, flow.solve(start, t, rtol=1e-6), net.solve(start, t, rtol=1e-6), paths)


def _reduction(quick: bool) -> Reduction:
    widths = np.array([4, 8, 16] if quick else [4, 8, 16, 32, 64, 128])
    overlap, off_diagonal = [], []
    t = np.geomspace(0.05, 20.0, 40)
    for p in widths:
        net = Committee("erf", int(p), 2, 0.5, 0.001)
        start = {name: v if name == "a" else v[0] for name, v in net.random_start(10**4, 1, seed=3).items()}
        full, reduced = net.solve(start, t, rtol=1e-6), net.reduced().solve(start, t, rtol=1e-6)
        overlap.append(np.abs(full.M - reduced.M).mean(axis=(1, 2)).max())
        off = ~np.eye(p, dtype=bool)
        off_diagonal.append(np.abs(full.Q - reduced.Q)[:, off].max())
    return Reduction(widths, np.array(overlap), np.array(off_diagonal), full, reduced)


def regimes(quick: bool = False) -> Regimes:
    """Classical (small gamma: SGD is gradient flow), high-dimensional (Saad and Solla: the noise term is felt), and
    mean field with high dimension (Q ~ M P^-1 M^T + diag)."""
    return Regimes(_regime("classical", quick), _regime("high_dimensional", quick), _reduction(quick))
