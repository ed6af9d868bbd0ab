"""Makes long_times.csv: python docs/gallery/data/long_times.py, about five minutes on one core."""

from pathlib import Path

import numpy as np

import dmft
import sgd_sim

TEXT = """
[problem]
alpha = 2.0
m0 = 0.5
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 30.0
[theory]
samples = 1500
replicas = 4
[simulation]
dimension = 500
instances = 32
"""
gd = dmft.parse_run(TEXT)
runs = {"gd": gd, "persistent_sgd": gd.replace(kind="persistent_sgd", batch_fraction=0.5, persistence=1.0)}
rows = []
for name, run in runs.items():
    theory, sim = dmft.solve(run), sgd_sim.simulate(run)
    at = np.abs(theory.t[:, None] - sim.t).argmin(axis=0)
    columns = (sim.t, theory.m[at], theory.m_error[at], sim.mean().m, sim.error().m)
    rows += [f"{name}," + ",".join(f"{value:.6g}" for value in line) for line in zip(*columns, strict=True)]
place = Path(__file__).with_suffix(".csv")
place.write_text("\n".join(["algorithm,t,theory,theory_error,simulation,simulation_error", *rows]) + "\n")
