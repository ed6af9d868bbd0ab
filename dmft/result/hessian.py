"""The Hessian of the training loss along a run, from the snapshots of a result: a law per replica, with errors over replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from dmft.core.averages import mean_and_error
from dmft.core.errors import UserError
from dmft.equations.hessian import Curvatures, Outlier, basis
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.result.snapshots import Snapshots

BASIS_TOLERANCE = 1e-9    # of [hess-snapshots]: gradient descent needs it
# Where the loss is below this share of its first value the sums of gradients nearly coincide, and what tells them apart is not
# resolved: outliers of gradient descent were found up to 0.016, far from any eigenvalue of an instance, and none from 0.03 on
# (docs/hessian.md).
RESOLVED_LOSS = 0.02
NUMBERS_OF_HESSIAN = ("lower_edge", "upper_edge", "lowest", "lowest_overlap", "largest", "largest_overlap", "multiplier", "soft",
                      "soft_overlap")


@dataclass(frozen=True, eq=False, repr=False)
class HessianLaw:
    """Numbers of every replica, by name: edges of the bulk, lowest and largest eigenvalue (an outlier, or the edge) with the
    squared overlap of its vector with the teacher (0 at an edge); on the sphere nu_c (`multiplier`), and the lowest eigenvalue
    along the sphere (`soft`) with the overlap of its vector with the teacher's part normal to w. `unknown` says why there are edges
    alone, where outliers are not known."""

    t: float
    dimension: int                          # of the data set whose tails are seen, [hess-trim]
    replicas: dict[str, np.ndarray]         # each (replicas,)
    unknown: str                            # "" where outliers are known
    whole: Curvatures                       # of all replicas together, without fields

    @property
    def complete(self) -> bool:
        """Whether outliers are known."""
        return not self.unknown

    def mean(self, name: str) -> tuple[float, float]:
        """Mean over replicas and its standard error."""
        mean, error = mean_and_error(self.replicas[name][np.isfinite(self.replicas[name])])
        return float(mean), float(error)

    def density(self, z: np.ndarray) -> np.ndarray:
        """Density of the bulk."""
        return self.whole.density(z)

    def __repr__(self) -> str:
        return f"<HessianLaw at t = {self.t:g}: lowest {self.mean('lowest')[0]:.4g}, largest {self.mean('largest')[0]:.4g}>"


def hessian_law(run: Run, snapshots: Snapshots, curves: Mapping[str, np.ndarray], times: np.ndarray, t: float,
                dimension: int) -> HessianLaw:
    """The law at the snapshot nearest to t. curves: m, loss, and b with an intercept, (replicas, n+1) at `times`."""
    if dimension < 1:
        raise UserError(f"hessian: dimension = {dimension}: must be at least 1")
    if not run.known:
        raise UserError("hessian: the loss of this run is a plug-in's; load it first (--plugin FILE.py)")
    experiment, i = Experiment.from_run(run), int(np.argmin(np.abs(snapshots.t - t)))
    step = int(np.searchsorted(times, snapshots.t[i] - 1e-9))
    first, now = np.nanmean(curves["loss"][:, [0, step]], axis=0)
    unknown = _unknown(run, experiment, snapshots, step, now / first)
    loss, alpha = experiment.losses[experiment.loss_n[min(step, experiment.steps - 1)]], run.problem.alpha
    if loss.d2v is None:
        raise UserError(f"hessian: the loss {loss.name!r} has no second derivative")
    sphere = experiment.constraint.fixes_norm
    least = 0.5 / (alpha * dimension)
    numbers: dict[str, list[float]] = {name: [] for name in NUMBERS_OF_HESSIAN}
    collected = []
    for r in range(len(snapshots.f)):
        known = np.isfinite(snapshots.f[r, :, i])
        f, y, sd, weight = snapshots.f[r, known, i], snapshots.y[r, known], snapshots.sd[r, known], snapshots.weight[r, known]
        if not known.any():
            continue
        a = sd**2 * np.array([loss.d2v(x, label) for x, label in zip(f, y)])
        collected.append((a, weight))
        fields = [(None, None) if unknown else _fields(snapshots, curves["m"][r], times, i, r, known, start)
                  for start in ((False, True) if sphere else (False,))]
        laws = [Curvatures.of(alpha, a, weight, f=basis_fields, g=sums, least=least) for basis_fields, sums in fields]
        _enter(numbers, laws, not unknown)
        if sphere:
            slope = np.array([loss.dv(x, label) for x, label in zip(f, y)])
            along = f - (curves["b"][r, step] if "b" in curves else 0.0)  # the part of the weights
            norm = float(experiment.constraint.norm or 1.0)
            nu_c = -alpha * float(weight @ (slope * along)) / weight.sum() / norm  # [hess-sphere]
            numbers["multiplier"].append(nu_c)
            numbers["soft"][-1] += nu_c
    if not collected:
        raise UserError(f"hessian: every replica diverged before the snapshot at t = {snapshots.t[i]:g}")
    found = {name: np.array(values) for name, values in numbers.items() if values}
    a, weight = (np.concatenate([one[k] for one in collected]) for k in (0, 1))
    return HessianLaw(float(snapshots.t[i]), dimension, found, unknown, Curvatures.of(alpha, a, weight, least=least))


def _unknown(run: Run, experiment: Experiment, snapshots: Snapshots, step: int, share: float) -> str:
    """Why outliers are not known at a step where so much of the first loss is left, in words; "" where they are."""
    update, heated = experiment.update, bool(experiment.heat_n[:step].any())
    spectral = experiment.start.power(run.problem.alpha, run.problem.label_noise) is not None
    reasons = {
        "there is no past in the file: solve with [theory] hessian = true": snapshots.h is None or heated and snapshots.xi is None
        and update.plain,
        "a spectral start: the steps of its power iteration are not kept": spectral,
        "nesterov = true: the past of the samples is that of the points ahead": update.looks_ahead,
        "heat with momentum: what the noise leaves in the weights is not kept": heated and not update.plain,
        f"the loss is below {RESOLVED_LOSS:.0%} of its first, and sums of gradients nearly coincide": share < RESOLVED_LOSS,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _enter(numbers: dict[str, list[float]], laws: list[Curvatures], complete: bool) -> None:
    """The numbers of one replica: laws in space, and along the sphere, without its multiplier."""
    law = laws[0]
    for lower, edge, end in ((True, "lower_edge", "lowest"), (False, "upper_edge", "largest")):
        G = law.edge(lower)
        numbers[edge].append(law.z(G) if np.isfinite(G) else 0.0)
        found = law.outliers(lower) if complete else []
        value = found[0] if found else Outlier(numbers[edge][-1], 0.0)
        numbers[end].append(value.z)
        numbers[f"{end}_overlap"].append(value.overlap)
    for law in laws[1:]:
        found = law.outliers(True) if complete else []
        value = found[0] if found else Outlier(numbers["lower_edge"][-1], 0.0)
        numbers["soft"].append(value.z)
        numbers["soft_overlap"].append(value.overlap)


def _fields(snapshots: Snapshots, m: np.ndarray, times: np.ndarray, i: int, r: int, known: np.ndarray,
            sphere: bool) -> tuple[np.ndarray, np.ndarray]:
    """Fields (K, r) of an orthonormal basis of teacher, visited weights and noise between these, the teacher first, and sums (K, s)
    of gradients between them; along the sphere the basis is normal to the present weights. Eqs. [hess-snapshots], [hess-heat]."""
    assert snapshots.visited is not None and snapshots.h is not None and snapshots.g is not None and snapshots.gram is not None
    last = int(np.searchsorted(snapshots.visited, snapshots.t[i] - 1e-9))
    at = np.searchsorted(times, snapshots.visited[:last + 1] - 1e-9)
    present = last + 1
    # no column of the noise between times without heat
    felt = np.zeros(0, int) if snapshots.xi is None else np.flatnonzero(snapshots.xi[r, :, :present].any(axis=0))
    gram = np.eye(present + felt.size + 1)
    gram[0, 1:present + 1] = gram[1:present + 1, 0] = m[at]
    gram[1:present + 1, 1:present + 1] = snapshots.gram[r, :present, :present]
    columns = [snapshots.k[r], snapshots.h[r, :, :present]]
    if snapshots.xi is not None and snapshots.heat is not None:
        gram[1:present + 1, present + 1:] = snapshots.heat[r, :present][:, felt]  # [hess-heat]
        gram[present + 1:, 1:present + 1] = gram[1:present + 1, present + 1:].T
        columns.append(snapshots.xi[r][:, felt])
    taken = basis(gram, (present, 0, 1) if sphere else (0, present, 1), BASIS_TOLERANCE)
    raw = np.column_stack(columns)[known][:, taken]
    f = scipy.linalg.solve_triangular(scipy.linalg.cholesky(gram[np.ix_(taken, taken)], lower=True), raw.T, lower=True).T
    chosen = np.sort([one - 1 for one in taken if 0 < one <= present])
    sums = np.column_stack([snapshots.g[r, known, first + 1:end + 1].sum(axis=1) for first, end in zip(chosen, chosen[1:])] or
                           [np.zeros((known.sum(), 0))])
    return (f[:, 1:] if sphere else f), sums
