"""The states of all instances of a run: weights, last mini-batch, curves so far. Results and checkpoints save them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from sgd_sim.landscape import sizes
from sgd_sim.recording import record_steps, recorded_rows

NOT_STARTED = -1
Chosen = np.ndarray | slice     # which instances


@dataclass
class States:
    """Arrays over the instances of a run; an instance with step NOT_STARTED has no weights yet."""

    record: np.ndarray        # (R,) steps that are recorded
    step: np.ndarray          # (I,) steps done
    w: np.ndarray             # (I, N)
    s: np.ndarray             # (I, M) uint8 for the persistent chain, else (I, 0): other mini-batches have no memory
    curves: np.ndarray        # (I, recorded rows, R), NaN where not reached
    diverged_at: np.ndarray   # (I,) step, or -1
    b: np.ndarray             # (I,) intercept
    before: np.ndarray        # (I, N) weights of the step before, with momentum, else (I, 0)

    def finished(self, steps: int) -> np.ndarray:
        """(I,) true for an instance that has reached the end or has diverged."""
        return (self.step >= steps) | (self.diverged_at >= 0)

    def progress(self, steps: int) -> float:
        """Share of all steps of all instances that is done."""
        return float(np.where(self.finished(steps), 1.0, np.maximum(self.step, 0) / steps).mean())

    def arrays(self, chosen: Chosen = slice(None)) -> dict[str, np.ndarray]:
        """The arrays of some instances, copied, one line each; s takes one bit a sample."""
        arrays = {name: getattr(self, name)[chosen].copy() for name in ("step", "w", "curves", "diverged_at", "b", "before")}
        return arrays | {"s": np.packbits(self.s[chosen], axis=1)}

    @classmethod
    def from_arrays(cls, record: np.ndarray, arrays: Mapping[str, np.ndarray], samples: int) -> States:
        """The inverse of `arrays`, for instances with that many data samples."""
        packed = arrays["s"]
        s = np.unpackbits(packed, axis=1, count=samples) if packed.shape[1] else packed
        b, before = arrays.get("b", np.zeros(len(packed))), arrays.get("before", np.zeros((len(packed), 0)))   # not in older files
        return cls(record, arrays["step"], arrays["w"], s, arrays["curves"], arrays["diverged_at"], b, before)

    def take_over(self, old: States, chosen: Chosen) -> None:
        """Continue these instances from the states `old`, whose run may have been shorter. Every step that the longer run records
        up to the old end was recorded there (recording.py)."""
        for name in ("step", "w", "s", "diverged_at", "b", "before"):
            getattr(self, name)[chosen] = getattr(old, name)
        _, here, there = np.intersect1d(self.record, old.record, return_indices=True)
        curves = self.curves[chosen]
        curves[:, :, here] = old.curves[:, :, there]
        self.curves[chosen] = curves


def remembers(run: Run) -> bool:
    """True if a step needs the weights of the step before (momentum)."""
    return not Experiment.from_run(run).update.plain


def parameters(run: Run) -> int:
    """Numbers that an instance learns: weights, and for a network the second layer and the intercepts after them."""
    n, p = run.simulation.dimension, run.network.units
    return p * (n + 2) if run.has_network else n


def empty_states(run: Run) -> States:
    """The states of a run none of whose instances has started."""
    instances, record = run.simulation.instances, record_steps(run)
    n, m = parameters(run), sizes(run.simulation.dimension, run.problem.alpha)[1]
    return States(record, np.full(instances, NOT_STARTED, np.int64), np.zeros((instances, n)),
                  np.zeros((instances, m if run.algorithm.kind == "persistent_sgd" else 0), np.uint8),
                  np.full((instances, len(recorded_rows(run)), record.size), np.nan), np.full(instances, -1, np.int64),
                  np.zeros(instances), np.zeros((instances, n if remembers(run) else 0)))


def grown_states(old: States, run: Run) -> States:
    """The states of a run with more instances or a later end, continued from those of the old one."""
    new = empty_states(run)
    new.take_over(old, slice(0, old.step.size))
    return new
