"""One step of the weights of a committee, compiled: from row n of the kernels to row n+1 of Q and R, and to what drives samples.
Eqs. [c-Q], [c-R], [c-m], [c-chi], [c-ibp], [momentum].

Products with whole matrices, and solves, are asked of matrices.py, so that a step has several parts here; those before results of a
card arrive come first. weights.py calls them. Functions leave what they find in the arrays that they are given.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from dmft.committee.lines import (
    add_against,
    add_lines,
    add_product,
    add_turned,
    make_symmetric,
    merge_lines,
    put_lines,
    set_to,
)
from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.recursion import merge_vector


class StepNumbers(NamedTuple):
    """The numbers of the step from row n, and how far arrays are in use."""

    eta: float
    eta_0: float
    free: float  # coefficient of y_n, apart from gradient, recoil and drift
    recoil: float
    drift: float
    heat: float
    jitter: float
    ahead: bool  # whether gradients are taken at another point than the weights
    used: int  # entries of lines over slots
    last: int  # where those of step n - 1 begin, if there is recoil


class UnitRoom(NamedTuple):
    """Room for what follows from a row."""

    correlation: np.ndarray  # (p, slots p) of chi_n with the past, as weights of its blocks
    memory: np.ndarray  # (p, slots p) coefficients of the past, of the row as it was sampled
    completed: np.ndarray  # (p, slots p) the same of the completed row
    keep: np.ndarray  # (p, p) coefficient of the present position
    noise_now: np.ndarray  # (p, p) <chi_n zeta_n^T>
    x: np.ndarray  # (p, slots p) overlaps of the step before it is scaled with the past
    x_now: np.ndarray  # (p, p) with w_n
    residual: np.ndarray  # (p, slots p) of the identity
    residual_now: np.ndarray  # (p, p)
    chi_weights: np.ndarray  # (p, slots p)
    chi_root: np.ndarray  # (p, p)
    q_u: np.ndarray  # (p, p)
    m_u: np.ndarray  # (p, k)
    S: np.ndarray  # (p, p) Gram matrix of the step before it is scaled
    back: np.ndarray  # (p, p) <u w_n^T>, 0 unless the rule looks ahead
    work: np.ndarray  # (2, p, p)
    work_line: np.ndarray  # (p, slots p)

    @classmethod
    def of(cls, units: int, directions: int, size: int) -> UnitRoom:
        lines, pair = (units, size), (units, units)
        shapes: dict[str, tuple[int, ...]]
        shapes = dict.fromkeys(("keep", "noise_now", "x_now", "residual_now", "chi_root", "q_u", "S", "back"), pair)
        shapes |= {"m_u": (units, directions), "work": (2, *pair)}
        return cls(*(np.zeros(shapes.get(name, lines)) for name in cls._fields))


class UnitNext(NamedTuple):
    """Row n+1 of Q and R, before step n itself enters the past."""

    Q_row: np.ndarray  # (p, slots p)
    R_row: np.ndarray  # (p, slots p)
    Q_with_last: np.ndarray  # (p, p)
    R_with_last: np.ndarray  # (p, p)
    Q_now: np.ndarray  # (p, p)
    with_previous: np.ndarray  # (p, p) <w_{n+1} w_n^T>, where the rule looks ahead

    @classmethod
    def of(cls, units: int, size: int) -> UnitNext:
        return cls(*(np.zeros((units, size if name.endswith("row") else units)) for name in cls._fields))


@njit(**UNCOUNTED, error_model="numpy")
def trace_of_past(Q, order, sizes, Q_now):
    """tr Q over the blocks of the past, per step of a block, and over the present."""
    units, found = len(Q_now), 0.0
    for i in range(len(order)):
        found += Q[order[i], order[i]] / sizes[order[i] // units]
    for r in range(units):
        found += Q_now[r, r]
    return found


@njit(**UNCOUNTED, error_model="numpy")
def recoiled(by, memory):
    """Kernel weights as coefficients of the past. Eq. [momentum]."""
    if by.recoil != 0.0:
        for r in range(len(memory)):
            memory[r, by.last + r] -= by.recoil / by.eta


@njit(**UNCOUNTED)
def noise_with_present(by, now, room):
    """<chi_n zeta_n^T>. Eq. [c-Q]."""
    set_to(0.0, room.noise_now)
    add_against(1.0, room.correlation, now.R_row, by.used, room.noise_now)


@njit(**UNCOUNTED)
def begin_overlaps(by, now, delta_nu, memory, room):
    """keep, and of the overlaps x of the step before it is scaled what takes no products with matrices. Eqs. [c-h], [c-Q]."""
    keep, x, x_now = room.keep, room.x, room.x_now
    for r in range(len(keep)):
        for q in range(len(keep)):
            keep[r, q] = (by.free if r == q else 0.0) - by.eta * delta_nu[r, q]
    set_to(0.0, x)
    set_to(0.0, x_now)
    add_product(1.0, keep, now.Q_row, x)
    add_product(1.0, keep, now.Q_now, x_now)
    add_against(by.eta, memory, now.Q_row, by.used, x_now)
    add_lines(by.eta, room.noise_now, x_now)
    if by.drift != 0.0:
        add_lines(by.drift, now.Qw_row, x)
        add_lines(by.drift, now.Qw_now, x_now)


@njit(**INNER)
def end_overlaps(by, through_memory, noise, x):
    """The rest of x_j. Eq. [c-Q]."""
    for r in range(len(x)):
        for j in range(x.shape[1]):
            x[r, j] += by.eta * through_memory[r, j] + by.eta * noise[r, j]  # [c-Q]


@njit(**UNCOUNTED, error_model="numpy")
def find_residual(by, now, Q, through_memory, noise, overlaps, sizes, room):
    """e_j, the residual of the identity for the row of a step; returns its largest entry, of blocks on average over their steps.
    overlaps: alpha <g_n h_j^T>; sizes (slots,) of blocks. Eq. [c-ibp]."""
    x, x_now, past, present, units, largest = room.x, room.x_now, room.residual, room.residual_now, len(room.keep), 0.0
    end_overlaps(by, through_memory, noise, x)
    for r in range(units):
        for j in range(x.shape[1]):
            e = by.free * now.Q_row[r, j] - x[r, j]
            if by.recoil != 0.0:
                e -= by.recoil * Q[by.last + r, j]
            if by.drift != 0.0:
                e += by.drift * now.Qw_row[r, j]
            past[r, j] = e / by.eta - overlaps.past[r, j]  # [c-ibp]
            size = abs(past[r, j]) / max(sizes[j // units], 1)
            largest = size if size > largest or size != size else largest
        for q in range(units):
            e = by.free * now.Q_now[r, q] - x_now[r, q]
            if by.recoil != 0.0:
                e -= by.recoil * now.Q_row[q, by.last + r]
            if by.drift != 0.0:
                e += by.drift * now.Qw_now[r, q]
            present[r, q] = e / by.eta - overlaps.now[r, q]
            size = abs(present[r, q])
            largest = size if size > largest or size != size else largest
    return largest


@njit(**UNCOUNTED)
def left_of_present(Q_now, eps, half, past, out):
    """Q(n,n) + eps 1, given the past; half (p, past): Q(n,.) times the inverse of the transposed factor. Eq. [c-ibp]."""
    put_lines(Q_now, out)
    for r in range(len(out)):
        out[r, r] += eps
    add_against(-1.0, half, half, past, out)
    make_symmetric(out)


@njit(**UNCOUNTED)
def complete(row, left, pulled, of_residual, order, sizes, room):
    """Correct the row by Y with Y (Q + eps D) = e: M_R += D Y of the past, delta_nu -= Y of the present. The present step is the
    last unknown: it is solved for first, then the past given its value. pulled, of_residual: what solves gave for Q(n,.) and e;
    left (p, p): the inverse of `left_of_present`. Eq. [c-ibp]."""
    units, past, rest, now = len(left), len(order), room.work[0], room.work[1]
    put_lines(room.residual_now, rest)
    add_against(-1.0, of_residual.half, pulled.half, past, rest)
    set_to(0.0, now)
    add_product(1.0, rest, left, now)
    for r in range(units):
        line = of_residual.lines[r]
        for q in range(units):
            weight, other = now[r, q], pulled.lines[q]
            for i in range(past):
                line[i] -= weight * other[i]
        for i in range(past):
            row.K_R[r, order[i]] += sizes[order[i] // units] * line[i]  # [c-ibp]
    add_lines(-1.0, now, row.delta_nu)
    make_symmetric(row.delta_nu)


@njit(**UNCOUNTED, error_model="numpy")
def lower_root(S, least, root):
    """Lower triangular root (p, p) of a nearly positive matrix; pivots are at least those of `least` (p,)."""
    set_to(0.0, root)
    for i in range(len(S)):
        for j in range(i + 1):
            left = S[i, j]
            for k in range(j):
                left -= root[i, k] * root[j, k]
            if j < i:
                root[i, j] = left / root[j, j] if root[j, j] > 0.0 else 0.0
            else:
                root[i, i] = sqrt(max(left, least[i], 0.0))


@njit(**UNCOUNTED)
def given_past(by, M_C_now, solved, order, room):
    """Weights of chi_n given the past, and the root of what is left of its covariance. Eq. [c-chi]."""
    weights, left, least = room.chi_weights, room.work[0], room.work[1, 0]
    put_lines(M_C_now, left)
    for r in range(len(left)):
        white = by.jitter * M_C_now[r, r]
        left[r, r] += white
        least[r] = 0.01 * white
    add_against(-1.0, solved.half, solved.half, len(order), left)
    lower_root(left, least, room.chi_root)
    set_to(0.0, weights)
    for r in range(len(weights)):
        for i in range(len(order)):
            weights[r, order[i]] = solved.lines[r, i]


@njit(**UNCOUNTED)
def begin_norm(by, now, row, memory, noise, room):
    """m_u, and of q_u what takes no overlaps with the past. Eqs. [c-m], [c-Q], [momentum]."""
    keep, b_z, q_u, m_u, back, chi_w = room.keep, room.work[0], room.q_u, room.m_u, room.back, room.work[1]
    set_to(0.0, b_z)
    for r in range(len(keep)):
        for q in range(len(keep)):
            for s in range(len(keep)):
                b_z[r, q] += keep[r, s] * room.noise_now[q, s]
    add_against(by.eta, memory, noise, by.used, b_z)
    add_lines(by.eta, row.M_C_now, b_z)  # [c-Q]
    set_to(0.0, q_u)
    add_against(1.0, room.x_now, keep, len(keep), q_u)
    add_lines(by.eta, b_z, q_u)
    for r in range(len(keep)):
        q_u[r, r] += by.heat
        for t in range(m_u.shape[1]):
            m_u[r, t] = by.free * now.m[r, t] - by.eta * row.mu[r, t]  # [c-m]
            if by.recoil != 0.0:
                m_u[r, t] -= by.recoil * now.m_past[t, by.last + r]
            if by.drift != 0.0:
                m_u[r, t] += by.drift * now.m_w[r, t]
    set_to(0.0, back)
    if by.ahead:  # <u w_n^T> and <chi_n w_n^T>
        set_to(0.0, chi_w)
        add_against(1.0, room.correlation, now.Rw_row, by.used, chi_w)
        add_against(1.0, keep, now.Qw_now, len(keep), back)
        add_against(by.eta, memory, now.Qw_row, by.used, back)
        add_lines(by.eta, chi_w, back)
        add_lines(by.drift, now.Qww, back)
        add_lines(by.drift, back, q_u)  # x has its part already
        add_turned(by.drift * by.eta, chi_w, q_u)


@njit(**UNCOUNTED)
def end_norm(by, through_memory, noise, memory, room):
    """x, q_u and S. Eq. [c-Q]."""
    q_u, S = room.q_u, room.S
    end_overlaps(by, through_memory, noise, room.x)
    add_against(by.eta, room.x, memory, by.used, q_u)  # [c-Q]
    make_symmetric(q_u)
    put_lines(q_u, S)
    add_against(1.0, room.m_u, room.m_u, room.m_u.shape[1], S)


@njit(**UNCOUNTED)
def bounded(sums, largest):
    """Whether all sums are below a bound. Written so that NaN counts, and without a branch for every number."""
    beyond = 0
    for k in range(len(sums)):
        beyond += 0 if abs(sums[k]) < largest else 1
    return beyond == 0


@njit(**UNCOUNTED)
def sound(S, A, largest):
    """Whether a step can be taken. Written so that NaN counts."""
    trace = 0.0
    for r in range(len(S)):
        trace += S[r, r]
        for q in range(len(S)):
            if not (abs(S[r, q]) < np.inf and abs(A[r, q]) < np.inf):
                return False
    return 0.0 < trace < largest


@njit(**INNER)
def _product(A, B, out):
    """out = A B; A (p, p), the others (p, any)."""
    set_to(0.0, out)
    add_product(1.0, A, B, out)


@njit(**UNCOUNTED, error_model="numpy")
def scale_step(by, now, drive, responses, room, following):
    """The step scaled by A: row n+1 of Q and of R against the past, before step n itself enters the past. responses: the
    product of memory and R. Eqs. [c-Q], [c-R]."""
    A, unscaled = drive.A, room.work_line
    _product(drive.keep, now.R_row, unscaled)
    add_lines(by.eta, responses, unscaled)  # [c-R]
    if by.drift != 0.0:
        add_lines(by.drift, now.Rw_row, unscaled)
    _product(A, unscaled, following.R_row)
    _product(A, room.x, following.Q_row)
    _product(A, room.x_now, following.Q_with_last)
    _product(A, room.back, following.with_previous)
    _product(A, room.q_u, room.work[0])
    set_to(0.0, following.Q_now)
    add_against(1.0, room.work[0], A, len(A), following.Q_now)
    for r in range(len(A)):
        for q in range(len(A)):
            following.R_with_last[r, q] = by.eta / by.eta_0 * A[r, q]


@njit(**UNCOUNTED)
def look_ahead(beta, m, now, merges, at, following):
    """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n; the row of w_{n+1} goes into the state. m: m_{n+1} of
    the weights; at: where the entries of step n will stand. Eq. [momentum]."""
    Q_row, R_row, Q_last, R_last, norm, cross = following
    units, Qw_row, Rw_row, Qw_now, Qww = len(m), now.Qw_row, now.Rw_row, now.Qw_now, now.Qww
    for r in range(units):
        for j in range(Q_row.shape[1]):
            Q_w, R_w = Q_row[r, j], R_row[r, j]
            Q_row[r, j], R_row[r, j] = (1 + beta) * Q_w - beta * Qw_row[r, j], (1 + beta) * R_w - beta * Rw_row[r, j]
            Qw_row[r, j], Rw_row[r, j] = Q_w, R_w
    merge_lines(merges, (Qw_row, Rw_row))
    for r in range(units):
        for q in range(units):
            Qw_row[r, at + q], Rw_row[r, at + q] = Q_last[r, q], R_last[r, q]
            Q_last[r, q], R_last[r, q] = (1 + beta) * Q_last[r, q] - beta * Qw_now[r, q], (1 + beta) * R_last[r, q]
            Qw_now[r, q] = (1 + beta) * norm[r, q] - beta * cross[r, q]
            squares = (1 + beta) * (1 + beta) * norm[r, q] + beta * beta * Qww[r, q]
            Qww[r, q] = norm[r, q]
            norm[r, q] = squares - beta * (1 + beta) * (cross[r, q] + cross[q, r])
    put_lines(m, now.m_w)


@njit(**INNER)
def _enter(A, row, at, present, used):
    """Rows and columns of a step in a symmetric matrix."""
    for r in range(len(row)):
        for j in range(A.shape[1]):
            A[at + r, j] = row[r, j]
        for j in range(used):
            A[j, at + r] = row[r, j]
    for r in range(len(row)):
        for q in range(len(row)):
            A[at + r, at + q] = present[r, q]


@njit(**UNCOUNTED)
def enter_past(by, now, row, matrices, jitter, merges, at, used, following):
    """Enter row n into the past, where it stands from `at` on, and take row n+1 of Q and R in its place. matrices: Q, R, M_C, and
    row n of the last; used: entries of lines over slots in use from now on."""
    (Q, R, M_C, M_C_row), m_past, units = matrices, now.m_past, len(now.Q_now)
    put_lines(row.M_C, M_C_row)
    merge_lines(merges, (now.Q_row, now.R_row, M_C_row, following.Q_row, following.R_row, m_past))
    for k in range(len(merges)):
        merge_vector(jitter, merges[k, 0], merges[k, 1], merges[k, 2])
    _enter(Q, now.Q_row, at, now.Q_now, used)
    _enter(M_C, M_C_row, at, row.M_C_now, used)
    for r in range(units):
        for j in range(R.shape[1]):
            R[at + r, j] = now.R_row[r, j]
        jitter[at + r] = by.jitter * row.M_C_now[r, r]
        for t in range(len(m_past)):
            m_past[t, at + r] = now.m[r, t]
    put_lines(following.Q_row, now.Q_row)
    put_lines(following.R_row, now.R_row)
    put_lines(following.Q_now, now.Q_now)
    for r in range(units):
        for q in range(units):
            now.Q_row[r, at + q], now.R_row[r, at + q] = following.Q_with_last[r, q], following.R_with_last[r, q]
