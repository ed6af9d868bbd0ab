"""Every curve of a result, declared once: what it means, where it is defined, and how theory and simulation have it.

Whatever lists curves (the solver's rows, file layouts, `Theory`, the simulator's records, labels, comparisons, reports) reads
`TABLE`. A new curve that is an average over samples is one entry with a `value`; users register their own
(model/sample_averages.py), which are then `registered`. A result holds what they mean, for programs that do not know them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

# How a curve is had. Theory: a number of every step, or an error on new samples from m, q and b (and what else follows from the
# overlaps of one solution), or from averages over replicas. Simulation: recorded, or the same error of every instance, or N m^2, or
# of two copies of an instance. In both: the average of a function over training samples.
PER_STEP, ERRORS, FLUCTUATIONS, COPIES, AVERAGE = "step", "errors", "fluctuations", "copies", "average"


class Labelling(Protocol):
    """What a data model tells of its labels (model/teacher.py, model/mixture.py)."""

    @property
    def kind(self) -> str: ...
    @property
    def classifies(self) -> bool: ...
    @property
    def bias(self) -> bool: ...
    @property
    def sampled(self) -> bool: ...


Where = Callable[[Any, bool], bool]  # of the data model, or of the network, and of whether the start is random


def everywhere(data: Labelling, random: bool) -> bool:
    """In every run."""
    return True


def values_told(data: Labelling, random: bool) -> bool:
    """Where labels are numbers, and it is known what predicts them."""
    return bool(data.kind) and not data.classifies


def signs_told(data: Labelling, random: bool) -> bool:
    """Where labels are signs."""
    return data.classifies


def intercept_learnt(data: Labelling, random: bool) -> bool:
    """Where an intercept is learnt."""
    return data.bias


def samples_drawn(data: Labelling, random: bool) -> bool:
    """Where there are samples."""
    return data.sampled


def units_paired(network: Any, random: bool) -> bool:
    """Where a network (model/network.py) has as many units as directions, and several."""
    return bool(network.units == network.directions > 1)


def random_start(data: Labelling, random: bool) -> bool:
    """Where m is of order 1/sqrt(N)."""
    return random


@dataclass(frozen=True)
class CurveDefinition:
    """One curve of results. theory, simulation: how it is had there, "" where it is not.

    value(f, y, h0): the curve is its average over training samples, in theory and simulation; f is the student's field, intercept
    included, y the label and h0 = x.w0/sqrt(N) the field of w0, in a mixture too (there it is sd k of the theory)."""

    name: str
    meaning: str
    unit: str = "1"
    label: str = ""  # of an axis, "" for the name
    theory: str = ""
    simulation: str = ""
    where: Where = everywhere
    studied: bool = False  # by convergence studies
    replaces: str = ""  # the curve in whose place this one stands where it is defined
    residual: bool = False  # of an identity: 0 with infinitely many samples
    later: bool = False  # missing in files of version 0.1
    asked: str = ""  # the key, true or false, of [theory] and of [simulation] that asks for it; "" for one that is always there
    value: Any = None  # a function that compiled code can call
    source: str = ""  # the file of a user's function
    axes: tuple[str, ...] = ()  # after time, of a network's

    @property
    def always(self) -> bool:
        """Whether every file holds it."""
        return self.where is everywhere and not self.later and not self.asked and self.value is None

    @property
    def compared(self) -> bool:
        """Whether theory and simulation both have it."""
        return bool(self.theory and self.simulation)


TABLE = (
    CurveDefinition("m", "overlap with the teacher", label="overlap $m$", theory=PER_STEP, simulation=PER_STEP, studied=True),
    CurveDefinition("V", "N <m^2> from a random start", label=r"$N\langle m^2\rangle$", theory=FLUCTUATIONS,
                    simulation=FLUCTUATIONS, where=random_start, studied=True, replaces="m"),
    CurveDefinition("loss", "training loss per sample", label="training loss", theory=PER_STEP, simulation=PER_STEP, studied=True),
    CurveDefinition("q", "squared norm of the weights over N", label="squared norm $q$", theory=PER_STEP, simulation=PER_STEP),
    CurveDefinition("mse", "generalization error (B.8)", label="mean square error", theory=ERRORS, simulation=ERRORS,
                    where=values_told),
    CurveDefinition("mse_fresh", "generalization error on fresh samples", label="error on fresh samples", simulation=PER_STEP,
                    where=values_told),
    CurveDefinition("error", "share of wrong labels on new samples", label="share of wrong labels", theory=ERRORS,
                    simulation=ERRORS, where=signs_told),
    CurveDefinition("training_error", "share of wrong labels in the training set", label="training error", theory=PER_STEP,
                    simulation=PER_STEP, where=signs_told),
    CurveDefinition("error_fresh", "share of wrong labels on fresh samples", label="error on fresh samples", simulation=PER_STEP,
                    where=signs_told),
    CurveDefinition("b", "intercept", label="intercept $b$", theory=PER_STEP, simulation=PER_STEP, where=intercept_learnt),
    CurveDefinition("C_12", "overlap of two copies with the same data and start", label="overlap $C_{12}$ of two copies",
                    theory=PER_STEP, simulation=COPIES, asked="clones"),
    CurveDefinition("nu_hat", "multiplier of the sphere (A.29)", "1/time", r"$\hat\nu$", theory=PER_STEP, studied=True),
    CurveDefinition("nu_hat_direct", "multiplier of the sphere (A.19)", "1/time", r"$\hat\nu$ (A.19)", theory=PER_STEP),
    CurveDefinition("delta_nu", "mean curvature (A.19)", "1/time", r"$\delta\nu$", theory=PER_STEP, studied=True),
    CurveDefinition("mu", "pull of the teacher (A.24)", "1/time", r"$\mu$", theory=PER_STEP, studied=True),
    CurveDefinition("gain", "dm(t)/dm(0) from a random start", label="gain $dm/dm_0$", theory=FLUCTUATIONS, where=random_start,
                    studied=True, replaces="mu"),
    CurveDefinition("nu_gap", "residual of the exact identity for nu_hat", "1/time", theory=PER_STEP, residual=True),
    CurveDefinition("ibp_gap", "largest residual of the identity [ibp] for the response as sampled", "1/time", theory=PER_STEP,
                    residual=True, later=True, where=samples_drawn),
    CurveDefinition("unstable", "weight of samples with learning_rate * v'' > 2", theory=PER_STEP),
    CurveDefinition("lost", "weight of samples that left their trapping region", theory=PER_STEP, later=True, where=samples_drawn),
)
KNOWN = {curve.name: curve for curve in TABLE}
# The curves of a network (model/network.py), whose overlaps are matrices. Identities and errors are as above.
NETWORK = (
    CurveDefinition("m", "overlaps of units with directions", label="overlaps $m$", theory=PER_STEP, simulation=PER_STEP,
                    studied=True, axes=("unit", "direction")),
    CurveDefinition("C", "overlaps of units with each other, C(t,t)", label="$C(t,t)$", theory=PER_STEP, simulation=PER_STEP,
                    axes=("unit", "unit")),
    CurveDefinition("a", "second layer", label="second layer $a$", theory=PER_STEP, simulation=PER_STEP, axes=("unit",)),
    CurveDefinition("beta", "intercepts of the hidden units", label=r"intercepts $\beta$", theory=PER_STEP, simulation=PER_STEP,
                    axes=("unit",)),
    KNOWN["loss"],
    CurveDefinition("mse", "mean square error on new samples", label="mean square error", theory=ERRORS, simulation=ERRORS),
    CurveDefinition("mse_fresh", "mean square error on fresh samples", label="error on fresh samples", simulation=PER_STEP),
    CurveDefinition("specialisation", "overlap of units with their own unit of the teacher, less that with the others",
                    theory=ERRORS, simulation=ERRORS, where=units_paired, later=True),
    CurveDefinition("delta_nu", "mean curvature", "1/time", r"$\delta\nu$", theory=PER_STEP, axes=("unit", "unit")),
    CurveDefinition("mu", "pull of the directions", "1/time", r"$\mu$", theory=PER_STEP, axes=("unit", "direction")),
    KNOWN["ibp_gap"],
)
NETWORK_KNOWN = {curve.name: curve for curve in NETWORK}
_NUMBERS = {curve.name: curve for curve in NETWORK if not curve.axes} | KNOWN  # curves with one number at a time
registered: dict[str, CurveDefinition] = {}  # averages over samples that users added
MEANINGS = "observables"  # the attribute of a file that tells what they mean
HALF_PREFIX = "half_"  # before the names of rows of a random start that are of the solution with half the samples


def defined(data: Labelling, random: bool, asked: Collection[str] = ()) -> tuple[CurveDefinition, ...]:
    """The curves of the table that are defined for a data model and a start; asked: those that must be asked for, and are."""
    return tuple(curve for curve in TABLE if curve.where(data, random) and (not curve.asked or curve.name in asked))


def asked_for(section: Any) -> tuple[str, ...]:
    """The curves that a section of a run file asks for by a key of their own."""
    return tuple(curve.name for curve in TABLE if curve.asked and getattr(section, curve.asked))


def studied(random: bool) -> tuple[str, ...]:
    """The curves of a convergence study; from a random start others stand in the places of those that are 0."""
    instead = {curve.replaces: curve.name for curve in TABLE if curve.studied and curve.replaces}
    return tuple(instead.get(curve.name, curve.name) if random else curve.name
                 for curve in TABLE if curve.studied and not curve.replaces)


def meanings_text(names: Iterable[str], more: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, str]:
    """{MEANINGS: JSON} of the curves among `names` that users registered, and of those that mean something else with the data of a
    run (DataModel.meanings); {} without any."""
    own = {name: {"label": curve.label, "meaning": curve.meaning, "unit": curve.unit}
           for name, curve in registered.items() if name in names}
    told = {**{name: dict(words) for name, words in (more or {}).items()}, **own}
    return {MEANINGS: json.dumps(told)} if told else {}


def meanings(attrs: Mapping[str, Any]) -> dict[str, str]:
    """What the attributes of a file say of its own curves, as `meanings_text` gave it."""
    return {MEANINGS: attrs[MEANINGS]} if MEANINGS in attrs else {}


def definition(name: str, attrs: Mapping[str, Any] | None = None) -> CurveDefinition | None:
    """What is known of a curve: from the table, by registration, or from the attributes of the file that holds it."""
    base, bracket, _ = name.partition("[")  # components of an array are named m[0,1]
    found = (NETWORK_KNOWN if bracket else _NUMBERS).get(base) or registered.get(name)
    told = json.loads(str((attrs or {}).get(MEANINGS, "{}"))).get(name)
    if not isinstance(told, dict) or name in registered:
        return found
    meaning, unit, label = (str(told.get(key, "")) for key in ("meaning", "unit", "label"))
    return CurveDefinition(name, meaning, unit, label)


def name_of_curve(name: str, attrs: Mapping[str, Any] | None = None) -> str:
    """What tables call a curve: its name, or that which the data of the run give it."""
    told = json.loads(str((attrs or {}).get(MEANINGS, "{}"))).get(name)
    return str(told.get("name", name)) if isinstance(told, dict) else name


def label_of(name: str, attrs: Mapping[str, Any] | None = None) -> str:
    """The label of an axis with a curve."""
    found = definition(name, attrs)
    _, bracket, index = name.partition("[")
    return (found.label if found and found.label else name.replace("_", " ").partition("[")[0]) + (f" [{index}" if bracket else "")


def axes_of(name: str, array: np.ndarray, *leading: str) -> tuple[str, ...]:
    """The axes of a curve, or of its error, by name: `leading`, and those of units and directions where it is a network's; a second
    axis of units has another name."""
    known = NETWORK_KNOWN.get(name.removesuffix("_error")) if array.ndim > len(leading) else None
    axes = known.axes if known else ()
    return (*leading, *(("unit", "unit_prime") if axes == ("unit", "unit") else axes))


def components(name: str, array: np.ndarray, leading: int, symmetric: Collection[str] = ("C", "delta_nu")) -> dict[str, np.ndarray]:
    """The components of a curve by name, m[0,1]: arrays with the first `leading` axes alone. Of symmetric ones one half."""
    if array.ndim == leading:
        return {name: array}
    mirrored = name.partition("_error")[0] in symmetric
    return {f"{name}[{','.join(map(str, index))}]": array[(..., *index)] for index in np.ndindex(array.shape[leading:])
            if not (mirrored and index[0] > index[1])}
