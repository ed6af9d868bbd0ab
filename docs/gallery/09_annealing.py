"""Annealing: a temperature that falls in steps

Every setting of an algorithm may follow a schedule. Langevin dynamics at T = 1, then 0.3, then 0: the loss drops
each time.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim

run = dmft.parse_run("""
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "langevin"
learning_rate = 0.02
t_max = 3.0
temperature = [[0.0, 1.0], [1.0, 0.3], [2.0, 0.0]]
[theory]
samples = 4000
replicas = 4
[simulation]
dimension = 300
instances = 16
record = "linear"
""")
theory, sim = dmft.solve(run, quiet=True), sgd_sim.simulate(run, quiet=True)

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
axes.semilogy(theory.t, theory.loss, label="theory")
axes.errorbar(sim.t[::8], sim.mean().loss[::8], 2 * sim.error().loss[::8], fmt="o", ms=4, label="simulation, N = 300")
for begin, temperature in ((0.0, 1.0), (1.0, 0.3), (2.0, 0.0)):
    axes.axvline(begin, color="0.8", lw=1)
    axes.text(begin + 0.05, 0.93, f"T = {temperature:g}", transform=axes.get_xaxis_transform())
axes.set(xlabel="t", ylabel="training loss")
axes.legend(loc="lower left")
