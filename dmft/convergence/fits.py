"""How solutions converge as a parameter is refined: distances, fitted orders, Richardson's limit. Works on arrays alone.

One quantity (a curve, or the lower triangle of a kernel) on the times that all points of a study have is a matrix
(points, entries) of means with a matrix of standard errors over replicas.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from dmft.core.averages import standard_error

LOWEST_ORDER, HIGHEST_ORDER = 0.05, 6.0     # fitted orders outside this range are rejected
TINY_ERROR = 1e-9         # smaller errors are rounding: all replicas agree, as for C(t,t) = 1


@dataclass(frozen=True)
class Quantity:
    """mean, error (points, entries); replicas: per point (replicas, entries) where they are kept (curves), else None."""

    mean: np.ndarray
    error: np.ndarray
    counts: np.ndarray                      # (points,) replicas
    replicas: list[np.ndarray] | None = None


def distances(quantity: Quantity, finest: int, paired: bool) -> dict[str, np.ndarray]:
    """Each point against the finest, (points,) each.

    distance: |y - y_finest| / |y_finest|, Euclidean. noise: the distance that the errors alone would give. z_rms, z_max: the
    difference in standard errors, of the difference or, for paired points (the same random numbers), of the finest.
    replica_distance: the distance of a single replica, root mean square over replicas of |y_r - y_finest|, corrected for the
    finest point's own error.
    """
    mean, error = quantity.mean, quantity.error
    gap = mean - mean[finest]
    norm = max(float(np.linalg.norm(mean[finest])), 1e-300)
    variance = np.broadcast_to(error[finest] ** 2, error.shape) if paired else error**2 + error[finest] ** 2
    told = np.isfinite(variance) & (variance > TINY_ERROR**2)
    z = np.where(told, np.abs(gap), 0.0) / np.sqrt(np.where(told, variance, 1.0))
    told_count = told.sum(axis=1)
    z_rms = np.sqrt(_ratio((z**2).sum(axis=1), told_count))
    z_max = np.where(told_count > 0, z.max(axis=1, initial=0.0), np.nan)
    noise = np.zeros(len(mean)) if paired else np.sqrt((error**2 + error[finest] ** 2).sum(axis=1)) / norm
    known = np.nan_to_num(error)            # with one replica its distance is that of the mean
    spread = (known**2).sum(axis=1) * quantity.counts
    squares = (gap**2).sum(axis=1) + spread * (1.0 - 1.0 / quantity.counts) - (0.0 if paired else (known[finest] ** 2).sum())
    squares[finest] = spread[finest]
    found = {"distance": np.linalg.norm(gap, axis=1) / norm, "noise": noise, "z_rms": z_rms, "z_max": z_max,
             "replica_distance": np.sqrt(np.maximum(squares, 0.0)) / norm}
    for name in ("noise", "z_rms", "z_max"):
        found[name][finest] = 0.0
    return found


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b > 0, a / np.maximum(b, 1), np.nan)


def order_in_samples(samples: np.ndarray, replica_distance: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """p and its error in distance ~ samples**-p, from the distance of single replicas.

    A root mean square over R replicas has the relative error 1/sqrt(2 (R - 1)) if all entries fluctuate together; if they do
    not, the error is smaller, so this one is conservative.
    """
    good = np.isfinite(replica_distance) & (replica_distance > 0) & (counts > 1)
    x, y = np.log(samples[good]), np.log(replica_distance[good])
    if good.sum() < 2 or np.ptp(x) == 0:
        return np.nan, np.nan
    weights = 2.0 * (counts[good] - 1.0)
    centre = np.average(x, weights=weights)
    below = float((weights * (x - centre) ** 2).sum())
    return -float((weights * (x - centre) * y).sum() / below), float(1.0 / np.sqrt(below))


def order_in_step(step: np.ndarray, quantity: Quantity) -> tuple[float, float]:
    """p and its error in y = y_0 + A step**p; needs three points.

    y is projected on the direction from the finest to the coarsest point, where the signal is. The error of the projection
    comes from the replicas where they are kept; otherwise errors are added as if all entries fluctuated together.
    """
    finest, coarsest = int(np.argmin(step)), int(np.argmax(step))
    direction = quantity.mean[coarsest] - quantity.mean[finest]
    length = float(np.linalg.norm(direction))
    if len(step) < 3 or not length > 0:
        return np.nan, np.nan
    direction /= length
    y, sigma = quantity.mean @ direction, projected_error(quantity, direction)
    known = bool(np.all(np.isfinite(sigma)) and np.all(sigma > 0))
    x = step / step[coarsest]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)      # no covariance: the error below becomes NaN
            found, covariance = curve_fit(lambda x, y0, a, p: y0 + a * x**p, x, y, p0=(y[finest], y[coarsest] - y[finest], 1.0),
                                          sigma=sigma if known else None, absolute_sigma=known,
                                          bounds=((-np.inf, -np.inf, LOWEST_ORDER), (np.inf, np.inf, HIGHEST_ORDER)))
    except (RuntimeError, ValueError):
        return np.nan, np.nan
    if not 1.01 * LOWEST_ORDER < found[2] < 0.99 * HIGHEST_ORDER:
        return np.nan, np.nan       # noise hides the curvature that determines the order
    error = float(np.sqrt(covariance[2, 2])) if known else np.nan
    if error > found[2]:
        return np.nan, np.nan       # noise hides the order itself
    return float(found[2]), error if np.isfinite(error) else np.nan


def projected_error(quantity: Quantity, direction: np.ndarray) -> np.ndarray:
    """(points,): standard error of y @ direction."""
    if quantity.replicas is None:
        return quantity.error @ np.abs(direction)
    return np.array([standard_error(rows @ direction) for rows in quantity.replicas])


def order_by_distance(values: np.ndarray, distance: np.ndarray) -> tuple[float, float]:
    """p and its error in distance ~ values**-p, by a straight line in the logarithms through all points but the finest;
    the error is from the scatter, so it needs three distances."""
    good = np.isfinite(distance) & (distance > 0)
    x, y = np.log(values[good]), np.log(distance[good])
    if good.sum() < 2 or np.ptp(x) == 0:
        return np.nan, np.nan
    if good.sum() == 2:
        return -float(np.polyfit(x, y, 1)[0]), np.nan
    slope = np.polyfit(x, y, 1)
    left = y - np.polyval(slope, x)
    error = np.sqrt((left**2).sum() / (len(x) - 2) / ((x - x.mean()) ** 2).sum())
    return -float(slope[0]), float(error)


def richardson(step: np.ndarray, mean: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The limit step -> 0 of each entry, for errors of first order, and its error; mean, error (points, entries).

    A straight line in the step, weighted by the errors. With three or more points the difference to the line without the
    coarsest point, a measure of the second order, is added to the statistical error in quadrature.
    """
    limit, statistical = _intercept(step, mean, error)
    if len(step) < 3:
        return limit, statistical
    kept = np.arange(len(step)) != int(np.argmax(step))
    finer, _ = _intercept(step[kept], mean[kept], error[kept])
    return limit, np.hypot(statistical, finer - limit)


def _intercept(step: np.ndarray, mean: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and error at step 0 of a weighted straight line, by entry. Entries without usable errors have equal weights, and NaN
    for their error."""
    known = np.all(np.isfinite(error), axis=0)
    variance = np.where(known, error**2, 1.0) + TINY_ERROR**2
    x, w = step[:, None], 1.0 / variance
    s0, s1, s2 = w.sum(axis=0), (w * x).sum(axis=0), (w * x**2).sum(axis=0)
    y0, y1 = (w * mean).sum(axis=0), (w * mean * x).sum(axis=0)
    below = s0 * s2 - s1**2
    return (s2 * y0 - s1 * y1) / below, np.where(known, np.sqrt(s2 / below), np.nan)


def contraction(residuals: np.ndarray) -> float:
    """Factor by which the residual falls per sweep, over the second half of the sweeps; NaN when there are too few."""
    good = residuals[np.isfinite(residuals) & (residuals > 0)]
    late = good[len(good) // 2:]
    if len(late) < 3:
        return float("nan")
    return float(np.exp(np.polyfit(np.arange(len(late)), np.log(late), 1)[0]))
