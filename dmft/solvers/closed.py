"""Closed models: the march without samples. Eqs. [closed-row], [closed-m], [closed-energy].

Row n of the kernels is a function of row n of C and Gam, and everything after it is that of the sampled march: the step from it,
history, momentum, schedules, files. Nothing is random: what is uncertain is the learning rate, and the blocks of the history.

Rows that are kept go through `WeightDynamics`, as do all rows of rules that look ahead; the many between them are taken by one
compiled loop over the same arrays.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from dmft.core.compiled import UNCOUNTED
from dmft.equations.blocks import IN_ORDER, INTO, NEWER, OLDER, SIZE, blocks_of, push_step, used_slots
from dmft.equations.kernels import Wanted, enter_row
from dmft.equations.noise import add_scaled, dot
from dmft.equations.recursion import merge_matrix, merge_vector
from dmft.equations.rows import curves_of, escaped
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.equations.weights import Row, StepFromRow
from dmft.files.layouts import DETERMINISTIC
from dmft.model.experiment import Experiment
from dmft.model.p_spin import PSpin, derivative
from dmft.solvers.blocks import Summing, blocks_for
from dmft.solvers.march import Causal

ROWS_AT_ONCE = 256  # of the compiled loop at a time, so that stop signals and progress do not wait
SCRATCH = 9  # vectors over slots that the loop works in


@njit(**UNCOUNTED)
def polynomial(coefficients, x):
    """Its value, with the constant first."""
    total = 0.0
    for k in range(len(coefficients) - 1, -1, -1):
        total = total * x + coefficients[k]
    return total


@njit(**UNCOUNTED)
def closed_kernels(order, size, f, C, Gam, M_C, K_R):
    """f'(C) and f''(C) Gam summed over blocks, into M_C and K_R (slots,), of the means over each block. f (2, degree): derivatives
    of f; C, Gam (slots,): sums. Eq. [closed-row]."""
    for slot in range(len(M_C)):
        M_C[slot] = K_R[slot] = 0.0
    for slot in order:
        c = C[slot] / size[slot]
        M_C[slot] = size[slot] * polynomial(f[0], c)  # [closed-row]
        K_R[slot] = polynomial(f[1], c) * Gam[slot]  # [closed-row]


class ClosedTerms(NamedTuple):
    """Coefficients of derivatives of f and phi; the learning rate in whose units R is kept; what a norm must stay below."""

    f: np.ndarray
    phi: np.ndarray
    unit: float
    largest: float


class ClosedSteps(NamedTuple):
    """Settings of every step, each (steps,)."""

    eta: np.ndarray
    A: np.ndarray
    B: np.ndarray
    heat: np.ndarray
    temperature: np.ndarray


class ClosedPast(NamedTuple):
    """Arrays of the WeightState that the loop changes, and where rows of R end."""

    Q: np.ndarray
    R: np.ndarray
    Q_row: np.ndarray
    R_row: np.ndarray
    m_past: np.ndarray
    stop: np.ndarray


@njit(**UNCOUNTED)
def next_closed_row(step, unit, correlation, M_C_now, past, Q_now, used, b, x, r):
    """`through_noise` and `next_row` of equations/recursion.py in one pass over the rows of R and one over half of Q, which is
    symmetric: these matrices do not fit into the nearest cache. Returns b_n, x_n and q_u without the thermal part."""
    eta, keep, memory = step
    Q, R, Q_row, R_row, stop = past.Q, past.R, past.Q_row, past.R_row, past.stop
    for j in range(len(x)):
        x[j], r[j] = keep * Q_row[j], keep * R_row[j]
    for i in range(used):
        weight, row = eta * memory[i], R[i]
        b[i] = unit * dot(row, correlation, stop[i])
        if weight != 0.0:
            add_scaled(r, weight, row, stop[i])
    for i in range(used):
        weight, row = eta * memory[i], Q[i]
        x[i] += eta * (dot(memory, row, i) + memory[i] * row[i] + b[i])
        if weight != 0.0:
            add_scaled(x, weight, row, i)
    b_now = unit * dot(R_row, correlation, used)
    x_now = keep * Q_now + eta * dot(memory, Q_row, used) + eta * b_now
    b_z = keep * b_now + eta * dot(memory, b, used) + eta * M_C_now
    return b_now, x_now, keep * x_now + eta * dot(memory, x, used) + eta * b_z


@njit(**UNCOUNTED)
def closed_rows(begin, end, terms, steps, past, m, Q_now, history, work, curves):
    """Rows begin .. end - 1 of a rule that does not look ahead, as `ClosedMarch.row`, `WeightDynamics.step_from_row` and `advance`
    take them one by one, into curves (5, rows): m, energy, mu, nu_hat, nu_hat_direct. Returns the row it came to, m and Q_now.
    terms: ClosedTerms; steps: ClosedSteps; past: ClosedPast; history: its rule and tables."""
    rule, tables = history
    blocks = blocks_of(tables, 0)
    f, phi, unit, largest = terms
    eta, A, B, heat, temperature = steps
    Q, R, Q_row, R_row, m_past, _ = past
    size, order, levels, counts = blocks.slots[SIZE], blocks.slots[IN_ORDER], blocks.levels, blocks.counts
    C, Gam, M_C, K_R, memory, correlation, b, x, r = (
        work[0], work[1], work[2], work[3], work[4], work[5], work[6], work[7], work[8])
    slots = len(C)
    for n in range(begin, end):
        used, count = used_slots(blocks), counts.blocks
        for j in range(slots):
            C[j] = Q_row[j] + m * m_past[j]
            Gam[j] = unit * R_row[j]
        closed_kernels(order[:count], size, f, C, Gam, M_C, K_R)
        M_C_now = polynomial(f[0], Q_now + m * m)  # [closed-row]
        for j in range(slots):
            below = max(size[j], 1)
            memory[j], correlation[j] = K_R[j] / below, M_C[j] / below
        mu = -polynomial(phi[1], m) - dot(memory, m_past, used)  # [closed-m]
        m_u = A[n] * m - eta[n] * mu
        lag = A[n]
        if B[n] != 0.0:
            last = order[count - 1]
            memory[last] -= B[n] / eta[n]
            m_u -= B[n] * m_past[last]
            lag -= B[n] * C[last]
        b_now, x_now, q_u = next_closed_row((eta[n], A[n], memory), unit, correlation, M_C_now, past, Q_now, used, b, x, r)
        q_u += heat[n]
        norm = q_u + m_u * m_u
        if not 0.0 < norm < largest:
            return n, m, Q_now
        a = 1.0 / np.sqrt(norm)
        curves[0, n], curves[1, n], curves[2, n] = m, -b_now - polynomial(phi[0], m), mu  # [closed-energy]
        curves[3, n] = (1.0 / a - 1.0) / eta[n]
        curves[4, n] = temperature[n] - (lag - x_now - m * m_u) / eta[n]  # [closed-mu]
        push_step(n, rule, blocks)
        moved, slot = counts.moved, counts.slot
        for j in range(slots):
            x[j] *= a
            r[j] *= a
        for k in range(moved):
            older, newer, into = levels[OLDER, k], levels[NEWER, k], levels[INTO, k]
            merge_matrix(Q, older, newer, into)
            merge_matrix(R, older, newer, into)
            merge_vector(Q_row, older, newer, into)
            merge_vector(R_row, older, newer, into)
            merge_vector(x, older, newer, into)
            merge_vector(r, older, newer, into)
            merge_vector(m_past, older, newer, into)
        row, response = Q[slot], R[slot]
        for j in range(slots):
            row[j] = Q[j, slot] = Q_row[j]
            response[j] = R_row[j]
            Q_row[j], R_row[j] = x[j], r[j]
        Q[slot, slot], m_past[slot] = Q_now, m
        Q_row[slot], R_row[slot] = a * x_now, a * eta[n] / unit
        Q_now, m = a * a * q_u, a * m_u
    return end, m, Q_now


class ClosedMarch(Causal):
    """The solution of a closed model."""

    complete: ClassVar[str] = DETERMINISTIC

    def __init__(self, experiment: Experiment, per_level: int | None, wanted: Wanted, comm: Summing,
                 estimator: Estimator = ESTIMATOR):
        super().__init__(experiment, per_level, wanted, comm, estimator)
        self.blocks = blocks_for(1, 1, comm)  # no samples; a line stands for all
        model = experiment.data
        assert isinstance(model, PSpin)
        self._f = model.derivatives()
        self._phi = np.array([derivative(model.phi, order) for order in (0, 1)])
        self._table = np.full((5, experiment.steps + 1), np.nan)
        self.curves |= zip(("m", "loss", "mu", "nu_hat", "nu_hat_direct"), self._table)
        self.curves = {name: self.curves[name] for name in curves_of(experiment)}
        self._work = np.zeros((SCRATCH, self.history.slots))
        self._stops = np.union1d(np.union1d(self.kept.grid, self.kept.times), [experiment.steps])

    def terms(self) -> list[np.ndarray]:
        """Nothing is summed over samples."""
        return [np.zeros((len(self.blocks.here), 1))]

    def take(self, totals: list[np.ndarray]) -> None:
        """On to the next row that is kept, through it, and at most ROWS_AT_ONCE further."""
        n, stop = self.n, int(self._stops[self._stops.searchsorted(self.n)])
        if n < stop and not self.weights.looks_ahead:
            self._many(min(stop, n + ROWS_AT_ONCE))
        else:
            self._one()

    def row(self) -> Row:
        """Row n of the kernels. Eqs. [closed-row], [closed-m]."""
        state, history, m = self.weights.state, self.history, self.weights.m
        M_C, K_R = self._kernels(state.Q_row + m * state.m_past, state.R_row)
        mu = -polynomial(self._phi[1], m) - dot(history.weights(K_R), state.m_past, self.weights.used)  # [closed-m]
        return Row(0.0, mu, polynomial(self._f[0], self.weights.number("Q_now") + m**2), M_C, K_R)  # [closed-row]

    def _kernels(self, C: np.ndarray, R_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h, M_C, K_R = self.history, np.zeros(self.history.slots), np.zeros(self.history.slots)
        closed_kernels(h.order, h.size, self._f, C, self.experiment.eta_0 * R_row, M_C, K_R)
        return M_C, K_R

    def energy(self, row: Row) -> float:
        """Of the weights w_n. Eq. [closed-energy]."""
        state, weights = self.weights.state, self.weights
        M_C, R_row = row.M_C, state.R_row
        if weights.looks_ahead:  # row n is that of y_n
            R_row = state.Rw_row
            M_C, _ = self._kernels(state.Qw_row + weights.m_w * state.m_past, R_row)
        noise = -self.experiment.eta_0 * dot(R_row, self.history.weights(M_C), weights.used)
        return noise - polynomial(self._phi[0], weights.m_w)  # [closed-energy]

    def _one(self) -> None:
        """Row n by `WeightDynamics`."""
        weights, n, e = self.weights, self.n, self.experiment
        row = self.row()
        after = weights.step_from_row(row)
        for name, value in self._figures(row, after).items():
            self.curves[name][n] = value
        enter_row(self.kernels, self.columns, self.kept, weights, row)
        if escaped(after.norm, weights.estimator.largest):
            self.diverged = True
        elif n < e.steps:
            weights.advance(row, after.next, self.history.push(n))

    def _figures(self, row: Row, after: StepFromRow) -> dict[str, float]:
        """Every curve at step n. Eq. [closed-mu]."""
        step = min(self.n, self.experiment.steps - 1)
        direct = self.experiment.temperature[step] - after.lag / self.experiment.eta_n[step]  # [closed-mu]
        return {"m": self.weights.m_w, "loss": self.energy(row), "mu": row.mu, "nu_hat": after.nu_hat, "nu_hat_direct": direct,
                "q": self.weights.q, "delta_nu": 0.0, "nu_gap": 0.0, "unstable": 0.0}

    def _many(self, end: int) -> None:
        """Rows n .. end - 1 by the compiled loop."""
        e, h, state, begin = self.experiment, self.history, self.weights.state, self.n
        steps = ClosedSteps(e.eta_n, e.update.A, e.update.B, e.heat_n, e.temperature)
        past = ClosedPast(state.Q, state.R, state.Q_row, state.R_row, state.m_past, h.rule.stop)
        reached, state.now.m, state.now.Q_now = closed_rows(
            begin, end, ClosedTerms(self._f, self._phi, e.eta_0, self.weights.estimator.largest), steps, past,
            float(state.now.m), float(state.now.Q_now), (h.rule, h.tables), self._work, self._table)
        state.now.n, self.diverged = reached, reached < end
        self.curves["q"][begin:reached] = 1.0
        for name in ("delta_nu", "nu_gap", "unstable"):
            self.curves[name][begin:reached] = 0.0
