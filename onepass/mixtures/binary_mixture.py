"""Binary Gaussian mixture, two hidden neurons (Ben Arous et al. 2022, section 4, with the sign of proposition 4.3 corrected)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dmft.core.errors import RunError
from onepass.effective.dynamics import LinearSDE
from onepass.mixtures.binary_integrals import binary_integrals, legendre_rule
from onepass.mixtures.mixture_model import MixtureModel


@dataclass(frozen=True)
class BinaryMixture(MixtureModel):
    """X ~ N(+-mu, I/snr) with label 1 for +mu, network sigma(v.relu(W X)) with two neurons, delta = step/N.

    Statistics v (2,), m (2,), R (2, 2). `quadrature`: Gauss-Legendre nodes per dimension (48: error 1e-14).
    `class_weights` (1, 2) and `class_labels` (1, 2): see MixtureModel."""

    snr: float
    ridge: float
    step: float = 1.0
    quadrature: int = 48
    class_weights: tuple[tuple[float, ...], ...] | None = None
    class_labels: tuple[tuple[float, ...], ...] | None = None

    neurons: ClassVar[int] = 2  # type: ignore[misc]
    directions: ClassVar[int] = 1  # type: ignore[misc]
    labels: ClassVar[np.ndarray] = np.array([[1.0, 0.0]])  # type: ignore[misc]
    slide_width: ClassVar[float] = 0.0      # no solution slides here

    def integrals(self, v: np.ndarray, m: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, ...]:
        A, Ap, B = binary_integrals(v, m[:, 0], R, self.snr, legendre_rule(self.quadrature), self.classes)
        return m[:, 0] * A + np.diagonal(Ap), A[:, None], Ap, B

    def ode_options(self, **options: Any) -> dict[str, Any]:
        """Integrals to round-off: any method will do."""
        return options

    @property
    def start_variance(self) -> float:
        """W ~ N(0, I/(snr N)) as in proposition 4.2; at snr = inf N(0, I/N), of which only the signs of m matter."""
        return 1.0 / self.snr if np.isfinite(self.snr) else 1.0

    @property
    def ring(self) -> float:
        """C_alpha = log((1 - 2 alpha)/(2 alpha)): at snr = inf every fixed point but 0 has |v|^2 = C or v_i^2 = C. ridge < 1/4."""
        self.check_plain("the ring of fixed points")
        if not 0.0 < self.ridge < 0.25:
            raise RunError(f"ridge = {self.ridge}: fixed points other than 0 need 0 < ridge < 1/4")
        return float(np.log((1.0 - 2.0 * self.ridge) / (2.0 * self.ridge)))

    def ring_point(self, angle: float) -> dict[str, np.ndarray]:
        """The fixed point v = m = sqrt(C)(cos, sin)(angle), R = 0 of infinite snr, 0 < angle < pi/2 or its negative: both
        neurons see the same half of the data."""
        v = np.sqrt(self.ring) * np.array([np.cos(angle), np.sin(angle)])
        return {"v": v, "m": v.copy(), "R": np.zeros((2, 2))}

    def optimal_points(self) -> list[dict[str, np.ndarray]]:
        """The two stable fixed points v = m = +-sqrt(C)(1, -1) of infinite snr."""
        v = np.sqrt(self.ring) * np.array([1.0, -1.0])
        return [{"v": s * v, "m": s * v, "R": np.zeros((2, 2))} for s in (1.0, -1.0)]

    def classify(self, v: np.ndarray, m: np.ndarray) -> np.ndarray:
        """Which classifier the network is, elementwise over leading axes: "optimal" (one neuron each way, right signs),
        "ring" (both neurons on the same side), "origin" (neither neuron tells the classes apart), "mixed" otherwise."""
        size = np.sqrt(self.ring) / 10.0
        live = (np.abs(m) > size) & (np.abs(v) > size) & (np.sign(v) == np.sign(m))
        same = np.sign(m[..., 0]) == np.sign(m[..., 1])
        both, none = live.all(-1), ~(np.abs(m) > size).any(-1)
        one_sided = (both & same) | (live.sum(-1) == 1)
        return np.select([both & ~same, one_sided, none], ["optimal", "ring", "origin"], "mixed")

    def ring_sde(self, a: np.ndarray) -> LinearSDE:
        """Fluctuations sqrt(N)(v - a, m - a) about the ring at infinite snr (proposition 4.3, sign corrected), for the
        variables (v_1, v_2, m_1, m_2):

            dv_i = [alpha (m_i - v_i) - a_i (alpha - 2 alpha^2) sum_k a_k (v_k + m_k)] dt + ..., the same for m,
            covariance c alpha^2 a_i a_j between any two of v_i, m_i and v_j, m_j: rank one."""
        a = np.asarray(a, float)
        alpha, one = self.ridge, np.eye(2)
        force = (alpha - 2.0 * alpha**2) * np.outer(a, a)
        A = np.block([[-alpha * one - force, alpha * one - force], [alpha * one - force, -alpha * one - force]])
        return LinearSDE(A, self.step * alpha**2 * np.tile(np.outer(a, a), (2, 2)))
