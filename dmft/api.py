"""What `import dmft` offers from Python: thin functions over what the commands do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dmft.convergence import runs
from dmft.convergence.study import Study
from dmft.core.callbacks import Callback
from dmft.core.errors import FileError, UserError
from dmft.equations import bayes as optimal
from dmft.equations import limits
from dmft.equations.bayes import BayesOptimal
from dmft.equations.limits import ConvexLimit
from dmft.inspection.against import AgainstSimulations, against_simulations
from dmft.inspection.loading import load
from dmft.inspection.opening import open_file
from dmft.model.runfile import Run, load_run
from dmft.result import pictures
from dmft.result.theory import Theory
from dmft.running import runner
from sgd_sim.result import SimulationResult

__all__ = ["bayes", "compare", "convergence_study", "fixed_point", "load", "report", "solve"]


def solve(run: Run | str | Path, output: str | Path | None = None, resume: bool = False, quiet: bool = False,
          callback: Callback | None = None, **options: Any) -> Theory:
    """Solve the mean-field equations of a run or of a run file.

    output: file for the result, with checkpoints beside it; None keeps everything in memory. resume: go on from the
    checkpoint, or extend a finished result. quiet: no progress. callback: called after every step of the march
    (or sweep of the iteration) with what was reached, for live plots and rules of your own: `.t .m .loss`, `.times` and `.curves`
    so far, `.worker` (the replica), `.share` done; whatever it raises ends the run.
    Further options are those of dmft.running.runner.solve.
    Under MPI every rank must call this, and every rank gets the result.
    """
    return runner.solve(_run(run), output=output, resume=resume, quiet=quiet, callback=callback, **options)


def convergence_study(run: Run | str | Path, samples: Sequence[int] = (), learning_rate: Sequence[float] = (),
                      blocks_per_level: Sequence[int] = (), mixing: Sequence[float] = (), *, output: str | Path | None = None,
                      resume: bool = False, quiet: bool = False, **options: Any) -> Study:
    """Solve a run, or a run file, at several settings, one parameter varied at a time, and compare with the finest.

    The study holds distances, fitted orders and the limit of small learning rates; print it for the tables.
    """
    return runs.convergence_study(_run(run), samples, learning_rate, blocks_per_level, mixing, output=output, resume=resume,
                                  quiet=quiet, **options)


def fixed_point(run: Run | str | Path) -> ConvexLimit:
    """Where gradient descent ends on a convex loss (linear, logistic, smooth_hinge), ridge or sphere: .m .q .V .loss .errors."""
    return limits.fixed_point(_run(run))


def bayes(run: Run | str | Path) -> BayesOptimal:
    """What Bayes-optimal learning reaches on the data of a run, whatever its loss and algorithm: .overlap .errors .thresholds."""
    return optimal.bayes(_run(run))


def compare(theory: Theory | str | Path, *simulations: SimulationResult | str | Path, observable: str | Sequence[str] | None = None,
            plot: str | Path | None = None) -> AgainstSimulations:
    """Hold a theory against simulations of the same experiment, each a result or a file.

    observable: "m", "loss", "mse", "q", "V" or several of them; None: m, or V from a random start. plot: file for a picture.
    Several simulations at different dimensions are extrapolated to infinity. The answer is in `.verdict` (agree, disagree,
    cannot tell, diverged) and `.max_z`; printing it gives the table, `.comparisons` the numbers.
    """
    if not simulations:
        raise UserError("compare: give one simulation at least, dmft.compare(theory, simulation)")
    names = [observable] if isinstance(observable, str) else list(observable or ())
    found = against_simulations(theory, simulations, names)
    if plot is not None:
        found.plot(plot)
    return found


def report(files: str | Path | Sequence[str | Path], output: str | Path, *, force: bool = False, title: str = "",
           notes: str = "") -> Path:
    """Write one page for the browser about result files or checkpoints; returns its path.

    The page needs no network and no other file. force: overwrite an existing page. title and notes stand at its top.
    """
    from dmft.reporting import write_report  # needs plotly, an extra that nothing else wants

    place = Path(output)
    if place.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{place}: a report is a page for the browser: name it FILE.html; dmft plot FILE -o {place.stem}.pdf draws "
                        "one result")
    if place.exists() and not force:
        raise FileError(f"{place}: exists; --force (force=True) overwrites it, another name keeps both")
    names = [files] if isinstance(files, (str, Path)) else list(files)
    write_report([open_file(name) for name in names], place, title, notes)
    return place


def draw(result: Any, path: Path | None = None) -> Any:
    """The picture that suits a result (Theory, Study, comparison): a matplotlib Figure, written to `path` if given."""
    from dmft.plots import compare as comparison  # matplotlib is an extra: only pictures need it
    from dmft.plots import convergence, theory

    if isinstance(result, AgainstSimulations):
        return comparison.draw(result, path)
    return convergence.draw(result, path) if isinstance(result, Study) else theory.draw(result, path)


def _run(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else load_run(run)


pictures.set_drawer(draw)
