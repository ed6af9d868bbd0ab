"""The physics of one run as objects: data model, constraint, mini-batch law, update rule, start and schedules.

Theory and simulator both read it; neither asks a run file for a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmft.core.errors import RunError
from dmft.model.constraints import Constraint, constraint_of
from dmft.model.losses import get_loss, loss_names
from dmft.model.minibatches import MiniBatch, batch_of
from dmft.model.runfile import Run
from dmft.model.schedules import Schedule
from dmft.model.starts import Start
from dmft.model.teacher import Teacher
from dmft.model.updates import PlainStep, Update


@dataclass(frozen=True)
class Experiment:
    """Problem and algorithm of a run file in the notation of docs/equations.md."""

    data: Teacher
    alpha: float
    start: Start
    constraint: Constraint
    batch: MiniBatch
    update: Update
    eta: float
    steps: int
    temperature: np.ndarray  # (steps,) T at each step
    gradient_scale: float  # 1/l, or 1 where the gradient is not rescaled

    @property
    def m0(self) -> float:
        return self.start.overlap

    @property
    def h_start_variance(self) -> float:
        """Variance of h(0)."""
        return self.constraint.start_variance(self.m0)

    @property
    def q_start(self) -> float:
        """C(0, 0)."""
        return self.h_start_variance + self.m0**2

    @cached_property
    def mirrored(self) -> bool:
        """m0 = 0 and a loss even in h: (h, chi) and (-h, -chi) are equally likely and m stays 0 exactly."""
        return self.m0 == 0 and self.data.even

    @cached_property
    def noisy(self) -> bool:
        """Whether two samples with the same past can part: by mini-batches or by heat."""
        return self.batch.random or bool(np.any(self.temperature > 0))

    @classmethod
    def from_run(cls, run: Run) -> Experiment:
        problem, algorithm = run.problem, run.algorithm
        return cls(
            data=Teacher(get_loss(problem.loss)),
            alpha=problem.alpha,
            start=Start(problem.start, problem.m0),
            constraint=constraint_of(problem.constraint, problem.ridge),
            batch=batch_of(algorithm.kind, algorithm.minibatch, algorithm.batch_fraction, algorithm.learning_rate,
                           algorithm.persistence),
            update=PlainStep(),
            eta=algorithm.learning_rate,
            steps=algorithm.steps,
            temperature=Schedule.of(algorithm.temperature).at_steps(algorithm.learning_rate, algorithm.steps),
            gradient_scale=1 / algorithm.batch_fraction if algorithm.rescale_gradient else 1.0,
        )


def known_errors(run: Run, m: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """Errors on new samples by name; none where the loss is unknown here (a user's, read back) or declares no labels."""
    return Teacher(get_loss(run.problem.loss)).errors(m, q) if run.problem.loss in loss_names() else {}


def theory_experiment(run: Run) -> Experiment:
    """The experiment of a run that the theory can solve; RunError for a start that it does not have."""
    if run.problem.m0 is None:
        raise RunError(f'[problem] start = "{run.problem.start}": theory needs start = "warm" with an m0; '
                       "the simulator (sgd-sim run) has the other starts")
    return Experiment.from_run(run)
