"""Closed models, spherical p-spin and spiked matrix-tensor: no samples, a Gaussian energy on the sphere. Eq. [closed-model].

    H(w) = H_r(w) - N phi(m) ,   m = w.w0/N ,   <H_r(w) H_r(w')> = N f(w.w'/N)

with polynomials f and phi. The kernels of the mean-field equations are then functions of C and R themselves (solvers/closed.py), so
that nothing is sampled.
"""

from __future__ import annotations

from math import perm
from typing import Any, ClassVar

import numpy as np

from dmft.core.errors import UserError
from dmft.core.schema import array, integer, number, option
from dmft.model.channels import NO_CONTROL, Channel, Metric
from dmft.model.law import DataModel
from dmft.model.loss import Loss
from dmft.model.registry import References, Refusal

Terms = tuple[tuple[int, float], ...]
HIGHEST_POWER = 64


def _terms(least: float | None) -> Any:
    """The check of a polynomial: pairs [power, coefficient]."""
    bound = "" if least is None else f" > {least:g}"
    wanted = f"a list of [power, coefficient] with whole powers from 1 to {HIGHEST_POWER}, each once, and coefficients{bound}"

    def check(value: Any) -> Terms:
        try:
            rows = array(wanted, 2, number())(value)
            terms = tuple((integer(1, HIGHEST_POWER)(power), number(least, above=True)(c)) for power, c in rows)
        except ValueError:
            raise ValueError(wanted) from None
        if len({power for power, _ in terms}) < len(terms):
            raise ValueError(wanted)
        return terms

    return check


def derivative(terms: Terms, order: int) -> np.ndarray:
    """Coefficients of a derivative of a polynomial, the constant first."""
    found = np.zeros(max((power for power, _ in terms), default=0) + 1)
    for power, c in terms:
        if power >= order:
            found[power - order] += c * perm(power, order)  # [closed-model]
    return found


class NoLabels(Channel):
    """There are no samples, and no labels."""

    control: ClassVar[str] = NO_CONTROL


class PSpin(DataModel, name="p_spin"):
    """f(q) = sum of c q^p over `powers` and phi(m) likewise over `signal`; or f and phi both x^2/(2 Delta_2) + x^p/(p Delta_p),
    with p = `order`, where a Delta of 0 means that the term is not there."""

    powers: Terms = option(_terms(0.0), default=(), doc="covariance of the energy: (p, c) stands for the term c q^p")
    signal: Terms = option(_terms(None), default=(), doc="signal: (p, c) adds -N c m^p to the energy")
    Delta_2: float = option(number(0.0), default=0.0, doc="in place of powers and signal: noise of the spiked matrix; 0: no matrix")
    Delta_p: float = option(number(0.0), default=0.0, doc="noise of the spiked tensor; 0: no tensor")
    order: int = option(integer(3, HIGHEST_POWER), default=3, doc="order p of the spiked tensor")
    sampled: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    lacks: ClassVar[dict[str, str]] = {"alpha": "(there are no samples)", "loss": "(its energy is what is lowered)"}
    channel: ClassVar[Channel] = NoLabels()
    kind: ClassVar[str] = ""
    control: ClassVar[str] = NO_CONTROL
    even: ClassVar[bool] = False
    meanings: ClassVar[dict[str, dict[str, str]]] = {
        "loss": {"name": "energy", "label": "energy $E$", "meaning": "energy per dimension", "unit": "1"}}

    @property
    def covariance(self) -> Terms:
        """f, of the noise."""
        return self.powers or self._spiked

    @property
    def phi(self) -> Terms:
        """phi, of the signal."""
        return self.signal if self.powers else self._spiked

    @property
    def references(self) -> References:
        dynamics = "dynamics of spherical p-spin models"
        found = ("crisanti1993spherical", dynamics), ("cugliandolo1993analytical", dynamics)
        return (*found, ("sarao2019passed", "the spiked matrix-tensor model")) if self.phi else found

    @property
    def _spiked(self) -> Terms:
        given = ((2, 2 * self.Delta_2), (self.order, self.order * self.Delta_p))
        return tuple((power, 1 / below) for power, below in given if below)

    @property
    def text(self) -> str:
        if self.powers:
            signal = f", signal {_polynomial(self.signal, 'm')}" if self.signal else ""
            return f"p-spin, f = {_polynomial(self.powers, 'q')}{signal}"
        given = {"Delta_2": self.Delta_2, f"Delta_{self.order}": self.Delta_p}
        return "spiked matrix-tensor, " + ", ".join(f"{name} = {value:g}" for name, value in given.items() if value)

    def derivatives(self) -> np.ndarray:
        """(2, degree + 1): coefficients of the first and the second derivative of f, the constant first."""
        return np.array([derivative(self.covariance, order) for order in (1, 2)])

    def by_parts(self, loss: Loss) -> bool:
        return True

    def even_in_teacher(self, loss: Loss) -> bool:
        return False

    def smooth(self, loss: Loss) -> bool:
        return True

    def errors(self, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
        """There are no new samples to be wrong about."""
        return {}

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> np.ndarray:
        raise UserError('generalization: data = "p_spin" has no samples, and no errors on new ones')

    def supports(self, use) -> Refusal:
        deltas = bool(self.Delta_2 or self.Delta_p)
        if not self.covariance:
            return "there is no energy: give powers, e.g. [[3, 1.0]], or Delta_2 and Delta_p"
        if deltas and (self.powers or self.signal):
            return "powers and signal say all, and Delta_2, Delta_p do: give one of the two"
        if use.algorithm.make_kind().draws:
            return f'there are no samples to draw mini-batches from: kind = "{use.algorithm.kind}" must be gd or langevin'
        if use.constraint.norm != 1.0:
            return f'the weights live on the sphere: constraint = "{use.constraint.name}" must be sphere'
        if use.start.random or use.start.spectral:
            return (f'start = "{use.start.name}" must be warm, with an m0 (0 without a signal; 1e-30, say, for the growth of a '
                    "vanishing overlap)")
        if self.phi and use.start.overlap == 0.0 and not derivative(self.phi, 1)[0]:
            return "m0 = 0 is for ever: the signal does not pull at m = 0; take m0 = 1e-30, say, or leave the signal out"
        if self.order != 3 and not self.Delta_p:
            return f"order = {self.order} is that of the spiked tensor: give its Delta_p, or leave order out"
        if use.theory.target_error:
            return "target_error: nothing is sampled, errors are 0; dmft converge varies learning_rate and blocks_per_level"
        if use.theory.observables or use.theory.snapshots:
            return "there are no samples to average [theory] observables over, or to keep in snapshots; leave them out"
        if use.by == "simulation":
            return "sgd-sim has no such energy: its tensor has N^p entries; take the theory, dmft solve"
        if use.by == "theory" and use.theory.method == "iterate":
            return '[theory] method = "iterate": nothing is sampled, and one march solves it; take method = "march"'
        if use.by == "theory" and use.theory.device == "gpu":
            return '[theory] device = "gpu": a march without samples runs on one core; take device = "cpu"'
        return ""


def _polynomial(terms: Terms, x: str) -> str:
    """The polynomial in words."""
    return " + ".join(f"{c:g} {x}^{power}" for power, c in terms)
