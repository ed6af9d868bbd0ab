"""The CUDA source of a loss, compared with its Python functions before it is used."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dmft.core.device import Gpu
from dmft.core.errors import RunError
from dmft.model.losses import POINTS, Loss, built_in

_VALUES = """
extern "C" __global__ void loss_values(int count, const double *f, const double *y, double *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    out[i] = loss_v<double>(f[i], y[i]);
    out[count + i] = loss_dv<double>(f[i], y[i]);
    out[2 * count + i] = loss_d2v<double>(f[i], y[i]);
    out[3 * count + i] = loss_dv_dy<double>(f[i], y[i]);
}
"""
# dv_dy of a user's loss may be a finite difference on the CPU
_TOLERANCES = {"v": 1e-9, "dv": 1e-9, "d2v": 1e-9, "dv_dy": 1e-4}


@lru_cache
def check_cuda(gpu: Gpu, loss: Loss, section: str) -> None:
    """RunError, about that section of the run file, for a loss without CUDA source, or with one that gives other numbers than
    its Python functions: a mistake is found here instead of in a wrong result."""
    if not loss.cuda:
        raise RunError(f'[{section}] device = "gpu": the loss {loss.name!r} has no CUDA source; give register_loss its cuda '
                       'argument, or take device = "cpu"')
    if built_in(loss.name):
        return
    (f, y), count = np.array(POINTS).T.copy(), len(POINTS)
    out = gpu.zeros((len(_TOLERANCES), count))
    gpu.kernels(loss.cuda + _VALUES, ["loss_values"])["loss_values"](
        (1,), (64,), (np.int32(count), gpu.put(f), gpu.put(y), out), 0)
    for (name, close), got in zip(_TOLERANCES.items(), gpu.get(out), strict=True):
        want = np.array([getattr(loss, name)(*point) for point in POINTS])
        if not np.all(np.abs(got - want) <= close * (1.0 + np.abs(want))):
            raise RunError(f'[{section}] device = "gpu": loss_{name} in the CUDA source of {loss.name!r} is not its {name}; '
                           'mend the cuda argument of register_loss, or take device = "cpu"')
