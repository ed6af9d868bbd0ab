"""The spectral start: the leading eigenvector of D = (1/N) sum_mu T(y_mu) xi_mu xi_mu^T, where y = h0^2 is computed from the
labels.

T is a preprocessing of the labels: `mondelli_montanari`, (y - 1)/(y + sqrt(2 alpha) - 1), which has an overlap wherever any T has;
`truncated`, y up to 9 and 0 beyond (Chen and Candes); `subset`, 1 for y > 2 and else 0; or a user's own (`register_preprocessing`).
Power iteration w <- a (w + c D w) is gradient descent on the loss v = -T(y) f^2/2 with learning rate c: that is how the theory
starts. Eq. [phases].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import compiled_scalar
from dmft.core.errors import DmftWarning, UserError
from dmft.core.user_functions import check_own_name
from dmft.model.loss import Loss, Scalar

TRIM = 9.0  # of `truncated`
SUBSET = 2.0  # of `subset`
SEEN = np.linspace(0.0, 6.0, 121) ** 2  # values of h0^2 at which a preprocessing is evaluated and checked
_registered: dict[str, Callable[[Any], Any]] = {}  # a user's T by its name


class Preprocessing(NamedTuple):
    """T, and d2v/df dy of the loss that it makes, where T has no jump and this is known."""

    T: Callable[[Any], Any]
    dv_dy: Scalar | None = None


def register_preprocessing(name: str, T: Callable[[float], float], cuda: str = "") -> None:
    """Make a user's preprocessing of the labels known under `name`, for `[problem] preprocessing` with start = "spectral": T(y) of
    y = h0^2, one number at a time, bounded, compiled by Numba, and translated to CUDA for device = "gpu". `cuda` is not needed any
    more."""
    if cuda:
        warnings.warn(f"register_preprocessing: {name!r}: cuda is not needed any more, T itself is translated", DmftWarning,
                      stacklevel=2)
    check_own_name("register_preprocessing", name, PREPROCESSINGS)
    compiled = compiled_scalar(f"register_preprocessing: {name!r}", T, "(y)", [(y,) for y in SEEN])
    values = np.array([float(compiled(y)) for y in SEEN])
    if not np.all(np.isfinite(values)) or values.max() <= 0:
        raise UserError(f"register_preprocessing: {name!r}: T(y) must be finite for all y >= 0, and positive somewhere: samples "
                        "with T > 0 pull towards the teacher")
    _preprocessing.cache_clear()
    spectral_loss.cache_clear()
    _registered[name] = compiled


def preprocessing_names() -> tuple[str, ...]:
    """Names that a run file may give for problem.preprocessing."""
    return PREPROCESSINGS + tuple(_registered)


def lowest(T: Callable[[Any], Any]) -> float:
    """The least value of T at labels that are likely."""
    return min(float(T(y)) for y in SEEN)


def _mondelli_montanari(alpha: float) -> Preprocessing:
    shift = float(np.sqrt(2.0 * alpha)) - 1.0

    @njit
    def T(y):
        return (y - 1.0) / (y + shift)

    @njit
    def dv_dy(f, y):
        return -2.0 * y * f * (shift + 1.0) / (y * y + shift) ** 2

    return Preprocessing(T, dv_dy)


@njit
def _truncated(y):
    return y if y <= TRIM else 0.0


@njit
def _subset(y):
    return 1.0 if y > SUBSET else 0.0


@njit
def _not_known(f, y):
    return 0.0 * f


_BUILT_IN: dict[str, Callable[[float], Preprocessing]] = {
    "mondelli_montanari": _mondelli_montanari,
    "truncated": lambda alpha: Preprocessing(_truncated),
    "subset": lambda alpha: Preprocessing(_subset),
}
PREPROCESSINGS = tuple(_BUILT_IN)


@lru_cache
def _preprocessing(name: str, alpha: float) -> Preprocessing:
    return Preprocessing(_registered[name]) if name in _registered else _BUILT_IN[name](alpha)


def preprocessing_of(name: str, alpha: float) -> Callable[[Any], Any]:
    """T(y) of one number y = h0^2."""
    return _preprocessing(name, alpha).T


@lru_cache
def spectral_loss(name: str, alpha: float) -> Loss:
    """v = -T(y^2) f^2/2, whose gradient descent is power iteration; y is the label |h0| or h0."""
    T, dv_dy = _preprocessing(name, alpha)

    @njit
    def v(f, y):
        return -0.5 * T(y * y) * f * f  # [phases]

    @njit
    def dv(f, y):
        return -T(y * y) * f

    @njit
    def d2v(f, y):
        return -T(y * y) + 0.0 * f

    return Loss(f"spectral_{name}", v, dv, d2v, dv_dy or _not_known, stein=dv_dy is not None, labels="abs")
