"""The features of one-pass models as a table, and their judges: ODE, SDE, exact chain and SGD on real data.

In one dimension d the chain is the law of SGD without approximation: their means and second moments agree, whatever d. ODE and SDE
are limits of large d: the means of chain and SDE, extrapolated from two dimensions, are those of the ODE up to order 1/d^2, and so
are d times the mean squares of their distances to it, which the SDE has to leading order.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

import onepass
from tests.differential.chance import Estimate, Finding, bound, extrapolated, gaps, largest, left_out
from tests.differential.table import Case, Choice, Feature, Option, Table

NETWORKS = ("QuadraticNetwork", "Committee", "MultiIndexNetwork")
MIXTURES = ("BinaryMixture", "XorMixture")
TIMES = np.array([0.2, 0.5])
# Learning rates with which TIMES are a whole number of steps, of time step/d, in every dimension: a record at the nearest step is
# off by a part of one, which no extrapolation takes away.
WHOLE = (0.25, 0.5, 1.0)
FACTOR = 4


class Sizes(NamedTuple):
    """Smaller dimension, and instances at the smaller and the larger one."""

    dimension: int = 50
    instances: tuple[int, int] = (400, 200)


SIZES = (Sizes(), Sizes(200, (800, 400)))
# Their averages are quadratures, of every instance: a quarter of the instances.
SLOW = ("MultiIndexNetwork", "XorMixture")


def _model(*kinds: str):
    return lambda chosen: chosen["model"] in kinds


def _few(chosen: Choice) -> bool:
    """Quadratures over the fields of two uses take minutes with more units."""
    return chosen["units"] == chosen["teacher units"] == "1"


def _set(**keys: Any):
    return lambda numbers, case: keys


def _real(key: str, low: float, high: float):
    return lambda numbers, case: {key: numbers.real(low, high)}


ONEPASS = Table("one pass", (
    Feature("model", (
        Option("Committee", _real("gamma", 0.1, 0.4), weight=2.0),
        Option("QuadraticNetwork", _real("gamma", 0.05, 0.2)),
        Option("MultiIndexNetwork", lambda n, c: {"gamma": n.real(0.1, 0.4), "link": n.one_of("erf", "tanh")}, weight=2.0),
        Option("SpikedTensor", lambda n, c: {"order": n.one_of(2, 3), "signal": n.real(1.0, 2.5), "step": n.one_of(*WHOLE)}),
        Option("BinaryMixture", lambda n, c: {"snr": n.real(4.0, 12.0), "ridge": n.real(0.02, 0.2), "step": n.one_of(*WHOLE)}),
        Option("XorMixture", lambda n, c: {"snr": n.real(4.0, 12.0), "ridge": n.real(0.02, 0.2), "step": n.one_of(*WHOLE),
                                           "quadrature": 8}),
    )),
    Feature("units", (
        Option("1", _set(width=1), _model(*NETWORKS)),
        Option("2", _set(width=2), _model(*NETWORKS)),
        Option("3", _set(width=3), _model("QuadraticNetwork", "Committee")),
        Option("those of the model", allowed=_model("SpikedTensor", *MIXTURES)),
    )),
    Feature("teacher units", (
        Option("1", allowed=lambda chosen: True),
        Option("2", _set(teacher_width=2), _model(*NETWORKS)),
    )),
    Feature("activation", (
        Option("erf"),
        Option("relu", _set(activation="relu"), _model("Committee", "MultiIndexNetwork")),
        Option("tanh", _set(activation="tanh"), _model("Committee", "MultiIndexNetwork")),
    )),
    Feature("second layer", (
        Option("fixed"),
        Option("trained", _set(second_layer="trained"), _model(*NETWORKS)),
    )),
    Feature("constraint", (
        Option("none"),
        Option("sphere", _set(constraint="sphere"), _model(*NETWORKS)),
    )),
    Feature("noise", (
        Option("none"),
        Option("noisy", _real("noise", 0.05, 0.4), _model(*NETWORKS)),
    )),
    Feature("samples", (
        Option("one by one"),
        Option("batches", _set(batch=2), _model(*NETWORKS)),
        Option("twice", _set(uses=2), lambda chosen: _model("MultiIndexNetwork")(chosen) and _few(chosen)),
    )),
    Feature("rate", (
        Option("constant"),
        Option("steps", _set(rate_steps=((0.0, 1.0), (0.15, 0.3), (0.3, 1.5))), _model(*NETWORKS)),
        Option("decay", _set(rate_decay=(0.3, 0.5)), _model(*NETWORKS)),
    )),
    Feature("decay", (
        Option("none"),
        Option("of the weights", lambda n, c: {"ridge" if c.choice["model"] == "SpikedTensor" else "weight_decay":
                                               n.real(0.05, 0.3)}, _model(*NETWORKS, "SpikedTensor")),
    )),
    Feature("classes", (
        Option("alike", weight=2.0),
        Option("weighted", lambda n, c: {"class_weights": [[0.8, 0.2]] if c.choice["model"] == "BinaryMixture" else
                                         [[0.4, 0.1], [0.3, 0.2]]}, _model(*MIXTURES)),
        Option("soft labels", lambda n, c: {"class_labels": [[0.9, 0.3]] if c.choice["model"] == "BinaryMixture" else
                                            [[1.0, 0.6], [0.0, 0.3]]}, _model(*MIXTURES)),
    )),
))


def model_of(case: Case) -> Any:
    return getattr(onepass, case.choice["model"])(**case.keys)


def start_of(case: Case) -> dict[str, np.ndarray]:
    """Statistics at t = 0, away from every symmetry."""
    numbers = case.numbers("start")
    if case.choice["model"] in NETWORKS:
        p, k = int(case.choice["units"]), int(case.choice["teacher units"])
        M = 0.15 + 0.3 * numbers.rng.random((p, k))
        Q = np.eye(p) + 0.1 * (np.ones((p, p)) - np.eye(p))
        start = {"M": M, "Q": Q}
        return start | ({"a": 0.5 + 0.5 * numbers.rng.random(p)} if case.choice["second layer"] == "trained" else {})
    if case.choice["model"] == "SpikedTensor":
        return {"m": np.array(numbers.real(0.3, 0.6)), "r2": np.array(0.8)}
    if case.choice["model"] == "BinaryMixture":
        return {"v": np.array([0.3, -0.2]), "m": np.array([0.2, 0.1]), "R": np.array([[0.5, 0.1], [0.1, 0.4]])}
    return {"v": np.array([0.3, -0.2, 0.1, 0.2]), "m": np.array([[0.2, 0.1]] * 4), "R": np.diag([0.5, 0.4, 0.6, 0.5])}


def has_sde(chosen: Choice) -> bool:
    """Those whose SDE is cheap: committees and mixtures have one too, but take minutes a case."""
    return chosen["model"] in ("QuadraticNetwork", "SpikedTensor")


def _numbers(found: Any, name: str) -> np.ndarray:
    """(instances, numbers) of a statistic."""
    if found.diverged.any():
        raise FloatingPointError("an instance diverged")
    return found[name].reshape(len(found[name]), -1)


def compared(case: Case, sizes: Sizes) -> dict[str, np.ndarray]:
    """|z| by pair of ways and statistic."""
    model, start = model_of(case), start_of(case)
    seed = case.numbers("judge").whole(0, 10**6) + 1000 * SIZES.index(sizes)
    ode = model.solve(start, TIMES, rtol=1e-7)
    dimensions = sizes.dimension, FACTOR * sizes.dimension
    instances = [count // 4 if case.choice["model"] in SLOW else count for count in sizes.instances]
    ways = ("chain", "diffuse") if has_sde(case.choice) else ("chain",)
    runs = {way: [getattr(model, way)(d, count, start, TIMES, seed=seed + k) for k, (d, count) in
                  enumerate(zip(dimensions, instances))] for way in ways}
    sgd = model.simulate(dimensions[0], instances[0], start, TIMES, seed=seed + 7)
    found = {}
    for name in (name for name in ode.arrays if name in start):
        limit = ode[name].reshape(-1)
        ours, theirs = _numbers(runs["chain"][0], name), _numbers(sgd, name)
        found[f"chain against SGD, {name}"] = gaps([(1.0, Estimate.of(ours))], [(1.0, Estimate.of(theirs))])
        squares = [sizes.dimension * (values - limit) ** 2 for values in (ours, theirs)]
        found[f"chain against SGD, squares of {name}"] = gaps([(1.0, Estimate.of(squares[0]))], [(1.0, Estimate.of(squares[1]))])
        exact = [(1.0, Estimate(limit, np.zeros_like(limit), 10**6))]
        spread = {}
        for way, pair in runs.items():
            values = [_numbers(run, name) for run in pair]
            found[f"{way} against ODE, {name}"] = gaps(extrapolated(*map(Estimate.of, values), FACTOR), exact)
            spread[way] = extrapolated(*(Estimate.of(d * (each - limit) ** 2) for d, each in zip(dimensions, values)), FACTOR)
        if "diffuse" in spread:
            found[f"SDE against chain, squares of {name}"] = gaps(spread["diffuse"], spread["chain"])
    return found


def judge(case: Case, cases: int) -> Finding:
    """The largest |z| of a case, one of so many; beyond the bound, again at four times the dimension (theory_simulation.py)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sizes in SIZES:
            try:
                found = largest(compared(case, sizes), bound(cases))
            except FloatingPointError as reason:
                return left_out(str(reason))
            if not found.failed:
                break
    return found
