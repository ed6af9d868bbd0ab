"""Oracles of closed models: p = 2, where the energy is a random matrix and every mode is linear."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import roots_chebyu

from dmft.model.experiment import Experiment
from dmft.model.runfile import Experiment as experiment
from dmft.model.runfile import Run


class Matrix(NamedTuple):
    """What the oracle gives, on all steps."""

    m: np.ndarray
    C: np.ndarray
    E: np.ndarray
    Gam: np.ndarray


def closed_run(**keys) -> Run:
    """A run of a closed model: gradient descent to t = 6 in steps of 0.1, from m0 = 0, unless told."""
    return experiment(**{"data": "p_spin", "m0": 0.0, "kind": "gd", "learning_rate": 0.1, "t_max": 6.0, **keys})


def by_matrix(run: Run, variance: float, theta: float) -> Matrix:
    """The exact dynamics on a matrix of semicircle variance `variance` with a spike of strength theta along w0, for every rule,
    heat and schedule: amplitudes of all modes, normalised together. The energy is -w.(J + spike).w/2N.

    Modes of the part normal to w0 have the semicircle's weights; those of w0 itself the measure of the spiked resolvent
    g/(1 - theta g), whose polynomial moments a circle around the spectrum gives to rounding."""
    e = Experiment.from_run(run)
    s, count, steps = np.sqrt(variance), 2 * e.steps + 8, e.steps
    x, w = roots_chebyu(count)
    bulk, weight = 2 * s * x, w * 2 / np.pi
    radius = 1.15 * max(2 * s, theta + variance / theta if theta > s else 2 * s)
    z = radius * np.exp(2j * np.pi * (np.arange(512) + 0.5) / 512)
    g = (z - np.sqrt(z - 2 * s) * np.sqrt(z + 2 * s)) / (2 * variance)
    spiked = g / (1 - theta * g) * z / 512
    m0 = e.m0

    def average(values: np.ndarray, spike: np.ndarray) -> float:
        """Of the squared start: its part along w0, and normal to it."""
        return float(m0**2 * np.sum(spiked * spike).real + (1 - m0**2) * np.sum(weight * values))

    # amplitude(mode, n), its response to a kick at step k, and heat that entered at step k: all linear in the same recursion
    modes = np.concatenate((bulk, z))
    A, B, ahead, heat = (np.array([getattr(e.update, name)[n] for n in range(steps)]) for name in ("A", "B", "ahead", "cooling"))
    heat = 2 * e.temperature * e.eta_n * heat
    P = np.zeros((steps + 1, modes.size), complex)
    kicked = np.zeros((steps + 1, steps + 1, modes.size), complex)  # [n, k]: w_n after a unit force in step k
    P[0], a = 1.0, np.ones(steps)

    def following(w: np.ndarray, n: int) -> np.ndarray:
        """u of step n without force and noise, for any solution w of the linear recursion."""
        before = w[n - 1] if n else w[n]
        y = w[n] + ahead[n] * (w[n] - before)
        return A[n] * y - B[n] * before + e.eta_n[n] * modes * y

    size = bulk.size
    for n in range(steps):
        u, r = following(P, n), np.array([following(kicked[:, k], n) for k in range(n)] + [np.ones(modes.size)])
        noise = sum(heat[k] / e.eta_n[k] ** 2 * e.eta_n[k] ** 2 * np.sum(weight * r[k, :size].real ** 2) for k in range(n + 1))
        a[n] = 1 / np.sqrt(average(u[:size].real ** 2, u[size:] ** 2) + noise)
        P[n + 1], kicked[n + 1, : n + 1] = a[n] * u, a[n] * r
    m = np.array([m0 * np.sum(spiked * P[n, size:]).real for n in range(steps + 1)])
    real, R = P[:, :size].real, kicked[:, :, :size].real
    C, E = np.zeros((steps + 1, steps + 1)), np.zeros(steps + 1)
    for n in range(steps + 1):
        for k in range(n + 1):
            warm = sum(heat[j] * np.sum(weight * R[n, j] * R[k, j]) for j in range(k))
            C[n, k] = C[k, n] = average(real[n] * real[k], P[n, size:] * P[k, size:]) + warm
        warm = sum(heat[j] * np.sum(weight * bulk * R[n, j] ** 2) for j in range(n))
        E[n] = -0.5 * (average(bulk * real[n] ** 2, z * P[n, size:] ** 2) + warm)
    Gam = np.array([[e.eta_n[k] * np.sum(weight * R[n, k]) if k < n else 0.0 for k in range(steps)] for n in range(steps + 1)])
    return Matrix(m, C, E, Gam)
