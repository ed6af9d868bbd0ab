"""[lin-volterra]: linear loss with a ridge, mini-batches that are independent in time, heat; any length.

Modes of the data have curvatures x of the Marchenko-Pastur law rho. With P_n = (1 - eta (x + lambda))^n,
F_n = (1 - P_n)/(x + lambda), A_n = m0 P_n + x F_n, kappa the variance of s/l and w_j = eta^2 kappa <e^2>_j x + 2 T eta
the noise of step j:

    m_n = int A_n ,   Gam(n,k) = eta int P_{n-1-k}
    C(n,k) = int (A_n A_k + r0 P_n P_k + D x F_n F_k) + sum_{j < n,k} int P_{n-1-j} P_{k-1-j} w_j
    <e_n e_k> = 1/alpha int x [(A_n - 1)(A_k - 1) + r0 P_n P_k] + D [1 + 1/alpha int (x^2 F_n F_k - x F_n - x F_k)]
                + 1/alpha sum_{j < n,k} int x P_{n-1-j} P_{k-1-j} w_j

which is a Volterra equation for <e^2>_n, twice the loss. With V = (1 + Gam)^-1, K_R(n,k) = -alpha V_nk below the
diagonal, because no step comes twice in a product of s; a step feels its own mini-batch later on, so that M_C(n,k) =
alpha (<e_n e_k> + kappa V_nk <e^2>_k) for k < n, and alpha (1 + kappa) <e^2>_n on the diagonal.
"""

from __future__ import annotations

import numpy as np

from tests.exact.setting import Answer, Setting

KAPPA = {"full batch": lambda l: 0.0, "bernoulli": lambda l: (1 - l) / l, "with_replacement": lambda l: 1 / l}


def marchenko_pastur(alpha: float, nodes: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x and weights of the law of xi' xi/N at M = alpha N (trapezoid rule in the angle: spectrally exact)."""
    angle = np.pi * (np.arange(nodes) + 0.5) / nodes
    x = alpha + 1 + 2 * np.sqrt(alpha) * np.cos(angle)
    weight = 2 * alpha * np.sin(angle) ** 2 / (nodes * x)
    return (x, weight) if alpha >= 1 else (np.append(x, 0.0), np.append(weight, 1 - alpha))


def solve(setting: Setting, law: str = "full batch", fraction: float = 1.0) -> Answer:
    alpha, eta, ridge, D, r0 = setting.alpha, setting.eta, setting.ridge, setting.label_noise, setting.start_variance
    assert ridge is not None and np.ndim(eta) == np.ndim(setting.temperature) == 0
    kappa, rows = KAPPA[law](fraction), setting.steps + 1
    x, rho = marchenko_pastur(alpha)
    n = np.arange(rows)[:, None]
    P = (1 - eta * (x + ridge)) ** n
    F = np.divide(1 - P, x + ridge, out=np.broadcast_to(eta * n, P.shape).copy(), where=x + ridge > 0)
    A = setting.m0 * P + x * F
    lag = n - n.T - 1
    past = np.where((lag >= 0)[..., None], P[np.maximum(lag, 0)], 0.0)  # (n, j, x): P_{n-1-j}
    heat = 2 * setting.temperature * eta
    C = (A * rho) @ A.T + r0 * (P * rho) @ P.T + D * (F * rho * x) @ F.T
    E = ((A - 1) * rho * x) @ (A - 1).T + r0 * (P * rho * x) @ P.T + D * (F * rho * x**2) @ F.T
    E = (E - D * np.add.outer(F @ (rho * x), F @ (rho * x))) / alpha + D
    for j in range(rows):  # <e^2>_j is complete once the noise of the steps before it is in
        noise = rho * (eta**2 * kappa * E[j, j] * x + heat)
        C += (past[:, j] * noise) @ past[:, j].T
        E += (past[:, j] * noise * x) @ past[:, j].T / alpha
    Gam = eta * past @ rho
    V = np.linalg.inv(np.eye(rows) + Gam)
    error, lower = E.diagonal(), np.tril(V, -1)
    feedback = kappa * lower * error
    M_C = alpha * (E + feedback + feedback.T + kappa * np.diag(error))
    m = A @ rho
    mu = alpha * V @ (m - 1)
    return Answer(m, C.diagonal(), error / 2, np.full(rows, alpha), mu, M_C, -alpha * lower / eta, C, Gam / eta)
