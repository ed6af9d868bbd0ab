"""The physics of one run, as numbers: what the solver needs and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core.errors import RunError
from dmft.model.losses import Loss, get_loss
from dmft.model.runfile import Run

# How the mini-batch weight s(n) of a sample moves. Bernoulli and without replacement have the same limit.
FULL_BATCH, BERNOULLI, POISSON, PERSISTENT = range(4)


@dataclass(frozen=True)
class Problem:
    """Problem and algorithm of a run file in the notation of docs/equations.md."""

    loss: Loss
    alpha: float
    m0: float
    sphere: bool
    ridge: float
    eta: float
    steps: int
    temperature: np.ndarray  # (steps,) T at each step
    batch: int
    batch_fraction: float
    p_on: float  # persistent SGD: 0 -> 1
    p_off: float  # persistent SGD: 1 -> 0
    gradient_scale: float  # 1/l, or 1 where the gradient is not rescaled

    @property
    def h_start_variance(self) -> float:
        """Variance of h(0): 1 - m0^2 on the sphere; with ridge w = m0 w0 + z (eq. C.2) it is 1. Eq. [ridge]."""
        return 1 - self.m0**2 if self.sphere else 1.0

    @property
    def q_start(self) -> float:
        """C(0, 0)."""
        return self.h_start_variance + self.m0**2

    @property
    def mirrored(self) -> bool:
        """m0 = 0 and a loss even in h: (h, chi) and (-h, -chi) are equally likely and m stays 0 exactly."""
        points = ((0.3, 0.7), (1.1, 0.4), (1.7, -1.3))
        return self.m0 == 0 and all(self.loss.v(h, h0) == self.loss.v(-h, h0) for h, h0 in points)

    @classmethod
    def from_run(cls, run: Run) -> Problem:
        """UserError for a start that the theory does not have."""
        problem, algorithm = run.problem, run.algorithm
        if problem.m0 is None:
            raise RunError(f'[problem] start = "{problem.start}": theory needs start = "warm" with an m0; '
                           "the simulator (sgd-sim run) has the other starts")
        fraction, eta = algorithm.batch_fraction, algorithm.learning_rate
        p_on = p_off = 0.0
        batch = FULL_BATCH
        if algorithm.persistence is not None:
            batch = PERSISTENT
            p_on = eta / algorithm.persistence
            p_off = (1 - fraction) * eta / (fraction * algorithm.persistence)
        elif algorithm.kind == "sgd":
            batch = POISSON if algorithm.minibatch == "with_replacement" else BERNOULLI
        return cls(
            loss=get_loss(problem.loss),
            alpha=problem.alpha,
            m0=problem.m0,
            sphere=problem.constraint == "sphere",
            ridge=problem.ridge,
            eta=eta,
            steps=algorithm.steps,
            temperature=algorithm.temperatures(),
            batch=batch,
            batch_fraction=fraction,
            p_on=p_on,
            p_off=p_off,
            gradient_scale=1 / fraction if algorithm.rescale_gradient else 1.0,
        )
