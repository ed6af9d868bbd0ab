"""The Hessian of the training loss of simulated instances, diagonalised at the times of their snapshots.

Dense up to DENSE dimensions; beyond it only both ends are computed, by Lanczos iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from dmft.core.errors import UserError
from dmft.model.experiment import Experiment
from sgd_sim.snapshots import SimulatedSnapshots

DENSE = 4000


@dataclass(frozen=True, eq=False)
class InstanceHessian:
    """Eigenvalues of H = (1/N) sum_mu v'' x x^T at the weights of one instance, and squared overlaps of both end vectors with the
    teacher; on the sphere nu_c, and the lowest eigenvalue along it with the overlap of its vector with the teacher's part normal to
    w. Eq. [hess-sphere]."""

    t: float
    eigenvalues: np.ndarray     # all, or the two ends, increasing
    overlaps: tuple[float, float]
    multiplier: float
    soft: float
    soft_overlap: float


def hessians(snapshots: SimulatedSnapshots, instance: int) -> list[InstanceHessian]:
    """Those of one instance, one for every snapshot; it must have got to all of them."""
    run, n = snapshots.run, snapshots.run.simulation.dimension
    if not np.isfinite(snapshots.w[instance]).all():
        raise UserError(f"hessian: instance {instance} diverged before the last snapshot")
    landscape, experiment = snapshots.landscape(instance), Experiment.from_run(run)
    X = landscape.data[:landscape.h0.size, :n].astype(np.float64)
    fields, labels, _ = snapshots.fields(instance, landscape)
    teacher = landscape.w0 / np.sqrt(n)
    found = []
    for i, t in enumerate(snapshots.t):
        step = min(int(np.searchsorted(run.algorithm.clock.t, t - 1e-9)), experiment.steps - 1)
        loss = experiment.losses[experiment.loss_n[step]]
        a = np.array([loss.d2v(f, y) for f, y in zip(fields[:, i], labels)])
        values, vectors = _spectrum(X, a, None)
        multiplier = soft = soft_overlap = np.nan
        if experiment.constraint.fixes_norm:
            slope = np.array([loss.dv(f, y) for f, y in zip(fields[:, i], labels)])
            w = snapshots.w[instance, i] / np.linalg.norm(snapshots.w[instance, i])
            multiplier = -float(slope @ (fields[:, i] - snapshots.b[instance, i])) / n / float(experiment.constraint.norm or 1.0)
            along, direction = _spectrum(X, a, w)
            part = teacher - (teacher @ w) * w
            soft, soft_overlap = along[0] + multiplier, float((direction[:, 0] @ part) ** 2 / (part @ part))
        ends = tuple(float(vectors[:, k] @ teacher) ** 2 for k in (0, -1))
        found.append(InstanceHessian(float(t), values, (ends[0], ends[1]), multiplier, soft, soft_overlap))
    return found


def _spectrum(X: np.ndarray, a: np.ndarray, normal: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors (columns) of X^T diag(a) X/N; normal: a unit vector whose direction is taken out, and whose own
    eigenvalue is put at the upper end."""
    n = X.shape[1]
    if n > DENSE:
        bound = LinearOperator((n, n), matvec=lambda v: X.T @ (np.abs(a) * (X @ v.ravel())) / n, dtype=np.float64)
        top = 1.0 + float(eigsh(bound, 1, which="LA", return_eigenvectors=False)[0]) if normal is not None else 0.0

        def times(v: np.ndarray) -> np.ndarray:
            v = v.ravel()
            inside = v if normal is None else v - (normal @ v) * normal
            out = X.T @ (a * (X @ inside)) / n
            return out if normal is None else out - (normal @ out) * normal + top * (normal @ v) * normal

        operator = LinearOperator((n, n), matvec=times, dtype=np.float64)
        pairs = [eigsh(operator, 1, which=end) for end in ("SA", "LA")]
        return np.concatenate([p[0] for p in pairs]), np.column_stack([p[1] for p in pairs])
    H = (X.T * a) @ X / n
    if normal is not None:
        top = 1.0 + float(np.abs(H).sum(axis=1).max())     # above all others
        Hn = H @ normal
        H += np.outer(normal, (normal @ Hn + top) * normal) - np.outer(normal, Hn) - np.outer(Hn, normal)
    return np.linalg.eigh(H)
