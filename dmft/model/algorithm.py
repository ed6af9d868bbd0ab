"""[algorithm] of a run file: the dynamics of the weights, with schedules and phases, and the checks of keys against each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmft.core import schema
from dmft.core.errors import RunError
from dmft.core.schema import boolean, choice, number, option, text
from dmft.model.clock import SCHEDULED, Clock, make_clock, phase_tables
from dmft.model.minibatches import EPOCHS, MINIBATCHES, Persistent, whole_epochs
from dmft.model.schedules import Setting, Table

MAX_STEPS = 10**9  # of a run with a constant learning rate


@dataclass(frozen=True)
class AlgorithmConfig:
    """[algorithm]: the dynamics of the weights, in steps of learning_rate up to t_max."""

    kind: str = option(choice("gd", "sgd", "persistent_sgd", "langevin"), doc="gd, sgd, persistent_sgd or langevin")
    learning_rate: Setting = option(SCHEDULED["learning_rate"], doc="eta, the time of one step; a number or a schedule")
    t_max: float = option(number(0.0, above=True), doc="final time")
    batch_fraction: Setting = option(SCHEDULED["batch_fraction"], 1.0, "share of samples in a mini-batch")
    persistence: Setting | None = option(SCHEDULED["persistence"], None, "tau, how long a sample stays out of the batch")
    batch_change: str = option(choice("jump", "relax"), "jump",
                               "persistent_sgd, when the batch fraction changes: at once, or as the chain gets there")
    minibatch: str = option(choice(*MINIBATCHES, *EPOCHS), "bernoulli",
                            "how sgd draws its mini-batch")
    temperature: Setting = option(SCHEDULED["temperature"], 0.0, "a number or a schedule [[0.0, T0], [t1, T1], ...]")
    momentum: Setting = option(SCHEDULED["momentum"], 0.0, "beta, the share of the last displacement that is kept")
    nesterov: bool = option(boolean, False, "take the gradient where the momentum leads")
    update: str = option(text, "", "heavy_ball, nesterov or a registered update rule, in place of nesterov")
    rescale_gradient: bool = option(boolean, True, "divide the gradient by the batch fraction (1 with gd and langevin)")
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

    @property
    def rule(self) -> str:
        """The name of the update rule."""
        return self.update or ("nesterov" if self.nesterov else "heavy_ball")

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

    def unused(self) -> dict[str, str]:
        """Keys that this kind does not use, each with the reason."""
        reason = f'kind = "{self.kind}"'
        used_by = {"batch_fraction": ("sgd", "persistent_sgd"), "persistence": ("persistent_sgd",),
                   "minibatch": ("sgd",), "batch_change": ("persistent_sgd",)}
        return {key: reason for key, kinds in used_by.items() if self.kind not in kinds}

    def needed(self) -> dict[str, str]:
        """Keys that this kind needs although they have a default, each with the reason."""
        keys = {"sgd": ["batch_fraction"], "persistent_sgd": ["batch_fraction", "persistence"],
                "langevin": ["temperature"]}.get(self.kind, [])
        return dict.fromkeys(keys, f'kind = "{self.kind}"')


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
    unused = {**unused, **algorithm.unused()}
    for i, phase in enumerate(algorithm.phase):
        for key in phase:
            if key in unused:
                raise RunError(f"{source}: [[phase]] {i + 1}: key '{key}' is not used with {unused[key]}; remove it")
    if algorithm.nesterov and algorithm.update:
        raise schema.bad_value(source, "algorithm", "nesterov", True, f'false with update = "{algorithm.update}"')
    if algorithm.nesterov and not algorithm.has_momentum:
        raise schema.bad_value(source, "algorithm", "nesterov", True, "false without momentum; give algorithm.momentum")
    if algorithm.minibatch in EPOCHS:
        _check_epochs(algorithm, source)
    if algorithm.persistence is not None:
        _check_persistence(algorithm, source)


def _check_epochs(algorithm: AlgorithmConfig, source: str) -> None:
    """RunError where 1/l is not a whole number of mini-batches an epoch."""
    fractions = algorithm.at_steps("batch_fraction") if algorithm.phase or not isinstance(algorithm.batch_fraction, float) \
        else np.array([algorithm.batch_fraction])
    wrong = ~whole_epochs(fractions)
    if np.any(wrong):
        value = algorithm.batch_fraction if isinstance(algorithm.batch_fraction, float) else float(fractions[wrong][0])
        raise schema.bad_value(source, "algorithm", "batch_fraction", value,
                               f'1/E with a whole number E of mini-batches an epoch, for minibatch = "{algorithm.minibatch}"')


def _check_persistence(algorithm: AlgorithmConfig, source: str) -> None:
    """RunError where a switching probability of the persistent chain would exceed 1."""
    eta, tau, ell = algorithm.learning_rate, algorithm.persistence, algorithm.batch_fraction
    allowed = "switching probabilities eta/tau and (1-l)eta/(l tau) must be <= 1"
    if isinstance(eta, float) and isinstance(tau, float) and isinstance(ell, float) and not algorithm.phase:
        smallest = Persistent.shortest(ell, eta)
        if tau < smallest * (1.0 - 1e-12):
            raise schema.bad_value(source, "algorithm", "persistence", tau, f">= {smallest:g}: {allowed}")
        return
    times = algorithm.at_steps("persistence")
    least = algorithm.clock.eta * np.maximum(1.0, (1.0 - (fraction := algorithm.at_steps("batch_fraction"))) / fraction)
    short = times < least * (1.0 - 1e-12)
    if np.any(short):
        n = int(np.argmax(short))
        raise schema.bad_value(source, "algorithm", "persistence", tau,
                               f">= {least[n]:g} at t = {algorithm.clock.t[n]:g} (step {n}), where it is {times[n]:g}: {allowed}")
