"""A scan: how long should a sample stay in the batch?

The overlap that persistent SGD reaches at t = 2, against the persistence time. Short times are SGD, long times
learn from half of the data alone. Scans over grids run on a cluster with `dmft submit --array`.
"""

from matplotlib.figure import Figure

import dmft

run = dmft.parse_run("""
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "persistent_sgd"
learning_rate = 0.02
t_max = 2.0
batch_fraction = 0.5
persistence = 1.0
[theory]
samples = 2000
replicas = 4
""")
times = [0.04, 0.1, 0.3, 1.0, 3.0, 10.0]
ends = [dmft.solve(run.replace(persistence=tau), quiet=True) for tau in times]

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for when in (0.5, 1.0, 2.0):
    n = round(when / 0.02)
    m, error = [each.m[n] for each in ends], [2 * each.m_error[n] for each in ends]
    axes.errorbar(times, m, error, fmt="o-", capsize=2, label=f"t = {when:g}")
axes.set(xscale="log", xlabel="persistence time τ", ylabel="overlap m")
axes.legend()
