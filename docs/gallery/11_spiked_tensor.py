"""Spiked tensor: above and below the threshold

Effective dynamics of one-pass SGD on a spiked matrix (order 2). Above the threshold of the signal the overlap
grows, below it decays.
"""

import numpy as np
from matplotlib.figure import Figure

import onepass

times = np.linspace(0.0, 3.0, 61)
figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for number, signal in enumerate((0.3, 0.6, 1.0, 1.5, 2.5)):
    path = onepass.SpikedTensor(order=2, signal=signal, step=1.0).solve({"m": 0.1, "r2": 1.0}, times)
    axes.plot(path.t, path.m, color=f"C{number}", label=f"signal {signal:g}")
axes.set(xlabel="t", ylabel="overlap m with the spike", yscale="log")
axes.legend()
