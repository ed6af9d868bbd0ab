"""What a reader of a theory is warned of: one list for `solve`, `compare` and Python (`theory.warnings`), and the bounds by which
`inspect` and reports judge each number."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.model.data import fixed_norm
from dmft.result.comparison import chance_bounds
from dmft.result.systematic import REMEDIES, systematic_errors

UNSTABLE_SHARE = 1e-4  # weight of samples with an unstable explicit step from which on there is a warning
IDENTITY_SHARE = 0.05  # of the largest alpha <g h>: bounded tangents miss some per cent of it, which [ibp] puts back (tuning.md)
ROUNDING = 1e-9  # of nu_gap, where it is exactly 0 but for that


def concerns(theory: Any) -> list[str]:
    """Of a Theory, a line each: systematic errors beyond the error bars, an identity that fails, unstable and lost samples."""
    found = []
    if certain := [one for one in systematic_errors(theory.datasets) if one.certain]:
        worst, more = certain[0], f" (and of {len(certain) - 1} more: dmft inspect)" if len(certain) > 1 else ""
        found.append(f"{worst.title} beyond its error bar {worst.bar:.2g}: {worst}{more}; {REMEDIES[worst.what]}")
    z, bound, share = identity(theory)
    if z > bound and share > IDENTITY_SHARE:
        found.append(f"the response as sampled fails the exact identity for nu_hat by {z:.3g} errors (by chance {bound:.3g}), "
                     f"{100 * share:.2g} % of alpha <g h>: take more samples or a smaller learning rate")
    if (share := largest(theory.unstable)) > UNSTABLE_SHARE:
        found.append(f"samples of total weight up to {share:.1g} were at learning_rate * v'' > 2, where the explicit step is "
                     "unstable; a smaller learning rate is safer")
    if np.isfinite(theory.dimension_bound):
        found.append(f"samples of total weight {largest(theory.lost):.2g} left their trapping region and count no more (curve "
                     f"'lost'): for N far below {theory.dimension_bound:.2g} simulations have no such samples, far above it they "
                     "diverge; a smaller learning rate is safer")
    return found


def identity(theory: Any) -> tuple[float, float, float]:
    """The largest deviation of the response as sampled from the exact identity for nu_hat, in standard errors, what chance makes of
    so many times and so few replicas, and the largest as a share of the largest alpha <g h> (under a ridge nu_hat is lambda);
    NaN where there is no error bar."""
    if theory.nu_gap is None or not theory.sampled:
        return np.nan, np.nan, np.nan
    good = np.isfinite(theory.nu_gap_error)
    z = theory.nu_gap[good] / np.hypot(theory.nu_gap_error[good], ROUNDING)
    if not z.size:
        return np.nan, np.nan, np.nan
    overlap = largest(theory.nu_hat_direct) * (fixed_norm(theory.run.problem) or 1.0)
    share = largest(theory.nu_gap[good]) / max(overlap, 1e-300)
    return largest(z), float(chance_bounds(z.size, np.array(max(int(theory.averaged.sum()) - 1, 1)))), share


def largest(values: np.ndarray | None) -> float:
    """The largest modulus; NaN where there is none."""
    good = np.abs(values)[np.isfinite(values)] if values is not None else np.zeros(0)
    return float(good.max()) if good.size else float("nan")
