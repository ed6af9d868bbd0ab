"""Small runs of networks that tests share, and marches of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import dmft
from dmft.committee.march import CommitteeMarch
from dmft.core.parallel import Comm
from dmft.equations.kernels import Wanted
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.model import curves
from dmft.model.experiment import Experiment
from dmft.model.network import TwoLayer
from dmft.model.runfile import Experiment as make_run
from dmft.model.runfile import Run
from dmft.samples.sampling import Sampling

# Case B of the notes: two units, two directions, spheres.
SPHERES: dict[str, Any] = {"units": 2, "directions": 2, "alpha": 3.0, "m0": [[0.4, 0.1], [0.05, 0.3]], "learning_rate": 0.1,
                           "t_max": 1.0}
PAIR: dict[str, Any] = {**SPHERES, "kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.6}
# Case A: unequal units, correlated start, ridge.
UNEQUAL: dict[str, Any] = {"units": 2, "alpha": 2.0, "m0": [[0.4], [-0.1]], "Q0": [[1.0, 0.3], [0.3, 0.7]], "ridge": 0.2,
                           "second_layer": [0.8, 0.5], "constraint": "none", "kind": "gd", "learning_rate": 0.1, "t_max": 1.0}


def network_run(settings: dict[str, Any], **more: Any) -> Run:
    """A run of a network, from keys of run files."""
    return make_run({**settings, **more})


def made(run: Run, samples: int = 512, replica: int = 0, parts: tuple[str, ...] = ("sobol", "ibp"), tangents: float = 1 / 16,
         per_level: int | None = None, network: TwoLayer | None = None, estimator: Estimator = ESTIMATOR,
         **options: Any) -> CommitteeMarch:
    """A march at its start; network: another one than that of the run."""
    experiment = Experiment.from_run(run)
    experiment = replace(experiment, network=network or experiment.network)
    sampling = Sampling(samples, 1, (replica,), frozenset(parts), tangents, estimator=estimator)
    return CommitteeMarch(experiment, sampling, per_level, Wanted.plain(experiment.steps), Comm(), **options)


def marched(run: Run, *arguments: Any, **options: Any) -> CommitteeMarch:
    """A march to its end."""
    march = made(run, *arguments, **options)
    while not march.done:
        march.step()
    assert not march.diverged
    return march


def misfit(f, y, h0):
    return 0.5 * (f - y) ** 2


def along(f, y, h0):
    return f * h0


@contextmanager
def observed() -> Iterator[tuple[str, ...]]:
    """Names of two observables, which are known within: the loss of a network, and its output along the first direction."""
    functions = misfit, along
    for function in functions:
        dmft.register_observable(function.__name__, function)
    try:
        yield tuple(function.__name__ for function in functions)
    finally:
        for function in functions:
            del curves.registered[function.__name__]


def estimates(runs: list[CommitteeMarch], read) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over marches of what `read` gives."""
    values = np.array([read(run) for run in runs])
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
