"""Valid run files of some steps with wild parameters, drawn at random: every algorithm, start, schedule and phase."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.core import schema
from dmft.model.preprocessing import PREPROCESSINGS

LOSSES = ("phase_retrieval", "linear", "logistic", "smooth_hinge", "door")


class Drawn:
    """Random values for the keys of a run of `steps` steps of about `eta`."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.eta, self.steps = self.size(1e-3, 3.0), self.whole(1, 30)

    def size(self, low: float, high: float) -> float:
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one_of(self, *words: str) -> str:
        return str(self.rng.choice(words))

    def setting(self, low: float, high: float, listed: tuple[float, ...] = ()) -> Any:
        """A number, or a schedule: values one by one in times or steps, or a formula. listed: the only values there are."""
        def value() -> float:
            return float(self.rng.choice(listed)) if listed else self.size(low, high)

        form = self.rng.choice(["number"] * 5 + ["times", "steps"] + ["formula"] * (not listed))
        later = sorted({0, *(self.whole(1, self.steps + 5) for _ in range(2))})
        if form == "number":
            return value()
        if form == "times":
            return [[step * self.eta, value()] for step in later]
        if form == "steps":
            return {"kind": "steps", "points": [[step, value()] for step in later]}
        scale = {"steps": self.size(1.0, 40.0)} if self.chance(0.5) else {"time": self.eta * self.size(1.0, 40.0)}
        if self.chance(0.3):      # a power falls without end, and would leave no bound: a mild one
            return {"kind": "power", "start": value(), "exponent": float(self.rng.uniform(0.0, 0.5)), **scale}
        return {"kind": self.one_of("linear", "cosine"), "start": value(), "end": value(), **scale}

    def rate(self) -> Any:
        return self.setting(self.eta / 3, 3 * self.eta)


def small_run(rng: np.random.Generator) -> str:
    """A run file for theory and simulation; some combinations are refused all the same."""
    drawn = Drawn(rng)
    problem, algorithm = _problem(drawn), _algorithm(drawn)
    phases = _phases(drawn, problem, algorithm) if drawn.chance(0.3) and drawn.steps > 3 else []
    iterate = drawn.chance(0.25)
    few = problem.get("start") == "spectral"       # hundreds of steps before the first one, which an iteration repeats every sweep
    theory = {"samples": drawn.whole(1, 17 if few else 65), "replicas": drawn.whole(1, 4), "seed": drawn.whole(0, 100),
              **({"method": "iterate", "max_sweeps": 5, "mixing": float(rng.uniform(0.1, 1.0))} if iterate else
                 {"history": drawn.one_of("auto", "full", "dyadic"), "blocks_per_level": drawn.whole(2, 6)})}
    simulation = {"dimension": drawn.whole(2, 30), "instances": drawn.whole(1, 5), "seed": drawn.whole(0, 100),
                  "landscape": drawn.one_of("fresh", "shared"), "record": drawn.one_of("log", "linear")}
    text = schema.dump({}, {"problem": problem, "algorithm": algorithm, "theory": theory, "simulation": simulation})
    return text + "".join(schema.dump({}, {"phase": phase}).replace("[phase]", "[[phase]]") for phase in phases)


def _problem(drawn: Drawn) -> dict[str, Any]:
    problem: dict[str, Any] = {"alpha": drawn.size(0.05, 50.0), "loss": drawn.one_of(*LOSSES)}
    start = drawn.one_of("warm", "warm", "warm", "random", "spectral")
    if start == "warm":
        problem["m0"] = float(drawn.rng.uniform(-0.99, 0.99))
    else:       # mostly what they are made for; anything else is refused in one line
        problem |= {"start": start, "loss": "phase_retrieval" if drawn.chance(0.8) else problem["loss"]}
    if start == "spectral":
        problem |= {"alpha": drawn.size(0.4, 50.0), "preprocessing": drawn.one_of(*PREPROCESSINGS)}
    if drawn.chance(0.3):
        problem |= {"constraint": "ridge", "ridge": drawn.setting(1e-3, 5.0), "start_variance": drawn.size(1e-3, 5.0)}
        if start == "spectral":
            del problem["start_variance"]
    if start == "warm" and drawn.chance(0.2):
        problem |= {"data": "mixture", "clusters": [[1.0, 0.5, 1.0, drawn.size(0.01, 2.0)], [-1.0, 0.5, -1.0, 1.0]],
                    "bias": drawn.chance(0.5)}
    elif drawn.chance(0.3):
        problem["label_noise"] = drawn.size(1e-4, 5.0)
    return problem


def _algorithm(drawn: Drawn) -> dict[str, Any]:
    kind = drawn.one_of("gd", "sgd", "persistent_sgd", "langevin")
    algorithm: dict[str, Any] = {"kind": kind, "learning_rate": drawn.rate(), "t_max": drawn.steps * drawn.eta}
    if kind in ("sgd", "persistent_sgd"):
        algorithm["batch_fraction"] = drawn.setting(0.05, 1.0)
    if kind == "persistent_sgd":        # sixty steps at least: what the smallest batches and the largest steps ask for
        algorithm |= {"persistence": drawn.setting(60 * drawn.eta, 2000 * drawn.eta), "batch_change": drawn.one_of("jump", "relax")}
    if kind == "sgd":
        algorithm["minibatch"] = drawn.one_of("bernoulli", "without_replacement", "with_replacement", "reshuffled", "cyclic")
        if algorithm["minibatch"] in ("reshuffled", "cyclic"):
            algorithm["batch_fraction"] = drawn.setting(0.0, 0.0, _epochs())
    if kind == "langevin" or drawn.chance(0.1):
        algorithm["temperature"] = drawn.setting(1e-3, 10.0)
    if drawn.chance(0.3):
        algorithm |= {"momentum": drawn.setting(1e-3, 0.95), "nesterov": drawn.chance(0.4)}
    if drawn.chance(0.2):
        algorithm["rescale_gradient"] = False
    return algorithm


def _epochs() -> tuple[float, ...]:
    """Batch fractions that are whole parts of an epoch."""
    return tuple(1 / k for k in range(1, 7))


def _phases(drawn: Drawn, problem: dict[str, Any], algorithm: dict[str, Any]) -> list[dict[str, Any]]:
    """One phase or two, at a step or a time, which change one or two of the keys in use."""
    fractions = _epochs() if algorithm.get("minibatch") in ("reshuffled", "cyclic") else ()
    ways = {"learning_rate": drawn.rate, "temperature": lambda: drawn.setting(1e-3, 10.0),
            "momentum": lambda: drawn.setting(1e-3, 0.95), "loss": lambda: problem["loss"],
            "batch_fraction": lambda: drawn.setting(0.05, 1.0, fractions), "ridge": lambda: drawn.setting(1e-3, 5.0)}
    used = [key for key in ways if key in algorithm or key in problem or key in ("temperature", "momentum")]
    phases: list[dict[str, Any]] = []
    for step in sorted({drawn.whole(1, drawn.steps) for _ in range(drawn.whole(1, 3))}):
        chosen = drawn.rng.choice(used, size=drawn.whole(1, 3), replace=False)
        where = {"step": step} if drawn.chance(0.5) else {"begin": step * drawn.eta}
        phases.append({**where, **{str(key): ways[str(key)]() for key in chosen}})
    return phases
