"""The overlap of the spectral start in closed form, and the power iteration by which the theory reaches it. Eq. [phases].

D = (1/N) sum_mu T(y_mu) xi_mu xi_mu^T is alpha times the matrix of Lu and Li (2020), whose coordinate L is used here; averages are
over the teacher's field h0 ~ N(0, 1) and the noise of the labels, and t = T(y):

    psi(L) = L (1/alpha + <t/(L-t)>) ,   phi(L) = L <t h0^2/(L-t)>
    bulk edges alpha psi(L) where psi' = 0 ;  lambda_1 = alpha psi(L*) with psi(L*) = phi(L*), L* beyond the upper one
    overlap^2 = psi'(L*)/(psi'(L*) - phi'(L*))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # loads scipy.optimize when it is first used, which most runs never do

from dmft.core.errors import RunError
from dmft.model.preprocessing import preprocessing_of

_REACH, _NODES, _LABEL_NODES = 9.0, 6001, 24  # quadrature over |h0| < _REACH, and over the noise of the labels
_LEFT = 3e-4  # share of the bulk that power iteration leaves
_MOST_STEPS = 400  # of power iteration


@dataclass(frozen=True)
class SpectralLaw:
    """The law of (t, h0^2) on nodes, and what follows from it."""

    alpha: float
    t: np.ndarray
    square: np.ndarray  # h0^2
    weight: np.ndarray

    @classmethod
    def of(cls, preprocessing: str, alpha: float, label_noise: float = 0.0) -> SpectralLaw:
        """The law for labels |h0| + sqrt(label_noise) zeta."""
        h0 = np.linspace(-_REACH, _REACH, _NODES)
        zeta, noise_weight = np.polynomial.hermite_e.hermegauss(_LABEL_NODES if label_noise > 0 else 1)
        y = (np.abs(h0)[:, None] + np.sqrt(label_noise) * zeta).ravel()
        weight = (np.exp(-0.5 * h0**2)[:, None] * noise_weight).ravel()
        T = preprocessing_of(preprocessing, alpha)
        return cls(alpha, np.array([T(each) for each in y**2]), np.repeat(h0**2, len(zeta)), weight / weight.sum())

    def psi(self, L: Any) -> Any:
        return L * (1 / self.alpha + self.weight @ (self.t / (L - self.t)))

    def phi(self, L: Any) -> Any:
        return L * (self.weight @ (self.t * self.square / (L - self.t)))

    def psi_slope(self, L: Any) -> Any:
        return 1 / self.alpha - self.weight @ (self.t / (L - self.t)) ** 2

    def phi_slope(self, L: float) -> float:
        return float(-self.weight @ (self.square * (self.t / (L - self.t)) ** 2))

    @property
    def upper(self) -> float:
        """L of the upper edge of the bulk."""
        top = float(self.t[self.weight > 1e-16].max())
        return self._edge(top + 1e-9 * max(1.0, abs(top)), top + 100.0 * (abs(top) + 1.0), 1.0)

    @property
    def lower(self) -> float | None:
        """L of the lower edge of the bulk; None where T >= 0, so that D has no negative eigenvalues."""
        bottom = float(self.t.min())
        far, near = bottom - 100.0 * (abs(bottom) + 1.0), bottom - 1e-9 * max(1.0, abs(bottom))
        return None if bottom >= 0 else self._edge(far, near, -1.0)

    def _edge(self, low: float, high: float, sign: float) -> float:
        found = scipy.optimize.minimize_scalar(lambda L: sign * self.psi(L), bounds=(low, high), method="bounded",
                                               options={"xatol": 1e-10})
        return float(found.x)

    @property
    def outlier(self) -> float | None:
        """L*; None where no eigenvalue leaves the bulk."""
        def excess(L: float) -> float:
            return float(self.psi(L) - self.phi(L))

        low, high = self.upper, 2.0 * self.upper + 1.0
        if excess(low) >= 0:
            return None
        while excess(high) < 0:
            high *= 2.0
        return float(scipy.optimize.brentq(excess, low, high, xtol=1e-12))

    @property
    def overlap(self) -> float:
        """m of the leading eigenvector, 0 where none leaves the bulk."""
        L = self.outlier
        if L is None:
            return 0.0
        slope = float(self.psi_slope(L))
        return float(np.sqrt(slope / (slope - self.phi_slope(L))))  # [phases]


@dataclass(frozen=True)
class PowerIteration:
    """w <- a (w + c D w), `steps` times, from an overlap m0."""

    m0: float
    c: float
    steps: int


def power_iteration(preprocessing: str, alpha: float, label_noise: float = 0.0) -> PowerIteration:
    """The iteration that leaves less than 3e-4 of the bulk. It starts at the overlap of the leading eigenvector, so that little has
    to change. RunError where the leading eigenvector has no overlap, or hardly leaves the bulk."""
    law = SpectralLaw.of(preprocessing, alpha, label_noise)
    L = law.outlier
    if L is None:
        raise RunError(f'[problem] start = "spectral": with preprocessing = "{preprocessing}" the leading eigenvector has no '
                       f"overlap at alpha = {alpha:g}; take a larger alpha, another preprocessing, or a warm start")
    first, edge = alpha * float(law.psi(L)), alpha * float(law.psi(law.upper))
    lowest = 0.0 if law.lower is None else alpha * float(law.psi(law.lower))
    # Both edges of the bulk shrink alike at 2/(-lowest - edge); a little less keeps the lower one inside.
    c = 3.0 / edge if lowest > -edge - 2.0 * edge / 3.0 else 0.9 * 2.0 / (-lowest - edge)
    ratio = max(1 + c * edge, -1 - c * lowest) / (1 + c * first)
    steps = int(np.ceil(np.log(_LEFT) / np.log(ratio)))
    if steps > _MOST_STEPS:
        raise RunError(f'[problem] start = "spectral": at alpha = {alpha:g} the leading eigenvalue {first:.4g} is so close to the '
                       f"bulk ({edge:.4g}) that power iteration takes {steps} steps; take a larger alpha or a warm start")
    return PowerIteration(law.overlap, c, steps)
