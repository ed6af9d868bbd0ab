"""Aging

How much of where it was at the waiting time does an algorithm remember a time τ later? Correlations of gradient
descent decay less and less the longer one has waited.
"""

import numpy as np
from matplotlib.figure import Figure

import dmft

run = dmft.parse_run("""
[problem]
alpha = 2.0
m0 = 0.3
[algorithm]
kind = "gd"
learning_rate = 0.04
t_max = 6.0
[theory]
samples = 4000
replicas = 4
""")
kernels = dmft.solve(run, quiet=True).kernels

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for number, waiting in enumerate((0.0, 0.2, 0.5, 1.0, 2.0)):
    w = int(np.argmin(abs(kernels.t - waiting)))
    axes.semilogx(kernels.t[w + 1:] - kernels.t[w], kernels.C[w + 1:, w], color=f"C{number}", label=f"waiting time {waiting:g}")
axes.set(xlabel="τ", ylabel="C(waiting time + τ, waiting time)")
axes.legend()
