"""The stored tables of the gallery: m of theory and simulation, with standard errors, at the times of the simulations."""

from pathlib import Path

import numpy as np

from dmft.result.theory import Theory
from sgd_sim import SimulationResult

HEAD = "algorithm,t,theory,theory_error,simulation,simulation_error"


def table_rows(name: str, theory: Theory, sim: SimulationResult) -> list[str]:
    """The lines of one algorithm; the theory is NaN beyond its last time."""
    at, known = np.abs(theory.t[:, None] - sim.t).argmin(axis=0), sim.t <= theory.t[-1] + 1e-9
    m, error = np.where(known, theory.m[at], np.nan), np.where(known, theory.m_error[at], np.nan)
    columns = (sim.t, m, error, sim.mean().m, sim.error().m)
    return [f"{name}," + ",".join(f"{value:.6g}" for value in line) for line in zip(*columns, strict=True)]


def write_table(script: str, rows: list[str]) -> None:
    """NAME.csv beside NAME.py."""
    Path(script).with_suffix(".csv").write_text("\n".join([HEAD, *rows]) + "\n")
