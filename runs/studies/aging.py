"""Aging: does an algorithm that has been running for longer forget its weights more slowly?

Gradient descent and persistent SGD on phase retrieval, with few data samples. C(t_w + tau, t_w) is the overlap of the weights at
t_w with those a time tau later; the integrated response is the effect of a constant force that acts from t_w on. In equilibrium
neither would depend on t_w.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
from dmft.core.parallel import world
from workbench.plots.aging import draw_correlation, draw_response
from workbench.plots.style import new_figure, save

RUN = """
[problem]
alpha = 2.0
m0 = 0.3
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 40.0
[theory]
samples = 20000
replicas = 8
"""
ALGORITHMS = {"gradient descent": {"kind": "gd"},
              "persistent SGD": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0}}


def half_life(columns, j: int) -> float:
    """Time after t_w at which half of the decay seen up to the end has happened."""
    tau, C, _ = columns.after("C", j)
    return float(tau[np.argmax((C[0] + C[-1]) / 2 >= C)])


def main() -> None:
    options = read_options(__doc__, "500 samples, 3 replicas, t = 2: seconds")
    base = dmft.parse_run(RUN)
    if options.quick:
        base = base.replace(samples=500, replicas=3, t_max=2.0)
    results = {}
    for name, changes in ALGORITHMS.items():
        path = options.output / f"aging-{changes['kind']}{'-quick' if options.quick else ''}.h5"
        results[name] = dmft.solve(base.replace(title=name, **changes), output=path, resume=True)
    if not world().is_root:
        return
    print(f"{'':<18}{'t_w':>8}{'half-life of C':>16}{'response at the end':>21}")
    for name, theory in results.items():
        columns = theory.columns
        for t_w in (0.0, theory.t[-1] / 16, theory.t[-1] / 4):
            j = int(np.argmin(np.abs(columns.t_w - t_w)))
            print(f"{name:<18}{columns.t_w[j]:>8.3g}{half_life(columns, j):>16.3g}{columns.after('chi', j)[1][-1]:>21.3g}")
    figure = new_figure(11.0, 8.0)
    axes = figure.subplots(2, 2)
    for row, (name, theory) in zip(axes, results.items()):
        draw_correlation(row[0], theory.columns, base.algorithm.learning_rate)
        draw_response(row[1], theory.columns, base.algorithm.learning_rate)
        row[0].set_title(f"{name}: correlation")
        row[1].set_title(f"{name}: integrated response")
    picture = options.output / "aging.png"
    save(figure, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
