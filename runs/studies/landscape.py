"""The landscape at the iterate: when does it point to the teacher, and when is the teacher found?

Gradient descent and persistent SGD on normalised phase retrieval from m0 = 0.2, alpha = 2 to 6. At a few times the softest
direction of the Hessian along the sphere is compared with the teacher's part normal to the weights: theory, and simulations that
are diagonalised. "Points" are those of these times at which that direction leaves the bulk with at least a tenth of its square
along the teacher (a random direction has 1/N), "found" is the time at which m reaches 0.9, and "flat" that at which no direction
curves down any more. The theory of outliers is shown until then: gradient descent that has converged sees the data along directions
that nearly coincide, and in a history of blocks these are not resolved.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
import sgd_sim
from dmft.core.parallel import world
from workbench.inspection.hessian import HessianAlong, simulated_along, theory_along
from workbench.plots.style import BAND, CYCLE, new_figure, save

RUN = """
[problem]
loss = "normalised_phase_retrieval"
alpha = 2.0
m0 = 0.2
[algorithm]
kind = "gd"
learning_rate = 0.05
t_max = 64.0
[theory]
samples = 8192
replicas = 3
snapshots = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
hessian = true
"""
ALGORITHMS = {"GD": {"kind": "gd"}, "persistent SGD": {
    "kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0, "learning_rate": 0.025}}
ALPHAS = (2.0, 2.5, 3.0, 4.0, 6.0)
POINTS, FOUND = 0.1, 0.9


def first_time(t: np.ndarray, reached: np.ndarray) -> float:
    """The first time at which something is reached; NaN if never."""
    return float(t[np.argmax(reached)]) if reached.any() else np.nan


def main() -> None:
    options = read_options(__doc__, "three alpha, 512 samples, N = 40: two minutes", ALPHAS, device=True, dimension=400,
                           instances=8, samples=8192, replicas=3)
    run = dmft.parse_run(RUN).replace(dimension=options.dimension, instances=options.instances, samples=options.samples,
                                      replicas=options.replicas)
    run = run.replace({f"{half}.device": options.device for half in ("theory", "simulation")})
    alphas = options.alpha
    if options.quick:
        run = run.replace(dimension=40, instances=6, samples=512, replicas=2, t_max=4.0, snapshots=[0.0, 1.0, 4.0])
        alphas = (2.0, 4.0, 6.0)
    run = run.replace({"simulation.record": list(run.theory.snapshots)})
    figure = new_figure(13.0, 8.0)
    panels, found = figure.subplots(2, 3), {}
    for row, (name, algorithm) in zip(panels, ALGORITHMS.items(), strict=True):
        for color, alpha in zip(CYCLE, alphas, strict=False):
            this = run.replace(algorithm).replace(alpha=alpha, title=f"{name}, alpha = {alpha:g}")
            path = options.output / f"landscape-{this.algorithm.kind}-{alpha:g}-{options.samples}-{run.simulation.dimension}"
            theory = dmft.solve(this, output=path.with_name(path.name + ".theory.h5"), resume=True)
            sim = sgd_sim.simulate(this, output=path.with_name(path.name + ".simulation.h5"), resume=True)
            if not world().is_root:
                continue
            both = theory_along(theory, None, lambda share: None), simulated_along(sim, options.instances, lambda share: None)
            found[name, alpha] = _told(name, theory, sim, *both)
            _draw(row, color, alpha, theory, sim, *both)
        row[0].set_title(name)
    if not world().is_root:
        return
    print(f"{'theory':>15}{'alpha':>8}{'flat at':>9}{'found at':>9}   points to the teacher at")
    for (name, alpha), (points, flat, time) in found.items():
        print(f"{name:>15}{alpha:>8g}{flat:>9.3g}{time:>9.3g}   " + (", ".join(f"{t:g}" for t in points) or "no time"))
    for row in panels:
        for axis, words in zip(row, ("overlap $m$", "softest eigenvalue along the sphere", "squared overlap with the teacher"),
                               strict=True):
            axis.set(xlabel="$t$", ylabel=words)
            axis.set_xscale("symlog", linthresh=1.0)
        row[1].axhline(0.0, color="black", linewidth=0.6)
        row[1].set_ylim(-3.0, 1.5)
    panels[0][0].legend(fontsize="small", title=r"$\alpha$ (lines: theory)")
    save(figure, options.output / "landscape.png")
    print(f"picture: {options.output / 'landscape.png'}")


def _told(name: str, theory: dmft.Theory, sim: sgd_sim.SimulationResult, law: HessianAlong, seen: HessianAlong
          ) -> tuple[np.ndarray, float, float]:
    """A line for every snapshot; returns when the landscape points to the teacher, is flat, and when the teacher is found."""
    print(f"{name}, alpha = {theory.run.problem.alpha:g}, tails of N = {sim.run.simulation.dimension}")
    print(f"{'t':>6}{'m':>10}{'N finite':>10}" + "".join(f"{words:>22}{'N finite':>20}" for words in ("softest", "overlap^2")))
    for i, t in enumerate(law.t):
        at = np.argmin(np.abs(theory.t - t)), np.argmin(np.abs(sim.t - t))
        values = [one.values[key] for key in ("soft", "soft_overlap") for one in (law, seen)]
        cells = (f"{mean[i]:.3f} +- {error[i]:.3f}" for mean, error in values)
        print(f"{t:>6g}{theory.m[at[0]]:>10.3f}{sim.mean().m[at[1]]:>10.3f}" + "".join(f"{cell:>21}" for cell in cells))
    soft, overlap = law.values["soft"][0], law.values["soft_overlap"][0]
    before = theory.m[np.searchsorted(theory.t, law.t - 1e-9)] < FOUND     # afterwards outliers are not known well enough
    return law.t[before & (overlap > POINTS)], first_time(law.t, soft > 0.0), first_time(theory.t, theory.m > FOUND)


def _draw(row, color: str, alpha: float, theory: dmft.Theory, sim: sgd_sim.SimulationResult, law: HessianAlong,
          seen: HessianAlong) -> None:
    row[0].plot(theory.t, theory.m, color=color, label=f"{alpha:g}")
    at = np.searchsorted(sim.t, law.t - 1e-9)
    row[0].errorbar(sim.t[at], sim.mean().m[at], BAND * sim.error().m[at], fmt="o", markersize=3, color=color)
    before = theory.m[np.searchsorted(theory.t, law.t - 1e-9)] < FOUND
    for axis, key in zip(row[1:], ("soft", "soft_overlap"), strict=True):
        for one, style, shown in ((law, "-", before), (seen, "o", before | ~before)):
            mean, error = one.values[key]
            axis.errorbar(one.t[shown], mean[shown], BAND * np.nan_to_num(error[shown]), fmt=style, markersize=3, capsize=2,
                          color=color)


if __name__ == "__main__":
    main()
