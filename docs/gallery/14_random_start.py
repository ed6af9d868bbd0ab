"""From a random start

In infinite dimension a random start has overlap zero, and keeps it. At finite N the overlap is a Gaussian of variance
V(t)/N, and the theory knows V: how much the first chance overlap is amplified. Points are N times the mean of m squared
over simulations at N = 200.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim

run = dmft.parse_run("""
[problem]
alpha = 2.0
start = "random"
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 1.0
[theory]
samples = 2000
replicas = 4
[simulation]
dimension = 200
instances = 100
""")
theory, sim = dmft.solve(run, quiet=True), sgd_sim.simulate(run, quiet=True)

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
axes.plot(theory.t, theory.V, label="theory, N to infinity")
axes.fill_between(theory.t, theory.V - 2 * theory.V_error, theory.V + 2 * theory.V_error, alpha=0.25, lw=0)
axes.errorbar(sim.t[::3], sim.mean().V[::3], 2 * sim.error().V[::3], fmt="o", ms=4, label="simulation, N = 200")
axes.set(xlabel="t", ylabel="V = N ⟨m²⟩")
axes.legend(loc="upper left")
