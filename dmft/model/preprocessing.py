"""The spectral start: the leading eigenvector of D = (1/N) sum_mu T(y_mu) xi_mu xi_mu^T, with y = h0^2 as the labels tell it.

T is a preprocessing of the labels: `mondelli_montanari`, (y - 1)/(y + sqrt(2 alpha) - 1), which has an overlap wherever any has;
`truncated`, y up to 9 and 0 beyond (Chen and Candes); `subset`, 1 for y > 2 and else 0.
Power iteration w <- a (w + c D w) is gradient descent on the loss v = -T(y) f^2/2 with learning rate c: that is how the theory
starts. Eq. [phases].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from dmft.model.loss import Loss

PREPROCESSINGS = ("mondelli_montanari", "truncated", "subset")
TRIM = 9.0
SUBSET = 2.0


@lru_cache
def preprocessing_of(name: str, alpha: float) -> Callable[[Any], Any]:
    """T(y) for y = h0^2, of one number."""
    if name == "mondelli_montanari":
        shift = np.sqrt(2.0 * alpha) - 1.0

        @njit
        def T(y):
            return (y - 1.0) / (y + shift)
    elif name == "truncated":
        @njit
        def T(y):
            return y if y <= TRIM else 0.0
    else:
        @njit
        def T(y):
            return 1.0 if y > SUBSET else 0.0
    return T


@lru_cache
def spectral_loss(name: str, alpha: float) -> Loss:
    """v = -T(y^2) f^2/2, whose gradient descent is power iteration; y is the label |h0| or h0."""
    T = preprocessing_of(name, alpha)
    shift = float(np.sqrt(2.0 * alpha)) - 1.0
    smooth = name == "mondelli_montanari"

    @njit
    def v(f, y):
        return -0.5 * T(y * y) * f * f

    @njit
    def dv(f, y):
        return -T(y * y) * f

    @njit
    def d2v(f, y):
        return -T(y * y) + 0.0 * f

    @njit
    def dv_dy(f, y):
        return -2.0 * y * f * (shift + 1.0) / (y * y + shift) ** 2 if smooth else 0.0 * f

    body = {"mondelli_montanari": f"(y - 1) / (y + real({shift!r}))", "truncated": f"y <= real({TRIM}) ? y : real(0)",
            "subset": f"y > real({SUBSET}) ? real(1) : real(0)"}[name]
    square = f"(y * y + real({shift!r})) * (y * y + real({shift!r}))"
    slope = f"real({-2 * (shift + 1.0)!r}) * y * f / ({square})" if smooth else "real(0)"
    cuda = (f"template <typename real> __device__ real weight(real y) {{ return {body}; }}\n"
            "template <typename real> __device__ real loss_v(real f, real y) { return real(-0.5) * f * f * weight<real>(y * y); }\n"
            "template <typename real> __device__ real loss_dv(real f, real y) { return -weight<real>(y * y) * f; }\n"
            "template <typename real> __device__ real loss_d2v(real, real y) { return -weight<real>(y * y); }\n"
            f"template <typename real> __device__ real loss_dv_dh0(real f, real y) {{ return {slope}; }}\n")
    return Loss(f"spectral_{name}", v, dv, d2v, dv_dy, stein=smooth, cuda=cuda, labels="abs")
