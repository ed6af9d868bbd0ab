"""Spectral start

Gradient descent from the leading eigenvector of the weighted data: the theory knows that the start has seen the
same samples. The overlap of that eigenvector at α = 3 is the first point.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim

run = dmft.parse_run("""
[problem]
alpha = 3.0
start = "spectral"
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 1.0
[theory]
samples = 4000
replicas = 4
[simulation]
dimension = 300
instances = 16
""")
theory, sim = dmft.solve(run, quiet=True), sgd_sim.simulate(run, quiet=True)

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
axes.plot(theory.t, theory.m, label="theory")
axes.fill_between(theory.t, theory.m - 2 * theory.m_error, theory.m + 2 * theory.m_error, alpha=0.25, lw=0)
axes.errorbar(sim.t[::3], abs(sim.m).mean(axis=0)[::3], 2 * sim.error().m[::3], fmt="o", ms=4, label="simulation, N = 300")
axes.set(xlabel="t", ylabel="overlap |m|")
axes.legend()
