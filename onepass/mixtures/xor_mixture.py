"""XOR Gaussian mixture, four hidden neurons (Ben Arous et al. 2022, section 5, with the sign of proposition 5.1 corrected)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logit

from dmft.core.errors import RunError
from onepass.effective.dynamics import LinearSDE
from onepass.mixtures.mixture_model import MixtureModel
from onepass.mixtures.xor_components import COMPONENT_NAMES, neuron_labels


@dataclass(frozen=True)
class XorMixture(MixtureModel):
    """X ~ N(+-mu, I/snr) with label 1, N(+-nu, I/snr) with label 0; network sigma(v.relu(W X)), four neurons, delta = step/N.

    Statistics v (4,), m (4, 2: along mu, nu), R (4, 4). `quadrature`: log2 of the quasi-Monte-Carlo points of the drift
    (13: error about 1e-5). At infinite snr the drift jumps at m = 0 and solutions slide along it: `solve` then uses a ramp
    of half-width 1e-8 and a stiff integrator. m = 0 is invariant at every snr: which way a neuron goes is decided by the
    signs of m(0), of order N^{-1/2} at random starts. `class_weights` and `class_labels` (2, 2): see MixtureModel."""

    snr: float
    ridge: float
    step: float = 1.0
    quadrature: int = 13
    class_weights: tuple[tuple[float, ...], ...] | None = None
    class_labels: tuple[tuple[float, ...], ...] | None = None

    neurons: ClassVar[int] = 4  # type: ignore[misc]
    directions: ClassVar[int] = 2  # type: ignore[misc]
    labels: ClassVar[np.ndarray] = np.array([[1.0, 1.0], [0.0, 0.0]])  # type: ignore[misc]

    def classify(self, v: np.ndarray, m: np.ndarray) -> np.ndarray:
        """Labels "0", "+mu", "-mu", "+nu", "-nu" of the neurons, (..., 4); xor_components.component names the component."""
        return neuron_labels(v, m, np.sqrt(self.ring) / 10.0)

    def is_optimal(self, v: np.ndarray, m: np.ndarray) -> np.ndarray:
        """True if each of the four means has a neuron of its own, as at the 24 stable fixed points."""
        labels = np.sort(self.classify(v, m), axis=-1)
        return np.all(labels == np.sort(COMPONENT_NAMES[1:]), axis=-1)

    @property
    def ring(self) -> float:
        """C_alpha = -logit(4 alpha): at infinite snr the squares of v over the neurons of one mean sum to C. ridge < 1/8."""
        self.check_plain("the ring of fixed points")
        if not 0.0 < self.ridge < 0.125:
            raise RunError(f"ridge = {self.ridge}: fixed points other than 0 need 0 < ridge < 1/8")
        return float(-logit(4.0 * self.ridge))

    def ring_sde(self, a: np.ndarray) -> LinearSDE:
        """Fluctuations about a pair of quarter rings at infinite snr (proposition 5.1, sign corrected): neurons 1, 2 at
        v = m^mu = a > 0 with a_1^2 + a_2^2 = C, neurons 3, 4 at v = m^nu = a < 0 with a_3^2 + a_4^2 = C. Variables
        (v_1..v_4, m_1^mu, m_2^mu, m_3^nu, m_4^nu) times sqrt(N). Rank two, with the pattern 3, 3, -1."""
        a = np.asarray(a, float)
        alpha, one = self.ridge, np.eye(4)
        group = np.kron(np.eye(2), np.ones((2, 2)))
        force = (alpha - 4.0 * alpha**2) * np.outer(a, a) * group
        A = np.block([[-alpha * one - force, alpha * one - force], [alpha * one - force, -alpha * one - force]])
        return LinearSDE(A, self.step * alpha**2 * np.tile(np.outer(a, a) * (4.0 * group - 1.0), (2, 2)))
