"""The formulas of the effective process for one sample: written here once, compiled into the loops of fields.py, process.py,
averages.py and clones.py, and translated for those of a GPU (launches.py). What is summed over the past comes as one number. Eqs.
[dmft-h], [stein], [dmft-T]."""

from __future__ import annotations

from numba.extending import register_jitable

from dmft.core.to_cuda import CudaFunctions
from dmft.samples.lost import leaves


@register_jitable
def raw_field(h, m, k):
    """The field of a sample in units of its spread: h and the part along the teacher."""
    return h + m * k


@register_jitable
def field_of(sd, h, m, k, b):
    """The field f of a sample, with the intercept b."""
    return sd * raw_field(h, m, k) + b


@register_jitable
def batch_of(scale, s, sd):
    """What the derivatives of the loss of a sample count with: mini-batch weight, rescaling and spread."""
    return scale * s * sd


@register_jitable
def step_of(eta, sd, g):
    """By how much a step of the gradient alone moves the field of a sample."""
    return eta * sd * g


@register_jitable
def next_step_of(eta, sd, scale, dv):
    """The same of the step after it, with a mini-batch weight of one, from the slope dv of the loss there."""
    return eta * sd * scale * sd * dv


@register_jitable
def moved_field(a, keep, eta, thermal, h, memory, chi, g, xi):
    """h_{n+1}: the effective process. Eq. [dmft-h]."""
    return a * (keep * h + eta * (memory + chi - g) + thermal * xi)  # [dmft-h]


@register_jitable
def moved_control(a, keep, eta, Y, memory, gp, g_y):
    """Y_{n+1} before it is bounded. Eq. [stein]."""
    return a * (keep * Y + eta * (memory - gp * Y - g_y))  # [stein]


@register_jitable
def tangent_slope(a, keep, eta, gp):
    """What row n of the tangents is multiplied by in row n+1. Eq. [dmft-T]."""
    return a * (keep - eta * gp)


def cuda_formulas() -> str:
    """All of them in CUDA C++."""
    functions = CudaFunctions()
    for function in (raw_field, field_of, batch_of, step_of, next_step_of, leaves, moved_field, moved_control, tangent_slope):
        functions.add(function)
    return functions.text
