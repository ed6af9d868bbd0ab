"""The schedule of the learning rate with the least risk at the end of a given number of samples, by control of the ODE.

The rate is piecewise constant, u_1, ..., u_N on equal intervals of (0, T). The ODE x' = F(x, u) is integrated by the Runge-Kutta
rule of order 4, and the gradient of the final risk is that of these steps, exactly: with k_i the stages at states x_i,
x_{n+1} = x + (h/6)(k_1 + 2 k_2 + 2 k_3 + k_4), and l the gradient with respect to x_{n+1},
    a_4 = (h/6) l,  a_3 = (h/3) l + h b_4,  a_2 = (h/3) l + (h/2) b_3,  a_1 = (h/6) l + (h/2) b_2,  b_i = J(x_i)^T a_i,
    l -> l + b_1 + b_2 + b_3 + b_4,   dR/du += sum_i a_i . dF/du(x_i).
A mini-batch is no second control: b samples at the rate u move the overlaps as b single ones at the rate u/b, so that only u/b
matters for a given number of samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy  # loads its parts when they are first used

from dmft.core.errors import RunError
from onepass.networks.network import Network

DIFFERENCE = 1e-5        # of the differences that give J, relative to the statistics
LARGEST_RATE = 50.0
ROUGH_SCHEDULE = 2e-3    # of the excess risks found: else the steps of the rule are halved and all is done again
MOST_SUBSTEPS = 64       # in an interval
NO_RISK = 1e6            # stands for that of a schedule at which the rule diverges


class RateSchedule(NamedTuple):
    """A schedule and its final risk: factors (intervals,) of the learning rate on equal intervals of (0, t_max)."""

    rates: np.ndarray
    t_max: float
    risk: float

    def applied(self, net: Network) -> Network:
        """The network with this schedule, for solve, chain and simulate."""
        times = self.t_max * np.arange(len(self.rates)) / len(self.rates)
        return replace(net, rate_decay=(1.0, 0.0), rate_steps=tuple(zip(times.tolist(), self.rates.tolist(), strict=True)))


class BestSchedules(NamedTuple):
    """The best schedule, the best constant rate, and the best power law u_0 (1 + t/t_0)^-kappa with its (u_0, t_0, kappa)."""

    optimal: RateSchedule
    constant: RateSchedule
    power: RateSchedule
    power_law: tuple[float, float, float]


def _drift(net: Network, x: np.ndarray, u: float) -> np.ndarray:
    return net.drift(x, np.full(x.shape[:-1], u))


def _jacobians(net: Network, x: np.ndarray, u: float) -> np.ndarray:
    """dF_i/dx_j at each of the states x (n, size), (n, size, size), by central differences."""
    steps = DIFFERENCE * np.maximum(1.0, np.abs(x))[:, :, None] * np.eye(x.shape[1])
    sides = [_drift(net, x[:, None] + sign * steps, u) for sign in (1.0, -1.0)]      # (n, j, i)
    return np.swapaxes((sides[0] - sides[1]) / (2.0 * np.einsum("njj->nj", steps)[:, :, None]), 1, 2)


def _forward(net: Network, x0: np.ndarray, rates: np.ndarray, h: float, substeps: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The last state, and the states (4, size) of the stages of every step."""
    x, stages = x0, []
    for u in np.repeat(rates, substeps):
        k1 = _drift(net, x, u)
        x2 = x + 0.5 * h * k1
        k2 = _drift(net, x2, u)
        x3 = x + 0.5 * h * k2
        k3 = _drift(net, x3, u)
        x4 = x + h * k3
        stages.append(np.stack([x, x2, x3, x4]))
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + _drift(net, x4, u))
    return x, stages


def _risk(net: Network, x: np.ndarray) -> np.ndarray:
    return net.observables(net.layout.unpack(x))["risk"]


def final_risk(net: Network, x0: np.ndarray, rates: np.ndarray, t_max: float, substeps: int = 2) -> float:
    """Risk at t_max; `substeps` of the rule in each interval."""
    return float(_risk(net, _forward(net, x0, rates, t_max / (len(rates) * substeps), substeps)[0]))


def risk_and_gradient(net: Network, x0: np.ndarray, rates: np.ndarray, t_max: float, substeps: int = 2) -> tuple[float, np.ndarray]:
    """The same with its gradient (intervals,) with respect to the rates."""
    h = t_max / (len(rates) * substeps)
    x, stages = _forward(net, x0, rates, h, substeps)
    width = DIFFERENCE * np.maximum(1.0, np.abs(x))
    l = (_risk(net, x + np.diag(width)) - _risk(net, x - np.diag(width))) / (2.0 * width)
    gradient = np.zeros(len(rates))
    for n in range(len(stages) - 1, -1, -1):
        u, at = rates[n // substeps], stages[n]
        J = _jacobians(net, at, u)
        slope = _drift(net, at, u + 0.5) - _drift(net, at, u - 0.5)      # dF/du: F is quadratic in u
        b, total = np.zeros_like(l), l
        for stage, own, later in ((3, h / 6.0, 0.0), (2, h / 3.0, h), (1, h / 3.0, 0.5 * h), (0, h / 6.0, 0.5 * h)):
            a = own * l + later * b
            gradient[n // substeps] += a @ slope[stage]
            b = J[stage].T @ a
            total = total + b
        l = total
    return float(_risk(net, x)), gradient


def best_schedules(net: Network, initial: Mapping[str, np.ndarray], t_max: float, intervals: int = 20) -> BestSchedules:
    """Minimise the final risk over constants, power laws and all schedules of that many intervals. The steps of the rule are halved
    until the risks of all three have converged: an optimum of steps that are too long is none of the ODE."""
    if net.averages.quasi_random or not net.linear:
        raise RunError("optimal schedules need a drift that is smooth and quadratic in the learning rate: square loss, one use")
    plain = replace(net, rate_decay=(1.0, 0.0), rate_steps=())
    x0 = plain.start({name: value for name, value in initial.items() if name != "clock" or plain.scheduled})
    substeps = 2
    while substeps <= MOST_SUBSTEPS:
        found = _minimised(plain, x0, t_max, intervals, substeps)
        substeps *= 2
        with np.errstate(over="ignore", invalid="ignore"):
            finer = [final_risk(plain, x0, one.rates, t_max, substeps) for one in found[:3]]
        excess = [one.risk - 0.5 * net.noise for one in found[:3]]
        if all(abs(fine - one.risk) <= ROUGH_SCHEDULE * above for fine, one, above in zip(finer, found[:3], excess, strict=True)):
            return found
    raise RunError(f"t_max = {t_max:g}, intervals = {intervals}: the ODE moves too fast for so few intervals; take more of them")


def _minimised(plain: Network, x0: np.ndarray, t_max: float, intervals: int, substeps: int) -> BestSchedules:
    """The three minima with that many steps of the rule in an interval."""
    middle = t_max * (np.arange(intervals) + 0.5) / intervals

    def risk(rates: np.ndarray) -> float:
        value = final_risk(plain, x0, rates, t_max, substeps)
        return value if np.isfinite(value) else NO_RISK

    def with_gradient(rates: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = risk_and_gradient(plain, x0, rates, t_max, substeps)
        return (value, gradient) if np.isfinite(value) and np.isfinite(gradient).all() else (NO_RISK, np.zeros_like(rates))

    def law(u: np.ndarray) -> np.ndarray:
        return np.exp(u[0]) * (1.0 + middle / np.exp(u[1])) ** -np.exp(u[2])

    with np.errstate(over="ignore", invalid="ignore"):
        grid = np.geomspace(0.02, 10.0, 14)
        first = grid[int(np.argmin([risk(np.full(intervals, u)) for u in grid]))]
        one = scipy.optimize.minimize_scalar(lambda u: risk(np.full(intervals, np.exp(u))), method="bounded",
                                             bounds=(np.log(first) - 0.5, np.log(first) + 0.5), options={"xatol": 1e-4})
        power = scipy.optimize.minimize(lambda u: risk(law(u)), [one.x + 0.5, np.log(0.3 * t_max), 0.0], method="Nelder-Mead",
                                        options={"maxiter": 120, "xatol": 1e-3, "fatol": 1e-9})
        begin = np.clip(law(power.x), 1e-6, LARGEST_RATE)
        best = scipy.optimize.minimize(with_gradient, begin, jac=True, method="L-BFGS-B",
                                       bounds=[(0.0, LARGEST_RATE)] * intervals, options={"maxiter": 100, "ftol": 1e-11})
    u_0, t_0, kappa = np.exp(power.x)
    return BestSchedules(
        RateSchedule(best.x, t_max, float(best.fun)), RateSchedule(np.full(intervals, np.exp(one.x)), t_max, float(one.fun)),
        RateSchedule(law(power.x), t_max, float(power.fun)), (float(u_0), float(t_0), float(kappa)),
    )  # fmt: skip
