"""What `import dmft` offers from Python beyond the theory: results against each other, and reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.errors import FileError, UserError
from dmft.core.schema import to_toml_value
from dmft.core.stopping import StopSignals
from dmft.model.runfile import Run, load_run
from dmft.result.theory import Theory
from sgd_sim.result import SOLVED, SimulationResult
from workbench.inspection.against import AgainstSimulations, against_simulations
from workbench.inspection.opening import open_file
from workbench.inspection.own_data import is_table
from workbench.scans.local import kinds_of, run_scan
from workbench.scans.points import GridPoint
from workbench.scans.scan import Scan

__all__ = ["compare", "report", "scan"]


def compare(theory: Theory | str | Path, *simulations: Any, observable: str | Sequence[str] | None = None, kernels: bool = False,
            fields: bool = False, plot: str | Path | None = None, dimension: int | None = None, **own: Any) -> AgainstSimulations:
    """Hold a theory against simulations of the same experiment, each a result or a file; or against numbers of your own:

        dmft.compare(theory, t=t, m=m, loss=loss)       # each (times,) or (instances, times)
        dmft.compare(theory, t=t, m=mean, m_error=error)
        dmft.compare(theory, frame)                     # a DataFrame, a Dataset of xarray or a CSV file with the same names

    in a table with a column `instance` each instance and time has a row. dimension: N of your numbers, if they are more than one.
    The theory is interpolated to your times.

    observable: "m", "loss", "mse", "q", "V", an observable of the run, or several of them, of a network also "C", "a", "beta" or a
    component, "C[0,1]"; None: m, or V from a random start, of a network all of these, and the observables of the run. kernels: hold
    C, M_C and R at pairs of times against each other, too (simulations made with [simulation] kernels = true); fields: quantiles of
    the fields at the times of [theory] snapshots. plot: file for a picture. Several simulations at different dimensions are
    extrapolated to infinity. The answer is in `.verdict` (agree, disagree,
    cannot tell, diverged) and `.max_z`; printing it gives the table, `.comparisons` the numbers.
    """
    if own:
        simulations = (*simulations, own)
    if not simulations:
        raise UserError("compare: give one simulation at least, dmft.compare(theory, simulation), or your numbers, t=..., m=...")
    for each in simulations:
        if not isinstance(each, (SimulationResult, str, Path)) and not is_table(each):
            raise UserError(f"compare: a {type(each).__name__} cannot be compared: give a result, a file, a table, or arrays: "
                            "t=..., m=...")
    if dimension is not None and (not isinstance(dimension, int) or dimension < 1):
        raise UserError(f"compare: dimension = {dimension!r} must be a whole number above 0")
    simulations = tuple((dimension, each) if dimension is not None and is_table(each) else each for each in simulations)
    names = [observable] if isinstance(observable, str) else list(observable or ())
    found = against_simulations(theory, simulations, names, kernels, fields)
    if plot is not None:
        found.plot(plot)
    return found


def scan(run: Run | str | Path, grid: Mapping[str, Sequence[Any]], output: str | Path, *, simulate: bool = False,
         compare: bool = False, processes: int | None = None, times: Sequence[float] | None = None, threshold: float = SOLVED,
         quiet: bool = False) -> Scan:
    """Solve a run at every point of a grid, {"problem.alpha": [2, 3], "problem.m0": [0.1, 0.2]}, several at a time, each in a
    process of its own. Results go to the folder `output`, and what is there is not computed again. simulate: simulations instead of
    theories; compare: both. The answer has `.to_dataframe()`, `.to_xarray()` and `.plot()`; `dmft.load(folder/"sweep.h5")` reads
    it back.
    """
    base, folder = run if isinstance(run, Run) else load_run(run), Path(output)
    if not grid:
        raise UserError('scan: which values? e.g. {"problem.alpha": [2, 3]}')
    for key, values in grid.items():
        if key.count(".") != 1 or isinstance(values, str) or not isinstance(values, Iterable):
            raise UserError(f'scan: {key!r}: give a list of values by section.key, e.g. {{"problem.alpha": [2, 3]}}')
    texts = [[f"{key}={to_toml_value(value.item() if isinstance(value, np.generic) else value)}" for value in values]
             for key, values in grid.items()]
    if processes is not None and processes < 1:
        raise UserError(f"scan: processes = {processes} must be 1 at least")
    points = [GridPoint(settings) for settings in product(*texts)]
    with StopSignals() as stop:
        cores = processes or os.cpu_count() or 1
        found = run_scan(base, points, folder, kinds_of(simulate, compare), cores, threshold, stop, times, quiet=quiet)
    found.save(folder / "sweep.h5")
    return found


def report(files: str | Path | Sequence[str | Path], output: str | Path, *, force: bool = False, title: str = "",
           notes: str = "") -> Path:
    """Write one page for the browser about result files or checkpoints; returns its path.

    The page needs no network and no other file. force: overwrite an existing page. title and notes stand at its top.
    """
    from workbench.reporting import write_report  # needs plotly, an extra that nothing else wants

    place = Path(output)
    if place.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{place}: a report is a page for the browser: name it FILE.html; dmft plot FILE -o {place.stem}.pdf draws "
                        "one result")
    if place.exists() and not force:
        raise FileError(f"{place}: exists; --force (force=True) overwrites it, another name keeps both")
    names = [files] if isinstance(files, (str, Path)) else list(files)
    write_report([open_file(name) for name in names], place, title, notes)
    return place
