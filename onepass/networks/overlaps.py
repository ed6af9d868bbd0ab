"""Overlaps of a two-layer student with its teacher: layout, validity, random starts, projection on the sphere.

Statistics a (p,), M (p, k), Q (p, p); fields L = (l, ls) ~ N(0, Omega), Omega = [[Q, M], [M^T, P]].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.layout import StatisticsLayout


@lru_cache(maxsize=64)
def network_layout(width: int, teacher_width: int) -> StatisticsLayout:
    return StatisticsLayout({"a": (width,), "M": (width, teacher_width), "Q": (width, width)}, frozenset({"Q"}))


def omega(m: np.ndarray, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Covariance of all fields, (..., p+k, p+k)."""
    width = q.shape[-1]
    fields = width + p.shape[-1]
    om = np.empty(m.shape[:-2] + (fields, fields))
    om[..., :width, :width], om[..., width:, width:] = q, p
    om[..., :width, width:], om[..., width:, :width] = m, np.swapaxes(m, -1, -2)
    return om


def smallest_eigenvalue(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(matrix)[..., 0].min())


def check_covariance(matrix: np.ndarray, name: str) -> None:
    """Refuse matrices (..., n, n) that are not symmetric, finite and positive semi-definite (up to rounding)."""
    if not np.isfinite(matrix).all():
        raise RunError(f"{name} holds numbers that are not finite")
    if not np.allclose(matrix, np.swapaxes(matrix, -1, -2), rtol=1e-10, atol=1e-12):
        raise RunError(f"{name} is not symmetric")
    low = smallest_eigenvalue(matrix)
    if low < -1e-10 * max(1.0, float(np.abs(matrix).max())):
        raise RunError(f"{name} is not a covariance: its smallest eigenvalue is {low:.6g}; it must not be negative")


def check_start(
    initial: Mapping[str, np.ndarray], layout: StatisticsLayout, p: np.ndarray, sphere: bool, dimension: int | None
) -> np.ndarray:
    """The starting statistics, checked and packed; a defaults to ones."""
    arrays = {"a": np.ones(layout.shapes["a"]), **{name: np.asarray(value, float) for name, value in initial.items()}}
    unknown = sorted(set(arrays) - set(layout.shapes))
    missing = sorted(set(layout.shapes) - set(arrays))
    if unknown or missing:
        what = f"unknown statistic {unknown[0]!r}" if unknown else f"statistic {missing[0]!r} is missing"
        raise RunError(f"initial: {what}; a network starts from a (optional), M and Q")
    flat = layout.pack(arrays)
    if not np.isfinite(flat).all():
        raise RunError("initial statistics hold numbers that are not finite")
    q = arrays["Q"]
    if not np.allclose(q, np.swapaxes(q, -1, -2), rtol=1e-10, atol=1e-12):
        raise RunError("initial Q is not symmetric")
    full = layout.unpack(flat)
    check_covariance(omega(full["M"], full["Q"], p), "the overlap matrix [[Q, M], [M^T, P]]")
    norms = np.diagonal(q, axis1=-2, axis2=-1)
    if sphere and np.abs(norms - 1.0).max() > 1e-8:
        raise RunError(f'with constraint = "sphere" Q must have diagonal 1; found {norms.ravel()[0]:.6g}')
    fields = sum(layout.shapes["M"])
    if dimension is not None and dimension < fields:
        raise RunError(f"dimension = {dimension} is too small: {fields} weight vectors need at least {fields}")
    return flat


def on_sphere(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rescale every student vector to norm 1 (in overlap units)."""
    scale = 1.0 / np.sqrt(np.diagonal(arrays["Q"], axis1=-2, axis2=-1))
    return {
        "a": arrays["a"],
        "M": arrays["M"] * scale[..., :, None],
        "Q": arrays["Q"] * scale[..., :, None] * scale[..., None, :],
    }


def random_overlaps(
    width: int, p: np.ndarray, dimension: int, instances: int, seed: int, sphere: bool
) -> dict[str, np.ndarray]:
    """M (instances, p, k) and Q (instances, p, p) of students with iid N(0, 1) weights in that dimension (on the
    sphere: uniform), in law exactly, without the weights: projections on the teacher's span are normal, the rest
    is a Wishart matrix with d - k degrees of freedom, drawn by Bartlett's decomposition."""
    k = len(p)
    if dimension < width + k:
        raise RunError(f"dimension = {dimension} is too small: {width + k} weight vectors need at least {width + k}")
    values, vectors = np.linalg.eigh(p)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    m = np.empty((instances, width, k))
    q = np.empty((instances, width, width))
    for i in range(instances):
        rng = streams.generator(seed, "onepass-start", i)
        along = rng.standard_normal((width, k))
        bartlett = np.tril(rng.standard_normal((width, width)), -1)
        bartlett[np.diag_indices(width)] = np.sqrt(rng.chisquare(dimension - k - np.arange(width)))
        m[i] = along @ root / np.sqrt(dimension)
        q[i] = (along @ along.T + bartlett @ bartlett.T) / dimension
    arrays = {"a": np.ones(width), "M": m, "Q": q}
    return on_sphere(arrays) if sphere else arrays
