"""The error on fresh samples where a user's channel says what is predicted from a field.

What the channels of the package predict is |f|^power, which the loops and the kernels of a card compute (kernels/formulas.py). A
user's `predict` is NumPy code that knows arrays: it is called on the fields of all fresh samples, after the loops.
"""

from __future__ import annotations

import numpy as np

from dmft.model.data import DataModel
from dmft.model.runfile import Run
from sgd_sim.recording import recorded_curves


def asks_channel(run: Run, data: DataModel) -> bool:
    """Whether the error on fresh samples needs the channel's own `predict`."""
    return not data.channel.built_in and "mse_fresh" in recorded_curves(run)


def fresh_errors(data: DataModel, fields: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean of (label - prediction)^2 over the last axis, the fresh samples. Eq. (B.7) of the paper."""
    with np.errstate(over="ignore", invalid="ignore"):    # fields of instances that have diverged; their records stay NaN
        guess = data.channel.predict(fields.ravel()).reshape(fields.shape)
        truth = data.channel.label(labels.ravel(), 0.0).reshape(labels.shape) if data.plain else labels
        return np.mean((truth - guess) ** 2, axis=-1)
