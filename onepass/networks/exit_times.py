"""How long one-pass SGD stays near its uninformative start: formulas for quadratic networks on the sphere, a = 1.

The exit time t is where the excess risk has fallen by a fraction T: R(t) - Delta/2 = (1 - T) (R(0) - Delta/2).
Steps are p d t / gamma. Formulas linearise the ODE about m = 0, Q = I unless said otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # loads its parts when they are first used
from scipy.special import dawsn

from dmft.core.averages import mean_and_error
from dmft.core.errors import RunError
from onepass.networks.overlaps import random_overlaps


class ExitTimeEstimate(NamedTuple):
    """A mean and its standard error (0 where it is computed exactly)."""

    mean: float
    error: float


def rates(width: int, gamma: float, noise: float = 0.0) -> tuple[float, float]:
    """(omega_M, omega_Q): m grows as exp(omega_M t), Q_jl (j != l) decays as exp(-omega_Q t)."""
    p = width
    omega_m = 4.0 * (1.0 - gamma / p * (1.0 + 1.0 / p + 4.0 / p**2 + noise / 2.0))
    return omega_m, 8.0 / p * (1.0 - 8.0 * gamma / p**2)


def _growing(width: int, gamma: float, noise: float) -> float:
    omega, _ = rates(width, gamma, noise)
    if omega <= 0.0:
        limit = width / (1.0 + 1.0 / width + 4.0 / width**2 + noise / 2.0)
        raise RunError(f"gamma = {gamma:g}: m = 0 is stable, SGD never exits; take gamma below {limit:.6g}")
    return omega


def _check_threshold(threshold: float) -> None:
    if not 0.0 < threshold < 1.0:
        raise RunError(f"threshold T = {threshold}; it must lie between 0 and 1")


def annealed(width: int, dimension: int, gamma: float, noise: float, threshold: float) -> float:
    """Exit time at the mean initial overlaps: log[(p+1)(T d + 1 - T)/(2p)]/(2 omega_M)."""
    _check_threshold(threshold)
    p = width
    argument = (p + 1) * (threshold * dimension + 1.0 - threshold) / (2.0 * p)
    return float(np.log(argument) / (2.0 * _growing(p, gamma, noise)))


def quenched(
    width: int, dimension: int, gamma: float, noise: float, threshold: float, samples: int = 20000, seed: int = 1
) -> ExitTimeEstimate:
    """Mean of the exit time over random starts: E log[(T p(p+1) d + (2 mu0 p - tau0)(1-T))/(2 mu0 p)]/(2 omega_M),
    mu0 = d sum m_j^2, tau0 = d sum_{j != l} Q_jl^2. For p = 1 by quadrature over the exact law of m0^2, Beta(1/2,
    (d-1)/2); else over `samples` exact draws."""
    _check_threshold(threshold)
    p, d, t = width, dimension, threshold
    omega = _growing(p, gamma, noise)
    if p == 1:
        law = scipy.stats.beta(0.5, (d - 1) / 2.0)
        return ExitTimeEstimate(law_mean(lambda u: np.log(t / u + 1.0 - t), law) / (2.0 * omega), 0.0)
    start = random_overlaps(p, np.eye(1), d, samples, seed, sphere=True)
    mu = d * np.sum(start["M"] ** 2, axis=(1, 2))
    tau = d * (np.sum(start["Q"] ** 2, axis=(1, 2)) - p)
    times = np.log((t * p * (p + 1) * d + (2 * mu * p - tau) * (1 - t)) / (2 * mu * p)) / (2.0 * omega)
    mean, error = mean_and_error(times)
    return ExitTimeEstimate(float(mean), float(error))


def law_mean(f, law) -> float:
    """E f(U) for a distribution on (0, 1) with a singularity at 0, by its quantile function u = F^-1(v^2)."""
    value, _ = scipy.integrate.quad(lambda v: 2.0 * v * f(law.ppf(v * v)), 0.0, 1.0, epsabs=1e-10, limit=400)
    return float(value)


# --- one unit --------------------------------------------------------------------------------------------------


def one_unit_exact(m0: float, gamma: float, noise: float, threshold: float) -> float:
    """Exit time of dm/dt = m [A (1 - m^2) - 2 gamma Delta], A = 4 (1 - 6 gamma), without linearising:
    t = log[u_T (w - A u0)/(u0 (w - A u_T))]/(2 w), u0 = m0^2, u_T = T + (1-T) u0, w = A - 2 gamma Delta;
    infinite when the fixed point lies before the threshold."""
    _check_threshold(threshold)
    slope = 4.0 * (1.0 - 6.0 * gamma)
    w = _growing(1, gamma, noise)
    u0 = m0 * m0
    u_exit = threshold + (1.0 - threshold) * u0
    if slope > 0.0 and w - slope * u_exit <= 0.0:
        return float("inf")
    return float(np.log(u_exit * (w - slope * u0) / (u0 * (w - slope * u_exit))) / (2.0 * w))


def one_unit_quenched(dimension: int, gamma: float, noise: float, threshold: float) -> float:
    """Mean of `one_unit_exact` over a start uniform on the sphere in that dimension."""
    law = scipy.stats.beta(0.5, (dimension - 1) / 2.0)
    return law_mean(lambda u: one_unit_exact(np.sqrt(u), gamma, noise, threshold), law)


def one_unit_with_noise(dimension: int, gamma: float, noise: float, threshold: float) -> float:
    """`one_unit_quenched` less log(1 + kappa)/(2 w): SGD noise adds to the initial overlap as if mu0 were
    (1 + kappa) mu0 with kappa = gamma (24 + 2 Delta)/w (which is 1 at the optimal learning rate)."""
    w = _growing(1, gamma, noise)
    kappa = gamma * (24.0 + 2.0 * noise) / w
    return one_unit_quenched(dimension, gamma, noise, threshold) - float(np.log1p(kappa)) / (2.0 * w)


def hypergeometric_2f2(z: float) -> float:
    """2F2(1, 1; 3/2, 2; -z) for z >= 0, as (2/z) times the integral of Dawson's function from 0 to sqrt z."""
    if z < 0.0:
        raise ValueError("z must not be negative")
    if z < 1e-8:
        return 1.0 - z / 3.0
    root = np.sqrt(z)
    value, _ = scipy.integrate.quad(dawsn, 0.0, root, epsabs=0.0, epsrel=1e-13, limit=500, points=None if root < 5 else [1.0, 3.0])
    return float(2.0 / z * value)


def ornstein_uhlenbeck(dimension: int, gamma: float, noise: float, threshold: float, m0: float = 0.0) -> float:
    """Mean exit time of dm = mu m dt + sigma dB from |m| < sqrt T, started at m0, for one unit:
    [T F(mu T/sigma^2) - m0^2 F(mu m0^2/sigma^2)]/sigma^2, F(z) = 2F2(1, 1; 3/2, 2; -z), sigma^2 = (gamma/d)(48 +
    4 Delta), mu = 4 (1 - 6 gamma) - 2 gamma Delta. It exists at m0 = 0, where the ODE stays for ever."""
    _check_threshold(threshold)
    drift = _growing(1, gamma, noise)
    variance = gamma / dimension * (48.0 + 4.0 * noise)
    f_exit = hypergeometric_2f2(drift * threshold / variance)
    f_start = hypergeometric_2f2(drift * m0 * m0 / variance)
    return (threshold * f_exit - m0 * m0 * f_start) / variance


def ornstein_uhlenbeck_quenched(dimension: int, gamma: float, noise: float, threshold: float) -> float:
    """Mean of `ornstein_uhlenbeck` over a start uniform on the sphere in that dimension; starts beyond sqrt T are out at once. (The
    version of their eq. 59 that Arnaboldi et al. leave out; eq. 59 itself is the one from m0 = 0.)"""
    law = scipy.stats.beta(0.5, (dimension - 1) / 2.0)

    def time(u: float) -> float:
        return ornstein_uhlenbeck(dimension, gamma, noise, threshold, np.sqrt(u)) if u < threshold else 0.0

    return law_mean(time, law)


# --- learning rate and width -------------------------------------------------------------------------------------


def optimal_gamma(width: int, noise: float = 0.0) -> float:
    """The gamma that minimises the steps of the linear formulas: p^3/(8 + 2p + (2 + Delta) p^2). For p >= 2 and
    Delta < 4 - 2/p - 8/p^2 it lies above `recovery_limit`; at any noise the plateau would be left soonest, but the teacher is
    not recovered."""
    p = width
    return p**3 / (8.0 + 2.0 * p + (2.0 + noise) * p * p)


def recovery_limit(width: int, teacher_width: int = 1) -> float:
    """Largest gamma at which recovery is stable without label noise: p k/(2 (k + 2)), p/6 for one teacher unit."""
    if width < teacher_width:
        raise RunError(f"width = {width} < teacher_width = {teacher_width}: the teacher cannot be recovered")
    return width * teacher_width / (2.0 * (teacher_width + 2.0))


def steps(time: float, width: int, dimension: int, gamma: float) -> float:
    """Number of SGD steps in a time: p d t/gamma."""
    return width * dimension * time / gamma


def honest_gain(x: float, noise: float = 0.0) -> float:
    """Ratio of the steps of p = 1 at `optimal_gamma` to those of p -> infinity at gamma = x p, x < 1/6, where recovery is stable:
    2 (12 + Delta) x (1 - x (1 + Delta/2)), which is 3.33 at x = 1/6 without noise. This is the limit d -> infinity; it is
    approached from above, as 1/log d. (With the wide network at `optimal_gamma`, which does not recover the teacher, the ratio
    is (12 + Delta)/(2 + Delta).)"""
    if not 0.0 < x <= 1.0 / 6.0:
        raise RunError(f"x = gamma/p = {x:g}; recovery is stable for 0 < x < 1/6")
    return 2.0 * (12.0 + noise) * x * (1.0 - x * (1.0 + noise / 2.0))
