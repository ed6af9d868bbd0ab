"""The kind of an activation, found from its values: two slopes, smooth, with kinks, or not integrable.

Rules for smooth functions are wrong by parts in a thousand at a kink, however many nodes they have; so kinks must be
found before averages are taken, and the rules cut there (kinked_moments.py).
"""

from __future__ import annotations

import numpy as np

from dmft.core.errors import RunError
from dmft.model.activations import Activation, apply

MOST_KINKS = 6
_LOOKED_AT = 16     # intervals followed in the search for kinks; must exceed the number of kinks
_PLACES = np.array([0.013, 0.37, 1.0, 2.9, 7.1])


def two_slopes(what: Activation) -> tuple[float, float] | None:
    """(lo, hi) if s(x) = lo x for x < 0 and hi x for x > 0, else None."""
    ratios = [apply(what.s, side * _PLACES) / (side * _PLACES) for side in (-1.0, 1.0)]
    slopes = [apply(what.ds, side * _PLACES) for side in (-1.0, 1.0)]
    lo, hi = float(ratios[0][0]), float(ratios[1][0])
    for ratio, slope, value in zip(ratios, slopes, (lo, hi), strict=True):
        if not (np.allclose(ratio, value, rtol=1e-13, atol=1e-13) and np.allclose(slope, value, rtol=1e-13, atol=1e-13)):
            return None
    return lo, hi


def kinks(what: Activation) -> tuple[float, ...]:
    """Places in [-8, 8], in order, where the function or its derivative jumps. The intervals with the largest changes are halved
    until the change vanishes or remains, which is a jump. At most 2 _LOOKED_AT places are found."""
    x = np.linspace(-8.0, 8.0, 4001) + 1e-4 / 3.0
    found: list[float] = []
    for f in (what.ds, what.s):
        value = apply(f, x)
        scale = max(1.0, float(np.abs(value).max()))
        for index in np.argsort(-np.abs(np.diff(value)))[:_LOOKED_AT]:
            low, high = x[index], x[index + 1]
            for _ in range(40):
                middle = 0.5 * (low + high)
                at_low, at_middle, at_high = apply(f, np.array([low, middle, high]))
                low, high = (low, middle) if abs(at_middle - at_low) > abs(at_high - at_middle) else (middle, high)
            change = abs(float(np.diff(apply(f, np.array([low, high])))[0]))
            place = round(0.5 * (low + high), 11)
            if change > 1e-6 * scale and all(abs(place - other) > 1e-9 for other in found):
                found.append(place)
    return tuple(sorted(found))


def check_integrable(what: Activation) -> None:
    """Refuse functions whose averages over normals do not exist or depend on the far tails: the fourth moments, which the
    noise needs, must have converged at eight standard deviations."""
    x = np.linspace(-10.0, 10.0, 2001)
    weight = np.exp(-0.5 * x * x)
    with np.errstate(over="ignore", invalid="ignore"):
        for f in (what.s, what.ds):
            density = weight * apply(f, x) ** 4
            if not np.isfinite(density).all() or density[np.abs(x) > 8.0].sum() > 1e-3 * density.sum():
                raise RunError(
                    f"activation {what.name!r} is not integrable: the mean of its fourth power over a standard normal does not "
                    "exist or hangs on fields beyond eight standard deviations; take one that grows more slowly"
                )


def quadrature_error(what: Activation, nodes: int) -> float:
    """Largest relative error of the rule with `nodes` nodes on [-8, 8] for E[s^2], E[s'^2], E[s s' z] over normals of
    standard deviation 1 and 0.6, against one with very many nodes."""
    def averages(count: int, shift: float) -> np.ndarray:
        z = np.linspace(-8.0, 8.0, count) + shift
        w = np.exp(-0.5 * z * z)
        w /= w.sum()
        found = []
        for spread in (1.0, 0.6):
            value, slope = apply(what.s, spread * z), apply(what.ds, spread * z)
            found += [w @ value**2, w @ slope**2, w @ (value * slope * z)]
        return np.array(found)

    exact, step = averages(20001, 0.0), 16.0 / (nodes - 1)
    scale = np.maximum(np.abs(exact), 1e-3 * np.abs(exact).max())
    return float(max(np.abs((averages(nodes, shift * step) - exact) / scale).max() for shift in (0.0, 0.29)))
