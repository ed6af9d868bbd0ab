"""Where every instance of a run stands: weights, last mini-batch, curves so far. What is saved and gone on from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.model.runfile import Run
from sgd_sim.cpu.dynamics import RECORDED
from sgd_sim.landscape import sizes
from sgd_sim.recording import record_steps

NOT_STARTED = -1


@dataclass
class States:
    """Arrays over the instances of a run; an instance with step NOT_STARTED has no weights yet."""

    record: np.ndarray        # (R,) steps that are recorded
    step: np.ndarray          # (I,) steps done
    w: np.ndarray             # (I, N)
    s: np.ndarray             # (I, M) uint8 for the persistent chain, else (I, 0): other mini-batches have no memory
    curves: np.ndarray        # (I, len(RECORDED), R), NaN where not reached
    diverged_at: np.ndarray   # (I,) step, or -1

    def finished(self, steps: int) -> np.ndarray:
        """(I,) whether an instance has arrived, or will never."""
        return (self.step >= steps) | (self.diverged_at >= 0)

    def progress(self, steps: int) -> float:
        """Share of all steps of all instances that is done."""
        return float(np.where(self.finished(steps), 1.0, np.maximum(self.step, 0) / steps).mean())

    def rows(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of some instances, copied."""
        return {name: getattr(self, name)[chosen].copy() for name in PER_INSTANCE}

    def put(self, chosen: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        """Put what `rows` gave."""
        for name in PER_INSTANCE:
            getattr(self, name)[chosen] = arrays[name]


PER_INSTANCE = ("step", "w", "s", "curves", "diverged_at")


def empty_states(run: Run) -> States:
    """No instance has started."""
    instances, record = run.simulation.instances, record_steps(run)
    n, m = sizes(run.simulation.dimension, run.problem.alpha)
    return States(record, np.full(instances, NOT_STARTED, np.int64), np.zeros((instances, n)),
                  np.zeros((instances, m if run.algorithm.kind == "persistent_sgd" else 0), np.uint8),
                  np.full((instances, len(RECORDED), record.size), np.nan), np.full(instances, -1, np.int64))


def grown_states(old: States, run: Run) -> States:
    """The states of a run taken over by one with more instances or a later end."""
    new = empty_states(run)
    known = old.step.size
    for name in ("step", "w", "s", "diverged_at"):
        getattr(new, name)[:known] = getattr(old, name)
    _, here, there = np.intersect1d(new.record, old.record, return_indices=True)
    new.curves[:known, :, here] = old.curves[:, :, there]
    return new
