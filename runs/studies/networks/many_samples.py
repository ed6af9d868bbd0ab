"""Many samples: the same run file through the multi-pass theory and through one pass.

Two erf units on two directions, spheres, gradient descent at eta alpha = 0.2. As alpha grows at equal alpha t, every sample counts
less and less, and what is left is descent on the population loss in steps of eta alpha: large batches of one-pass SGD
(onepass.networks.large_batches), which for small steps follow its ODE. Both read the run file of the theory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import dmft
from dmft.core.parallel import world
from onepass.from_theory import step_length
from onepass.networks.large_batches import descend
from onepass.runfile import parse_run
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
    one_pass = {alpha: parse_run(run.to_toml()) for alpha, run in runs.items()}
    limits = {alpha: descend(run.model, run.start(), step_length(runs[alpha]), runs[alpha].algorithm.steps)
              for alpha, run in one_pass.items()}
    last = one_pass[alphas[-1]]
    times = np.linspace(0.0, last.time.t_max, 81)
    ode = last.solve(last.start(), times)
    figure = new_figure(11.0, 4.4)
    axes = figure.subplots(1, 2)
    for axis, (r, s) in zip(axes, ((0, 0), (0, 1))):
        for i, (alpha, theory) in enumerate(theories.items()):
            m, bar, color = theory.m[:, r, s], BAND * theory.m_error[:, r, s], scale_colour(0.9 * i / max(len(alphas) - 1, 1))
            axis.fill_between(alpha * theory.t, m - bar, m + bar, color=color, alpha=0.3, linewidth=0)
            axis.plot(alpha * theory.t, m, color=color, label=rf"$\alpha$ = {alpha:g}")
        axis.plot(2.0 * times, ode.M[:, r, s], color=BLACK, linestyle="--", label="one pass (ODE)")      # alpha t = p t
        axis.set_xlabel(r"$\alpha t$")
        axis.set_ylabel(f"$m_{{{r + 1}{s + 1}}}$")
        axis.legend(fontsize="small")
    save(figure, options.output / f"network-many-samples{mark}.png")
    print("largest differences over all times: theory - large batches of one pass, alpha times it, and theory - ODE")
    for alpha, theory in theories.items():
        limit, error = limits[alpha], max(theory.m_error.max(), 1e-12)
        flow = one_pass[alpha].solve(one_pass[alpha].start(), limit.t)
        for name, mine, batches, straight in (("m", theory.m, limit.M, flow.M), ("C", theory.C, limit.Q, flow.Q)):
            gap = np.abs(mine - batches).max()
            print(f"alpha = {alpha:g}, {name}: {gap:.5f} (errors of m up to {error:.5f}), {alpha * gap:.3f}, "
                  f"{np.abs(mine - straight).max():.5f}")
    print(f"picture: {options.output / f'network-many-samples{mark}.png'}")


if __name__ == "__main__":
    main()
