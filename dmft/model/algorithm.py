"""[algorithm] of a run file: the dynamics of the weights, with schedules and phases, and the checks of keys against each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmft.core import schema
from dmft.core.errors import RunError
from dmft.core.schema import Table, boolean, number, option
from dmft.model import registry
from dmft.model.clock import SCHEDULED, Clock, make_clock, phase_tables
from dmft.model.kinds import SGD, Kind, PersistentSGD
from dmft.model.registry import Named, key_of, named
from dmft.model.schedules import Setting
from dmft.model.updates import LinearUpdate

MAX_STEPS = 10**9  # of a run with a constant learning rate


@dataclass(frozen=True)
class AlgorithmConfig:
    """[algorithm]: the dynamics of the weights, in steps of learning_rate up to t_max."""

    kind: str = option(registry.check_name("kind"), doc="the algorithm")
    learning_rate: Setting = option(SCHEDULED["learning_rate"], doc="learning rate eta, which is also the time that one step takes")
    t_max: float = option(number(0.0, above=True), doc="final time")
    batch_fraction: Setting = key_of(SGD, "batch_fraction", 1.0)
    persistence: Setting | None = key_of(PersistentSGD, "persistence")
    batch_change: str = key_of(PersistentSGD, "batch_change")
    minibatch: str = key_of(SGD, "minibatch")
    temperature: Setting = option(SCHEDULED["temperature"], 0.0, "temperature T of the noise; on the sphere slow modes feel "
                                  "a T, with a = 1/(1 + eta nu_hat)")
    momentum: Setting = option(SCHEDULED["momentum"], 0.0, "share beta of the last displacement that is kept")
    nesterov: bool = option(boolean, False, "evaluate the gradient where the momentum leads")
    update: Named = named("update", "", "update rule, in place of the key nesterov")
    rescale_gradient: bool = option(boolean, True, "divide the gradient by the batch fraction, so that its mean does not depend "
                                    "on it")
    phase: tuple[Table, ...] = option(phase_tables, (), "tables [[phase]]: what changes at a later time or step")

    @cached_property
    def clock(self) -> Clock:
        """The steps of the run: eta_n, t_n and phases."""
        return make_clock(self.learning_rate, self.phase, self.t_max)

    @property
    def steps(self) -> int:
        """The number of steps n; times are t_0 = 0, ..., t_n, with t_k = k eta where eta is a number."""
        return max(1, round(self.t_max / self.first_rate)) if self.steady else self.clock.steps

    @property
    def last_time(self) -> float:
        """t_n, which differs from t_max by half a step at most."""
        return self.steps * self.first_rate if self.steady else float(self.clock.t[-1])

    @property
    def steady(self) -> bool:
        """Whether the learning rate is one number: steps can then be counted without a list of them."""
        return isinstance(self.learning_rate, float) and not self.phase

    @property
    def first_rate(self) -> float:
        """The learning rate of the first step: the unit of time for tolerances and axes."""
        return self.learning_rate if isinstance(self.learning_rate, float) else float(self.clock.eta[0])

    def make_rule(self) -> LinearUpdate:
        """The update rule as an object."""
        return registry.make(LinearUpdate, self.update or ("nesterov" if self.nesterov else "heavy_ball"), self)

    @property
    def has_momentum(self) -> bool:
        """Whether there is momentum at any time, or a rule of another kind."""
        settings = (self.momentum, *(phase.get("momentum") for phase in self.phase))
        return bool(self.update) or any(setting not in (None, 0.0) for setting in settings)

    @property
    def rate_text(self) -> str:
        """The learning rate in a line of text."""
        return f"{self.first_rate:g}" + ("" if self.steady or self.clock.steady else " at first")

    def at_steps(self, key: str, setting: Setting | None = None) -> np.ndarray:
        """(steps,): the value of a key at every step, phases included. setting: its value in the first phase, for a key of another
        section."""
        return self.clock.values(key, getattr(self, key) if setting is None else setting, self.phase)

    def setting(self, key: str) -> np.ndarray:
        """The value of a key at every step, (steps,), or (1,) where it is one number."""
        value = getattr(self, key)
        return np.array([value]) if isinstance(value, float) and not self.phase else self.at_steps(key)

    def make_kind(self) -> Kind:
        """The kind of algorithm as an object."""
        return registry.make(Kind, self.kind, self)


def check_algorithm(algorithm: AlgorithmConfig, unused: dict[str, str], source: str) -> None:
    """RunError for values that contradict each other. unused: keys of [problem] that are not used, each with the reason."""
    eta = algorithm.learning_rate
    if isinstance(eta, float) and not algorithm.phase:
        steps = algorithm.t_max / eta
        if eta > algorithm.t_max or steps > MAX_STEPS:
            raise schema.bad_value(source, "algorithm", "t_max", algorithm.t_max,
                                   f"between one step and {MAX_STEPS:g} steps of learning_rate = {eta:g}")
    else:
        try:
            algorithm.clock  # noqa: B018
        except ValueError as error:
            key = "phase" if algorithm.phase else "learning_rate"
            raise schema.bad_value(source, "algorithm", key, getattr(algorithm, key), str(error)) from None
    unused = {**unused, **registry.unused(algorithm)}
    for i, phase in enumerate(algorithm.phase):
        for key in phase:
            if key in unused:
                raise RunError(f"{source}: [[phase]] {i + 1}: key '{key}' is not used with {unused[key]}; remove it")
    if algorithm.nesterov and not algorithm.has_momentum:
        raise schema.bad_value(source, "algorithm", "nesterov", True, "false without momentum; give algorithm.momentum")
