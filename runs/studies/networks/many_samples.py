"""Many samples: the multi-pass theory joins the ODE of one-pass SGD.

Two erf units on two directions, spheres, gradient descent at eta alpha = 0.2. As alpha grows at equal alpha t, every sample counts
less and less, and what is left is descent on the population loss, which one-pass SGD with a small learning rate follows too: the
ODE of onepass, solved by itself from the same start.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import dmft
import onepass
from dmft.core.parallel import world
from workbench.plots.style import BAND, BLACK, new_figure, save, scale_colour

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from options import read_options  # noqa: E402

GAMMA, START, LAST = 0.2, [[0.4, 0.1], [0.05, 0.3]], 8.0


def main() -> None:
    options = read_options(__doc__, "two alpha, few samples: half a minute")
    alphas, samples, replicas, mark = (2.0, 8.0, 32.0, 128.0), 4096, 4, ""
    if options.quick:
        alphas, samples, replicas, mark = (8.0, 32.0), 512, 3, "-quick"
    runs = {alpha: dmft.Experiment(units=2, directions=2, activation="erf", alpha=alpha, m0=START, kind="gd", samples=samples,
                                   learning_rate=GAMMA / alpha, t_max=LAST / alpha, replicas=replicas) for alpha in alphas}
    theories = {alpha: dmft.solve(run, output=options.output / f"network-alpha-{alpha:g}{mark}.theory.h5", resume=True)
                for alpha, run in runs.items()}
    if not world().is_root:
        return
    times = np.linspace(0.0, LAST, 81)
    m0 = np.array(START)
    net = onepass.Committee(activation="erf", width=2, teacher_width=2, gamma=1e-4, constraint="sphere",
                            teacher_weights=(2.0, 2.0))
    Q = np.diag(1.0 - (m0**2).sum(axis=1)) + m0 @ m0.T
    # onepass divides both outputs by their widths: a = 2 undoes it, and its time runs twice as fast.
    ode = net.solve({"a": np.full(2, 2.0), "M": m0, "Q": Q}, times / 2.0)
    figure = new_figure(11.0, 4.4)
    axes = figure.subplots(1, 2)
    for axis, (r, s) in zip(axes, ((0, 0), (0, 1))):
        for i, (alpha, theory) in enumerate(theories.items()):
            m, bar, color = theory.m[:, r, s], BAND * theory.m_error[:, r, s], scale_colour(0.9 * i / max(len(alphas) - 1, 1))
            axis.fill_between(alpha * theory.t, m - bar, m + bar, color=color, alpha=0.3, linewidth=0)
            axis.plot(alpha * theory.t, m, color=color, label=rf"$\alpha$ = {alpha:g}")
        axis.plot(times, ode.M[:, r, s], color=BLACK, linestyle="--", label="one pass (ODE)")
        axis.set_xlabel(r"$\alpha t$")
        axis.set_ylabel(f"$m_{{{r + 1}{s + 1}}}$")
        axis.legend(fontsize="small")
    save(figure, options.output / f"network-many-samples{mark}.png")
    for alpha, theory in theories.items():
        gap = alpha * (theory.m[-1] - ode.M[-1])
        print(f"alpha = {alpha:g}: alpha (m - ODE) at alpha t = {LAST:g}: " + " ".join(
            f"{x:.3f}({1e3 * alpha * e:.0f})" for x, e in zip(gap.ravel(), theory.m_error[-1].ravel())))
    print(f"picture: {options.output / f'network-many-samples{mark}.png'}")


if __name__ == "__main__":
    main()
