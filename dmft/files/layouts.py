"""The layout of every kind of file, declared once: names, types and shapes of datasets and attributes.

`check` compares a file with its layout before its contents are used; docs/hdf5.md has the same tables, and a test compares
the two. A file may hold more than is declared (another program may have added to it), but not less.

Shapes are given by names of axes. An axis has the same length wherever it is named in a file; a number is that length.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmft.core.errors import FileError
from dmft.files.declared import (
    BYTES,
    DTYPES,
    PROGRESS,
    STUDY_ATTRIBUTES,
    STUDY_POINTS,
    TIMES,
    WHOLE_NUMBERS,
    Attribute,
    Dataset,
    FileLayout,
    each,
    with_errors,
)
from dmft.files.declared import COLUMNS as COLUMNS
from dmft.files.declared import KERNELS as KERNELS
from dmft.files.declared import MEASURES as MEASURES
from dmft.files.declared import TOLD as TOLD
from dmft.files.network_layouts import NETWORK_LAYOUTS
from dmft.model.curves import FLUCTUATIONS, HALF_PREFIX, MEANINGS, TABLE, studied

if TYPE_CHECKING:
    from dmft.core.store import Stored  # whose HDF5 numerics do not load

IDENTITIES = tuple(curve.name for curve in TABLE if curve.residual)
FDT_COLUMNS = ("D", "T_eff", "T_loc")                      # of fluctuation and response, where they are asked for
SIMULATED_KERNELS = ("C", "M_C", "R")                       # what a simulation can measure of them
# Curves of a convergence study, and those that depend on its start.
STUDIED = tuple(name for name in studied(False) if name in studied(True))
STUDIED_BY_START = {"given start": tuple(name for name in studied(False) if name not in STUDIED),
                    "random start": tuple(name for name in studied(True) if name not in STUDIED)}
DETERMINISTIC = "deterministic"                             # the outcome where nothing is sampled: errors are 0
AXES = ("samples", "learning_rate", "blocks_per_level", "mixing")
TUNED = "estimator."  # before the name of a number of dmft.Estimator that is the axis of a study

# Versions of checkpoints, of what is drawn again when a run continues, and of the matrices whose factors they hold; checkpoints
# without the attribute are older.
CHECKPOINTS = {"theory": 13, "simulation": 4, "onepass": 5}


_ROW = "active/{{i}}/instances/own/{}"     # in checkpoints of the simulator and of one-pass SGD
COMMON = (Attribute("outcome", "text"), Attribute("ranks", "whole number"), Attribute("wall_time", "number"),
          Attribute("revision", "text"), Attribute("package_version", "text"))
# Curves of the theory: of every run, of some (or missing in files of earlier versions), from averages over replicas.
_EVERYWHERE = tuple(curve.name for curve in TABLE if curve.theory and curve.always)
RANDOM_START = tuple(curve.name for curve in TABLE if curve.theory == FLUCTUATIONS)
_SOMEWHERE = tuple(curve.name for curve in TABLE if curve.theory and curve.name not in _EVERYWHERE + RANDOM_START)
CURVES = (*_EVERYWHERE, *_SOMEWHERE, *RANDOM_START)
_RECORDED = tuple(curve for curve in TABLE if curve.simulation and curve.simulation != FLUCTUATIONS)
RANDOM_KERNELS = ("V", "K1", "Z")
_ROWS, _ROWS_NOW = ("K1", "Z"), ("K1_now", "Z_now", "a")


_COMPANIONS: dict[str, tuple[str, ...]] = {**dict.fromkeys(CURVES, ("time",)),  # what they tell of, with its axes
                                           **{f"columns/{name}": ("row", "waiting") for name in (*COLUMNS, *FDT_COLUMNS)}}


def _told(place: str, endings: tuple[str, str], axes: Mapping[str, tuple[str, ...]]) -> tuple[Dataset, ...]:
    """What companions tell; of each name with both endings or not at all: files of before have m and V alone."""
    return tuple(Dataset(f"{place}{what}/{name}{ending}", axis, group=f"{place}{what}/{name}")
                 for what in TOLD for name, axis in axes.items() for ending in endings)


def _sums(place: str) -> tuple[Dataset, ...]:
    """Means and summed squares over replicas, and how many: of kernels, and of what companions tell."""
    parts = ("_mean", "_squares")
    return (*each((f"{name}{part}" for name in KERNELS for part in parts), ("saved", "saved"), place + "{}", group=place),
            *each((f"{name}{part}" for name in COLUMNS for part in parts), ("row", "waiting"), place + "columns/{}",
                   group=f"{place}columns"),
            *each((f"{name}{part}" for name in FDT_COLUMNS for part in parts), ("row", "waiting"), place + "columns/{}",
                   group=f"{place}fdt"),
            *_told(place, parts, _COMPANIONS),
            *each(("count", *(f"{what}/count" for what in TOLD)), (2,), place + "{}", type=WHOLE_NUMBERS, optional=True))


LAYOUTS = {
    "theory": FileLayout(
        (Dataset("t", ("time",), TIMES), *each(with_errors(_EVERYWHERE), ("time",)),
         *each(_EVERYWHERE, ("replica", "time"), "replicas/{}"),
         *(one for name in _SOMEWHERE for one in (
             *each(with_errors((name,)), ("time",), group=name),
             *each((name,), ("replica", "time"), "replicas/{}", group=name))),
         *_told("", ("", "_error"), _COMPANIONS),
         Dataset("kernels/t", ("saved",), TIMES), Dataset("kernels/t_last", ("saved",), optional=True),
         *each(with_errors(KERNELS), ("saved", "saved"), "kernels/{}"),
         Dataset("columns/t", ("row",), TIMES, group="columns"), Dataset("columns/t_w", ("waiting",), TIMES, group="columns"),
         *each(with_errors(COLUMNS), ("row", "waiting"), "columns/{}", group="columns"),
         *each(with_errors(FDT_COLUMNS), ("row", "waiting"), "columns/{}", group="fdt"),
         Dataset("snapshots/t", ("snapshot",), TIMES, group="snapshots"),
         *each(("f", "s"), ("replica", "sample", "snapshot"), "snapshots/{}", group="snapshots"),
         *each(("weight", "k", "y", "sd"), ("replica", "sample"), "snapshots/{}", group="snapshots"),
         Dataset("snapshots/visited", ("visited",), TIMES, group="hessian"),
         *each(("h", "g"), ("replica", "sample", "visited"), "snapshots/{}", group="hessian"),
         Dataset("snapshots/gram", ("replica", "visited", "visited"), group="hessian"),
         Dataset("snapshots/xi", ("replica", "sample", "visited"), group="heat"),
         Dataset("snapshots/heat", ("replica", "visited", "visited"), group="heat"),
         Dataset("history", ("sweep", "replica"), optional=True),
         *each(with_errors(RANDOM_START), ("time",), group="random start"),
         *each(with_errors(RANDOM_KERNELS), ("saved", "saved"), "kernels/{}", group="random start"),
         *(one for half, group in (("", "random start"), (HALF_PREFIX, "its companions")) for one in (
             *each(_ROWS, ("replica", "time", "slot"), f"random_start/{half}{{}}", group=group),
             *each(_ROWS_NOW, ("replica", "time"), f"random_start/{half}{{}}", group=group))),
         Dataset("random_start/per_level", ("replica",), WHOLE_NUMBERS, optional=True),
         *_sums("state/")),
        (Attribute("outcome", "text", optional=False), Attribute("outcomes", "text", axis="replica"), Attribute(MEANINGS, "table")),
        {"time": 2, "saved": 2, "sweep": 0, "waiting": 1}),
    "theory checkpoint": FileLayout(
        (*each(_EVERYWHERE, ("own time",), "active/{{i}}/whole/shared/curves/{}"),
         *each(_SOMEWHERE, ("own time",), "active/{{i}}/whole/shared/curves/{}", optional=True),
         *each(KERNELS, ("own saved", "own saved"), "active/{{i}}/whole/shared/kernels/{}"),
         *each(COLUMNS, ("own row", "own waiting"), "active/{{i}}/whole/shared/columns/{}"),
         *each(FDT_COLUMNS, ("own row", "own waiting"), "active/{{i}}/whole/shared/columns/{}", group="fdt"),
         *each(_EVERYWHERE, ("finished", "time"), "finished/replicas/{}", group="finished"),
         *each(_SOMEWHERE, ("finished", "time"), "finished/replicas/{}", optional=True),
         *_sums("finished/state/")),
        PROGRESS, {"finished": 0}, {"own time": "time", "own saved": "saved", "own row": "row", "own waiting": "waiting"}),
    "simulation": FileLayout(
        (Dataset("t", ("time",), TIMES), Dataset("diverged", ("instance",), WHOLE_NUMBERS),
         *(Dataset(curve.name, ("instance", "time"), optional=not curve.always) for curve in _RECORDED),
         *each(("columns/t_w", "kernels/t"), ("waiting",), type=TIMES, group="two times"),
         *each(("columns/t",), ("time",), type=TIMES, group="two times"), Dataset("state/record", ("time",), WHOLE_NUMBERS),
         *each(SIMULATED_KERNELS, ("instance", "waiting", "waiting"), "kernels/{}", group="two times"),
         *each(SIMULATED_KERNELS, ("instance", "time", "waiting"), "columns/{}", group="two times"),
         Dataset("snapshots/t", ("snapshot",), TIMES, group="snapshots"),
         Dataset("snapshots/w", ("instance", "snapshot", "dimension"), group="snapshots"),
         Dataset("snapshots/b", ("instance", "snapshot"), group="snapshots"),
         *each(("step", "diverged_at"), ("line",), "state/{}", type=WHOLE_NUMBERS), Dataset("state/w", ("line", "dimension")),
         Dataset("state/b", ("line",), optional=True), Dataset("state/before", ("line", "dimension"), optional=True),
         Dataset("state/s", ("line", "byte"), BYTES)),
        (*PROGRESS, Attribute(MEANINGS, "table")), {"byte": 0}),
    "simulation checkpoint": FileLayout(
        (Dataset("active/{i}/instances/shared/record", ("time",), WHOLE_NUMBERS),
         *each(("step", "diverged_at"), ("line",), _ROW, type=WHOLE_NUMBERS), *each(("curves",), ("line", "curve", "time"), _ROW),
         *each(("w",), ("line", "dimension"), _ROW), *each(("s",), ("line", "byte"), _ROW, type=BYTES),
         *each(("pairs",), ("line", len(SIMULATED_KERNELS), "time", "waiting"), _ROW, group="two times"),
         *each(("kept_w",), ("line", "waiting", "dimension"), _ROW, group="two times"),
         *each(("kept_g",), ("line", "waiting", "sample"), _ROW, group="two times"),
         *each(("C_12",), ("line", "time"), _ROW, group="clones"),
         *each(("path",), ("line", "time", "dimension"), _ROW, group="clones")),
        PROGRESS, {"byte": 0}),
    "onepass": FileLayout((Dataset("t", ("time",), TIMES),), (
        Attribute("source", "text"), Attribute("ensemble", "flag"), Attribute("diverged_instances", "whole numbers"))),
    "onepass checkpoint": FileLayout(
        (*each(("flat",), ("instance", "time", "statistic"), _ROW), *each(("snapshot",), ("instance", "byte"), _ROW, type=BYTES),
         *each(("columns", "step"), ("instance",), _ROW, type=WHOLE_NUMBERS)), PROGRESS, {"byte": 0}),
    "convergence": FileLayout(
        (*STUDY_POINTS,
         *(Dataset(f"{{axis}}/{measure}/{q}", ("points",)) for measure in MEASURES for q in (*STUDIED, *KERNELS)),
         *each((*STUDIED, *KERNELS), (2,), "{{axis}}/order/{}"),
         *(dataset for start, names in STUDIED_BY_START.items() for dataset in (
             *(Dataset(f"{{axis}}/{measure}/{q}", ("points",), group=start) for measure in MEASURES for q in names),
             *each(names, (2,), "{{axis}}/order/{}", group=start),
             *each(with_errors(names), ("points", "common"), "{{axis}}/curves/{}", group=f"{start}, curves"),
             *each(with_errors(names), ("common",), "{{axis}}/limit/{}", group=f"{start}, limit"))),
         *each(with_errors(STUDIED), ("points", "common"), "{{axis}}/curves/{}", group="curves"),
         *each(with_errors(STUDIED), ("common",), "{{axis}}/limit/{}", group="limit"),
         *each(with_errors(KERNELS), ("saved", "saved"), "{{axis}}/limit/{}", group="limit"),
         Dataset("{axis}/residuals", ("points", "sweep"), optional=True)),
        STUDY_ATTRIBUTES, {"common": 0, "saved": 0, "sweep": 0}),
    "sweep": FileLayout(
        (Dataset("times", ("time",)), Dataset("count", ("row",)), Dataset("is_simulation", ("row",), WHOLE_NUMBERS),
         *each(("m", "m_error", "loss", "loss_error", "share", "share_low", "share_high"), ("row", "time")),
         Dataset("parameters/*", ("row",), optional=True)),
        (Attribute("threshold", "number", optional=False), Attribute("files", "list", optional=False, axis="row"),
         Attribute("keys", "list", optional=False), Attribute("other_parameters", "table", optional=False, axis="row"))),
}


def layout_of(kind: str, live: bool, network: bool = False) -> FileLayout:
    """The layout of a kind of file; a checkpoint has its own where its contents differ, and so have files of networks."""
    tables = LAYOUTS | NETWORK_LAYOUTS if network else LAYOUTS
    return tables.get(f"{kind} checkpoint", tables[kind]) if live else tables[kind]


def of_network(run_text: str) -> bool:
    """Whether the run of a file has a network."""
    return "\n[network]\n" in run_text


def check(file: Stored, sizes: Mapping[str, int] | None = None, needed: Collection[str] | None = None,
          observables: Iterable[str] = ()) -> None:
    """FileError, one line, when a file lacks something or holds it in another type or shape. sizes: lengths of axes that follow
    from the run. needed: the only datasets that the reader uses; others may be missing, but not wrong. observables: curves that a
    user registered, which the run has. Where the arrays were read, times must be finite and increase."""
    layout = layout_of(file.kind, file.is_checkpoint, of_network(file.run_text))
    layout = replace(layout, datasets=(*layout.datasets, *_of_observables(file.kind, file.is_checkpoint, tuple(observables))))
    if needed is not None:
        layout = replace(
            layout, datasets=tuple(replace(dataset, group="", optional=dataset.name not in needed) for dataset in layout.datasets),
            attributes=tuple(replace(attribute, optional=True) for attribute in layout.attributes))
    for attribute in (*COMMON, *layout.attributes):
        for name in _attribute_names(attribute.name, file):
            _check_attribute(file, replace(attribute, name=name))
    _Shapes(file, layout, dict(sizes or {})).check()


def _of_observables(kind: str, live: bool, names: tuple[str, ...]) -> tuple[Dataset, ...]:
    """The datasets of a user's curves in a file of the theory or of the simulator; a checkpoint of the latter has all in one."""
    if kind == "simulation":
        return () if live else each(names, ("instance", "time"))
    parts, axes = ("_mean", "_squares"), dict.fromkeys(names, ("time",))
    if live:
        return (*each(names, ("own time",), "active/{{i}}/whole/shared/curves/{}"),
                *each(names, ("finished", "time"), "finished/replicas/{}", group="finished"),
                *_told("finished/state/", parts, axes))
    return (*each(with_errors(names), ("time",)), *each(names, ("replica", "time"), "replicas/{}"),
            *_told("", ("", "_error"), axes), *_told("state/", parts, axes))


def _wrong(file: Stored, what: str) -> FileError:
    which = "checkpoint" if file.is_checkpoint else "file"
    return FileError(f"{file.path}: a {file.kind} {which} that is not whole inside: {what}; make it again")


# --- attributes -------------------------------------------------------------------------------------------

_TYPES: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int, float), "whole number": (int,), "flag": (bool, int),
                                       "list": (str,), "table": (str,)}


def _attribute_names(name: str, file: Stored) -> list[str]:
    return [name.format(axis=axis) for axis in study_axes(file)] if "{axis}" in name else [name]


def study_axes(file: Stored) -> list[str]:
    """Names of the axes of a convergence study."""
    axes = file.attrs.get("axes")
    names = axes.split(",") if isinstance(axes, str) else []
    if not names or any(name not in AXES and not name.startswith(TUNED) for name in names) or len(set(names)) < len(names):
        raise _wrong(file, f"the attribute 'axes' must list some of {', '.join(AXES)}, {TUNED}NAME")
    return names


def _check_attribute(file: Stored, attribute: Attribute) -> None:
    """FileError for an attribute that is missing or of another type."""
    if attribute.name not in file.attrs:
        if not attribute.optional:
            raise _wrong(file, f"the attribute {attribute.name!r} is missing")
        return
    value = file.attrs[attribute.name]
    fits = (isinstance(value, np.ndarray) and value.ndim == 1 and (value.dtype.kind in "iu" or not value.size)
            if attribute.type == "whole numbers" else isinstance(value, _TYPES[attribute.type]))
    if fits and attribute.type == "number":
        fits = bool(np.isfinite(value))
    if fits and attribute.type in ("list", "table"):
        try:
            fits = isinstance(json.loads(value), list if attribute.type == "list" else dict)
        except ValueError:
            fits = False
    if not fits:
        raise _wrong(file, f"the attribute {attribute.name!r} is not a {attribute.type}")


def _count(attribute: Attribute, value: Any) -> Iterator[int]:
    """Lengths that the value of an attribute implies for its axis."""
    if attribute.type == "table":
        yield from (len(column) if isinstance(column, list) else -1 for column in json.loads(value).values())
    else:
        yield len(json.loads(value)) if attribute.type == "list" else len(value.split(","))


# --- datasets ---------------------------------------------------------------------------------------------

class _Shapes:
    """Compares the datasets of one file with its layout; an axis gets its length from the first dataset that has it."""

    def __init__(self, file: Stored, layout: FileLayout, lengths: dict[str, int]):
        self.file, self.layout, self.lengths = file, layout, lengths
        self.met = dict.fromkeys(lengths, "the run")     # what gave each axis its length, for messages

    def check(self) -> None:
        """FileError for the first dataset that is missing or wrong."""
        file, layout = self.file, self.layout
        for scope, datasets in self._scopes():
            groups = {dataset.group for dataset in datasets if dataset.name in file.shapes}
            for dataset in datasets:
                needed = dataset.group in groups if dataset.group else not dataset.optional
                if dataset.name in file.shapes:
                    self._one(dataset, scope)
                elif needed:
                    raise _wrong(file, f"the dataset {dataset.name!r} is missing")
        if file.kind == "onepass" and not file.is_checkpoint:
            self._statistics()
        for attribute in layout.attributes:
            for name in _attribute_names(attribute.name, file) if attribute.axis else ():
                scope = name.removeprefix("outcomes_") if "{axis}" in attribute.name else ""
                for length in _count(attribute, file.attrs[name]) if name in file.attrs else ():
                    self._length(attribute.axis, length, f"the attribute {name!r}", scope)

    def _scopes(self) -> Iterator[tuple[str, list[Dataset]]]:
        """(scope, datasets with their names filled in). The datasets of one axis of a study have lengths of their own, as have
        those of one worker under way where the layout has own_axes."""
        shapes = self.file.shapes
        plain = [dataset for dataset in self.layout.datasets if not any(mark in dataset.name for mark in "{*")]
        starred = [replace(dataset, name=name) for dataset in self.layout.datasets if dataset.name.endswith("/*")
                   for name in shapes if name.startswith(dataset.name[:-1])]
        yield "", plain + starred
        if any("{axis}" in dataset.name for dataset in self.layout.datasets):
            for axis in study_axes(self.file):
                yield axis, [replace(dataset, name=dataset.name.format(axis=axis)) for dataset in self.layout.datasets]
        under_way = sorted({name.split("/")[1] for name in shapes if name.startswith("active/")})
        for i in under_way if any("{i}" in dataset.name for dataset in self.layout.datasets) else ():
            if not i.isdecimal():
                raise _wrong(self.file, f"active/{i} is not the number of a replica")
            yield i if self.layout.own_axes else "", [replace(dataset, name=dataset.name.format(i=i))
                                                      for dataset in self.layout.datasets if "{i}" in dataset.name]

    def _one(self, dataset: Dataset, scope: str) -> None:
        """The type and the shape of one dataset."""
        name, shape, dtype = dataset.name, self.file.shapes[dataset.name], self.file.dtypes[dataset.name]
        if dtype.kind not in DTYPES[dataset.type] or (dataset.type == BYTES and dtype.itemsize != 1):
            raise _wrong(self.file, f"the dataset {name!r} holds {dtype}, not a {dataset.type}")
        if len(shape) != len(dataset.axes):
            raise _wrong(self.file, f"the dataset {name!r} has {len(shape)} axes, not {len(dataset.axes)}")
        for axis, length in zip(dataset.axes, shape):
            self._length(axis, length, f"the dataset {name!r}", scope)
        if dataset.type == TIMES and name in self.file.arrays:
            self._increases(name)

    def _length(self, axis: str | int, length: int, what: str, scope: str) -> None:
        """Compare the length that `what` has along an axis with the known one; the first length that is met becomes the known
        one."""
        key = f"{scope}/{axis}"
        known = axis if isinstance(axis, int) else self.lengths.setdefault(key if scope else axis, length)
        source = self.met.setdefault(key if scope else str(axis), what)
        least = 0 if isinstance(axis, int) else (self.layout.least or {}).get(axis, 1)
        if length != known:
            raise _wrong(self.file, f"{what} has {length} of axis '{axis}', {source} has {known}")
        if length < least:
            raise _wrong(self.file, f"{what} has {length} of axis '{axis}', fewer than {least}")
        most = self.lengths.get(self.layout.own_axes.get(str(axis), ""), length)
        if length > most:
            raise _wrong(self.file, f"{what} has {length} of axis '{axis}', more than the {most} of the run")

    def _increases(self, name: str) -> None:
        t = self.file.arrays[name]
        if not np.isfinite(t).all() or np.any(np.diff(t) <= 0) or np.any(t < 0):
            raise _wrong(self.file, f"the dataset {name!r} does not hold increasing times")

    def _statistics(self) -> None:
        """One-pass results: any statistics, each over time, instances before it in an ensemble."""
        others = [name for name in self.file.shapes if name != "t" and not name.startswith("state/")]
        if not others:
            raise _wrong(self.file, "there is no statistic in it")
        first: tuple[str | int, ...] = ("instance", "time") if self.file.attrs.get("ensemble") else ("time",)
        for name in others:
            shape = self.file.shapes[name]
            if len(shape) < len(first):
                raise _wrong(self.file, f"the dataset {name!r} has {len(shape)} axes, fewer than {len(first)}")
            for axis, length in zip(first, shape):
                self._length(axis, length, f"the dataset {name!r}", "")
        lost = np.asarray(self.file.attrs.get("diverged_instances", ()), int)
        if np.any(lost < 0) or np.any(lost >= self.lengths.get("instance", 0)):
            raise _wrong(self.file, "the attribute 'diverged_instances' names instances that are not there")
