"""Does the landscape point to the teacher?

The softest direction of the Hessian along the sphere, at the weights that gradient descent has reached: how much of its square
lies along the teacher's part that the weights have not found yet. At α = 4 it points there all the way, and the teacher is found
(dashed: m). At α = 2 it points there at the start, and no more after t = 1: noise in the data has taken over, and gradient
descent rests far away.
"""

import numpy as np
from matplotlib.figure import Figure

import dmft

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
times = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0]
for number, alpha in enumerate((2.0, 3.0, 4.0)):
    run = dmft.Experiment({"theory.snapshots": times, "theory.hessian": True}, loss="normalised_phase_retrieval", alpha=alpha,
                          m0=0.2, kind="gd", learning_rate=0.05, t_max=3.0, samples=4096, replicas=3, dimension=400)
    theory = dmft.solve(run, quiet=True)
    found = np.array([theory.hessian(t).mean("soft_overlap") for t in times])
    axes.errorbar(times, found[:, 0], 2 * found[:, 1], color=f"C{number}", capsize=2, label=f"α = {alpha:g}")
    axes.plot(theory.t, theory.m, color=f"C{number}", linestyle="--", linewidth=0.8)
axes.set(xlabel="t", ylabel="squared overlap of the softest direction (dashed: m)")
axes.legend()
