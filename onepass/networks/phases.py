"""Phases of learning in wide quadratic networks (Bocchi et al.): norms, plateau, escape, solution.

Their scaling: loss (y - yhat)^2, time alpha = steps/N, t = eta alpha; a = 1, orthonormal teacher of p* units.
QuadraticNetwork.from_bocchi is the same model; tests/onepass/phase_formulas.py has more that is known in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dmft.core import streams
from dmft.core.averages import standard_error
from dmft.core.errors import RunError
from onepass.first_passage import ode_exit, risk_measure
from onepass.networks.named import QuadraticNetwork


def plateau_risk(p: int, p_star: int) -> float:
    """E[(y - yhat)^2] on the plateau: 1 + 2/p* - p/(p+2)."""
    return 1.0 + 2.0 / p_star - p / (p + 2.0)


def polar(rho: np.ndarray) -> np.ndarray:
    """S = rho (rho^T rho)^{-1/2}, (..., p, p*): orthonormal columns."""
    u, _, vt = np.linalg.svd(rho, full_matrices=False)
    return u @ vt


def selected_solution(rho0: np.ndarray, q0: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(rho, Q) at the solution the flow reaches: S = polar(rho0) for Q(0) = 1 (where S is conserved exactly); for
    another Q(0) and small overlaps S = polar(Q0^{-1/2} rho0). rho = sqrt(p/p*) S, Q = (p/p*) S S^T."""
    p, p_star = rho0.shape
    if p < p_star:
        raise RunError(f"width = {p} < teacher_width = {p_star}: there are no zero-error solutions")
    if q0 is not None:
        values, vectors = np.linalg.eigh(q0)
        if values[0] <= 0.0:
            raise RunError(f"Q(0) must be positive definite; its smallest eigenvalue is {values[0]:.6g}")
        rho0 = (vectors / np.sqrt(values)) @ vectors.T @ rho0
    s = polar(rho0)
    return np.sqrt(p / p_star) * s, p / p_star * s @ s.T


def stability_limit(p: int, p_star: int) -> float:
    """The solution is stable for eta < p p*/(4 (p*+2)); this is why the best eta grows as p."""
    if p < p_star:
        raise RunError(f"width = {p} < teacher_width = {p_star}: there are no zero-error solutions")
    return p * p_star / (4.0 * (p_star + 2.0))


def random_orthogonal_start(p: int, p_star: int, epsilon: float, seed: int, index: int = 0) -> dict[str, np.ndarray]:
    """Q = 1 and rho_kl ~ N(0, eps^2)."""
    rng = streams.generator(seed, "onepass-phases", index)
    return {"M": epsilon * rng.standard_normal((p, p_star)), "Q": np.eye(p)}


class RateScan(NamedTuple):
    """alpha needed to halve the risk: mean over starts (etas,), error, and the best eta. Infinite: not reached."""

    etas: np.ndarray
    alpha: np.ndarray
    error: np.ndarray
    best: float


def scan_learning_rate(
    p: int, p_star: int, etas: Sequence[float] | np.ndarray, epsilon: float = 1e-2, starts: int = 20, seed: int = 1
) -> RateScan:
    """Solve the ODE over learning rates and random starts; alpha_c is where the risk is half of its first value."""
    means, errors = [], []
    for eta in etas:
        net = QuadraticNetwork.from_bocchi(p, p_star, eta)
        longest = 2.0 * np.log(1.0 / epsilon) * p_star + 20.0
        found = []
        for i in range(starts):
            start = random_orthogonal_start(p, p_star, epsilon, seed, i)
            found.append(ode_exit(net, start, risk_measure(net, 0.5), longest, 1e-6) * p / (2.0 * eta))
        alpha = np.array(found)
        means.append(alpha.mean())
        errors.append(standard_error(alpha) if np.isfinite(alpha).all() else np.nan)
    alpha = np.array(means)
    return RateScan(np.asarray(etas, float), alpha, np.array(errors), float(etas[int(np.argmin(alpha))]))
