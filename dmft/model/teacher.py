"""Data labelled by a teacher: inputs x ~ N(0, I), labels y = phi(h0, zeta) from the teacher's field h0 = x.w0/sqrt(N), with zeta
drawn once for a sample; k = h0 and sd = 1 in the notation of law.py. What phi is: channels.py. Gaussian mixtures: mixture.py.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are used

from dmft.core.schema import number, option
from dmft.model.channels import JUMPS, NO_CONTROL, SMOOTH, Channel, Metric, Unsaid
from dmft.model.law import DataModel, Jump, Labelled
from dmft.model.loss import Loss
from dmft.model.loss_family import even_in_label, jumps_in_field, jumps_in_label
from dmft.model.observables import generalization
from dmft.model.registry import Named, Refusal, make, named

_LABELS_TRIED = 32    # in the search for jumps in f


class Teacher(DataModel, name="teacher"):
    """Labels of a teacher; labels = "": those that the loss is made for."""

    labels: Named = named("labels", default="",
                          doc="what the label is, as a function of the teacher's field; empty: what the loss was made for")
    label_noise: float = option(number(0.0), default=0.0, doc="variance of the Gaussian noise on the labels")
    flip: float = option(number(0.0, 0.5, below=True), default=0.0, doc="probability that the sign of a label is flipped")
    taught = True
    lacks = {"bias": "(x and -x are alike, so that it would stay 0 or learn the mean label alone)"}

    @property
    def channel(self) -> Channel:
        """What the run file says, or else the loss; where neither does y = h0."""
        said = self.labels or self.loss.labels
        return make(Channel, said) if said else Unsaid()

    def even_in_teacher(self, loss: Loss) -> bool:
        return even_in_label(loss.v) or (self.channel.even and not self.plain)

    @property
    def control(self) -> str:
        """SMOOTH, JUMPS or NO_CONTROL."""
        return self.channel.control if self.by_parts(self.loss) else NO_CONTROL

    def by_parts(self, loss: Loss) -> bool:
        """v' has no jump at labels that samples reach, or the labels jump themselves."""
        if self.channel.control != SMOOTH:
            return self.channel.control == JUMPS
        return not jumps_in_label(loss, *self._reached) if loss.stein is None else loss.stein

    def smooth(self, loss: Loss) -> bool:
        if loss.smooth is not None:
            return loss.smooth
        if self.classifies:
            return not jumps_in_field(loss, (-1.0, 1.0))
        y = self._label(np.linspace(-6.0, 6.0, _LABELS_TRIED), np.zeros(_LABELS_TRIED))[0]
        return not jumps_in_field(loss, tuple(sorted({*y.tolist(), *self._reached})))

    @property
    def _reached(self) -> tuple[float, float]:
        """The labels that all but one sample in 10^6 keep between."""
        y, noise = self._label(np.linspace(-6.0, 6.0, 101), np.zeros(101))[0], 5.0 * np.sqrt(self.label_noise)
        return float(y.min() - noise), float(y.max() + noise)

    @property
    def plain(self) -> bool:
        return self.label_noise == 0 and self.channel.is_field(self.loss)

    @property
    def draws(self) -> int:  # type: ignore[override]
        return int(self.label_noise > 0 or self.flip > 0)

    @property
    def strata(self) -> tuple[float, ...]:  # type: ignore[override]
        """Of right labels and of flipped ones."""
        return (1.0 - self.flip, self.flip) if self.flip > 0 else (1.0,)

    def _noise(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(sqrt(Delta) zeta, whether the label is flipped) from uniforms."""
        flipped = u < self.flip
        rest = np.where(flipped, u / (self.flip or 1.0), (u - self.flip) / (1.0 - self.flip))
        return np.sqrt(self.label_noise) * scipy.special.ndtri(np.clip(rest, 1e-12, 1 - 1e-12)), flipped

    def draw(self, h0: np.ndarray, u: np.ndarray) -> Labelled:
        zeta, flipped = self._noise(u[:, 0]) if self.draws else (np.zeros_like(h0), np.zeros(len(h0), bool))
        y, slope = self._label(h0, zeta)
        return Labelled(h0, np.where(flipped, -y, y), np.ones_like(h0), slope, np.zeros_like(h0), flipped.astype(np.int64))

    def _label(self, h0: np.ndarray, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi(h0, zeta) and its derivative in h0."""
        if self.plain:
            return h0, np.ones_like(h0)
        return self.channel.label(h0, zeta), self.channel.slope(h0, zeta)

    def jump(self, u: np.ndarray) -> Jump:
        spread, over = self.channel.jump(self.label_noise)
        return Jump(spread * scipy.special.ndtri(u[:, 0]) if self.draws else np.zeros(len(u)), (1.0 - 2.0 * self.flip) / over)

    def errors(self, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
        """None where neither run file nor loss says what the labels are."""
        return self.channel.errors(m, q, self.label_noise, self.flip)

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> np.ndarray:
        """b: always 0 here."""
        return self.channel.generalization(f, m, q, self.label_noise, self.flip)

    def average_of_fields(self, f: Metric, m: np.ndarray, q: np.ndarray) -> np.ndarray:
        return generalization(f, m, q, signed=True)

    def supports(self, use) -> Refusal:
        if self.flip > 0 and not self.channel.classifies:
            return "flip", 'only labels = "sign" have a sign to flip'
        if self.label_noise > 0 and not self.kind:
            return "label_noise", f'the loss "{self.loss.name}" does not say what its labels are; give labels'
        return ""
