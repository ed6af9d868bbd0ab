"""How far the mean of an ensemble is from a theory, in standard errors."""

from __future__ import annotations

import numpy as np


def compare(theory, ensemble, name: str) -> np.ndarray:
    """z-scores (times, ...) of an ensemble's mean against a trajectory at the same times; the trajectory may be an ensemble
    too. Entries where both errors vanish (the start) are 0 if equal."""
    mean, error = ensemble.mean()[name], ensemble.error()[name]
    other = theory.mean()[name] if hasattr(theory, "diverged") else theory[name]
    if hasattr(theory, "diverged"):
        error = np.hypot(error, theory.error()[name])
    gap = mean - other
    return np.where(np.abs(gap) < 1e-12, 0.0, gap / np.where(error > 0, error, np.finfo(float).tiny))
