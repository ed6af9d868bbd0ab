"""Fluctuation and dissipation at waiting steps: by which temperature would an equilibrium have this correlation and this response?

In a stationary state with heat T and a linear force the central forms below give a T exactly, at any learning rate and for every
spectrum ([fdt-exact]); naive differences err at first order in it. Q = C - m m is taken for C: one direction of N, that of the
teacher, is left out, so that what learning adds to C does not count as fluctuation. Where m rests this is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.equations.weights import WeightDynamics


class Temperatures(NamedTuple):
    """Of row n at waiting steps k, each (J,); NaN where there is no response yet, or no step k - 1."""

    D: np.ndarray  # [fdt-D]
    T_eff: np.ndarray  # [fdt-secant]
    T_loc: np.ndarray  # [fdt-local]


def secant(now: float, last: float, at: np.ndarray, before: np.ndarray) -> np.ndarray:
    """D(n,k) from C(n,n), C(n,n-1), C(n,k) and C(n,k-1). Eq. [fdt-D]."""
    return 0.5 * (now + last - at - before)  # [fdt-D]


def local(after: np.ndarray, before: np.ndarray, Gamma: np.ndarray) -> np.ndarray:
    """T_loc(n,k) from C(n,k+1), C(n,k-1) and Gamma(n,k) = eta R(n,k). Eq. [fdt-local]."""
    return (after - before) / (2.0 * Gamma)  # [fdt-local]


def temperatures(weights: WeightDynamics, steps: np.ndarray, chi: np.ndarray) -> Temperatures:
    """Those of row n at steps k < n, each of which is, with its neighbours, a block by itself. chi: response to a force from k
    on."""
    state, order, Q_now = weights.state, weights.history.order, weights.number("Q_now")
    first = weights.history.first[order]

    def Q(at: np.ndarray) -> np.ndarray:
        """Q(n, k); NaN before t = 0."""
        place = np.minimum(np.searchsorted(first, at), first.size - 1)
        return np.where(at >= weights.experiment.hidden, np.where(at == weights.n, Q_now, state.Q_row[order[place]]), np.nan)

    at, before, after = Q(steps), Q(steps - 1), Q(steps + 1)
    Gamma = weights.experiment.eta_0 * state.R_row[order[np.searchsorted(first, steps)]]
    D = secant(Q_now, float(state.Q_row[order[-1]]), at, before)
    return Temperatures(D, D / chi, local(after, before, Gamma))  # [fdt-secant]
