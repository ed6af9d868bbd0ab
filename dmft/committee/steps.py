"""One step of the weights of a committee, compiled: from row n of the kernels to row n+1 of Q and R, and to what drives samples.
Eqs. [c-Q], [c-R], [c-m], [c-chi], [c-ibp], [momentum].

Products with whole matrices, and solves, are asked of matrices.py, so that a step has several parts here; those that need not wait
for results of a card come first. weights.py calls them, with the arrays of a UnitArrays, where they leave what they find.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from dmft.committee.arrays import named
from dmft.committee.lines import (
    add_against,
    add_lines,
    add_turned,
    make_symmetric,
    merge_lines,
    product,
    put_lines,
    set_to,
)
from dmft.core.compiled import INNER, UNCOUNTED
from dmft.equations.recursion import merge_vector


@njit(**UNCOUNTED, error_model="numpy")
def trace_of_past(Q, order, sizes, Q_now):
    """tr Q over the blocks of the past, per step of a block, and over the present."""
    units, found = len(Q_now), 0.0
    for i in range(len(order)):
        found += Q[order[i], order[i]] / sizes[order[i] // units]
    for r in range(units):
        found += Q_now[r, r]
    return found


@njit(**INNER, error_model="numpy")
def _recoiled(by, memory):
    """Kernel weights as coefficients of the past. Eq. [momentum]."""
    if by.recoil != 0.0:
        for r in range(len(memory)):
            memory[r, by.last + r] -= by.recoil / by.eta


@njit(**UNCOUNTED)
def begin_row(given, lines, pairs, means, m_past):
    """What products are asked for with a row as it was sampled, from weights of its blocks. Eqs. [c-Q], [momentum]."""
    by, one = given[0], named(lines, pairs, means, m_past)
    for r in range(len(one.correlation)):
        for j in range(one.correlation.shape[1]):
            one.correlation[r, j] *= by.eta_0
    _recoiled(by, one.memory)


@njit(**UNCOUNTED)
def begin_completed(given, lines, pairs, means, m_past):
    """The same with the completed row."""
    _recoiled(given[0], named(lines, pairs, means, m_past).completed)


@njit(**INNER)
def _begin_overlaps(by, memory, one):
    """keep, and of the overlaps x of the step before it is scaled what takes no products with matrices. Eqs. [c-h], [c-Q]."""
    keep, x, x_now = one.keep, one.x, one.x_now
    for r in range(len(keep)):
        for q in range(len(keep)):
            keep[r, q] = (by.free if r == q else 0.0) - by.eta * one.delta_nu[r, q]
    product(keep, one.Q_row, x)
    product(keep, one.Q_now, x_now)
    add_against(by.eta, memory, one.Q_row, by.used, x_now)
    add_lines(by.eta, one.noise_now, x_now)
    if by.drift != 0.0:
        add_lines(by.drift, one.Qw_row, x)
        add_lines(by.drift, one.Qw_now, x_now)


@njit(**INNER)
def _end_overlaps(by, through_memory, noise, x):
    """The rest of x_j. Eq. [c-Q]."""
    for r in range(len(x)):
        for j in range(x.shape[1]):
            x[r, j] += by.eta * through_memory[r, j] + by.eta * noise[r, j]  # [c-Q]


@njit(**INNER)
def _noise_with_present(by, one):
    """<chi_n zeta_n^T>. Eq. [c-Q]."""
    set_to(0.0, one.noise_now)
    add_against(1.0, one.correlation, one.R_row, by.used, one.noise_now)


@njit(**UNCOUNTED)
def begin_residual(given, lines, pairs, means, m_past):
    """Of the residual of the identity what takes no products with matrices."""
    by, one = given[0], named(lines, pairs, means, m_past)
    _noise_with_present(by, one)
    _begin_overlaps(by, one.memory, one)


@njit(**UNCOUNTED, error_model="numpy")
def find_residual(given, lines, pairs, means, m_past, Q, sizes, through_memory, noise):
    """e_j, the residual of the identity for the row of a step; returns its largest entry, of blocks on average over their steps.
    sizes (slots,): of blocks. Eq. [c-ibp]."""
    by, one = given[0], named(lines, pairs, means, m_past)
    x, x_now, past, present, units, largest = one.x, one.x_now, one.residual, one.residual_now, len(one.keep), 0.0
    _end_overlaps(by, through_memory, noise, x)
    for r in range(units):
        for j in range(by.used):
            past[r, j] = by.free * one.Q_row[r, j] - x[r, j]
        if by.recoil != 0.0:
            for j in range(by.used):
                past[r, j] -= by.recoil * Q[by.last + r, j]
        if by.drift != 0.0:
            for j in range(by.used):
                past[r, j] += by.drift * one.Qw_row[r, j]
        for j in range(by.used):
            past[r, j] = past[r, j] / by.eta - one.overlaps[r, j]  # [c-ibp]
        for q in range(units):
            e = by.free * one.Q_now[r, q] - x_now[r, q]
            if by.recoil != 0.0:
                e -= by.recoil * one.Q_row[q, by.last + r]
            if by.drift != 0.0:
                e += by.drift * one.Qw_now[r, q]
            present[r, q] = e / by.eta - one.overlaps_now[r, q]
            size = abs(present[r, q])
            largest = size if size > largest or size != size else largest
        for q in range(units):
            for slot in range(by.used // units):
                size = abs(past[r, slot * units + q]) / max(sizes[slot], 1)
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
def complete(arrays, left, pulled, of_residual, order, sizes):
    """Correct the row by Y with Y (Q + eps D) = e: M_R += D Y of the past, delta_nu -= Y of the present. The present step is the
    last unknown: it is solved for first, then the past given its value. pulled, of_residual: what solves gave for Q(n,.) and e;
    left (p, p): the inverse of `left_of_present`. Eq. [c-ibp]."""
    _, lines, pairs, means, m_past = arrays
    one, (change, half_change), (other, half) = named(lines, pairs, means, m_past), of_residual, pulled
    units, past, rest, now = len(left), len(order), one.room_pair, one.other_pair
    put_lines(one.residual_now, rest)
    add_against(-1.0, half_change, half, past, rest)
    product(rest, left, now)
    for r in range(units):
        for q in range(units):
            weight = -now[r, q]
            for i in range(past):
                change[r, i] += weight * other[q, i]
        for i in range(past):
            one.K_R[r, order[i]] += sizes[order[i] // units] * change[r, i]  # [c-ibp]
    add_lines(-1.0, now, one.delta_nu)
    make_symmetric(one.delta_nu)


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
def given_past(given, lines, pairs, means, m_past, solved, half, order):
    """Weights of chi_n given the past, and the root of what is left of its covariance. solved, half: what the solve with the factor
    of M_C gave. Eq. [c-chi]."""
    one = named(lines, pairs, means, m_past)
    weights, left, least, M_C_now = one.chi_weights, one.room_pair, one.other_pair[0], one.M_C_now
    put_lines(M_C_now, left)
    for r in range(len(left)):
        white = given[0].jitter * M_C_now[r, r]
        left[r, r] += white
        least[r] = 0.01 * white
    add_against(-1.0, half, half, len(order), left)
    lower_root(left, least, one.chi_root)
    set_to(0.0, weights)
    for r in range(len(weights)):
        for i in range(len(order)):
            weights[r, order[i]] = solved[r, i]


@njit(**UNCOUNTED)
def begin_norm(given, lines, pairs, means, m_past, completed, noise):
    """m_u, and of x and q_u what takes no products with matrices but `noise`. completed: whether the row has been, and its overlaps
    with the noise are known. Eqs. [c-m], [c-Q], [momentum]."""
    by, one = given[0], named(lines, pairs, means, m_past)
    memory = one.completed if completed else one.memory
    if not completed:
        _noise_with_present(by, one)
    _begin_overlaps(by, memory, one)
    keep, b_z, q_u, m_u, back, chi_w = one.keep, one.room_pair, one.q_u, one.m_u, one.back, one.other_pair
    set_to(0.0, b_z)
    add_against(1.0, keep, one.noise_now, len(keep), b_z)
    add_against(by.eta, memory, noise, by.used, b_z)
    add_lines(by.eta, one.M_C_now, b_z)  # [c-Q]
    set_to(0.0, q_u)
    add_against(1.0, one.x_now, keep, len(keep), q_u)
    add_lines(by.eta, b_z, q_u)
    for r in range(len(keep)):
        q_u[r, r] += by.heat
        for t in range(m_u.shape[1]):
            m_u[r, t] = by.free * one.m[r, t] - by.eta * one.mu[r, t]  # [c-m]
            if by.recoil != 0.0:
                m_u[r, t] -= by.recoil * m_past[t, by.last + r]
            if by.drift != 0.0:
                m_u[r, t] += by.drift * one.m_w[r, t]
    set_to(0.0, back)
    if by.ahead:  # <u w_n^T> and <chi_n w_n^T>
        set_to(0.0, chi_w)
        add_against(1.0, one.correlation, one.Rw_row, by.used, chi_w)
        add_against(1.0, keep, one.Qw_now, len(keep), back)
        add_against(by.eta, memory, one.Qw_row, by.used, back)
        add_lines(by.eta, chi_w, back)
        add_lines(by.drift, one.Qww, back)
        add_lines(by.drift, back, q_u)  # x has its part already
        add_turned(by.drift * by.eta, chi_w, q_u)


@njit(**UNCOUNTED)
def end_norm(given, lines, pairs, means, m_past, completed, noise, through_memory):
    """x, q_u and S. Eq. [c-Q]."""
    by, one = given[0], named(lines, pairs, means, m_past)
    q_u, S, m_u = one.q_u, one.S, one.m_u
    _end_overlaps(by, through_memory, noise, one.x)
    add_against(by.eta, one.x, one.completed if completed else one.memory, by.used, q_u)  # [c-Q]
    make_symmetric(q_u)
    put_lines(q_u, S)
    add_against(1.0, m_u, m_u, m_u.shape[1], S)


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


@njit(**UNCOUNTED, error_model="numpy")
def scale_step(given, lines, pairs, means, m_past, A, through_memory):
    """The step scaled by A: row n+1 of Q and of R against the past, before step n itself enters the past. through_memory: the
    product of memory and R. Eqs. [c-Q], [c-R]."""
    by, one = given[0], named(lines, pairs, means, m_past)
    unscaled = one.room_line
    product(one.keep, one.R_row, unscaled)
    add_lines(by.eta, through_memory, unscaled)  # [c-R]
    if by.drift != 0.0:
        add_lines(by.drift, one.Rw_row, unscaled)
    product(A, unscaled, one.next_R_row)
    product(A, one.x, one.next_Q_row)
    product(A, one.x_now, one.next_Q_last)
    product(A, one.back, one.next_back)
    product(A, one.q_u, one.room_pair)
    set_to(0.0, one.next_Q_now)
    add_against(1.0, one.room_pair, A, len(A), one.next_Q_now)
    for r in range(len(A)):
        for q in range(len(A)):
            one.next_R_last[r, q] = by.eta / by.eta_0 * A[r, q]


@njit(**UNCOUNTED)
def look_ahead(given, lines, pairs, means, m_past, beta, m, merges, at):
    """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n; the row of w_{n+1} goes into the state. m: m_{n+1} of
    the weights; at: where the entries of step n will stand. Eq. [momentum]."""
    one = named(lines, pairs, means, m_past)
    Q_row, R_row, Q_last, R_last, norm, cross = (one.next_Q_row, one.next_R_row, one.next_Q_last, one.next_R_last, one.next_Q_now,
                                                 one.next_back)
    units, Qw_row, Rw_row, Qw_now, Qww = len(m), one.Qw_row, one.Rw_row, one.Qw_now, one.Qww
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
    put_lines(m, one.m_w)


@njit(**INNER)
def _enter(A, row, at, present, used):
    """Rows and columns of a step in a symmetric matrix."""
    units = len(row)
    for r in range(units):
        for j in range(A.shape[1]):
            A[at + r, j] = row[r, j]
    for j in range(used):
        for r in range(units):
            A[j, at + r] = row[r, j]
    for r in range(units):
        for q in range(units):
            A[at + r, at + q] = present[r, q]


@njit(**UNCOUNTED)
def enter_past(arrays, matrices, jitter, merges, at, used):
    """Enter row n into the past, where it stands from `at` on, and take row n+1 of Q and R in its place. matrices: Q, R, M_C;
    used: entries of lines over slots in use from now on."""
    (given, lines, pairs, means, m_past), (Q, R, M_C) = arrays, matrices
    one = named(lines, pairs, means, m_past)
    units, M_C_row = len(one.Q_now), one.room_line
    put_lines(one.M_C, M_C_row)
    merge_lines(merges, (one.Q_row, one.R_row, M_C_row, one.next_Q_row, one.next_R_row, m_past))
    for k in range(len(merges)):
        merge_vector(jitter, merges[k, 0], merges[k, 1], merges[k, 2])
    _enter(Q, one.Q_row, at, one.Q_now, used)
    _enter(M_C, M_C_row, at, one.M_C_now, used)
    for r in range(units):
        for j in range(R.shape[1]):
            R[at + r, j] = one.R_row[r, j]
        jitter[at + r] = given[0].jitter * one.M_C_now[r, r]
        for t in range(len(m_past)):
            m_past[t, at + r] = one.m[r, t]
    put_lines(one.next_Q_row, one.Q_row)
    put_lines(one.next_R_row, one.R_row)
    put_lines(one.next_Q_now, one.Q_now)
    for r in range(units):
        for q in range(units):
            one.Q_row[r, at + q], one.R_row[r, at + q] = one.next_Q_last[r, q], one.next_R_last[r, q]
