"""Small runs that the solver tests share: every algorithm on both constraints, in the fewest steps that show it."""

from __future__ import annotations

import numpy as np

from dmft.core.parallel import Comm
from dmft.equations.kernels import Wanted
from dmft.equations.tuning import Estimator
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run, parse_run
from dmft.samples.sampling import PARTS, Sampling
from dmft.solvers.iterate import Iteration, Options
from dmft.solvers.march import March

ALGORITHMS = {
    "gd": {"kind": "gd"},
    "sgd": {"kind": "sgd", "batch_fraction": 0.5},
    "sgd without replacement": {"kind": "sgd", "batch_fraction": 0.5, "minibatch": "without_replacement"},
    "sgd with replacement": {"kind": "sgd", "batch_fraction": 0.5, "minibatch": "with_replacement"},
    "persistent": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.5},
    "persistent, not rescaled": {"kind": "persistent_sgd", "batch_fraction": 0.4, "persistence": 0.3,
                                 "rescale_gradient": False},
    "langevin, then cold": {"kind": "langevin", "temperature": [[0.0, 0.5], [0.4, 0.0]]},
    "persistent and hot": {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.5, "temperature": 0.3},
}
CONSTRAINTS = {"sphere": {"constraint": "sphere"}, "ridge": {"constraint": "ridge", "ridge": 0.3}}
BARE = frozenset({"sobol", "weights"})  # parts of the variance reduction without those that complete a row
# Where mini-batches or heat keep stirring, M_C is well conditioned; elsewhere it is nearly singular.
SMOOTH = ("gd", "langevin, then cold")


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def make_run(algorithm: dict, problem: dict | None = None, steps: int = 40, eta: float = 0.02, **theory: object) -> Run:
    sections = {
        "problem": {"alpha": 3.0, "m0": 0.3, **(problem or {})},
        "algorithm": {"learning_rate": eta, "t_max": steps * eta, **algorithm},
        "theory": theory,
    }
    lines = [f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in section.items())
             for name, section in sections.items()]
    return parse_run("\n".join(lines))


def make_march(run: Run, samples: int = 400, per_level: int | None = None, seed: int = 1, parts=PARTS,
               dtype=np.float64, comm: Comm | None = None, tangents: float = 0.1) -> March:
    """A march run to its end."""
    problem = Experiment.from_run(run)
    sampling = Sampling(samples, seed, (0,), frozenset(parts), tangents, estimator=Estimator(least_carriers=16))
    march = March(problem, sampling, per_level, Wanted.plain(problem.steps), comm or Comm(), dtype)
    while not march.done:
        march.step()
    return march


def make_iteration(run: Run, samples: int = 400, mixing: float = 1.0, tolerance: float = 1e-13, max_sweeps: int = 80,
                   fresh: bool = False, parts=PARTS, tangents: float = 0.1, seed: int = 1) -> Iteration:
    """An iteration run to its end."""
    problem = Experiment.from_run(run)
    sampling = Sampling(samples, seed, (0,), frozenset(parts), tangents, estimator=Estimator(least_carriers=16))
    iteration = Iteration(problem, sampling, Options(mixing, tolerance, max_sweeps, fresh), Wanted.plain(problem.steps), Comm())
    while not iteration.done:
        iteration.step()
    return iteration
