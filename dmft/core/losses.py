"""The loss of one sample, v(h, h0), with its derivatives, as functions Numba can inline.

h is the student's field, h0 the teacher's; primes are derivatives in h. A loss is found by its name, which is
what run files hold; `register_loss` adds a user's own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import njit
from numba.core.errors import NumbaError

from dmft.core.errors import UserError

Scalar = Callable[[float, float], float]


@dataclass(frozen=True)
class Loss:
    """A loss and its derivatives; every member is a jitted function of two numbers (or arrays)."""

    name: str
    v: Scalar
    dv: Scalar        # dv/dh
    d2v: Scalar       # d2v/dh2
    dv_dh0: Scalar    # d2v/dh dh0, wanted by the Stein control variate alone


@njit(cache=True)
def _phase_v(h, h0):
    return 0.25 * (h * h - h0 * h0) ** 2


@njit(cache=True)
def _phase_dv(h, h0):
    return h * (h * h - h0 * h0)


@njit(cache=True)
def _phase_d2v(h, h0):
    return 3.0 * h * h - h0 * h0


@njit(cache=True)
def _phase_dv_dh0(h, h0):
    return -2.0 * h * h0


@njit(cache=True)
def _linear_v(h, h0):
    return 0.5 * (h - h0) ** 2


@njit(cache=True)
def _linear_dv(h, h0):
    return h - h0


@njit(cache=True)
def _linear_d2v(h, h0):
    return 1.0 + 0.0 * h


@njit(cache=True)
def _linear_dv_dh0(h, h0):
    return -1.0 + 0.0 * h


_BUILT_IN = {
    "phase_retrieval": Loss("phase_retrieval", _phase_v, _phase_dv, _phase_d2v, _phase_dv_dh0),
    "linear": Loss("linear", _linear_v, _linear_dv, _linear_d2v, _linear_dv_dh0),
}
_losses = dict(_BUILT_IN)


def loss_names() -> list[str]:
    """Names that a run file may give for problem.loss."""
    return list(_losses)


def get_loss(name: str) -> Loss:
    """The loss of that name; UserError when there is none."""
    if name in _losses:
        return _losses[name]
    near = difflib.get_close_matches(name, _losses, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise UserError(f"unknown loss {name!r} (known: {', '.join(_losses)}; a plugin may register more){hint}")


def register_loss(name: str, v: Scalar, dv: Scalar, d2v: Scalar, dv_dh0: Scalar | None = None) -> Loss:
    """Make a user's loss known under `name`: elementwise v, dv/dh and d2v/dh2 of (h, h0).

    The functions are compiled and the derivatives compared with differences here, so that a slip shows at once
    and not as a wrong result. Without dv_dh0 a central difference of dv in h0 is used.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(f"register_loss: {name!r} is not a name (letters, digits and underscores)")
    if name in _BUILT_IN:
        raise UserError(f"register_loss: {name!r} is built in; choose another name")
    functions = [_jit(name, function) for function in (v, dv, d2v)]
    mixed = _jit(name, dv_dh0) if dv_dh0 is not None else _difference_in_h0(functions[1])
    loss = Loss(name, functions[0], functions[1], functions[2], mixed)
    _check_derivative(name, "dv", loss.dv, "v", loss.v)
    _check_derivative(name, "d2v", loss.d2v, "dv", loss.dv)
    _losses[name] = loss
    return loss


def _jit(name: str, function: Scalar) -> Scalar:
    compiled: Any = function if hasattr(function, "py_func") else njit(function)
    try:
        float(compiled(0.3, 0.7))
    except (NumbaError, TypeError, ValueError, ZeroDivisionError) as error:
        label = getattr(function, "__name__", repr(function))
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"register_loss: {name!r}: {label}(h, h0) does not compile to a number: {reason}") from None
    return compiled


def _difference_in_h0(dv: Scalar) -> Scalar:
    @njit
    def dv_dh0(h, h0):
        step = 1e-5
        return (dv(h, h0 + step) - dv(h, h0 - step)) / (2.0 * step)

    return dv_dh0


_POINTS = ((0.3, 0.7), (-1.1, 0.4), (1.7, -1.3), (-0.6, -0.9), (0.9, 2.1))


def _check_derivative(name: str, slope_name: str, slope: Scalar, base_name: str, base: Scalar) -> None:
    """Wrong at most points means a wrong formula; wrong at one may be a kink."""
    step, wrong = 1e-5, 0
    for h, h0 in _POINTS:
        difference = (base(h + step, h0) - base(h - step, h0)) / (2.0 * step)
        wrong += not abs(slope(h, h0) - difference) <= 1e-4 * (1.0 + abs(difference))
    if wrong > len(_POINTS) // 2:
        raise UserError(f"register_loss: {name!r}: {slope_name} is not the derivative of {base_name} in h")
