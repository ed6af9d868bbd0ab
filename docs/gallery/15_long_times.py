"""Long times

Fifteen hundred steps at α = 2, where part of the runs stick: the compressed memory of the march (dyadic history) makes
them cheap. Simulations at N = 500 end somewhat higher than the theory; carried to infinite dimension the two agree, as
the page on validation shows. Drawn from a stored table that `python docs/gallery/data/long_times.py` makes in minutes.
"""

import csv
from pathlib import Path

from matplotlib.figure import Figure

table = Path(__file__).parent / "data" / "long_times.csv"
rows = list(csv.DictReader(table.open()))

figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
names = {"gd": "gradient descent", "persistent_sgd": "persistent SGD, τ = 1"}
for number, (kind, name) in enumerate(names.items()):
    t, theory, theory_error, mean, error = ([float(row[key]) for row in rows if row["algorithm"] == kind and float(row["t"]) > 0]
                                            for key in ("t", "theory", "theory_error", "simulation", "simulation_error"))
    axes.semilogx(t, theory, color=f"C{number}", label=f"{name}, theory")
    axes.fill_between(t, [m - 2 * e for m, e in zip(theory, theory_error, strict=True)],
                      [m + 2 * e for m, e in zip(theory, theory_error, strict=True)], color=f"C{number}", alpha=0.25, lw=0)
    axes.errorbar(t[::3], mean[::3], [2 * e for e in error[::3]], fmt="o", ms=4, color=f"C{number}", label="simulation, N = 500")
axes.set(xlabel="t", ylabel="overlap m")
axes.legend()
