"""Result files of simulations. A checkpoint has the same contents, with NaN where instances have not arrived."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.errors import FileError
from dmft.model import layouts
from dmft.model.experiment import known_errors
from dmft.model.runfile import Run, parse_run
from sgd_sim.cpu.dynamics import RECORDED
from sgd_sim.landscape import sizes
from sgd_sim.states import States


def to_arrays(run: Run, states: States) -> dict[str, np.ndarray]:
    """The datasets of a file: curves (instances, times), and under state/ what a longer run goes on from."""
    arrays = {name: states.curves[:, k] for k, name in enumerate(RECORDED)}
    arrays |= known_errors(run, arrays["m"], arrays["q"])
    arrays["t"] = states.record * run.algorithm.learning_rate
    arrays["diverged"] = states.diverged_at >= 0
    arrays["state/record"], arrays["state/step"], arrays["state/w"] = states.record, states.step, states.w
    arrays["state/diverged_at"] = states.diverged_at
    arrays["state/s"] = np.packbits(states.s, axis=1)   # one bit a sample
    return arrays


def from_arrays(run: Run, arrays: dict[str, np.ndarray]) -> States:
    """What `to_arrays` was given."""
    samples = sizes(run.simulation.dimension, run.problem.alpha)[1]
    packed = arrays["state/s"]
    s = np.unpackbits(packed, axis=1, count=samples) if packed.shape[1] else packed
    return States(arrays["state/record"], arrays["state/step"], arrays["state/w"], s,
                  np.stack([arrays[name] for name in RECORDED], axis=1), arrays["state/diverged_at"])


def outcome(run: Run, states: States) -> str:
    """One line on how the run ended, or stands."""
    diverged, total = int(np.sum(states.diverged_at >= 0)), states.step.size
    finished = int(np.sum(states.finished(run.algorithm.steps)))
    if finished < total:
        return f"unfinished: {finished} of {total} instances"
    return f"diverged: {diverged} of {total} instances" if diverged else "complete"


def save(path: str | Path, run: Run, states: States, attrs: store.Attributes | None = None) -> None:
    """Write a result file."""
    store.save(path, "simulation", run.to_toml(), to_arrays(run, states), {"outcome": outcome(run, states), **(attrs or {})})


def save_checkpoint(path: str | Path, run: Run, states: States, attrs: store.Attributes | None = None) -> None:
    """Write the checkpoint of the result `path`."""
    store.save_checkpoint(path, "simulation", run.to_toml(), to_arrays(run, states),
                          {"outcome": outcome(run, states), **(attrs or {})})


def load(path: str | Path) -> tuple[Run, States]:
    """Read a result file or a checkpoint."""
    return unpack(store.load(path))


def unpack(stored: store.Stored) -> tuple[Run, States]:
    """Run and states of a file that has been read."""
    if stored.kind != "simulation":
        raise FileError(f"{stored.path}: holds a {stored.kind} result, not a simulation")
    run = parse_run(stored.run_text, str(stored.path), any_loss=True)
    layouts.check(stored, {"instance": run.simulation.instances, "dimension": run.simulation.dimension})
    return run, from_arrays(run, stored.arrays)
