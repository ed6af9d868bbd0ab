"""Closed forms of Bocchi et al. for wide quadratic networks, in the scaling of onepass/networks/phases.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from onepass.networks.phases import plateau_risk


def plateau_norm(p: int, p_star: int, eta: float = 0.0) -> float:
    """Student norm on the plateau: p/(p+2) for eta -> 0; else the root of
    1 - q (1+2/p) + (2 eta/p) [1 + 2/p* - 2 q (1+2/p) + q^2 (1+2/p)(1+4/p)] = 0 that continues it."""
    one, four = 1.0 + 2.0 / p, 1.0 + 4.0 / p

    def balance(q: float) -> float:
        return 1.0 - q * one + 2.0 * eta / p * (1.0 + 2.0 / p_star - 2.0 * q * one + q * q * one * four)

    low = p / (p + 2.0)
    if eta == 0.0:
        return low
    lowest = (one + 4.0 * eta / p * one) / (4.0 * eta / p * one * four)  # where the parabola turns
    if balance(lowest) > 0.0:
        raise ValueError(f"eta = {eta:g}: the norms have no plateau, they diverge; take a smaller eta")
    return float(brentq(balance, 0.0, lowest))


class Rates(NamedTuple):
    """Per unit of t = eta alpha on the plateau at small eta: overlaps with the teacher grow, those between students
    decay."""

    rho: float
    q: float


def plateau_rates(p: int, p_star: int) -> Rates:
    """rho_kl ~ exp(8 t/(p p*)), Q_kk' ~ exp(-16 t/(p (p+2)))."""
    return Rates(8.0 / (p * p_star), -16.0 / (p * (p + 2.0)))


def loss_reduction(time, epsilon: float, p: int, p_star: int, from_unit_norms: bool = False):
    """Mean relative fall of the risk below its plateau, 4 eps^2 (exp(16 t/p*) - 1)/(1 + 2/p* - p/(p+2)), at
    t = eta alpha/p after the plateau began with rho_kl ~ N(0, eps^2). `from_unit_norms`: eps is the spread at the
    start Q = I instead; the fall of the norms to p/(p+2) then lowers rho^2 by that factor."""
    factor = p / (p + 2.0) if from_unit_norms else 1.0
    growth = np.expm1(16.0 * np.asarray(time, float) / p_star)
    return 4.0 * factor * epsilon**2 * growth / plateau_risk(p, p_star)


def norm_learning(time, p: int, p_star: int, rho0, q0: float = 1.0):
    """Norm q(t) and overlaps rho(t) while both overlaps are small, equal norms, t = eta alpha, eta -> 0:
    q' = (8/p) q (1 - q (p+2)/p), rho = rho0 sqrt(q/q0) exp(8 t/(p p*)) exactly."""
    t = np.asarray(time, float)
    limit = p / (p + 2.0)
    q = limit / (1.0 + (limit / q0 - 1.0) * np.exp(-8.0 * t / p))
    growth = np.sqrt(q / q0) * np.exp(8.0 * t / (p * p_star))
    return q, np.asarray(rho0, float) * growth.reshape(growth.shape + (1,) * np.ndim(rho0))


def decay_constant(p: int, p_star: int, eta: float = 0.0) -> float:
    """For p > p* the risk ends as C/t^2, t = eta alpha: C = (p-p*) p^2 (p*+2)/(128 (p+2)), times
    1/(1 - (4 eta/p)/(1 - 8 eta/(p p*))) at finite eta. (For p = p* it ends as exp(-16 t/(p p*)).)"""
    if p <= p_star:
        raise ValueError(f"width = {p} <= teacher_width = {p_star}: the risk decays exponentially, not as t^-2")
    constant = (p - p_star) * p**2 * (p_star + 2.0) / (128.0 * (p + 2.0))
    return constant / (1.0 - 4.0 * eta / p / (1.0 - 8.0 * eta / (p * p_star)))
