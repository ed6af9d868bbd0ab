"""Dynamical mean-field theory of stochastic gradient descent.

    run    = dmft.load_run("runs/demo.toml")      a run file; parse_run reads its text
    run    = dmft.Experiment(alpha=3.0, ...)      the same in Python alone; dmft.Sphere, dmft.Ridge, ... are its objects
    theory = dmft.solve(run)                      curves and kernels with errors: theory.m, theory.m_error, theory.plot()
    theory = dmft.load("theory.h5")               the same from a file
    dmft.compare(theory, simulation)              theory against sgd_sim.simulate(run): a table and a verdict
    dmft.convergence_study(run, samples=[...])    how the solution converges
    dmft.fixed_point(run)                         where gradient descent ends on a convex loss
    dmft.bayes(run)                               what Bayes-optimal learning reaches on the same data
    dmft.solve(run, estimator=dmft.Estimator(...)) with other numbers than the tuned ones, for studies of these
    dmft.report([files], "page.html")             one page for the browser
    dmft.register_loss("name", v, dv, d2v)        a loss of your own
    dmft.register_observable("name", value)       a curve of your own: the average of value(f, y, h0) over training samples
    dmft.register_preprocessing("name", T)        a spectral start of your own
    class Mine(dmft.Constraint, name="mine")      a constraint of your own; so Channel, LossFamily, LinearUpdate (docs/extending.md)

Bad input raises dmft.UserError, one line that says what to fix.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dmft._cache import name_cache
from dmft.core.errors import UserError
from dmft.version import __version__

if TYPE_CHECKING:
    from dmft.api import bayes, convergence_study, fixed_point, load, solve, start_law
    from dmft.equations.tuning import Estimator
    from dmft.model.offered import *  # noqa: F403

__all__ = [  # noqa: F405
    "Abs", "Channel", "Constraint", "DataModel", "Door", "Drawing", "Estimator", "Experiment", "Field", "GradientDescent",
    "Langevin", "Linear", "LinearUpdate", "Logistic", "LossFamily", "Mixture", "NetworkConstraint", "PSpin", "PersistentSGD",
    "PhaseRetrieval", "Random", "Ridge", "Run", "SGD", "ScheduleForm", "Sign", "SmoothHinge", "Spectral", "Sphere", "Square",
    "Start", "Teacher", "UserError", "Warm", "__version__", "bayes", "boolean", "choice", "compare", "convergence_study",
    "fixed_point", "integer", "load", "load_run", "number", "option", "parse_run", "quantity", "register_loss",
    "register_observable", "register_preprocessing", "report", "scan", "solve", "start_law",
]

name_cache()        # before anything is compiled


def __getattr__(name: str) -> Any:
    """The solver and everything else that takes time to import, when it is first asked for: sgd_sim and onepass import
    this package for its run files alone."""
    if name not in __all__:
        raise AttributeError(f"module 'dmft' has no attribute {name!r}; it offers {', '.join(__all__)}")
    if name in ("compare", "report", "scan"):       # they know simulations too, and live above this package
        return getattr(import_module("workbench.api"), name)
    if name == "Estimator":
        from dmft.equations.tuning import Estimator
        return Estimator
    from dmft.model import offered
    if hasattr(offered, name):
        return getattr(offered, name)
    from dmft import api
    return getattr(api, name)


def __dir__() -> list[str]:
    return list(__all__)
