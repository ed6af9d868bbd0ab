"""Population risk of wide quadratic networks (Bocchi et al.): critical points, Hessian spectra, dimensions.

Student rows w_k, teacher rows w*_l, in units where the teacher is orthonormal (weights over sqrt N). With
B = W^T W/p - W*^T W*/p* the risk E[(y - yhat)^2] is 2 tr B^2 + (tr B)^2, its gradient (4/p) W (2 B + tr B).

Every critical point is, up to rotations of the students, W^T W with s teacher directions of eigenvalue
p (c/2 + 1/p*), r directions orthogonal to the teacher of eigenvalue p c/2, and zero else, c = 2 (1 - s/p*)/(2 + s + r):
s = r = 0 tabula rasa; s = 0, r = p the plateau; s = p*, r = 0 the solutions (c = 0); r = 0 < s < p* part of the
teacher; s, r >= 1 mixed saddles, which the paper does not list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.core.errors import RunError

NO_CURVATURE = 1e-9         # eigenvalues closer than this are one


def risk(w: np.ndarray, w_star: np.ndarray) -> float:
    """E[(y - yhat)^2]; w (p, N), w_star (p*, N)."""
    b = _difference(w, w_star)
    return float(2.0 * np.sum(b * b) + np.trace(b) ** 2)


def _difference(w: np.ndarray, w_star: np.ndarray) -> np.ndarray:
    return w.T @ w / len(w) - w_star.T @ w_star / len(w_star)


def gradient(w: np.ndarray, w_star: np.ndarray) -> np.ndarray:
    """The gradient (p, N) of the risk, (4/p) W (2 B + tr B)."""
    b = _difference(w, w_star)
    return 4.0 / len(w) * (2.0 * w @ b + np.trace(b) * w)


def hessian(w: np.ndarray, w_star: np.ndarray) -> np.ndarray:
    """The Hessian (pN, pN) of the risk, index k N + i for component i of student k:
    H_mn = (8/p^2)(Q_mn 1 + w_n w_m^T + w_m w_n^T) + delta_mn (4/p)(tr B + 2 B) with the term w_m w_n^T from tr B."""
    p, n = w.shape
    b = _difference(w, w_star)
    h = np.einsum("mn,ij->minj", w @ w.T, np.eye(n)) + np.einsum("ni,mj->minj", w, w)
    h = 8.0 / p**2 * (h + np.einsum("mi,nj->minj", w, w))
    h += 4.0 / p * np.einsum("mn,ij->minj", np.eye(p), np.trace(b) * np.eye(n) + 2.0 * b)
    return h.reshape(p * n, p * n)


def _check(p: int, p_star: int, n: int, s: int, r: int) -> None:
    if n < p_star:
        raise RunError(f"dimension N = {n} is smaller than the teacher width {p_star}")
    if not (0 <= s <= p_star and 0 <= r <= n - p_star and s + r <= p):
        raise RunError(
            f"no critical point with s = {s}, r = {r}: need 0 <= s <= p* = {p_star}, 0 <= r <= N - p* = {n - p_star}, "
            f"s + r <= p = {p}" + ("; the solutions (s = p*) need p >= p*" if s == p_star and p < p_star else "")
        )


def curvature(p_star: int, s: int, r: int) -> float:
    """c = -tr B at the critical point."""
    return 2.0 * (1.0 - s / p_star) / (2.0 + s + r)


def spectrum(p: int, p_star: int, n: int, s: int, r: int) -> list[tuple[float, int]]:
    """Eigenvalues of the Hessian at a critical point with their multiplicities, in increasing order.

    The directions in use (s + r of them) mix with each other. Otherwise the curvature along student direction a and input
    direction b depends on b alone and is (8/p) B_b - 4 c/p: zero on directions in use, -8/(p p*) - 4c/p on teacher directions
    not found yet, -4c/p on the rest.
    """
    return merge(_families(p, p_star, n, s, r))


class NullDirections(NamedTuple):
    """Directions of no curvature at a critical point: tangent to the manifold of points that rotations make of it, and merely
    flat, along which the risk grows with the fourth power."""

    tangent: int
    flat: int


def null_directions(p: int, p_star: int, n: int, s: int, r: int) -> NullDirections:
    """Bocchi et al., appendix 7.2.3, for every critical point. Rotations of the students, and of inputs among equal directions of
    the teacher or among those orthogonal to it, leave the risk as it is: they move the s + r directions in use against each
    other and against the rest. What is null beside them, (p - p*)(N - p*) at the solutions, is flat alone."""
    used, free = s + r, p - s - r
    tangent = used * free + used * (used - 1) // 2 + s * (p_star - s) + r * (n - p_star - r)
    null = sum(count for value, count in _families(p, p_star, n, s, r) if abs(value) < NO_CURVATURE)
    return NullDirections(tangent, null - tangent)


def negative_to_null(p: int, p_star: int, n: int, s: int, r: int) -> float:
    """Directions of negative curvature over those of none; on the plateau (s = 0, r = p) p*/(N - p* - p/2 - 1/2), their eq. 29."""
    found = spectrum(p, p_star, n, s, r)
    null = sum(count for value, count in found if abs(value) < NO_CURVATURE)
    if null == 0:
        raise RunError(f"s = {s}, r = {r}: no direction without curvature at this critical point")
    return sum(count for value, count in found if value < -NO_CURVATURE) / null


def _families(p: int, p_star: int, n: int, s: int, r: int) -> list[tuple[float, int]]:
    """Eigenvalues with multiplicities, family by family."""
    _check(p, p_star, n, s, r)
    c = curvature(p_star, s, r)
    teacher, other = p * (c / 2.0 + 1.0 / p_star), p * c / 2.0
    free, missed, rest = p - s - r, p_star - s, n - p_star - r
    found: list[tuple[float, int]] = [
        (0.0, free * (s + r)),
        (-8.0 / (p * p_star) - 4.0 * c / p, free * missed),
        (-4.0 * c / p, free * rest),
        (-8.0 / (p * p_star), r * missed),
        (0.0, r * rest + s * missed),
        (8.0 / (p * p_star), s * rest),
        (0.0, (s + r) * (s + r - 1) // 2),
        (16.0 * teacher / p**2, s * (s - 1) // 2),
        (16.0 * other / p**2, r * (r - 1) // 2),
        (8.0 * (teacher + other) / p**2, s * r),
    ]
    scales = np.array([teacher] * s + [other] * r)  # norms of the used directions: a diagonal and a rank-one term
    norms = np.diag(16.0 * scales / p**2) + 8.0 / p**2 * np.sqrt(np.outer(scales, scales))
    return found + [(float(value), 1) for value in np.linalg.eigvalsh(norms)]


def merge(values: list[tuple[float, int]], tolerance: float = NO_CURVATURE) -> list[tuple[float, int]]:
    """Sorted eigenvalues with multiplicities; equal ones are joined, those of multiplicity 0 dropped."""
    merged: list[tuple[float, int]] = []
    for value, count in sorted(values):
        if count == 0:
            continue
        if merged and abs(merged[-1][0] - value) < tolerance:
            merged[-1] = (merged[-1][0], merged[-1][1] + count)
        else:
            merged.append((value, count))
    return merged


def manifold_dimension(p: int, p_star: int, n: int) -> int:
    """Dimension of the manifold of solutions: p(p-1)/2 - (p-q)(p-q-1)/2 with q = min(p*, N); for p* <= N it is
    p p* - p*(p*+1)/2."""
    q = min(p_star, n)
    if p < q:
        raise RunError(f"width = {p} < min(p*, N) = {q}: there are no zero-error solutions")
    return p * (p - 1) // 2 - (p - q) * (p - q - 1) // 2


def degrees_of_freedom(p: int, n: int) -> int:
    """Dimension of the set of outputs W^T W: N p - p(p-1)/2 up to p = N, then N(N+1)/2."""
    return n * p - p * (p - 1) // 2 if p <= n else n * (n + 1) // 2
