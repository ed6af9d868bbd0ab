"""Data labelled by a teacher: inputs x ~ N(0, I), labels from the teacher's field h0 = x.w0/sqrt(N).

A data model is the law of (k, y, sd) of a sample, x = sd (k w0/sqrt(N) + part normal to w0), together with the loss v(f, y)
of the field f = x.w/sqrt(N) + b, what a prediction is, and the errors on new samples that follow from m, q and b. For a
teacher k = h0, sd = 1 and y = phi(h0, zeta), with zeta drawn once for a sample. Gaussian mixtures: mixture.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri

from dmft.model.losses import Loss, even_in_field, even_in_label, jumps_in_field, jumps_in_label
from dmft.model.observables import field_error, generalization, magnitude_error, sign_error, square_error

Metric = Callable[[np.ndarray, np.ndarray], np.ndarray]
_NOISE_NODES = 32
_LABELS_TRIED = 32    # in the search for jumps in f

# How mu follows from integration by parts (equations/rows.py): mu = E_n + a part that depends on the data model.
SMOOTH = "smooth"  # labels differentiable in h0: alpha <g' Y + dg/dy dy/dh0>
JUMPS = "jumps"  # labels that jump: pairs of samples on the jump, with either label
CLUSTERS = "clusters"  # labels that do not depend on h0: alpha <g (k - h0)>
NONE = "none"  # only mu = alpha <g k>


class Labelled(NamedTuple):
    """Samples as their data model draws them, each (count,)."""

    k: np.ndarray  # coefficient of the input along w0, in units of sd
    y: np.ndarray  # label
    sd: np.ndarray  # spread of the input
    slope: np.ndarray  # dy/dh0, where labels are smooth
    shift: np.ndarray  # k - h0
    stratum: np.ndarray  # which of `strata` the sample is in


class Jump(NamedTuple):
    """Where labels jump from -1 to +1 as h0 grows: pairs of samples at h0 = k, with weight `size` on the difference."""

    k: np.ndarray
    size: float


@dataclass(frozen=True)
class Teacher:
    """A loss, and the labels it learns from; labels = "": those that the loss is made for."""

    loss: Loss
    labels: str = ""
    label_noise: float = 0.0  # variance of the Gaussian zeta
    flip: float = 0.0  # probability of a flipped sign
    bias: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        """The kind of labels: that of the run file, or else of the loss; "" where neither says, and y = h0."""
        return self.labels or self.loss.labels

    @property
    def even(self) -> bool:
        """Whether v(f, y) = v(-f, y): samples may then come in mirrored pairs, and m = 0 stays 0."""
        return even_in_field(self.loss)

    def even_in_teacher(self, loss: Loss) -> bool:
        """Whether h0 and -h0 are equally likely given the loss of a sample, where a phase learns with `loss`: from a random start
        m is then of order 1/sqrt(N)."""
        return even_in_label(loss.v) or (self.kind in ("abs", "square") and not self.plain)

    @property
    def control(self) -> str:
        """Which control variate mu has: SMOOTH, JUMPS or NONE."""
        if self.kind == "sign":
            return JUMPS
        return SMOOTH if self.by_parts(self.loss) else NONE

    def by_parts(self, loss: Loss) -> bool:
        """Whether the control variate of mu, by parts in h0, holds for a loss: v' has no jump at labels that samples reach, or the
        labels jump themselves."""
        if self.kind == "sign":
            return True
        return not jumps_in_label(loss, *self._reached) if loss.stein is None else loss.stein

    def smooth(self, loss: Loss) -> bool:
        """Whether v' has no jump in f at labels that samples reach."""
        if loss.smooth is not None:
            return loss.smooth
        if self.kind == "sign":
            return not jumps_in_field(loss, (-1.0, 1.0))
        y = self._label(np.linspace(-6.0, 6.0, _LABELS_TRIED), np.zeros(_LABELS_TRIED))[0]
        return not jumps_in_field(loss, tuple(sorted({*y.tolist(), *self._reached})))

    @property
    def _reached(self) -> tuple[float, float]:
        """The labels that all but one sample in 10^6 keep between."""
        y, noise = self._label(np.linspace(-6.0, 6.0, 101), np.zeros(101))[0], 5.0 * np.sqrt(self.label_noise)
        return float(y.min() - noise), float(y.max() + noise)

    @property
    def classifies(self) -> bool:
        """Whether labels are +1 and -1."""
        return self.kind == "sign"

    @property
    def plain(self) -> bool:
        """Whether y = h0: w0 is then a solution without error."""
        return self.label_noise == 0 and (self.kind in ("", "field") or self.kind == self.loss.labels == "abs")

    @property
    def draws(self) -> int:
        """How many uniform numbers a sample needs besides the one for h0."""
        return int(self.label_noise > 0 or self.flip > 0)

    @property
    def strata(self) -> tuple[float, ...]:
        """Shares that the weights of the samples keep exactly: of right labels and of flipped ones."""
        return (1.0 - self.flip, self.flip) if self.flip > 0 else (1.0,)

    def _noise(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(sqrt(Delta) zeta, whether the label is flipped) from uniforms."""
        flipped = u < self.flip
        rest = np.where(flipped, u / (self.flip or 1.0), (u - self.flip) / (1.0 - self.flip))
        return np.sqrt(self.label_noise) * ndtri(np.clip(rest, 1e-12, 1 - 1e-12)), flipped

    def draw(self, h0: np.ndarray, u: np.ndarray) -> Labelled:
        """Samples from h0 (count,), standard normals perhaps drawn too wide and weighted, and uniforms u (count, draws)."""
        zeta, flipped = self._noise(u[:, 0]) if self.draws else (np.zeros_like(h0), np.zeros(len(h0), bool))
        y, slope = self._label(h0, zeta)
        return Labelled(h0, np.where(flipped, -y, y), np.ones_like(h0), slope, np.zeros_like(h0), flipped.astype(np.int64))

    def _label(self, h0: np.ndarray, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi(h0, zeta) and its derivative in h0."""
        if self.plain:
            return h0, np.ones_like(h0)
        if self.kind == "abs":
            return np.abs(h0) + zeta, np.sign(h0)
        if self.kind == "square":
            return h0**2 + zeta, 2.0 * h0
        if self.kind == "sign":
            return np.where(h0 + zeta >= 0.0, 1.0, -1.0), np.zeros_like(h0)
        return h0 + zeta, np.ones_like(h0)

    def jump(self, u: np.ndarray) -> Jump:
        """The jump of sign(h0 + sqrt(Delta) zeta) at h0 = -sqrt(Delta) zeta, averaged over zeta: h0 ~ N(0, Delta/(1 + Delta)) with
        the density of the jump at 0. u: uniforms (count, draws)."""
        wide = 1.0 + self.label_noise
        k = np.sqrt(self.label_noise / wide) * ndtri(u[:, 0]) if self.draws else np.zeros(len(u))
        return Jump(k, (1.0 - 2.0 * self.flip) / np.sqrt(2.0 * np.pi * wide))

    def errors(self, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
        """Errors on new samples by name; none where neither run file nor loss says what the labels are. Eq. [mse]."""
        noise = self.label_noise
        if self.kind == "sign":
            return {"error": sign_error(m, q * (1.0 + noise), self.flip)}
        known = {"abs": magnitude_error, "field": field_error, "square": square_error}
        return {"mse": known[self.kind](m, q) + noise} if self.kind else {}

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> np.ndarray:
        """Average of f(label, prediction) over a new sample, eq. B.6. b: always 0 here."""
        if self.kind == "sign":
            def signs(x: np.ndarray, z: np.ndarray) -> np.ndarray:
                y, guess = np.sign(x), np.sign(z)
                return (1.0 - self.flip) * f(y, guess) + self.flip * f(-y, guess)
            return generalization(signs, m / np.sqrt(1.0 + self.label_noise), q, True)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NOISE_NODES if self.label_noise > 0 else 1)
        shifts = list(zip(np.sqrt(self.label_noise) * nodes, weights / weights.sum()))

        def metric(x: np.ndarray, z: np.ndarray) -> np.ndarray:
            y, guess = (x**2, z**2) if self.kind == "square" else (x, z)
            return sum(weight * f(y + shift, guess) for shift, weight in shifts)

        # Where nobody says what the labels are they are h0, with its sign.
        signed = self.kind in ("", "field")
        return generalization(metric if self.label_noise > 0 or self.kind == "square" else f, m, q, signed)
