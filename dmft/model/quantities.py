"""The meaning and the unit of every quantity in a result, for exported tables.

Weights are dimensionless and w' = -gradient, so only time carries a unit: one unit of time is 1/learning_rate steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmft.core.errors import UserError
from dmft.model.curves import definition

# Meaning and unit of what is no curve.
OTHERS = {
    "t": ("time, learning rate times steps", "time"),
    "K1": ("pull of earlier overlaps on m, a density in t' below the diagonal", "1/time^2"),
    "Z": ("covariance of the force on sqrt(N) m", "1/time^2"),
    "M_C": ("covariance of the effective force (A.20)", "1/time^2"),
    "M_R": ("memory kernel, a density in t' (A.21)", "1/time^2"),
    "C": ("correlation of the weights", "1"),
    "R": ("response of the weights, a density in t'", "1"),
    "chi": ("response of the weights to a force that acts from t_w on", "time"),
    "t_w": ("waiting time", "time"),
    "t_last": ("last time of the cell of t' that a kernel is averaged over", "time"),
    "diverged": ("whether an instance diverged", "1"),
    "history": ("residual before mixing, relative", "1"),
    "risk": ("population risk", "1"),
    "a": ("second layer of a network", "1"),
    "beta": ("intercepts of the hidden units of a network", "1"),
}


def _known(name: str, attrs: Mapping[str, Any] | None) -> tuple[str, str]:
    curve = definition(name, attrs)
    return (curve.meaning, curve.unit) if curve else OTHERS.get(name, ("", ""))


def described(name: str, attrs: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """Meaning and unit of a dataset ("kernels/M_C_error"); empty where unknown. attrs: of the file that holds it."""
    base = name.rpartition("/")[2].split("[")[0]
    of_error = not any(_known(base, attrs)) and base.endswith("_error")
    meaning, unit = _known(base.removesuffix("_error") if of_error else base, attrs)
    for group, words in (("bias/", "finite-sample bias of"), ("history_error/", "estimated error by the blocks of the history of")):
        if name.startswith(group) and meaning:
            meaning = f"{words}: {meaning}"
    return (f"standard error of: {meaning}" if of_error and meaning else meaning), unit


def to_dataset(variables: Mapping[str, tuple[tuple[str, ...], np.ndarray]], coordinates: Mapping[str, np.ndarray],
               attrs: Mapping[str, Any]) -> Any:
    """An xarray.Dataset of {name: (dimensions, array)} with units; coordinates are named like their dimension."""
    try:
        import xarray
    except ImportError:
        raise UserError("to_xarray needs xarray; install the extra [frames]") from None

    def labels(name: str) -> dict[str, str]:
        meaning, unit = described(name, attrs)
        return {"long_name": meaning, "units": unit} if unit else {}

    time = dict(zip(("long_name", "units"), OTHERS["t"]))
    return xarray.Dataset(
        {name: (dims, array, labels(name)) for name, (dims, array) in variables.items()},
        {name: (name, array, time) for name, array in coordinates.items()}, dict(attrs))


def to_frame(columns: Mapping[str, np.ndarray]) -> Any:
    """A pandas.DataFrame of equally long columns."""
    try:
        import pandas
    except ImportError:
        raise UserError("to_dataframe needs pandas; install the extra [frames]") from None
    return pandas.DataFrame(dict(columns))
