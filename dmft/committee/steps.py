"""One step of the weights of a committee, compiled: from row n of the kernels to row n+1 of Q and R, and to what drives samples.
Eqs. [c-Q], [c-R], [c-m], [c-chi], [c-ibp], [momentum].

Products with whole matrices, and solves, are asked of matrices.py, so that a step has several parts here; those that need not wait
for results of a card come first. weights.py calls them, with the arrays of a UnitArrays, where they leave what they find.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from dmft.committee.arrays import Block, Line, Mean
from dmft.committee.lines import (
    add_against,
    add_lines,
    add_turned,
    larger,
    make_symmetric,
    merge_lines,
    product,
    put_inverse,
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


@njit(**UNCOUNTED, error_model="numpy")
def recoiled(given, memory):
    """Kernel weights as coefficients of the past. Eq. [momentum]."""
    for r in range(len(memory)):
        memory[r, given[0].last + r] -= given[0].recoil / given[0].eta


@njit(**INNER)
def _begin_overlaps(by, memory, lines, pairs):
    """keep, and of the overlaps x of the step before it is scaled what takes no products with matrices. Eqs. [c-h], [c-Q]."""
    keep, x_now = pairs[Block.KEEP], pairs[Block.X_NOW]
    for r in range(len(keep)):
        for q in range(len(keep)):
            keep[r, q] = (by.free if r == q else 0.0) - by.eta * pairs[Block.DELTA_NU][r, q]
    product(keep, lines[Line.Q_ROW], lines[Line.X])
    product(keep, pairs[Block.Q_NOW], x_now)
    add_against(by.eta, memory, lines[Line.Q_ROW], by.used, x_now)
    add_lines(by.eta, pairs[Block.NOISE_NOW], x_now)
    add_lines(by.drift, pairs[Block.QW_NOW], x_now)


@njit(**INNER)
def _end_overlaps(by, through_memory, noise, lines):
    """The rest of x_j. Eq. [c-Q]."""
    x, Qw_row = lines[Line.X], lines[Line.QW_ROW]
    for r in range(len(x)):
        for j in range(x.shape[1]):
            x[r, j] += by.eta * through_memory[r, j] + by.eta * noise[r, j] + by.drift * Qw_row[r, j]  # [c-Q]


@njit(**INNER)
def _noise_with_present(by, lines, pairs):
    """<chi_n zeta_n^T>. Eq. [c-Q]."""
    set_to(0.0, pairs[Block.NOISE_NOW])
    add_against(1.0, lines[Line.CORRELATION], lines[Line.R_ROW], by.used, pairs[Block.NOISE_NOW])


@njit(**UNCOUNTED)
def begin_residual(given, lines, pairs):
    """Of the residual of the identity what takes no products with matrices."""
    _noise_with_present(given[0], lines, pairs)
    _begin_overlaps(given[0], lines[Line.MEMORY], lines, pairs)


@njit(**UNCOUNTED, error_model="numpy")
def find_residual(given, lines, pairs, Q, sizes, through_memory, noise):
    """e_j, the residual of the identity for the row of a step; returns its largest entry, of blocks on average over their steps.
    sizes (slots,): of blocks. Eq. [c-ibp]."""
    by, Q_row, Q_now, Qw_now, x_now = given[0], lines[Line.Q_ROW], pairs[Block.Q_NOW], pairs[Block.QW_NOW], pairs[Block.X_NOW]
    past, present, units, largest = lines[Line.RESIDUAL], pairs[Block.RESIDUAL_NOW], len(Q_now), 0.0
    _end_overlaps(by, through_memory, noise, lines)
    for r in range(units):
        x, Q_last, Qw_row, overlaps = lines[Line.X][r], Q[by.last + r], lines[Line.QW_ROW][r], lines[Line.OVERLAPS][r]
        for j in range(by.used):
            e = by.free * Q_row[r, j] - by.recoil * Q_last[j] + by.drift * Qw_row[j] - x[j]
            past[r, j] = e / by.eta - overlaps[j]  # [c-ibp]
        for q in range(units):
            e = by.free * Q_now[r, q] - by.recoil * Q_row[q, by.last + r] + by.drift * Qw_now[r, q] - x_now[r, q]
            present[r, q] = e / by.eta - pairs[Block.OVERLAPS_NOW][r, q]
            largest = larger(abs(present[r, q]), largest)
            for slot in range(by.used // units):
                largest = larger(abs(past[r, slot * units + q]) / max(sizes[slot], 1), largest)
    return largest


@njit(**UNCOUNTED)
def given_weights(pairs, eps, half, past):
    """The inverse of Q(n,n) + eps given the past, whose eigenvalues are at least eps, that of the present step. half (p, past):
    Q(n,.) times the inverse of the transposed factor. Eq. [c-ibp]."""
    left = pairs[Block.ROOM]
    put_lines(pairs[Block.Q_NOW], left)
    for r in range(len(left)):
        left[r, r] += eps
    add_against(-1.0, half, half, past, left)
    make_symmetric(left)
    put_inverse(left, eps, pairs[Block.OTHER], pairs[Block.INVERSE])


@njit(**UNCOUNTED)
def complete(lines, pairs, pulled, of_residual, order, sizes):
    """Correct the row by Y with Y (Q + eps S) = e: M_R += D Y of the past, delta_nu -= Y of the present. The present step is the
    last unknown: it is solved for first, then the past given its value. pulled, of_residual: what solves gave for Q(n,.) and e.
    Eq. [c-ibp]."""
    (change, half_change), (other, half) = of_residual, pulled
    units, past, rest, now, K_R = len(pairs[Block.Q_NOW]), len(order), pairs[Block.ROOM], pairs[Block.OTHER], lines[Line.K_R]
    put_lines(pairs[Block.RESIDUAL_NOW], rest)
    add_against(-1.0, half_change, half, past, rest)
    product(rest, pairs[Block.INVERSE], now)
    for r in range(units):
        for q in range(units):
            weight = -now[r, q]
            for i in range(past):
                change[r, i] += weight * other[q, i]
        for i in range(past):
            K_R[r, order[i]] += sizes[order[i] // units] * change[r, i]  # [c-ibp]
    add_lines(-1.0, now, pairs[Block.DELTA_NU])
    make_symmetric(pairs[Block.DELTA_NU])


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
def given_past(given, lines, pairs, solved, half, order):
    """Weights of chi_n given the past, and the root of what is left of its covariance. solved, half: what the solve with the factor
    of M_C gave. Eq. [c-chi]."""
    weights, left, least, M_C_now = lines[Line.CHI_WEIGHTS], pairs[Block.ROOM], pairs[Block.OTHER][0], pairs[Block.M_C_NOW]
    put_lines(M_C_now, left)
    for r in range(len(left)):
        white = given[0].jitter * M_C_now[r, r]
        left[r, r] += white
        least[r] = given[0].least_of_jitter * white
    add_against(-1.0, half, half, len(order), left)
    lower_root(left, least, pairs[Block.CHI_ROOT])
    set_to(0.0, weights)
    for r in range(len(weights)):
        for i in range(len(order)):
            weights[r, order[i]] = solved[r, i]  # [c-chi]


@njit(**UNCOUNTED)
def begin_norm(given, lines, pairs, means, m_past, completed, noise):
    """m_u, and of x and q_u what takes no products with matrices but `noise`. completed: whether the row has been, and its overlaps
    with the noise are known. Eqs. [c-m], [c-Q], [momentum]."""
    by, memory = given[0], lines[Line.COMPLETED] if completed else lines[Line.MEMORY]
    if not completed:
        _noise_with_present(by, lines, pairs)
    _begin_overlaps(by, memory, lines, pairs)
    keep, q_u, m_u, back = pairs[Block.KEEP], pairs[Block.Q_U], means[Mean.M_U], pairs[Block.BACK]
    b_z, chi_w = pairs[Block.ROOM], pairs[Block.OTHER]
    set_to(0.0, b_z)
    add_against(1.0, keep, pairs[Block.NOISE_NOW], len(keep), b_z)
    add_against(by.eta, memory, noise, by.used, b_z)
    add_lines(by.eta, pairs[Block.M_C_NOW], b_z)  # [c-Q]
    set_to(0.0, q_u)
    add_against(1.0, pairs[Block.X_NOW], keep, len(keep), q_u)
    add_lines(by.eta, b_z, q_u)
    for r in range(len(keep)):
        q_u[r, r] += by.heat
        for t in range(m_u.shape[1]):
            m_u[r, t] = by.free * means[Mean.M][r, t] - by.eta * means[Mean.MU][r, t]  # [c-m]
            m_u[r, t] += by.drift * means[Mean.M_W][r, t] - by.recoil * m_past[t, by.last + r]
    set_to(0.0, back)
    if by.ahead:  # <u w_n^T> and <chi_n w_n^T>
        set_to(0.0, chi_w)
        add_against(1.0, lines[Line.CORRELATION], lines[Line.RW_ROW], by.used, chi_w)
        add_against(1.0, keep, pairs[Block.QW_NOW], len(keep), back)
        add_against(by.eta, memory, lines[Line.QW_ROW], by.used, back)
        add_lines(by.eta, chi_w, back)
        add_lines(by.drift, pairs[Block.QWW], back)
        add_lines(by.drift, back, q_u)  # x has its part already
        add_turned(by.drift * by.eta, chi_w, q_u)


@njit(**UNCOUNTED)
def end_norm(given, lines, pairs, means, completed, noise, through_memory):
    """x, q_u and S. Eq. [c-Q]."""
    by, q_u, S, m_u = given[0], pairs[Block.Q_U], pairs[Block.S], means[Mean.M_U]
    _end_overlaps(by, through_memory, noise, lines)
    add_against(by.eta, lines[Line.X], lines[Line.COMPLETED] if completed else lines[Line.MEMORY], by.used, q_u)  # [c-Q]
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
def scale_step(given, lines, pairs, A, through_memory):
    """The step scaled by A: row n+1 of Q and of R against the past, before step n itself enters the past. through_memory: the
    product of memory and R. Eqs. [c-Q], [c-R]."""
    by, unscaled = given[0], lines[Line.ROOM]
    product(pairs[Block.KEEP], lines[Line.R_ROW], unscaled)
    add_lines(by.eta, through_memory, unscaled)  # [c-R]
    add_lines(by.drift, lines[Line.RW_ROW], unscaled)
    product(A, unscaled, lines[Line.NEXT_R_ROW])
    product(A, lines[Line.X], lines[Line.NEXT_Q_ROW])
    product(A, pairs[Block.X_NOW], pairs[Block.NEXT_Q_LAST])
    product(A, pairs[Block.BACK], pairs[Block.NEXT_BACK])
    product(A, pairs[Block.Q_U], pairs[Block.ROOM])
    set_to(0.0, pairs[Block.NEXT_Q_NOW])
    add_against(1.0, pairs[Block.ROOM], A, len(A), pairs[Block.NEXT_Q_NOW])
    for r in range(len(A)):
        for q in range(len(A)):
            pairs[Block.NEXT_R_LAST][r, q] = by.eta / by.eta_0 * A[r, q]


@njit(**UNCOUNTED)
def look_ahead(lines, pairs, beta, merges, at):
    """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n; the row of w_{n+1} goes into the state. at: where the
    entries of step n will stand. Eq. [momentum]."""
    Q_row, R_row, Q_last = lines[Line.NEXT_Q_ROW], lines[Line.NEXT_R_ROW], pairs[Block.NEXT_Q_LAST]
    R_last, norm, cross = pairs[Block.NEXT_R_LAST], pairs[Block.NEXT_Q_NOW], pairs[Block.NEXT_BACK]
    Qw_row, Rw_row, Qw_now, Qww = lines[Line.QW_ROW], lines[Line.RW_ROW], pairs[Block.QW_NOW], pairs[Block.QWW]
    units = len(norm)
    for r in range(units):
        for j in range(Q_row.shape[1]):
            Q_w, R_w = Q_row[r, j], R_row[r, j]
            Q_row[r, j], R_row[r, j] = (1 + beta) * Q_w - beta * Qw_row[r, j], (1 + beta) * R_w - beta * Rw_row[r, j]
            Qw_row[r, j], Rw_row[r, j] = Q_w, R_w
    merge_lines(merges, lines[Line.QW_ROW : Line.RW_ROW + 1])
    for r in range(units):
        for q in range(units):
            Qw_row[r, at + q], Rw_row[r, at + q] = Q_last[r, q], R_last[r, q]
            Q_last[r, q], R_last[r, q] = (1 + beta) * Q_last[r, q] - beta * Qw_now[r, q], (1 + beta) * R_last[r, q]
            Qw_now[r, q] = (1 + beta) * norm[r, q] - beta * cross[r, q]
            squares = (1 + beta) * (1 + beta) * norm[r, q] + beta * beta * Qww[r, q]
            Qww[r, q] = norm[r, q]
            norm[r, q] = squares - beta * (1 + beta) * (cross[r, q] + cross[q, r])


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
def merge_past(lines, m_past, jitter, merges):
    """Blocks of the past become one in row n and row n+1. Eq. [dyadic]."""
    merge_lines(merges, lines[Line.Q_ROW : Line.R_ROW + 1])
    merge_lines(merges, lines[Line.M_C : Line.M_C + 1])
    merge_lines(merges, lines[Line.NEXT_Q_ROW : Line.NEXT_R_ROW + 1])
    for k in range(len(merges)):
        merge_vector(jitter, merges[k, 0], merges[k, 1], merges[k, 2])  # [dyadic]
        for line in m_past:
            merge_vector(line, merges[k, 0], merges[k, 1], merges[k, 2])


@njit(**UNCOUNTED)
def enter_past(lines, pairs, Q, R, M_C, at, used):
    """Enter row n into the matrices, where it stands from `at` on, and take row n+1 of Q and R in its place. used: entries of lines
    over slots in use from now on."""
    Q_row, R_row = lines[Line.Q_ROW], lines[Line.R_ROW]
    _enter(Q, Q_row, at, pairs[Block.Q_NOW], used)
    _enter(M_C, lines[Line.M_C], at, pairs[Block.M_C_NOW], used)
    units = len(Q_row)
    for r in range(units):
        for j in range(R.shape[1]):
            R[at + r, j] = R_row[r, j]
    put_lines(lines[Line.NEXT_Q_ROW], Q_row)
    put_lines(lines[Line.NEXT_R_ROW], R_row)
    put_lines(pairs[Block.NEXT_Q_NOW], pairs[Block.Q_NOW])
    for r in range(units):
        for q in range(units):
            Q_row[r, at + q], R_row[r, at + q] = pairs[Block.NEXT_Q_LAST][r, q], pairs[Block.NEXT_R_LAST][r, q]
