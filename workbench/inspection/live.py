"""The checkpoint of a theory run as a Theory: finished replicas, and running ones up to the step they have reached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmft.core import store
from dmft.core.averages import finite_error, finite_mean, welford_error
from dmft.equations.kernels import KERNELS, Kept, columns_of
from dmft.files import layouts
from dmft.model.experiment import known_errors
from dmft.model.runfile import parse_run
from dmft.result.statistics import COLUMN
from dmft.result.theory import NETWORK_CURVES, THEORY_CURVES, Columns, Kernels, Theory
from dmft.running.replica import Setup


def partial_theory(header: store.Stored) -> Theory:
    """The checkpoint of a theory run as a Theory. Curves are means over the replicas that have reached a time, NaN after that.
    So are kernels, of the finished replicas or, while none has finished, of those that are running.
    The samples in the file are not read."""
    run = parse_run(header.run_text, str(header.path), any_loss=True)
    t = run.algorithm.clock.t
    kept = Setup.from_run(run).kept
    layouts.check(header, {"time": t.size, "saved": kept.grid.size, "row": kept.times.size, "waiting": kept.waiting.size},
                  observables=run.theory.observables)
    active = sorted({int(name.split("/")[1]) for name in header.shapes if name.startswith("active/")})

    def read(name: str) -> np.ndarray:
        return store.read(header.path, name)

    def curve(path: str) -> np.ndarray:
        """NaN at times not reached: a replica that waits in the state of a shorter run (theory.keep_state) has fewer of them."""
        found = read(path)
        return np.concatenate([found, np.full((t.size - len(found), *found.shape[1:]), np.nan)])

    replicas = {}
    for name in (*(NETWORK_CURVES if run.has_network else THEORY_CURVES), *run.theory.observables):
        if not any(path.endswith(f"/curves/{name}") or path == f"finished/replicas/{name}" for path in header.shapes):
            continue
        rows = [curve(f"active/{i}/whole/shared/curves/{name}") for i in active]
        if header.shapes.get("finished/replicas/m", (0, 0))[0]:
            rows = [*read(f"finished/replicas/{name}"), *rows]
        replicas[name] = np.array(rows).reshape(len(rows), t.size, *(rows[0].shape[1:] if rows else ()))
    replicas |= known_errors(run, replicas)
    curves: dict[str, np.ndarray] = {}
    for name, values in replicas.items():
        curves[name], curves[f"{name}_error"] = finite_mean(values), finite_error(values)
    running = [i for i in active if header.shapes[f"active/{i}/whole/shared/curves/loss"] == t.shape]
    pair = (run.network.units,) * 2 if run.has_network else ()
    return Theory(run=run, outcome=str(header.attrs.get("outcome", "running")), t=t, curves=curves, replicas=replicas, bias={},
                  kernels=Kernels(t[kept.grid], **_kernels(header, kept, running, KERNELS, pair=pair), t_last=t[kept.upto]),
                  columns=Columns(t[kept.times], t[kept.waiting],
                                  **_kernels(header, kept, running, columns_of(run), COLUMN, pair)),
                  attrs=dict(header.attrs))


def _kernels(header: store.Stored, kept: Kept, running: list[int], names: Sequence[str], prefix: str = "",
             pair: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    """Maps, or with the prefix COLUMN columns, and their errors by name. pair: axes of units, for a network."""
    arrays = {}
    finished = int(store.read(header.path, "finished/state/count")[0]) if "finished/state/count" in header.shapes else 0
    rows, columns, group = (kept.times, kept.waiting, "columns") if prefix else (kept.grid, kept.grid, "kernels")
    shape = rows.size, columns.size, *pair
    for name in names:
        mean, squares = (f"finished/state/{prefix}{name}_{part}" for part in ("mean", "squares"))
        arrays[name], arrays[f"{name}_error"] = np.full(shape, np.nan), np.full(shape, np.nan)
        if mean in header.shapes:
            arrays[name] = store.read(header.path, mean)
            arrays[f"{name}_error"] = welford_error(store.read(header.path, squares), finished)
        elif running:
            values = np.array([_reached(header, f"active/{i}/whole/shared", f"{group}/{name}", rows, columns) for i in running])
            arrays[name], arrays[f"{name}_error"] = finite_mean(values), finite_error(values)
    return arrays


def _reached(header: store.Stored, replica: str, name: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A map or columns of a running replica, NaN where it has not been yet. rows, columns: steps."""
    array, there = store.read(header.path, f"{replica}/{name}"), np.isfinite(store.read(header.path, f"{replica}/curves/loss"))
    known = there[rows][:, None] & there[columns]
    return np.where(known.reshape(*known.shape, *(1,) * (array.ndim - 2)), array, np.nan)
