"""Makes headline.csv: python docs/gallery/data/headline.py [SIMULATIONS], three minutes of two cores, a quarter of an hour more
with the simulations.

SIMULATIONS: folder of runs/studies/reshuffling.py, whose simulations at N = 1000 are these; without it they are run here."""

import sys
from pathlib import Path

from table import table_rows, write_table

import dmft
import sgd_sim

TEXT = """
[problem]
alpha = 3.0
m0 = 0.2
[algorithm]
kind = "gd"
learning_rate = 0.02
t_max = 30.0
[theory]
samples = 6000
replicas = 4
[simulation]
dimension = 1000
instances = 48
"""
gd = dmft.parse_run(TEXT)
half = {"kind": "sgd", "batch_fraction": 0.5}
runs = {"gradient-descent": gd, "Bernoulli": gd.replace(**half),
        "persistent": gd.replace(kind="persistent_sgd", batch_fraction=0.5, persistence=1.0)}
rows = []
for name, run in runs.items():
    theory = dmft.solve(run)
    stored = Path(sys.argv[1]) / f"reshuffling-{name}-1000.h5" if len(sys.argv) > 1 else None
    sim = sgd_sim.load(stored) if stored else sgd_sim.simulate(run.replace(t_max=100.0))
    rows += table_rows(name, theory, sim)
write_table(__file__, rows)
