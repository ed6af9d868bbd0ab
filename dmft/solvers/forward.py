"""What every solution that goes forward in time is to those who run it: how far it has come, and what a checkpoint holds of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dmft.core.errors import StateError
from dmft.core.tree import nest, overwrite
from dmft.equations.history import History
from dmft.equations.kernels import Kept, Wanted, history_for
from dmft.equations.stepping import Recursion
from dmft.model.experiment import Experiment
from dmft.solvers.blocks import Alone, Summing, step_together
from dmft.solvers.longer import Longer, lengthened


class Forward(Alone):
    """A solution at step n = 0 .. steps. Which weights it has and how it comes by row n (`terms`, `take`) is that of a subclass."""

    residuals: list[float] | None = None  # only an iteration has them
    complete: ClassVar[str] = "done"  # the outcome of one that came to its end
    shown: ClassVar[str] = "m"  # the curve of the progress line; its last entry is the last that is known
    experiment: Experiment
    comm: Summing
    per_level: int | None
    wanted: Wanted
    kept: Kept
    history: History
    weights: Recursion
    curves: dict[str, np.ndarray]
    kernels: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]
    diverged: bool = False

    @property
    def n(self) -> int:
        return self.weights.n

    @property
    def done(self) -> bool:
        """True if finished or diverged."""
        return self.diverged or bool(np.isfinite(self.curves[self.shown][-1]))

    @property
    def outcome(self) -> str:
        """`complete` or "diverged"; "" while it continues."""
        return "diverged" if self.diverged else self.complete if self.done else ""

    @property
    def progress(self) -> float:
        """Share of the steps taken."""
        return min(self.n / self.experiment.steps, 1.0)

    @property
    def note(self) -> str:
        """Text for the progress line."""
        last = self.n - 1 - self.experiment.hidden
        return f"t = {self.experiment.t_n[self.n]:.2f}, {self.shown} = {self.curves[self.shown][last]:.4f}" if last >= 0 else ""

    def step(self) -> None:
        """From row n to row n+1."""
        step_together([self], self.comm)

    def random_start(self) -> dict[str, np.ndarray]:
        """OverlapRows by name; empty where the start is not random."""
        return {}

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """The arrays that rows are entered into, by group and name."""
        return {"curves": self.curves, "kernels": self.kernels, "columns": self.columns, "random_start": self.random_start()}

    def shared(self) -> dict[str, Any]:
        """What a checkpoint holds that is the same on every rank."""
        return {"weights": self.weights.state.arrays(), "history": self.history.state(), **self.tables(),
                "diverged": np.array(self.diverged), "kept": self.kept._asdict()}

    def per_sample(self) -> Mapping[str, np.ndarray]:
        """What it holds with a line per sample of this rank, and one per sample with tangents."""
        return {}

    def per_tangent(self) -> Mapping[str, np.ndarray]:
        return {}

    def restore(self, shared: Mapping[str, Any], per_sample: Mapping[str, np.ndarray],
                per_tangent: Mapping[str, np.ndarray]) -> None:
        """Take over the state of this run, or of the same run with an earlier end."""
        found, e = nest(shared), self.experiment
        before = len(found["curves"][self.shown]) - 1 + e.hidden
        if before < e.steps:
            earlier = history_for(e, self.per_level, self.wanted, before)
            if not self.history.extends(earlier):
                raise StateError("the history is in other blocks")
            longer = self.longer_than(earlier)
            found = lengthened(found, e.steps - e.hidden, self.kept, longer, self.empty_kernels())
            per_sample, per_tangent = longer.per_sample(per_sample), longer.per_tangent(per_tangent)
        self.weights.restore(found["weights"])
        self.history.restore(found["history"])
        if not self.history.size.sum() == self.weights.n <= e.steps:
            raise StateError(f"it has a history of {self.history.size.sum()} steps at step {self.weights.n} of {e.steps}")
        for group, arrays in self.tables().items():
            overwrite(arrays, found.get(group, {}))
        self.take_samples(per_sample, per_tangent)
        self.diverged = bool(found["diverged"])

    def longer_than(self, earlier: History) -> Longer:
        """Where the arrays of the same solution with an earlier end lie in this one."""
        return Longer(earlier, self.history)

    def empty_kernels(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Maps and columns of this solution, to be filled."""
        raise NotImplementedError

    def take_samples(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray]) -> None:
        """Take over what `per_sample` and `per_tangent` gave."""
