"""The features of networks and of closed models as tables; their run files are those of runs.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.differential.plugins import FADED
from tests.differential.table import Case, Choice, Feature, Numbers, Option, Table

STEPS = 14
_SPHERES = ("units", "frobenius")


def _set(**keys: Any):
    return lambda numbers, case: {name.replace("__", "."): value for name, value in keys.items()}


def _real(key: str, low: float, high: float):
    return lambda numbers, case: {key: numbers.real(low, high)}


def _eta(case: Case) -> float:
    return case.numbers("eta").real(0.004, 0.01) if case.choice.get("activation") == "he2" else case.numbers("eta").real(0.03, 0.08)


def _start(numbers: Numbers, case: Case) -> dict[str, Any]:
    """What every run of a network needs: overlaps of its units with the directions, and the algorithm."""
    p, k, eta = int(case.choice["units"]), int(case.choice["directions"]), _eta(case)
    m0 = [[numbers.real(-0.4, 0.5) for _ in range(k)] for _ in range(p)]
    return {"network.units": p, "network.directions": k, "problem.m0": m0, "problem.alpha": numbers.one_of(1.5, 2.0, 3.0),
            "algorithm.kind": case.choice["algorithm"], "algorithm.learning_rate": eta, "algorithm.t_max": round(STEPS * eta, 12),
            "theory.seed": numbers.whole(0, 10**6), "simulation.seed": numbers.whole(0, 10**6), "simulation.record": "linear"}


def _list(key: str, low: float, high: float, **also: Any):
    """A number for every unit, and fixed keys beside."""
    fixed = {name.replace("__", "."): value for name, value in also.items()}
    return lambda numbers, case: {key: [numbers.real(low, high) for _ in range(int(case.choice["units"]))], **fixed}


def _free(numbers: Numbers, case: Case) -> dict[str, Any]:
    """No constraint, a ridge, and a start of correlated units."""
    p = int(case.choice["units"])
    Q0 = 0.2 * np.ones((p, p)) + np.diag([numbers.real(0.4, 0.8) for _ in range(p)])
    return {"network.constraint": "none", "problem.ridge": numbers.real(0.1, 0.8), "problem.Q0": Q0.round(6).tolist()}


def _batch(numbers: Numbers, case: Case) -> dict[str, Any]:
    chain = {"algorithm.persistence": round(_eta(case) * numbers.whole(6, 12), 12)}
    return {"algorithm.batch_fraction": numbers.one_of(0.25, 0.5)} | (chain if case.choice["algorithm"] == "persistent_sgd" else {})


def _two(key: str, low: float, high: float, rate: bool = False):
    """A schedule of two values, by step; rate: in units of the learning rate."""
    def keys(numbers: Numbers, case: Case) -> dict[str, Any]:
        unit = _eta(case) if rate else 1.0
        return {key: {"kind": "steps", "points": [[0, numbers.real(low, high) * unit], [numbers.whole(4, 8),
                                                                                       numbers.real(low, high) * unit]]}}
    return keys


def _is(**wanted: str | tuple[str, ...]):
    def allowed(chosen: Choice) -> bool:
        return all(chosen[name.replace("_", " ")] in ((option,) if isinstance(option, str) else option)
                   for name, option in wanted.items())

    return allowed


METHOD = Feature("method", (Option("full", _set(theory__history="full")),
                            Option("dyadic", _set(theory__history="dyadic", theory__blocks_per_level=6))))
HEAT = (Option("constant", _real("algorithm.temperature", 0.05, 0.4)), Option("jumps", _two("algorithm.temperature", 0.0, 0.5)))
RATE = Feature("rate", (Option("constant", weight=2.0), Option("steps", _two("algorithm.learning_rate", 0.5, 1.2, rate=True))))
PHASE = (Option("none", weight=2.0),
         Option("heat", lambda n, c: {"phase": [{"step": n.whole(9, 11), "temperature": n.real(0.05, 0.4)}]}),
         Option("rate", lambda n, c: {"phase": [{"step": n.whole(9, 11), "learning_rate": n.real(0.4, 1.2) * _eta(c)}]}))

NETWORKS = Table("networks", (
    Feature("units", (Option("2", weight=2.0), Option("1"), Option("3"))),
    Feature("directions", (Option("1"), Option("2"))),
    Feature("algorithm", (Option("gd", _start), Option("sgd", lambda n, c: _start(n, c) | _batch(n, c)),
                          Option("persistent_sgd", lambda n, c: _start(n, c) | _batch(n, c)), Option("langevin", _start))),
    Feature("mini-batch", (Option("bernoulli"), *(Option(law, _set(algorithm__minibatch=law), _is(algorithm="sgd")) for law in (
        "without_replacement", "with_replacement", "reshuffled", "cyclic")))),
    Feature("activation", tuple(Option(name, _set(network__activation=name)) for name in ("erf", "tanh", "smooth_relu", "he2"))),
    Feature("label", (Option("network"), Option("erf", _set(problem__label="erf")),
                      Option("tanh_hermite3", _set(problem__label="tanh_hermite3"), _is(directions="2")),
                      Option("own", _set(problem__label=FADED)))),
    Feature("label noise", (Option("none"), Option("noisy", _real("problem.label_noise", 0.05, 0.4)))),
    Feature("second layer", (Option("ones"), Option("mean", _set(network__second_layer="mean")),
                             Option("numbers", _list("network.second_layer", 0.4, 1.0)),
                             Option("trained", _list("network.second_layer", 0.4, 1.0, network__train=0.05)))),
    Feature("intercepts", (Option("none"), Option("fixed", _list("network.intercepts", -0.3, 0.3)),
                           Option("trained", _list("network.intercepts", -0.3, 0.3, network__train_intercepts=0.05)))),
    Feature("constraint", (Option("units"), Option("none", _free), Option("frobenius", _set(network__constraint="frobenius")))),
    Feature("heat", (Option("none", allowed=_is(algorithm=("gd", "sgd", "persistent_sgd")), weight=2.0), *HEAT)),
    Feature("momentum", (Option("none"), Option("heavy ball", _real("algorithm.momentum", 0.2, 0.6)), Option(
        "nesterov", lambda n, c: {"algorithm.momentum": n.real(0.2, 0.6), "algorithm.nesterov": True}))),
    RATE,
    Feature("phase", PHASE),
    Feature("estimators", (Option("identity", weight=2.0),
                           Option("by parts", _set(theory__variance_reduction=["sobol", "stein"])))),
    METHOD,
))


def _closed(**keys: Any):
    """A closed model, and what every run of one needs."""
    def made(numbers: Numbers, case: Case) -> dict[str, Any]:
        eta = _eta(case)
        return {"problem.data": "p_spin", "algorithm.kind": case.choice["algorithm"], "algorithm.learning_rate": eta,
                "algorithm.t_max": round(60 * eta, 12), "simulation.dimension": None, "simulation.instances": None,
                **{f"problem.{name}": value for name, value in keys.items()}}

    return made


CLOSED = Table("closed models", (
    Feature("algorithm", (Option("gd"), Option("langevin"))),
    Feature("model", (Option("pure", _closed(powers=[[3, 1.0]])), Option("mixed", _closed(powers=[[2, 0.5], [4, 0.3]])),
                      Option("signal", _closed(powers=[[3, 0.5]], signal=[[2, 0.7]])), Option("matrix", _closed(Delta_2=0.4)),
                      Option("matrix and tensor", _closed(Delta_2=0.7, Delta_p=2.0, order=3)))),
    Feature("start", (Option("tiny", _set(problem__m0=1e-12)), Option("warm", _real("problem.m0", 0.1, 0.6)))),
    Feature("heat", (Option("none", allowed=_is(algorithm="gd"), weight=2.0), *HEAT)),
    Feature("momentum", (Option("none"), Option("heavy ball", _real("algorithm.momentum", 0.2, 0.6)),
                         Option("nesterov", lambda n, c: {"algorithm.momentum": n.real(0.2, 0.6), "algorithm.nesterov": True}))),
    RATE,
    Feature("phase", PHASE),
    METHOD,
))
