"""Files of simulations: results, and checkpoints of runs under way."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.checkpoint import check_layout, stored_part
from dmft.core.errors import FileError
from dmft.core.parts import INSTANCES
from dmft.files import layouts
from dmft.files.network_layouts import named_axes
from dmft.model.curves import meanings_text
from dmft.model.experiment import known_errors, observables_of
from dmft.model.runfile import Run, parse_run
from sgd_sim.landscape import sizes
from sgd_sim.recording import ROWS, network_curves, network_rows, recorded_curves, recorded_rows, times_of
from sgd_sim.states import States


def to_arrays(run: Run, states: States) -> dict[str, np.ndarray | dict[str, np.ndarray]]:
    """The datasets of a result: curves (instances, times) and, under "state", what a longer run continues from."""
    arrays = states.arrays()
    curves = arrays.pop("curves")
    if not arrays["before"].shape[1]:
        del arrays["before"]
    found: dict[str, np.ndarray | dict[str, np.ndarray]]
    if run.has_network:
        rows = network_curves(run, curves)
        found = {**rows}
    else:
        rows = {name: curves[:, k] for k, name in enumerate(recorded_rows(run))}
        found = {name: rows[name] for name in recorded_curves(run)}
    found |= known_errors(run, rows, states.record)
    found["t"] = times_of(run, states.record)
    found["diverged"] = states.diverged_at >= 0
    return found | {"state": {"record": states.record, **arrays}}


def outcome(run: Run, states: States) -> str:
    """The outcome in one line: how the run ended, or how far it has come."""
    diverged, total = int(np.sum(states.diverged_at >= 0)), states.step.size
    finished = int(np.sum(states.finished(run.algorithm.steps)))
    if finished < total:
        return f"unfinished: {finished} of {total} instances"
    return f"diverged: {diverged} of {total} instances" if diverged else "complete"


def save(path: str | Path, run: Run, states: States, attrs: store.Attributes | None = None) -> None:
    """Write a result file."""
    arrays = to_arrays(run, states)
    told = {"outcome": outcome(run, states), **meanings_text(observables_of(run)), **(attrs or {})}
    store.save(path, "simulation", run.to_toml(), arrays, told, axes=named_axes("simulation", arrays) if run.has_network else None)


def load(path: str | Path) -> tuple[Run, States]:
    """Read a result file or a checkpoint."""
    return unpack(store.load(path))


def unpack(stored: store.Stored) -> tuple[Run, States]:
    """Run and states in a file that has been read; in a checkpoint every instance has a step of its own."""
    if stored.kind != "simulation":
        raise FileError(f"{stored.path}: holds a {stored.kind} result, not a simulation")
    run = parse_run(stored.run_text, str(stored.path), any_loss=True)
    layouts.check(stored, {"instance": run.simulation.instances, "dimension": run.simulation.dimension},
                  observables=run.theory.observables)
    samples = sizes(run.simulation.dimension, run.problem.alpha)[1]
    if stored.is_checkpoint:
        check_layout(stored, layouts.CHECKPOINTS[stored.kind])
        part = stored_part(stored, 0, INSTANCES)
        return run, States.from_arrays(part.shared["record"], part.own, samples)
    arrays = {name: stored.arrays[f"state/{name}"] for name in ("step", "w", "s", "diverged_at")}
    arrays |= {name: stored.arrays[f"state/{name}"] for name in ("b", "before") if f"state/{name}" in stored.arrays}
    if run.has_network:
        arrays["curves"] = network_rows(run, stored.arrays)
        return run, States.from_arrays(stored.arrays["state/record"], arrays, samples)
    nothing = np.full_like(stored.arrays["m"], np.nan)
    rows = recorded_rows(run) if run.known else ROWS + observables_of(run)     # something is a user's, and not known here
    arrays["curves"] = np.stack([stored.arrays.get(name, nothing) for name in rows], axis=1)
    return run, States.from_arrays(stored.arrays["state/record"], arrays, samples)
