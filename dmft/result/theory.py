"""The result of a theory run: curves and kernels with their errors as arrays; how it is saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.averages import mean_and_error, with_error
from dmft.core.errors import FileError, UserError
from dmft.core.notebook import html_card, sparkline
from dmft.core.tree import flatten
from dmft.equations.kernels import COLUMNS, FDT_COLUMNS, KERNELS, Kept
from dmft.files import layouts
from dmft.model.curves import ERRORS, TABLE, meanings
from dmft.model.experiment import by_loss, known_errors
from dmft.model.quantities import to_dataset
from dmft.model.runfile import Run, parse_run
from dmft.model.two_times import snapshot_steps, visited_steps
from dmft.result import pictures
from dmft.result.escape import PATHS, EscapeLaw, first_passage, growth_of
from dmft.result.fdt import FluctuationDissipation, bath_of
from dmft.result.fluctuations import drawn_paths, fluctuations_of
from dmft.result.hessian import HessianLaw, hessian_law
from dmft.result.snapshots import Snapshots
from dmft.result.statistics import BIAS, COLUMN, DIVERGED, HISTORY_ERROR, ReplicaStatistics, averaged

THEORY_CURVES = tuple(curve.name for curve in TABLE if curve.theory)
_ON_NEW = tuple(curve.name for curve in TABLE if curve.theory == ERRORS)


@dataclass(frozen=True, eq=False, repr=False)
class Kernels:
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
        at = np.flatnonzero(self.exact)
        return Kernels(**{name: array[at] if array.ndim == 1 else array[np.ix_(at, at)] for name, array in self.arrays.items()})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """t, the kernels that this result has, and their errors, by name."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def __repr__(self) -> str:
        until = f" up to t = {self.t[-1]:g}" if self.t.size else ""
        cells = self.t.size - int(self.exact.sum())
        return f"<Kernels {', '.join(KERNELS)} on {self.t.size} saved times{until}" + (f", {cells} cells of t'>" if cells else ">")

    def _repr_html_(self) -> str:
        rows = [(f"{name}(t, 0)", "", sparkline(self.t, getattr(self, name)[:, 0])) for name in KERNELS]
        return html_card("two-time kernels", {"saved times": self.t.size}, rows)


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
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

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Times and all columns that this result has, by name."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def after(self, name: str, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau, a kernel at (t_w + tau, t_w) and its error, for waiting time j and the times from there on that were reached."""
        values, errors = getattr(self, name)[:, j], getattr(self, f"{name}_error")[:, j]
        known = np.isfinite(values)
        return self.t[known] - self.t_w[j], values[known], errors[known]

    def __repr__(self) -> str:
        return f"<Columns {', '.join(COLUMNS)} at {self.t.size} times after {self.t_w.size} waiting times up to {self.t_w[-1]:g}>"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Theory:
    """Curves over t (n+1,), means over replicas, each with its standard error under the same name with _error: theory.m and
    theory.m_error, or theory.curves["m"]. dmft/model/curves.py says what they mean; those that are not defined for a run are None,
    such as mse where the loss declares no error. Observables of the run are curves, too.

    Replicas that diverged are in `replicas` and in no mean. From a random start V and gain are made of averages over replicas
    (docs/random-starts.md).
    nu_gap and ibp_gap are those of the response as sampled, before the identity [ibp] completes it: a check of the tangents.
    """

    run: Run
    outcome: str
    t: np.ndarray
    curves: dict[str, np.ndarray]               # all that this result has, and their errors, by name
    replicas: dict[str, np.ndarray]             # name -> (replicas, n+1)
    bias: dict[str, np.ndarray]                 # estimated finite-sample bias: m, m_error, ..., columns/C, columns/C_error, ...
    history_error: dict[str, np.ndarray] = field(default_factory=dict)  # what blocks of the history cost, in the same way
    kernels: Kernels
    columns: Columns | None = None              # None in files of version 0.2 and before
    history: np.ndarray | None = None           # iterate: residual before mixing, (sweeps, replicas)
    attrs: dict[str, Any] = field(default_factory=dict)
    state: dict[str, np.ndarray] = field(default_factory=dict)  # sums over replicas, to which more replicas can be added
    random_start: dict[str, np.ndarray] = field(default_factory=dict)  # rows of K1, Z and a, replicas first
    snapshots: Snapshots | None = None          # where the run asks for some

    def __getattr__(self, name: str) -> Any:
        """theory.m, theory.m_error, and observables by their names; None for curves that are not defined here, or missing in a file
        of an earlier version."""
        curves = self.__dict__.get("curves", {})
        if name in curves:
            return curves[name]
        if name.removesuffix("_error") in THEORY_CURVES or name in THEORY_CURVES:
            return None
        raise AttributeError(f"a Theory has no {name!r}; its curves: {', '.join(self.names)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.curves]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the curves of this result."""
        return tuple(name for name in self.__dict__.get("curves", {}) if f"{name}_error" in self.curves)

    @property
    def averaged(self) -> np.ndarray:
        """(replicas,) bool: which of them means and errors run over, those that did not diverge (all, if none got through)."""
        outcomes = str(self.attrs["outcomes"]).split(",") if "outcomes" in self.attrs else []
        return averaged(outcomes) if outcomes else np.ones(len(self.replicas["m"]), bool)

    @property
    def diverged(self) -> int:
        """How many replicas diverged."""
        return str(self.attrs.get("outcomes", "")).split(",").count(DIVERGED)

    @property
    def dimension_bound(self) -> float:
        """Dimension N up to which a simulation loses less than one of its alpha N data samples, 1/(alpha lost); inf where none
        was lost, or the file is older than this curve. Eq. [lost]."""
        share = np.nanmax(self.lost, initial=0.0) if self.lost is not None else 0.0
        return 1.0 / (self.run.problem.alpha * float(share)) if share > 0 else np.inf

    def __repr__(self) -> str:
        theory = self.run.theory
        return (f"<Theory {self.run.algorithm.kind}, alpha = {self.run.problem.alpha:g}, {theory.method}, {self._replicas()} of "
                f"{theory.samples} samples: {self.outcome}, {self._at_end(self._main)}>")

    @property
    def _main(self) -> str:
        """The curve that tells most: m is 0 from a random start."""
        return "m" if self.V is None else "V"

    def _replicas(self) -> str:
        count = len(self.replicas["m"])
        return f"{count} replica{'s' if count != 1 else ''}" + (f" ({self.diverged} diverged)" if self.diverged else "")

    def _repr_html_(self) -> str:
        run = self.run
        facts = {"run": f"{run.algorithm.kind}, alpha = {run.problem.alpha:g}, learning rate {run.algorithm.rate_text}",
                 "solved by": f"{run.theory.method}, {self._replicas()} of {run.theory.samples} samples",
                 "outcome": self.outcome}
        curves = [(name, self._at_end(name), sparkline(self.t, self.curves[name])) for name in (self._main, "loss", "nu_hat")]
        return html_card(run.title or "theory", facts, curves)

    def _at_end(self, name: str) -> str:
        values, errors = self.curves[name], self.curves[f"{name}_error"]
        last = int(np.isfinite(values).sum()) - 1
        if last < 0:
            return "no step"
        return f"{name}({self.t[last]:g}) = {with_error(values[last], errors[last], '.5f', '.5f', 'replica')}"

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw curves and kernels; returns the matplotlib Figure, written to `path` when one is given."""
        return pictures.draw("workbench.plots.theory", self, path)

    def escape(self, b: float, N: int, paths: int = PATHS, seed: int = 1) -> EscapeLaw:
        """The law of the first time at which |m| reaches b at dimension N, from a random start (result/escape.py)."""
        if self.kernels.V is None or self.V is None:
            raise UserError(f'escape: made for start = "random"; this result has start = "{self.run.problem.start}", and no V')
        if paths < 2:
            raise UserError(f"escape: paths = {paths} must be 2 at least")
        if "per_level" not in self.random_start or self.columns is None and self.random_start["per_level"].any():
            raise UserError("escape: this result of an earlier version does not tell how its history was kept; solve it again")
        chosen = averaged(str(self.attrs["outcomes"]).split(","))
        X = drawn_paths(self.run, {name: rows[chosen] for name, rows in self.random_start.items()}, paths, seed)
        return first_passage(self.t, X, self.V, b, N, growth_of(self.kernels.t, self.kernels.V, self.kernels.exact))

    def hessian(self, t: float, dimension: int | None = None) -> HessianLaw:
        """Bulk, edges and outliers of the Hessian of the training loss at the snapshot nearest to t, as a data set of that
        dimension (of the run's simulation) shows it; UserError where the run kept no snapshots."""
        if self.snapshots is None:
            raise UserError("hessian: this result has no snapshots; solve with [theory] snapshots = [...] and hessian = true")
        n = dimension or self.run.simulation.dimension
        return hessian_law(self.run, self.snapshots, {name: self.replicas[name] for name in ("m", "q")}, self.t, t, n)

    def fdt(self) -> FluctuationDissipation:
        """Effective temperatures at the waiting times, with the bath's; UserError where the run did not ask for them."""
        if self.columns is None or self.columns.T_eff is None:
            raise UserError("fdt: this result has no temperatures; solve with [theory] fdt = true")
        return FluctuationDissipation(self.run, self.columns, bath_of(self.run, self.t, self.nu_hat, self.columns.t))

    def generalization(self, f: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Eq. B.6 along the run, at the mean overlaps: average of f(y, y_hat) over a new sample; f elementwise on arrays.
        Labels and predictions are |h0| and |h|, their squares, their signs, or h0 and h, as the loss declares (h0 and h where it
        does not); a cluster's label and the predicted one."""
        given = self.m, self.q, 0.0 if self.b is None else self.b
        return by_loss(self.run, lambda data: data.generalization(f, *given))

    def to_xarray(self) -> Any:
        """An xarray.Dataset: curves over t, replicas over (replica, t), kernels over (t_kernel, t_prime), with units."""
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {name: (("t",), array) for name, array in self.curves.items()}
        variables |= {f"replicas_{name}": (("replica", "t"), array) for name, array in self.replicas.items()}
        for what, estimates in ((BIAS, self.bias), (HISTORY_ERROR, self.history_error)):
            variables |= {f"{what}_{name.replace(COLUMN, 'column_')}": (("t",) if array.ndim == 1 else ("t_column", "t_w"), array)
                          for name, array in estimates.items()}
        kernels = dict(self.kernels.arrays)
        saved, last = kernels.pop("t"), kernels.pop("t_last", None)
        variables |= {name: (("t_kernel", "t_prime"), array) for name, array in kernels.items()}
        coordinates = {"t": self.t, "t_kernel": saved, "t_prime": saved}
        if last is not None:
            variables["t_last"] = (("t_prime",), last)
        if self.columns is not None:
            columns = self.columns.arrays
            coordinates |= {"t_column": columns.pop("t"), "t_w": columns.pop("t_w")}
            variables |= {f"column_{name}": (("t_column", "t_w"), array) for name, array in columns.items()}
        if self.history is not None:
            variables["history"] = (("sweep", "replica"), self.history)
        return to_dataset(variables, coordinates, {"kind": "theory", "outcome": self.outcome, "run": self.run.to_toml(),
                                                   **meanings(self.attrs)})

    @property
    def datasets(self) -> dict[str, np.ndarray]:
        """The arrays of the result file by name (layout in docs/hdf5.md)."""
        arrays = {"t": self.t, **self.curves}
        arrays |= {f"replicas/{name}": array for name, array in self.replicas.items()}
        arrays |= {f"bias/{name}": array for name, array in self.bias.items()}
        arrays |= {f"history_error/{name}": array for name, array in self.history_error.items()}
        arrays |= {f"kernels/{name}": array for name, array in self.kernels.arrays.items()}
        arrays |= {f"columns/{name}": array for name, array in (self.columns.arrays if self.columns else {}).items()}
        arrays |= {f"random_start/{name}": array for name, array in self.random_start.items()}
        arrays |= {f"snapshots/{name}": array for name, array in (self.snapshots.arrays if self.snapshots else {}).items()}
        arrays |= self.state
        return arrays if self.history is None else arrays | {"history": self.history}

    def save(self, path: str | Path, attrs: Mapping[str, Any] | None = None) -> None:
        """Write the result file."""
        store.save(path, "theory", self.run.to_toml(), self.datasets, {**self.attrs, **(attrs or {}), "outcome": self.outcome})


def make_theory(run: Run, statistics: ReplicaStatistics, kept: Kept, attrs: dict[str, Any], per_level: int | None = None) -> Theory:
    """Means and errors of the finished replicas. kept: which entries of kernels they hold; per_level: blocks per level of the
    history of a march."""
    t = run.algorithm.clock.t
    replicas = {name: np.array(values) for name, values in statistics.curves.items()}
    replicas |= known_errors(run, replicas)
    curves: dict[str, np.ndarray] = {}
    for name in (*(name for name in THEORY_CURVES if name in replicas), *(name for name in replicas if name not in THEORY_CURVES)):
        curves[name], curves[f"{name}_error"] = mean_and_error(statistics.chosen(replicas[name]))
    bias = statistics.estimates(BIAS)
    rows = {name: np.array(values) for name, values in statistics.random_start.items()}
    fluctuating: dict[str, np.ndarray] = {}
    if found := fluctuations_of(run, statistics, per_level):
        curves, fluctuating, bias = curves | found.curves, found.kernels, bias | found.bias
    kernels = Kernels(t[kept.grid], **statistics.kernels.with_errors(KERNELS), **fluctuating, t_last=t[kept.upto])
    columns = Columns(t[kept.times], t[kept.waiting], **statistics.kernels.with_errors(columns_of(run), COLUMN))
    kept_samples = {name: np.array(lines) for name, lines in statistics.snapshots.items()}
    state = flatten(statistics.arrays())
    history = state.pop("history", None)
    sums = {name: array for name, array in state.items() if name.startswith("state/")}
    outcome = worst(statistics.outcomes)
    return Theory(run=run, outcome=outcome, t=t, curves=curves, replicas=replicas, bias=bias,
                  history_error=statistics.estimates(HISTORY_ERROR), kernels=kernels, columns=columns, history=history,
                  attrs={**attrs, "outcomes": ",".join(statistics.outcomes)}, state=sums, random_start=rows,
                  snapshots=Snapshots(run, t[snapshot_steps(run)], **kept_samples,
                                      visited=t[visited_steps(run)] if run.theory.hessian else None) if kept_samples else None)


def columns_of(run: Run) -> tuple[str, ...]:
    """Names of the columns of a run."""
    return (*COLUMNS, *(FDT_COLUMNS if run.theory.fdt else ()))


def worst(outcomes: list[str]) -> str:
    """The outcome of a run from those of its replicas: diverged where more than half of them diverged."""
    if 2 * outcomes.count(DIVERGED) > len(outcomes):
        return DIVERGED
    for outcome in ("sweep limit", "noise floor", "converged"):
        if outcome in outcomes:
            return outcome
    return "done"


def _in_blocks(run: Run) -> bool:
    """Whether version 0.2 kept the history of a run in blocks, as far as the run tells: "auto" went by memory, too."""
    theory = run.theory
    return theory.method == "march" and (theory.history == "dyadic" or theory.history == "auto" and run.algorithm.steps > 200)


def theory_of(stored: store.Stored) -> Theory:
    """A Theory from the contents of its file; FileError when it is not one, or incomplete."""
    if stored.kind != "theory" or stored.is_checkpoint:
        raise FileError(f"{stored.path}: not a theory result but a {'checkpoint' if stored.is_checkpoint else stored.kind} file; "
                        "sgd_sim.load and onepass.load read theirs, dmft inspect shows any")
    run = parse_run(stored.run_text, str(stored.path), any_loss=True)
    layouts.check(stored, {"time": run.algorithm.steps + 1}, observables=run.theory.observables)

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {name[len(prefix):]: array for name, array in stored.arrays.items() if name.startswith(prefix)}

    curves = {key: stored.arrays[key] for name in (*THEORY_CURVES, *run.theory.observables) if name in stored.arrays
              for key in (name, f"{name}_error")}
    attrs = {name: value for name, value in stored.attrs.items() if name != "outcome"}
    state = {f"state/{name}": array for name, array in part("state/").items()}
    found = {name: array for name, array in part("kernels/").items() if name in Kernels.__annotations__}
    if "t_last" not in found and _in_blocks(run):
        found["t_last"] = np.full_like(found["t"], np.nan)
    kernels = Kernels(**found)
    columns = Columns(**found) if (found := part("columns/")) else None
    snapshots = Snapshots(run, **found) if (found := part("snapshots/")) else None
    return Theory(run=run, outcome=stored.attrs["outcome"], t=stored.arrays["t"], curves=curves, replicas=part("replicas/"),
                  bias=part("bias/"), history_error=part("history_error/"), kernels=kernels, columns=columns,
                  history=stored.arrays.get("history"), attrs=attrs, state=state, random_start=part("random_start/"),
                  snapshots=snapshots)


def statistics_of(theory: Theory) -> ReplicaStatistics:
    """The statistics that a result came from, to add replicas to."""
    arrays = {f"replicas/{name}": array for name, array in theory.replicas.items() if name not in _ON_NEW} | theory.state
    arrays |= {f"random_start/{name}": array for name, array in theory.random_start.items()}
    if theory.snapshots is not None:
        arrays |= {f"snapshots/{name}": array for name, array in theory.snapshots.arrays.items()
                   if name not in ("t", "visited")}
    if theory.history is not None:
        arrays["history"] = theory.history
    return ReplicaStatistics.from_arrays(arrays, str(theory.attrs["outcomes"]).split(","))
