"""Names of the axes of result files, for programs that follow HDF5 dimension scales (xarray, netCDF): from the layouts of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmft.core.scales import AxisNames
from dmft.core.tree import flatten
from dmft.files.layouts import layout_of
from dmft.model.quantities import OTHERS, described

# Axes of layouts that have values: their name for readers, and the dataset with the values.
VALUES = {"time": ("t", "t"), "saved": ("t_kernel", "kernels/t"), "row": ("t_column", "columns/t"),
          "waiting": ("t_w", "columns/t_w"), "snapshot": ("t_snapshot", "snapshots/t"),
          "visited": ("t_visited", "snapshots/visited")}
SECOND = {"t_kernel": "t_prime"}  # the name of an axis that comes twice; NAME_prime where it is not told here


def layout_axes(kind: str, network: bool, arrays: Mapping[str, Any], attrs: Mapping[str, Any]) -> AxisNames:
    """The names for a file of the theory or of the simulator."""
    flat = {name: np.asarray(array) for name, array in flatten(arrays).items()}
    declared = {dataset.name: [VALUES.get(str(axis), (str(axis),))[0] for axis in dataset.axes if isinstance(axis, str)]
                for dataset in layout_of(kind, False, network).datasets}
    values = {name: flat[place] for name, place in VALUES.values() if place in flat and name not in flat}
    found = {name: declared.get(name, ()) for name in flat}
    for name, array in flat.items():  # curves of a user are in no table, but have the axes of m
        if not found[name] and (like := name.replace(_base(name), "m")) in declared and array.ndim == len(declared[like]):
            found[name] = declared[like]
    return named(flat, found, values, attrs)


# Axes of a convergence study, by the names of layouts: the dataset or scale of their group that has their values.
_STUDY = {"points": "{0}/{0}", "common": "{0}/t", "saved": "{0}/kernel_t", "sweep": "{0}/sweep"}


def study_axes(axes: Sequence[str], network: bool, arrays: Mapping[str, np.ndarray], attrs: Mapping[str, Any]) -> AxisNames:
    """The names for a file of a convergence study along these axes, each of which has a group."""
    found = {dataset.name.format(axis=name): [_STUDY.get(axis, axis).format(name) for axis in dataset.axes if isinstance(axis, str)]
             for name in axes for dataset in layout_of("convergence", False, network).datasets}
    names = named(arrays, found, {}, attrs)
    values = {_STUDY["points"].format(name): arrays[f"{name}/values"] for name in axes}
    values |= {f"{name}/kernel_t_prime": arrays[f"{name}/kernel_t"] for name in axes}
    return AxisNames(names.axes, values, names.words)


def named(arrays: Mapping[str, np.ndarray], axes: Mapping[str, Sequence[str]], values: Mapping[str, np.ndarray],
          attrs: Mapping[str, Any]) -> AxisNames:
    """Names of all axes, with meaning and unit of every dataset. An axis without a name, or one that does not have the length that
    its name has elsewhere, is named after its length."""
    lengths, found = {name: len(array) for name, array in values.items()}, {}
    for name, array in arrays.items():
        told, dims = axes.get(name, ()), list[str]()
        for k, length in enumerate(array.shape):
            axis = told[k] if len(told) == array.ndim else f"size_{length}"
            axis = SECOND.get(axis, f"{axis}_prime") if axis in dims else axis
            taken = axis in arrays and (arrays[axis].ndim != 1 or list(axes.get(axis, ())) != [axis])
            axis = f"{axis}_axis" if taken else axis
            if lengths.setdefault(axis, length) != length:
                axis = f"size_{length}" + "_prime" * dims.count(f"size_{length}")
                lengths[axis] = length
            dims.append(axis)
        found[name] = tuple(dims)
    second = {SECOND.get(name, f"{name}_prime"): array for name, array in values.items()}
    words = {name: told for name in arrays if any(told := described(name, attrs))}
    return AxisNames(found, {**second, **values}, words | dict.fromkeys((*second, *values), OTHERS["t"]))


def _base(name: str) -> str:
    return name.rpartition("/")[2].removesuffix("_error")
