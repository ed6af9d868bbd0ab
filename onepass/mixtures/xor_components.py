"""Fixed points of the XOR mixture at infinite snr: 5^4 label tuples, 39 connected components, 24 of them stable:
those with one neuron per mean, which classify all data.

Each neuron carries a label: 0 (v = m = 0), or one of the means +mu, -mu (v > 0), +nu, -nu (v < 0) it points to. On the set of
a tuple the squares of v over the neurons of each mean in use sum to C_alpha. Closures merge tuples: a neuron of a mean that
another neuron also serves can shrink to 0. A component is therefore named by the set of means in use, and, when all four
are, by the neuron that serves each: 1 + 4 + 6 + 4 + 4! = 39.
"""

from __future__ import annotations

from itertools import product

import numpy as np

COMPONENT_NAMES = ("0", "+mu", "-mu", "+nu", "-nu")
Component = tuple[str, ...]


def component(labels: tuple[str, ...]) -> Component:
    """Name of the component of a label tuple: the labels themselves when all four means are served, else the means in use."""
    used = [label for label in COMPONENT_NAMES[1:] if label in labels]
    return tuple(labels) if len(used) == 4 else tuple(used)


def components() -> list[Component]:
    """The 39 components."""
    return sorted({component(labels) for labels in product(COMPONENT_NAMES, repeat=4)}, key=lambda c: (len(c), c))


def neuron_labels(v: np.ndarray, m: np.ndarray, threshold: float) -> np.ndarray:
    """Label of every neuron, (..., 4), for v (..., 4) and m (..., 4, 2): the mean its weights point to when both v and that m
    exceed the threshold and the sign of v is right for it, else "0"."""
    along = np.take_along_axis(m, np.argmax(np.abs(m), axis=-1)[..., None], axis=-1)[..., 0]
    nu = np.abs(m[..., 1]) > np.abs(m[..., 0])
    live = (np.abs(along) > threshold) & (np.abs(v) > threshold) & ((v < 0) == nu)
    names = np.where(nu, np.where(along > 0, "+nu", "-nu"), np.where(along > 0, "+mu", "-mu"))
    return np.where(live, names, "0")


def fixed_point_of(labels: tuple[str, ...], ring: float, shares: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Statistics v, m, R of a fixed point of infinite snr with the given labels; `shares` (4,) weighs how the neurons of one
    mean divide C_alpha = ring (default: equally)."""
    v, m = np.zeros(4), np.zeros((4, 2))
    weights = np.ones(4) if shares is None else np.asarray(shares, float)
    for q, name in ((0, "+mu"), (0, "-mu"), (1, "+nu"), (1, "-nu")):
        group = [i for i in range(4) if labels[i] == name]
        for i in group:
            size = np.sqrt(ring * weights[i] / weights[group].sum())
            v[i] = size if q == 0 else -size
            m[i, q] = size if name[0] == "+" else -size
    return {"v": v, "m": m, "R": np.zeros((4, 4))}
