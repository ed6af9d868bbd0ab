"""Run files of onepass: [model], [initial], [time], [simulation], as strict as those of the solver.

    title = "phase retrieval, three units"
    [model]
    kind = "QuadraticNetwork"       # Network | Committee | MultiIndexNetwork | SpikedTensor | a mixture: see model_keys.py
    width = 3                       # and the other fields of that model
    gamma = 0.15
    [initial]
    start = "given"                 # given | random (weights drawn in [simulation] dimension)
    starts = 1                      # random: starts of the ODE, whose average is the quenched one
    second_layer = "ones"           # random, of networks: ones | signs | bernoulli | normal
    M = [[0.1], [0.05], [0.2]]      # the model's statistics, with start = "given"
    Q = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    [time]
    t_max = 2.0
    points = 41
    spacing = "linear"              # linear | log
    times = []                      # instead of points and spacing
    rtol = 1e-8
    [simulation]
    process = "sgd"                 # sgd (real data) | chain (exact law of the statistics) | sde
    dimension = 1000
    instances = 60
    seed = 1

A run file of the multi-pass theory with a section [network] is read too, as the one-pass run of its limit of many samples
(from_theory.py).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import schema
from dmft.core.errors import RunError
from dmft.core.schema import choice, integer, number, option, text
from dmft.model.runfile import parse_run as parse_theory_run
from onepass.ensemble import EnsembleJob
from onepass.from_theory import document_of
from onepass.model import Model
from onepass.model_keys import MODEL_KINDS, MOST_TIMES, initial_section, model_section
from onepass.networks.mean_field import MeanFieldCommittee
from onepass.networks.network import Network
from onepass.networks.overlaps import AT_REST
from onepass.ode import increasing_times
from onepass.request import EnsembleRequest, request
from onepass.result import Trajectory
from onepass.solving import SolveJob


@dataclass(frozen=True)
class TimeConfig:
    """[time]: the times of the result, and the accuracy of the ODE."""

    t_max: float = option(number(1e-100), 1.0, "last time")
    points: int = option(integer(1, MOST_TIMES), 41, "number of times")
    spacing: str = option(choice("linear", "log"), "linear", "how the times lie")
    times: tuple[float, ...] = option(schema.array("a list of increasing times", 1, number(0.0)), (), "in place of points")
    rtol: float = option(number(1e-14, 0.1), 1e-8, "relative tolerance of the ODE")
    method: str = option(
        choice("auto", "DOP853", "RK45", "LSODA", "Radau", "BDF"), "auto", "method of SciPy's solve_ivp; auto: the model's choice"
    )

    def grid(self) -> np.ndarray:
        """The times of the result."""
        if self.times:
            return np.array(self.times)
        if self.spacing == "log":
            return np.geomspace(1e-3 * self.t_max, self.t_max, self.points)
        return np.linspace(0.0, self.t_max, self.points) if self.points > 1 else np.array([self.t_max])


@dataclass(frozen=True)
class ProcessConfig:
    """[simulation]: the process in finite dimension, and how many instances of it."""

    process: str = option(choice("sgd", "chain", "sde"), "sgd", "real data (sgd), exact law of the statistics (chain), or SDE")
    dimension: int = option(integer(1), 1000, "dimension d")
    instances: int = option(integer(1), 60, "independent runs")
    seed: int = option(integer(0), 1, "names the random numbers")
    checkpoint_interval: float = option(number(0.0), 60.0, "seconds between checkpoints; 10 times what one over 1 s takes, if more")


@dataclass(frozen=True)
class OnePassRun:
    """One experiment. `model_keys` and `initial_keys` are the completed sections."""

    title: str
    model: Model
    model_keys: Mapping[str, Any]
    initial_keys: Mapping[str, Any]
    time: TimeConfig
    simulation: ProcessConfig

    def start(self, instances: int | None = None) -> dict[str, np.ndarray]:
        """Initial statistics: those given, or the first random start (`instances`: that many, instances first)."""
        if self.initial_keys["start"] == "given":
            return {name: np.asarray(v, float) for name, v in self.initial_keys.items() if name in self.model.layout.shapes}
        draw: Any = getattr(self.model, "random_start")  # noqa: B009 (not every model has it)
        law = {key: value for key, value in self.initial_keys.items() if key == "second_layer"}
        found = draw(self.simulation.dimension, instances or 1, self.simulation.seed, **law)
        if instances is not None:
            return found
        layout = self.model.layout
        return {name: v[0] if v.ndim > len(layout.shapes[name]) else v for name, v in found.items()}

    @property
    def solvable(self) -> Model:
        """The model whose ODE is solved: the model of the run, or its mean-field reduction."""
        if self.model_keys.get("reduction") == "mean_field" and isinstance(self.model, Network):
            return MeanFieldCommittee(self.model)
        return self.model

    def solve(self, start: Mapping[str, np.ndarray], times: np.ndarray) -> Trajectory:
        """The ODE from a start, as [time] says."""
        return self.solvable.solve(start, times, **self.ode_options)

    @property
    def ode_options(self) -> dict[str, Any]:
        """Accuracy and method of the ODE, as [time] says."""
        return {"rtol": self.time.rtol} | ({} if self.time.method == "auto" else {"method": self.time.method})

    def tables(self) -> dict[str, Mapping[str, Any]]:
        """{section: {key: value}}, completed."""
        return {
            "model": self.model_keys,
            "initial": self.initial_keys,
            "time": dataclasses.asdict(self.time),
            "simulation": dataclasses.asdict(self.simulation),
        }

    def notes(self) -> list[str]:
        """Warnings about this run, for the user to read before it begins."""
        return []

    def to_toml(self) -> str:
        """The completed run file."""
        return schema.dump({"title": self.title}, self.tables())


def grown(old: OnePassRun, new: OnePassRun, growable: Iterable[str], harmless: Iterable[str], source: str) -> list[str]:
    """Keys among `growable` that grew from one run to the other; any other change but those of `harmless` keys (a
    section's name and a dot stand for all of it) is refused with the difference shown."""
    found, refused = [], []
    before, after = old.tables(), new.tables()
    for section, table in after.items():
        for key in sorted(set(table) | set(before[section])):
            name, a, b = f"{section}.{key}", before[section].get(key), table.get(key)
            if a == b or name in harmless or f"{section}." in harmless:
                continue
            if name in growable and a is not None and b is not None and b > a:
                found.append(name)
            else:
                refused.append(f"{name}: {a} -> {b}" + (" (may only grow)" if name in growable else ""))
    if refused:
        raise RunError(f"{source}: --resume with another run is refused: {'; '.join(refused)}; --force starts afresh")
    return found


def ensemble_of(run: OnePassRun) -> EnsembleRequest:
    """The ensemble that [simulation] asks for."""
    s = run.simulation
    start = run.start(s.instances) if run.initial_keys["start"] == "random" else run.start()
    return request(run.model, s.process, s.dimension, s.instances, start, run.time.grid(), s.seed)


def ensemble_job(run: OnePassRun) -> EnsembleJob:
    """The job that computes it; a stored run may have had fewer instances."""
    ensemble = ensemble_of(run)
    harmless = ("simulation.checkpoint_interval", "time.rtol", "time.method")

    def compare(stored_text: str, source: str) -> list[str]:
        old = parse_run(stored_text, source)
        grew = grown(old, run, ("simulation.instances",), harmless, source)
        if grew:
            ensemble.check_growth(ensemble_of(old), source)
        return grew

    return EnsembleJob(ensemble, run.to_toml(), compare, run.simulation.checkpoint_interval)


def solve_job(run: OnePassRun) -> SolveJob:
    """The job that solves the ODE; a stored path may have ended earlier, or have been one of fewer starts."""
    model, starts = run.solvable, run.initial_keys.get("starts", 1)
    x0 = model.start(run.start(starts if starts > 1 else None))
    model.check_deterministic(x0)
    simulated = () if run.initial_keys["start"] == "random" else ("simulation.",)
    harmless = ("simulation.process", "simulation.instances", "simulation.checkpoint_interval", *simulated)

    def compare(stored_text: str, source: str) -> list[str]:
        return grown(parse_run(stored_text, source), run, ("time.t_max", "time.points", "initial.starts"), harmless, source)

    return SolveJob(model, x0, run.time.grid(), model.ode_options(**run.ode_options), run.to_toml(), compare)


def load_run(path: str | Path, overrides: Iterable[str] = ()) -> OnePassRun:
    """Read a run file."""
    return parse_run(schema.read_text(path), str(path), overrides)


def parse_run(content: str, source: str = "<string>", overrides: Iterable[str] = ()) -> OnePassRun:
    """A OnePassRun from TOML text, or a RunError that names file, section, key and remedy."""
    document: Mapping[str, Any] = schema.read_toml(content, source, overrides)
    if "network" in document and "model" not in document:
        document = document_of(parse_theory_run(content, source, overrides), source)
    table = document.get("model")
    if not isinstance(table, dict):
        other = "; [problem] makes it a run file of several passes: use dmft solve and sgd-sim run" if "problem" in document else ""
        raise RunError(f"{source}: section [model] is missing (kind = one of {', '.join(MODEL_KINDS)}){other}")
    if "kind" not in table:
        raise schema.missing_key(source, "model", "kind", f"one of {', '.join(MODEL_KINDS)}")
    try:
        kind = choice(*MODEL_KINDS)(table["kind"])
    except ValueError as error:
        raise schema.bad_value(source, "model", "kind", table["kind"], str(error)) from None
    sections = {"model": model_section(kind), "initial": initial_section(kind), "time": TimeConfig, "simulation": ProcessConfig}
    parsed = schema.parse(document, source, sections, {"title": text})
    model_keys = _used(parsed["model"])
    arguments = {key: value for key, value in model_keys.items() if key not in ("kind", "reduction")}
    try:
        model = MODEL_KINDS[kind].model(**arguments)
    except RunError as error:
        raise RunError(f"{source}: [model] {error}") from None
    initial = _initial(parsed["initial"], model, source)
    run = OnePassRun(parsed.get("title", ""), model, model_keys, initial, parsed["time"], parsed["simulation"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same warnings are given when the run is computed
            model.start(run.start(), run.simulation.dimension)
            increasing_times(run.time.grid())
    except RunError as error:
        raise RunError(f"{source}: {error}") from None
    return run


def _used(section: Any) -> dict[str, Any]:
    """The keys that the user has set: empty lists and strings stand for the model's own default."""
    return {f.name: v for f in dataclasses.fields(section) if (v := getattr(section, f.name)) not in ((), "")}


def _initial(section: Any, model: Model, source: str) -> dict[str, Any]:
    """[initial], checked against the statistics of the model: all of them with their shapes, or none with a random start."""
    keys = _used(section)
    given = [name for name in keys if name in model.layout.shapes]
    if keys["start"] == "given" and "second_layer" in keys:
        raise RunError(f'{source}: [initial] second_layer is the law of a random start; with start = "given" give a')
    if keys["start"] == "given" and keys["starts"] > 1:
        raise RunError(f'{source}: [initial] starts = {keys["starts"]} needs start = "random": given statistics are one start')
    if keys["start"] == "random":
        if given:
            raise RunError(f'{source}: [initial] {given[0]} is not used with start = "random"; take one of the two out')
        return keys
    missing = [name for name in model.layout.shapes if name not in keys and name not in AT_REST]
    if missing:
        raise schema.missing_key(source, "initial", missing[0], "statistic at t = 0", ', or start = "random"')
    for name in given:
        shape, found = model.layout.shapes[name], np.shape(keys[name])
        if found != shape:
            raise RunError(f"{source}: [initial] {name} has shape {found}; this model wants {shape}")
    return keys
