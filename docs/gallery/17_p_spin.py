"""A glass: aging of the spherical 3-spin model

Response against correlation of a quench to temperature 0.3, for several waiting times, without a single sample. In
equilibrium the points would lie on the steep line, slope -1/T; those of old times follow another one, as if at a
higher temperature.
"""

import numpy as np
from matplotlib.figure import Figure

import dmft

T, eta = 0.3, 0.1
run = dmft.Experiment(data="p_spin", powers=[[3, 1.0]], m0=0.0, kind="langevin", temperature=T, learning_rate=eta, t_max=1000.0,
                      waiting_times=[1.0, 10.0, 100.0])
theory = dmft.solve(run, quiet=True)
columns = theory.columns

figure = Figure(figsize=(10.0, 4.2))
left, right = figure.subplots(1, 2)
for number, waiting in enumerate(columns.t_w):
    tau, C, _ = columns.after("C", number)
    _, chi, _ = columns.after("chi", number)
    left.semilogx(tau[1:], C[1:], color=f"C{number}", label=f"waiting time {waiting:g}")
    right.plot(C, chi, color=f"C{number}")
warm = T / (1 + eta * theory.nu_hat[-1])  # the temperature of steps of finite size
line = np.linspace(0.85, 1.0, 2)
right.plot(line, (1 - line) / warm, "k--", linewidth=0.8, label="equilibrium")
left.set(xlabel="time since the waiting time", ylabel="correlation C")
right.set(xlabel="correlation C", ylabel="integrated response χ")
left.legend()
right.legend()
