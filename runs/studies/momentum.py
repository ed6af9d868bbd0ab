"""Momentum: does it change which instances recover the teacher?

Phase retrieval from m0 = 0.2. Gradient descent, heavy ball and Nesterov's momentum, with learning rate eta = 0.02 (1 - beta), so
that equal numbers of steps are equal times of the flow with rate eta/(1 - beta). Data sets and starts are the same for all of them,
so that the solved instances can be compared one by one.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
import sgd_sim
from dmft.core.parallel import world
from sgd_sim.result import SOLVED
from workbench.plots.curves import time_axis
from workbench.plots.style import CYCLE, new_figure, save

RUN = """
[problem]
alpha = 3.0
m0 = 0.2
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 100.0
[simulation]
dimension = 1000
instances = 100
"""
RULES = {"gradient descent": (0.0, False), "heavy ball 0.5": (0.5, False), "heavy ball 0.9": (0.9, False),
         "Nesterov 0.9": (0.9, True)}
ALPHAS = (2.5, 2.75, 3.0)


def main() -> None:
    options = read_options(__doc__, "N = 80, t = 20: a minute", dimension=1000, instances=100)
    run, rules, alphas = dmft.parse_run(RUN).replace(dimension=options.dimension, instances=options.instances), RULES, ALPHAS
    if options.quick:
        run, alphas = run.replace(dimension=80, instances=24, t_max=20.0), (2.5, 3.0)
    eta, end = run.algorithm.first_rate, run.algorithm.t_max
    results = {}
    for alpha in alphas:
        for name, (beta, nesterov) in rules.items():
            path = options.output / f"momentum-{alpha:g}-{name.replace(' ', '-')}-{run.simulation.dimension}.h5"
            this = run.replace(title=f"{name}, alpha = {alpha:g}", alpha=alpha, learning_rate=eta * (1 - beta),
                               t_max=end * (1 - beta), momentum=beta, nesterov=nesterov)
            results[alpha, name] = sgd_sim.simulate(this, output=path, resume=True)
    if not world().is_root:
        return
    figure = new_figure(3.4 * len(alphas), 3.8)
    axes = figure.subplots(1, len(alphas), sharey=True)
    print(f"N = {run.simulation.dimension}, {round(end / eta)} steps\n{'alpha':>6}  {'':<18}{'solved':>9}{'95 % interval':>16}"
          f"{'only this':>11}{'only GD':>9}{'sign test p':>13}{'half of them by step':>22}")
    for axis, alpha in zip(axes, alphas, strict=True):
        plain = results[alpha, "gradient descent"].loss[:, -1] < SOLVED
        for color, (name, (beta, _)) in zip(CYCLE, rules.items(), strict=False):
            sim = results[alpha, name]
            share, solved = sim.share_below(SOLVED), sim.loss[:, -1] < SOLVED
            gained, lost = int(np.sum(solved & ~plain)), int(np.sum(plain & ~solved))
            times = np.sort([sim.states.record[np.argmax(row < SOLVED)] for row in sim.loss[solved]])
            middle = f"{times[len(times) // 2]:d}" if len(times) else "-"
            print(f"{alpha:>6g}  {name:<18}{share.count[-1]:>4d}/{share.instances:<4d}"
                  f"    {share.low[-1]:.2f} to {share.high[-1]:.2f}{gained:>11d}{lost:>9d}"
                  f"{_sign_test(gained, lost):>13.2f}{middle:>22}")
            axis.fill_between(sim.t / (1 - beta), share.low, share.high, color=color, alpha=0.12, linewidth=0)
            axis.plot(sim.t / (1 - beta), share.share, color=color, label=name)
        time_axis(axis, True, eta, r"t/(1-\beta)")
        axis.set_title(rf"$\alpha = {alpha:g}$, N = {run.simulation.dimension}")
    axes[0].set_ylabel(f"share with loss < {SOLVED:g}")
    axes[0].legend(fontsize="small")
    save(figure, options.output / "momentum.png")
    print(f"picture: {options.output / 'momentum.png'}")


def _sign_test(gained: int, lost: int) -> float:
    """Two-sided sign test: the probability that fair coins divide gained + lost instances at least as unevenly."""
    total, few = gained + lost, min(gained, lost)
    below = sum(_binomial(total, k) for k in range(few + 1)) / 2.0**total
    return min(1.0, 2.0 * below)


def _binomial(n: int, k: int) -> float:
    return float(np.prod([(n - i) / (i + 1) for i in range(k)]))


if __name__ == "__main__":
    main()
