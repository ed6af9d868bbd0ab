"""Four algorithms, theory over simulation

Phase retrieval at α = 3 from overlap 0.5. Lines are the theory with a band of two standard errors, points means
over simulations at N = 300 with two standard errors. Persistent SGD keeps a sample in the batch for a time of order
one, which slows it down at first.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim

TEXT = """
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 2.0
[theory]
samples = 4000
replicas = 4
[simulation]
dimension = 300
instances = 24
"""
run = dmft.parse_run(TEXT)
runs = {"gradient descent": run,
        "SGD, half of the samples": run.replace(kind="sgd", batch_fraction=0.5),
        "persistent SGD, τ = 1": run.replace(kind="persistent_sgd", batch_fraction=0.5, persistence=1.0),
        "Langevin, T = 0.5": run.replace(kind="langevin", temperature=0.5)}

figure = Figure(figsize=(7, 4.5))
axes = figure.subplots()
for number, (name, each) in enumerate(runs.items()):
    theory, sim = dmft.solve(each, quiet=True), sgd_sim.simulate(each, quiet=True)
    mean, error, color = sim.mean().m, sim.error().m, f"C{number}"
    axes.plot(theory.t, theory.m, color=color, label=name)
    axes.fill_between(theory.t, theory.m - 2 * theory.m_error, theory.m + 2 * theory.m_error, color=color, alpha=0.25, lw=0)
    axes.errorbar(sim.t[::3], mean[::3], 2 * error[::3], fmt="o", ms=3.5, color=color)
axes.set(xlabel="time t = learning rate × step", ylabel="overlap m with the teacher")
axes.legend()
