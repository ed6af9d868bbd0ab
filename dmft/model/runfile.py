"""Run files: one TOML file describes one physical experiment, read by theory and simulation alike.

`load_run` gives a `Run` of four frozen sections with every default filled in; `Experiment` is the same from Python, where an object
may stand for its name and keys. Keys that the chosen kind, start or constraint does not use are refused; in a `Run` they hold
neutral values (batch_fraction 1, persistence None, ridge 0, temperature 0) and are left out of `Run.to_toml`.
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
from dmft.core.errors import RunError, UserError, did_you_mean
from dmft.core.notebook import html_card
from dmft.core.schema import boolean, choice, integer, number, option, text
from dmft.model import registry
from dmft.model.algorithm import AlgorithmConfig, check_algorithm
from dmft.model.data import data_text, is_known, is_sampled, unknown_part
from dmft.model.network import PROBLEM_KEYS, SINGLE_KEYS, NetworkConfig, completed, names_known
from dmft.model.problem import ProblemConfig
from dmft.model.sample_averages import averages, names_of_observables
from dmft.model.support import check_support

VARIANCE_PARTS = ("sobol", "weights", "stein", "ibp")
# Keys of [theory] for benchmarks and studies in Python: read, and written where they are not the default, but in no table of keys.
FOR_STUDIES = ("tangents", "variance_reduction")


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
    if isinstance(value, (list, tuple)):
        parts = tuple(part for part in value if part != "splitting")  # of version 0.1, without effect
        if all(part in VARIANCE_PARTS for part in parts):
            return parts
    raise ValueError(f"true, false or a list of {', '.join(VARIANCE_PARTS)}")


_LIST = {"type": "array", "items": {"type": "number", "minimum": 0}}
schema.told_as(_record, anyOf=[{"enum": ["linear", "log"]}, _LIST])
schema.told_as(_kernel_points, anyOf=[{"type": "integer", "minimum": 0}, _LIST])
schema.told_as(_waiting_times, **_LIST)
schema.told_as(_variance_reduction, anyOf=[{"type": "boolean"}, {"type": "array", "items": {"enum": list(VARIANCE_PARTS)}}])


@dataclass(frozen=True)
class TheoryConfig:
    """[theory]: how the mean-field equations are solved."""

    method: str = option(choice("march", "iterate"), "march", "march: one causal sweep through time; iterate: damped "
                         "sweeps to a fixed point")
    samples: int = option(integer(1), 20000, "samples of the effective process in each replica, over all ranks")
    replicas: int = option(integer(1), 8, "number of independent solutions, from which error bars are made (with 1 there are none)")
    target_error: float = option(number(0.0), 0.0, "if above 0, replicas are added until the error of m (of V from a random "
                                 "start) is below it at all times")
    seed: int = option(integer(0), 1, "seed of the random numbers")
    mixing: float = option(number(0.0, 1.0, above=True), 0.5, "iterate: weight of the new kernels in every sweep")
    noise: str = option(choice("frozen", "fresh"), "frozen", "iterate: the same random numbers in all sweeps (frozen), or new ones")
    tolerance: float = option(number(0.0), 1e-8, "iterate: stop when the residual falls below this")
    max_sweeps: int = option(integer(1), 200, "iterate: stop after this many sweeps")
    start_from: str = option(text, "", "iterate: a theory file whose kernels are the first guess")
    history: str = option(choice("auto", "full", "dyadic"), "auto", "march: how the past is kept: every step, or in "
                          "blocks that grow with age (dyadic)")
    blocks_per_level: int = option(integer(2), 12, "march, dyadic: number of blocks of each size")
    kernel_points: int | tuple[float, ...] = option(_kernel_points, 0, "march: number, or list, of the times at which kernels are "
                                                    "kept; 0: chosen by the length of the run")
    waiting_times: tuple[float, ...] = option(_waiting_times, (), "waiting times t_w of C(t, t_w), R(t, t_w), ...; empty: 0 and "
                                              "powers of two times a step")
    fdt: bool = option(boolean, False, "compute effective temperatures at the waiting times, from fluctuation and response")
    snapshots: tuple[float, ...] = option(_waiting_times, (), "march: times at which the fields of all samples, and "
                                          "the weights of simulations, are kept")
    hessian: bool = option(boolean, False, "keep what the spectrum of the Hessian at the snapshots needs")
    clones: bool = option(boolean, False, "march: compute C_12, the overlap of two copies that share data and start, but not "
                          "mini-batches and heat")
    observables: tuple[str, ...] = option(names_of_observables, (), "registered averages over the training samples "
                                          "(dmft.register_observable), in theory and simulation")
    tangents: float = option(number(0.0, 1.0, above=True), 1 / 16, "share of the samples with tangents, at least 512 of them; "
                             "the identity [ibp] completes the response")
    variance_reduction: bool | tuple[str, ...] = option(_variance_reduction, True, "or a list of parts")
    companions: bool = option(boolean, True, "solve with half the samples, and half the blocks, too, for bias and history error")
    keep_state: bool = option(boolean, False, "march: keep the samples at the end, so that --resume can continue to a larger t_max")
    checkpoint_interval: float = option(number(0.0), 60.0, "seconds between checkpoints; 10 times what one over 1 s takes, if more")
    device: str = option(choice("cpu", "gpu"), "cpu", "where the samples are computed")


@dataclass(frozen=True)
class SimulationConfig:
    """[simulation]: direct runs of the algorithm at finite dimension."""

    dimension: int = option(integer(2), 1000, "dimension N of the weights")
    instances: int = option(integer(1), 100, "number of independent runs")
    landscape: str = option(choice("fresh", "shared"), "fresh", "new data for every run, or many starts on one data set")
    record: str | tuple[float, ...] = option(_record, "log", "times at which curves are recorded")
    seed: int = option(integer(0), 1, "seed of the random numbers")
    checkpoint_interval: float = option(number(0.0), 60.0, "seconds between checkpoints; 10 times what one over 1 s takes, if more")
    device: str = option(choice("cpu", "gpu"), "cpu", "where the instances are computed")
    precision: str = option(choice("float32", "float16"), "float32", "precision to which the data are rounded before labels are "
                            "made")
    kernels: bool = option(boolean, False, "measure C, M_C and R at (t, t_w) from two copies of every run, at the waiting_times "
                           "and "
                           "listed kernel_points of [theory]")
    clones: bool = option(boolean, False, "measure C_12 of two copies of every run that share data and start, but not mini-batches "
                          "and heat")


SECTIONS: dict[str, type] = {"problem": ProblemConfig, "network": NetworkConfig, "algorithm": AlgorithmConfig,
                             "theory": TheoryConfig, "simulation": SimulationConfig}


@dataclass(frozen=True, repr=False)
class Run:
    """One experiment, complete: what a run file says and every default it leaves out. print(run.to_toml()) shows all of it."""

    problem: ProblemConfig
    algorithm: AlgorithmConfig
    theory: TheoryConfig
    simulation: SimulationConfig
    network: NetworkConfig = NetworkConfig()
    title: str = ""

    def __repr__(self) -> str:
        title, theory, simulation = f"{self.title!r}: " if self.title else "", self.theory, self.simulation
        by = f"{theory.replicas} x {theory.samples} samples" if is_sampled(self.problem) else "without samples"
        return (f"<Run {title}{self.summary}, t_max = {self.algorithm.t_max:g}; theory: {theory.method}, {by}; simulation: "
                f"N = {simulation.dimension}, {simulation.instances} instances>")

    def _repr_html_(self) -> str:
        facts = {f"[{name}]": ", ".join(f"{key} = {schema.show(value)}" for key, value in table.items())
                 for name, table in self.tables().items() if table}
        return html_card(self.title or self.summary, facts)

    @property
    def summary(self) -> str:
        """Algorithm, loss unless it is that of phase retrieval, alpha or what stands in its place without samples, start, learning
        rate, and the constraint unless it is the sphere: "gd, alpha = 3, m0 = 0.5, eta = 0.02"."""
        problem = self.problem
        start = f"m0 = {problem.m0:g}" if isinstance(problem.m0, float) else f"{registry.name_of(problem.start)} start"
        loss = "" if problem.loss == ProblemConfig.loss or self.has_network else f"{registry.name_of(problem.loss)}, "
        ridge = f" {problem.ridge:g}" if isinstance(_used(problem).get("ridge"), float) else ""  # not used, or a schedule
        bound = "" if problem.constraint == ProblemConfig.constraint else f", {registry.name_of(problem.constraint)}{ridge}"
        return f"{self.algorithm.kind}, {loss}{data_text(problem)}, {start}, eta = {self.algorithm.rate_text}{bound}"

    @property
    def has_network(self) -> bool:
        """Whether a network learns, in place of a single unit."""
        return self.network.units > 0

    def tables(self) -> dict[str, dict[str, Any]]:
        """{section: {key: value}} of the keys in use; {} for [network] where there is none."""
        tables = {name: _used(getattr(self, name)) for name in SECTIONS}
        problem = {key: value for key, value in tables["problem"].items()
                   if (key in PROBLEM_KEYS if self.has_network else key not in SINGLE_KEYS)}
        return tables | {"problem": problem} | ({} if self.has_network else {"network": {}})

    @property
    def known(self) -> bool:
        """Whether all that it names is registered here: a result may be read where a user's plugin is missing."""
        return is_known(self.problem, self.algorithm) and (not self.has_network or names_known(self.network, self.problem))

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
        for key in FOR_STUDIES:
            if getattr(self.theory, key) == getattr(TheoryConfig, key):
                del tables["theory"][key]
        phases = tables["algorithm"].pop("phase")
        tables = {name: table for name, table in tables.items() if table}
        later = "".join("\n[[phase]]\n" + "".join(f"{key} = {schema.to_toml_value(value)}\n" for key, value in phase.items())
                        for phase in phases)
        return schema.dump({"title": self.title}, tables) + later

    def replace(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> Run:
        """A copy with fields changed, through the same checks as a file.

        Bare names set every section that has the key (`seed`); `replace({"theory.seed": 2})` sets one. An object may stand for its
        name and keys. Keys that a changed kind, start or constraint no longer uses are dropped, as is a title that spoke of the old
        one; keys that it needs must be given.
        """
        new = _by_section({**(changes or {}), **fields}, "replace", self.has_network)
        given: set[tuple[str, ...]] = {(home, key) for home in new.keys() & SECTIONS.keys() for key in new[home]}
        given |= {("title",)} if "title" in new else set()
        tables: dict[str, Any] = self.tables() | {"title": new.pop("title", self.title)}
        for home, table in new.items():
            tables[home] |= table
        _drop_unused(tables, given)
        for home in ROLES:
            for key in registry.needed(_blank(home, tables[home])):
                if key not in registry.needed(getattr(self, home)) and (home, key) not in given:
                    tables[home].pop(key, None)     # a default, which a file could not leave out either
        return _build(tables, "replace", any_loss=False)


def _by_section(settings: Mapping[str, Any], source: str, network: bool = False) -> dict[str, Any]:
    """Settings of `replace` and `Experiment` by section, objects as names and keys; the title beside them. network: whether the run
    has one already: the constraint is then that of the network."""
    found: dict[str, Any] = {}
    network = network or "units" in settings or "network.units" in settings
    for name, value in settings.items():
        section, dot, key = name.rpartition(".")
        if name == "title":
            found[name] = value
            continue
        homes = [section] if dot else [home for home, cls in SECTIONS.items() if key in _field_names(cls)]
        if not dot and len(homes) > 1 and "network" in homes:
            homes = ["network"] if network else [home for home in homes if home != "network"]
        if not homes or homes[0] not in SECTIONS:
            known = [key for cls in SECTIONS.values() for key in _field_names(cls)]
            raise RunError(f"{source}: a run has no field {name!r}{did_you_mean(name, known)}")
        for home in homes:
            found.setdefault(home, {})[key] = value.item() if isinstance(value, np.generic) else value
    for home in found.keys() & SECTIONS.keys():
        found[home] = _flat(home, found[home], source)
    return found


def _flat(home: str, table: Any, source: str) -> Any:
    """The table of a section with names and keys in place of objects, flat keys for those of the package."""
    if not isinstance(table, dict):
        return table
    if home not in ROLES:
        return {key: value.table if isinstance(value, registry.Physics) else value for key, value in table.items()}
    try:
        return registry.flattened(table)
    except ValueError as error:
        raise RunError(f"{source}: [{home}] {error}") from None


def Experiment(settings: Mapping[str, Any] | None = None, /, **fields: Any) -> Run:
    """An experiment in Python alone: keys of run files by their names, through the same checks. Bare names set every section that
    has the key (`seed`); `{"theory.seed": 2}` sets one. An object (`constraint=dmft.Ridge(0.5)`) may stand for its name and
    keys."""
    return _build(_by_section({**(settings or {}), **fields}, "Experiment"), "Experiment", any_loss=False)


def _field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _used(section: Any) -> dict[str, Any]:
    unused = registry.unused(section)
    return {key: getattr(section, key) for key in _field_names(type(section)) if key not in unused}


# Keys that name an object, and so decide which other keys are used.
ROLES = {"problem": ("loss", "data", "start", "constraint", "labels"), "algorithm": ("kind", "minibatch", "update")}
_BLANK: dict[str, dict[str, Any]] = {"problem": {"alpha": 1.0}, "algorithm": {"kind": "gd", "learning_rate": 1.0, "t_max": 1.0}}


def _blank(home: str, table: Mapping[str, Any]) -> Any:
    """A section with only the names of a table that is not checked yet, so that it can be asked which keys are used."""
    return SECTIONS[home](**_BLANK[home] | {key: table[key] for key in ROLES[home] if key in table})


def _drop_unused(tables: dict[str, Any], given: set[tuple[str, ...]]) -> None:
    """Take out what a newly named kind, start, ... leaves without meaning: keys that it does not use, unless they were given, and
    the title. The tables are not checked yet: wrong settings are found later."""
    for home in _BLANK:
        table = tables.get(home, {})
        if not isinstance(table, dict) or not any((home, key) in given for key in ROLES[home]):
            continue
        if ("title",) not in given:
            tables.pop("title", None)
        if home == "problem" and tables.get("network"):
            continue     # its constraint is named there (network.completed)
        for key, reason in registry.unused(_blank(home, table)).items():
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
    if "model" in document and "problem" not in document:
        raise RunError(f"{source}: [model] makes it a run file of one-pass SGD; use onepass solve and onepass simulate")
    named = [[part.strip() for part in override.partition("=")[0].split(".")] for override in overrides]
    _drop_unused(document, {tuple(path) for path in named})
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
    document = {home: _flat(home, table, source) for home, table in completed(document, source).items()}
    parts = schema.parse(_with_phases(document), source, SECTIONS, {"title": text})
    for name in ROLES:
        section, table = parts[name], document.get(name, {})
        docs = {field.name: field.metadata["doc"] for field in dataclasses.fields(section)}
        if not any_loss:
            _check_names(name, section, source)
        for key, reason in registry.needed(section).items():
            if key not in table:
                raise schema.missing_key(source, name, key, docs[key], f": needed with {reason}")
        for key, reason in registry.unused(section).items():
            if key in table and not any_loss:
                raise RunError(f"{source}: [{name}] key '{key}' is not used with {reason}; remove it")
    if reason := unknown_part(parts["problem"], parts["algorithm"], any_loss):
        raise RunError(f"{source}: {reason}")
    check_algorithm(parts["algorithm"], registry.unused(parts["problem"]), source)
    run = Run(**parts)
    if not any_loss:
        try:
            averages(run.theory.observables)
        except UserError as error:
            raise RunError(f"{source}: [theory] observables: {error}") from None
        check_support(run, source=source)
    return run


def _check_names(home: str, section: Any, source: str) -> None:
    """RunError for a name that nobody has registered; those of losses, which phases have too, are seen to elsewhere."""
    unused, defaults = registry.unused(section), {field.name: field.default for field in dataclasses.fields(section)}
    for role in ROLES[home]:
        value = getattr(section, role)
        if value != defaults[role] and role != "loss" and role not in unused and registry.find(role, value) is None:
            raise RunError(f'{source}: [{home}] {role} = "{registry.name_of(value)}": {registry.unknown(role, value)}')


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
