"""What the exact references share: the setting of a run, their answer, and the weights that follow from rows of the kernels.

Nothing here or in the references beside it imports the package. The weights are written as a linear map of the start and the
noises, z_n = A_n z_0 + sum_k Gam(n,k) (chi_k + heat), from which m, Q and R follow without the recursions of [dmft-Q].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Setting(NamedTuple):
    """A run; ridge = None is the sphere. eta and temperature are numbers, or one for every step (steps,)."""

    alpha: float
    eta: float | np.ndarray
    m0: float
    steps: int
    ridge: float | None = None
    start_variance: float = 1.0  # with a ridge, of the part normal to w0
    label_noise: float = 0.0
    temperature: float | np.ndarray = 0.0
    momentum: float = 0.0  # of the heavy ball

    def per_step(self, values: float | np.ndarray) -> np.ndarray:
        """(rows,): the last row has the settings of the last step."""
        given = np.broadcast_to(values, self.steps)
        return np.append(given, given[-1])

    @property
    def h_variance(self) -> float:
        """<h(0)^2>."""
        return self.start_variance if self.ridge is not None else 1 - self.m0**2


class Answer(NamedTuple):
    """Curves (rows,) and kernels (rows, rows); M_C and C symmetric, M_R and R densities below the diagonal. What a reference does
    not know is NaN."""

    m: np.ndarray
    q: np.ndarray
    loss: np.ndarray
    delta_nu: np.ndarray
    mu: np.ndarray
    M_C: np.ndarray
    M_R: np.ndarray
    C: np.ndarray
    R: np.ndarray


class Weights:
    """m, Q and Gam(n,k) = eta_k R(n,k), one row after the other, as rows of delta_nu, mu, M_C and K_R are entered."""

    def __init__(self, setting: Setting):
        rows = setting.steps + 1
        self.setting, self.n = setting, 0
        self.eta, self.heat = setting.per_step(setting.eta), setting.per_step(setting.temperature)
        self.kept = np.append(0.0, np.full(setting.steps, setting.momentum))  # [momentum]: the first step has none
        self.m, self.from_start, self.a = np.full(rows, np.nan), np.zeros(rows), np.full(rows, np.nan)
        self.Q, self.Gam, self.M_C, self.K_R = (np.zeros((rows, rows)) for _ in range(4))
        self.delta_nu, self.mu, self.loss = (np.full(rows, np.nan) for _ in range(3))
        self.m[0], self.from_start[0], self.Q[0, 0] = setting.m0, 1.0, setting.h_variance

    def enter(self, delta_nu: float, mu: float, M_C: np.ndarray, K_R: np.ndarray, loss: float) -> None:
        """Row n, M_C (n+1,) and K_R (n,); gives row n+1 of the weights."""
        n, setting, eta = self.n, self.setting, self.eta[self.n]
        self.delta_nu[n], self.mu[n], self.loss[n] = delta_nu, mu, loss
        self.M_C[n, : n + 1] = self.M_C[: n + 1, n] = M_C
        self.K_R[n, :n] = K_R
        if n == setting.steps:
            return
        decay, recoil = setting.ridge or 0.0, self.kept[n]
        pull = np.append(eta * K_R, 1 + recoil - eta * (delta_nu + decay))
        m = (1 + recoil - eta * decay) * self.m[n] - eta * mu
        if recoil:
            pull[n - 1] -= recoil
            m -= recoil * self.m[n - 1]
        Gam, start = pull @ self.Gam[: n + 1], pull @ self.from_start[: n + 1]
        Gam[n] += eta
        noise = self.M_C + np.diag(2 * self.heat * (1 - self.kept) / self.eta)
        norm = setting.h_variance * start**2 + Gam @ noise @ Gam + m**2
        self.a[n] = a = 1 / np.sqrt(norm) if setting.ridge is None else 1.0
        self.m[n + 1], self.Gam[n + 1], self.from_start[n + 1] = a * m, a * Gam, a * start
        below = self.Gam[: n + 2]
        row = setting.h_variance * self.from_start[n + 1] * self.from_start[: n + 2] + below @ noise @ self.Gam[n + 1]
        self.Q[n + 1, : n + 2] = self.Q[: n + 2, n + 1] = row
        self.n += 1

    def answer(self) -> Answer:
        C, M_R, R = self.Q + np.outer(self.m, self.m), self.K_R / self.eta, self.Gam / self.eta
        return Answer(self.m, C.diagonal(), self.loss, self.delta_nu, self.mu, self.M_C, M_R, C, R)
