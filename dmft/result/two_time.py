"""Two-time kernels of a result with their errors: maps over saved times, and columns at waiting times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmft.core.errors import did_you_mean
from dmft.core.notebook import html_card, sparkline
from dmft.equations.kernels import COLUMNS, KERNELS


class _Named:
    """Arrays by name; a name that is none of them is answered with the nearest one."""

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The times and all that this result has, with errors, by name."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def __getattr__(self, name: str) -> Any:
        known = [each for each in self.arrays if not each.endswith("_error")]
        raise AttributeError(f"{type(self).__name__} have no {name!r}, only {', '.join(known)}{did_you_mean(name, known)}")


@dataclass(frozen=True, eq=False, repr=False)
class Kernels(_Named):
    """Two-time kernels on the saved times t (P,); each (P, P), with its standard error. M_R[i, j] = M_R(t_i, t_j) and
    R likewise are densities, zero for j >= i.

    With a full history these are entries at single times. In a history of blocks entry [i, j], j < i, is the average of the
    kernel at t_i over the cell of times t[j] .. t_last[j]; where a cell is a single time (`exact`) it is that entry. `Columns`
    hold entries at waiting times."""

    t: np.ndarray
    M_C: np.ndarray
    M_R: np.ndarray
    C: np.ndarray
    R: np.ndarray
    M_C_error: np.ndarray
    M_R_error: np.ndarray
    C_error: np.ndarray
    R_error: np.ndarray
    V: np.ndarray | None = None     # random starts: N <m m>, symmetric
    V_error: np.ndarray | None = None
    K1: np.ndarray | None = None    # a density below the diagonal, K1(t, t) itself on it
    K1_error: np.ndarray | None = None
    Z: np.ndarray | None = None
    Z_error: np.ndarray | None = None
    t_last: np.ndarray | None = None  # last time of each cell of t'; NaN where a file of version 0.2 or before does not tell

    @property
    def exact(self) -> np.ndarray:
        """(P,) bool: the cells of one time."""
        return np.ones(self.t.size, bool) if self.t_last is None else self.t_last == self.t

    @property
    def single(self) -> Kernels:
        """The kernels between single times alone."""
        return self._at(np.flatnonzero(self.exact))

    def near(self, times: Sequence[float]) -> Kernels:
        """The kernels between the saved times nearest to these."""
        return self._at(np.unique([int(np.argmin(np.abs(self.t - time))) for time in times]))

    def _at(self, at: np.ndarray) -> Kernels:
        return Kernels(**{name: array[at] if array.ndim == 1 else array[np.ix_(at, at)] for name, array in self.arrays.items()})

    def __repr__(self) -> str:
        until = f" up to t = {self.t[-1]:g}" if self.t.size else ""
        cells = self.t.size - int(self.exact.sum())
        return f"<Kernels {', '.join(KERNELS)} on {self.t.size} saved times{until}" + (f", {cells} cells of t'>" if cells else ">")

    def _repr_html_(self) -> str:
        rows = [(f"{name}(t, 0)", "", sparkline(self.t, getattr(self, name)[:, 0])) for name in KERNELS]
        return html_card("two-time kernels", {"saved times": self.t.size}, rows)


@dataclass(frozen=True, eq=False, repr=False)
class Columns(_Named):
    """Kernels at waiting times: C(t, t_w) and so on, entries at single times in any history, each (L, J) with its standard error;
    NaN for t < t_w. chi is the response at t to a force that acts from t_w on, the sum of R(t, s) over s >= t_w."""

    t: np.ndarray       # (L,)
    t_w: np.ndarray     # (J,)
    M_C: np.ndarray
    M_R: np.ndarray
    C: np.ndarray
    R: np.ndarray
    chi: np.ndarray
    M_C_error: np.ndarray
    M_R_error: np.ndarray
    C_error: np.ndarray
    R_error: np.ndarray
    chi_error: np.ndarray
    D: np.ndarray | None = None         # with theory.fdt: [fdt-D], and the temperatures of fluctuation and response
    T_eff: np.ndarray | None = None
    T_loc: np.ndarray | None = None
    D_error: np.ndarray | None = None
    T_eff_error: np.ndarray | None = None
    T_loc_error: np.ndarray | None = None

    def after(self, name: str, j: int, *units: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau, a kernel at (t_w + tau, t_w) and its error, for waiting time j and the times from there on that were reached; of a
        network between two of its units."""
        values, errors = (getattr(self, each)[(slice(None), j, *units)] for each in (name, f"{name}_error"))
        known = np.isfinite(values)
        return self.t[known] - self.t_w[j], values[known], errors[known]

    def __repr__(self) -> str:
        return f"<Columns {', '.join(COLUMNS)} at {self.t.size} times after {self.t_w.size} waiting times up to {self.t_w[-1]:g}>"
