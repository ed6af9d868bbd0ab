"""A user's functions in CUDA C++: translated from Python, and compared with it on the card before they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dmft.core.device import Gpu
from dmft.core.errors import RunError
from dmft.core.to_cuda import CudaFunctions, NoCuda
from dmft.model.activations import Activation
from dmft.model.curves import CurveDefinition
from dmft.model.loss import Loss
from dmft.model.loss_family import POINTS
from dmft.model.losses import built_in
from dmft.model.sample_averages import SAMPLES

# Functions of a loss, and how near the card must be to Python; dv_dy of a user's loss may be a finite difference.
_FUNCTIONS = {"v": 1e-9, "dv": 1e-9, "d2v": 1e-9, "dv_dy": 1e-4, "is_wrong": 0.0}
_AVERAGES = 1e-9


@lru_cache
def loss_source(loss: Loss) -> str:
    """Templates loss_v, loss_dv, loss_d2v, loss_dv_dy and loss_is_wrong of (f, y) over the floating-point type."""
    functions = CudaFunctions("loss_")
    for name in ("is_wrong",) if loss.cuda else _FUNCTIONS:
        functions.add(getattr(loss, name), name=name)
    return loss.cuda + functions.text


@lru_cache
def activation_source(activation: Activation) -> str:
    """Templates activation_s, activation_ds and, where there is one, activation_d2s of a field."""
    functions = CudaFunctions("activation_")
    for name, function in _functions_of(activation).items():
        functions.add(function, name=name)
    return functions.text + ("" if activation.curvature else "#define activation_d2s activation_ds // which nobody looks at\n")


def _functions_of(activation: Activation) -> dict[str, Callable]:
    """s, ds and perhaps d2s as Python functions."""
    found = {"s": activation.value, "ds": activation.slope, "d2s": activation.curvature}
    return {name: getattr(each, "__wrapped__", each) for name, each in found.items() if each is not None}


@lru_cache
def averages_source(curves: tuple[CurveDefinition, ...]) -> str:
    """AVERAGES, the number of the curves, and a function that fills in their values for a sample; nothing without curves."""
    if not curves:
        return ""
    functions = CudaFunctions("average_")
    for k, curve in enumerate(curves):
        functions.add(curve.value, name=str(k))
    lines = "".join(f" out[{k}] = average_{k}<double>(f, y, h0);" for k in range(len(curves)))
    return (f"#define AVERAGES {len(curves)}\n{functions.text}"
            f"__device__ inline void average_values(double f, double y, double h0, double *out) {{{lines} }}\n")


def _translated(section: str, what: str, source: Callable[[Any], str], of: Any, more: str = "") -> str:
    """The source of something; RunError, about that section of the run file, where it has none. more: another remedy."""
    try:
        return source(of)
    except NoCuda as error:
        raise RunError(f'[{section}] device = "gpu": the {what}: {error}; write it in plain arithmetic{more}, or take '
                       'device = "cpu"') from None


def _check_values(section: str, what: str, got: np.ndarray, want: np.ndarray) -> None:
    if not np.all(np.abs(got - want) <= _AVERAGES * (1.0 + np.abs(want))):
        raise RunError(f'[{section}] device = "gpu": the {what} has other values there than in Python; write it in plain '
                       'arithmetic, or take device = "cpu"')


@lru_cache
def check_cuda(gpu: Gpu, loss: Loss, section: str) -> None:
    """RunError, about that section of the run file, for a loss without a counterpart in CUDA, or one that gives other numbers than
    its Python functions: a mistake is found here instead of in a wrong result."""
    text = _translated(section, f"loss {loss.name!r}", loss_source, loss, ", give register_loss its cuda argument")
    if built_in(loss.name):
        return
    calls = [f"loss_{name}<double>(a[i], b[i])" for name in _FUNCTIONS]
    for (name, close), got in zip(_FUNCTIONS.items(), _values(gpu, text, calls, POINTS), strict=True):
        want = np.array([getattr(loss, name)(*point) for point in POINTS])
        if not np.all(np.abs(got - want) <= close * (1.0 + np.abs(want))):
            raise RunError(f'[{section}] device = "gpu": loss_{name} in the CUDA source of {loss.name!r} is not its {name}; '
                           'mend the cuda argument of register_loss, or take device = "cpu"')


@lru_cache
def check_activation(gpu: Gpu, activation: Activation, section: str) -> None:
    """The same for activations."""
    what, functions, points = f"activation {activation.name!r}", _functions_of(activation), sorted({(f,) for f, _ in POINTS})
    text = _translated(section, what, activation_source, activation)
    got = _values(gpu, text, [f"activation_{name}<double>(a[i])" for name in functions], points)
    _check_values(section, what, got, np.array([[each(*point) for point in points] for each in functions.values()]))


@lru_cache
def check_averages(gpu: Gpu, curves: tuple[CurveDefinition, ...], section: str) -> None:
    """The same for observables."""
    for curve in curves:
        what = f"observable {curve.name!r}"
        text = _translated(section, what, averages_source, (curve,))
        got, = _values(gpu, text, ["average_0<double>(a[i], b[i], c[i])"], SAMPLES)
        _check_values(section, what, got, np.array([float(curve.value(*sample)) for sample in SAMPLES]))


def _values(gpu: Gpu, text: str, calls: list[str], points: Sequence[tuple[float, ...]]) -> np.ndarray:
    """(calls, points): what expressions of a[i], b[i], c[i] are on the card at some points."""
    columns = [gpu.put(np.array(column)) for column in zip(*points, strict=True)]
    lines = "".join(f"    for (int i = threadIdx.x; i < count; i += blockDim.x) out[{k} * count + i] = {call};\n"
                    for k, call in enumerate(calls))
    listed = ", ".join(f"const double *{name}" for name in "abc"[:len(columns)])
    kernel = f'extern "C" __global__ void values(int count, {listed}, double *out) {{\n{lines}}}\n'
    out = gpu.zeros((len(calls), len(points)))
    gpu.kernels(text + kernel, ["values"])["values"]((1,), (64,), (np.int32(len(points)), *columns, out), 0)
    return gpu.get(out)
