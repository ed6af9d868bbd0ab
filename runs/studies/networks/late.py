"""Late generalisation: a network that has memorised its samples learns the direction ten times later.

Three erf units of norm 2 on labels of one direction, alpha = 2, a small ridge. The training loss falls early, through the response
of fields to their own samples; the error on new samples falls when the ridge has shrunk what is left of the start. Theory on
simulation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import dmft
import sgd_sim
from dmft.core.parallel import world
from workbench.plots.style import BAND, BLUE, GREEN, ORANGE, new_figure, save

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from options import read_options  # noqa: E402

RUN = Path(__file__).resolve().parents[2] / "networks" / "late.toml"


def main() -> None:
    options = read_options(__doc__, "few samples, up to t = 10: a minute", dimension=600, instances=16)
    run, mark = dmft.load_run(RUN).replace(dimension=options.dimension, instances=options.instances), ""
    if options.quick:
        run, mark = run.replace(samples=512, replicas=3, dimension=200, instances=8, t_max=10.0), "-quick"
    theory = dmft.solve(run, output=options.output / f"network-late{mark}.theory.h5", resume=True)
    sim = sgd_sim.simulate(run, output=options.output / f"network-late{mark}.simulation.h5", resume=True)
    if not world().is_root:
        return
    mean, error = sim.mean(), sim.error()
    figure = new_figure(11.0, 4.4)
    left, right = figure.subplots(1, 2)
    shown = ((left, "loss", (), BLUE, "training loss"), (left, "mse", (), ORANGE, "error on new samples"),
             (right, "m", (0, 0), BLUE, "overlap $m$ of a unit"), (right, "C", (0, 0), ORANGE, "its norm $C_{11}$"),
             (right, "C", (0, 1), GREEN, "$C_{12}$"))
    for axis, name, at, color, label in shown:
        value, bar = (theory.curves[key][(slice(None), *at)] for key in (name, f"{name}_error"))
        axis.fill_between(theory.t, value - BAND * bar, value + BAND * bar, color=color, alpha=0.3, linewidth=0)
        axis.plot(theory.t, value, color=color, label=label)
        points, bars = (curves[name][(slice(1, None, 2), *at)] for curves in (mean, error))
        axis.errorbar(sim.t[1::2], points, BAND * bars, fmt="o", ms=3.5, color=color)
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xlabel("$t$")
        axis.legend(fontsize="small", title=f"lines: theory; points: N = {run.simulation.dimension}", title_fontsize="small")
    left.set_yscale("log")
    save(figure, options.output / f"network-late{mark}.png")
    for t in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0):
        n, k = int(np.argmin(np.abs(theory.t - t))), int(np.argmin(np.abs(sim.t - t)))
        if theory.t[-1] > 0.99 * t:
            pairs = [(theory.curves[name][n], theory.curves[f"{name}_error"][n], mean[name][k], error[name][k])
                     for name in ("loss", "mse")]
            pairs.append((theory.C[n, 0, 0], theory.C_error[n, 0, 0], mean.C[k, 0, 0], error.C[k, 0, 0]))
            print(f"t = {theory.t[n]:g} / {sim.t[k]:g}: " + "   ".join(
                f"{a:.5f}({da:.5f}) {b:.5f}({db:.5f})" for a, da, b, db in pairs))
    print(f"picture: {options.output / f'network-late{mark}.png'}")


if __name__ == "__main__":
    main()
