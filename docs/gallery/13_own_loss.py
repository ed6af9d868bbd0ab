"""A loss of one's own

Regression with a loss that is quadratic near zero and linear far out, from three lines of Python, in theory and
simulation.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim


def v(f, y): return (1.0 + (f - y) ** 2) ** 0.5 - 1.0
def dv(f, y): return (f - y) / (1.0 + (f - y) ** 2) ** 0.5
def d2v(f, y): return (1.0 + (f - y) ** 2) ** -1.5


dmft.register_loss("pseudo_huber", v, dv, d2v)
run = dmft.parse_run("""
[problem]
alpha = 2.0
m0 = 0.1
loss = "pseudo_huber"
[algorithm]
kind = "sgd"
batch_fraction = 0.3
learning_rate = 0.05
t_max = 4.0
[theory]
samples = 2000
replicas = 4
[simulation]
dimension = 300
instances = 16
""")
theory, sim = dmft.solve(run, quiet=True), sgd_sim.simulate(run, quiet=True)

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
axes.plot(theory.t, theory.m, label="theory")
axes.errorbar(sim.t[::3], sim.mean().m[::3], 2 * sim.error().m[::3], fmt="o", ms=4, label="simulation, N = 300")
axes.set(xlabel="t", ylabel="overlap m")
axes.legend()
