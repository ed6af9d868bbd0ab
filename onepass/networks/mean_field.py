"""The committee for large width: Q = M P^-1 M^T + diag(q), which holds up to O(p^-1/2 + d^-1/2).

Each unit keeps its teacher overlaps m_i, its perpendicular norm q_i and a_i; different units' perpendicular parts
count as orthogonal, which random starts in high dimension make true and the dynamics preserves for p -> infinity.
The state is O(p k) instead of O(p^2) and an evaluation costs O(p (p+k)^2) instead of O(p^2 (p+k)^2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dmft.core.errors import RunError
from onepass.layout import StatisticsLayout
from onepass.model import Model
from onepass.networks import overlaps
from onepass.networks.network import Network


@dataclass(frozen=True)
class MeanFieldCommittee(Model):
    """The reduction of one committee; it has an ODE alone. Statistics a, M and q (width,), from which Q is rebuilt."""

    full: Network

    @property
    def layout(self) -> StatisticsLayout:
        p, k = self.full.width, self.full.teacher_width
        return StatisticsLayout({"a": (p,), "M": (p, k), "q": (p,)})

    def start(self, initial: Mapping[str, np.ndarray], dimension: int | None = None) -> np.ndarray:
        """From a full start {a, M, Q}: the off-diagonal part of Q beyond M P^-1 M^T is dropped."""
        self.full.averages.check(diagonal=True)
        if self.full.scheduled or self.full.friction > 0.0:
            raise RunError('reduction = "mean_field" has no schedule of the learning rate and no friction; take them out')
        if overlaps.smallest_eigenvalue(self.full.P) < 1e-10:
            raise RunError("the mean-field reduction needs independent teacher vectors; these teacher_overlaps have no inverse")
        full = overlaps.check_start(initial, self.full.layout, self.full.P, self.full.sphere, None)
        s = self.full.layout.unpack(full)
        if s["M"].ndim != 2:
            raise RunError("the mean-field reduction takes one start, not an ensemble")
        return self.layout.pack({"a": s["a"], "M": s["M"], "q": np.diagonal(s["Q"] - self._along(s["M"]))})

    def _along(self, m: np.ndarray) -> np.ndarray:
        return m @ np.linalg.solve(self.full.P, np.swapaxes(m, -1, -2))

    def rebuild(self, s: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Full statistics a, M and Q = M P^-1 M^T + diag(q), leading axes allowed."""
        return {"a": s["a"], "M": s["M"], "Q": self._along(s["M"]) + s["q"][..., :, None] * np.eye(self.full.width)}

    def drift(self, x: np.ndarray) -> np.ndarray:
        s = self.rebuild(self.layout.unpack(x))
        b = self.full.brackets_of(s, diagonal=True)
        norm = np.diagonal(b["Q"])
        dm = b["M"]
        if self.full.sphere:
            dm = dm - 0.5 * s["M"] * norm[:, None]
            norm = np.zeros_like(norm)
        dq = norm - 2.0 * np.sum(dm * np.linalg.solve(self.full.P, s["M"].T).T, axis=1)
        return self.layout.pack({"a": b["a"], "M": dm, "q": dq})

    def observables(self, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        full = self.rebuild(statistics)
        return {"Q": full["Q"], **self.full.observables(full)}

    def to_toml(self) -> str:
        return self.full.to_toml() + 'reduction = "mean_field"\n'
