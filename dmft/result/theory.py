"""The result of a theory run: curves and kernels with their errors as arrays; how it is saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.averages import mean_and_error, with_error
from dmft.core.errors import FileError, UserError, did_you_mean
from dmft.core.notebook import html_card, sparkline
from dmft.core.tree import flatten
from dmft.equations.kernels import KERNELS, Kept, columns_of
from dmft.files import layouts
from dmft.files.axes import layout_axes
from dmft.files.layouts import DETERMINISTIC
from dmft.model.curves import ERRORS, NETWORK, TABLE, axes_of, components, meanings, name_of_curve
from dmft.model.data import data_text, is_sampled
from dmft.model.experiment import by_loss, known_errors
from dmft.model.quantities import to_dataset, to_frame
from dmft.model.runfile import Run, parse_run
from dmft.model.two_times import snapshot_steps, visited_steps
from dmft.result import pictures
from dmft.result.concerns import concerns
from dmft.result.escape import PATHS, EscapeLaw, first_passage, growth_of
from dmft.result.fdt import FluctuationDissipation, bath_of
from dmft.result.fluctuations import drawn_paths, fluctuations_of
from dmft.result.hessian import HessianLaw, hessian_law
from dmft.result.snapshots import Snapshots
from dmft.result.statistics import BIAS, COLUMN, DIVERGED, HISTORY_ERROR, ReplicaStatistics, averaged
from dmft.result.two_time import Columns as Columns
from dmft.result.two_time import Kernels as Kernels

THEORY_CURVES = tuple(curve.name for curve in TABLE if curve.theory)
NETWORK_CURVES = tuple(curve.name for curve in NETWORK if curve.theory)
_ON_NEW = tuple(curve.name for curve in (*TABLE, *NETWORK) if curve.theory == ERRORS)


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
        own = {name_of_curve(each, self.__dict__.get("attrs")): each for each in curves}  # energy: loss
        if name.removesuffix("_error") in own:
            return curves[own[name.removesuffix("_error")] + ("_error" if name.endswith("_error") else "")]
        if name.removesuffix("_error") in (*THEORY_CURVES, *NETWORK_CURVES) or name in THEORY_CURVES:
            return None
        raise AttributeError(f"a Theory has no {name!r}; its curves: {', '.join(self.names)}{did_you_mean(name, dir(self))}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__dict__.get("curves", {})]

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
    def warnings(self) -> list[str]:
        """What there is to be warned of, a line each: bias and history errors beyond the error bars, unstable and lost samples."""
        return concerns(self)

    @property
    def dimension_bound(self) -> float:
        """Dimension N up to which a simulation loses less than one of its alpha N data samples, 1/(alpha lost); inf where none
        was lost, or the file is older than this curve. Eq. [lost]."""
        share = np.nanmax(self.lost, initial=0.0) if self.lost is not None else 0.0
        return 1.0 / (self.run.problem.alpha * float(share)) if share > 0 else np.inf  # [lost]

    def __str__(self) -> str:
        return (f"<Theory {self.run.algorithm.kind}, {data_text(self.run.problem)}, {self._solved()}: {self.outcome}, "
                f"{self._at_end(self._main)}>")

    def __repr__(self) -> str:
        return f"{str(self).removesuffix('>')}; curves {', '.join(self.names)}>"

    @property
    def _main(self) -> str:
        """The curve that tells most: m is 0 from a random start, and a matrix for a network."""
        return "loss" if self.run.has_network else "m" if self.V is None else "V"

    def _replicas(self) -> str:
        count = len(self.replicas["m"])
        return f"{count} replica{'s' if count != 1 else ''}" + (f" ({self.diverged} diverged)" if self.diverged else "")

    def _solved(self) -> str:
        """How it was solved, in words."""
        if not self.sampled:
            return f"{self.run.theory.method} without samples"
        return f"{self.run.theory.method}, {self._replicas()} of {self.run.theory.samples} samples"

    @property
    def sampled(self) -> bool:
        """Whether samples were drawn; without, nothing is random, and errors are 0."""
        return is_sampled(self.run.problem)

    def _repr_html_(self) -> str:
        run = self.run
        facts = {"run": f"{run.algorithm.kind}, {data_text(run.problem)}, learning rate {run.algorithm.rate_text}",
                 "solved by": self._solved(),
                 "outcome": self.outcome, "curves": ", ".join(self.names)}
        shown = [name for name in (self._main, "loss", "nu_hat", "mse") if name in self.curves and self.curves[name].ndim == 1]
        curves = [(name, self._at_end(name), sparkline(self.t, self.curves[name])) for name in dict.fromkeys(shown[:3])]
        return html_card(run.title or "theory", facts, curves)

    def _at_end(self, name: str) -> str:
        values, errors = self.curves[name], self.curves[f"{name}_error"]
        last = int(np.isfinite(values).sum()) - 1
        if last < 0:
            return "no step"
        return f"{name}({self.t[last]:g}) = {with_error(values[last], errors[last], 'replica')}"

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
        n = self.run.simulation.dimension if dimension is None else dimension
        return hessian_law(self.run, self.snapshots, self.replicas, self.t, t, n)

    def fdt(self) -> FluctuationDissipation:
        """Effective temperatures at the waiting times, with the bath's; UserError where the run did not ask for them."""
        if self.columns is None or self.columns.T_eff is None:
            raise UserError("fdt: this result has no temperatures; solve with [theory] fdt = true")
        return FluctuationDissipation(self.run, self.columns, bath_of(self.run, self.t, self.nu_hat, self.columns.t))

    def generalization(self, f: Callable[[np.ndarray, np.ndarray], np.ndarray], *, fields: bool = False,
                       error: bool = False) -> Any:
        """Eq. B.6 along the run: average of f(y, y_hat) over a new sample; f elementwise on arrays. Labels and predictions are |h0|
        and |h|, their squares, their signs, or h0 and h, as the loss declares (h0 and h where it does not); a cluster's label and
        the predicted one. fields: hand over h0 and h themselves, whatever the labels. error: the standard error over replicas, too,
        as a pair (takes as many times longer as there are replicas)."""
        if self.run.has_network:
            raise UserError("generalization: made for a single unit; theory.mse is the error of a network on new samples")
        if not callable(f):
            raise UserError(f"generalization: {f!r} must be a function of two arrays, such as lambda y, y_hat: (y - y_hat)**2")

        def average(m: np.ndarray, q: np.ndarray, b: np.ndarray | float) -> np.ndarray:
            return by_loss(self.run, lambda data: {"f": data.average_of_fields(f, m, q) if fields
                                                   else data.generalization(f, m, q, b)})["f"]

        found = average(self.m, self.q, 0.0 if self.b is None else self.b)
        if not error:
            return found
        m, q = (self.replicas[name][self.averaged] for name in ("m", "q"))
        b = self.replicas["b"][self.averaged] if self.b is not None else np.zeros(len(m))
        return found, mean_and_error(np.array([average(*each) for each in zip(m, q, b)]))[1]

    def to_dataframe(self) -> Any:
        """A pandas.DataFrame of the curves: a row for each time, columns t, m, m_error, ...; of a network the components m[0,1]."""
        return to_frame({"t": self.t} | {part: column for name, array in self.curves.items()
                                         for part, column in components(name, array, 1).items()})

    def to_xarray(self) -> Any:
        """An xarray.Dataset: curves over t, replicas over (replica, t), kernels over (t_kernel, t_prime), with units."""
        pair, before = (("unit", "unit_prime"), "kernel_") if self.run.has_network else ((), "")
        variables = {name: (axes_of(name, array, "t"), array) for name, array in self.curves.items()}
        variables |= {f"replicas_{name}": (axes_of(name, array, "replica", "t"), array) for name, array in self.replicas.items()}
        for what, estimates in ((BIAS, self.bias), (HISTORY_ERROR, self.history_error)):
            for name, array in estimates.items():
                axes = ("t_column", "t_w", *pair) if COLUMN in name else axes_of(name, array, "t")
                variables[f"{what}_{name.replace(COLUMN, 'column_')}"] = axes, array
        kernels = dict(self.kernels.arrays)
        saved, last = kernels.pop("t"), kernels.pop("t_last", None)
        variables |= {before + name: (("t_kernel", "t_prime", *pair), array) for name, array in kernels.items()}
        coordinates = {"t": self.t, "t_kernel": saved, "t_prime": saved}
        if last is not None:
            variables["t_last"] = (("t_prime",), last)
        if self.columns is not None:
            columns = self.columns.arrays
            coordinates |= {"t_column": columns.pop("t"), "t_w": columns.pop("t_w")}
            variables |= {f"column_{name}": (("t_column", "t_w", *pair), array) for name, array in columns.items()}
        if self.history is not None:
            variables["history"] = (("sweep", "replica"), self.history)
        return to_dataset(variables, coordinates, {"kind": "theory", "outcome": self.outcome, "run": self.run.to_toml(),
                                                   **meanings(self.attrs)})

    @property
    def datasets(self) -> dict[str, np.ndarray]:
        """The arrays of the result file by name (layout in docs/hdf5.md)."""
        groups = {"replicas": self.replicas, "bias": self.bias, "history_error": self.history_error, "kernels": self.kernels.arrays,
                  "columns": self.columns.arrays if self.columns else {}, "random_start": self.random_start,
                  "snapshots": self.snapshots.arrays if self.snapshots else {}}
        arrays = {"t": self.t, **self.curves, **flatten(groups), **self.state}
        return arrays if self.history is None else arrays | {"history": self.history}

    def save(self, path: str | Path, attrs: Mapping[str, Any] | None = None) -> None:
        """Write the result file."""
        told = {**self.attrs, **(attrs or {}), "outcome": self.outcome}
        names = layout_axes("theory", self.run.has_network, self.datasets, told)
        store.save(path, "theory", self.run.to_toml(), self.datasets, told, names=names)


def make_theory(run: Run, statistics: ReplicaStatistics, kept: Kept, attrs: dict[str, Any], per_level: int | None = None) -> Theory:
    """Means and errors of the finished replicas. kept: which entries of kernels they hold; per_level: blocks per level of the
    history of a march."""
    t = run.algorithm.clock.t
    replicas = {name: np.array(values) for name, values in statistics.curves.items()}
    replicas |= known_errors(run, replicas)
    curves: dict[str, np.ndarray] = {}
    known = NETWORK_CURVES if run.has_network else THEORY_CURVES
    for name in (*(name for name in known if name in replicas), *(name for name in replicas if name not in known)):
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
    if outcome == DETERMINISTIC:
        curves, kernels = _without_errors(curves), Kernels(**_without_errors(kernels.arrays))
        columns = Columns(**_without_errors(columns.arrays))
    return Theory(run=run, outcome=outcome, t=t, curves=curves, replicas=replicas, bias=bias,
                  history_error=statistics.estimates(HISTORY_ERROR), kernels=kernels, columns=columns, history=history,
                  attrs={**attrs, "outcomes": ",".join(statistics.outcomes)}, state=sums, random_start=rows,
                  snapshots=Snapshots(run, t[snapshot_steps(run)], **kept_samples,
                                      visited=t[visited_steps(run)] if run.theory.hessian else None) if kept_samples else None)


def _without_errors(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a result that is not random, with errors 0 where there are values."""
    return {name: np.where(np.isfinite(arrays[name.removesuffix("_error")]), 0.0, np.nan) if name.endswith("_error") else array
            for name, array in arrays.items()}


def worst(outcomes: list[str]) -> str:
    """The outcome of a run from those of its replicas: diverged where more than half of them diverged."""
    if 2 * outcomes.count(DIVERGED) > len(outcomes):
        return DIVERGED
    for outcome in ("sweep limit", "noise floor", "converged", DETERMINISTIC):
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

    known = *(NETWORK_CURVES if run.has_network else THEORY_CURVES), *run.theory.observables
    curves = {key: stored.arrays[key] for name in known if name in stored.arrays
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
