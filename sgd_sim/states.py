"""The states of all instances of a run: weights, last mini-batch, curves so far. Results and checkpoints save them.

Where two-time quantities are wanted an instance has a second copy (cpu/two_times.py), and where clones are wanted one with other
mini-batches and heat. Every copy has a line: those of instance i are the lines 2i and 2i + 1, and without copies line and instance
are the same. Lines know nothing of each other, so that clones keep their weights at the recorded steps until both are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dmft.files.layouts import SIMULATED_KERNELS
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.model.two_times import simulated_steps, snapshot_steps
from sgd_sim.landscape import sizes
from sgd_sim.recording import PAIR_PROBES, record_steps, recorded_rows

NOT_STARTED = -1
NO_STEPS = np.zeros(0, np.int64)     # no steps
Chosen = np.ndarray | slice     # which lines
_KEPT = ("pairs", "kept_w", "kept_g")
_CLONES = ("C_12", "path")
_SNAPSHOTS = ("snapshot_w", "snapshot_b")


@dataclass
class States:
    """Arrays over the lines of a run; one with step NOT_STARTED has no weights yet."""

    record: np.ndarray        # (R,) steps that are recorded
    step: np.ndarray          # (L,) steps done
    w: np.ndarray             # (L, N)
    s: np.ndarray             # (L, M) uint8 for the persistent chain, else (L, 0): other mini-batches have no memory
    curves: np.ndarray        # (L, recorded rows, R), NaN where not reached
    diverged_at: np.ndarray   # (L,) step, or -1
    b: np.ndarray             # (L,) intercept
    before: np.ndarray        # (L, N) weights of the step before, with momentum, else (L, 0)
    kept: np.ndarray          # (J,) kept steps of two-time quantities
    pairs: np.ndarray         # (L, 3, R, J), of networks (L, 1, R, J, p, p), NaN where not reached
    kept_w: np.ndarray        # (L, J, N) float32, weights and gradients at the kept steps; (L, 0, 0) in a result, which needs
    kept_g: np.ndarray        # (L, J, M) float32  them no more
    snapshot_w: np.ndarray    # (L, S, N) weights and intercepts at the times of theory.snapshots, NaN where not reached
    snapshot_b: np.ndarray    # (L, S)
    C_12: np.ndarray          # (L, R) with clones, else (L, 0): what earlier stretches of the run told, NaN where nothing
    path: np.ndarray          # (L, R, N) float32 with clones: weights at the recorded steps, NaN where not reached; (L, 0, 0) in a
                              # result, which needs them no more

    @property
    def copies(self) -> int:
        """Lines of an instance."""
        return 2 if self.kept.size and self.pairs.shape[1] > PAIR_PROBES or self.C_12.shape[1] else 1

    def overlaps(self) -> np.ndarray:
        """(instances, R): C_12 = w_1.w_2/N of the two clones of every instance, NaN where one of them has not come. Eq.
        [dmft-pair]."""
        known = self.C_12[::2]
        if not self.path.shape[1]:
            return known
        found = np.einsum("irn,irn->ir", self.path[::2], self.path[1::2], dtype=np.float64) / self.path.shape[2]
        return np.where(np.isfinite(found), found, known)

    def finished(self, steps: int) -> np.ndarray:
        """(L,) true for a line that has reached the end or has diverged."""
        return (self.step >= steps) | (self.diverged_at >= 0)

    def instances_finished(self, steps: int) -> int:
        """Instances of which nothing is left to do."""
        return int(self.finished(steps).reshape(-1, self.copies).all(axis=1).sum())

    def progress(self, steps: int) -> float:
        """Share of all steps of all lines that is done."""
        return float(np.where(self.finished(steps), 1.0, np.maximum(self.step, 0) / steps).mean())

    def arrays(self, chosen: Chosen = slice(None), kept: bool = True) -> dict[str, np.ndarray]:
        """The arrays of some lines, copied; s takes one bit a sample. kept: two-time quantities, too, where there are any."""
        names = ("step", "w", "curves", "diverged_at", "b", "before", *(_KEPT if kept and self.kept.size else ()),
                 *(_SNAPSHOTS if kept and self.snapshot_w.shape[1] else ()), *(_CLONES if kept and self.C_12.shape[1] else ()))
        arrays = {name: getattr(self, name)[chosen].copy() for name in names}
        return arrays | {"s": np.packbits(self.s[chosen], axis=1)}

    @classmethod
    def from_arrays(cls, record: np.ndarray, kept: np.ndarray, arrays: Mapping[str, np.ndarray], samples: int) -> States:
        """The inverse of `arrays`, for instances with that many data samples."""
        packed = arrays["s"]
        s = np.unpackbits(packed, axis=1, count=samples) if packed.shape[1] else packed
        b, before = arrays.get("b", np.zeros(len(packed))), arrays.get("before", np.zeros((len(packed), 0)))   # not in older files
        lines, nothing = len(packed), np.zeros((len(packed), 0, 0), np.float32)
        return cls(record, arrays["step"], arrays["w"], s, arrays["curves"], arrays["diverged_at"], b, before, kept,
                   arrays.get("pairs", np.zeros((lines, len(SIMULATED_KERNELS), record.size, 0))), arrays.get("kept_w", nothing),
                   arrays.get("kept_g", nothing), arrays.get("snapshot_w", np.zeros((lines, 0, arrays["w"].shape[1]))),
                   arrays.get("snapshot_b", np.zeros((lines, 0))), arrays.get("C_12", np.zeros((lines, 0))),
                   arrays.get("path", nothing))

    def take_over(self, old: States, chosen: Chosen) -> None:
        """Continue these lines from the states `old`, whose run may have been shorter (not where steps are kept). Every step that
        the longer run records up to the old end was recorded there (recording.py)."""
        for name in ("step", "w", "s", "diverged_at", "b", "before", *(("pairs",) if self.kept.size else ()),
                     *(("kept_w", "kept_g") if old.kept_w.size else ()), *_SNAPSHOTS):
            getattr(self, name)[chosen] = getattr(old, name)
        _, here, there = np.intersect1d(self.record, old.record, return_indices=True)
        curves = self.curves[chosen]
        curves[:, :, here] = old.curves[:, :, there]
        self.curves[chosen] = curves
        for name in _CLONES if self.C_12.shape[1] else ():
            mine, theirs = getattr(self, name)[chosen], getattr(old, name)
            if theirs.size:
                mine[:, here] = theirs[:, there]
                getattr(self, name)[chosen] = mine


def clone_of(states: States, line: int) -> int:
    """1 for the second of two clones, which has noise of its own; 0 for any other line."""
    return line % 2 if states.C_12.shape[1] else 0


def stops(first: int, last: int, *kept: np.ndarray) -> list[int]:
    """The steps from first to last at which something of the weights is kept, and the last one."""
    wanted = np.unique(np.concatenate([*kept, [last]]))
    return [int(step) for step in wanted if first <= step <= last]


def copies_of(run: Run) -> int:
    """Lines of an instance."""
    return 2 if run.simulation.kernels and not run.has_network or run.simulation.clones else 1


def remembers(run: Run) -> bool:
    """True if a step needs the weights of the step before (momentum)."""
    return not Experiment.from_run(run).update.plain


def parameters(run: Run) -> int:
    """Numbers that an instance learns: weights, and for a network the second layer and the intercepts after them."""
    n, p = run.simulation.dimension, run.network.units
    return p * (n + 2) if run.has_network else n


def empty_states(run: Run) -> States:
    """The states of a run none of whose instances has started."""
    record, kept = record_steps(run), simulated_steps(run)
    lines, cloned = run.simulation.instances * copies_of(run), record.size if run.simulation.clones else 0
    n, m = parameters(run), sizes(run.simulation.dimension, run.problem.alpha)[1]
    p, network = run.network.units, run.has_network
    pairs = (1, record.size, kept.size, p, p) if network else (len(SIMULATED_KERNELS), record.size, kept.size)
    return States(record, np.full(lines, NOT_STARTED, np.int64), np.zeros((lines, n)),
                  np.zeros((lines, m if Experiment.from_run(run).batch.persists else 0), np.uint8),
                  np.full((lines, len(recorded_rows(run)), record.size), np.nan), np.full(lines, -1, np.int64),
                  np.zeros(lines), np.zeros((lines, n if remembers(run) else 0)), kept,
                  np.full((lines, *pairs), np.nan), np.zeros((lines, kept.size, n), np.float32),
                  np.zeros((lines, kept.size, 0 if network else m), np.float32),
                  np.full((lines, snapshot_steps(run).size, n), np.nan), np.full((lines, snapshot_steps(run).size), np.nan),
                  np.full((lines, cloned), np.nan), np.full((lines, cloned, n if cloned else 0), np.nan, np.float32))


def grown_states(old: States, run: Run) -> States:
    """The states of a run with more instances or a later end, continued from those of the old one."""
    new = empty_states(run)
    new.take_over(old, slice(0, old.step.size))
    return new
