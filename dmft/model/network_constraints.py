"""What a step leaves fixed of a network: nothing, the norm of every unit, that of all together, or all overlaps between units.

A step makes u (p, N) from w_n; the constraint turns it into w_{n+1} = A u, where A (p, p) follows from S = u u^T/N. A new one is a
class here, or in a user's file. Theory and simulator both use these classes, and a start must lie where a step would leave it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dmft.model.registry import Physics, Refusal


class NetworkConstraint(Physics, key="network.constraint", section="network"):
    """What theory and simulator ask a constraint of a network for."""

    rescales: ClassVar[bool] = True  # whether A can be another matrix than 1; where it cannot, [problem] ridge applies
    one_pass: ClassVar[str] = ""  # its name in onepass; "": it has no counterpart there

    def scale(self, unit: float, norm: float, trace: float, units: float) -> float:
        """What one of the units (0, 1, ...) is multiplied by, from its own S_rr and from tr S; NaN where these are not positive.
        Scalar code for a card as well, with numbers and fields of the class alone. Eq. [c-a]."""
        raise NotImplementedError(f"{type(self).__name__} has no scale(self, unit, norm, trace, units)")

    def projection(self, S: np.ndarray) -> np.ndarray:
        """A_n (p, p) from S (p, p) of the step before it is scaled; NaN where S is no Gram matrix. One that mixes units is written
        in place of `scale`, and is not for the simulator on a card. Eq. [c-a]."""
        norms, trace, A = S.diagonal(), S.trace(), np.zeros(S.shape)
        if self.rescales and not (norms >= 0).all():
            return np.full_like(S, np.nan)
        for unit, norm in enumerate(norms):
            A[unit, unit] = self.scale(unit, norm, trace, len(S))
        return A

    @property
    def on_card(self) -> bool:
        """Whether the simulator on a card can do it."""
        return type(self).projection is NetworkConstraint.projection

    def start(self, m0: np.ndarray) -> np.ndarray:
        """Q0 (p, p) of a run file without one, for overlaps m0 (p, k): units of norm 1, or where they are brought from there."""
        norms = np.diag(self.projection(np.eye(len(m0)))) ** 2
        return np.diag(norms - (m0**2).sum(axis=1))

    def deviation(self, C: np.ndarray) -> float:
        """By how much entries of a Gram matrix C (p, p) of the weights are not what the constraint fixes."""
        A = self.projection(C)
        return float(np.abs(A @ C @ A.T - C).max())

    def supports(self, use) -> Refusal:
        there = use.by == "simulation" and use.simulation.device == "gpu"
        return 'not on a card so far; take [simulation] device = "cpu"' if there and not self.on_card else ""


class Free(NetworkConstraint, name="none"):
    """Nothing is fixed."""

    rescales: ClassVar[bool] = False
    one_pass: ClassVar[str] = "none"

    def scale(self, unit: float, norm: float, trace: float, units: float) -> float:
        return 1.0


class UnitSpheres(NetworkConstraint, name="units"):
    """|w_r|^2 = N for every unit."""

    one_pass: ClassVar[str] = "sphere"

    def scale(self, unit: float, norm: float, trace: float, units: float) -> float:
        return np.power(norm, -0.5) if norm > 0 else np.nan


class Frobenius(NetworkConstraint, name="frobenius"):
    """sum_r |w_r|^2 = p N."""

    def scale(self, unit: float, norm: float, trace: float, units: float) -> float:
        return np.sqrt(units / trace) if trace > 0 else np.nan


class Orthonormal(NetworkConstraint, name="orthonormal"):
    """w_r.w_q = N delta_rq."""

    def projection(self, S: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(S) if np.isfinite(S).all() else (np.full(len(S), np.nan), S)
        return (vectors / np.sqrt(values)) @ vectors.T if (values > 0).all() else np.full_like(S, np.nan)

    def start(self, m0: np.ndarray) -> np.ndarray:
        return np.eye(len(m0)) - m0 @ m0.T
