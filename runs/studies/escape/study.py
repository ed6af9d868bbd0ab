"""Random starts of phase retrieval: does N <m^2> saturate, grow as a power of t, or exponentially?

Solves the theory for gradient descent, SGD, persistent SGD and Langevin dynamics at alpha = 2.5 and, for two of them, at
several alpha; the part "simulate" runs simulations at several dimensions. Prints the tables of docs/random-starts.md and draws
its pictures.
Results are kept: a second start continues, or only draws. `mpirun -n 4 python ...` shares the work; --device gpu takes the card.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import dmft
import sgd_sim
from dmft.core.parallel import world
from dmft.equations.kernels import Wanted, history_for
from dmft.equations.random_start import OverlapRows, fluctuations
from dmft.model.experiment import Experiment
from dmft.result.comparison import Curve, instances_curve, squared_overlaps
from dmft.result.fluctuations import jackknife_error
from dmft.result.theory import Theory
from dmft.running.replica import Setup
from workbench.plots.curves import draw_curve, time_axis
from workbench.plots.style import BAND, BLACK, colours, new_figure, save

RUN = """
[problem]
alpha = 2.5
start = "random"
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 20.0
[theory]
samples = 64000
replicas = 8
[simulation]
dimension = 500
instances = 400
"""
CASES: dict[str, dict] = {
    "GD": {"kind": "gd"},
    "SGD": {"kind": "sgd", "batch_fraction": 0.5},
    "persistent SGD, tau = 1": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0},
    "persistent SGD, tau = 2": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 2.0},
    "Langevin, T = 0.5": {"kind": "langevin", "temperature": 0.5},
}
SCANNED = ("GD", "persistent SGD, tau = 2")  # over alpha, and simulated
ALPHAS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
PARTS = ("times", "alpha", "simulate")
SCAN_END = 10.0
DIMENSIONS = (250, 500, 1000, 2000)
SHOWN = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0)
LEVEL = 2.0  # b sqrt(N) of the first passage


def _variance(theory: Theory) -> Curve:
    assert theory.V is not None and theory.V_error is not None
    return Curve(theory.t, theory.V, theory.V_error, len(theory.replicas["m"]))


def draw_growth(theories: Mapping[str, Theory], path: Path) -> None:
    """V of several algorithms against time: straight lines are powers on the left, exponentials on the right."""
    figure = new_figure(11.0, 4.6)
    left, right = figure.subplots(1, 2)
    for axis, log in ((left, True), (right, False)):
        for (name, theory), colour in zip(theories.items(), colours(len(theories))):
            draw_curve(axis, _variance(theory), theory.run.algorithm.first_rate, log, colour, name)
        axis.set(yscale="log", ylabel=r"$N\langle m^2\rangle$")
    left.legend(title="bands: 2 standard errors", fontsize="small", title_fontsize="small")
    save(figure, path)


def draw_alphas(theories: Mapping[tuple[str, float], Theory], path: Path) -> None:
    """V against time at several alpha, a panel for each algorithm."""
    names = list(dict.fromkeys(name for name, _ in theories))
    figure = new_figure(5.5 * len(names), 4.6)
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        found = [(alpha, theory) for (other, alpha), theory in theories.items() if other == name]
        for (alpha, theory), colour in zip(found, colours(len(found))):
            draw_curve(axis, _variance(theory), theory.run.algorithm.first_rate, True, colour, rf"$\alpha = {alpha:g}$")
        axis.set(yscale="log", ylabel=r"$N\langle m^2\rangle$", title=name)
        axis.legend(fontsize="small")
    save(figure, path)


def draw_collapse(theory: Theory, simulations: Mapping[int, sgd_sim.SimulationResult], path: Path) -> None:
    """N <m^2> of simulations at several N on the theory's V: they fall on one curve while m is small."""
    figure = new_figure(7.0, 4.8)
    axis, eta = figure.subplots(), theory.run.algorithm.first_rate
    draw_curve(axis, _variance(theory), eta, False, BLACK, "theory")
    for (N, simulation), colour in zip(simulations.items(), colours(len(simulations))):
        squares = squared_overlaps(simulation.t, simulation.m, N, simulation.run.problem.start_variance)
        curve = instances_curve(simulation.t, squares)
        step = max(1, len(curve.t) // 30)
        axis.errorbar(curve.t[::step], curve.mean[::step], BAND * curve.error[::step], color=colour, fmt="o", markersize=3,
                      capsize=2, label=f"$N = {N}$, {curve.count} runs")
    axis.set(yscale="log", ylabel=r"$N\langle m^2\rangle$", title=theory.run.summary)
    axis.legend(title="band and bars: 2 standard errors", fontsize="small", title_fontsize="small")
    time_axis(axis, False, eta)
    save(figure, path)


def draw_passage(theory: Theory, simulations: Mapping[int, sgd_sim.SimulationResult], level: float, path: Path) -> None:
    """Share of runs whose |m| sqrt(N) has reached `level`: paths of the Gaussian process, its lower bound, and simulations."""
    largest = max(simulations)
    law = theory.escape(level / np.sqrt(largest), largest)
    figure = new_figure(7.0, 4.8)
    axis = figure.subplots()
    axis.plot(law.t, law.probability, color=BLACK, label="theory, sampled paths")
    axis.plot(law.t, law.bound, color=BLACK, linestyle="--", linewidth=1, label="lower bound (erfc)")
    for (N, simulation), colour in zip(simulations.items(), colours(len(simulations))):
        share = np.mean(np.maximum.accumulate(np.abs(simulation.m) * np.sqrt(N) >= level, axis=1), axis=0)
        error = 2 * np.sqrt(share * (1 - share) / len(simulation.m))
        axis.fill_between(simulation.t, share - error, share + error, color=colour, alpha=0.25, linewidth=0)
        axis.plot(simulation.t, share, color=colour, linewidth=1, label=f"simulation, $N = {N}$")
    axis.set(ylabel=rf"share of runs with $|m|\sqrt{{N}} \geq {level:g}$ by $t$", title=theory.run.summary)
    axis.legend(title="bands: 2 standard errors", fontsize="small", title_fontsize="small")
    time_axis(axis, False, theory.run.algorithm.first_rate)
    save(figure, path)


def with_error(value: float, error: float) -> str:
    """1.234(5): the error in units of the last digit shown."""
    if not (np.isfinite(value) and np.isfinite(error)) or error <= 0:
        return f"{value:.3g}"
    digits = max(0, int(np.ceil(-np.log10(error))))
    last = round(error * 10**digits)
    return f"{value:.{digits}f}({last})" if digits else f"{value:.0f}({error:.0f})"


def table(columns: list[str], rows: list[list[str]]) -> None:
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def slopes(theory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At t = 2, 5, 10, ... (doubling stretches [t/2, t]): times, d ln V/d ln t and (1/2) d ln V/dt over the stretch, each with its
    jackknife error: (times,), (2, 2, times)."""
    run = theory.run
    experiment, per_level, rows = Experiment.from_run(run), Setup.from_run(run).per_level, theory.random_start
    wanted, count = Wanted.of(run), len(rows["a"])
    curves = [theory.V] + [fluctuations(experiment, history_for(experiment, per_level, wanted), OverlapRows.mean(rows, i), None).V
                           for i in range(count)]
    ends = np.array([t for t in SHOWN if t >= 0.4 and t <= theory.t[-1] + 1e-9])
    index = np.rint(ends / run.algorithm.learning_rate).astype(int)
    log = np.log(np.array(curves))[:, index] - np.log(np.array(curves))[:, index // 2]
    power, rate = log / np.log(2), log / ends
    return ends, np.array([power[0], rate[0]]), np.array([jackknife_error(power[1:]), jackknife_error(rate[1:])])


def file_words(name: str) -> str:
    return name.replace(",", "").replace(" = ", "").replace(" ", "-").lower()


def solve(base, name: str, output: Path, quick: bool, **changes):
    words = "-".join([file_words(name), *(f"{key}{value:g}" for key, value in changes.items())])
    path = output / f"escape-{words}{'-quick' if quick else ''}.h5"
    return dmft.solve(base.replace(title=name, **CASES[name], **changes), output=path, resume=True)


def simulate(base, name: str, N: int, output: Path, quick: bool):
    path = output / f"escape-{file_words(name)}-N{N}{'-quick' if quick else ''}.simulation.h5"
    return sgd_sim.simulate(base.replace(title=name, dimension=N, **CASES[name]), output=path, resume=True)


def report(results: dict, scans: dict, simulations: dict, output: Path, tail: str) -> None:
    """Tables on standard output, pictures into the folder."""
    last = next(iter(results.values())).t[-1]
    shown = [t for t in SHOWN if t <= last + 1e-9]
    at = np.rint(np.array(shown) / next(iter(results.values())).run.algorithm.learning_rate).astype(int)
    rows = []
    for name, theory in results.items():
        rows.append([name, *(with_error(theory.V[i], theory.V_error[i]) for i in at)])
        for N, sim in simulations.get(name, {}).items():
            curve = instances_curve(sim.t, squared_overlaps(sim.t, sim.m, N, 1.0))
            nearest = [int(np.argmin(np.abs(curve.t - t))) for t in shown]
            rows.append([f"simulation, N = {N}, {curve.count} runs",
                         *(with_error(curve.mean[i], curve.error[i]) if abs(curve.t[i] - t) < 1e-9 else ""
                           for i, t in zip(nearest, shown))])
    print("\nN <m^2>:")
    table(["", *(f"t = {t:g}" for t in shown)], rows)
    print("\nWhat V changes by with half the samples:")
    table(["", *(f"t = {t:g}" for t in shown)],
          [[name, *(with_error(theory.bias["V"][i], theory.bias["V_error"][i]) for i in at)] for name, theory in results.items()])
    lines = {}
    for name, theory in results.items():
        ends, values, errors = slopes(theory)
        lines[name] = [[with_error(*pair) for pair in zip(values[k], errors[k])] for k in range(2)]
    for k, what in enumerate(("d ln V/d ln t over [t/2, t] (a power of t: constant)",
                              "(1/2) d ln V/dt over [t/2, t] (exponential: constant)")):
        print(f"\n{what}:")
        table(["", *(f"t = {t:g}" for t in ends)], [[name, *found[k]] for name, found in lines.items()])
    if scans:
        print(f"\nV, and d ln V/d ln t over the last factor of two, at t = {next(iter(scans.values())).t[-1]:g} against alpha:")
        alphas = sorted({alpha for _, alpha in scans})
        rows = []
        for name in SCANNED:
            found = [scans[name, alpha] for alpha in alphas]
            rows.append([name, *(with_error(theory.V[-1], theory.V_error[-1]) for theory in found)])
            ends_at = [slopes(theory) for theory in found]
            rows.append(["power", *(with_error(values[0, -1], errors[0, -1]) for _, values, errors in ends_at)])
        table(["", *(f"alpha = {alpha:g}" for alpha in alphas)], rows)
        draw_alphas(scans, output / f"escape-alpha{tail}.png")
    draw_growth(results, output / f"escape-growth{tail}.png")
    for name, found in simulations.items():
        words = file_words(name)
        draw_collapse(results[name], found, output / f"escape-collapse-{words}{tail}.png")
        draw_passage(results[name], found, LEVEL, output / f"escape-passage-{words}{tail}.png")
    print(f"\npictures: {output}/escape-*{tail}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute: few samples, short times")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to do besides the first: some of %(default)s")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--output", type=Path, default=Path("runs/out/studies"))
    options = parser.parse_args()
    quick, dimensions, alphas = options.quick, DIMENSIONS, ALPHAS
    parts = options.parts.split(",")
    if set(parts) - set(PARTS):
        parser.error(f"--parts {options.parts}: there are {', '.join(PARTS)}")
    base = dmft.parse_run(RUN).replace(device=options.device)
    if quick:
        base, dimensions, alphas = base.replace(samples=512, replicas=3, t_max=0.4, instances=16), (50, 100), (1.0, 3.0)
    base = base.replace(record=[round(0.1 * i, 1) for i in range(round(10 * base.algorithm.t_max) + 1)])
    results = {name: solve(base, name, options.output, quick) for name in CASES}
    end = min(base.algorithm.t_max, SCAN_END)
    short = base.replace(t_max=end, record="log")
    scans = {(name, alpha): solve(short, name, options.output, quick, alpha=alpha) for name in SCANNED for alpha in alphas
             if "alpha" in parts}
    simulations = {name: {N: simulate(base, name, N, options.output, quick) for N in dimensions} for name in SCANNED
                   if "simulate" in parts}
    if world().is_root:
        report(results, scans, simulations, options.output, "-quick" if quick else "")


if __name__ == "__main__":
    main()
