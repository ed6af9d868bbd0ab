"""What `import dmft` offers from Python beyond the theory: results against each other, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dmft.core.errors import FileError, UserError
from dmft.result.theory import Theory
from sgd_sim.result import SimulationResult
from workbench.inspection.against import AgainstSimulations, against_simulations
from workbench.inspection.opening import open_file
from workbench.inspection.own_data import is_table

__all__ = ["compare", "report"]


def compare(theory: Theory | str | Path, *simulations: Any, observable: str | Sequence[str] | None = None, kernels: bool = False,
            fields: bool = False, plot: str | Path | None = None, dimension: int | None = None, **own: Any) -> AgainstSimulations:
    """Hold a theory against simulations of the same experiment, each a result or a file; or against numbers of your own:

        dmft.compare(theory, t=t, m=m, loss=loss)       # each (times,) or (instances, times)
        dmft.compare(theory, t=t, m=mean, m_error=error)
        dmft.compare(theory, frame)                     # a DataFrame, a Dataset of xarray or a CSV file with the same names

    in a table with a column `instance` each instance and time has a row. dimension: N of your numbers, if they are more than one.
    The theory is interpolated to your times.

    observable: "m", "loss", "mse", "q", "V", an observable of the run, or several of them; None: m, or V from a random start, and
    the observables of the run. kernels: hold C, M_C and R at pairs of times against each other, too (simulations made with
    [simulation] kernels = true); fields: quantiles of the fields at the times of [theory] snapshots. plot: file for a picture.
    Several simulations at different dimensions are extrapolated to infinity. The answer is in `.verdict` (agree, disagree,
    cannot tell, diverged) and `.max_z`; printing it gives the table, `.comparisons` the numbers.
    """
    if own:
        simulations = (*simulations, own)
    if not simulations:
        raise UserError("compare: give one simulation at least, dmft.compare(theory, simulation), or your numbers, t=..., m=...")
    for each in simulations:
        if not isinstance(each, (SimulationResult, str, Path)) and not is_table(each):
            raise UserError(f"compare: a {type(each).__name__} is no simulation: give a result, a file, a table, or arrays: "
                            "t=..., m=...")
    simulations = tuple((dimension, each) if dimension is not None and is_table(each) else each for each in simulations)
    names = [observable] if isinstance(observable, str) else list(observable or ())
    found = against_simulations(theory, simulations, names, kernels, fields)
    if plot is not None:
        found.plot(plot)
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
