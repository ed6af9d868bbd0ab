"""Long curves in a checkpoint, packed (packing.py): the dataset is the stream, and says so. What it says is read without compiled
code, which is loaded when a curve is packed or unpacked: most files have none."""

from __future__ import annotations

from typing import Any

import numpy as np

COURSE = "course"  # the attribute of such a dataset
LONG_COURSE = 1 << 16  # numbers of a curve from which on it is packed


def write_course(file: Any, name: str, course: np.ndarray) -> None:
    """Put a curve into an open h5py.File."""
    from dmft.core.packing import pack_course

    file.create_dataset(name, data=pack_course(course)).attrs[COURSE] = True


def shape_and_type(item: Any) -> tuple[tuple[int, ...], np.dtype]:
    """What a dataset holds, once unpacked. A stream begins with how many numbers the curve has; ValueError for what is none."""
    if COURSE not in item.attrs:
        return item.shape, item.dtype
    head = item[:8] if item.ndim == 1 else np.empty(0)
    if head.dtype != np.uint8 or len(head) < 8 or head.view(np.int64)[0] < 0:
        raise ValueError(f"{item.name} is no packed curve")
    return (int(head.view(np.int64)[0]),), np.dtype(np.float64)


def values(item: Any, index: Any = ()) -> np.ndarray:
    """A dataset, or a part of it."""
    if COURSE not in item.attrs:
        return np.asarray(item[index])
    from dmft.core.packing import unpack_course

    return unpack_course(item[()], shape_and_type(item)[0][0])[index]
