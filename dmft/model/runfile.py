"""Run files: one TOML file describes one physical experiment, read by theory and simulation alike.

`load_run` gives a `Run` of four frozen sections with every default filled in. Keys that the chosen kind,
start or constraint does not use are refused in a file; in a `Run` they hold neutral values (batch_fraction 1,
persistence None, ridge 0, temperature 0) and are left out of `Run.to_toml`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import schema
from dmft.core.errors import RunError, UserError
from dmft.core.schema import boolean, choice, integer, number, option, text
from dmft.model.algorithm import AlgorithmConfig, check_algorithm
from dmft.model.classification import DOOR_WIDTH
from dmft.model.clock import SCHEDULED
from dmft.model.constraints import CONSTRAINTS
from dmft.model.loss import LABELS
from dmft.model.losses import get_loss
from dmft.model.preprocessing import PREPROCESSINGS, preprocessing_names
from dmft.model.schedules import Setting
from dmft.model.starts import STARTS

VARIANCE_PARTS = ("sobol", "weights", "stein", "ibp")
RETIRED_PARTS = ("splitting",)  # accepted in run files of earlier versions, without effect


def _times(wanted: str, value: Any) -> tuple[float, ...]:
    """Increasing times >= 0, at least one."""
    try:
        times = schema.array(wanted, 1, number(0.0))(value)
    except ValueError:
        raise ValueError(wanted) from None
    if not times or any(b <= a for a, b in pairwise(times)):
        raise ValueError(wanted)
    return times


def _record(value: Any) -> str | tuple[float, ...]:
    if isinstance(value, str):
        return choice("linear", "log")(value)
    return _times("linear, log or a list of increasing times >= 0", value)


def _kernel_points(value: Any) -> int | tuple[float, ...]:
    """The check of theory.kernel_points."""
    wanted = "an integer >= 0 or a list of increasing times >= 0"
    if isinstance(value, (list, tuple)):
        return _times(wanted, value)
    try:
        return integer(0)(value)
    except ValueError:
        raise ValueError(wanted) from None


def _waiting_times(value: Any) -> tuple[float, ...]:
    """The check of theory.waiting_times."""
    wanted = "a list of increasing times >= 0"
    if not isinstance(value, (list, tuple)):
        raise ValueError(wanted)
    return _times(wanted, value) if value else ()


def _variance_reduction(value: Any) -> bool | tuple[str, ...]:
    """The check of theory.variance_reduction."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)) and all(
            isinstance(part, str) and part in VARIANCE_PARTS + RETIRED_PARTS for part in value):
        return tuple(value)
    raise ValueError(f"true, false or a list of {', '.join(VARIANCE_PARTS)}")


def _labels(value: Any) -> str:
    return value if value == "" else choice(*LABELS)(value)


def _preprocessing(value: Any) -> str:
    return choice(*preprocessing_names())(value)


def _clusters(value: Any) -> tuple[tuple[float, float, float, float], ...]:
    """The check of problem.clusters."""
    wanted = "a list of clusters [c, probability, label, Delta] with probabilities > 0 that add up to 1 and spreads Delta > 0"
    try:
        rows = schema.array(wanted, 2, number())(value)
    except ValueError:
        raise ValueError(wanted) from None
    if not rows or len(rows[0]) != 4 or any(row[1] <= 0 or row[3] <= 0 for row in rows):
        raise ValueError(wanted)
    if abs(sum(row[1] for row in rows) - 1) > 1e-9:
        raise ValueError(wanted)
    return rows


@dataclass(frozen=True)
class ProblemConfig:
    """[problem]: the data, the loss and the start."""

    alpha: float = option(number(0.0, above=True), doc="samples per dimension")
    loss: str = option(text, "phase_retrieval", "phase_retrieval, linear, logistic, smooth_hinge, door or a registered name")
    door: float = option(number(0.0, above=True), DOOR_WIDTH, "L of the loss door")
    data: str = option(choice("teacher", "mixture"), "teacher", "labels by a teacher, or Gaussian clusters on one axis")
    labels: str = option(_labels, "", "what a sample tells of the teacher's field; empty: what the loss was made for")
    label_noise: float = option(number(0.0), 0.0, "variance of Gaussian noise on the labels, fixed in time")
    flip: float = option(number(0.0, 0.5, below=True), 0.0, "probability that the sign of a label is flipped, fixed in time")
    clusters: tuple[tuple[float, float, float, float], ...] = option(_clusters, (), "[[c, probability, label, Delta], ...]")
    bias: bool = option(boolean, False, "whether an intercept is learnt")
    start: str = option(choice(*STARTS), "warm", "random: m of order 1/sqrt(N); spectral: the leading eigenvector of weighted data")
    preprocessing: str = option(_preprocessing, PREPROCESSINGS[0], "of the labels, with start = spectral")
    m0: float | None = option(number(-1.0, 1.0, above=True, below=True), None, "initial overlap with the teacher")
    constraint: str = option(choice(*CONSTRAINTS), "sphere", "what keeps the weights bounded")
    ridge: Setting = option(SCHEDULED["ridge"], 0.0, "strength lambda, a number or a schedule")
    start_variance: float = option(number(0.0, above=True), 1.0, "of the part of the start normal to w0")

    def unused(self) -> dict[str, str]:
        """Keys that these settings do not use, each with the reason."""
        keys = {}
        if self.start != "warm":
            keys["m0"] = f'start = "{self.start}"'
        if self.start != "spectral":
            keys["preprocessing"] = f'start = "{self.start}"'
        if self.constraint != "ridge":
            keys["ridge"] = keys["start_variance"] = f'constraint = "{self.constraint}"'
        elif self.start == "spectral":
            keys["start_variance"] = 'start = "spectral" (an eigenvector of norm sqrt(N))'
        others = ("clusters", "bias") if self.data == "teacher" else ("labels", "label_noise", "flip")
        keys |= dict.fromkeys(others, f'data = "{self.data}"')
        if "bias" in keys:
            keys["bias"] += " (x and -x are alike, so that it would stay 0 or learn the mean label alone)"
        if self.loss != "door":
            keys["door"] = f'loss = "{self.loss}"'
        return keys

    def needed(self) -> dict[str, str]:
        """Keys that these settings need although they have a default, each with the reason."""
        keys = {}
        if self.start == "warm":
            keys["m0"] = 'start = "warm"'
        if self.constraint == "ridge":
            keys["ridge"] = 'constraint = "ridge"'
        if self.data == "mixture":
            keys["clusters"] = 'data = "mixture"'
        return keys


@dataclass(frozen=True)
class TheoryConfig:
    """[theory]: how the mean-field equations are solved."""

    method: str = option(choice("march", "iterate"), "march", "one causal sweep, or damped fixed-point sweeps")
    samples: int = option(integer(1), 20000, "per replica, over all ranks")
    replicas: int = option(integer(1), 8, "independent solutions, for the error bars")
    target_error: float = option(number(0.0), 0.0, "> 0: add replicas until m_error (V_error from a random start) is below it "
                                 "everywhere; warns of a larger bias")
    seed: int = option(integer(0), 1, "names the random numbers")
    mixing: float = option(number(0.0, 1.0, above=True), 0.5, "iterate: weight of the new kernels")
    noise: str = option(choice("frozen", "fresh"), "frozen", "iterate: random numbers of every sweep")
    tolerance: float = option(number(0.0), 1e-8, "iterate: stop when the residual is below")
    max_sweeps: int = option(integer(1), 200, "iterate: stop after this many sweeps")
    start_from: str = option(text, "", "iterate: a theory file whose kernels are the first guess")
    history: str = option(choice("auto", "full", "dyadic"), "auto", "march: how the past is kept")
    blocks_per_level: int = option(integer(2), 12, "march, dyadic: blocks kept of each size")
    kernel_points: int | tuple[float, ...] = option(_kernel_points, 0, "march: times at which kernels are kept, a count or a list; "
                                                    "0: chosen by the length of the run")
    waiting_times: tuple[float, ...] = option(_waiting_times, (), "t_w of the columns C(t, t_w), R(t, t_w), ...; empty: 0 and the "
                                              "powers of two of a step")
    tangents: float = option(number(0.0, 1.0, above=True), 1 / 16, "share of the samples with tangents, at least 512 of them; "
                             "the identity [ibp] completes the response")
    variance_reduction: bool | tuple[str, ...] = option(_variance_reduction, True, "or a list of parts")
    keep_state: bool = option(boolean, False, "march: keep the samples at the end, so that --resume with a larger t_max goes on")
    checkpoint_interval: float = option(number(0.0), 60.0, "seconds")
    device: str = option(choice("cpu", "gpu"), "cpu", "where the samples live")


@dataclass(frozen=True)
class SimulationConfig:
    """[simulation]: direct runs of the algorithm at finite dimension."""

    dimension: int = option(integer(2), 1000, "N")
    instances: int = option(integer(1), 100, "independent runs")
    landscape: str = option(choice("fresh", "shared"), "fresh", "new data for every run, or one data set, many starts")
    record: str | tuple[float, ...] = option(_record, "log", "linear, log or a list of times")
    seed: int = option(integer(0), 1, "names the random numbers")
    checkpoint_interval: float = option(number(0.0), 60.0, "seconds")
    device: str = option(choice("cpu", "gpu"), "cpu", "where the instances live")
    precision: str = option(choice("float32", "float16"), "float32", "what the data are rounded to, labels included")


SECTIONS: dict[str, type] = {"problem": ProblemConfig, "algorithm": AlgorithmConfig,
                             "theory": TheoryConfig, "simulation": SimulationConfig}


@dataclass(frozen=True)
class Run:
    """One experiment, complete: what a run file says and every default it leaves out."""

    problem: ProblemConfig
    algorithm: AlgorithmConfig
    theory: TheoryConfig
    simulation: SimulationConfig
    title: str = ""

    def tables(self) -> dict[str, dict[str, Any]]:
        """{section: {key: value}} of the keys in use."""
        return {name: _used(getattr(self, name)) for name in SECTIONS}

    def notes(self) -> list[str]:
        """Notes for the user before the run begins, one line each."""
        t_max, last = self.algorithm.t_max, self.algorithm.last_time
        if abs(last - t_max) > 1e-6 * t_max:
            eta = schema.to_toml_value(self.algorithm.learning_rate)
            return [f"t_max = {t_max:g} is not a whole number of steps of learning_rate = {eta}: the last time is {last:g}"]
        return []

    def to_toml(self) -> str:
        """The completed run file; parsing it gives this Run again."""
        tables = self.tables()
        phases = tables["algorithm"].pop("phase")
        later = "".join("\n[[phase]]\n" + "".join(f"{key} = {schema.to_toml_value(value)}\n" for key, value in phase.items())
                        for phase in phases)
        return schema.dump({"title": self.title}, tables) + later

    def replace(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Run:
        """A copy with fields changed, through the same checks as a file.

        Bare names set every section that has the key (`seed`); `replace({"theory.seed": 2})` sets one. Keys
        that a changed kind, start or constraint no longer uses are dropped; those that it needs must be given.
        """
        title, tables, given = self.title, self.tables(), set()
        for name, value in {**(changes or {}), **fields}.items():
            section, dot, key = name.rpartition(".")
            if name == "title":
                title = value
                continue
            homes = [section] if dot else [home for home, cls in SECTIONS.items() if key in _field_names(cls)]
            if not homes or homes[0] not in SECTIONS:
                raise RunError(f"replace: a run has no field {name!r}")
            for home in homes:
                tables[home][key] = value.item() if isinstance(value, np.generic) else value
                given.add((home, key))
        _drop_unused(tables, given)
        for home in ("problem", "algorithm"):
            for key in _blank(home, tables[home]).needed():
                if key not in getattr(self, home).needed() and (home, key) not in given:
                    tables[home].pop(key, None)     # a default, which a file could not leave out either
        return _build({"title": title, **tables}, "replace", any_loss=False)


def _field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _used(section: Any) -> dict[str, Any]:
    unused = section.unused() if hasattr(section, "unused") else {}
    return {key: getattr(section, key) for key in _field_names(type(section)) if key not in unused}


_SWITCHES = ("start", "constraint", "kind", "data", "loss")  # keys that decide which others are used
_BLANK: dict[str, dict[str, Any]] = {"problem": {"alpha": 1.0}, "algorithm": {"learning_rate": 1.0, "t_max": 1.0}}


def _blank(home: str, table: Mapping[str, Any]) -> Any:
    """A section with only the switches of a table that is not checked yet, so that it can be asked which keys are used."""
    known = _field_names(SECTIONS[home])
    return SECTIONS[home](**_BLANK[home], **{key: table[key] for key in _SWITCHES if key in table and key in known})


def _drop_unused(tables: Mapping[str, Any], given: set[tuple[str, str]]) -> None:
    """Take out keys that the settings do not use, unless they were given. The tables are not checked yet: wrong settings are found
    later."""
    for home in _BLANK:
        table = tables.get(home, {})
        if not isinstance(table, dict) or not any((home, key) in given for key in _SWITCHES):
            continue
        for key, reason in _blank(home, table).unused().items():
            if key in table and (home, key) not in given:
                del table[key]
                logging.getLogger("dmft").info("note: [%s] %s is left out: not used with %s", home, key, reason)


def load_run(path: str | Path, overrides: Iterable[str] = ()) -> Run:
    """Read a run file; `overrides` are texts "section.key=value" as after --set. RunError says what is wrong."""
    return parse_run(schema.read_text(path), str(path), overrides)


def parse_run(content: str, source: str = "<string>", overrides: Iterable[str] = (), any_loss: bool = False) -> Run:
    """A Run from TOML text. `any_loss`, for results that are read back, accepts a loss that is not registered, and keys without
    effect that earlier versions let through. Overrides that change a kind, start or constraint drop the keys that it does not
    use, as `Run.replace` does."""
    overrides = list(overrides)
    document = schema.read_toml(content, source, overrides)
    named = [[part.strip() for part in override.partition("=")[0].split(".")] for override in overrides]
    _drop_unused(document, {(path[0], path[1]) for path in named if len(path) == 2})
    return _build(document, source, any_loss)


def _with_phases(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with its [[phase]] tables moved to [algorithm], where a Run keeps them."""
    algorithm = document.get("algorithm")
    if "phase" not in document or not isinstance(algorithm, dict):
        return document
    rest = {key: value for key, value in document.items() if key != "phase"}
    return rest | {"algorithm": algorithm | {"phase": document["phase"]}}


def _build(document: Mapping[str, Any], source: str, any_loss: bool) -> Run:
    """The Run of a document; RunError for the first thing that is wrong in it."""
    parts = schema.parse(_with_phases(document), source, SECTIONS, {"title": text})
    for name in ("problem", "algorithm"):
        section, table = parts[name], document.get(name, {})
        docs = {field.name: field.metadata["doc"] for field in dataclasses.fields(section)}
        for key, reason in section.needed().items():
            if key not in table:
                raise schema.missing_key(source, name, key, docs[key], f": needed with {reason}")
        for key, reason in section.unused().items():
            if key in table and not any_loss:
                raise RunError(f"{source}: [{name}] key '{key}' is not used with {reason}; remove it")
    check_algorithm(parts["algorithm"], parts["problem"].unused(), source)
    if parts["problem"].bias and parts["algorithm"].has_momentum:
        raise RunError(f"{source}: [problem] bias = true: no intercept is learnt with momentum; take momentum = 0, or bias = false")
    if not any_loss:
        for where, name in [("[problem] loss", parts["problem"].loss),
                            *((f"[[phase]] {i + 1}: loss", phase["loss"]) for i, phase in enumerate(parts["algorithm"].phase)
                              if "loss" in phase)]:
            try:
                get_loss(name)
            except UserError as error:
                raise RunError(f"{source}: {where}: {error}") from None
        _check_labels(parts["problem"], source)
        kind = parts["problem"].labels or get_loss(parts["problem"].loss).labels
        known = (kind,) if kind else ("field", "abs")    # where nobody says y = h0, of which a loss made for abs takes |h0|
        for i, phase in enumerate(parts["algorithm"].phase):
            if "loss" in phase:
                _check_labels(dataclasses.replace(parts["problem"], loss=phase["loss"], labels=kind), source)
                if parts["problem"].data == "teacher" and kind == "abs" and get_loss(phase["loss"]).labels != "abs":
                    raise RunError(f'{source}: [[phase]] loss = "{phase["loss"]}": the labels abs of this run tell no sign, which '
                                   'only losses made for them ignore; take phase_retrieval, or a loss registered with labels="abs"')
                made_for = get_loss(phase["loss"]).labels
                if parts["problem"].data == "teacher" and not parts["problem"].labels and made_for and made_for not in known:
                    raise RunError(f'{source}: [[phase]] {i + 1}: loss = "{phase["loss"]}": made for labels {made_for}, but this '
                                   f'run has {kind or "y = h0"} by its first loss; say with [problem] labels which are meant')
    return Run(**parts)


def _check_labels(problem: ProblemConfig, source: str) -> None:
    """Refuse labels that make no sense with the loss."""
    loss, labels = get_loss(problem.loss), problem.labels or get_loss(problem.loss).labels

    def refuse(key: str, reason: str) -> RunError:
        return RunError(f"{source}: [problem] {key} = {schema.to_toml_value(getattr(problem, key))}: {reason}")

    if problem.start == "spectral" and (problem.data == "mixture" or labels in ("square", "sign")):
        raise refuse("start", "the spectral start is built for labels abs or field; take warm or random")
    if problem.start == "spectral" and problem.preprocessing == "mondelli_montanari" and problem.alpha <= 0.5:
        raise refuse("preprocessing", f"made for alpha > 0.5, here alpha = {problem.alpha:g}; take truncated or subset")
    if problem.data == "mixture":
        if "sign" not in loss.accepts:
            raise refuse("loss", "it has no use for the sign of a label; take logistic, smooth_hinge, door or linear")
        if loss.accepts == ("sign",) and any(abs(row[2]) != 1 for row in problem.clusters):
            raise refuse("clusters", f'the loss "{loss.name}" needs labels +1 and -1')
        return
    if loss.threshold > 0:
        raise refuse("loss", 'made for clusters, a teacher\'s sign tells nothing of |f|; take data = "mixture"')
    if labels and labels not in loss.accepts:
        raise refuse("labels", f'the loss "{loss.name}" makes sense with labels {" or ".join(loss.accepts)}')
    if problem.flip > 0 and labels != "sign":
        raise refuse("flip", 'only labels = "sign" have a sign to flip')
    if problem.label_noise > 0 and not labels:
        raise refuse("label_noise", f'the loss "{loss.name}" does not say what its labels are; give labels')


def changes(old: Run, new: Run) -> list[tuple[str, Any, Any]]:
    """What differs: ("section.key", old value, new value); a key that one side does not use shows as None."""
    found: list[tuple[str, Any, Any]] = []
    if old.title != new.title:
        found.append(("title", old.title, new.title))
    before, after = old.tables(), new.tables()
    for name, cls in SECTIONS.items():
        for key in _field_names(cls):
            pair = before[name].get(key), after[name].get(key)
            if pair[0] != pair[1]:
                found.append((f"{name}.{key}", *pair))
    return found
