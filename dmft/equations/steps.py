"""One step of the weights, compiled: from row n of the kernels to row n+1 of Q and R, and to what drives the samples. Eqs.
[dmft-Q], [dmft-R], [dmft-m], [dmft-a], [dmft-nu]. Functions get the arrays of one solution (state.py) and leave there what they
find."""

from __future__ import annotations

from math import sqrt

from numba import njit

from dmft.core.compiled import FREE, IN_PLACE, INNER, each
from dmft.equations.blocks import (
    FIRST,
    IN_ORDER,
    INTO,
    JOINS,
    NEWER,
    OLDER,
    SIZE,
    blocks_of,
    kernel_weights,
    sum_of_steps,
    used_slots,
)
from dmft.equations.noise import conditional, dot, factor_rows, join_rows, least_share
from dmft.equations.recursion import (
    Correlations,
    Responses,
    StepCoefficients,
    against_past,
    merge_matrix,
    merge_vector,
    next_norm,
    next_response,
    through_noise,
)
from dmft.equations.state import (
    B_PAST,
    CHI_WEIGHTS,
    CORRELATION,
    FACTOR,
    JITTER,
    M_PAST,
    MEMORY,
    NEXT_R,
    OF_M_C,
    OF_Q,
    OF_R,
    Q_ROW,
    QW_ROW,
    R_ROW,
    ROOM,
    ROW_K_R,
    ROW_M_C,
    RW_ROW,
    X,
    solution_of,
)


@njit(**INNER)
def last_slot(blocks):
    """The slot of step n - 1, which is never in a block with others."""
    return blocks.slots[IN_ORDER, blocks.counts.blocks - 1]


@njit(**INNER)
def noise_overlaps(given, rule, blocks, one):
    """b_j = <chi_n zeta_j>, which depends on M_C alone, not on the response. Eq. [dmft-Q]."""
    correlation, b = one.work[CORRELATION], one.work[B_PAST]
    kernel_weights(rule, blocks, one.work[ROW_M_C], correlation)
    for j in each(len(b)):
        b[j] = 0.0
    one.now.b_now = through_noise(given.eta_0, correlation, Responses(one.matrices[OF_R], one.vectors[R_ROW], rule.stop),
                                  used_slots(blocks), b)


@njit(**INNER)
def row_memory(rule, blocks, one):
    """What row n weighs the past by. Eq. [dyadic]."""
    kernel_weights(rule, blocks, one.work[ROW_K_R], one.drive[MEMORY])  # [dyadic]


@njit(**INNER, error_model="numpy")
def step_coefficients(given, blocks, one):
    """The step that row n makes, where `row_memory` is known: what it keeps of y_n, and its memory. Eqs. [schedule], [momentum]."""
    memory = one.drive[MEMORY]
    if given.recoil != 0.0:
        memory[last_slot(blocks)] -= given.recoil / given.eta  # [momentum]
    return StepCoefficients(
        given.eta, given.inertia - given.eta * one.now.delta_nu - given.eta * given.ridge, memory)  # [schedule], [ridge]


@njit(**IN_PLACE)
def with_weights(given, one, step):
    """<u w_n>, of the unscaled step u and the weights w_n it starts from; 0 unless the rule looks ahead. Eq. [momentum]."""
    if not given.looks_ahead:
        return 0.0
    now, slots = one.now, len(step.memory)
    noise = given.eta_0 * dot(one.vectors[RW_ROW], one.work[CORRELATION], slots)
    memory = dot(step.memory, one.vectors[QW_ROW], slots)
    return step.keep * now.Qw_now + given.eta * memory + given.eta * noise + given.drift * now.Qww


@njit(**IN_PLACE)
def unscaled(given, rule, blocks, one):
    """The step that row n makes, before it is scaled, where `noise_overlaps` and `row_memory` are known. Eqs. [dmft-Q],
    [dmft-R]."""
    now, b, x, r, used = one.now, one.work[B_PAST], one.work[X], one.work[NEXT_R], used_slots(blocks)
    step = step_coefficients(given, blocks, one)
    x_now = against_past(step, b, now.b_now, Correlations(one.matrices[OF_Q], one.vectors[Q_ROW], now.Q_now), used, x)
    next_response(step, Responses(one.matrices[OF_R], one.vectors[R_ROW], rule.stop), used, r)
    q_u = next_norm(step, now.M_C_now, b, now.b_now, x, x_now, used)
    now.with_previous = with_weights(given, one, step)
    if given.drift != 0.0:
        x_now += given.drift * now.Qw_now
        q_u += given.drift * (2 * now.with_previous - given.drift * now.Qww)
        for j in each(len(x)):
            x[j] += given.drift * one.vectors[QW_ROW, j]
            r[j] += given.drift * one.vectors[RW_ROW, j]
    now.keep, now.x_now, now.q_u = step.keep, x_now, q_u + given.heat


@njit(**INNER)
def factor_past(by, blocks, one):
    """Bring the Cholesky factor of M_C over the past up to date."""
    now, order = one.now, blocks.slots[IN_ORDER, : blocks.counts.blocks]
    now.floored += factor_rows(one.matrices[OF_M_C], one.vectors[JITTER], order, one.matrices[FACTOR], now.factor_from,
                               least_share(by))
    now.factor_from = len(order)


@njit(**INNER)
def factor_ridge(by, blocks, one):
    """Bring that of Q + eps S up to date, with eps as it is. Returns the number of pivots that are not positive. Eq. [ibp]."""
    now, order, diagonal = one.now, blocks.slots[IN_ORDER, : blocks.counts.blocks], one.work[ROOM]
    for j in each(len(diagonal)):
        diagonal[j] = now.ridge_eps * sum_of_steps(blocks.slots[FIRST, j], blocks.slots[SIZE, j])
    return factor_rows(one.matrices[OF_Q], diagonal, order, one.ridge, min(now.ridge_from, len(order)), least_share(by))


@njit(**IN_PLACE)
def given_past(by, blocks, one):
    """Weights and standard deviation of chi_n given the past. Eq. [dmft-chi]."""
    now, order, weights = one.now, blocks.slots[IN_ORDER, : blocks.counts.blocks], one.drive[CHI_WEIGHTS]
    factor_past(by, blocks, one)
    for j in each(len(weights)):
        weights[j] = 0.0
    left = conditional(one.matrices[FACTOR], order, one.work[ROW_M_C], now.M_C_now * (1 + by.jitter), one.work[ROOM : ROOM + 1],
                       weights)
    least = least_share(by) * now.M_C_now
    now.chi_sd = sqrt(least if least > left else left)


@njit(**IN_PLACE)
def inertial(given, blocks, one):
    """A_n C(n,n) - B_n C(n,n-1), with the C(n,n) that a constraint fixes; y_n has another where the rule looks ahead."""
    now = one.now
    if given.looks_ahead:
        return given.inertia * (now.Q_now + now.m * now.m) + given.drift * (now.Qw_now + now.m * now.m_w)
    found = given.inertia * given.norm
    if given.recoil != 0.0:
        last = last_slot(blocks)
        found -= given.recoil * (one.vectors[Q_ROW, last] + now.m * one.vectors[M_PAST, last])
    return found


@njit(**IN_PLACE)
def step_from_row(given, rule, blocks, one):
    """What follows from row n, before the step is scaled, as in `unscaled`. The state stays at step n; `weights_into_past`
    moves on. Eqs. [dmft-m], [dmft-nu]."""
    now = one.now
    unscaled(given, rule, blocks, one)
    m_u = (given.inertia - given.eta * given.ridge) * now.m - given.eta * now.mu  # [dmft-m], [ridge]
    if given.recoil != 0.0:
        m_u -= given.recoil * one.vectors[M_PAST, last_slot(blocks)]  # [momentum]
    if given.drift != 0.0:
        m_u += given.drift * now.m_w
    now.m_u, now.norm = m_u, now.q_u + m_u * m_u
    now.lag = inertial(given, blocks, one) - now.x_now - now.m * m_u


@njit(**IN_PLACE)
def scaled(given, one):
    """The step scaled by a_n: row n+1 of Q and R against the past, before step n itself enters the past, and m_{n+1}. Eqs.
    [dmft-Q], [dmft-R], [dmft-m], [dmft-nu]."""
    now, x, r = one.now, one.work[X], one.work[NEXT_R]
    a = now.a
    for j in each(len(x)):
        x[j] = a * x[j]
        r[j] = a * r[j]
    now.next_with_last, now.next_Q, now.next_m = a * now.x_now, a * a * now.q_u, a * now.m_u
    now.next_b = now.b - given.eta * given.alpha * now.push if given.bias else now.b
    now.next_R, now.with_previous = a * (given.eta / given.eta_0), a * now.with_previous  # [dmft-R], [schedule]
    now.nu_hat = (1 / a - 1) / given.eta + given.ridge  # [dmft-nu], [ridge]


@njit(**INNER)
def merged(blocks, v):
    """Blocks that the last step merged become one in a vector."""
    for k in range(blocks.counts.moved):
        merge_vector(v, blocks.levels[OLDER, k], blocks.levels[NEWER, k], blocks.levels[INTO, k])


@njit(**INNER)
def merged_matrix(blocks, A):
    """The same in a matrix."""
    for k in range(blocks.counts.moved):
        merge_matrix(A, blocks.levels[OLDER, k], blocks.levels[NEWER, k], blocks.levels[INTO, k])


@njit(**IN_PLACE)
def nesterov_point(given, blocks, one):
    """Row n+1 of y from that of w, y_{n+1} = (1 + beta) w_{n+1} - beta w_n; the row of w_{n+1} goes into the state. Eq.
    [momentum]."""
    beta, now, slot, x, r = given.ahead, one.now, blocks.counts.slot, one.work[X], one.work[NEXT_R]
    Qw_row, Rw_row = one.vectors[QW_ROW], one.vectors[RW_ROW]
    norm, cross, with_last, R_last, m = now.next_Q, now.with_previous, now.next_with_last, now.next_R, now.next_m
    now.next_with_last, now.next_R = (1 + beta) * with_last - beta * now.Qw_now, (1 + beta) * R_last
    now.next_Q = (1 + beta) * (1 + beta) * norm + beta * beta * now.Qww - 2 * beta * (1 + beta) * cross
    now.next_m = (1 + beta) * m - beta * now.m_w
    for j in each(len(x)):
        Q_w, R_w = x[j], r[j]
        x[j], r[j] = (1 + beta) * Q_w - beta * Qw_row[j], (1 + beta) * R_w - beta * Rw_row[j]
        Qw_row[j], Rw_row[j] = Q_w, R_w
    merged(blocks, Qw_row)
    merged(blocks, Rw_row)
    Qw_row[slot], Rw_row[slot] = with_last, R_last
    now.Qw_now, now.Qww, now.m_w = (1 + beta) * norm - beta * cross, norm, m


@njit(**IN_PLACE)
def enter(A, row, slot, now):
    """Row and column of a step in a symmetric matrix."""
    for j in each(len(row)):
        A[slot, j] = A[j, slot] = row[j]
    A[slot, slot] = now


@njit(**IN_PLACE)
def next_numbers(one):
    """The numbers of step n+1."""
    now = one.now
    now.Q_now, now.m, now.b, now.n = now.next_Q, now.next_m, now.next_b, now.n + 1


@njit(**IN_PLACE)
def noise_into_past(drawn, given, by, blocks, one):
    """Enter row n of M_C into the past, in which the history has made room for it. drawn: whether samples need the noise; what the
    row adds to the factor is then known before it is asked for, while a card is at work."""
    now, slot, jitter = one.now, blocks.counts.slot, one.vectors[JITTER]
    merged(blocks, jitter)
    merged(blocks, one.work[ROW_M_C])
    jitter[slot] = by.jitter * now.M_C_now
    if given.sampled:
        merged_matrix(blocks, one.matrices[OF_M_C])
        enter(one.matrices[OF_M_C], one.work[ROW_M_C], slot, now.M_C_now)
        for k in range(blocks.counts.joined):
            now.factor_from = join_rows(one.matrices[FACTOR], now.factor_from, blocks.levels[JOINS, k])
    if drawn:
        factor_past(by, blocks, one)


@njit(**IN_PLACE)
def weights_into_past(drawn, given, by, blocks, one):
    """Enter the rest of row n into the past, and move to step n+1. drawn: as of `noise_into_past`."""
    now, slot, x, r = one.now, blocks.counts.slot, one.work[X], one.work[NEXT_R]
    if given.looks_ahead:
        nesterov_point(given, blocks, one)
    for which in range(OF_M_C):
        merged_matrix(blocks, one.matrices[which])
    merged(blocks, one.vectors[Q_ROW])
    merged(blocks, one.vectors[R_ROW])
    merged(blocks, one.vectors[M_PAST])
    merged(blocks, x)
    merged(blocks, r)
    enter(one.matrices[OF_Q], one.vectors[Q_ROW], slot, now.Q_now)
    one.vectors[M_PAST, slot] = now.m
    for j in each(len(x)):
        one.matrices[OF_R, slot, j] = one.vectors[R_ROW, j]
        one.vectors[Q_ROW, j], one.vectors[R_ROW, j] = x[j], r[j]
    one.vectors[Q_ROW, slot], one.vectors[R_ROW, slot] = now.next_with_last, now.next_R
    next_numbers(one)
    for k in range(blocks.counts.joined if given.sampled else 0):
        now.ridge_from = join_rows(one.ridge, now.ridge_from, blocks.levels[JOINS, k])
    if drawn and now.ridge_eps > 0.0 and factor_ridge(by, blocks, one) == 0:
        now.ridge_from = blocks.counts.blocks


@njit(**IN_PLACE)
def row_steps(known, drawn, given, by, rule, blocks, one):
    """`step_from_row`. known: whether `noise_overlaps` and `row_memory` are; drawn: whether samples need the noise."""
    if not known:
        noise_overlaps(given, rule, blocks, one)
        row_memory(rule, blocks, one)
    step_from_row(given, rule, blocks, one)
    if drawn:
        given_past(by, blocks, one)


# Of the solutions at some places, one after the other; each has numbers of its own alone, so that company changes no bit.
@njit(**FREE, error_model="numpy")
def steps_from_rows(places, known, drawn, given, by, rule, tables, solutions):
    """`row_steps`."""
    for at in places:
        row_steps(known, drawn, given[0], by[0], rule, blocks_of(tables, at), solution_of(solutions, at))


@njit(**FREE, error_model="numpy")
def scale_steps(places, given, solutions):
    """`scaled`."""
    for at in places:
        scaled(given[0], solution_of(solutions, at))


@njit(**FREE, error_model="numpy")
def advance_all(places, drawn, given, by, tables, solutions):
    """`noise_into_past` and `weights_into_past`, of which neither needs what the other changes."""
    for at in places:
        blocks, one = blocks_of(tables, at), solution_of(solutions, at)
        noise_into_past(drawn, given[0], by[0], blocks, one)
        weights_into_past(drawn, given[0], by[0], blocks, one)


@njit(**FREE)
def all_next_numbers(places, solutions):
    """`next_numbers`, of solutions that a card has advanced."""
    for at in places:
        next_numbers(solution_of(solutions, at))
