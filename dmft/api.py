"""What `import dmft` offers of the theory: thin functions over what the commands do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dmft.convergence import runs
from dmft.convergence import start_law as starts
from dmft.convergence.start_law import START_STEP, StartLaw
from dmft.convergence.study import Study, load_study
from dmft.core import store
from dmft.core.parallel import Comm
from dmft.core.stopping import Stop
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.model.callbacks import Callback
from dmft.model.runfile import Run, load_run
from dmft.result.theory import Theory, theory_of
from dmft.running import runner
from dmft.statics import bayes as optimal
from dmft.statics import limits
from dmft.statics.bayes import BayesOptimal
from dmft.statics.limits import ConvexLimit

__all__ = ["bayes", "convergence_study", "fixed_point", "load", "solve", "start_law"]


def solve(run: Run | str | Path, output: str | Path | None = None, resume: bool = False, quiet: bool = False,
          callback: Callback | None = None, *, estimator: Estimator = ESTIMATOR, stop: Stop | None = None,
          attrs: dict[str, Any] | None = None, comm: Comm | None = None) -> Theory:
    """Solve the mean-field equations of a run or of a run file.

    output: file for the result, with checkpoints beside it; None keeps everything in memory.
    resume: continue from the checkpoint, or extend a finished result.
    quiet: no progress. Warnings go through `warnings`, notes through `logging` ("dmft").
    callback: called after every step of the march (or sweep of the iteration) with what was reached, for live plots and stopping
    rules of your own: `.t .m .loss`, `.times` and `.curves` so far, `.worker` (the replica), `.share` done; whatever it raises ends
    the run.
    estimator: dmft.Estimator(...) with numbers other than the tuned ones; the result records them.
    stop: an object whose `flags` is polled at every step; a value other than 0 writes a checkpoint and raises Stopped.
    attrs: further attributes for the file.
    comm: the ranks that solve together, all of them by default. Every rank must call this, and every rank gets the result.
    """
    return runner.solve(_run(run), output=output, resume=resume, quiet=quiet, stop=stop, attrs=attrs, comm=comm, callback=callback,
                        estimator=estimator)


def convergence_study(run: Run | str | Path, samples: Sequence[int] = (), learning_rate: Sequence[float] = (),
                      blocks_per_level: Sequence[int] = (), mixing: Sequence[float] = (), *,
                      estimator: Mapping[str, Sequence[float]] | None = None, output: str | Path | None = None,
                      resume: bool = False, quiet: bool = False, stop: Stop | None = None,
                      attrs: dict[str, Any] | None = None) -> Study:
    """Solve a run, or a run file, at several settings, varying one parameter at a time, and compare with the finest.

    The study holds distances, fitted orders and the limit of small learning rates; print it for the tables.
    samples, learning_rate, blocks_per_level, mixing: the values to try; leave out what should stay as it is.
    estimator: values of tuned numbers, {"ridge_prior": [1.0, 2.0, 4.0]} (fields of dmft.Estimator).
    output, resume, quiet, stop, attrs: as for `solve`; every point keeps a file of its own beside the output.
    """
    return runs.convergence_study(_run(run), samples, learning_rate, blocks_per_level, mixing, output=output, resume=resume,
                                  quiet=quiet, stop=stop, attrs=attrs, estimator=estimator)


def fixed_point(run: Run | str | Path) -> ConvexLimit:
    """Where gradient descent ends on a convex loss (linear, logistic, smooth_hinge), ridge or sphere: .m .q .V .loss .errors."""
    return limits.fixed_point(_run(run))


def start_law(run: Run | str | Path, step: float = START_STEP, quiet: bool = False) -> StartLaw:
    """What the scatter of m(0) at finite N does to m(t), from a warm start: .slope (dm/dm0), .spread(N), .shift(N), over .t."""
    return starts.start_law(_run(run), step, quiet)


def bayes(run: Run | str | Path) -> BayesOptimal:
    """What Bayes-optimal learning reaches on the data of a run, whatever its loss and algorithm: .overlap .errors .thresholds."""
    return optimal.bayes(_run(run))


def load(path: str | Path) -> Any:
    """Read a theory file as a Theory, a convergence study as a Study, the table of a scan as a Scan; for other kinds the error
    names what reads them."""
    stored = store.load(path)
    if stored.kind == "sweep":  # it knows simulations too, and lives above this package
        return import_module("workbench.scans.reading").load_scan(path)
    return load_study(path) if stored.kind == "convergence" else theory_of(stored)


def _run(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else load_run(run)
