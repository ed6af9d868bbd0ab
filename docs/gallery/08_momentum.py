"""Momentum

Heavy ball and Nesterov against plain gradient descent at the same learning rate: theory as lines, means over
sixteen simulations as points.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim

run = dmft.parse_run("""
[problem]
alpha = 4.0
m0 = 0.6
[algorithm]
kind = "gd"
learning_rate = 0.01
t_max = 0.5
[theory]
samples = 2000
replicas = 4
[simulation]
dimension = 300
instances = 16
""")
runs = {"plain": run, "heavy ball, β = 0.8": run.replace(momentum=0.8),
        "Nesterov, β = 0.8": run.replace(momentum=0.8, nesterov=True)}

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for number, (name, each) in enumerate(runs.items()):
    theory, sim = dmft.solve(each, quiet=True), sgd_sim.simulate(each, quiet=True)
    axes.semilogy(theory.t, theory.loss, color=f"C{number}", label=name)
    axes.semilogy(sim.t[::3], sim.mean().loss[::3], "o", ms=4, color=f"C{number}")
axes.set(xlabel="t", ylabel="training loss")
axes.legend()
