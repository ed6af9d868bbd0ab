"""The numbers of a figure: what is kept of a simulation and of a theory, small enough for a repository, and all that is drawn.

A result file holds every run, some megabytes; its numbers hold means, medians, shares of solved runs and a few single runs at the
recorded times, kernels between waiting times where a run measures them, and of some theories m and loss of every solution and the
columns at waiting times, as JSON with five digits, under DIR/FIGURE/SERIES.HALF.json. Numbers name the run that made them: they
stand for it in `dmft figure --numbers DIR`, where nothing else changed but where it is computed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.averages import standard_error
from dmft.core.errors import FileError
from dmft.core.whole import whole
from dmft.model.runfile import Run, parse_run
from dmft.result.comparison import Curve
from dmft.result.theory import Theory
from dmft.result.two_time import Columns, Kernels
from sgd_sim import SimulationResult
from sgd_sim.recording import record_steps
from sgd_sim.result import SOLVED, SimulatedKernels, wilson

DRAWN = ("m", "loss", "mse", "mse_fresh", "error", "error_fresh")  # curves that figures show
SOLUTIONS = ("m", "loss")  # curves of which single solutions are kept
RANKS = 2.0      # standard errors of the rank of a median to each side
SINGLE = 50      # single runs that are kept
THEORY_PER_DECADE = 40
KEPT_DIGITS = 5
# Keys that do not change what is computed; precision: another draw of nearly Gaussian data; waiting_times: which columns are kept;
# companions: whether the bias is known.
ASIDE = ("device", "checkpoint_interval", "precision", "waiting_times", "companions")
Statistics = dict[str, np.ndarray]


@dataclass(frozen=True)
class FigureCurves:
    """Curves of a run: for each observable its mean and error, (times,), over `count` solutions or instances."""

    run: Run
    t: np.ndarray
    count: int
    curves: dict[str, Statistics]
    made: dict[str, Any]              # by which version and in how many seconds

    def curve(self, observable: str) -> Curve:
        """Mean and error, for a comparison."""
        found = self.curves[observable]
        return Curve(self.t, found["mean"], found["error"], self.count)


@dataclass(frozen=True)
class Runs(FigureCurves):
    """Runs of a simulation. curves: also the median and the ends low and high of its bar."""

    solved: np.ndarray                # (times,) runs whose training loss is below SOLVED then
    solved_at: np.ndarray             # (instances,) the first recorded time at which it is, increasing; infinite where it never is
    rise: tuple[float, float]         # `largest_rise` of mse_fresh
    lines: np.ndarray                 # (some runs, times) m of single runs
    diverged: int                     # runs, besides `count`
    kernels: SimulatedKernels | None = None

    @property
    def instances(self) -> int:
        return self.count + self.diverged

    @classmethod
    def of(cls, result: SimulationResult) -> Runs:
        """The numbers of a result. From a random start m is |m|, since the loss does not distinguish w from -w."""
        values = {name: result.curve(name) for name in DRAWN if name in result.curves}
        if result.run.problem.start != "warm":
            values["m"] = np.abs(values["m"])
        below = result.loss < SOLVED
        at = np.where(below.any(axis=1), result.t[below.argmax(axis=1)], np.inf)
        diverged = int(result.diverged.sum())
        return cls(result.run, result.t, result.instances - diverged, {name: _statistics(each) for name, each in values.items()},
                   _made(result.attrs), below.sum(axis=0), np.sort(at),
                   largest_rise(values.get("mse_fresh", np.empty((0, 1)))), values["m"][:SINGLE], diverged, result.kernels)

    def share(self, at: int = -1) -> tuple[float, float, float]:
        """The share of solved runs at a recorded time, with the ends of its 95 % interval."""
        found = wilson(self.solved[[at]], self.instances, 0.95)
        return float(found.share[0]), float(found.low[0]), float(found.high[0])


@dataclass(frozen=True)
class Lines(FigureCurves):
    """Curves of a theory, with the bias of m where it is known, and the kernels between the waiting times of a run that simulates
    them."""

    bias: np.ndarray | None
    kernels: Kernels | None = None
    solutions: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (solutions, times) of SOLUTIONS, one by one
    columns: Columns | None = None

    @classmethod
    def of(cls, theory: Theory, whole: bool = False) -> Lines:
        """The curves of a result. whole: solutions one by one, and the columns, too."""
        found = {name: {"mean": theory.curves[name], "error": theory.curves[f"{name}_error"]}
                 for name in DRAWN if name in theory.curves}
        kernels = theory.kernels.single.near(theory.run.theory.waiting_times) if theory.run.simulation.kernels else None
        one_by_one = {name: theory.replicas[name] for name in SOLUTIONS} if whole else {}
        return cls(theory.run, theory.t, int(theory.averaged.sum()), found, _made(theory.attrs), theory.bias.get("m"), kernels,
                   one_by_one, theory.columns if whole else None)

    def thinned(self) -> Lines:
        """The same at the times of the simulation of its run, and at THEORY_PER_DECADE times a decade."""
        eta, record = self.run.algorithm.first_rate, self.run.simulation.record
        steps = round(self.t[-1] / eta)
        recorded = record_steps(self.run) if isinstance(record, str) else np.rint(np.array(record) / eta)  # perhaps beyond the end
        wanted = np.concatenate([[0, steps], np.rint(10.0 ** np.arange(0.0, np.log10(steps), 1 / THEORY_PER_DECADE)), recorded])
        at = np.unique(wanted[wanted <= steps].astype(int))
        return self.at(at[at < self.t.size])

    def at(self, at: np.ndarray) -> Lines:
        """The same at some of its times."""
        return Lines(self.run, self.t[at], self.count,
                     {name: {kind: each[at] for kind, each in found.items()} for name, found in self.curves.items()},
                     self.made, None if self.bias is None else self.bias[at], self.kernels,
                     {name: each[:, at] for name, each in self.solutions.items()}, self.columns)


Numbers = Runs | Lines


def _statistics(values: np.ndarray) -> Statistics:
    """Over runs (runs, times); those that diverged (NaN) are left out."""
    good = values[np.isfinite(values).all(axis=1)]
    if not len(good):
        return dict.fromkeys(("mean", "error", "median", "low", "high"), np.full(values.shape[1], np.nan))
    half = min(0.5 * RANKS / np.sqrt(len(good)), 0.5)  # the rank of the median has the standard error sqrt(n)/2
    low, median, high = np.quantile(good, [0.5 - half, 0.5, 0.5 + half], axis=0)
    return {"mean": good.mean(axis=0), "error": standard_error(good), "median": median, "low": low, "high": high}


def largest_rise(values: np.ndarray) -> tuple[float, float]:
    """The largest rise of the mean of curves (instances, times) after an earlier time, and the standard error of that difference.

    The pair of times is chosen to make it largest, so even for curves that only fall it is above zero by a few errors.
    """
    good = values[np.isfinite(values).all(axis=1)]
    if good.shape[0] < 2:
        return float("nan"), float("nan")
    mean = good.mean(axis=0)
    lowest = np.minimum.accumulate(mean)
    top = int(np.argmax(mean - lowest))
    bottom = int(np.argmin(mean[: top + 1]))
    difference = good[:, top] - good[:, bottom]
    return float(difference.mean()), float(standard_error(difference))


def _made(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """By which version and in how many seconds, as far as a file says."""
    return {key: attrs[key] for key in ("package_version", "revision", "wall_time") if key in attrs}


# --- files ----------------------------------------------------------------------------------------------------------------

def essence(run: Run, half: str) -> dict[str, Any]:
    """What a result of one half depends on."""
    table = tomllib.loads(run.to_toml())
    table.pop({"simulation": "theory", "theory": "simulation"}[half])
    if half == "theory":
        table["problem"].pop("start_overlap", None)    # the same at infinite dimension
    return {section: {key: value for key, value in keys.items() if key not in ASIDE} if isinstance(keys, dict) else keys
            for section, keys in table.items() if section != "title"}


def keep(path: Path, numbers: Numbers) -> None:
    """Write numbers beside nothing else: complete, or not at all."""
    found: dict[str, Any] = {"run": numbers.run.to_toml(), "made": numbers.made, "t": numbers.t,
                             "curves": numbers.curves}
    if isinstance(numbers, Runs):
        found |= {"instances": numbers.instances, "diverged": numbers.diverged, "solved": numbers.solved,
                  "solved_at": numbers.solved_at[np.isfinite(numbers.solved_at)], "rise": numbers.rise, "lines": numbers.lines}
    else:
        found |= {"count": numbers.count} | ({} if numbers.bias is None else {"bias": numbers.bias})
        found |= {"solutions": numbers.solutions} if numbers.solutions else {}
        found |= {"columns": numbers.columns.arrays} if numbers.columns is not None else {}
    if numbers.kernels is not None:
        times = numbers.kernels.t.size
        found["kernels"] = {name: array if name in ("t", "t_w", "t_last") else array.reshape(-1, times * times)
                            for name, array in vars(numbers.kernels).items() if array is not None}
    with whole(path) as part:
        part.write_text(json.dumps(_plain(found), separators=(",", ":")).replace('"curves"', '\n"curves"') + "\n")


def kept(path: Path, half: str, run: Run | None = None) -> Numbers | None:
    """The numbers of a file; None where there is none, or where it is of another run."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        made_by = parse_run(found["run"], str(path), any_loss=True)
    except (json.JSONDecodeError, KeyError) as error:
        raise FileError(f"{path}: no numbers of a figure ({error!r}); delete it, and they are computed again") from None
    if run is not None and essence(made_by, half) != essence(run, half):
        return None
    curves = {name: {kind: _array(each) for kind, each in statistics.items()} for name, statistics in found["curves"].items()}
    t, kernels = _array(found["t"]), _pairs(found.get("kernels", {}))
    if half == "theory":
        one_by_one, columns = ({name: _array(each) for name, each in found.get(key, {}).items()}
                               for key in ("solutions", "columns"))
        return Lines(made_by, t, found["count"], curves, found["made"], _array(found["bias"]) if "bias" in found else None,
                     Kernels(**{name: each[0] if each.ndim == 3 else each for name, each in kernels.items()}) if kernels else None,
                     one_by_one, Columns(**columns) if columns else None)
    simulated = SimulatedKernels(**kernels) if kernels else None
    at = np.concatenate([_array(found["solved_at"]), np.full(found["instances"] - len(found["solved_at"]), np.inf)])
    rise = _array(found["rise"])
    return Runs(made_by, t, found["instances"] - found["diverged"], curves, found["made"], np.array(found["solved"]), at,
                (float(rise[0]), float(rise[1])), _array(found["lines"]).reshape(-1, t.size), found["diverged"], simulated)


def _pairs(found: Mapping[str, list]) -> dict[str, np.ndarray]:
    """Kernels by name: times, and (instances, times, times)."""
    arrays = {name: _array(values) for name, values in found.items()}
    return {name: each if each.ndim == 1 else each.reshape(-1, arrays["t"].size, arrays["t"].size) for name, each in arrays.items()}


def _array(values: list) -> np.ndarray:
    return np.array([[np.nan if x is None else x for x in row] if isinstance(row, list) else np.nan if row is None else row
                     for row in values], float)


def _plain(value: Any) -> Any:
    """For JSON, with KEPT_DIGITS digits, and null for what is no number."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    if isinstance(value, (float, np.floating)):
        rounded = float(f"{value:.{KEPT_DIGITS}g}")
        return (int(rounded) if rounded.is_integer() and abs(rounded) < 1e9 else rounded) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
