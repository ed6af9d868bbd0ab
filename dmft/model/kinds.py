"""What [algorithm] can name: the kind of algorithm, and for SGD the way in which mini-batches are drawn."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dmft.core.schema import choice, option
from dmft.model.clock import SCHEDULED
from dmft.model.minibatches import (
    MINIBATCH_LAWS,
    Bernoulli,
    Epochs,
    FullBatch,
    MiniBatch,
    Persistent,
    Poisson,
    whole_epochs,
)
from dmft.model.registry import Named, Physics, References, Refusal, make, named
from dmft.model.schedules import Setting


class Drawing(Physics, key="minibatch", section="algorithm"):
    """How SGD draws its mini-batches."""

    def law(self, fraction: float) -> MiniBatch:
        """The law of a sample's weight s(n), where l is a number."""
        return Bernoulli(fraction)

    def supports(self, use) -> Refusal:
        """A user's law must be one of the package's, the same at all fractions, with sound numbers: these are what theory,
        simulator and kernels of a card are compiled for."""
        fractions = [] if self.built_in else np.unique(use.algorithm.setting("batch_fraction")).tolist()
        laws = {fraction: self.law(fraction) for fraction in fractions}
        for fraction, law in laws.items():
            if type(law) not in MINIBATCH_LAWS or abs(law.fraction - fraction) > 1e-5:
                known = ", ".join(each.__name__ for each in MINIBATCH_LAWS)
                return (f"law({fraction:g}) must be one of {known} of dmft.model.minibatches, with that fraction: loops draw these "
                        "alone; Persistent is every stationary chain of two states")
            if law.flaw():
                return f"law({fraction:g}) {law.flaw()}"
        if len({(type(law), law.chain().kind, law.fixed_size) for law in laws.values()}) > 1:
            return "law(l) must be of one kind at all batch fractions of a run"
        return ""


class Independent(Drawing, name="bernoulli"):
    """Every sample with probability l."""


class WithoutReplacement(Drawing, name="without_replacement"):
    """A fixed number of samples; the same limit."""

    def law(self, fraction: float) -> MiniBatch:
        return Bernoulli(fraction, fixed_size=True)


class WithReplacement(Drawing, name="with_replacement"):
    """l M draws, in which a sample may be found again."""

    def law(self, fraction: float) -> MiniBatch:
        return Poisson(fraction)


class Reshuffled(Drawing, name="reshuffled"):
    """Every sample once in an epoch of 1/l steps, in a new order for every epoch. Eq. [epochs]."""

    cyclic: ClassVar[bool] = False

    def law(self, fraction: float) -> MiniBatch:
        return Epochs(1 / round(1 / fraction), self.cyclic)

    def supports(self, use) -> Refusal:
        """1/l must be a whole number of mini-batches an epoch."""
        fractions = use.algorithm.setting("batch_fraction")
        wrong = ~whole_epochs(fractions)
        return (f"batch_fraction = {fractions[wrong][0]:g}", "must be 1/E with a whole number E of mini-batches an epoch, for "
                f'minibatch = "{self.name}"') if np.any(wrong) else ""


class Cyclic(Reshuffled, name="cyclic"):
    """The same order in every epoch."""

    cyclic: ClassVar[bool] = True


class Kind(Physics, key="kind", section="algorithm"):
    """A kind of algorithm."""

    draws: ClassVar[bool] = False  # whether steps see mini-batches

    @property
    def drawing(self) -> Drawing | None:
        """How mini-batches are drawn, where the run file can name it."""
        return None

    def law(self, fraction: float, eta: float, tau: float) -> MiniBatch:
        """The law of a sample's weight s(n), where l, eta and tau are numbers."""
        return FullBatch()


class GradientDescent(Kind, name="gd"):
    """All samples at every step."""


class SGD(Kind, name="sgd"):
    """A mini-batch that is drawn for every step."""

    draws: ClassVar[bool] = True
    batch_fraction: Setting = option(SCHEDULED["batch_fraction"], doc="share of samples in a mini-batch")
    minibatch: Named = named("minibatch", default="bernoulli", doc="how sgd draws its mini-batch")

    @property
    def drawing(self) -> Drawing:
        return make(Drawing, self.minibatch)

    def law(self, fraction: float, eta: float, tau: float) -> MiniBatch:
        return self.drawing.law(fraction)


class PersistentSGD(Kind, name="persistent_sgd"):
    """A mini-batch that samples enter and leave at given rates. Eq. 7."""

    draws: ClassVar[bool] = True
    references: ClassVar[References] = (("mignacco2021stochasticity", "persistent SGD"),)
    batch_fraction: Setting = option(SCHEDULED["batch_fraction"], doc="share of samples in a mini-batch")
    persistence: Setting = option(SCHEDULED["persistence"], doc="time tau that a sample stays out of the batch, on average")
    batch_change: str = option(choice("jump", "relax"), default="jump",
                               doc="persistent_sgd, when the batch fraction changes: at once, or as the chain gets there")

    def law(self, fraction: float, eta: float, tau: float) -> MiniBatch:
        return Persistent.from_times(fraction, eta, tau)

    def supports(self, use) -> Refusal:
        """No switching probability of the chain may exceed 1."""
        algorithm, allowed = use.algorithm, "switching probabilities eta/tau and (1-l)eta/(l tau) must be <= 1"
        settings = (algorithm.setting(key) for key in ("learning_rate", "persistence", "batch_fraction"))
        eta, tau, ell = np.broadcast_arrays(*settings)
        least = eta * np.maximum(1.0, (1.0 - ell) / ell)
        short = tau < least * (1.0 - 1e-12)
        if not np.any(short):
            return ""
        n = int(np.argmax(short))
        where = f" at t = {algorithm.clock.t[n]:g} (step {n}), where it is {tau[n]:g}" if tau.size > 1 else ""
        return "persistence", f"must be >= {least[n]:g}{where}: {allowed}"


class Langevin(Kind, name="langevin"):
    """Gradient descent with thermal noise."""

    temperature: Setting = option(SCHEDULED["temperature"], doc="temperature T of the noise")
