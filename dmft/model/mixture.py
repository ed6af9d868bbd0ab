"""Gaussian mixtures: clusters on one axis, x = c w0/sqrt(N) + sqrt(Delta) z with z ~ N(0, I), labels by cluster.

In teacher.py's notation k = h0 + c/sqrt(Delta) with h0 ~ N(0, 1) the noise along w0, y = y(c), sd = sqrt(Delta). Labels do not
depend on h0, so that integration by parts in h0 leaves mu = E_n + alpha <g c/sqrt(Delta)>.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from dmft.model.losses import Loss, even_in_field, jumps_in_field
from dmft.model.observables import field_average
from dmft.model.teacher import CLUSTERS, Jump, Labelled, Metric


@dataclass(frozen=True)
class Mixture:
    """A loss and clusters (c, probability, label, Delta); with `bias` an intercept b is learnt too."""

    loss: Loss
    clusters: tuple[tuple[float, float, float, float], ...]
    bias: bool = False
    control: ClassVar[str] = CLUSTERS
    plain: ClassVar[bool] = False
    draws: ClassVar[int] = 1
    kind: ClassVar[str] = "clusters"

    @property
    def even(self) -> bool:
        """As Teacher.even; an intercept breaks the symmetry."""
        return even_in_field(self.loss) and not self.bias

    def even_in_teacher(self, loss: Loss) -> bool:
        """As Teacher.even_in_teacher, whatever the loss: the clusters at c and at -c are the same."""
        return not self.bias and sorted(self.clusters) == sorted((-c, *rest) for c, *rest in self.clusters)

    def by_parts(self, loss: Loss) -> bool:
        """As Teacher.by_parts: labels do not depend on h0."""
        return True

    def smooth(self, loss: Loss) -> bool:
        """As Teacher.smooth."""
        return not jumps_in_field(loss, tuple({label for _, _, label, _ in self.clusters})) if loss.smooth is None else loss.smooth

    @property
    def classifies(self) -> bool:
        """Whether labels are +1 and -1."""
        return all(abs(label) == 1.0 for _, _, label, _ in self.clusters)

    @property
    def strata(self) -> tuple[float, ...]:
        """The share of each cluster, which the weights of the samples keep exactly."""
        return tuple(probability for _, probability, _, _ in self.clusters)

    def members(self, u: np.ndarray) -> np.ndarray:
        """Clusters of samples from uniforms, (count,)."""
        edges = np.cumsum(self.strata)[:-1]
        return np.searchsorted(edges, u, side="right")

    def draw(self, h0: np.ndarray, u: np.ndarray) -> Labelled:
        """As Teacher.draw."""
        member = self.members(u[:, 0])
        c, _, label, Delta = np.array(self.clusters)[member].T
        sd = np.sqrt(Delta)
        return Labelled(h0 + c / sd, label, sd, np.zeros_like(h0), c / sd, member)

    def jump(self, u: np.ndarray) -> Jump:
        """Labels do not jump."""
        return Jump(np.zeros(len(u)), 0.0)

    def _predicted(self, c: float, Delta: float, sign: float, m: np.ndarray, q: np.ndarray, b: np.ndarray | float) -> np.ndarray:
        """Probability that a new sample of a cluster is given this sign."""
        L, centre, spread = self.loss.threshold, c * m + b, np.sqrt(Delta * q)
        if L > 0:
            inside = ndtr((L - centre) / spread) - ndtr((-L - centre) / spread)
            return inside if sign < 0 else 1.0 - inside
        return ndtr(sign * centre / spread)

    def errors(self, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
        """On new samples: the share of wrong labels where labels are signs, else the mean square of y - f."""
        zero = np.zeros(np.broadcast(m, q, b).shape)
        if not self.classifies:
            return {"mse": sum((probability * ((c * m + b - label) ** 2 + Delta * q)
                                for c, probability, label, Delta in self.clusters), zero)}
        return {"error": sum((probability * self._predicted(c, Delta, -label, m, q, b)
                              for c, probability, label, Delta in self.clusters), zero)}

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> np.ndarray:
        """As Teacher.generalization; the prediction is a sign where labels are, otherwise the field f ~ N(c m + b, Delta q)."""
        total = np.zeros(np.broadcast(m, q, b).shape)
        for c, probability, label, Delta in self.clusters:
            if self.classifies:
                for sign in (1.0, -1.0):
                    value = f(np.array(label), np.array(sign))
                    total = total + probability * value * self._predicted(c, Delta, sign, m, q, b)
            else:
                total = total + probability * field_average(partial(f, np.array(label)), c * m + b, Delta * q, label)
        return total
