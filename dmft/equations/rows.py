"""From sums over samples to one row of the kernels. Eqs. [dmft-nu], [dmft-MC], [dmft-MR], [dmft-mu], [stein]."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from dmft.core.compiled import FREE, IN_PLACE, INNER, UNCOUNTED, each
from dmft.equations.blocks import blocks_of, used_slots
from dmft.equations.ibp import FieldOverlaps, correct_row, find_residual, ridge_strength
from dmft.equations.noise import dot
from dmft.equations.state import M_PAST, MEMORY, ROOM, ROW_K_R, ROW_M_C, solution_of
from dmft.equations.steps import noise_overlaps, row_memory
from dmft.model.curves import PER_STEP, defined
from dmft.model.experiment import Experiment

# Columns of the sums over samples before the kernels: averages of these (times the weight).
# LABEL: what mu has besides E_n, [stein]; WRONG: wrong labels; PUSH: (s/l) v', which moves the intercept.
# LOST: samples that left their trapping region, [lost].
GP, GK, LOSSES, GH, GG, LABEL, WILD, UNSTABLE, WRONG, PUSH, LOST, CARRIED, RESPONSE, RESPONSE2 = range(14)
SCALARS = 14
GROUPS = 3  # a column for every slot: g times past g, g' times tangents, g times past h


class InUse(NamedTuple):
    """Which estimates a solution uses."""

    stein: bool  # the control variate of mu
    identity: bool  # the response is completed by [ibp]
    share: float  # of the samples that have tangents
    trusted: float  # the same as the ridge of [ibp] takes it
    faint: float  # control_fade_gradient
    late: float  # control_fade_time; infinite where no response grows


@njit(**INNER)
def noise_row(sums, given, one):
    """Row n of M_C from the sums over samples, which is all that the noise needs to know of step n. Eq. [dmft-MC]."""
    M_C = one.work[ROW_M_C]
    one.now.M_C_now = given.alpha * sums[GG]  # [dmft-MC]
    for j in each(len(M_C)):
        M_C[j] = given.alpha * sums[SCALARS + j]  # [dmft-MC]


@njit(**IN_PLACE)
def estimate(sums, use, given, by, rule, blocks, one):
    """Row n of the kernels from the sums of `Samples.row_sums` over all samples (weights add up to one), and what pushes the
    intercept; `noise_overlaps` and `row_memory` are known afterwards."""
    alpha, now, K_R = given.alpha, one.now, one.work[ROW_K_R]
    slots = len(K_R)
    now.delta_nu = alpha * sums[GP]  # [dmft-nu]
    now.mu = alpha * sums[GK]  # [dmft-mu]
    noise_row(sums, given, one)
    for j in each(slots):
        response = sums[SCALARS + slots + j]
        K_R[j] = -alpha * (response / sums[CARRIED] if use.identity else response)  # [dmft-MR]
    now.push = sums[PUSH]
    now.residual = now.largest = spread = 0.0
    noise_overlaps(given, rule, blocks, one)
    if use.identity:
        overlaps = one.work[ROOM]
        for j in each(slots):
            overlaps[j] = alpha * sums[SCALARS + 2 * slots + j]
        find_residual(given, rule, blocks, one, FieldOverlaps(overlaps, alpha * (sums[GH] - now.m * sums[GK])))
        response = sums[RESPONSE] / sums[CARRIED]
        spread = sums[RESPONSE2] / sums[CARRIED] - response * response
        spread = 0.0 if spread < 0.0 else spread
        eps = ridge_strength(by, blocks, one, sums[GG], use.trusted, spread)
        if eps != 0.0:
            correct_row(by, blocks, one, eps)  # [ibp]
    row_memory(rule, blocks, one)
    if given.centred:
        now.mu = 0.0  # by symmetry
    elif use.stein:
        now.mu = controlled(sums, use, spread, given, by, blocks, one)


@register_jitable
def fading(x):
    """What the control variate of mu is divided by for a number x that is in units of where it has faded: 1 well below 1, and soon
    large beyond."""
    square = x * x
    return 1 + square * square


@register_jitable
def share_of_control(by, use, wild, t, g_squared, spread):
    """The coefficient of the control variate of mu, which is not fitted to the samples. It fades where samples of the weight `wild`
    are on their way out of a barrier, at late times, and where <g^2> is faint beside `control_fade_gradient` times K/K_T and the
    variance of the response over samples. Eqs. [stein], [c-stein]."""
    share, faint = 1 / fading(wild / by.control_fade_weight) / fading(t / use.late), use.faint * spread / use.share
    return share * (g_squared / (g_squared + faint)) if faint > 0.0 else share


@njit(**IN_PLACE)
def controlled(sums, use, spread, given, by, blocks, one):
    """mu from <g k> and from integration by parts in h0, mu = E_n + alpha <g' Y + dg/dy dy/dh0>. E_n is what comes through the
    m_k h0 of the fields, known from the row; the rest is what the data model says: for labels that jump, pairs of samples on the
    jump, for clusters <g (k - h0)>. Eq. [stein]."""
    now = one.now
    through_fields = now.delta_nu * now.m - dot(one.drive[MEMORY], one.vectors[M_PAST], used_slots(blocks))
    share = share_of_control(by, use, sums[WILD], given.t, sums[GG], spread)
    return now.mu - share * (now.mu - through_fields - given.alpha * sums[LABEL])


def curves_of(experiment: Experiment) -> tuple[str, ...]:
    """Names of the curves of a solution."""
    known = defined(experiment.data, experiment.start.random, experiment.asked)
    return tuple(curve.name for curve in known if curve.theory == PER_STEP) + experiment.observables


class Entered(IntEnum):
    """The curves of `enter_curves` and their places; a run need not have all of them."""

    m = 0
    loss = 1
    q = 2
    delta_nu = 3
    mu = 4
    nu_hat = 5
    nu_hat_direct = 6
    nu_gap = 7
    ibp_gap = 8
    unstable = 9
    lost = 10
    training_error = 11
    b = 12
    C_12 = 13


CURVE_NAMES = tuple(each.name for each in Entered)


def curve_table(experiment: Experiment) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """NaN for all curves and observables at the visible steps, (curves, steps + 1), and the lines of the curves that a run has."""
    names = CURVE_NAMES + experiment.observables
    table = np.full((len(names), experiment.steps + 1 - experiment.hidden), np.nan)
    return table, {name: table[names.index(name)] for name in curves_of(experiment)}


@njit(**IN_PLACE)
def enter_curves(sums, use, C_12, given, one):
    """Every curve at step n, those too that a run does not have. nu_hat_direct is eq. A.19; nu_gap is what the row as sampled fails
    the exact identity of [dmft-nu] by, zero up to Monte-Carlo error; ibp_gap the largest such failure over all steps j of [ibp].
    C_12: of clones, where there are any."""
    now, out = one.now, one.curves
    overlap, residual = given.alpha * sums[GH], 0.0
    if use.identity:
        residual = now.residual
    elif given.fixes_norm:
        residual = now.lag / given.eta - overlap
    q = now.Qww + now.m_w * now.m_w if given.looks_ahead else now.Q_now + now.m * now.m
    out[Entered.m], out[Entered.q], out[Entered.b] = now.m_w if given.looks_ahead else now.m, q, now.b
    out[Entered.loss], out[Entered.training_error] = sums[LOSSES], sums[WRONG]
    out[Entered.delta_nu], out[Entered.mu] = now.delta_nu, now.mu
    out[Entered.nu_hat], out[Entered.nu_hat_direct] = now.nu_hat, (given.temperature - overlap) / given.norm
    out[Entered.nu_gap], out[Entered.ibp_gap] = residual, now.largest
    out[Entered.unstable], out[Entered.lost], out[Entered.C_12] = sums[UNSTABLE], sums[LOST], C_12


# Of the solutions at some places, one after the other; each has numbers of its own alone, so that company changes no bit. Separate
# functions, because one that calls all of these compiles them once more.
@njit(**FREE, error_model="numpy")
def estimates(places, sums, use, given, by, rule, tables, solutions):
    """`estimate`, from sums (places, columns)."""
    for k in range(len(places)):
        estimate(sums[k], use, given[0], by[0], rule, blocks_of(tables, places[k]), solution_of(solutions, places[k]))


@njit(**FREE, error_model="numpy")
def enter_all_curves(places, sums, use, C_12, given, solutions):
    """`enter_curves`, of the same."""
    for k in range(len(places)):
        enter_curves(sums[k], use, C_12, given[0], solution_of(solutions, places[k]))


@register_jitable
def unbounded(total, largest):
    """Whether a sum over samples is NaN or beyond all bounds."""
    return not abs(total) < largest


@register_jitable
def too_many(lost, most_lost):
    """Whether so large a weight of lost samples, or NaN, is too large."""
    return not lost <= most_lost


@njit(**UNCOUNTED)
def exploded(sums, largest, most_lost):
    """Whether sums over samples are NaN or beyond all bounds, or too many samples are lost."""
    for k in range(len(sums)):
        if unbounded(sums[k], largest):
            return True
    return too_many(sums[LOST], most_lost)


def escaped(norm: float, largest: float) -> bool:
    """Whether the norm of the next position is NaN or beyond all bounds."""
    return not 0 < norm < largest
