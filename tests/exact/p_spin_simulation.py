"""Direct simulation of closed models, the energy as Gaussian tensors of N^p numbers: p = 2 up to N = 4000, p = 3 up to N = 200."""

from __future__ import annotations

from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np

from dmft.core.streams import generator
from dmft.model.data import data_of
from dmft.model.experiment import Experiment
from dmft.model.p_spin import PSpin, derivative
from dmft.model.runfile import Run


class Trajectories(NamedTuple):
    """Each (instances, steps + 1)."""

    m: np.ndarray
    E: np.ndarray
    C_start: np.ndarray  # C(n, 0)


def simulate(run: Run, N: int, instances: int, seed: int = 1) -> Trajectories:
    """Gradient descent or Langevin dynamics with any rule and schedule; each instance has its own energy, start and noise."""
    found = [_trajectory(run, N, seed, i) for i in range(instances)]
    return Trajectories(*(np.array(curves) for curves in zip(*found, strict=True)))


def _trajectory(run: Run, N: int, seed: int, instance: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    e, model = Experiment.from_run(run), data_of(run.problem)
    assert isinstance(model, PSpin)
    random = generator(seed, "p_spin", instance)
    tensors = []
    for power, c in model.covariance:  # <H H> = N c q^p
        J = random.standard_normal((N,) * power) * np.sqrt(c) * N ** (-(power - 1) / 2)
        tensors.append((power, sum(J.transpose(order) for order in permutations(range(power))) / factorial(power)))
    phi, slope = (derivative(model.phi, order)[::-1] for order in (0, 1))
    w0 = np.sqrt(N) * np.eye(N)[0]
    z = random.standard_normal(N)
    z[0] = 0.0
    w = e.m0 * w0 + np.sqrt(1 - e.m0**2) * z * np.sqrt(N) / np.linalg.norm(z)

    def pulled(w: np.ndarray) -> tuple[float, np.ndarray]:
        """The energy over N, and minus its gradient."""
        m, E, force = w[0] / np.sqrt(N), 0.0, np.zeros(N)
        for power, S in tensors:
            contracted = S
            for _ in range(power - 1):
                contracted = contracted @ w
            E -= float(contracted @ w) / N
            force += power * contracted
        return E - np.polyval(phi, m), force + np.polyval(slope, m) * w0

    curves = np.zeros((3, e.steps + 1))
    first, before = w.copy(), w.copy()
    for n in range(e.steps + 1):
        curves[:, n] = w[0] / np.sqrt(N), pulled(w)[0], w @ first / N
        if n == e.steps:
            break
        y = w + e.update.ahead[n] * (w - before)
        u = e.update.A[n] * y - e.update.B[n] * before + e.eta_n[n] * pulled(y)[1] + np.sqrt(e.heat(n)) * random.standard_normal(N)
        before, w = w, u * np.sqrt(N) / np.linalg.norm(u)
    return curves[0], curves[1], curves[2]
