"""Axes of datasets as HDF5 dimension scales, which xarray and netCDF follow. A scale that is not a dataset of the contents says so:
the readers of this package pass over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SCALE_ALONE = "scale_alone"     # attribute of datasets that only name an axis
_NO_VALUES = "This is a netCDF dimension but not a netCDF variable.%10d"


@dataclass(frozen=True)
class AxisNames:
    """Names of the axes of datasets. One name has one length in a file."""

    axes: Mapping[str, Sequence[str]]           # dataset: its axes
    values: Mapping[str, np.ndarray]            # axis: what it counts, where that is in no dataset of its name
    words: Mapping[str, tuple[str, str]]        # dataset or axis: meaning and unit


def name_axes(file: Any, names: AxisNames) -> None:
    """Write scales, meanings and units into an open h5py.File that has its datasets."""
    for name, axes in names.axes.items():
        for k, axis in enumerate(axes):
            if axis not in file:
                values = names.values.get(axis)
                scale = file.create_dataset(axis, file[name].shape[k:k + 1], ">f4") if values is None else (
                    file.create_dataset(axis, data=values))
                scale.make_scale(_NO_VALUES % len(scale) if values is None else _last(axis))
                scale.attrs[SCALE_ALONE] = True
            elif not file[axis].is_scale:
                file[axis].make_scale(_last(axis))
            if name != axis:
                file[name].dims[k].attach_scale(file[axis])
            file[name].dims[k].label = _last(axis)
    for name, (meaning, unit) in names.words.items():
        if name in file:
            file[name].attrs.update(long_name=meaning, units=unit)


def _last(name: str) -> str:
    """A name without its groups."""
    return name.rpartition("/")[2]
