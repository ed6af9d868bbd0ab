"""Gaussian mixtures: clusters on one axis, x = c w0/sqrt(N) + sqrt(Delta) z with z ~ N(0, I), labels by cluster.

In teacher.py's notation k = h0 + c/sqrt(Delta) with h0 ~ N(0, 1) the noise along w0, y = y(c), sd = sqrt(Delta). Labels do not
depend on h0, so that integration by parts in h0 leaves mu = E_n + alpha <g c/sqrt(Delta)>.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy  # its parts load when they are used

from dmft.core.schema import array, boolean, number, option
from dmft.model.channels import CLUSTERS, Channel, Metric
from dmft.model.law import DataModel, Labelled
from dmft.model.loss import Loss
from dmft.model.loss_family import jumps_in_field
from dmft.model.observables import field_average
from dmft.model.registry import References, Refusal

Clusters = tuple[tuple[float, float, float, float], ...]


def _clusters(value: Any) -> Clusters:
    """The check of problem.clusters."""
    wanted = "a list of clusters [c, probability, label, Delta] with probabilities > 0 that add up to 1 and spreads Delta > 0"
    try:
        rows = array(wanted, 2, number())(value)
    except ValueError:
        raise ValueError(wanted) from None
    if not rows or len(rows[0]) != 4 or any(row[1] <= 0 or row[3] <= 0 for row in rows):
        raise ValueError(wanted)
    if abs(sum(row[1] for row in rows) - 1) > 1e-9:
        raise ValueError(wanted)
    return rows


class ByCluster(Channel):
    """Labels that belong to clusters."""

    like: ClassVar[str] = "sign"
    control: ClassVar[str] = CLUSTERS


class Mixture(DataModel, name="mixture"):
    """Clusters (c, probability, label, Delta); with `bias` an intercept b is learnt too."""

    clusters: Clusters = option(_clusters, doc="centre, probability, label and variance Delta of every cluster")
    bias: bool = option(boolean, default=False, doc="learn an intercept")
    clustered: ClassVar[bool] = True
    draws: ClassVar[int] = 1
    channel: ClassVar[Channel] = ByCluster()
    kind: ClassVar[str] = CLUSTERS
    control: ClassVar[str] = CLUSTERS
    references: ClassVar[References] = (("mignacco2020dynamical", "Gaussian mixtures"),)

    def even_in_teacher(self, loss: Loss) -> bool:
        """Whatever the loss: the clusters at c and at -c are the same."""
        return not self.bias and sorted(self.clusters) == sorted((-c, *rest) for c, *rest in self.clusters)

    def by_parts(self, loss: Loss) -> bool:
        """Labels do not depend on h0."""
        return True

    def tells(self, place: str) -> str:
        return "clusters"

    def smooth(self, loss: Loss) -> bool:
        return not jumps_in_field(loss, tuple({label for _, _, label, _ in self.clusters})) if loss.smooth is None else loss.smooth

    @property
    def classifies(self) -> bool:
        return all(abs(label) == 1.0 for _, _, label, _ in self.clusters)

    @property
    def strata(self) -> tuple[float, ...]:  # type: ignore[override]
        """The share of each cluster."""
        return tuple(probability for _, probability, _, _ in self.clusters)

    def members(self, u: np.ndarray) -> np.ndarray:
        """Clusters of samples from uniforms, (count,)."""
        edges = np.cumsum(self.strata)[:-1]
        return np.searchsorted(edges, u, side="right")

    def draw(self, h0: np.ndarray, u: np.ndarray) -> Labelled:
        member = self.members(u[:, 0])
        c, _, label, Delta = np.array(self.clusters)[member].T
        sd = np.sqrt(Delta)
        return Labelled(h0 + c / sd, label, sd, np.zeros_like(h0), c / sd, member)

    def rows(self, h0: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
        c, _, label, Delta = np.array(self.clusters)[self.members(u[:, 0])].T
        return np.ascontiguousarray(label), (c, np.sqrt(Delta))

    def _predicted(self, c: float, Delta: float, sign: float, m: np.ndarray, q: np.ndarray, b: np.ndarray | float) -> np.ndarray:
        """Probability that a new sample of a cluster is given this sign."""
        L, centre, spread = self.loss.threshold, c * m + b, np.sqrt(Delta * q)
        if L > 0:
            inside = scipy.special.ndtr((L - centre) / spread) - scipy.special.ndtr((-L - centre) / spread)
            return inside if sign < 0 else 1.0 - inside
        return scipy.special.ndtr(sign * centre / spread)

    def errors(self, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
        """The share of wrong labels where labels are signs, else the mean square of y - f."""
        zero = np.zeros(np.broadcast(m, q, b).shape)
        if not self.classifies:
            return {"mse": sum((probability * ((c * m + b - label) ** 2 + Delta * q)
                                for c, probability, label, Delta in self.clusters), zero)}
        return {"error": sum((probability * self._predicted(c, Delta, -label, m, q, b)
                              for c, probability, label, Delta in self.clusters), zero)}

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> np.ndarray:
        """The prediction is a sign where labels are, otherwise the field f ~ N(c m + b, Delta q)."""
        total = np.zeros(np.broadcast(m, q, b).shape)
        for c, probability, label, Delta in self.clusters:
            if self.classifies:
                for sign in (1.0, -1.0):
                    value = f(np.array(label), np.array(sign))
                    total = total + probability * value * self._predicted(c, Delta, sign, m, q, b)
            else:
                total = total + probability * field_average(partial(f, np.array(label)), c * m + b, Delta * q, label)
        return total

    def supports(self, use) -> Refusal:
        for _, loss in use.losses:
            if loss.accepts == ("sign",) and not self.classifies:
                return "clusters", f'the loss "{loss.name}" needs labels +1 and -1'
        if self.bias and use.algorithm.has_momentum:
            return "bias", "no intercept is learnt with momentum; take momentum = 0, or bias = false"
        return ""
