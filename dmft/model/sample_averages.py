"""A user's own curve: the average of a function of one training sample, in theory and simulation. [theory] observables names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from dmft.core.compiled import compiled_scalar
from dmft.core.errors import UserError
from dmft.model.curves import AVERAGE, HALF_PREFIX, KNOWN, NETWORK_KNOWN, CurveDefinition, registered
from dmft.model.loss_family import POINTS
from dmft.model.quantities import OTHERS

# (f, y, h0) at which an observable must be a number; no two of them are alike.
SAMPLES = [(f, y, h0) for (f, y), (h0, _) in zip(POINTS, reversed(POINTS), strict=True)]
# Names of results, files and mappings that a curve must not take.
RESERVED = frozenset((
    *KNOWN, *NETWORK_KNOWN, *OTHERS,
    "active", "attrs", "averaged", "bias", "clear", "columns", "copy", "curve", "curves", "dimension_bound",
    "error_from_overlaps", "escape", "fdt", "finished", "first_passage", "fromkeys", "generalization", "get", "datasets",
    "hessian", "history_error", "instances", "items", "kernels", "keys", "mean", "median", "names", "outcome", "plot", "pop",
    "popitem", "quantile", "random_start", "replicas", "run", "sampled", "save", "setdefault", "share_below", "share_passed",
    "snapshots", "start", "state", "states", "to_dataframe", "to_xarray", "update", "values", "warnings"))
_PARTS = (HALF_PREFIX, "coarse_", "_")  # beginnings of other names in files


def register_observable(name: str, value: Callable[[Any, Any, Any], Any], label: str = "", meaning: str = "",
                        unit: str = "1") -> CurveDefinition:
    """Make a curve known: the average of value(f, y, h0) over the training samples.

    f is the field of the student on a sample, intercept included, and of a network its output; y is its label as the loss sees it;
    h0 = x.w0/sqrt(N) is the field of w0, in a mixture of clusters too, and of a network that of its first direction. `value` is
    compiled by Numba, and translated to CUDA for device = "gpu". A run has the curve if its [theory] observables name it:
    `run.replace(observables=["name"])`. label: of axes; meaning, unit: for tables. Results hold them, so that files can be read
    where the function is not known.
    """
    where = f"register_observable: {name!r}"
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(f"{where} is not a name (letters, digits and underscores)")
    if name in RESERVED or f"{name}_error" in RESERVED or name.endswith("_error") or name.startswith(_PARTS):
        raise UserError(f"{where} is taken: results have something else of that name; choose another")
    source = _source(value)
    if name in registered and registered[name].source != source:
        raise UserError(f"{where} is registered by {registered[name].source}, too; choose another name")
    compiled = compiled_scalar(where, value, "(f, y, h0)", SAMPLES)
    for f, y, h0 in SAMPLES:
        if not math.isfinite(found := float(compiled(f, y, h0))):
            raise UserError(f"{where}: it is {found} at f = {f:.3g}, y = {y:.3g}, h0 = {h0:.3g}; it must be a number everywhere")
    curve = CurveDefinition(name, meaning or label or name.replace("_", " "), unit, label, AVERAGE, AVERAGE, value=compiled,
                            source=source)
    registered[name] = curve
    return curve


def _source(function: Callable) -> str:
    """The file of a function; the cells of a notebook are one file."""
    plain = getattr(function, "py_func", function)
    return "__main__" if plain.__module__ == "__main__" else plain.__code__.co_filename


def names_of_observables(value: Any) -> tuple[str, ...]:
    """The check of theory.observables: names, each once. Whether they are registered is seen later."""
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) and name.isidentifier() for name in value) \
            and len(set(value)) == len(value):
        return tuple(value)
    raise ValueError("a list of names of registered observables")


def averages(names: Iterable[str]) -> tuple[CurveDefinition, ...]:
    """The definitions of averages over samples; UserError for one that is not registered."""
    return tuple(_average(name) for name in names)


def _average(name: str) -> CurveDefinition:
    found = registered.get(name) or KNOWN.get(name)
    if found is None or found.value is None:
        raise UserError(f"the observable {name!r} is not registered; --plugin FILE.py takes the file that does "
                        f"dmft.register_observable({name!r}, ...)")
    return found
