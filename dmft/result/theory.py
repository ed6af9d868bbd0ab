"""The result of a theory run: curves and kernels with their errors, as arrays, and as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core import store
from dmft.core.errors import FileError
from dmft.equations.kernels import KERNELS
from dmft.model import layouts
from dmft.model.experiment import Experiment, known_errors
from dmft.model.quantities import to_dataset
from dmft.model.runfile import Run, parse_run
from dmft.result.statistics import Ensemble, standard_error

# nu_gap is the residual of the exact identity for nu_hat; unstable the weight of samples with eta g' > 2.
CURVES = ("m", "loss", "mse", "nu_hat", "nu_hat_direct", "delta_nu", "mu", "q", "nu_gap", "unstable")

ERRORS = ("mse",)  # of these, results have what the data model knows


@dataclass(frozen=True)
class Kernels:
    """Two-time kernels on the saved times t (P,); each (P, P), with its standard error. M_R[i, j] = M_R(t_i, t_j) and
    R likewise are densities, zero for j >= i."""

    t: np.ndarray
    M_C: np.ndarray
    M_R: np.ndarray
    C: np.ndarray
    R: np.ndarray
    M_C_error: np.ndarray
    M_R_error: np.ndarray
    C_error: np.ndarray
    R_error: np.ndarray


@dataclass(frozen=True)
class Theory:
    """Curves over t (n+1,) as attributes: m, loss, mse, nu_hat (A.29), nu_hat_direct (A.19), delta_nu, mu, q, and the
    standard error of each over replicas under the same name with _error."""

    run: Run
    outcome: str
    t: np.ndarray
    curves: dict[str, np.ndarray] = field(repr=False)
    replicas: dict[str, np.ndarray] = field(repr=False)  # name -> (replicas, n+1)
    bias: dict[str, np.ndarray] = field(repr=False)  # m, m_error: estimated finite-sample bias
    kernels: Kernels = field(repr=False)
    history: np.ndarray | None = field(default=None, repr=False)  # iterate: residual before mixing, (sweeps, replicas)
    attrs: dict[str, Any] = field(default_factory=dict, repr=False)
    state: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # what more replicas are added to

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("__") or name == "curves":
            raise AttributeError(name)
        try:
            return self.curves[name]
        except KeyError:
            raise AttributeError(f"a theory result has no {name!r}; it has t, {', '.join(self.curves)}, kernels") from None

    def __repr__(self) -> str:
        a, theory = self.run.algorithm, self.run.theory
        reached = int(np.isfinite(self.m).sum()) - 1
        at = f"m({self.t[reached]:g}) = {self.m[reached]:.5f} +- {self.m_error[reached]:.5f}" if reached >= 0 else "no step"
        return (f"<Theory {a.kind}, alpha = {self.run.problem.alpha:g}, {theory.method}, {len(self.replicas['m'])} replicas of "
                f"{theory.samples} samples: {self.outcome}, {at}>")

    def generalization(self, f: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Eq. B.6 along the run, at the mean overlaps: average of f(y, y_hat) over a new sample; f elementwise on arrays.
        Labels and predictions are |h0| and |h|, or h0 and h, as the loss declares."""
        return Experiment.from_run(self.run).data.generalization(f, self.m, self.q)

    def to_xarray(self) -> Any:
        """An xarray.Dataset: curves over t, replicas over (replica, t), kernels over (t_kernel, t_prime), with units."""
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {name: (("t",), array) for name, array in self.curves.items()}
        variables |= {f"replicas_{name}": (("replica", "t"), array) for name, array in self.replicas.items()}
        variables |= {f"bias_{name}": (("t",), array) for name, array in self.bias.items()}
        kernels = dict(vars(self.kernels))
        saved = kernels.pop("t")
        variables |= {name: (("t_kernel", "t_prime"), array) for name, array in kernels.items()}
        if self.history is not None:
            variables["history"] = (("sweep", "replica"), self.history)
        return to_dataset(variables, {"t": self.t, "t_kernel": saved, "t_prime": saved},
                          {"kind": "theory", "outcome": self.outcome, "run": self.run.to_toml()})

    def save(self, path: str | Path, attrs: Mapping[str, Any] | None = None) -> None:
        """Write the result file (layout in docs/hdf5.md)."""
        arrays = {"t": self.t, **self.curves}
        arrays |= {f"replicas/{name}": array for name, array in self.replicas.items()}
        arrays |= {f"bias/{name}": array for name, array in self.bias.items()}
        arrays |= {f"kernels/{name}": array for name, array in vars(self.kernels).items()}
        arrays |= self.state
        if self.history is not None:
            arrays["history"] = self.history
        store.save(path, "theory", self.run.to_toml(), arrays, {**self.attrs, **(attrs or {}), "outcome": self.outcome})


def make_theory(run: Run, ensemble: Ensemble, grid: np.ndarray, attrs: dict[str, Any]) -> Theory:
    """Means and errors of the finished replicas."""
    t = run.algorithm.learning_rate * np.arange(run.algorithm.steps + 1)
    replicas = {name: np.array(values) for name, values in ensemble.curves.items()}
    replicas |= known_errors(run, replicas["m"], replicas["q"])
    curves = {}
    for name in CURVES:
        if name not in replicas:
            continue
        curves[name], curves[f"{name}_error"] = replicas[name].mean(axis=0), standard_error(replicas[name])
    bias, bias_error = ensemble.bias()
    kernels = Kernels(
        t[grid],
        **{name: ensemble.kernel_mean[name] for name in KERNELS},
        **{f"{name}_error": ensemble.kernel_error(name) for name in KERNELS},
    )
    state = ensemble.state()
    history = state.pop("history", None)
    replicas["half_m"] = state.pop("replicas/half_m")
    kept = {name: array for name, array in state.items() if name.startswith("state/")}
    outcome = worst(ensemble.outcomes)
    return Theory(run, outcome, t, curves, replicas, {"m": bias, "m_error": bias_error}, kernels, history,
                  {**attrs, "outcomes": ",".join(ensemble.outcomes)}, kept)


def worst(outcomes: list[str]) -> str:
    """The outcome of a run from those of its replicas."""
    for outcome in ("diverged", "sweep limit", "noise floor", "converged"):
        if outcome in outcomes:
            return outcome
    return "done"


def theory_of(stored: store.Stored) -> Theory:
    """A Theory from the contents of its file; FileError when it is not one, or incomplete."""
    if stored.kind != "theory" or stored.is_checkpoint:
        raise FileError(f"{stored.path}: not a theory result but a {'checkpoint' if stored.is_checkpoint else stored.kind} file; "
                        "sgd_sim.load and onepass.load read theirs, dmft inspect shows any")
    run = parse_run(stored.run_text, str(stored.path), any_loss=True)
    layouts.check(stored, {"time": run.algorithm.steps + 1})

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {name[len(prefix):]: array for name, array in stored.arrays.items() if name.startswith(prefix)}

    curves = {name: stored.arrays[name] for base in CURVES for name in (base, f"{base}_error")
              if base in stored.arrays or base not in ERRORS}
    attrs = {name: value for name, value in stored.attrs.items() if name != "outcome"}
    state = {f"state/{name}": array for name, array in part("state/").items()}
    kernels = Kernels(**{name: stored.arrays[f"kernels/{name}"] for name in Kernels.__annotations__})
    return Theory(run, stored.attrs["outcome"], stored.arrays["t"], curves, part("replicas/"), part("bias/"), kernels,
                  stored.arrays.get("history"), attrs, state)


def ensemble_of(theory: Theory) -> Ensemble:
    """The ensemble that a result came from, to add replicas to."""
    ensemble = Ensemble()
    arrays = {f"replicas/{name}": array for name, array in theory.replicas.items() if name != "mse"} | theory.state
    if theory.history is not None:
        arrays["history"] = theory.history
    ensemble.restore(arrays, str(theory.attrs["outcomes"]).split(","))
    return ensemble
