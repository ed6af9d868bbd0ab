"""One-pass SGD of a two-layer network

Three quadratic units learn one: overlaps of each unit with the teacher from the ODE (lines) and from SGD on real
data in dimension 1000 (points).
"""

import numpy as np
from matplotlib.figure import Figure

import onepass

net = onepass.QuadraticNetwork(width=3, teacher_width=1, gamma=0.15, noise=0.2, second_layer="fixed", constraint="sphere")
initial = {"M": np.array([[0.1], [0.05], [-0.2]]), "Q": np.eye(3)}
times = np.linspace(0.0, 4.0, 41)
ode, sgd = net.solve(initial, times), net.simulate(dimension=1000, instances=20, initial=initial, times=times, seed=1)

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for unit in range(3):
    axes.plot(ode.t, ode.M[:, unit, 0], color=f"C{unit}", label=f"unit {unit + 1}")
    axes.errorbar(sgd.t[::4], sgd.mean().M[::4, unit, 0], 2 * sgd.error().M[::4, unit, 0], fmt="o", ms=4, color=f"C{unit}")
axes.set(xlabel="t", ylabel="overlap with the teacher")
axes.legend()
