"""Makes long_times.csv: python docs/gallery/data/long_times.py, about five minutes on one core."""

from table import table_rows, write_table

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
    rows += table_rows(name, theory, sim)
write_table(__file__, rows)
