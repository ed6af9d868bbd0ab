"""Files of simulations: results, and checkpoints of runs under way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.checkpoint import check_layout, stored_part
from dmft.core.errors import FileError
from dmft.core.parts import INSTANCES
from dmft.files import layouts
from dmft.files.axes import layout_axes
from dmft.files.layouts import SIMULATED_KERNELS
from dmft.model.curves import asked_for, meanings_text
from dmft.model.experiment import known_errors, observables_of
from dmft.model.runfile import Run, parse_run
from dmft.model.two_times import simulated_steps, snapshot_steps
from sgd_sim.landscape import sizes
from sgd_sim.recording import (
    FORCE,
    PAIR_PROBES,
    ROWS,
    network_curves,
    network_rows,
    recorded_curves,
    recorded_rows,
    times_of,
)
from sgd_sim.states import States, copies_of


def to_arrays(run: Run, states: States) -> dict[str, np.ndarray | dict[str, np.ndarray]]:
    """The datasets of a result: curves (instances, times) and, under "state", what a longer run continues from."""
    arrays = states.arrays(kept=False)
    curves = arrays.pop("curves")[::states.copies]
    if not arrays["before"].shape[1]:
        del arrays["before"]
    found: dict[str, np.ndarray | dict[str, np.ndarray]]
    if run.has_network:
        rows = network_curves(run, curves)
        found = {**rows}
    else:
        rows = {name: curves[:, k] for k, name in enumerate(recorded_rows(run))}
        found = {name: rows[name] for name in recorded_curves(run)}
    found |= known_errors(run, rows, states.record) | clones(run, states)
    found["t"] = times_of(run, states.record)
    found["diverged"] = states.diverged_at[::states.copies] >= 0
    if run.theory.snapshots:
        found["snapshots"] = {"t": times_of(run, snapshot_steps(run)), "w": states.snapshot_w[::states.copies],
                              "b": states.snapshot_b[::states.copies]}
    return found | two_times(run, states) | {"state": {"record": states.record, **arrays}}


def clones(run: Run, states: States) -> dict[str, np.ndarray]:
    """C_12 (instances, times) by its name, where the run asks for it."""
    return {name: states.overlaps() for name in asked_for(run.simulation)}


def two_times(run: Run, states: States) -> dict[str, dict[str, np.ndarray]]:
    """Two-time quantities, of which the instance is the first axis: columns (instances, times, waiting times), NaN before their
    waiting time, and kernels between the waiting times alone, symmetric, or causal as R is. {} where there are none."""
    if not states.kept.size:
        return {}
    both = states.pairs.reshape(-1, states.copies, *states.pairs.shape[1:])
    columns = dict(zip(SIMULATED_KERNELS, np.moveaxis(both[:, 0], 1, 0)))    # of a network C alone
    if states.copies > 1:
        columns["R"] = (both[:, 1, PAIR_PROBES] - both[:, 0, PAIR_PROBES]) / FORCE    # [sim-pairs]
    rows, t_w = np.searchsorted(states.record, states.kept), times_of(run, states.kept)
    kernels = {name: _square(column[:, rows], name != "R") for name, column in columns.items()}
    return {"columns": {"t": times_of(run, states.record), "t_w": t_w, **columns}, "kernels": {"t": t_w, **kernels}}


def _square(lower: np.ndarray, symmetric: bool) -> np.ndarray:
    """Lower triangles (instances, J, J), of a network with two units behind them, completed by their mirror image, or by zeros."""
    mirrored = lower if lower.ndim == 3 else np.swapaxes(lower, 3, 4)
    above = np.swapaxes(mirrored, 1, 2) if symmetric else np.zeros_like(lower)
    below = np.tri(lower.shape[1], dtype=bool)
    return np.where(below if lower.ndim == 3 else below[:, :, None, None], lower, above)


def _pairs_of(arrays: Mapping[str, np.ndarray], copies: int) -> np.ndarray:
    """The inverse of `two_times`: what the lines of a finished result had recorded, up to what both copies had in common."""
    if copies == 1:
        return arrays["columns/C"][:, None]
    columns = np.stack([arrays[f"columns/{name}"] for name in SIMULATED_KERNELS], axis=1)
    both = np.repeat(columns, copies, axis=0)
    both[::copies, PAIR_PROBES], both[1::copies, PAIR_PROBES] = 0.0, FORCE * columns[:, PAIR_PROBES]
    return both


def outcome(run: Run, states: States) -> str:
    """The outcome in one line: how the run ended, or how far it has come."""
    diverged, total = int(np.sum(states.diverged_at[::states.copies] >= 0)), states.step.size // states.copies
    finished = states.instances_finished(run.algorithm.steps)
    if finished < total:
        return f"unfinished: {finished} of {total} instances"
    return f"diverged: {diverged} of {total} instances" if diverged else "complete"


def save(path: str | Path, run: Run, states: States, attrs: store.Attributes | None = None) -> None:
    """Write a result file."""
    arrays = to_arrays(run, states)
    told = {"outcome": outcome(run, states), **meanings_text(observables_of(run)), **(attrs or {})}
    store.save(path, "simulation", run.to_toml(), arrays, told, names=layout_axes("simulation", run.has_network, arrays, told))


def load(path: str | Path) -> tuple[Run, States]:
    """Read a result file or a checkpoint."""
    return unpack(store.load(path))


def unpack(stored: store.Stored) -> tuple[Run, States]:
    """Run and states in a file that has been read; in a checkpoint every instance has a step of its own."""
    if stored.kind != "simulation":
        raise FileError(f"{stored.path}: holds a {stored.kind} result, not a simulation")
    run = parse_run(stored.run_text, str(stored.path), any_loss=True)
    kept = simulated_steps(run)
    copies = copies_of(run)
    layouts.check(stored, {"instance": run.simulation.instances, "line": run.simulation.instances * copies,
                           "dimension": run.simulation.dimension}, observables=run.theory.observables)
    samples = sizes(run.simulation.dimension, run.problem.alpha)[1]
    if stored.is_checkpoint:
        check_layout(stored, layouts.CHECKPOINTS[stored.kind])
        part = stored_part(stored, 0, INSTANCES)
        return run, States.from_arrays(part.shared["record"], kept, part.own, samples)
    arrays = {name: stored.arrays[f"state/{name}"] for name in ("step", "w", "s", "diverged_at")}
    arrays |= {name: stored.arrays[f"state/{name}"] for name in ("b", "before") if f"state/{name}" in stored.arrays}
    if run.has_network:
        arrays["curves"] = network_rows(run, stored.arrays)
        arrays |= {"pairs": _pairs_of(stored.arrays, copies)} if kept.size else {}
        return run, States.from_arrays(stored.arrays["state/record"], kept, arrays, samples)
    nothing = np.full_like(stored.arrays["m"], np.nan)
    rows = recorded_rows(run) if run.known else ROWS + observables_of(run)     # something is a user's, and not known here
    arrays["curves"] = np.repeat(np.stack([stored.arrays.get(name, nothing) for name in rows], axis=1), copies, axis=0)
    for name in ("w", "b") if "snapshots/w" in stored.arrays else ():
        arrays[f"snapshot_{name}"] = np.repeat(stored.arrays[f"snapshots/{name}"], copies, axis=0)
    if kept.size:
        arrays["pairs"] = _pairs_of(stored.arrays, copies)
    if run.simulation.clones:
        arrays["C_12"] = np.repeat(stored.arrays["C_12"], copies, axis=0)
    return run, States.from_arrays(stored.arrays["state/record"], kept, arrays, samples)
