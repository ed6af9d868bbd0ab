"""The result of a simulation: curves of every instance, and their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.averages import finite_error, finite_mean, with_error
from dmft.core.errors import did_you_mean
from dmft.core.notebook import html_card, sparkline
from dmft.model.curves import ERRORS, KNOWN, NETWORK, TABLE, axes_of, components, meanings, meanings_text
from dmft.model.data import starts_at_random
from dmft.model.experiment import known_errors, observables_of
from dmft.model.quantities import to_dataset, to_frame
from dmft.model.runfile import Run
from sgd_sim import archive
from sgd_sim.recording import ROWS, network_curves, network_shapes, recorded_curves, times_of
from sgd_sim.snapshots import SimulatedSnapshots, snapshots_of
from sgd_sim.states import States

SIMULATED = tuple(curve.name for curve in TABLE if curve.simulation)
ON_NEW = tuple(curve.name for curve in (*TABLE, *NETWORK) if curve.simulation == ERRORS)
SOLVED = 1e-7     # training loss below which an instance counts as having found the teacher, as in the paper


class Curves(dict[str, np.ndarray]):
    """One number at each time, for each quantity that there is, by name: curves["m"] or curves.m."""

    def __getattr__(self, name: str) -> np.ndarray:
        if name in self:
            return self[name]
        raise AttributeError(f"no curve {name!r}; there are {', '.join(self)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


@dataclass(frozen=True)
class Share:
    """Share of instances with a property at each time, and its confidence interval."""

    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    count: np.ndarray     # instances with the property
    instances: int


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedKernels:
    """Two-time quantities of all instances, which are the first axis. As `kernels` at pairs of waiting times, t = t_w, symmetric
    (R: causal); as `columns` at all recorded times t, NaN for t < t_w. M_C of the last time is NaN: no mini-batch is drawn then. Of
    a network there is C alone, with two more axes of units."""

    t: np.ndarray       # (L,)
    t_w: np.ndarray     # (J,)
    C: np.ndarray       # (instances, L, J), or (instances, L, J, p, p)
    M_C: np.ndarray | None = None
    R: np.ndarray | None = None

    def mean(self, name: str) -> np.ndarray:
        """(L, J): average over the instances of which it is known."""
        return finite_mean(getattr(self, name))

    def error(self, name: str) -> np.ndarray:
        """(L, J): standard error of the mean."""
        return finite_error(getattr(self, name))

    def after(self, name: str, j: int, *units: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau, the mean at (t_w + tau, t_w) and its error, for waiting time j; of a network between two of its units."""
        place: Any = (slice(None), j, *units)
        mean, error = self.mean(name)[place], self.error(name)[place]
        known = np.isfinite(mean)
        return self.t[known] - self.t_w[j], mean[known], error[known]


@dataclass(frozen=True, eq=False, repr=False)
class SimulationResult:
    """Curves (instances, times); NaN where an instance has diverged or, in a checkpoint, has not been recorded yet.

    mse is (B.8) from m and q; mse_fresh is the same error measured on samples outside the training set. Where labels are signs
    there are the error (error_from_overlaps: from m, q and b; "error" in files and statistics), error_fresh and training_error
    instead; curves that a data model does not define are NaN. The mean of V = N m^2 over instances is the V of the theory of random
    starts. Statistics leave out NaN, except `share_below`, where a diverged instance counts as not below.
    """

    run: Run
    t: np.ndarray
    curves: dict[str, np.ndarray]     # those that this result has, by name
    diverged: np.ndarray      # (instances,) bool
    states: States            # what a longer run continues from
    kernels: SimulatedKernels | None = None     # where the run asks for two-time quantities
    columns: SimulatedKernels | None = None
    snapshots: SimulatedSnapshots | None = None     # where the run asks for some
    attrs: dict[str, Any] = field(default_factory=dict)     # of its file

    def __getattr__(self, name: str) -> np.ndarray:
        """simulation.m and so on, (instances, times)."""
        if name in self.__dict__.get("curves", {}) or name in SIMULATED:
            return self.curve(name)
        known = self.__dict__.get("curves", {})
        raise AttributeError(f"a SimulationResult has no {name!r}; its curves: {', '.join(known)}{did_you_mean(name, known)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__dict__.get("curves", {})]

    def curve(self, name: str) -> np.ndarray:
        """A curve, (instances, times); NaN for one that is not defined here."""
        return self.curves[name] if name in self.curves else np.full_like(self.curves["m"], np.nan)

    @property
    def error_from_overlaps(self) -> np.ndarray:
        """The curve "error", whose name is that of a method here."""
        return self.curve("error")

    @property
    def V(self) -> np.ndarray:
        """N m^2, (instances, times)."""
        return self.run.simulation.dimension * self.m**2

    @property
    def instances(self) -> int:
        return self.m.shape[0]

    def __repr__(self) -> str:
        return f"<SimulationResult {self._about()}: {self._at_end('loss' if self.run.has_network else 'm')}>"

    def _repr_html_(self) -> str:
        mean = self.mean()
        names = ("loss", "mse") if self.run.has_network else ("m", "loss")
        curves = [(name, self._at_end(name), sparkline(self.t, mean[name])) for name in names]
        return html_card(self.run.title or "simulation", {"run": self._about(), "diverged": int(self.diverged.sum())}, curves)

    def _about(self) -> str:
        run = self.run
        return (f"{run.algorithm.kind}, alpha = {run.problem.alpha:g}, N = {run.simulation.dimension}, "
                f"{self.instances} instances")

    def _at_end(self, name: str) -> str:
        mean, error = self.mean()[name], self.error()[name]
        reached = np.flatnonzero(np.isfinite(mean))
        if not reached.size:
            return "nothing recorded yet"
        last = reached[-1]
        return f"mean {name}({self.t[last]:g}) = {with_error(mean[last], error[last])}"

    def mean(self) -> Curves:
        """Average over instances."""
        return self._each(finite_mean)

    def error(self) -> Curves:
        """Standard error of the mean; NaN with fewer than two instances."""
        return self._each(finite_error)

    def median(self) -> Curves:
        """Median over instances."""
        return self.quantile(0.5)

    def quantile(self, p: float) -> Curves:
        """Quantile over instances, linear between order statistics."""
        return self._each(lambda values: _quantile(values, p))

    def share_below(self, threshold: float, confidence: float = 0.95) -> Share:
        """Share of instances whose training loss is below a threshold, with Wilson's binomial interval."""
        return wilson(np.sum(self.loss < threshold, axis=0), self.instances, confidence)   # NaN compares false

    def first_passage(self, level: float) -> np.ndarray:
        """(instances,) the first recorded time at which |m| has reached a level: infinite if it never does, NaN if the instance
        diverged before. The passage itself lies between that record and the previous one."""
        passed = np.abs(self.m) >= level      # NaN compares false
        times = np.where(passed.any(axis=1), self.t[passed.argmax(axis=1)], np.inf)
        return np.where(self.diverged & np.isinf(times), np.nan, times)

    def share_passed(self, level: float, confidence: float = 0.95) -> Share:
        """Share of instances whose |m| has reached a level by each recorded time, with Wilson's binomial interval. An instance that
        diverged before counts as not passed."""
        times = self.first_passage(level)
        return wilson(np.sum(times[:, None] <= self.t, axis=0), self.instances, confidence)

    def to_dataframe(self) -> Any:
        """A pandas.DataFrame of the curves: a row for each instance and time, columns instance, t, m, loss, ..."""
        index = {"instance": np.repeat(np.arange(self.instances), self.t.size), "t": np.tile(self.t, self.instances)}
        return to_frame(index | {part: column.ravel() for name, array in self.curves.items()
                                 for part, column in components(name, array, 2).items()})

    def to_xarray(self) -> Any:
        """An xarray.Dataset: curves over (instance, t), with units."""
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
            name: (axes_of(name, array, "instance", "t"), array) for name, array in self.curves.items()}
        variables["diverged"] = (("instance",), self.diverged)
        return to_dataset(variables, {"t": self.t}, {"kind": "simulation", "run": self.run.to_toml(), **meanings(self.attrs)})

    def save(self, path: str | Path) -> None:
        """Write a result file."""
        archive.save(path, self.run, self.states, meanings(self.attrs))

    def _each(self, statistic) -> Curves:
        return Curves({name: statistic(self.V if name == "V" else self.curve(name))
                       for name in (self.curves if self.run.has_network else dict.fromkeys((*SIMULATED, *self.curves)))})


def wilson(count: np.ndarray, n: int, confidence: float) -> Share:
    """Shares count/n with Wilson's interval."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = count / n
    centre = (share + z * z / (2 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * np.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    return Share(share, np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0), count, n)


def _meaningful(run: Run, states: States) -> tuple[str, ...]:
    """Names of the recorded rows that mean something: those with numbers, where something is a user's and not known here."""
    if run.has_network:
        return tuple(network_shapes(run))
    if run.known:
        return recorded_curves(run)
    return tuple(name for name, values in _rows(run, states).items()
                 if name in KNOWN and KNOWN[name].always or np.isfinite(values).any())


def _rows(run: Run, states: States) -> dict[str, np.ndarray]:
    """What was recorded, by name."""
    if run.has_network:
        return network_curves(run, states.curves)
    averages = observables_of(run)
    names = ROWS[:states.curves.shape[1] - len(averages)] + averages
    return {name: states.curves[::states.copies, k] for k, name in enumerate(names)}


def make_result(run: Run, states: States, attrs: Mapping[str, Any] | None = None,
                told: Mapping[str, np.ndarray] | None = None) -> SimulationResult:
    """The result of the recorded states of all instances; attrs: of its file; told: what it says of errors on new samples, where
    something is a user's and nobody here can compute them."""
    rows = _rows(run, states)
    found = {name: rows[name] for name in _meaningful(run, states)} | dict(told or {}) | known_errors(run, rows, states.record)
    found |= archive.clones(run, states)
    if starts_at_random(run.problem):
        found["V"] = run.simulation.dimension * rows["m"]**2
    curves = {name: found[name] for name in (*SIMULATED, *found) if name in found}
    pairs = archive.two_times(run, states)
    kernels, columns = (SimulatedKernels(**{"t_w": pairs[name]["t"], **pairs[name]}) if pairs else None
                        for name in ("kernels", "columns"))
    return SimulationResult(run=run, t=times_of(run, states.record), curves=curves, states=states, kernels=kernels, columns=columns,
                            snapshots=snapshots_of(run, states), diverged=states.diverged_at[::states.copies] >= 0,
                            attrs=dict(attrs or meanings_text(curves)))


def load(path: str | Path) -> SimulationResult:
    """Read a result file, or the checkpoint of a run under way."""
    stored = store.load(path)
    told = {name: stored.arrays[name] for name in ON_NEW if name in stored.arrays}
    return make_result(*archive.unpack(stored), stored.attrs, told)


def _quantile(values: np.ndarray, p: float) -> np.ndarray:
    columns = [column[np.isfinite(column)] for column in values.reshape(len(values), -1).T]
    return np.array([np.quantile(column, p) if column.size else np.nan for column in columns]).reshape(values.shape[1:])
