"""Results: times, and one array per statistic, (times, ...) of a single path and (instances, times, ...) of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.averages import standard_error
from dmft.core.errors import FileError
from dmft.files import layouts
from dmft.files.axes import named
from dmft.model.quantities import to_dataset


@dataclass(repr=False)
class Trajectory:
    """Statistics along one path: `.t` and, by name, arrays of shape (times, ...).

    `source` says what made it ("ode", "sgd", "chain", "sde", ...), `run_text` is the completed run as TOML.
    `dense(t)` (ODE only) is the state at any time; `events` (ODE only) holds the times of each event function.
    """

    t: np.ndarray
    arrays: dict[str, np.ndarray]
    source: str = "ode"
    run_text: str = ""
    attrs: dict = field(default_factory=dict)
    dense: Callable[[float], dict[str, np.ndarray]] | None = None
    events: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __getattr__(self, name: str) -> np.ndarray:
        arrays = self.__dict__.get("arrays", {})
        if name in arrays:
            return arrays[name]
        raise AttributeError(f"no statistic {name!r}; there are {', '.join(arrays)}")

    def __repr__(self) -> str:
        of = f", {self.instances} instances" if isinstance(self, Ensemble) else ""
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        span = f"{len(self.t)} times from {self.t[0]:g} to {self.t[-1]:g}" if len(self.t) else "no times"
        return f"<{type(self).__name__} of {self.source}{of}, {span}: {shapes}>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.arrays]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def to_xarray(self) -> Any:
        """An xarray.Dataset: time first (after the instance), further axes named after their statistic."""
        variables = {name: (axes, self.arrays[name]) for name, axes in self._axes().items()}
        return to_dataset(variables, {"t": self.t}, {"kind": "onepass", "source": self.source, "run": self.run_text})

    def _axes(self) -> dict[str, tuple[str, ...]]:
        first = ("instance", "t") if isinstance(self, Ensemble) else ("t",)
        return {name: (*first, *(f"{name}_{k}" for k in range(array.ndim - len(first)))) for name, array in self.arrays.items()}

    def save(self, path: str | Path) -> None:
        """Write an HDF5 file of kind "onepass": /t and one dataset per statistic."""
        attrs, arrays = {"source": self.source, "ensemble": isinstance(self, Ensemble), **self.attrs}, {"t": self.t, **self.arrays}
        store.save(path, "onepass", self.run_text, arrays, attrs, names=named(arrays, {"t": ("t",), **self._axes()}, {}, attrs))


@dataclass(repr=False)
class Ensemble(Trajectory):
    """Independent instances: arrays of shape (instances, times, ...). `diverged` (instances,) marks those that diverged; their
    entries are NaN from then on, and they are left out of `mean`, `error` and `variance`."""

    diverged: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    @property
    def instances(self) -> int:
        return len(next(iter(self.arrays.values())))

    def _over_instances(self, f: Callable[[np.ndarray], np.ndarray], fewest: int) -> Trajectory:
        """f over the instances that did not diverge; NaN if there are fewer than `fewest` of them."""
        kept = ~self.diverged if self.diverged.size else np.ones(self.instances, bool)
        enough = kept.sum() >= fewest
        arrays = {
            name: f(array[kept]) if enough else np.full(array.shape[1:], np.nan) for name, array in self.arrays.items()
        }
        return Trajectory(self.t, arrays, self.source, self.run_text, self.attrs)

    def mean(self) -> Trajectory:
        """Average over the instances."""
        return self._over_instances(lambda array: array.mean(0), 1)

    def error(self) -> Trajectory:
        """Standard error of that average."""
        return self._over_instances(standard_error, 2)

    def variance(self) -> Trajectory:
        """Variance over the instances (unbiased)."""
        return self._over_instances(lambda array: array.var(0, ddof=1), 2)

    def save(self, path: str | Path) -> None:
        self.attrs["diverged_instances"] = np.flatnonzero(self.diverged)
        super().save(path)


def load(path: str | Path) -> Trajectory:
    """Read a file written by `save`: a Trajectory or an Ensemble."""
    stored = store.load(path)
    if stored.kind != "onepass":
        raise FileError(f"{path}: holds {stored.kind!r}, not a one-pass result; use dmft inspect")
    if stored.is_checkpoint:
        raise FileError(f"{path}: the checkpoint of a run that has not ended; dmft inspect shows it, --resume ends it")
    layouts.check(stored)
    arrays, attrs = dict(stored.arrays), dict(stored.attrs)
    t = arrays.pop("t")
    source, ensemble = attrs.pop("source", "ode"), bool(attrs.pop("ensemble", False))
    if not ensemble:
        return Trajectory(t, arrays, source, stored.run_text, attrs)
    diverged = np.zeros(len(next(iter(arrays.values()))), bool)
    diverged[np.asarray(attrs.pop("diverged_instances", []), int)] = True
    return Ensemble(t, arrays, source, stored.run_text, attrs, diverged=diverged)
