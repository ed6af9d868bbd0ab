"""Two-layer networks with a general activation: the equations of committee_equations.py, their noise, and the mean-field
reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.model.activations import QUADRATIC
from onepass.networks import overlaps
from onepass.networks.bracket_noise import bracket_covariance
from onepass.networks.committee_equations import CommitteeEquations
from onepass.networks.mean_field import MeanFieldCommittee
from onepass.networks.quadratic import QuadraticNetwork


@dataclass(frozen=True)
class Committee(CommitteeEquations):
    """See CommitteeEquations for the parameters."""

    def covariance(self, x: np.ndarray) -> np.ndarray:
        """Covariance of the brackets (bracket_noise.py). Accurate to 1e-3 or better up to p + k = 4 smooth fields and for
        quadratic activations, to a measured two per cent for more fields and for ReLU; RunError where that is not reached."""
        if all(part is QUADRATIC for part in self._pair):
            return self._as_quadratic().covariance(x)
        rows = [self._covariance_of(self.layout.unpack(row)) for row in x.reshape(-1, x.shape[-1])]
        return self.project_covariance(np.stack(rows).reshape(x.shape + x.shape[-1:]), self.layout.unpack(x))

    def _covariance_of(self, s: dict[str, np.ndarray]) -> np.ndarray:
        om = overlaps.omega(s["M"], s["Q"], self.P)
        smooth = self._erf or not self._kinks and all(slopes is None or slopes[0] == slopes[1] for slopes in self._slopes)
        return bracket_covariance(self._pair, om, s["a"], self.a_star, self.noise, self.rate_of_a, self.gamma, smooth)

    def _as_quadratic(self) -> QuadraticNetwork:
        """The same network as a QuadraticNetwork, where every moment is known in closed form."""
        return QuadraticNetwork(
            self.width, self.teacher_width, self.gamma, self.noise, self.second_layer, self.constraint, self.teacher_weights,
            self.teacher_overlaps, self.second_layer_rate,
        )  # fmt: skip

    def reduced(self) -> MeanFieldCommittee:
        """The mean-field and high-dimensional reduction of these equations (mean_field.py)."""
        return MeanFieldCommittee(self)
