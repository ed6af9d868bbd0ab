"""Named statistics (arrays of any shape) as one flat vector, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dmft.core.errors import UserError


@dataclass(frozen=True)
class StatisticsLayout:
    """Order, shapes and symmetry of a model's statistics.

    `shapes` maps names to shapes, in the order of the flat vector. A statistic named in `symmetric` is a symmetric
    matrix of which the flat vector holds the upper triangle only, row by row: so a flat vector lists independent
    numbers, and a noise covariance over it is of full rank wherever the noise is.
    """

    shapes: Mapping[str, tuple[int, ...]]
    symmetric: frozenset[str] = frozenset()
    _slices: dict[str, slice] = field(init=False, repr=False, compare=False)
    _upper: dict[str, tuple[np.ndarray, np.ndarray]] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        slices, first = {}, 0
        for name, shape in self.shapes.items():
            n = shape[0] * (shape[0] + 1) // 2 if name in self.symmetric else int(np.prod(shape))
            slices[name] = slice(first, first + n)
            first += n
        object.__setattr__(self, "_slices", slices)
        object.__setattr__(self, "_upper", {name: np.triu_indices(self.shapes[name][0]) for name in self.symmetric})

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return max((s.stop for s in self._slices.values()), default=0)

    def slice(self, name: str) -> slice:
        """Where a statistic lies in the flat vector."""
        return self._slices[name]

    def pack(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Arrays of shape (..., *shape), with leading axes that broadcast, to one array (..., size)."""
        parts = []
        for name, shape in self.shapes.items():
            array = np.asarray(arrays[name], float)
            lead = array.shape[: array.ndim - len(shape)]
            if array.shape[len(lead) :] != shape:
                raise UserError(f"initial {name} has shape {array.shape}; expected {shape} (or instances first)")
            if name in self.symmetric:
                rows, columns = self._upper[name]
                parts.append(array[..., rows, columns])
            else:
                parts.append(array.reshape(*lead, -1))
        if len({part.shape[:-1] for part in parts}) == 1:
            return np.concatenate(parts, axis=-1)
        lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return np.concatenate([np.broadcast_to(part, lead + part.shape[-1:]) for part in parts], axis=-1)

    def unpack(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The inverse of `pack`: (..., size) to a dictionary of arrays (..., *shape)."""
        arrays = {}
        for name, shape in self.shapes.items():
            part = flat[..., self._slices[name]]
            if name in self.symmetric:
                rows, columns = self._upper[name]
                full = np.empty(flat.shape[:-1] + shape)
                full[..., rows, columns] = part
                full[..., columns, rows] = part
                arrays[name] = full
            else:
                arrays[name] = part.reshape(flat.shape[:-1] + shape)
        return arrays
