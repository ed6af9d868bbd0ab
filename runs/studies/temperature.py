"""How hot is the noise? Effective temperatures of SGD, persistent SGD and Langevin dynamics at equal training loss.

Phase retrieval at alpha = 3 from m0 = 0.7 with noisy labels, so that mini-batches keep making noise: from t = 5 on m and loss rest,
and batch fractions and temperature are such that the loss is the same, 0.041 (gradient descent has 0.040). The theory has T_eff
(secant, [fdt-secant]) and T_loc ([fdt-local]) against the lag, and simulations T_loc: from C at the steps beside a waiting one, and
from the response to a push there, as a ratio of means over instances with its error by jackknife. All are averages over several
waiting times; errors of the theory are those of one of them.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
import sgd_sim
from dmft.core.parallel import world
from dmft.equations.fdt import local
from workbench.plots.style import BAND, CYCLE, new_figure, save

RUN = """
[problem]
alpha = 3.0
m0 = 0.7
label_noise = 0.1
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 7.0
[theory]
fdt = true
"""
ALGORITHMS = {"Langevin, T = 0.01": {"kind": "langevin", "temperature": 0.01}, "SGD": {"kind": "sgd", "batch_fraction": 0.4},
              "persistent SGD": {"kind": "persistent_sgd", "batch_fraction": 0.9, "persistence": 0.2}}
WAITING = np.arange(250, 301, 10)     # steps
LAGS = np.array((1, 2, 3, 5, 7, 10, 15, 20, 30, 50))     # in steps; those beside waiting steps are shorter than their distance


def main() -> None:
    options = read_options(__doc__, "512 samples, N = 100: a minute", device=True, dimension=400, instances=100,
                           samples=4096, replicas=8)
    run = dmft.parse_run(RUN).replace(dimension=options.dimension, instances=options.instances, samples=options.samples,
                                      replicas=options.replicas)
    run = run.replace({f"{half}.device": options.device for half in ("theory", "simulation")})
    if options.quick:
        run = run.replace(dimension=100, instances=16, samples=512, replicas=4)
    figure, eta = new_figure(11.0, 4.6), run.algorithm.first_rate
    left, right = figure.subplots(1, 2)
    beside = np.sort(np.add.outer(WAITING, (-1, 0, 1)).ravel())
    print(f"{'':>18}{'loss':>8}{'m':>8}{'lag':>6}{'T_eff, theory':>20}{'T_loc, theory':>20}"
          f"{f'N = {run.simulation.dimension}':>20}")
    for color, (name, algorithm) in zip(CYCLE, ALGORITHMS.items(), strict=False):
        this = run.replace(algorithm).replace({
            "title": name, "theory.waiting_times": (eta * beside).tolist(), "simulation.kernels": True,
            "simulation.record": (eta * np.unique(np.add.outer(WAITING, LAGS))).tolist()})
        stem = options.output / f"temperature-{this.algorithm.kind}-{run.theory.samples}-{run.simulation.dimension}"
        theory = dmft.solve(this, output=stem.with_name(stem.name + ".theory.h5"), resume=True)
        sim = sgd_sim.simulate(this, output=stem.with_name(stem.name + ".simulation.h5"), resume=True)
        if not world().is_root:
            continue
        known = {key: along_lags(theory, key) for key in ("T_eff", "T_loc")} | {"N": simulated(sim, eta)}
        for axis, key in ((left, "T_eff"), (right, "T_loc")):
            value, error = known[key]
            axis.fill_between(eta * LAGS, value - BAND * error, value + BAND * error, color=color, alpha=0.25, linewidth=0)
            axis.plot(eta * LAGS, value, color=color, label=name)
            if this.algorithm.kind == "langevin":
                axis.axhline(theory.fdt().bath[-1], color=color, linestyle=":", linewidth=1.0)
        right.errorbar(eta * LAGS, known["N"][0], BAND * known["N"][1], fmt="o", markersize=4, capsize=2, color=color)
        for i, lag in enumerate(LAGS):
            at = WAITING[0]
            start = f"{name:>18}{theory.loss[at]:>8.4f}{theory.m[at]:>8.4f}" if not i else " " * 34
            print(f"{start}{lag:>6}" + "".join(f"{f'{mean[i]:.4f} +- {error[i]:.4f}':>20}" for mean, error in known.values()))
    if not world().is_root:
        return
    for axis, words in ((left, "secant from $t_w$ on"), (right, "local (points: simulation)")):
        axis.set(xscale="log", xlabel="lag $t - t_w$", ylabel=rf"$T_\mathrm{{eff}}$, {words}")
        axis.axhline(0.0, color="black", linewidth=0.6)
    right.set_ylim(left.get_ylim())
    left.legend(fontsize="small")
    save(figure, options.output / "temperature.png")
    print(f"picture: {options.output / 'temperature.png'}")


def along_lags(theory: dmft.Theory, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(lags,) a temperature of the theory and the error that it has at one waiting time."""
    columns, eta = theory.columns, theory.run.algorithm.first_rate
    rows = np.searchsorted(columns.t, eta * np.add.outer(LAGS, WAITING) - 1e-9)
    places = np.searchsorted(columns.t_w, eta * WAITING - 1e-9)
    mean, error = (getattr(columns, key)[rows, places].mean(axis=1) for key in (name, f"{name}_error"))
    return mean, error


def simulated(sim: sgd_sim.SimulationResult, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """(lags,) T_loc, and its error by jackknife over instances."""
    columns, at = sim.columns, np.searchsorted(sim.t, sim.columns.t_w - 1e-9)
    Q = columns.C - sim.m[:, :, None] * sim.m[:, None, at]
    rows = np.searchsorted(sim.t, eta * np.add.outer(LAGS, WAITING) - 1e-9)
    k = np.searchsorted(columns.t_w, eta * WAITING - 1e-9)
    parts = np.stack([Q[:, rows, k + 1], Q[:, rows, k - 1], eta * columns.R[:, rows, k]])    # (3, instances, lags, waiting)
    count = parts.shape[1]
    left_out = (parts.sum(axis=1, keepdims=True) - parts) / (count - 1)
    each, whole = local(*left_out).mean(axis=-1), local(*parts.mean(axis=1)).mean(axis=-1)
    return whole, np.sqrt((count - 1) * np.var(each, axis=0))


if __name__ == "__main__":
    main()
