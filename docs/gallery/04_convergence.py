"""Convergence in the samples

Distances of curves and kernels from those of the finest solution fall about as samples to the power -1/2. All samples
carry tangents here: by default a sixteenth do, at least 512, and M_R would hardly move at such small numbers.
`dmft converge` makes the same table from the command line.
"""

from matplotlib.figure import Figure

import dmft

run = dmft.parse_run("""
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "sgd"
learning_rate = 0.02
t_max = 0.5
batch_fraction = 0.5
[theory]
replicas = 8
tangents = 1.0
""")
study = dmft.convergence_study(run, samples=[250, 1000, 4000, 16000], quiet=True)
table = study.to_dataframe("distances")

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for quantity in ("m", "M_C", "M_R", "C"):
    rows = table[(table.quantity == quantity) & (table.distance > 0)]
    axes.loglog(rows.value, rows.distance, "o-", label=quantity)
samples = table.value[table.distance > 0].unique()
axes.loglog(samples, 0.5 * samples ** -0.5, "k:", label="samples$^{-1/2}$")
axes.set(xlabel="samples", ylabel="relative distance from the finest solution")
axes.set_xticks(samples, [f"{count:.0f}" for count in samples])
axes.minorticks_off()
axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
