"""The formulas of the effective process for one sample: written here once, compiled into the loops of fields.py, process.py,
averages.py and clones.py, and translated for those of a GPU (launches.py); networks use some of them (dmft/committee/formulas.py).
What is summed over the past comes as one number. Eqs. [dmft-h], [stein], [dmft-T]."""

from __future__ import annotations

from numba.extending import register_jitable

from dmft.core.to_cuda import CudaFunctions
from dmft.samples.lost import leaves

# A sample with eta g' > OVERSHOOT overshoots: its explicit step has |dh_{n+1}/dh_n| > 1 with the sign turned. A sample that keeps
# doing so is on a chaotic orbit, whose tangent grows exponentially while the average response that it stands for does not.
OVERSHOOT = 2.0


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
def gradient_of(batch, dv):
    """g, from the slope of the loss."""
    return batch * dv


@register_jitable
def curvature_of(batch, sd, d2v):
    """g', from its curvature."""
    return batch * sd * d2v


@register_jitable
def label_slope_of(batch, dv_dy, slope):
    """dg/dh0 through the label, whose slope this is."""
    return batch * dv_dy * slope


# What a sample of weight w adds to averages. Eqs. [dmft-mu], [dmft-MC], [ibp], [random-K].
@register_jitable
def moment_of(w, g, x):
    """To <g x>."""
    return w * g * x


@register_jitable
def label_moment_of(w, gp, Y, g_y):
    """To <g' Y + dg/dy dy/dh0>, what mu has besides what comes through the fields. Eq. [stein]."""
    return w * gp * Y + w * g_y


@register_jitable
def push_of(w, g, sd):
    """To <(s/l) v'>, which moves the intercept."""
    return w * g / sd


@register_jitable
def step_of(eta, sd, g):
    """By how much a step of the gradient alone moves the field of a sample."""
    return eta * sd * g


@register_jitable
def next_step_of(eta, sd, scale, dv):
    """The same of the step after it, with a mini-batch weight of one, from the slope dv of the loss there."""
    return eta * sd * scale * sd * dv


@register_jitable
def driven(eta, memory, chi, g):
    """By how much memory, noise and gradient move a field in a step. Eqs. [dmft-h], [c-h]."""
    return eta * (memory + chi - g)


@register_jitable
def moved_field(a, keep, eta, thermal, h, memory, chi, g, xi):
    """h_{n+1}: the effective process. Eq. [dmft-h]."""
    return a * (keep * h + driven(eta, memory, chi, g) + thermal * xi)  # [dmft-h]


@register_jitable
def moved_control(a, keep, eta, Y, memory, gp, g_y):
    """Y_{n+1} before it is bounded. Eq. [stein]."""
    return a * (keep * Y + eta * (memory - gp * Y - g_y))  # [stein]


@register_jitable
def tangent_slope(a, keep, eta, gp):
    """What row n of the tangents is multiplied by in row n+1. Eq. [dmft-T]."""
    return a * (keep - eta * gp)  # [dmft-T]


@register_jitable
def tangent_source(a, eta, gp):
    """The response of h_{n+1} to step n itself. Eq. [dmft-T]."""
    return -a * eta * gp  # [dmft-T]


@register_jitable
def overshoots(eta, stiffness):
    """Whether the step of a sample with so large a g' overshoots, so that its responses are bounded."""
    return eta * stiffness > OVERSHOOT


@register_jitable
def flushed(x, tiny):
    """A tangent, or zero where products of two so small ones would be denormal, and slow."""
    return 0.0 if abs(x) < tiny else x


@register_jitable
def clipped(x, most):
    """A response within -most .. most; what is no number stays so, so that a march sees it."""
    return min(max(x, -most), most)


@register_jitable
def most_of_control(eta, stiffness, tangent_max, y_max):
    """What the response Y of a sample is held to. Eq. [stein]."""
    return tangent_max if overshoots(eta, stiffness) else y_max


@register_jitable
def share_of(size, most):
    """What the response of a sample is multiplied by so that sum_J |T_nJ| = size counts as `most` at most: what is missed, the
    identity puts back. Eq. [ibp]."""
    return most / size if size > most else 1.0


@register_jitable
def square_of(term, weight):
    """The square of what a sample adds to an average, with its weight once."""
    return term * term / weight


SHARED = (batch_of, driven, overshoots, flushed, clipped, most_of_control, share_of, square_of)  # with networks


def cuda_formulas() -> str:
    """All of them in CUDA C++."""
    functions = CudaFunctions()
    for function in (raw_field, field_of, gradient_of, curvature_of, label_slope_of, moment_of, label_moment_of, push_of, step_of,
                     next_step_of, leaves, *SHARED, moved_field, moved_control, tangent_slope, tangent_source):
        functions.add(function)
    return functions.text
