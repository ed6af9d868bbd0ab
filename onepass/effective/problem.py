"""SGD in finite dimension, as the checks of an effective model need it: gradients on fresh data, and the statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onepass.model import Model
from onepass.process import KernelProcess, Moving


@dataclass(frozen=True)
class Problem:
    """One-pass SGD x <- x - delta gradient(x, rng). gradient(x, rng) draws fresh data and returns (P,); statistics(x) gives
    the flat statistics (size,) of the effective model, in the order of its layout."""

    gradient: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    statistics: Callable[[np.ndarray], np.ndarray]
    delta: float


@dataclass
class GradientProcess:
    """SGD of a Problem as a process: slow, since every step calls the user's Python function."""

    problem: Problem
    x: np.ndarray
    rng: np.random.Generator

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self.x = self.x - self.problem.delta * self.problem.gradient(self.x, self.rng)

    @property
    def moving(self) -> Moving:
        self.x = np.array(self.x, float)  # a copy, which checkpoints restore in place
        return self.x, self.rng

    def flat(self) -> np.ndarray:
        return self.problem.statistics(self.x)


def built_in_problem(model: Model, initial, dimension: int) -> tuple[Problem, np.ndarray]:
    """The SGD of SpikedTensor, BinaryMixture or XorMixture as a Problem, and a point x with the given statistics. The gradient is
    minus the change of x in one step of the simulator with delta = 1."""
    process = model.sgd_process(model.start(initial, dimension), dimension, 0, 0)
    assert isinstance(process, KernelProcess)
    kernel, read = process.kernel, process.read
    shapes = [a.shape for a in process.state]
    cuts = np.cumsum([a.size for a in process.state])[:-1]
    middle = process.args[1:-1]  # between delta and the generator

    def arrays(x: np.ndarray) -> list[np.ndarray]:
        return [part.reshape(shape).copy() for part, shape in zip(np.split(x, cuts), shapes, strict=True)]

    def gradient(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        state = arrays(x)
        kernel(*state, 1, 1.0, *middle, rng)
        return x - np.concatenate([a.ravel() for a in state])

    point = np.concatenate([a.ravel() for a in process.state])
    return Problem(gradient, lambda x: read(*arrays(x)), model.time_step(dimension)), point
