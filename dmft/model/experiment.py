"""The physics of one run as objects: data model, constraint, mini-batch law, update rule, start and schedules.

Theory and simulator both read it; neither asks a run file for a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmft.core.errors import RunError
from dmft.model.constraints import Constraint, constraint_of
from dmft.model.data import DataModel, data_of
from dmft.model.losses import loss_names
from dmft.model.minibatches import MiniBatch, batch_of
from dmft.model.runfile import Run
from dmft.model.schedules import Schedule
from dmft.model.starts import Start
from dmft.model.updates import PlainStep, Update


@dataclass(frozen=True)
class Experiment:
    """Problem and algorithm of a run file in the notation of docs/equations.md."""

    data: DataModel
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
            data=data_of(problem),
            alpha=problem.alpha,
            start=Start(problem.start, problem.m0),
            constraint=constraint_of(problem.constraint, problem.ridge, problem.start_variance),
            batch=batch_of(algorithm.kind, algorithm.minibatch, algorithm.batch_fraction, algorithm.learning_rate,
                           algorithm.persistence),
            update=PlainStep(),
            eta=algorithm.learning_rate,
            steps=algorithm.steps,
            temperature=Schedule.of(algorithm.temperature).at_steps(algorithm.learning_rate, algorithm.steps),
            gradient_scale=1 / algorithm.batch_fraction if algorithm.rescale_gradient else 1.0,
        )


def known_errors(run: Run, curves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Errors on new samples by name, from curves m, q and perhaps b; none where the loss is unknown here (a user's, read back)
    or declares no labels."""
    if run.problem.loss not in loss_names():
        return {}
    return data_of(run.problem).errors(curves["m"], curves["q"], curves.get("b", 0.0))


def theory_experiment(run: Run) -> Experiment:
    """The experiment of a run that the theory can solve; RunError for a start that it does not have."""
    if run.problem.m0 is None:
        raise RunError(f'[problem] start = "{run.problem.start}": theory needs start = "warm" with an m0; '
                       "the simulator (sgd-sim run) has the other starts")
    experiment = Experiment.from_run(run)
    if not experiment.data.loss.smooth:
        raise RunError(f"[problem] loss = {run.problem.loss!r}: its derivative dv jumps as f grows (a perceptron or hinge?), and "
                       "the theory would miss the delta function in its curvature; smooth the loss over a small width")
    return experiment
