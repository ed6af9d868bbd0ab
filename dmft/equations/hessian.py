"""The Hessian of the training loss at the weights of step n, from samples of the effective process at that step.

H = (1/N) sum_mu a_mu x_mu x_mu^T with a = sd^2 v''. Given all that the algorithm has seen of the data, what is left of them is
Gaussian: the bulk has the generalised Marchenko-Pastur law of a ([hess-mp], [hess-edge]), and what w has learnt from the data sits
in a part of finite rank, whose eigenvalues outside the bulk are the zeros of det K ([hess-K]). Samples have weights that add up to
one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used

BISECTIONS = 60     # halvings of an interval, to the last bits of a double
CURVATURE_BINS = 400   # values of a, by quantiles, from which a density is made
NEAR_G = 1e-6         # relative step in G of the derivative of K


class Curvatures(NamedTuple):
    """The law of a over training samples, sorted by a, and what the outliers need of each sample."""

    alpha: float
    a: np.ndarray       # (K,) increasing
    weight: np.ndarray  # (K,) adding up to one
    f: np.ndarray       # (K, r) fields of an orthonormal basis of the weights that were visited
    g: np.ndarray       # (K, s) sums of gradients between them

    @classmethod
    def of(cls, alpha: float, a: np.ndarray, weight: np.ndarray, f: np.ndarray | None = None, g: np.ndarray | None = None,
           least: float = 0.0) -> Curvatures:
        """least: samples of smallest, and of largest, a up to this total weight are dropped on either side, because a data set of
        1/(2 least) samples shows no more of the tails. Eq. [hess-trim]."""
        order = np.argsort(a, kind="stable")
        before = np.cumsum(weight[order]) / weight.sum()
        chosen = order[(before > least) & (before - weight[order] / weight.sum() < 1.0 - least)] if least else order  # [hess-trim]
        empty = np.zeros((a.size, 0))
        f, g = (empty if x is None else x for x in (f, g))
        return cls(alpha, a[chosen], weight[chosen] / weight[chosen].sum(), f[chosen], g[chosen])

    def z(self, G: float) -> float:
        """Where the bulk's resolvent is G. Eq. [hess-mp]."""
        return float(-1.0 / G + self.alpha * self.weight @ (self.a / (1.0 + G * self.a)))  # [hess-mp]

    def edge(self, lower: bool) -> float:
        """G at the lower or the upper edge of the bulk; infinite (minus infinite) where the edge is 0, with an atom. Eq.
        [hess-edge]."""
        sign, last = (1.0, self.a[0]) if lower else (-1.0, self.a[-1])

        def excess(G: float) -> float:
            return float(self.alpha * self.weight @ (G * self.a / (1.0 + G * self.a)) ** 2) - 1.0  # [hess-edge]

        if sign * last >= 0.0:      # no sample bounds G
            if self.alpha * self.weight[self.a != 0.0].sum() <= 1.0:
                return sign * np.inf
            inside, outside = 0.0, sign
            while excess(outside) < 0.0:
                outside *= 2.0
        else:
            inside, outside = 0.0, -1.0 / last
        for _ in range(BISECTIONS):
            middle = 0.5 * (inside + outside)
            if excess(middle) < 0.0:
                inside = middle
            else:
                outside = middle
        return inside

    def K(self, G: float) -> np.ndarray:
        """(r, r). Eq. [hess-K]."""
        Omega = self.weight / (1.0 + G * self.a)
        fa = self.f * (self.alpha * Omega * self.a)[:, None]
        found = fa.T @ self.f - self.z(G) * np.eye(self.f.shape[1])
        if self.g.shape[1]:
            cross, inner = fa.T @ self.g, (self.g * (self.alpha * Omega)[:, None]).T @ self.g
            size = np.sqrt(np.maximum(np.abs(np.diagonal(inner)), 1e-300))  # columns of any scale: only what they span matters
            cross, inner = cross / size, inner / size / size[:, None]
            found += G * cross @ np.linalg.lstsq(inner, cross.T, rcond=1e-13)[0]  # [hess-K]
        return (found + found.T) / 2.0

    def outliers(self, lower: bool) -> list[Outlier]:
        """Eigenvalues below (above) the bulk, from outside to inside."""
        edge, sign = self.edge(lower), 1.0 if lower else -1.0
        if not np.isfinite(edge) or not self.f.shape[1]:
            return []

        def signs(G: float) -> np.ndarray:
            """Increasing eigenvalues of K, as many of them negative as eigenvalues of H lie beyond z(G)."""
            return np.sort(sign * np.linalg.eigvalsh(self.K(G)))

        found = []
        for k in range(int(np.sum(signs(edge) < 0.0))):
            outside = edge      # z(0) is infinite
            while signs(outside)[k] < 0.0:
                outside *= 0.5
            found.append(self._outlier(scipy.optimize.brentq(lambda G, k=k: signs(G)[k], outside, min(2.0 * outside, edge, key=abs),
                                              xtol=1e-14 * abs(edge))))
        return found

    def _outlier(self, G: float) -> Outlier:
        """The eigenvalue where K has a zero eigenvalue. Eq. [hess-overlap]."""
        values, vectors = np.linalg.eigh(self.K(G))
        c = vectors[:, np.argmin(np.abs(values))]
        up, down = G * (1.0 + NEAR_G), G * (1.0 - NEAR_G)
        slope = c @ (self.K(up) - self.K(down)) @ c / (self.z(up) - self.z(down))
        return Outlier(self.z(G), float(c[0] ** 2 / -slope))  # [hess-overlap]

    def density(self, z: np.ndarray, width: float = 0.0) -> np.ndarray:
        """(z.size,) density of the bulk at real z, smoothed over `width` (0: a thousandth of the range). Eq. [hess-mp]."""
        a, weight = self._binned()
        zz = z + 1j * (width or 1e-3 * np.ptp(z))
        G = 1.0 / (-zz + self.alpha * (weight @ a))
        for _ in range(400):    # a map of the upper half-plane into itself: it converges
            new = 1.0 / (self.alpha * (weight * a / (1.0 + G[:, None] * a)).sum(axis=1) - zz)  # [hess-mp]
            moved, G = np.abs(new - G).max(), 0.5 * (G + new)
            if moved < 1e-9 * np.abs(G).max():
                break
        return G.imag / np.pi

    def _binned(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of a in bins of equal weight, and these weights."""
        bins = np.minimum((np.cumsum(self.weight) * CURVATURE_BINS).astype(int), CURVATURE_BINS - 1)
        weight = np.bincount(bins, self.weight, CURVATURE_BINS)
        used = weight > 0.0
        return np.bincount(bins, self.weight * self.a, CURVATURE_BINS)[used] / weight[used], weight[used]


class Outlier(NamedTuple):
    """An eigenvalue outside the bulk, and the squared overlap of its eigenvector with the first direction of the basis."""

    z: float
    overlap: float


def basis(gram: np.ndarray, start: tuple[int, ...], tol: float) -> list[int]:
    """Which vectors of a Gram matrix to take: those of `start`, then the ones with the largest part outside the span of those
    taken, until that is below tol of their square. Eq. [hess-snapshots]."""
    left, square, taken = gram.copy(), np.diag(gram), list[int]()
    waiting = list(start)
    while True:
        share = np.diag(left) / square
        i = waiting.pop(0) if waiting else int(np.argmax(share))
        if share[i] > tol:
            taken.append(i)
            left = left - np.outer(left[:, i], left[i]) / left[i, i]
        elif not waiting:
            return taken  # [hess-snapshots]
