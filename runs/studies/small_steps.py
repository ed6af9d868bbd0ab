"""Small steps: how far is an algorithm with a finite learning rate from its flow, and does the extrapolation find the flow?

Persistent SGD on phase retrieval at several learning rates. The coarser points predict the limit (Richardson); a finer
one, which the extrapolation has not seen, tests the prediction.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
from dmft.core.parallel import world
from workbench.plots.convergence import draw

RUN = """
title = "persistent SGD, small steps"
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "persistent_sgd"
learning_rate = 0.04
t_max = 0.8
batch_fraction = 0.5
persistence = 1.0
[theory]
samples = 20000
replicas = 16
"""


def main() -> None:
    options = read_options(__doc__, "1000 samples, 8 replicas, t = 0.4: a minute")
    run = dmft.parse_run(RUN)
    steps, finest, mark = [0.04, 0.02, 0.01], 0.005, ""
    if options.quick:
        run, steps, finest, mark = run.replace(samples=1000, replicas=8, t_max=0.4), [0.04, 0.02], 0.01, "-quick"
    output = options.output / f"small-steps{mark}.h5"
    study = dmft.convergence_study(run, learning_rate=steps, output=output, resume=True)
    # The test point: a learning rate that is not in the study.
    fine = dmft.solve(run.replace(learning_rate=finest, seed=100), output=options.output / f"fine{mark}.h5", resume=True)
    if not world().is_root:
        return
    print(study)
    axis = study["learning_rate"]
    print(f"\n{'t':>6}{'m predicted at':>18}{f'eta = {finest:g}':>12}{'found':>22}{'z':>8}")
    slope = (axis.curves["m"][-1] - axis.limit["m"]) / steps[-1]
    for i in range(0, axis.t.size, max(1, axis.t.size // 6)):
        k = int(np.argmin(np.abs(fine.t - axis.t[i])))
        predicted, error = axis.limit["m"][i] + finest * slope[i], axis.limit["m_error"][i]
        z = (fine.m[k] - predicted) / np.hypot(max(error, 1e-9), fine.m_error[k])
        print(f"{axis.t[i]:>6.2f}{predicted:>18.5f} +- {error:<8.1e}{fine.m[k]:>16.5f} +- {fine.m_error[k]:<8.1e}{z:>8.2f}")
    picture = options.output / "small-steps.png"
    draw(study, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
