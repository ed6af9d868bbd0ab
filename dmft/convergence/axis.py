"""One axis of a convergence study: solutions ordered from coarse to fine in one parameter, compared with the finest.

Every quantity (curves, and the lower triangles of kernels) is restricted to the times that all solutions have; `fits` then
gives distances, orders and the limit of small learning rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmft.convergence import fits
from dmft.convergence.fits import Quantity
from dmft.core.notebook import html_card
from dmft.equations.kernels import KERNELS
from dmft.files.layouts import MEASURES
from dmft.model.curves import NETWORK_KNOWN, studied
from dmft.model.data import starts_at_random
from dmft.result.comparison import common_indices
from dmft.result.systematic import shown
from dmft.result.theory import Theory

# The order that theory predicts: distance ~ samples^-1/2, difference ~ learning_rate^1.
EXPECTED = {"samples": 0.5, "learning_rate": 1.0}
# Points of these axes have random numbers of their own. Those of others share them, so that differences are free of Monte-Carlo
# noise.
INDEPENDENT = ("samples", "learning_rate")
SMALL_IS_FINE = ("learning_rate", "mixing")


@dataclass(frozen=True, repr=False)
class Axis:
    """One parameter, from coarse to fine: k points. Tables are by quantity: m, loss, nu_hat, delta_nu, mu, M_C, M_R, C, R; V and
    gain in place of m and mu from a random start. Of a network all but the loss are matrices, compared as a whole, and there is no
    nu_hat; arrays of curves and limits have their axes of units and directions last."""

    name: str
    values: np.ndarray                          # (k,)
    seeds: np.ndarray                           # (k,)
    outcomes: list[str]
    wall_times: np.ndarray                      # (k,) seconds
    t: np.ndarray                               # (c,) times that all points have
    kernel_t: np.ndarray                        # (d,) those of them at which all points have kernels
    table: dict[str, dict[str, np.ndarray]]      # measure -> quantity -> (k,)
    orders: dict[str, tuple[float, float]]       # quantity -> order, error
    curves: dict[str, np.ndarray]                # m, m_error, ...: (k, c, ...)
    limit: dict[str, np.ndarray]                 # learning_rate: m, m_error (c,), M_C, ... (d, d)
    residuals: np.ndarray | None = None   # of iterate: (k, sweeps), NaN after the last sweep
    beyond: tuple[str, ...] = ()          # what error bars of the finest point leave out, in words

    def __repr__(self) -> str:
        values = ", ".join(f"{value:g}" for value in self.values)
        return f"<Axis {self.name} = {values}; order of {self.main}: {order_text(self.orders[self.main])}{self._expected}>"

    def _repr_html_(self) -> str:
        facts = {"values": ", ".join(f"{value:g}" for value in self.values), "common times": self.t.size}
        facts |= {f"order of {q}": order_text(pair) for q, pair in self.orders.items() if np.isfinite(pair[0])}
        return html_card(f"convergence in {self.name}{self._expected}", facts)

    @property
    def _expected(self) -> str:
        return f" (expected {EXPECTED[self.name]:g})" if self.name in EXPECTED else ""

    @property
    def main(self) -> str:
        """The curve of one number that tells most."""
        return "V" if "V" in self.orders else "m" if "nu_hat" in self.orders else "loss"

    @property
    def quantities(self) -> tuple[str, ...]:
        """What was compared, curves first."""
        return compared(self.main == "V", self.main == "loss")

    @property
    def finest(self) -> int:
        """Index of the finest point, with which the others are compared."""
        return len(self.values) - 1


def order_text(pair: tuple[float, float]) -> str:
    """A fitted order with its error; "-" where there is none."""
    order, error = pair
    if not np.isfinite(order):
        return "-"
    return f"{order:.2f} +- {error:.2f}" if np.isfinite(error) else f"{order:.2f}"


def compared(random: bool, network: bool = False) -> tuple[str, ...]:
    """The quantities of a study, curves first. random: from a random start."""
    return *(name for name in studied(random) if not network or name in NETWORK_KNOWN), *KERNELS


def make_axis(name: str, values: Sequence[float], theories: Sequence[Theory]) -> Axis:
    """Compare solutions ordered from coarse to fine with the last one. Diverged solutions are NaN in the tables."""
    steps = np.array(values, float)
    good = np.array([theory.outcome != "diverged" for theory in theories])
    kept = [theory for theory, fine in zip(theories, good) if fine]
    head = (name, steps, np.array([theory.run.theory.seed for theory in theories]), [theory.outcome for theory in theories],
            np.array([float(theory.attrs.get("wall_time", np.nan)) for theory in theories]))
    run = theories[0].run
    names = compared(starts_at_random(run.problem), run.has_network)
    empty = {measure: {q: np.full(len(steps), np.nan) for q in names} for measure in MEASURES}
    if not kept:
        return Axis(*head, np.zeros(0), np.zeros(0), empty, dict.fromkeys(names, (np.nan, np.nan)), {}, {})
    t, quantities, kernel_t = _aligned(kept, [q for q in names if q not in KERNELS])
    lengths = {"unit": run.network.units, "direction": run.network.directions}
    found, table, curves, limit = {}, empty, {}, {}
    for q, quantity in quantities.items():
        rows = fits.distances(quantity, len(kept) - 1, name not in INDEPENDENT)
        for measure in MEASURES:
            table[measure][q][good] = rows[measure]
        found[q] = _order(name, steps[good], quantity, rows)
        axes = (("unit", "unit") if q in KERNELS else NETWORK_KNOWN[q].axes) if run.has_network else ()
        entry = tuple(lengths[axis] for axis in axes)  # the shape at one time, or at a pair of them
        if q not in KERNELS:
            for key, array in ((q, quantity.mean), (f"{q}_error", quantity.error)):
                curves[key] = np.full((len(steps), t.size, *entry), np.nan)
                curves[key][good] = array.reshape(-1, t.size, *entry)
        if name == "learning_rate" and len(kept) > 1:
            limit[q], limit[f"{q}_error"] = (_square(array.reshape(-1, *entry), q, kernel_t.size) for array in fits.richardson(
                steps[good], quantity.mean, quantity.error))
    return Axis(*head, t, kernel_t, table, found, curves, limit, _residuals(theories), tuple(shown(theories[-1].datasets)))


def _order(name: str, steps: np.ndarray, quantity: Quantity, rows: dict[str, np.ndarray]) -> tuple[float, float]:
    if name == "samples":
        return fits.order_in_samples(steps, rows["replica_distance"], quantity.counts)
    if name == "learning_rate":
        return fits.order_in_step(steps, quantity)
    if name == "blocks_per_level":
        return fits.order_by_distance(steps[:-1], rows["distance"][:-1])
    return np.nan, np.nan       # mixing, on which the fixed point does not depend, and numbers of the estimator


def _aligned(theories: Sequence[Theory], curves: Sequence[str]) -> tuple[np.ndarray, dict[str, Quantity], np.ndarray]:
    """Common times, common times with kernels, and all quantities restricted to them. V and the gain are made of averages over
    replicas: single replicas have none."""
    counts = np.array([int(theory.averaged.sum()) for theory in theories])
    tolerance = 1e-3 * min(theory.run.algorithm.first_rate for theory in theories)
    index = _common([theory.t for theory in theories], tolerance)
    kernels = [theory.kernels.single for theory in theories]  # averages over cells of t' are other cells in each
    saved = _common([single.t for single in kernels], tolerance)
    found = {}
    for q in curves:
        single = all(q in theory.replicas for theory in theories)
        rows = [_lines(theory.replicas[q][theory.averaged][:, i]) for theory, i in zip(theories, index)] if single else None
        mean, error = (_lines(np.array([theory.curves[label][i] for theory, i in zip(theories, index)])) for label in (
            q, f"{q}_error"))
        found[q] = Quantity(mean, error, counts, rows)
    for q in KERNELS:
        lower = _lower(q, saved[0].size)
        part = {label: _lines(np.array([getattr(single, label)[np.ix_(i, i)][lower] for single, i in zip(kernels, saved)]))
                for label in (q, f"{q}_error")}
        found[q] = Quantity(part[q], part[f"{q}_error"], counts)
    return theories[-1].t[index[-1]], found, kernels[-1].t[saved[-1]]


def _lines(array: np.ndarray) -> np.ndarray:
    """One line for each point or replica; entries that are matrices are written out."""
    return array.reshape(len(array), -1)


def _common(grids: list[np.ndarray], tolerance: float) -> list[np.ndarray]:
    """Indices, in each grid, of the times that all have."""
    times = grids[-1]
    for grid in grids[:-1]:
        times = times[common_indices(grid, times, tolerance)[1]]
    return [common_indices(grid, times, tolerance)[0] for grid in grids]


def _lower(name: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the lower triangle of a kernel; without the diagonal for responses, which are zero there."""
    return np.tril_indices(size, -1 if name in ("M_R", "R") else 0)


def _square(entries: np.ndarray, name: str, size: int) -> np.ndarray:
    """The full kernel from the entries of its lower triangle; curves are returned as they are."""
    if name not in KERNELS:
        return entries
    lower, full = _lower(name, size), np.zeros((size, size, *entries.shape[1:]))
    full[lower] = entries
    if name in ("M_C", "C"):
        full[lower[::-1]] = entries.swapaxes(-1, -2) if entries.ndim > 1 else entries
    return full


def _residuals(theories: Sequence[Theory]) -> np.ndarray | None:
    """(points, sweeps): the largest residual over replicas at each sweep, NaN after the last; None without iteration."""
    lines = [np.nanmax(theory.history, axis=1) if theory.history is not None and len(theory.history) else np.zeros(0)
             for theory in theories]
    longest = max(map(len, lines))
    if not longest:
        return None
    return np.array([np.pad(line, (0, longest - len(line)), constant_values=np.nan) for line in lines])
