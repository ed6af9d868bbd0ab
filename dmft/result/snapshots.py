"""The law of the fields of a result: weighted samples of the effective process at the times of theory.snapshots."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dmft.model.runfile import Run


@dataclass(frozen=True, eq=False, repr=False)
class Snapshots:
    """Samples of all replicas. f is the field of the weights on a training sample, NaN for lost samples; k the coefficient of the
    input along the teacher in units of its spread sd, so that the teacher's field is sd k; y the label. Averages over training
    samples are sums with `weight`, which adds up to one in every replica."""

    run: Run
    t: np.ndarray           # (S,)
    f: np.ndarray           # (replicas, samples, S)
    s: np.ndarray           # (replicas, samples, S) mini-batch weight
    weight: np.ndarray      # (replicas, samples)
    k: np.ndarray
    y: np.ndarray
    sd: np.ndarray
    # With theory.hessian, of the visited times:
    visited: np.ndarray | None = None       # (V,)
    h: np.ndarray | None = None             # (replicas, samples, V) fields in units of sd, without an intercept
    g: np.ndarray | None = None             # (replicas, samples, V) sums of gradients since the visited time before
    gram: np.ndarray | None = None          # (replicas, V, V) C between visited times
    # With heat besides, of the noise of the weights since the visited time before, a vector of norm sqrt(N):
    xi: np.ndarray | None = None            # (replicas, samples, V) its fields
    heat: np.ndarray | None = None          # (replicas, V, V) its overlap (second time) with the weights (first time)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the result file."""
        return {one.name: array for one in fields(self) if one.name != "run" and (array := getattr(self, one.name)) is not None}

    @property
    def h0(self) -> np.ndarray:
        """(replicas, samples) the teacher's fields."""
        return self.sd * self.k

    def __repr__(self) -> str:
        return f"<Snapshots of {self.f.shape[0]} x {self.f.shape[1]} samples at t = {', '.join(f'{t:g}' for t in self.t)}>"

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """(replicas, S, shares) of the aligned field f sign(h0)."""
        aligned = self.f * np.sign(self.h0)[:, :, None]
        return np.array([[quantiles(column, weight, shares) for column in lines.T] for lines, weight in zip(aligned, self.weight)])


def quantiles(values: np.ndarray, weight: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Quantiles of weighted values, linear between the middles of their weights; NaN values count as not there."""
    known = np.isfinite(values)
    if not known.any():
        return np.full(np.shape(shares), np.nan)
    order = np.argsort(values[known], kind="stable")
    ordered, weights = values[known][order], weight[known][order]
    return np.interp(shares, (np.cumsum(weights) - 0.5 * weights) / weights.sum(), ordered)
