"""A loss in CUDA C++: translated from its Python functions, and compared with them on the card before it is used."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dmft.core.device import Gpu
from dmft.core.errors import RunError
from dmft.core.to_cuda import CudaFunctions, NoCuda
from dmft.model.loss import Loss
from dmft.model.loss_family import POINTS
from dmft.model.losses import built_in

# Functions of a loss, and how near the card must be to Python; dv_dy of a user's loss may be a finite difference.
_FUNCTIONS = {"v": 1e-9, "dv": 1e-9, "d2v": 1e-9, "dv_dy": 1e-4, "is_wrong": 0.0}
_VALUES = "extern \"C\" __global__ void loss_values(int count, const double *f, const double *y, double *out) {\n" + "".join(
    f"    for (int i = threadIdx.x; i < count; i += blockDim.x) out[{k} * count + i] = loss_{name}<double>(f[i], y[i]);\n"
    for k, name in enumerate(_FUNCTIONS)) + "}\n"


@lru_cache
def loss_source(loss: Loss) -> str:
    """Templates loss_v, loss_dv, loss_d2v, loss_dv_dy and loss_is_wrong of (f, y) over the floating-point type."""
    functions = CudaFunctions("loss_")
    for name in ("is_wrong",) if loss.cuda else _FUNCTIONS:
        functions.add(getattr(loss, name), name=name)
    return loss.cuda + functions.text


@lru_cache
def check_cuda(gpu: Gpu, loss: Loss, section: str) -> None:
    """RunError, about that section of the run file, for a loss without a counterpart in CUDA, or one that gives other numbers than
    its Python functions: a mistake is found here instead of in a wrong result."""
    where = f'[{section}] device = "gpu": '
    try:
        text = loss_source(loss)
    except NoCuda as error:
        raise RunError(f"{where}the loss {loss.name!r}: {error}; write it in plain arithmetic, give register_loss its cuda "
                       'argument, or take device = "cpu"') from None
    if built_in(loss.name):
        return
    (f, y), count = np.array(POINTS).T.copy(), len(POINTS)
    out = gpu.zeros((len(_FUNCTIONS), count))
    gpu.kernels(text + _VALUES, ["loss_values"])["loss_values"]((1,), (64,), (np.int32(count), gpu.put(f), gpu.put(y), out), 0)
    for (name, close), got in zip(_FUNCTIONS.items(), gpu.get(out), strict=True):
        want = np.array([getattr(loss, name)(*point) for point in POINTS])
        if not np.all(np.abs(got - want) <= close * (1.0 + np.abs(want))):
            raise RunError(f"{where}loss_{name} in the CUDA source of {loss.name!r} is not its {name}; "
                           'mend the cuda argument of register_loss, or take device = "cpu"')
