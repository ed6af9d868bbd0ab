"""A step of a march, on either device, in which some responses are no numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.samples.gpu import OnDevice
from dmft.solvers.forward import Forward


def _spoil(arrays: Mapping[str, np.ndarray], name: str) -> None:
    """Every other sample: its first number."""
    values = np.array(arrays[name])
    values.reshape(len(values), -1)[::2, 0] = np.nan
    if isinstance(arrays, OnDevice):
        arrays.fill(name, values)
    else:
        arrays[name][...] = values


def spoilt_step(march: Forward) -> dict[str, np.ndarray]:
    """Where tangents and the response Y are no numbers after a step before which some were; sums of its row are from before."""
    samples = march.samples  # type: ignore[attr-defined]
    totals = march.comm.sums_exact(march.terms_of([march]))
    _spoil(samples.per_tangent(), "row")
    _spoil(samples.per_sample(), "state/Y")
    march.take_of([march], totals)
    assert not march.diverged
    return {"row": np.isnan(samples.per_tangent()["row"]), "Y": np.isnan(samples.per_sample()["state/Y"])}
