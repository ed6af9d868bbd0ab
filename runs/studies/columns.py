"""C(t, t_w) over 2000 steps: columns of the theory, in a history of blocks, on a direct simulation.

Persistent SGD on phase retrieval. The simulation here is a few lines of NumPy of its own, because two-time overlaps are what it
records: w_t . w_s / N at waiting times s and some later t. Nothing of it is shared with the theory.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
from dmft.core.parallel import world
from workbench.plots.curves import time_axis
from workbench.plots.style import CYCLE, new_figure, save

RUN = """
[problem]
alpha = 2.0
m0 = 0.5
[algorithm]
kind = "persistent_sgd"
learning_rate = 0.02
batch_fraction = 0.5
persistence = 1.0
t_max = 40.0
[theory]
samples = 8192
replicas = 8
waiting_times = [0.0, 0.3, 1.0, 3.0, 10.0]
"""


def simulated(run: dmft.Run, rows: np.ndarray, waiting: np.ndarray, N: int, seed: int) -> np.ndarray:
    """(rows, waiting) w_t . w_s / N of one instance; NaN for t < s."""
    rng, alpha, m0 = np.random.default_rng((7, seed)), run.problem.alpha, run.problem.m0
    a, l, eta = run.algorithm, run.algorithm.batch_fraction, run.algorithm.learning_rate
    X = rng.standard_normal((round(alpha * N), N))
    teacher, z = rng.standard_normal(N), rng.standard_normal(N)
    teacher *= np.sqrt(N) / np.linalg.norm(teacher)
    z -= teacher * (z @ teacher) / N
    w = m0 * teacher + np.sqrt(1 - m0**2) * z * np.sqrt(N) / np.linalg.norm(z)
    y, s = X @ teacher / np.sqrt(N), rng.random(len(X)) < l
    kept, found = {}, np.full((len(rows), len(waiting)), np.nan)
    for n in range(rows[-1] + 1):
        if n in waiting:
            kept[n] = w.copy()
        if n in rows:
            found[np.searchsorted(rows, n), : len(kept)] = [w @ old / N for old in kept.values()]
        h = X @ w / np.sqrt(N)
        w = w - eta * X.T @ (s / l * h * (h**2 - y**2)) / np.sqrt(N)
        w *= np.sqrt(N) / np.linalg.norm(w)
        flips = rng.random(len(X))
        s = np.where(s, flips >= (1 - l) * eta / (l * a.persistence), flips < eta / a.persistence)
    return found


def main() -> None:
    options = read_options(__doc__, "512 samples, 3 replicas, N = 100, t = 6: seconds", dimension=800, instances=40)
    run, N, instances = dmft.parse_run(RUN), options.dimension, options.instances
    if options.quick:
        run, N, instances = run.replace(samples=512, replicas=3, t_max=6.0, waiting_times=[0.0, 0.3, 1.0, 3.0]), 100, 8
    path = options.output / f"columns{'-quick' if options.quick else ''}.h5"
    theory = dmft.solve(run, output=path, resume=True)
    if not world().is_root:
        return
    columns, eta = theory.columns, run.algorithm.learning_rate
    rows, waiting = (np.rint(times / eta).astype(int) for times in (columns.t, columns.t_w))
    rows = rows[:: max(len(rows) // 80, 1)]
    found = np.array([simulated(run, rows, waiting, N, seed) for seed in range(instances)])
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(instances)
    figure = new_figure(9.0, 5.5)
    axis = figure.subplots()
    print(f"{'t_w':>6}{'t':>8}{'theory':>18}{f'simulation, N = {N}':>24}{'z':>7}")
    at = np.searchsorted(np.rint(columns.t / eta), rows)
    for j, (color, t_w) in enumerate(zip(CYCLE, columns.t_w)):
        tau, C, C_error = columns.after("C", j)
        axis.fill_between(tau, C - 2 * C_error, C + 2 * C_error, color=color, alpha=0.3, linewidth=0)
        axis.plot(tau, C, color=color, label=f"$t_w = {t_w:g}$")
        late = rows > waiting[j]
        axis.errorbar(eta * (rows[late] - waiting[j]), mean[late, j], 2 * error[late, j], fmt=".", color=color, markersize=4)
        for i in np.flatnonzero(late)[np.linspace(0, late.sum() - 1, 4).astype(int)]:
            k = at[i]
            z = (columns.C[k, j] - mean[i, j]) / np.hypot(columns.C_error[k, j], error[i, j])
            print(f"{t_w:>6g}{eta * rows[i]:>8.3g}{columns.C[k, j]:>10.4f}({columns.C_error[k, j]:.4f})"
                  f"{mean[i, j]:>16.4f}({error[i, j]:.4f}){z:>7.1f}")
    axis.set(ylabel=r"$C(t_w + \tau, t_w)$",
             title=f"persistent SGD, theory (lines, two errors) on simulation (N = {N}, {instances} runs)")
    time_axis(axis, True, eta, r"\tau")
    axis.legend()
    picture = options.output / "columns.png"
    save(figure, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
