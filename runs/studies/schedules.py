"""Optimal schedules of one-pass SGD: which learning rate, over time, leaves the least risk after a given number of samples?

Two students from a warm start, noisy labels. The best constant rate, the best power law and the best of all schedules
(onepass.networks.control: an adjoint of the ODE), and the exact chain at each of them.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import onepass
from dmft.core.parallel import world
from onepass.networks.control import best_schedules
from workbench.plots.style import CYCLE, new_figure, save

CASES = {
    "phase retrieval": (onepass.QuadraticNetwork(1, 1, 0.1, 0.5), {"M": np.array([[0.4]]), "Q": np.array([[0.8]])}, 6.0),
    "two erf units": (onepass.Network("erf", 2, 1, 1.0, 0.2), {"M": np.array([[0.3], [0.1]]), "Q": np.eye(2)}, 12.0),
}


def main() -> None:
    options = read_options(__doc__, "few intervals, d = 1000: a minute", dimension=10000, instances=100)
    intervals, d, instances = (6, 1000, 20) if options.quick else (16, options.dimension, options.instances)
    figure = new_figure(10.0, 4.0)
    axes = figure.subplots(1, len(CASES))
    for axis, (name, (net, start, t_max)) in zip(axes, CASES.items(), strict=True):
        found = best_schedules(net, start, t_max, intervals)
        edges = t_max * np.arange(intervals + 1) / intervals
        for color, what, one in zip(CYCLE, ("optimal", "power law", "constant"), (found.optimal, found.power, found.constant)):
            chain = one.applied(net).chain(d, instances, start, [t_max])
            if world().is_root:
                excess, measured = one.risk - net.noise / 2, chain.mean().risk[-1] - net.noise / 2
                print(f"{name}, {what}: excess risk {excess:.6f}, chain (d = {d}) {measured:.6f} +- {chain.error().risk[-1]:.6f}")
                axis.stairs(one.rates, edges, baseline=None, color=color, label=f"{what}: excess risk {excess:.4f}")
        if world().is_root:
            u_0, t_0, kappa = found.power_law
            print(f"{name}, power law: {u_0:.3g} (1 + t/{t_0:.3g})^-{kappa:.3g}")
            axis.set(title=name, xlabel="$t$", ylabel=r"rate, times $\gamma$", yscale="log")
            axis.legend(fontsize="small")
    if world().is_root:
        picture = options.output / f"study-schedules{'-quick' if options.quick else ''}.png"
        save(figure, picture)
        print(f"picture: {picture}")


if __name__ == "__main__":
    main()
