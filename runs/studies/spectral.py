"""Spectral start: does gradient descent from the spectral estimate behave as from a warm start of the same overlap?

Phase retrieval at alpha = 3. The spectral estimate (Mondelli and Montanari) has seen the labels, so its fields are correlated with
them: theory, where power iteration is the first phase of the dynamics and its memory is kept, and simulation, both from
there and from a random direction of the same overlap.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
import sgd_sim
from dmft.core.parallel import world
from dmft.model.spectral import SpectralLaw
from workbench.plots.style import BAND, BLUE, ORANGE, new_figure, save

RUN = """
[problem]
alpha = 3.0
start = "spectral"
[algorithm]
kind = "gd"
learning_rate = 0.005
t_max = 0.5
[theory]
samples = 4096
replicas = 6
[simulation]
dimension = 1000
instances = 32
record = [0.0, 0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5]
"""


def main() -> None:
    options = read_options(__doc__, "fewer samples, N = 200: a minute", dimension=1000, instances=32)
    run, mark = dmft.parse_run(RUN).replace(dimension=options.dimension, instances=options.instances), ""
    if options.quick:
        mark = "-quick"
        run = run.replace(samples=512, replicas=4, dimension=200, instances=16, t_max=0.1, record=(0.0, 0.02, 0.05, 0.1))
    overlap = SpectralLaw.of(run.problem.preprocessing, run.problem.alpha).overlap
    cases = {"spectral start": run, "warm start": run.replace(start="warm", m0=overlap)}
    found = {}
    for name, case in cases.items():
        base = options.output / f"spectral-{name.split()[0]}{mark}"
        found[name] = (dmft.solve(case, output=base.with_suffix(".theory.h5"), resume=True),
                       sgd_sim.simulate(case, output=base.with_suffix(".simulation.h5"), resume=True))
    if not world().is_root:
        return
    figure = new_figure(10.0, 4.2)
    axes = figure.subplots(1, 2)
    print(f"overlap of the spectral estimate for N to infinity: {overlap:.5f}")
    print(f"{'':<16}{'t':>7}{'m: theory':>20}{f'N = {run.simulation.dimension}':>22}{'z':>7}"
          f"{'loss: theory':>20}{'simulation':>20}{'z':>7}")
    for (name, (theory, sim)), color in zip(found.items(), (BLUE, ORANGE), strict=True):
        mean, error = sim.mean(), sim.error()
        for axis, curve in zip(axes, ("m", "loss"), strict=True):
            values, bar = theory.curves[curve], BAND * theory.curves[f"{curve}_error"]
            axis.fill_between(theory.t, values - bar, values + bar, color=color, alpha=0.3, linewidth=0)
            axis.plot(theory.t, values, color=color, label=f"{name}, theory")
            axis.errorbar(sim.t, mean[curve], BAND * error[curve], fmt="o", ms=4, color=color,
                          label=f"{name}, N = {run.simulation.dimension}")
        for i, t in enumerate(sim.t):
            k = int(np.argmin(np.abs(theory.t - t)))
            line = f"{name:<16}{t:>7.3f}"
            for curve in ("m", "loss"):
                a, da, b, db = theory.curves[curve][k], theory.curves[f"{curve}_error"][k], mean[curve][i], error[curve][i]
                z = (a - b) / np.hypot(da, db) if da + db > 0 else 0.0
                line += f"{a:>11.4f} +- {da:.4f}{b:>11.4f} +- {db:.4f}{z:>7.1f}"
            print(line)
    axes[0].set_ylabel("overlap $m$")
    axes[1].set_ylabel("training loss")
    axes[1].set_yscale("log")
    for axis in axes:
        axis.set_xlabel("$t$")
        axis.legend(fontsize="small")
    save(figure, options.output / "spectral.png")
    print(f"picture: {options.output / 'spectral.png'}")


if __name__ == "__main__":
    main()
