"""The physics of one run as objects: data model, constraint, mini-batch law, update rule, start and schedules.

Theory and simulator both read these objects; neither looks up names in a run file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmft.model.channels import SMOOTH
from dmft.model.constraints import Constraint, Sphere
from dmft.model.curves import TABLE, asked_for, defined, everywhere
from dmft.model.data import data_of, is_sampled, make_constraint, make_loss, make_start
from dmft.model.law import DataModel
from dmft.model.loss import Loss
from dmft.model.loss_family import even_in_field
from dmft.model.minibatches import Batches, FullBatch, MiniBatch
from dmft.model.network import TwoLayer, network_of
from dmft.model.network_errors import network_errors, specialisations
from dmft.model.preprocessing import spectral_loss
from dmft.model.runfile import Run
from dmft.model.schedules import schedule_of
from dmft.model.spectral import PowerIteration
from dmft.model.starts import Start
from dmft.model.support import check_support
from dmft.model.updates import Update


@dataclass(frozen=True)
class Experiment:
    """Problem and algorithm of a run file in the notation of docs/equations.md.

    Arrays are (steps,), one value for each step n; the last row of the theory, after which no step follows, has the values of the
    last step. The first `hidden` steps belong to the start (power iteration) and have no place on the time axis."""

    data: DataModel
    alpha: float
    start: Start
    constraint: Constraint
    batches: Batches
    update: Update
    steps: int
    eta_n: np.ndarray
    t_n: np.ndarray  # (steps + 1,)
    temperature: np.ndarray  # T_n
    ridge_n: np.ndarray  # lambda_n
    scale_n: np.ndarray  # 1/l_n, or 1 where the gradient is not rescaled
    losses: tuple[Loss, ...]
    loss_n: np.ndarray  # (steps + 1,) index in `losses` of the loss of each row
    jump_n: np.ndarray  # (steps,) whether a setting jumps at the beginning of a step: a block of the history does not span it
    hidden: int = 0
    observables: tuple[str, ...] = ()  # curves that are averages of a function of a sample
    asked: tuple[str, ...] = ()  # curves that the theory has because the run asks for them
    network: TwoLayer | None = None  # in place of a single unit: data, start and constraint above are then not used

    @property
    def m0(self) -> float:
        """The overlap of the start."""
        return self.start.overlap

    @property
    def clones(self) -> bool:
        """Whether every sample has a second copy (samples/clones.py)."""
        return "C_12" in self.asked

    @property
    def eta_0(self) -> float:
        """The learning rate of the first step: the unit of R."""
        return float(self.eta_n[0])

    @property
    def batch(self) -> MiniBatch:
        """The law of the first mini-batch."""
        return self.batches.law(0)

    def loss(self, n: int) -> Loss:
        """The loss of row n."""
        return self.losses[self.loss_n[n]]

    def heat(self, n: int) -> float:
        """Variance of the thermal noise of step n. Eq. [momentum]."""
        return float(self.heat_n[min(n, self.steps - 1)])

    @cached_property
    def heat_n(self) -> np.ndarray:
        """Variance of the thermal noise of every step."""
        return self.update.heat(self.temperature, self.eta_n)

    def constraint_at(self, n: int) -> Constraint:
        """The constraint of step n; hidden steps, of power iteration, stay on the sphere."""
        return Sphere() if n < self.hidden else self.constraint

    @property
    def h_start_variance(self) -> float:
        """Variance of h(0)."""
        return self.constraint_at(0).spread(self.m0)

    @property
    def q_start(self) -> float:
        """C(0, 0)."""
        return self.h_start_variance + self.m0**2

    @cached_property
    def mirrored(self) -> bool:
        """m0 = 0 and losses even in h: (h, chi) and (-h, -chi) are equally likely and m stays 0 exactly."""
        return self.network is None and self.m0 == 0 and self.data.even and all(even_in_field(loss) for loss in self.losses)

    @cached_property
    def nonconvex(self) -> bool:
        """Whether the loss of any phase is not known to be convex: tangents can grow."""
        return not all(loss.convex for loss in self.losses)

    @cached_property
    def barriers(self) -> bool:
        """Whether samples can rest on a barrier of the loss, between two fields that fit a label smooth in h0: a loss is not known
        to be convex, and the control variate of mu has a response to the label."""
        return self.nonconvex and self.data.control == SMOOTH

    @cached_property
    def stein(self) -> bool:
        """Whether the loss of every phase has the derivatives in the label that the control variate of mu may need."""
        if self.network is not None:
            return self.network.by_parts and all(loss.stein is True for loss in self.losses)
        return all(self.data.by_parts(loss) for loss in self.losses)

    @cached_property
    def centred(self) -> bool:
        """m stays 0 by symmetry: of h, or of h0 from a random start."""
        return self.mirrored or self.start.random

    @classmethod
    def from_run(cls, run: Run) -> Experiment:
        """The experiment of a run file, without the hidden steps of a spectral start (`theory_experiment` adds them)."""
        problem, algorithm = run.problem, run.algorithm
        clock, steps = algorithm.clock, algorithm.steps
        fraction = algorithm.at_steps("batch_fraction")
        losses, loss_n = _losses(run)
        constraint = make_constraint(problem)
        update = Update.of(algorithm.make_rule(), algorithm.at_steps("momentum"))
        return cls(
            data=data_of(problem),
            alpha=problem.alpha,
            start=make_start(problem),
            constraint=constraint,
            batches=_batches(run, fraction),
            update=update,
            steps=steps,
            eta_n=clock.eta * update.gain,
            t_n=clock.t,
            temperature=algorithm.at_steps("temperature"),
            ridge_n=algorithm.at_steps("ridge", constraint.decay),
            scale_n=1 / fraction if algorithm.rescale_gradient else np.ones(steps),
            losses=losses,
            loss_n=loss_n,
            jump_n=_jumps(run),
            observables=observables_of(run),
            asked=asked_for(run.theory),
            network=network_of(run.network, problem) if run.has_network else None,
        )


def observables_of(run: Run) -> tuple[str, ...]:
    """Names of the curves of a run that are averages over samples: those of the table that are defined for it, and its own. Where
    something is a user's and not registered here (in a result that is read back) nobody knows the labels."""
    if run.has_network:
        return run.theory.observables
    fixed = defined(data_of(run.problem), make_start(run.problem).random) if run.known else TABLE
    return *(curve.name for curve in fixed if curve.value and (run.known or curve.where is everywhere)), *run.theory.observables


def _losses(run: Run) -> tuple[tuple[Loss, ...], np.ndarray]:
    """The losses of a run, and for each row (steps + 1,) the index of its loss."""
    names = [run.problem.loss]
    for phase in run.algorithm.phase:
        names.append(phase.get("loss", names[-1]))
    distinct = list(dict.fromkeys(names))
    losses = tuple(make_loss(run.problem, name) for name in distinct)
    return losses, np.array([distinct.index(name) for name in names])[run.algorithm.clock.phase]


def _batches(run: Run, fraction: np.ndarray) -> Batches:
    """The mini-batch laws of all steps; fraction (steps,): l_n."""
    algorithm, steps = run.algorithm, run.algorithm.steps
    eta, kind = algorithm.clock.eta, algorithm.make_kind()
    tau = np.zeros(steps) if algorithm.persistence is None else algorithm.at_steps("persistence")
    if all(np.all(x == x[0]) for x in (fraction, tau, *(() if algorithm.persistence is None else (eta,)))):
        return Batches.steady(kind.law(float(fraction[0]), algorithm.first_rate, float(tau[0])), steps)
    laws: list[MiniBatch] = []
    begin = 0
    for n in range(steps):
        if n and fraction[n] != fraction[n - 1]:
            begin = n
        same = n and begin < n and tau[n] == tau[n - 1] and (eta[n] == eta[n - 1] or algorithm.persistence is None)
        laws.append((laws[-1] if same else kind.law(float(fraction[n]), float(eta[n]), float(tau[n]))).begun(begin))
    return Batches.of(laws, algorithm.batch_change == "relax")


def _jumps(run: Run) -> np.ndarray:
    """(steps,) whether eta, l, the loss or another setting jumps at the beginning of a step: where a phase begins, and where a
    schedule goes from one listed value to the next. The temperature does not count, because it enters no kernel; but that of
    a closed model does, whose kernels follow C at once."""
    algorithm, clock = run.algorithm, run.algorithm.clock
    jumps = np.zeros(clock.steps, bool)
    jumps[list(clock.begins[1:])] = True
    keys = ["learning_rate", "batch_fraction", "persistence", "momentum", *([] if is_sampled(run.problem) else ["temperature"])]
    settings = {key: getattr(algorithm, key) for key in keys}
    for key, setting in {**settings, "ridge": run.problem.ridge}.items():
        if setting is None:
            continue
        jumps |= schedule_of(setting).jumps(clock.t[:-1], clock.eta)
        for begin, phase in zip(clock.begins[1:], algorithm.phase, strict=True):
            if key in phase:
                jumps[begin:] |= schedule_of(phase[key]).jumps(clock.t[begin:-1] - clock.t[begin], clock.eta[begin:])
    return jumps


def by_loss(run: Run, averages: Callable[[DataModel], dict[str, np.ndarray]], steps: np.ndarray | slice = slice(None)
            ) -> dict[str, np.ndarray]:
    """Averages over new samples along a run, each (.., steps), where labels are predicted as the loss of each step does it."""
    data, (losses, loss_n) = data_of(run.problem), _losses(run)
    if len({loss.threshold for loss in losses}) == 1:
        return averages(data)
    found = [averages(dataclasses.replace(data, loss=loss)) for loss in losses]
    return {name: np.choose(loss_n[steps], [each[name] for each in found]) for name in found[0]}


def known_errors(run: Run, curves: Mapping[str, np.ndarray], steps: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
    """Errors on new samples by name, from curves m, q and perhaps b, at these steps (all of them unless told); none where something
    is not registered here (a user's, in a result that is read back) or the first loss declares no labels."""
    if not run.known:
        return {}
    if run.has_network:
        network = network_of(run.network, run.problem)
        return network_errors(network, curves) | specialisations(network, curves["m"])
    # a file has no b where no intercept is learnt, and a result read from it has NaN
    given = curves["m"], curves["q"], curves.get("b", 0.0) if run.problem.bias else 0.0
    return by_loss(run, lambda data: data.errors(*given), steps)


def theory_experiment(run: Run) -> Experiment:
    """The experiment of a run that the theory can solve; RunError for what it is not meant for."""
    check_support(run, "theory")
    experiment = Experiment.from_run(run)
    power = experiment.start.power(run.problem.alpha, run.problem.label_noise)
    return after_power_iteration(experiment, power, run.problem.preprocessing) if power else experiment


def after_power_iteration(e: Experiment, power: PowerIteration, preprocessing: str) -> Experiment:
    """The experiment `e` preceded by the steps of power iteration, on the sphere and with all samples. The spectral start depends
    on the data, so the theory has to follow the steps that make it; nothing is reset when they end. Eq. [phases]."""
    steps = power.steps

    def before(value: float, array: np.ndarray) -> np.ndarray:
        return np.concatenate((np.full(steps, value, array.dtype), array))

    laws = tuple(law.begun(steps, more=True) for law in e.batches.laws)
    jumps = before(False, e.jump_n)
    jumps[steps] = True
    return dataclasses.replace(
        e, start=e.start.begun(power.m0), batches=Batches((FullBatch(), *laws), before(0, e.batches.which + 1), e.batches.relax),
        update=e.update.after(steps), steps=e.steps + steps, eta_n=before(power.c, e.eta_n),
        t_n=before(0.0, e.t_n), temperature=before(0.0, e.temperature), ridge_n=before(0.0, e.ridge_n),
        scale_n=before(1.0, e.scale_n),
        losses=(spectral_loss(preprocessing, e.alpha), *e.losses), loss_n=before(0, e.loss_n + 1), jump_n=jumps,  # [phases]
        hidden=steps)

