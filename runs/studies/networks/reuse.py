"""Reuse of samples against the information exponent: labels He_3(kappa)/sqrt(6), from overlap exactly 0.

One-pass SGD stays at m = 0: its drift sees E[kappa y] alone, which is 0. Gradient descent, SGD and persistent SGD see each sample
again, after it has moved their fields, and m leaves 0 at order one from the second step on. Theory on simulation for three
algorithms, the ODE of one-pass SGD from the same start, and the overlap m after two steps against alpha, at eta alpha = 0.8, where
it goes towards 1/alpha^2.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import dmft
import onepass
import sgd_sim
from dmft.core.parallel import world
from workbench.plots.style import BAND, BLACK, BLUE, GREEN, ORANGE, new_figure, save

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from options import read_options  # noqa: E402

RUN = Path(__file__).resolve().parents[2] / "networks" / "reuse.toml"
SHOWN = (2, 5, 10, 20, 40)


def main() -> None:
    options = read_options(__doc__, "fewer samples, N = 300, ten steps: a minute", dimension=1500, instances=16)
    run, mark, alphas = dmft.load_run(RUN), "", (2.0, 4.0, 8.0, 16.0, 32.0)
    run = run.replace(dimension=options.dimension, instances=options.instances)
    if options.quick:
        run, mark, alphas = run.replace(samples=2048, replicas=4, dimension=300, instances=16, t_max=1.0), "-quick", (4.0, 8.0)
    cases = {"GD": run, "SGD, l = 0.25": run.replace(kind="sgd", batch_fraction=0.25),
             "persistent SGD, l = 0.25, tau = 1": run.replace(kind="persistent_sgd", batch_fraction=0.25, persistence=1.0)}
    found = {}
    for name, case in cases.items():
        base = options.output / f"network-reuse-{case.algorithm.kind}{mark}"
        found[name] = (dmft.solve(case, output=base.with_suffix(".theory.h5"), resume=True),
                       sgd_sim.simulate(case, output=base.with_suffix(".simulation.h5"), resume=True))
    second = {}
    for alpha in alphas:
        short = run.replace({"network.units": 1, "network.activation": "erf", "network.second_layer": [1.0]}).replace(
            alpha=alpha, learning_rate=0.8 / alpha, t_max=1.6 / alpha, replicas=8 if not mark else 4,
            samples=131072 if not mark else 4096)
        theory = dmft.solve(short, output=options.output / f"network-second-{alpha:g}{mark}.theory.h5", resume=True)
        second[alpha] = theory.m[2, 0, 0], theory.m_error[2, 0, 0]
    if not world().is_root:
        return
    times = np.linspace(0.0, run.algorithm.t_max, 9)
    net = onepass.MultiIndexNetwork(link="hermite3", width=2, teacher_width=1, gamma=0.1, activation="tanh", constraint="sphere")
    ode = net.solve({"a": [2.0, -1.0], "M": np.zeros((2, 1)), "Q": np.eye(2)}, times)
    figure = new_figure(11.0, 4.6)
    axes = figure.subplots(1, 2)
    for r, axis in enumerate(axes):
        for (name, (theory, sim)), color in zip(found.items(), (BLUE, ORANGE, GREEN), strict=True):
            m, bar, mean, error = theory.m[:, r, 0], BAND * theory.m_error[:, r, 0], sim.mean().m[:, r, 0], sim.error().m[:, r, 0]
            axis.fill_between(theory.t, m - bar, m + bar, color=color, alpha=0.3, linewidth=0)
            axis.plot(theory.t, m, color=color, label=name)
            some = slice(None, None, max(1, sim.t.size // 10))
            axis.errorbar(sim.t[some], mean[some], BAND * error[some], fmt="o", ms=3.5, color=color)
        axis.plot(times, ode.M[:, r, 0], color=BLACK, linestyle="--", label="one pass (ODE)")
        axis.set_xlabel("$t$")
        axis.set_ylabel(f"$m_{r + 1}$")
    axes[0].legend(fontsize="small", title=f"lines: theory; points: N = {run.simulation.dimension}", title_fontsize="small",
                   loc="lower left")
    inset = axes[1].inset_axes((0.12, 0.12, 0.33, 0.27))
    at, size = np.array(list(second)), np.array(list(second.values()))
    inset.errorbar(at, -size[:, 0], BAND * size[:, 1], fmt="o-", ms=3.5, color=BLUE)
    inset.plot(at, -size[-1, 0] * (at[-1] / at) ** 2, color=BLACK, linewidth=0.8, linestyle=":")
    inset.set_xscale("log")
    inset.set_yscale("log")
    inset.set_title(r"$-m(2\eta)$, $p=1$, $\eta\alpha=0.8$; dotted: $\alpha^{-2}$", fontsize="x-small")
    inset.set_xlabel(r"$\alpha$", fontsize="x-small", labelpad=0)
    inset.set_xticks(at, [f"{alpha:g}" for alpha in at], minor=False)
    inset.minorticks_off()
    inset.tick_params(labelsize="x-small")
    save(figure, options.output / f"network-reuse{mark}.png")
    for name, (theory, sim) in found.items():
        for n in (n for n in SHOWN if n < theory.t.size):
            k = int(np.searchsorted(sim.t, theory.t[n] - 1e-9))
            pairs = [(theory.m[n, r, 0], theory.m_error[n, r, 0], sim.mean().m[k, r, 0], sim.error().m[k, r, 0]) for r in (0, 1)]
            print(f"{name:<34}{n:>4}" + "".join(f"{a:>9.4f} +- {da:.4f}{b:>9.4f} +- {db:.4f}{(a - b) / np.hypot(da, db):>6.1f}"
                                                  for a, da, b, db in pairs))
    for alpha, (value, error) in second.items():
        print(f"alpha = {alpha:g}: m after two steps {value:.6f} +- {error:.6f}, alpha^2 m = {alpha**2 * value:.3f}")
    print(f"one pass, ODE: largest |m| {np.abs(ode.M).max():.1e}")
    print(f"picture: {options.output / f'network-reuse{mark}.png'}")


if __name__ == "__main__":
    main()
