"""What a sample tells of the teacher's field h0: its label y = label(h0, zeta), where zeta is Gaussian noise that is drawn once for
a sample, and what is then predicted from the student's field. A new channel is a class here, or in a user's file."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
import scipy  # its parts load when they are used

from dmft.model.information import Information, least_magnitude_error, of_magnitude, of_noisy_magnitude, of_sign
from dmft.model.loss import Loss
from dmft.model.observables import field_error, generalization, magnitude_error, sign_error, square_error
from dmft.model.registry import Physics, Refusal

Metric = Callable[[np.ndarray, np.ndarray], np.ndarray]
_NOISE_NODES, _QUANTILES = 32, 2048
_TABULATED = np.linspace(-13.0, 13.0, 8001)  # fields at which the share of labels +1 is known, as far as a new sample goes
_STEP = 1e-5  # of differences in h0
_AT = np.linspace(-3.0, 3.0, 61) + 1e-3 * np.pi  # fields at which a slope is checked, on no likely kink

# How mu follows from integration by parts (equations/rows.py): mu = E_n + a part that depends on the labels.
SMOOTH = "smooth"  # labels differentiable in h0: alpha <g' Y + dg/dy dy/dh0>
JUMPS = "jumps"  # labels that jump: pairs of samples on the jump, with either label
CLUSTERS = "clusters"  # labels that do not depend on h0: alpha <g (k - h0)>
NO_CONTROL = "none"  # only mu = alpha <g k>


class Channel(Physics, key="labels"):
    """What theory and simulator ask labels for. Fields and noise are arrays (count,)."""

    like: ClassVar[str] = "field"  # which of the labels of the package these resemble, for the losses that take them
    even: ClassVar[bool] = False  # whether h0 and -h0 have the same label
    magnitude: ClassVar[bool] = False  # whether |y| = |h0| up to noise, on which the spectral start is built
    classifies: ClassVar[bool] = False  # whether labels are +1 and -1
    control: ClassVar[str] = SMOOTH  # labels that jump as h0 grows say NO_CONTROL, or JUMPS where `jump` is known
    moments: ClassVar[tuple[float, float] | None] = None  # <h0 y> and <y^2> without noise, where known
    gaussian: ClassVar[bool] = False  # whether y = h0 + zeta: averages at the end of descent then need one integral fewer
    halves: ClassVar[bool] = False  # whether y is the sign of h0 + zeta, of which the same holds
    power: ClassVar[float] = 0.0  # where |f|^power is predicted; 0 where f is, or `predict` says something else

    def label(self, h0: np.ndarray, zeta: np.ndarray | float) -> np.ndarray:
        """y of samples whose teacher's fields are h0, with noise zeta of variance `label_noise`."""
        raise NotImplementedError(f"{type(self).__name__} has no label(self, h0, zeta)")

    def slope(self, h0: np.ndarray, zeta: np.ndarray | float) -> np.ndarray:
        """dy/dh0; a central difference unless a channel knows better."""
        return (self.label(h0 + _STEP, zeta) - self.label(h0 - _STEP, zeta)) / (2.0 * _STEP)

    def predict(self, f: np.ndarray) -> np.ndarray:
        """The label that is predicted from the student's field."""
        return self.label(f, 0.0)

    def is_field(self, loss: Loss) -> bool:
        """Whether a loss may be given h0 itself for these labels, without noise."""
        return False

    def jump(self, label_noise: float) -> tuple[float, float]:
        """With control = JUMPS: the standard deviation of the h0 at which labels jump, over the noise, and one over the density
        there."""
        raise NotImplementedError(f"{type(self).__name__} has no jump(self, label_noise)")

    def errors(self, m: np.ndarray, q: np.ndarray, label_noise: float, flip: float) -> dict[str, np.ndarray]:
        """Errors on new samples by name: the share of wrong labels, or the mean square of label - prediction. Eq. [mse]."""
        if self.classifies:
            return {"error": self.generalization(lambda y, guess: 1.0 * (y * guess < 0), m, q, label_noise, flip)}
        return {"mse": self.generalization(lambda y, guess: (y - guess) ** 2, m, q, label_noise, flip)}  # [mse]

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, label_noise: float, flip: float) -> np.ndarray:
        """Average of f(label, prediction) over a new sample, eq. B.6."""
        if self.classifies and label_noise > 0:
            share = self._share_of_plus(label_noise)

            def signs(x: np.ndarray, z: np.ndarray) -> np.ndarray:
                guess, plus = self.predict(z), flip + (1.0 - 2.0 * flip) * np.interp(x, _TABULATED, share)
                return plus * f(np.ones_like(x), guess) + (1.0 - plus) * f(-np.ones_like(x), guess)

            return generalization(signs, m, q, not self.even)

        def over(nodes: list[tuple[float, float]], x: np.ndarray, z: np.ndarray) -> np.ndarray:
            guess, total = self.predict(z), np.zeros_like(x)
            for shift, weight in nodes:
                y = self.label(x, shift)
                total = total + weight * (f(y, guess) if flip == 0 else (1.0 - flip) * f(y, guess) + flip * f(-y, guess))
            return total

        nodes = _gauss(label_noise, _NOISE_NODES if label_noise > 0 else 1)
        exact = over(nodes, _AT, -_AT)
        for count in (2, 4, 8, 16):  # a square of noise that is added needs two of them
            fewer = _gauss(label_noise, count)
            if np.allclose(over(fewer, _AT, -_AT), exact, rtol=1e-12, atol=1e-12):
                nodes = fewer
                break
        return generalization(lambda x, z: over(nodes, x, z), m, q, not self.even)

    def information(self, label_noise: float, flip: float) -> Information | None:
        """How much a label tells, qh(q)/alpha of dmft/model/information.py, for `dmft.bayes`; None where that is not known."""
        return None

    def least_errors(self, q: float, label_noise: float, flip: float) -> dict[str, float]:
        """The least error on new samples, by name, of any prediction from a field omega ~ N(0, q) with h0 ~ N(omega, 1 - q); asked
        where `information` is known."""
        raise NotImplementedError(f"{type(self).__name__} has information, but no least_errors(self, q, label_noise, flip)")

    def _share_of_plus(self, label_noise: float) -> np.ndarray:
        """The share of labels +1 among samples with a field of _TABULATED, over quantiles of the noise."""
        quantiles = np.sqrt(label_noise) * scipy.special.ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        share = np.zeros_like(_TABULATED)
        for shift in quantiles:
            share += self.label(_TABULATED, shift) > 0
        return share / _QUANTILES

    def supports(self, use) -> Refusal:
        """A user's labels must be numbers, one a sample, and their slope the derivative: the control variate of mu rests on it."""
        if self.built_in:
            return ""
        try:
            found = np.asarray(self.label(_AT, np.full_like(_AT, 0.1)), float)
        except (ArithmeticError, AttributeError, LookupError, NameError, NotImplementedError, TypeError, ValueError) as error:
            return f"label(h0, zeta) fails: {error}"
        if found.shape != _AT.shape or not np.isfinite(found).all():
            return "label(h0, zeta) must give a finite number for every sample: an array as long as h0"
        bases = type(self).__mro__
        labels, errors = (next(k for k, base in enumerate(bases) if name in vars(base)) for name in ("label", "errors"))
        base = bases[errors]
        if labels < errors and base is not Channel:
            return f"its label is not that of {base.__name__}, whose errors on new samples it has; derive it from dmft.Channel"
        if self.control != SMOOTH:
            return ""
        off = np.abs(self.slope(_AT, 0.1) - Channel.slope(self, _AT, 0.1)) > 1e-4 * (1.0 + np.abs(self.label(_AT, 0.1)))
        return "slope(h0, zeta) is not the derivative of label in h0; mend it, or leave it out" if off.sum() > 2 else ""


def _gauss(label_noise: float, count: int) -> list[tuple[float, float]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return list(zip(np.sqrt(label_noise) * nodes, weights / weights.sum(), strict=True))


class Field(Channel, name="field"):
    """y = h0, predicted by f."""

    gaussian: ClassVar[bool] = True
    magnitude: ClassVar[bool] = True
    moments: ClassVar[tuple[float, float] | None] = (1.0, 1.0)

    def label(self, h0, zeta):
        return h0 + zeta

    def slope(self, h0, zeta):
        return np.ones_like(h0)

    def is_field(self, loss):
        return True

    def errors(self, m, q, label_noise, flip):
        return {"mse": field_error(m, q) + label_noise}

    def information(self, label_noise, flip):
        return lambda q: 1.0 / max(1.0 - q + label_noise, 1e-300)

    def least_errors(self, q, label_noise, flip):
        return {"mse": 1.0 - q + label_noise}


class Unsaid(Field):
    """Nobody says what the labels are: y = h0, and there is no prediction."""

    def errors(self, m, q, label_noise, flip):
        return {}


class Abs(Channel, name="abs"):
    """y = |h0|, predicted by |f|."""

    like: ClassVar[str] = "abs"
    even: ClassVar[bool] = True
    magnitude: ClassVar[bool] = True
    moments: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    power: ClassVar[float] = 1.0

    def label(self, h0, zeta):
        return np.abs(h0) + zeta

    def slope(self, h0, zeta):
        return np.sign(h0)

    def is_field(self, loss):
        return loss.labels == "abs"  # it takes |y| itself

    def errors(self, m, q, label_noise, flip):
        return {"mse": magnitude_error(m, q) + label_noise}

    def information(self, label_noise, flip):
        return lru_cache(None)(of_magnitude if label_noise == 0 else partial(of_noisy_magnitude, noise=label_noise))

    def least_errors(self, q, label_noise, flip):
        return {"mse": least_magnitude_error(q) + label_noise}


class Square(Channel, name="square"):
    """y = h0^2, predicted by f^2."""

    like: ClassVar[str] = "square"
    even: ClassVar[bool] = True
    moments: ClassVar[tuple[float, float] | None] = (0.0, 3.0)
    power: ClassVar[float] = 2.0

    def label(self, h0, zeta):
        return h0**2 + zeta

    def slope(self, h0, zeta):
        return 2.0 * h0

    def errors(self, m, q, label_noise, flip):
        return {"mse": square_error(m, q) + label_noise}

    def information(self, label_noise, flip):
        return lru_cache(None)(of_magnitude) if label_noise == 0 else None

    def least_errors(self, q, label_noise, flip):
        V = 1.0 - q
        return {"mse": 2.0 * V**2 + 4.0 * q * V + label_noise}


class Sign(Channel, name="sign"):
    """y = sign(h0 + zeta), predicted by sign(f)."""

    like: ClassVar[str] = "sign"
    classifies: ClassVar[bool] = True
    halves: ClassVar[bool] = True
    control: ClassVar[str] = JUMPS

    def label(self, h0, zeta):
        return np.where(h0 + zeta >= 0.0, 1.0, -1.0)

    def slope(self, h0, zeta):
        return np.zeros_like(h0)

    def jump(self, label_noise):
        """At h0 = -zeta, averaged over zeta: h0 ~ N(0, Delta/(1 + Delta)) with the density of the jump at 0."""
        wide = 1.0 + label_noise
        return np.sqrt(label_noise / wide), np.sqrt(2.0 * np.pi * wide)

    def errors(self, m, q, label_noise, flip):
        return {"error": sign_error(m, q * (1.0 + label_noise), flip)}

    def information(self, label_noise, flip):
        return partial(of_sign, noise=label_noise, flip=flip)

    def least_errors(self, q, label_noise, flip):
        return {"error": float(sign_error(np.array(q), np.array(q * (1.0 + label_noise)), flip)) if q > 0 else 0.5}

    def generalization(self, f, m, q, label_noise, flip):
        def signs(x, z):
            y, guess = np.sign(x), np.sign(z)
            return (1.0 - flip) * f(y, guess) + flip * f(-y, guess)

        return generalization(signs, m / np.sqrt(1.0 + label_noise), q, True)
