"""Two-time kernels

The correlation C(t, t') of the weights and the memory M_R(t, t') of the effective process for persistent SGD: what
the force on one sample at time t owes to a kick at time t'. Every entry has an error bar.
"""

import numpy as np
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

import dmft

run = dmft.parse_run("""
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "persistent_sgd"
learning_rate = 0.02
t_max = 3.0
batch_fraction = 0.5
persistence = 1.0
[theory]
samples = 4000
replicas = 4
""")
kernels = dmft.solve(run, quiet=True).kernels

figure = Figure(figsize=(8, 3.6))
for axes, name, norm in zip(figure.subplots(1, 2), ("C", "M_R"), ("linear", SymLogNorm(0.1)), strict=True):
    shown = np.ma.masked_where(np.triu(np.ones_like(kernels.C)) > 0, kernels.M_R) if name == "M_R" else kernels.C
    mesh = axes.pcolormesh(kernels.t, kernels.t, shown, norm=norm, shading="nearest", rasterized=True)
    figure.colorbar(mesh, ax=axes)
    axes.set(xlabel="t'", ylabel="t", title=f"{name}(t, t')", aspect="equal")
    axes.grid(False)
