"""Aging

How much of where it was at the waiting time does an algorithm remember a time τ later? Correlations of gradient
descent decay less and less the longer one has waited. 1200 steps, with bands of two standard errors.
"""

from matplotlib.figure import Figure

import dmft

run = dmft.parse_run("""
[problem]
alpha = 2.0
m0 = 0.3
[algorithm]
kind = "gd"
learning_rate = 0.04
t_max = 48.0
[theory]
samples = 2000
replicas = 4
waiting_times = [0.0, 0.2, 1.0, 5.0, 20.0]
""")
columns = dmft.solve(run, quiet=True).columns

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for number, waiting in enumerate(columns.t_w):
    tau, C, error = columns.after("C", number)
    axes.semilogx(tau[1:], C[1:], color=f"C{number}", label=f"waiting time {waiting:g}")
    axes.fill_between(tau[1:], (C - 2 * error)[1:], (C + 2 * error)[1:], color=f"C{number}", alpha=0.25, linewidth=0)
axes.set(xlabel="τ", ylabel="C(waiting time + τ, waiting time)")
axes.legend()
