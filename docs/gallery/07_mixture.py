"""A Gaussian mixture and its limit

Two clusters, logistic loss, a little ridge: the error on new samples against time, theory over simulation, and the
value at which gradient descent ends by the static equations (`dmft.fixed_point`), without samples and without time
steps.
"""

from matplotlib.figure import Figure

import dmft
import sgd_sim

run = dmft.parse_run("""
[problem]
alpha = 2.0
data = "mixture"
clusters = [[1.5, 0.5, 1.0, 1.0], [-1.5, 0.5, -1.0, 1.0]]
loss = "logistic"
m0 = 0.0
constraint = "ridge"
ridge = 0.1
start_variance = 0.5
[algorithm]
kind = "sgd"
batch_fraction = 0.5
learning_rate = 0.1
t_max = 15.0
[theory]
samples = 2000
replicas = 4
[simulation]
dimension = 400
instances = 16
""")
theory, sim = dmft.solve(run, quiet=True), sgd_sim.simulate(run, quiet=True)
limit = dmft.fixed_point(run.replace(kind="gd"))

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
axes.plot(theory.t, theory.error, label="theory")
axes.fill_between(theory.t, theory.error - 2 * theory.error_error, theory.error + 2 * theory.error_error, alpha=0.25, lw=0)
axes.errorbar(sim.t[::3], sim.mean().error[::3], 2 * sim.error().error[::3], fmt="o", ms=4, label="simulation, N = 400")
axes.axhline(limit.errors["error"], color="k", ls=":", label="where gradient descent ends")
axes.set(xlabel="t", ylabel="error on new samples")
axes.legend()
