"""Arnaboldi et al.: exit times measured against every formula (behind figures 1 to 3 and 5), and the landscape of figure 6."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onepass.first_passage import ExitTimes, measure_exit, overlap_measure, risk_measure
from onepass.networks import exit_times, landscape_single
from onepass.networks.named import QuadraticNetwork

# width, dimension, gamma, Delta, T: the excess risk falls by the fraction T; and how many instances are run
CASES = ((1, 1000, 1 / 12, 0.0, 0.1, 2000), (1, 3000, 1 / 12, 0.0, 0.5, 600), (1, 1000, 0.02, 0.5, 0.1, 600),
         (3, 1000, 0.3, 0.2, 0.1, 800), (8, 1000, 1.5, 0.2, 0.1, 300))  # fmt: skip


@dataclass(frozen=True)
class ExitCase:
    """One network from random starts: the exact chain and the formulas; `nonlinear` and `noisy` for one unit alone (else NaN)."""

    title: str
    chain: ExitTimes
    annealed: float
    quenched: float
    nonlinear: float
    noisy: float


@dataclass(frozen=True)
class ExitTable:
    """Exit times by case, and when the largest overlap reaches `level` with a fixed and a trained second layer, by width."""

    cases: list[ExitCase]
    level: float
    layers: dict[int, dict[str, ExitTimes]]


def exits(quick: bool = False) -> ExitTable:
    """Random starts on the sphere, exact chain: annealed (22), quenched (23), (28), quenched with the exact solution of the
    ODE, and with the noise of SGD. Then d = 1000, gamma = 0.1 p, p = 20 and 50, the networks of figure 3."""
    cases = []
    for p, dimension, gamma, noise, threshold, runs in CASES[:1] + CASES[3:4] if quick else CASES:
        d, instances = (300, 40) if quick else (dimension, runs)
        net = QuadraticNetwork(p, 1, gamma, noise, constraint="sphere")
        parameters = (d, gamma, noise, threshold)
        cases.append(ExitCase(
            f"p = {p}, d = {d}, gamma = {gamma:.4g}, Delta = {noise:g}, T = {threshold:g}",
            measure_exit(net, d, instances, risk_measure(net, threshold), 6.0, resolution=2e-3),
            exit_times.annealed(p, *parameters), exit_times.quenched(p, *parameters).mean,
            exit_times.one_unit_quenched(*parameters) if p == 1 else np.nan,
            exit_times.one_unit_with_noise(*parameters) if p == 1 else np.nan,
        ))  # fmt: skip
    level = 0.5
    layers: dict[int, dict[str, ExitTimes]] = {}
    for p, instances in ((5, 10),) if quick else ((20, 100), (50, 40)):
        layers[p] = {}
        for layer in ("fixed", "trained"):
            net = QuadraticNetwork(p, 1, 0.1 * p, second_layer=layer, constraint="sphere")
            layers[p][layer] = measure_exit(net, 1000, instances, overlap_measure(level), 3.0)
    return ExitTable(cases, level, layers)


@dataclass(frozen=True)
class RiskLandscape:
    """Figure 6: risk over the unit sphere in three dimensions (polar angle from w*, azimuth), risk over the plane of w along
    and across w*, the critical points, and the spectrum on the sphere at the start (m = 0) in dimension d."""

    polar: np.ndarray
    azimuth: np.ndarray
    sphere: np.ndarray
    axis: np.ndarray
    plane: np.ndarray
    points: list[landscape_single.CriticalPoint]
    dimension: int
    spectrum: list[tuple[float, int]]


def figure6(quick: bool = False) -> RiskLandscape:
    """p = 1, no label noise: the risk on the sphere is 2 (1 - m^2); at m = 0 one direction falls and all others are flat."""
    points = 61 if quick else 181
    polar, azimuth = np.linspace(0.0, np.pi, points), np.linspace(0.0, 2.0 * np.pi, points)
    axis = np.linspace(-1.4, 1.4, points)
    w_star = np.array([1.0, 0.0, 0.0])
    plane = np.array([[landscape_single.risk(np.array([along, across, 0.0]), w_star) for along in axis] for across in axis])
    sphere = np.array([[landscape_single.sphere_risk(np.cos(angle))] * points for angle in polar])
    d = 1000
    return RiskLandscape(polar, azimuth, sphere, axis, plane, landscape_single.critical_points(w_star), d,
                     landscape_single.sphere_spectrum(d, 0.0))  # fmt: skip
