"""Everything `dmft inspect` says about a file, as plain data (JSON)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dmft.core import schema, store
from dmft.model.curves import name_of_curve
from workbench.inspection.checks import checks
from workbench.inspection.curves import decades, opened_curves, own_curves
from workbench.inspection.kinds import Opened, kind_of
from workbench.inspection.opening import INNER_GROUPS

_PROVENANCE = ("package_version", "revision", "python_version", "numpy_version", "numba_version", "h5py_version",
               "mpi4py_version", "mpi_library", "ranks", "wall_time")
SHOWN_COMPONENTS = 7         # of the matrices of a network that the table of curves shows
_SLAB = 1 << 22             # numbers of an array read at a time


def facts(opened: Opened) -> dict[str, Any]:
    """Kind, run, provenance, contents, checks and warnings of a file, as JSON knows them. NaN becomes None."""
    header = opened.header
    attrs = {name: _plain(value) for name, value in header.attrs.items()}
    provenance = {name: attrs.pop(name) for name in [*_PROVENANCE, *(key for key in attrs if key.startswith("plugin:"))]
                  if name in attrs}
    found: dict[str, Any] = {
        "file": str(header.path), "kind": header.kind, "checkpoint": opened.live, "schema_version": header.schema_version,
        "outcome": attrs.pop("outcome", ""), "run": _tables(header.run_text), "provenance": provenance, "attributes": attrs,
    }
    if opened.live:
        found["progress"] = progress(opened)
    found["curves"] = _at_decades(opened)
    listed = checks(opened)
    found["checks"] = [{"name": c.name, "value": _plain(c.value), "fine": c.fine, "meaning": c.meaning} for c in listed]
    found["warnings"] = [f"{c.name} = {c.value:.3g}: {c.meaning}" for c in listed
                         if c.fine is False and not c.told] + _warnings(opened)
    if opened.kind == "convergence":
        found["study"] = opened.result.to_dict()
    with store.reading(header.path) as part:
        found["arrays"] = [_array(header, name, part) for name in header.shapes]
    return found


def progress(opened: Opened) -> dict[str, Any]:
    """Progress of a running job at its last checkpoint: share done, rate, and the time still needed."""
    header, kind = opened.header, kind_of(opened.header)
    share = kind.share_done(opened)
    gone = share - float(header.attrs.get("progress_before", 0.0))
    seconds = float(header.attrs.get("wall_time", 0.0)) - float(header.attrs.get("wall_time_before", 0.0))
    rate = gone / seconds if seconds > 0.0 else 0.0
    age = max(time.time() - header.path.stat().st_mtime, 0.0)
    return {"share": share, "rate_per_hour": 3600.0 * rate, "seconds_left": (1.0 - share) / rate if rate > 0 else None,
            "checkpoint_age": age, **kind.progress(opened)}


def _warnings(opened: Opened) -> list[str]:
    found, outcome = [], str(opened.header.attrs.get("outcome", ""))
    if outcome.startswith(("diverged", "sweep limit")):
        found.append(f"outcome: {outcome}")
    found += kind_of(opened.header).warnings(opened)
    revision = str(opened.header.attrs.get("revision", ""))
    if revision.endswith("-dirty"):
        found.append(f"made by changed sources ({revision}): the revision does not tell which")
    return found


def _tables(run_text: str) -> dict[str, Any]:
    return _written(schema.read_toml(run_text, "run")) if run_text.strip() else {}


def _written(value: Any) -> Any:
    """Keys of a run file for JSON, which has no infinity (of a clip, say): as TOML writes it."""
    if isinstance(value, dict):
        return {name: _written(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _at_decades(opened: Opened) -> list[dict[str, Any]]:
    """The main curves at times 1, 2, 5, 10, ..., one row per time."""
    curves = opened_curves(opened)
    first: tuple[str, ...] = ("V", "gain", "loss", "nu_hat") if "gain" in curves else ("m", "loss", "mse", "error", "nu_hat")
    if opened.run is not None and opened.run.has_network:
        first = (*[name for name in curves if name.startswith(("m[", "C["))][:SHOWN_COMPONENTS], "loss", "mse", "specialisation")
    names = [name for name in (*first, *own_curves(opened)) if name in curves] or list(curves)[:4]
    if not names:
        return []
    t = curves[names[0]].t
    rows = []
    for i in decades(t):
        row: dict[str, Any] = {"t": float(t[i])}
        for name in names:
            shown = name_of_curve(name, opened.header.attrs)
            row[shown], row[f"{shown}_error"] = _plain(curves[name].mean[i]), _plain(curves[name].error[i])
        if any(row[name_of_curve(name, opened.header.attrs)] is not None for name in names):
            rows.append(row)
    return rows


def _array(header: store.Stored, name: str, read: Callable[..., np.ndarray]) -> dict[str, Any]:
    """Shape and range of an array; only the shape if nothing but --resume needs it. read: as of store.reading."""
    shape = header.shapes[name]
    found: dict[str, Any] = {"name": name, "shape": list(shape)}
    if name.startswith(INNER_GROUPS):
        return found
    low, high, bad = math.inf, -math.inf, 0
    step = max(1, _SLAB // max(1, math.prod(shape[1:])))
    for first in range(0, shape[0], step) if shape else (0,):
        part = read(name, slice(first, first + step) if shape else ())
        good = part[np.isfinite(part)] if part.dtype.kind == "f" else part
        bad += part.size - good.size
        if good.size:
            low, high = min(low, float(good.min())), max(high, float(good.max()))
    return found | {"min": low if low <= high else None, "max": high if low <= high else None, "not_finite": int(bad)}


def _plain(value: Any) -> Any:
    """The value as a number, text or list for JSON."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
