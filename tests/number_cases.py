"""Tiny runs of everything, for same_numbers.py: CASES is {name: a function that gives the arrays of the result file}.

Runs are said in TOML and through the public functions alone, so that the same cases run before and after a rebuild.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dmft
import onepass
import sgd_sim
from dmft.core import store
from tests.cards import given_out
from tests.emulate import COMPILER, HostGpu

Arrays = dict[str, np.ndarray]
STEPS = 20      # more than one launch of the simulator on a card makes (16)

SGD = {"kind": "sgd", "batch_fraction": 0.4}
PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1}
RIDGE = {"constraint": "ridge", "ridge": 0.3}
LOGISTIC = {"loss": "logistic", "labels": "sign"}
TWO = {"loss": "logistic", "data": "mixture", "clusters": [[1, 0.3, 1, 0.5], [-1, 0.7, -1, 1.5]]}
THREE = {"loss": "door", "data": "mixture", "clusters": [[0, 0.5, -1, 0.25], [1, 0.25, 1, 0.25], [-1, 0.25, 1, 0.25]]}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "gd": {},
    "sgd": SGD,
    "without_replacement": {**SGD, "minibatch": "without_replacement"},
    "with_replacement": {**SGD, "minibatch": "with_replacement"},
    "reshuffled": {**SGD, "batch_fraction": 0.2, "minibatch": "reshuffled"},
    "cyclic": {**SGD, "batch_fraction": 0.2, "minibatch": "cyclic"},
    "persistent": PERSISTENT,
    "hot, not rescaled": {**PERSISTENT, "temperature": 0.3, "rescale_gradient": False},
    "langevin": {"kind": "langevin", "temperature": 0.4},
    "momentum": {"momentum": 0.6, **SGD},
    "nesterov": {"momentum": 0.6, "nesterov": True, **PERSISTENT},
    "ridge": {**RIDGE, "start_variance": 0.7},
    "ridge, momentum": {**RIDGE, "momentum": 0.6, "kind": "langevin", "temperature": 0.2},
    "eta, T": {"kind": "langevin", "temperature": [[0.0, 0.5], [0.1, 0.0]],
               "learning_rate": {"kind": "power", "start": 0.02, "exponent": 0.5, "steps": 10.0}},
    "l, lambda, beta": {"kind": "sgd", "batch_fraction": [[0.0, 0.3], [0.2, 0.8]], "constraint": "ridge",
                        "ridge": [[0.0, 1.0], [0.1, 0.2]], "momentum": {"kind": "linear", "start": 0.2, "end": 0.6, "steps": 8.0}},
    "jump": {**PERSISTENT, "batch_fraction": [[0.0, 0.5], [0.1, 0.25]]},
    "relax": {**PERSISTENT, "batch_fraction": [[0.0, 0.5], [0.1, 0.25]], "batch_change": "relax"},
    "phases": {**TWO, "phase": [{"step": 3, "loss": "smooth_hinge"}, {"step": 9, "loss": "linear", "learning_rate": 0.01}]},
}
DATA: dict[str, dict[str, Any]] = {
    "linear": {"loss": "linear"},
    "normalised": {"loss": "normalised_phase_retrieval"},
    "logistic": LOGISTIC,
    "smooth_hinge": {**SGD, "loss": "smooth_hinge", "labels": "sign", "label_noise": 0.3},
    "squares": {**SGD, "labels": "square", "label_noise": 0.3},
    "noisy magnitudes": {"label_noise": 0.2},
    "noisy fields": {"loss": "linear", "label_noise": 0.5, **RIDGE},
    "flips": {**PERSISTENT, **LOGISTIC, "flip": 0.1},
    "two clusters": {**TWO, **PERSISTENT, **RIDGE, "bias": True},
    "three clusters": {**THREE, **SGD},
}
STARTS: dict[str, dict[str, Any]] = {
    "random": {"start": "random"},
    "random persistent": {"start": "random", **PERSISTENT},
    "spectral": {"start": "spectral"},
    "spectral sgd": {"start": "spectral", "preprocessing": "truncated", **SGD},
}
RUNS = ALGORITHMS | DATA | STARTS
# What also runs another way; the rest differs by physics alone, which the full march has seen.
DYADIC = ("gd", "sgd", "reshuffled", "persistent", "langevin", "momentum", "nesterov", "ridge", "eta, T", "jump", "phases",
          "squares", "flips", "two clusters", "random", "spectral")
ITERATED = ("gd", "without_replacement", "persistent", "langevin", "nesterov", "ridge", "jump", "two clusters")
SHARED = ("gd", "sgd", "with_replacement", "cyclic", "persistent", "langevin", "nesterov", "ridge", "relax", "flips",
          "two clusters", "random")
CARD_THEORY = ("gd", "sgd", "cyclic", "persistent", "langevin", "nesterov", "ridge", "phases", "squares", "two clusters", "random")
CARD_SIMULATION = ("gd", "with_replacement", "reshuffled", "persistent", "langevin", "nesterov", "ridge", "phases", "squares",
                   "two clusters", "spectral")
CARD_NETWORKS = ("network", "network free", "network frobenius")
UNITS = {"units": 2, "directions": 2, "m0": [[0.4, 0.1], [0.05, 0.3]]}
NETWORKS: dict[str, dict[str, Any]] = {
    "network": UNITS,
    "network persistent": {**UNITS, **PERSISTENT},
    "network trained": {**UNITS, "activation": "tanh", "second_layer": [0.8, 0.5], "train": 0.1, "temperature": 0.2},
    "network free": {**UNITS, "constraint": "none", "ridge": 0.3},
    "network frobenius": {**UNITS, **SGD, "constraint": "frobenius"},
    "network orthonormal": {**UNITS, "m0": [[0.4, 0.1], [-0.1, 0.3]], "constraint": "orthonormal"},
}
CLOSED = {"data": "p_spin", "powers": [[3, 1.0]], "signal": [[2, 0.5]], "alpha": None, "samples": None, "replicas": None}
# Which section of a run file a key belongs to, where it is not [algorithm].
PROBLEM = ("loss", "labels", "label_noise", "flip", "data", "clusters", "bias", "start", "preprocessing", "constraint", "ridge",
           "start_variance", "alpha", "m0", "powers", "signal")
NETWORK = ("units", "directions", "activation", "second_layer", "train", "constraint")
THEORY = ("method", "samples", "replicas", "history", "blocks_per_level", "max_sweeps")
SIMULATION = ("dimension", "instances", "landscape", "record", "precision")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def run_file(**changes: Any) -> str:
    """The run file of a few steps with these keys changed; `device` is that of theory and simulation."""
    keys = {"alpha": 3.0, "m0": 0.4, "kind": "gd", "learning_rate": 0.02, "t_max": 0.02 * STEPS, "samples": 48, "replicas": 2,
            "history": "full", "dimension": 30, "instances": 3, "record": "linear", **changes}
    keys = {key: value for key, value in keys.items() if value is not None}
    if keys.get("start", "warm") != "warm":
        del keys["m0"]
    where, phases = keys.pop("device", "cpu"), keys.pop("phase", [])
    sections: dict[str, dict[str, Any]] = {"problem": {}, "network": {}, "algorithm": {}, "theory": {}, "simulation": {}}
    homes = {"network": NETWORK if "units" in keys else (), "problem": PROBLEM, "theory": THEORY, "simulation": SIMULATION}
    for key, value in keys.items():
        sections[next((home for home, known in homes.items() if key in known), "algorithm")][key] = value
    sections["theory"]["device"] = sections["simulation"]["device"] = where
    lines = [f"phase = {_toml(phases)}"] if phases else []
    for name, section in sections.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in section.items())] if section else []
    return "\n".join(lines) + "\n"


def _theory(**changes: Any) -> Arrays:
    return _in_file(lambda path: dmft.solve(dmft.parse_run(run_file(**changes)), output=path, quiet=True))


def _simulation(**changes: Any) -> Arrays:
    return _in_file(lambda path: sgd_sim.simulate(dmft.parse_run(run_file(**changes)), output=path, quiet=True))


def _in_file(compute: Callable[[Path], object]) -> Arrays:
    """The arrays of the file that a computation writes."""
    with tempfile.TemporaryDirectory() as folder:
        compute(Path(folder) / "result.h5")
        return dict(store.load(Path(folder) / "result.h5").arrays)


def _on_card(compute: Callable[..., Arrays], **changes: Any) -> Arrays:
    with given_out(HostGpu()):
        return compute(device="gpu", **changes)


TWO_UNITS = {"a": [1.0, 0.8], "M": [[0.3], [0.1]], "Q": [[1.0, 0.1], [0.1, 1.0]]}
ONE = {"M": [[0.4]], "Q": [[0.9]]}
SPIKE = {"m": 0.3, "r2": 0.8}
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "QuadraticNetwork": (onepass.QuadraticNetwork(2, 1, 0.15, 0.2), TWO_UNITS),
    "QuadraticNetwork sphere": (onepass.QuadraticNetwork(2, 1, 0.15, 0.2, constraint="sphere"), TWO_UNITS),
    "QuadraticNetwork trained": (onepass.QuadraticNetwork(2, 1, 0.15, 0.2, second_layer="trained"), TWO_UNITS),
    "Committee erf": (onepass.Committee("erf", 2, 1, 0.2, second_layer="trained"), TWO_UNITS),
    "Committee relu": (onepass.Committee("relu", 2, 1, 0.2), TWO_UNITS),
    "Committee tanh": (onepass.Committee("tanh", 1, 1, 0.2, 0.1), ONE),
    "MultiIndexNetwork": (onepass.MultiIndexNetwork("erf", 1, 1, 0.3, activation="tanh", uses=2, batch=2, noise=0.3), ONE),
    "Network": (onepass.Network("tanh", 2, 1, 0.2, 0.1, second_layer="trained", batch=2, weight_decay=0.1), TWO_UNITS),
    "SpikedTensor": (onepass.SpikedTensor(3, 2.0), SPIKE),
    "SpikedTensor matrix": (onepass.SpikedTensor(2, 1.5, literal=True), SPIKE),
    "SpikedNearZero": (onepass.SpikedNearZero(3, 0.5), SPIKE),
    "BinaryMixture": (onepass.BinaryMixture(10.0, 0.1), {"v": [0.3, -0.2], "m": [0.2, 0.1], "R": [[0.5, 0.1], [0.1, 0.4]]}),
    "XorMixture": (onepass.XorMixture(10.0, 0.05, quadrature=8), {"v": [0.3, -0.2, 0.1, 0.2], "m": [[0.2, 0.1]] * 4,
                                                                  "R": np.diag([0.5, 0.4, 0.6, 0.5]).tolist()}),
    "GaussianMixture": (onepass.GaussianMixture(10.0, 0.05, 3, activation="tanh", quadrature=6), {
        "v": [0.3, -0.2, 0.1], "m": [[0.2, 0.1]] * 3, "R": np.diag([0.5, 0.4, 0.6]).tolist()}),
}
TIMES = [0.05, 0.1]
LIMITS_ALONE = ("SpikedNearZero",)      # has no dimension, so neither chain nor SGD
NO_SDE = ("MultiIndexNetwork",)


def _onepass(name: str, way: str) -> Arrays:
    model, initial = MODELS[name]
    start = {key: np.array(value) for key, value in initial.items() if key != "a" or "Network" in name or "Committee" in name}
    found = model.solve(start, TIMES) if way == "solve" else getattr(model, way)(40, 3, start, TIMES, seed=2, quiet=True)
    return {"t": found.t, **found.arrays}


def _ways(name: str) -> list[str]:
    ways = ["solve", "diffuse", "chain", "simulate"]
    without = {"diffuse": NO_SDE, "chain": LIMITS_ALONE, "simulate": LIMITS_ALONE}
    return [way for way in ways if name not in without.get(way, ())]


def _all_cases() -> dict[str, Callable[[], Arrays]]:
    cases: dict[str, Callable[[], Arrays]] = {}
    for name, changes in RUNS.items():
        cases[f"march/{name}"] = partial(_theory, **changes)
        cases[f"fresh/{name}"] = partial(_simulation, **changes)
    for name in DYADIC:
        cases[f"dyadic/{name}"] = partial(_theory, **RUNS[name], history="dyadic", blocks_per_level=2)
    for name in ITERATED:
        cases[f"iterate/{name}"] = partial(_theory, **RUNS[name], method="iterate", max_sweeps=4)
    for name in SHARED:
        cases[f"shared/{name}"] = partial(_simulation, **RUNS[name], landscape="shared")
    for name, changes in NETWORKS.items():
        cases[f"march/{name}"] = partial(_theory, **changes)
        cases[f"dyadic/{name}"] = partial(_theory, **changes, history="dyadic", blocks_per_level=2)
        cases[f"fresh/{name}"] = partial(_simulation, **changes)
    cases["march/closed"] = partial(_theory, **CLOSED)
    cases["dyadic/closed"] = partial(_theory, **CLOSED, history="dyadic", blocks_per_level=2)
    cases["fresh/float16"] = partial(_simulation, **PERSISTENT, precision="float16")
    if COMPILER:
        for name in CARD_THEORY:
            cases[f"card march/{name}"] = partial(_on_card, _theory, **RUNS[name], samples=24, history="dyadic", blocks_per_level=4)
        for name in CARD_SIMULATION:
            cases[f"card fresh/{name}"] = partial(_on_card, _simulation, **RUNS[name])
        for name in CARD_NETWORKS:
            cases[f"card fresh/{name}"] = partial(_on_card, _simulation, **NETWORKS[name])
        # enough starts for the products of matrices
        cases["card shared/persistent"] = partial(_on_card, _simulation, **PERSISTENT, landscape="shared", instances=48)
    for name in MODELS:
        for way in _ways(name):
            cases[f"onepass {way}/{name}"] = partial(_onepass, name, way)
    return cases


CASES = _all_cases()
