"""Noise that lasts finds the teacher

Phase retrieval at α = 3 from overlap 0.2, learning rate 0.02: gradient descent, SGD and persistent SGD with mini-batches
of half the data. Lines: the theory up to t = 30 (4 replicas of 6000 samples) with bands of two standard errors. Points:
48 runs at N = 1000 with two standard errors. Drawn from a stored table that `python docs/gallery/data/headline.py` makes.
"""

import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

table = Path(__file__).parent / "data" / "headline.csv"
rows = list(csv.DictReader(table.open()))

figure = Figure(figsize=(7.0, 4.0))
axes = figure.subplots()
names = {"gradient-descent": "gradient descent", "Bernoulli": "SGD, mini-batches of half the data",
         "persistent": "persistent SGD, τ = 1"}
for number, (kind, name) in enumerate(names.items()):
    t, theory, band, mean, error = (np.array([float(row[key]) for row in rows if row["algorithm"] == kind and float(row["t"]) > 0])
                                    for key in ("t", "theory", "theory_error", "simulation", "simulation_error"))
    axes.plot(t, theory, color=f"C{number}", label=name)
    axes.fill_between(t, theory - 2 * band, theory + 2 * band, color=f"C{number}", alpha=0.25, lw=0)
    late = np.arange(number, len(t), 3)  # other points for each algorithm, so that none hides another
    axes.errorbar(t[late], mean[late], 2 * error[late], fmt="o^s"[number], ms=4, lw=1, color=f"C{number}", mfc="white")
axes.set(xscale="log", xlabel="t", ylabel="overlap m with the teacher", ylim=(0.15, 1.03))
axes.plot([], [], "o", color="0.4", mfc="white", ms=4, label="simulation, N = 1000")
axes.legend(loc="upper left")
