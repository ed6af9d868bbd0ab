"""Learning-rate decay: is there a best exponent for eta ~ n^-beta, and is it below 1?

d'Ascoli, Refinetti and Biroli (2022) say that in non-convex problems the learning rate should fall more slowly than 1/t, so that
the landscape is searched before the noise is taken out. Phase retrieval at alpha = 3 from m0 = 0.2 with noise proportional to the
learning rate, as theirs (a step is -eta_n (gradient + noise), so the temperature falls with eta_n), for a given number of steps.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
import sgd_sim
from dmft.core.parallel import world
from workbench.plots.style import BAND, CYCLE, new_figure, save

RUN = """
[problem]
alpha = 3.0
m0 = 0.2
[algorithm]
kind = "langevin"
learning_rate = 0.02
temperature = 1.0
t_max = 80.0
[simulation]
dimension = 1000
instances = 50
"""
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
FLAT = 50.0       # steps before the decay shows: eta_n = eta (1 + n/FLAT)^-beta
STEPS = 4000


def main() -> None:
    options = read_options(__doc__, "N = 100, 1000 steps: a minute", dimension=1000, instances=50)
    run, steps = dmft.parse_run(RUN).replace(dimension=options.dimension, instances=options.instances), STEPS
    if options.quick:
        run, steps = run.replace(dimension=100, instances=20), 1000
    eta, heat = run.algorithm.first_rate, run.algorithm.temperature
    results = {}
    for beta in EXPONENTS:
        rates = eta * (1.0 + np.arange(steps) / FLAT) ** -beta
        this = run.replace(title=f"beta = {beta:g}", t_max=float(rates.sum()), **{
            key: {"kind": "power", "start": start, "exponent": beta, "steps": FLAT}
            for key, start in (("learning_rate", eta), ("temperature", heat))})
        path = options.output / f"decay-{beta:g}-{run.simulation.dimension}.h5"
        results[beta] = sgd_sim.simulate(this, output=path, resume=True)
    if not world().is_root:
        return
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    print(f"N = {run.simulation.dimension}, {run.simulation.instances} instances, {steps} steps")
    print(f"{'beta':>6}{'t':>8}{'error (B.8)':>20}{'less that of beta = 1':>24}"
          f"{'less that of beta = 0':>24}{'loss':>20}")
    ends = []
    for color, (beta, sim) in zip(CYCLE, results.items(), strict=False):
        mean, error = sim.mean(), sim.error()
        differences = [_paired(sim, results[other]) for other in (1.0, 0.0)]
        pairs = "".join(f"{f'{value:+.4f} +- {bar:.4f}':>24}" for value, bar in differences)
        ends.append(differences[0])
        print(f"{beta:>6g}{sim.t[-1]:>8.2f}{mean.mse[-1]:>11.5f} +- {error.mse[-1]:.5f}"
              f"{pairs}{mean.loss[-1]:>11.5f} +- {error.loss[-1]:.5f}")
        band = BAND * error.mse
        left.fill_between(sim.states.record, mean.mse - band, mean.mse + band, color=color, alpha=0.2, linewidth=0)
        left.plot(sim.states.record, mean.mse, color=color, label=rf"$\beta = {beta:g}$")
    left.set_xscale("symlog", linthresh=10.0)
    left.set_xlim(0, steps)
    left.set_xlabel("step")
    left.set_ylabel("error on new samples")
    left.legend(fontsize="small")
    value, bar = np.array(ends).T
    right.errorbar(EXPONENTS, value, BAND * bar, fmt="o-", color=CYCLE[0])
    right.set_xlabel(r"exponent $\beta$ of the decay")
    right.axhline(0.0, color="black", linewidth=0.8)
    right.set_ylabel(rf"error after {steps} steps less that of $\beta = 1$")
    left.set_title(f"N = {run.simulation.dimension}, {run.simulation.instances} instances")
    save(figure, options.output / "decay.png")
    print(f"picture: {options.output / 'decay.png'}")


def _paired(a: sgd_sim.SimulationResult, b: sgd_sim.SimulationResult) -> tuple[float, float]:
    """Mean difference of the errors at the end and its standard error, instance by instance: data and starts are equal."""
    difference = a.mse[:, -1] - b.mse[:, -1]
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(difference.size))


if __name__ == "__main__":
    main()
