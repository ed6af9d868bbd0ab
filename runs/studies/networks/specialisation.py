"""Specialisation of two units on two directions: how it depends on the number of samples, and on the asymmetry of the start.

erf units on spheres, labels by two orthogonal erf units, gradient descent at eta alpha = 0.6 from m0 = [[m + d, m - d], [m - d, m
+ d]], m = 0.225. The specialisation is the mean of m on the diagonal less that beside it, 2 d at the start. Theory for several
alpha at equal eta alpha t, with histories in blocks at long times, simulation for one of them, and the time it takes to 0.1.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import dmft
import sgd_sim
from dmft.core.parallel import world
from workbench.plots.style import BAND, BLACK, new_figure, save, scale_colour

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from options import read_options  # noqa: E402

GAMMA, MIDDLE, DELTA, LEVEL = 0.6, 0.225, 0.025, 0.1


def case(alpha: float, steps: int, delta: float = DELTA) -> dmft.Experiment:
    """The run at alpha, so many steps long."""
    eta = GAMMA / alpha
    return dmft.Experiment(
        units=2, directions=2, activation="erf", alpha=alpha, kind="gd",
        m0=[[MIDDLE + delta, MIDDLE - delta], [MIDDLE - delta, MIDDLE + delta]],
        learning_rate=eta, t_max=steps * eta, samples=16384, replicas=4, record="linear",
        history="dyadic", blocks_per_level=8)


def main() -> None:
    options = read_options(__doc__, "few samples, 40 steps: a minute", dimension=1000, instances=24)
    alphas, deltas, steps, mark, smaller = (2.0, 4.0, 8.0, 32.0), (DELTA, DELTA / 4), 160, "", {}
    if options.quick:
        alphas, deltas, steps, mark, smaller = (4.0, 8.0), (DELTA, DELTA / 2), 40, "-quick", {"samples": 512, "replicas": 3}
    theories = {alpha: dmft.solve(case(alpha, steps).replace(**smaller), resume=True,
                                  output=options.output / f"network-specialisation-{alpha:g}{mark}.theory.h5") for alpha in alphas}
    run = case(alphas[1], 80 if not mark else steps).replace(dimension=options.dimension, instances=options.instances)
    sim = sgd_sim.simulate(run if not mark else run.replace(dimension=200, instances=8), resume=True,
                           output=options.output / f"network-specialisation{mark}.simulation.h5")
    late = {DELTA: theories[alphas[-1]]}
    late |= {delta: dmft.solve(case(alphas[-1], steps, delta).replace(**smaller), resume=True,
                               output=options.output / f"network-start-{delta:g}{mark}.theory.h5") for delta in deltas[1:]}
    if not world().is_root:
        return
    figure = new_figure(11.0, 4.4)
    left, right = figure.subplots(1, 2)
    for i, (alpha, theory) in enumerate(theories.items()):
        mean, error = theory.specialisation, theory.specialisation_error
        x, color = alpha * theory.t, scale_colour(0.9 * i / max(len(alphas) - 1, 1))
        left.fill_between(x, mean - BAND * error, mean + BAND * error, color=color, alpha=0.3, linewidth=0)
        left.plot(x, mean, color=color, label=rf"$\alpha$ = {alpha:g}")
        at = [n for n in (0, 10, 20, 40, 80, 160) if n < mean.size]
        print(f"alpha = {alpha:g}: " + ", ".join(f"n = {n}: {mean[n]:.4f} +- {error[n]:.4f}" for n in at)
              + f"; loss at the end {theory.loss[-1]:.5f}, mse {theory.mse[-1]:.5f}")
    mean, error = sim.mean().specialisation, sim.error().specialisation
    some = slice(None, None, max(1, sim.t.size // 10))
    left.errorbar(alphas[1] * sim.t[some], mean[some], BAND * error[some], fmt="o", ms=3.5, color=BLACK,
                  label=rf"$\alpha$ = {alphas[1]:g}, N = {sim.run.simulation.dimension}")
    print(f"simulation, alpha = {alphas[1]:g}: " + ", ".join(
        f"n = {n}: {mean[n]:.4f} +- {error[n]:.4f}" for n in (10, 20, 40, 80) if n < mean.size))
    left.set_xlabel(r"$\alpha t$")
    left.set_ylabel("specialisation")
    left.legend(fontsize="small")
    for i, (delta, theory) in enumerate(late.items()):
        mean, error = theory.specialisation, theory.specialisation_error
        color = scale_colour(0.9 * i / max(len(deltas) - 1, 1))
        right.fill_between(alphas[-1] * theory.t, mean - BAND * error, mean + BAND * error, color=color, alpha=0.3, linewidth=0)
        right.plot(alphas[-1] * theory.t, mean, color=color, label=rf"start {2 * delta:g}")
        reached = np.flatnonzero(mean >= LEVEL)
        when = f"at n = {reached[0]}" if reached.size else "not reached"
        print(f"start {2 * delta:g}, alpha = {alphas[-1]:g}: {LEVEL} {when}")
    right.set_yscale("log")
    right.set_xlabel(r"$\alpha t$")
    right.set_ylabel(rf"specialisation, $\alpha$ = {alphas[-1]:g}")
    right.legend(fontsize="small")
    save(figure, options.output / f"network-specialisation{mark}.png")
    print(f"picture: {options.output / f'network-specialisation{mark}.png'}")


if __name__ == "__main__":
    main()
