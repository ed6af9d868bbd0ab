"""Where the weights start: warm, with a given overlap m0 with the teacher; random; or spectral."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from dmft.core.schema import array, choice, number, option, text
from dmft.model.constraints import Constraint
from dmft.model.preprocessing import PREPROCESSINGS, preprocessing_names
from dmft.model.registry import Physics, References, Refusal
from dmft.model.spectral import PowerIteration, power_iteration
from dmft.model.updates import Update

RANDOM, SPECTRAL = "random", "spectral"
EXACT, IID = "exact", "iid"


def on_sphere(vector: np.ndarray) -> np.ndarray:
    """The vector scaled to |w|^2 = N."""
    return vector * np.sqrt(vector.size / (vector @ vector))


class Start(Physics, key="start"):
    """What theory and simulator ask a start for."""

    random: ClassVar[bool] = False  # whether m is of order 1/sqrt(N), and the theory follows its fluctuations (random_start.py)
    spectral: ClassVar[bool] = False  # whether it is the leading eigenvector of weighted data (preprocessing.py)

    @property
    def overlap(self) -> float:
        """m(0) in the limit of infinite dimension, as far as the start gives it."""
        return 0.0

    def weights(self, constraint: Constraint, w0: np.ndarray, z: np.ndarray) -> np.ndarray:
        """w (N,) where a simulation starts, from its teacher w0 and normals z, both (N,): m0 w0 + sqrt(v) z with the variance v
        that the constraint says. Where this fixes the norm (v = 1 - m0^2 on the sphere), z is made normal to w0, with |z|^2 = N, so
        that m(0) is exact. (A `spectral` start is made from the data instead.)"""
        m0 = self.overlap
        if constraint.fixes_norm:
            z = on_sphere(z - (z @ w0 / w0.size) * w0)
        return m0 * w0 + np.sqrt(constraint.spread(m0)) * z

    def power(self, alpha: float, label_noise: float) -> PowerIteration | None:
        """The power iteration that makes a start which depends on the data: hidden steps of the theory before t = 0."""
        return None

    def begun(self, m0: float) -> Start:
        """This start, where the theory's power iteration begins with an overlap m0."""
        return self


def _overlaps(value: Any) -> float | tuple[tuple[float, ...], ...]:
    """The check of m0: a number, or with [network] a matrix (unit x direction)."""
    single = number(-1.0, 1.0, above=True, below=True)
    return array("a matrix of numbers", 2, number())(value) if isinstance(value, (list, tuple)) else single(value)


class Warm(Start, name="warm"):
    """w = m0 w0 + c z. exact: z is normal to w0, so that m(0) is m0 in every run. iid: the components of z are independent
    normals, and c is such that |w|^2 = N (the paper's eqs. 11, 12), so that m(0) scatters about m0 by sqrt((1 - m0^2)/N).
    Eq. [start-law]."""

    m0: float = option(_overlaps, doc="overlap of the start with the teacher; with [network] a matrix, unit x direction, or 0")
    start_overlap: str = option(choice(EXACT, IID), default=EXACT,
                                doc="simulation: overlap m0 in every run (exact), or on average (iid, eq. 11 of the paper)")

    @property
    def overlap(self) -> float:
        return self.m0

    def weights(self, constraint: Constraint, w0: np.ndarray, z: np.ndarray) -> np.ndarray:
        if not constraint.fixes_norm or self.start_overlap == EXACT:
            return super().weights(constraint, w0, z)
        square, along = z @ z / z.size, self.m0 * (z @ w0) / z.size
        c = (np.sqrt(along**2 + square * constraint.spread(self.m0)) - along) / square  # [start-law]
        return self.m0 * w0 + c * z


class Random(Start, name=RANDOM):
    """Nothing is known of the teacher: m is of order 1/sqrt(N), with a random sign."""

    random: ClassVar[bool] = True

    def weights(self, constraint: Constraint, w0: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.sqrt(constraint.spread(0.0)) * (on_sphere(z) if constraint.fixes_norm else z)

    def supports(self, use) -> Refusal:
        """sqrt(N) m must be the centred Gaussian process of equations/random_start.py."""
        if use.by != "theory":
            return ""
        if use.theory.method == "iterate":
            return '[theory] method = "iterate" has no fluctuations of m; take method = "march"'
        if Update.of(use.algorithm.make_rule(), use.algorithm.at_steps("momentum")).looks_ahead:
            return "nesterov = true has no fluctuations of m yet; take heavy ball, nesterov = false"
        if use.data.bias:
            return ("an intercept (bias = true) breaks the symmetry that keeps m at order 1/sqrt(N); take bias = false, "
                    'or start = "warm" with an m0')
        for place, loss in use.losses:
            if not use.data.even_in_teacher(loss):
                return (f"{use.data.tells(place)}: labels give away the sign of h0, so m is not of order 1/sqrt(N); random starts "
                        'need a loss and labels even in h0 (phase_retrieval, say); take start = "warm" with an m0 (0 is allowed)')
        return ""


class Spectral(Start, name=SPECTRAL):
    """The leading eigenvector of weighted data (preprocessing.py), on the sphere."""

    preprocessing: str = option(text, default=PREPROCESSINGS[0],
                                doc="weight of the data by label: mondelli_montanari, truncated, subset or a registered name")
    before: float = dataclasses.field(default=0.0, compare=False)  # m where the theory's power iteration begins
    spectral: ClassVar[bool] = True
    references: ClassVar[References] = (("mondelli2019fundamental", "the spectral start"),)
    lacks: ClassVar[dict[str, str]] = {"start_variance": "(an eigenvector of norm sqrt(N))"}

    @property
    def overlap(self) -> float:
        return self.before

    def begun(self, m0: float) -> Start:
        return dataclasses.replace(self, before=m0)

    def power(self, alpha: float, label_noise: float) -> PowerIteration:
        return power_iteration(self.preprocessing, alpha, label_noise)

    def supports(self, use) -> Refusal:
        if self.preprocessing not in preprocessing_names():
            return "preprocessing", f"must be one of {', '.join(preprocessing_names())}, or one that a plugin registers"
        if not use.channel.magnitude:
            return "the spectral start is built for labels abs or field; take warm or random"
        if self.preprocessing == PREPROCESSINGS[0] and use.problem.alpha <= 0.5:
            return "preprocessing", f"made for alpha > 0.5, here alpha = {use.problem.alpha:g}; take truncated or subset"
        return ""
