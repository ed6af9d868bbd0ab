"""What the recursions of one unit (weights.py) and of a network (committee/weights.py) share: the state by name and the settings of
a step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from dmft.core.tree import overwrite
from dmft.equations.history import History
from dmft.equations.tuning import Estimator
from dmft.model.constraints import Constraint
from dmft.model.experiment import Experiment


class Settings(NamedTuple):
    """What the run prescribes for the step from row n; the last row, after which no step follows, has the settings of the last
    step. Eqs. [schedule], [momentum]."""

    n: int
    eta: float
    inertia: float  # coefficient of y_n: A_n
    recoil: float  # what is subtracted of y_{n-1}: B_n, 0 where there is no step before
    drift: float  # coefficient of w_n, where that is not y_n
    ridge: float  # lambda_n
    heat: float  # variance of the thermal noise
    constraint: Constraint

    @classmethod
    def of(cls, e: Experiment, n: int) -> Settings:
        """The settings of row n."""
        step = min(n, e.steps - 1)
        return cls(n, float(e.eta_n[step]), *e.update.shares(step), float(e.ridge_n[step]), e.heat(step), e.constraint_at(step))


@dataclass
class RecursionState:
    """The arrays and numbers of a recursion at step n; subclasses name them."""

    def arrays(self) -> dict[str, np.ndarray]:
        """All fields by name, for a checkpoint."""
        return {each.name: np.asarray(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """The state from what `arrays` gave."""
        values: dict[str, Any] = {name: array.item() if array.ndim == 0 else np.array(array, order="C")
                                  for name, array in arrays.items()}
        return cls(**values)


class Recursion:
    """The macroscopic recursion of an experiment at step n of its `state`."""

    state: Any  # with the step n among its fields

    def __init__(self, experiment: Experiment, history: History, estimator: Estimator):
        self.experiment, self.history, self.estimator = experiment, history, estimator
        self._settings = Settings.of(experiment, 0)

    @property
    def n(self) -> int:
        return self.state.n

    @property
    def settings(self) -> Settings:
        """Those of row n."""
        if self._settings.n != (n := self.n):
            self._settings = Settings.of(self.experiment, n)
        return self._settings

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over the state from what its `arrays` gave."""
        mine = {name: np.array(array) for name, array in self.state.arrays().items()}
        overwrite(mine, arrays)
        self.state = type(self.state).from_arrays(mine)

    @property
    def free(self) -> float:
        """A - eta lambda, the coefficient of y_n in a step, apart from gradient, recoil and drift."""
        return self.settings.inertia - self.settings.eta * self.settings.ridge
