"""Noise that lasts finds the teacher

Phase retrieval at α = 3 from overlap 0.2, learning rate 0.01: gradient descent, SGD and persistent SGD with mini-batches
of half the data. Lines: the theory for infinite dimension with bands of two standard errors (12 solutions of 32 768
samples). Points: simulations with two standard errors and the paper's start, 500 runs at N = 1000, and white, 86, 32 and 64 runs
at N = 4000: the larger the dimension, the closer persistent SGD is to its line. Inset: the share of the runs at N = 1000 that
have found the teacher. Drawn from the numbers in `docs/numbers`, which `make reproduce` makes on one card.
"""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

numbers = Path(__file__).parents[1] / "numbers"
names = {"gd": "gradient descent", "sgd": "SGD, mini-batches of half the data", "persistent_sgd": "persistent SGD, τ = 1"}

figure = Figure(figsize=(7.4, 4.6))
axes = figure.subplots()
inset = axes.inset_axes((0.085, 0.6, 0.33, 0.33))
for number, (kind, name) in enumerate(names.items()):
    colour = f"C{number}"
    theory, sim = (json.loads((numbers / "fig2" / f"{kind}.{half}.json").read_text()) for half in ("theory", "simulation"))
    t, mean, error = (np.array(each) for each in (theory["t"], theory["curves"]["m"]["mean"], theory["curves"]["m"]["error"]))
    axes.plot(t[1:], mean[1:], color=colour, lw=1.8, label=name)
    axes.fill_between(t[1:], (mean - 2 * error)[1:], (mean + 2 * error)[1:], color=colour, alpha=0.3, lw=0)
    t, mean, error = (np.array(each) for each in (sim["t"], sim["curves"]["m"]["mean"], sim["curves"]["m"]["error"]))
    late = np.arange(1 + 2 * number, len(t), 6)  # others for each algorithm, so that none hides another
    axes.errorbar(t[late], mean[late], 2 * error[late], fmt="o^s"[number], ms=4, lw=1, color=colour, alpha=0.6)
    large = json.loads((numbers / "headline" / f"{kind}_N4000.simulation.json").read_text())
    t_large, mean, error = (np.array(each) for each in (large["t"], large["curves"]["m"]["mean"], large["curves"]["m"]["error"]))
    late = np.arange(3 + 2 * number, len(t_large), 6)
    axes.errorbar(t_large[late], mean[late], 2 * error[late], fmt="o^s"[number], ms=4, lw=1, color=colour, mfc="white", zorder=5)
    inset.plot(t[1:], 100 * np.array(sim["solved"])[1:] / sim["instances"], color=colour, lw=1.2)
axes.plot([], [], "o", color="0.5", alpha=0.6, ms=4, label="simulation, N = 1000")
axes.plot([], [], "o", color="0.5", mfc="white", ms=4, label="simulation, N = 4000")
axes.set(xscale="log", xlabel="t", ylabel="overlap m with the teacher", xlim=(0.01, 1300), ylim=(0.15, 1.45))
axes.set_yticks([0.2, 0.4, 0.6, 0.8, 1.0])
axes.legend(loc="upper right", fontsize=8)
inset.set(xscale="log", xlim=(3, 1000), ylim=(-3, 103), yticks=[0, 50, 100])
inset.set_ylabel("solved, %", fontsize=8)
inset.tick_params(labelsize=7)
