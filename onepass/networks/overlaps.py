"""Overlaps of a two-layer student with its teacher: layout, validity, random starts, projection on the sphere.

Statistics a (p,), M (p, k), Q (p, p); fields L = (l, ls) ~ N(0, Omega), Omega = [[Q, M], [M^T, P]].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from dmft.core import streams
from dmft.core.errors import RunError
from onepass.gaussian import symmetric_root
from onepass.layout import StatisticsLayout

AT_REST = {"a": 1.0, "V": 0.0, "VW": 0.0, "VV": 0.0, "clock": 0.0}  # statistics that need not be given
LAYER_LAWS = ("ones", "signs", "bernoulli", "normal")  # of the second layer at a random start: +-1; 0 or 1; N(0, 1)


@lru_cache(maxsize=64)
def network_layout(width: int, teacher_width: int, velocity: bool = False, clock: bool = False) -> StatisticsLayout:
    """Of a, M, Q; with a velocity its overlaps V with the teacher, VW with the student, VV; and the time."""
    p, k = width, teacher_width
    more = {"V": (p, k), "VW": (p, p), "VV": (p, p)} if velocity else {}
    return StatisticsLayout({"a": (p,), "M": (p, k), "Q": (p, p), **more, **({"clock": ()} if clock else {})},
                            frozenset({"Q", "VV"} if velocity else {"Q"}))


def omega(m: np.ndarray, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Covariance of all fields, (..., p+k, p+k)."""
    width = q.shape[-1]
    fields = width + p.shape[-1]
    om = np.empty(m.shape[:-2] + (fields, fields))
    om[..., :width, :width], om[..., width:, width:] = q, p
    om[..., :width, width:], om[..., width:, :width] = m, np.swapaxes(m, -1, -2)
    return om


def gram(s: Mapping[str, np.ndarray], p: np.ndarray, student_first: bool = False) -> np.ndarray:
    """Overlaps of all vectors, teacher, student and velocities if there are any (or student, teacher, velocities)."""
    om = omega(s["M"], s["Q"], p)
    width, fields = s["Q"].shape[-1], om.shape[-1]
    if not student_first:
        order = np.r_[width:fields, :width]
        om = om[..., order[:, None], order]
    if "VV" not in s:
        return om
    across = np.concatenate([s["VW"], s["V"]] if student_first else [s["V"], s["VW"]], axis=-1)
    return np.block([[om, np.swapaxes(across, -1, -2)], [across, s["VV"]]])


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
    """The starting statistics, checked and packed; a defaults to ones, velocities and time to zero."""
    at_rest = {name: np.full(shape, AT_REST[name]) for name, shape in layout.shapes.items() if name in AT_REST}
    arrays = at_rest | {name: np.asarray(value, float) for name, value in initial.items()}
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
    check_covariance(gram(full, p), "the overlap matrix [[Q, M], [M^T, P]]")
    norms = np.diagonal(q, axis1=-2, axis2=-1)
    if sphere and np.abs(norms - 1.0).max() > 1e-8:
        raise RunError(f'with constraint = "sphere" Q must have diagonal 1; found {norms.ravel()[0]:.6g}')
    fields = sum(layout.shapes["M"]) + (layout.shapes["a"][0] if "VV" in layout.shapes else 0)
    if dimension is not None and dimension < fields:
        raise RunError(f"dimension = {dimension} is too small: {fields} weight vectors need at least {fields}")
    return flat


def random_layer(law: str, width: int, instances: int, seed: int) -> np.ndarray:
    """Second layers (instances, width) of a law, or (width,) where it is not random."""
    if law == "ones":
        return np.ones(width)
    if law not in LAYER_LAWS:
        raise RunError(f"second_layer = {law!r}; allowed: {', '.join(LAYER_LAWS)}")
    a = np.empty((instances, width))
    for i in range(instances):
        rng = streams.generator(seed, "onepass-second-layer", i)
        a[i] = rng.standard_normal(width) if law == "normal" else rng.integers(0, 2, width)
    return 2.0 * a - 1.0 if law == "signs" else a


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
    root = symmetric_root(p)
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
