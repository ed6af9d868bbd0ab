"""The formulas of a sample of a network, as dmft/samples/formulas.py has them for one unit: compiled into the loops of samples.py,
tangents.py and control.py, and translated for those of a GPU (gpu.py). Eqs. [c-model], [c-h], [c-T], [c-stein].

g' = curve d d^T + diag(bend) never stands as a matrix: times a vector x it is curve (d x) d + bend x, unit by unit. What A and the
drift between units make of a step are sums over units, which the loops do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba.extending import register_jitable

from dmft.core.cuda_numbers import Array, Kind
from dmft.core.to_cuda import CudaFunctions
from dmft.samples.formulas import SHARED, driven


@register_jitable
def unit_field(h, beta, m, kappa, directions):
    """h~ of a unit: its field, intercept, and its part along the directions; m, kappa (k,). Eq. [c-model]."""
    field = h + beta
    for t in range(directions):
        field += m[t] * kappa[t]  # [c-model]
    return field


@register_jitable
def stiffness(curve, d, bend, units, stride):
    """No eigenvalue of g' is larger, where curve is not negative; entries of d and bend lie `stride` apart."""
    largest, norm = bend[0], 0.0
    for r in range(units):
        largest = max(largest, bend[r * stride])
        norm += d[r * stride] * d[r * stride]
    return curve * norm + largest


@register_jitable
def curved(along, d, bend, x):
    """g' x of a unit, where along = curve (d x), with whatever else pulls along d."""
    return along * d + bend * x


@register_jitable
def pushed_field(eta, memory, chi, g, thermal, xi):
    """What moves the field of a unit but for keep and A. Eq. [c-h]."""
    return driven(eta, memory, chi, g) + thermal * xi  # [c-h]


@register_jitable
def pushed_control(eta, memory, along, d, bend, Y):
    """What moves the response Y of a unit but for keep and A; along: as of `curved`, with the label's. Eq. [c-stein]."""
    return eta * (memory - along * d - bend * Y)  # [c-stein]


@register_jitable
def pushed_tangent(eta, memory, response):
    """What moves a tangent of a unit but for keep and A; response: g' T. Eq. [c-T]."""
    return eta * memory - eta * response  # [c-T]


def cuda_formulas(units: int, directions: int) -> str:
    """All of them in CUDA C++, for so many units and directions."""
    lines = Array("real")
    arrays: Mapping[Callable[..., Any], tuple[Mapping[str, Kind], Mapping[str, int]]] = {
        unit_field: ({"m": lines, "kappa": lines}, {"directions": directions}),
        stiffness: ({"d": lines, "bend": lines, "stride": "int"}, {"units": units})}
    functions = CudaFunctions()
    for function in (*SHARED, unit_field, stiffness, curved, pushed_field, pushed_control, pushed_tangent):
        functions.add(function, *arrays.get(function, ({}, {})))
    return functions.text
