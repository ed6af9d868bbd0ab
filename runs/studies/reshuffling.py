"""Reshuffling: does it matter how the mini-batches of SGD are drawn, for finding the teacher?

Phase retrieval at alpha = 3 from m0 = 0.2, mini-batches of half the data: every row by a coin (Bernoulli), epochs with a new order
each (reshuffled) or one order for all (cyclic), and the persistent mini-batches of the paper; gradient descent for comparison.
The share of instances whose training loss falls below 1e-7, with Wilson's intervals.
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
instances = 16
"""
HALF = {"kind": "sgd", "batch_fraction": 0.5}
LAWS = {"gradient descent": {}, "Bernoulli": HALF, "reshuffled": {**HALF, "minibatch": "reshuffled"},
        "cyclic": {**HALF, "minibatch": "cyclic"},
        "persistent, tau = 1": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0}}


def main() -> None:
    options = read_options(__doc__, "N = 100, t = 20: a minute", dimension=1000, instances=16)
    run = dmft.parse_run(RUN).replace(dimension=options.dimension, instances=options.instances)
    if options.quick:
        run = run.replace(dimension=100, instances=24, t_max=20.0)
    results = {}
    for name, changes in LAWS.items():
        path = options.output / f"reshuffling-{name.split(',')[0].replace(' ', '-')}-{run.simulation.dimension}.h5"
        results[name] = sgd_sim.simulate(run.replace(title=name, **changes), output=path, resume=True)
    if not world().is_root:
        return
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    print(f"N = {run.simulation.dimension}, t = {run.algorithm.t_max:g}\n{'':<22}{'solved':>8}{'share':>8}{'95 % interval':>18}"
          f"{'median |m|':>12}{'mean loss':>22}")
    for color, (name, sim) in zip(CYCLE, results.items(), strict=False):
        share = sim.share_below(SOLVED)
        print(f"{name:<22}{share.count[-1]:>4d}/{share.instances:<3d}{share.share[-1]:>8.2f}"
              f"    {share.low[-1]:.2f} to {share.high[-1]:.2f}{np.median(np.abs(sim.m[:, -1])):>14.3f}"
              f"{sim.mean().loss[-1]:>14.4f} +- {sim.error().loss[-1]:.4f}")
        left.fill_between(sim.t, share.low, share.high, color=color, alpha=0.15, linewidth=0)
        left.plot(sim.t, share.share, color=color, label=name)
        right.plot(sim.t, sim.mean().loss, color=color, label=name)
    left.set_ylabel(f"share with loss < {SOLVED:g}")
    right.set_ylabel("mean training loss")
    right.set_yscale("log")
    for axis in (left, right):
        time_axis(axis, True, run.algorithm.first_rate)
    left.legend(fontsize="small")
    left.set_title(f"N = {run.simulation.dimension}, {run.simulation.instances} instances of each")
    save(figure, options.output / "reshuffling.png")
    print(f"picture: {options.output / 'reshuffling.png'}")


if __name__ == "__main__":
    main()
