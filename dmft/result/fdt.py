"""Effective temperatures of a result, beside the temperature of the bath that slow modes feel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dmft.model.experiment import Experiment
from dmft.model.runfile import Run


@dataclass(frozen=True, eq=False)
class FluctuationDissipation:
    """Columns T_eff (secant from t_w on, [fdt-secant]), T_loc ([fdt-local]), D, chi, C at (t, t_w), each (L, J) with its error over
    replicas, in which ratios were taken one by one; and the bath's a T at every t."""

    run: Run
    columns: Any            # result.theory.Columns
    bath: np.ndarray        # (L,)

    @property
    def t(self) -> np.ndarray:
        """(L,)"""
        return self.columns.t

    @property
    def t_w(self) -> np.ndarray:
        """(J,)"""
        return self.columns.t_w

    def after(self, name: str, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau, a column at (t_w + tau, t_w) and its error, for waiting time j, where it is known."""
        return self.columns.after(name, j)

    def at_end(self, j: int) -> tuple[float, float, float]:
        """t, T_eff(t, t_w) and its error at the last time that has them, for waiting time j; NaN where there is none."""
        tau, value, error = self.after("T_eff", j)
        return (float(self.t_w[j] + tau[-1]), float(value[-1]), float(error[-1])) if tau.size else (np.nan, np.nan, np.nan)


def bath_of(run: Run, t: np.ndarray, nu_hat: np.ndarray, times: np.ndarray) -> np.ndarray:
    """a_n T_n at some of the times t of a run, with a_n = 1/(1 + eta (nu_hat - lambda)): on the sphere a step cools, or heats, what
    it rescales. Eq. [fdt-exact]."""
    experiment, n = Experiment.from_run(run), np.searchsorted(t, times - 1e-9)
    step = np.minimum(n, run.algorithm.steps - 1) + experiment.hidden
    a = 1.0 / (1.0 + experiment.eta_n[step] * (nu_hat[n] - experiment.ridge_n[step]))
    return a * experiment.temperature[step]  # [fdt-exact]
