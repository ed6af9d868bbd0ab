"""The unit of work: samples of the effective process, with `row_sums` and `advance`. Eqs. [dmft-h], [dmft-T].

`row_sums` gives what row n of the kernels needs, one line per block of samples; `advance` takes the samples from
step n to n+1 once the row is known. The march and the iteration are two loops over these two operations.

Per sample the past is kept as sums over the slots of a History: of h, g, chi and the tangents. The tangent
T_{nk} = dh_n/dP_k (P_k shifts the argument of g at step k only) is kept against every slot as source and every
slot as history, `packed` numbers a sample: reading them once a step is nearly all the work of a march.

Random numbers are functions of (stream, sample index, step), so nothing of them is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core.prefetch import LINE, prefetch
from dmft.core.streams import normal2, uniform2
from dmft.equations.history import GROUP, History, Plan
from dmft.equations.noise import dot
from dmft.equations.rows import GG, GH, GH0, GP, SCALARS, STEIN, STEIN_COV, STEIN_GAP2, UNSTABLE, V
from dmft.equations.weights import Drive
from dmft.model.experiment import BERNOULLI, PERSISTENT, POISSON, Problem
from dmft.model.losses import Loss
from dmft.samples import splitting
from dmft.samples.sampling import Draws

# Responses below this are zero: products of two of them would be denormal in single precision, and slow.
TINY = 1e-18
# A sample with eta g' > STABLE overshoots: its explicit step has |dh_{n+1}/dh_n| > 1 with the sign turned. A sample that keeps
# doing so is on a chaotic orbit, whose tangent grows exponentially while the average response that it stands for does not.
# So an overshooting step leaves no response beyond BOUND; a single overshoot, which is sound, stays well below.
STABLE = 2.0
BOUND = 10.0
AHEAD = 2048  # tangents that are on their way while others are worked on
TILE = 128  # columns of the tangents worked on at a time where several steps are known


class Fields(NamedTuple):
    """Loss derivatives at the present step, (count,): v, g = (s/l) v', g' = (s/l) v'', (s/l) dv'/dh0."""

    v: np.ndarray
    g: np.ndarray
    gp: np.ndarray
    g_h0: np.ndarray


@lru_cache
def make_fields(loss: Loss):
    """Elementwise evaluation of Fields, compiled once for a loss."""
    v, dv, d2v, dv_dh0 = loss.v, loss.dv, loss.d2v, loss.dv_dh0

    @njit
    def fields(weight, h, h0, m, s, scale, out_v, g, gp, g_h0):
        for i in range(len(h)):
            if weight[i] == 0.0:  # an empty place
                continue
            field = h[i] + m * h0[i]
            batch = scale * s[i]
            out_v[i] = v(field, h0[i])
            g[i] = batch * dv(field, h0[i])
            gp[i] = batch * d2v(field, h0[i])
            g_h0[i] = batch * dv_dh0(field, h0[i])

    return fields


@njit(cache=True, parallel=True)
def _row_sums(block, used, weight, h0, h, m, eta, v, g, gp, g_h0, G, row, Y, stein, out):
    """out (blocks, SCALARS + 2 slots): sums over the samples of each block; the last block may be shorter."""
    slots = G.shape[1]
    for b in prange(out.shape[0]):
        line = out[b]
        line[:] = 0.0
        for i in range(b * block, min((b + 1) * block, len(h))):
            w = weight[i]
            if w == 0.0:
                continue
            wg, wgp = w * g[i], w * gp[i]
            line[GP] += wgp
            line[GH0] += wg * h0[i]
            line[V] += w * v[i]
            line[GH] += wg * (h[i] + m * h0[i])
            line[GG] += wg * g[i]
            if stein:
                direct = g[i] * h0[i]
                other = gp[i] * (Y[i] + m) + g_h0[i]
                line[STEIN] += w * other
                line[STEIN_GAP2] += w * (direct - other) ** 2
                line[STEIN_COV] += w * direct * (direct - other)
            if eta * gp[i] > STABLE:
                line[UNSTABLE] += w
            for j in range(used):
                line[SCALARS + j] += wg * G[i, j]
            for j in range(used):
                line[SCALARS + slots + j] += wgp * row[i, j]


@njit(cache=True, inline="always")
def next_weight(batch, s, u, fraction, p_on, p_off):
    """Mini-batch weight at the next step from a uniform u. Eq. [persistent-chain]."""
    if batch == BERNOULLI:
        return 1.0 if u < fraction else 0.0
    if batch == PERSISTENT:
        if s > 0.5:
            return 1.0 if u < 1.0 - p_off else 0.0
        return 1.0 if u < p_on else 0.0
    if batch == POISSON:
        term = np.exp(-fraction)
        below = term
        count = 0.0
        while u >= below and count < 39.0:
            count += 1.0
            term *= fraction / count
            below += term
        return count
    return 1.0


@njit(cache=True, fastmath={"contract"})
def _gather(T, memory, offset, stop, first, last, out):
    """out_J += sum_I memory_I T_{IJ} over rows first <= I < last (multiples of four), four packed rows at a time. The
    order is written out; "contract" only lets each product and sum be one rounding. Four short rows do not look like a stream to
    the memory system, so what comes next, of this sample or of the one after it, is asked for ahead."""
    for i in range(first, last, 4):
        c0, c1, c2, c3 = memory[i], memory[i + 1], memory[i + 2], memory[i + 3]
        if c0 == 0.0 and c1 == 0.0 and c2 == 0.0 and c3 == 0.0:
            continue
        length = stop[i]
        for k in range(0, 4 * length, LINE // T.itemsize):
            prefetch(T, offset[i] + AHEAD + k)
        r0 = T[offset[i] : offset[i] + length]
        r1 = T[offset[i + 1] : offset[i + 1] + length]
        r2 = T[offset[i + 2] : offset[i + 2] + length]
        r3 = T[offset[i + 3] : offset[i + 3] + length]
        for j in range(length):
            out[j] = c3 * r3[j] + (c2 * r2[j] + (c1 * r1[j] + (c0 * r0[j] + out[j])))


@njit(cache=True)
def _merge_vector(v, older, newer, into):
    v[into] = v[older] + v[newer]
    v[older] = 0.0
    v[newer] = 0.0


@njit(cache=True)
def _merge_packed(T, older, newer, into, offset, stop):
    """Two blocks become one in the packed tangents of one sample: columns, then rows."""
    for i in range(len(offset)):
        if stop[i] > older and stop[i] > newer:
            o = offset[i]
            T[o + into] = T[o + older] + T[o + newer]
            T[o + older] = 0.0
            T[o + newer] = 0.0
    a, b, c = offset[older], offset[newer], offset[into]
    for j in range(stop[into]):
        T[c + j] = T[a + j] + T[b + j]
    for j in range(stop[older]):
        T[a + j] = 0.0
        T[b + j] = 0.0


@njit(cache=True, parallel=True)
def _advance(block, blocks, n, eta, drive, merges, slot, offset, stop, batch, noise_key, batch_key, weight, index, sign,
             z_first, g, gp, g_h0, m, stein, h, s, H, G, X, T, row, Y, Y_past, ahead, step_ahead, first_row):
    a, keep, memory, chi_weights, chi_sd, thermal = drive
    fraction, p_on, p_off, kind = batch
    used = stop[slot]  # no slot beyond holds anything yet
    for b in prange(blocks):
        pulled = np.empty(used, T.dtype)
        memory_t = memory.astype(T.dtype)
        for j in range(used):
            if abs(memory_t[j]) < TINY:
                memory_t[j] = 0.0
        for i in range(b * block, min((b + 1) * block, len(h))):
            if weight[i] == 0.0:
                continue
            z, xi = normal2(noise_key, index[i], n)
            z *= sign[i]
            if n < z_first.shape[1]:
                z = z_first[i, n]
            chi = dot(chi_weights, X[i], used) + chi_sd * z
            past = dot(memory, H[i], used)
            h_next = a * (keep * h[i] + eta * (past + chi - g[i]) + thermal * sign[i] * xi)
            # tangents: T_{n+1,J}, and the present row T_{n,J} goes into the past
            Ti = T[i]
            if step_ahead < 0:
                pulled[:] = 0.0
            else:
                pulled[:] = ahead[i, step_ahead, :used]
            _gather(Ti, memory_t, offset, stop, first_row, used, pulled)
            slope = a * (keep - eta * gp[i])
            for j in range(used):
                pulled[j] = slope * row[i, j] + a * eta * pulled[j]
                if abs(pulled[j]) < TINY:
                    pulled[j] = 0.0
            if stein:
                response = dot(memory, Y_past[i], used) - gp[i] * (Y[i] + m) - g_h0[i]
                y_next = a * (keep * Y[i] + eta * response)
            if eta * gp[i] > STABLE:
                for j in range(used):
                    pulled[j] = min(max(pulled[j], -BOUND), BOUND)
                if stein:
                    y_next = min(max(y_next, -BOUND), BOUND)
            for k in range(merges.shape[0]):
                older, newer, into = merges[k, 0], merges[k, 1], merges[k, 2]
                _merge_packed(Ti, older, newer, into, offset, stop)
                _merge_vector(H[i], older, newer, into)
                _merge_vector(G[i], older, newer, into)
                _merge_vector(X[i], older, newer, into)
                _merge_vector(row[i], older, newer, into)
                _merge_vector(pulled, older, newer, into)
                if stein:
                    _merge_vector(Y_past[i], older, newer, into)
            o = offset[slot]
            for j in range(used):
                Ti[o + j] = row[i, j]
                row[i, j] = pulled[j]
            row[i, slot] = -a * eta * gp[i]
            H[i, slot], G[i, slot], X[i, slot] = h[i], g[i], chi
            if stein:
                Y_past[i, slot] = Y[i]
                Y[i] = y_next
            h[i] = h_next
            if kind != 0:
                u, _ = uniform2(batch_key, index[i], n + 1)
                s[i] = next_weight(kind, s[i], u, fraction, p_on, p_off)


@njit(cache=True, fastmath={"contract"})
def _pull_sample(T, memories, offset, stop, first, buffer, out):
    """out (steps, slots): sum_I memories_{step,I} T_{IJ} over rows I < first of one sample; first and the number of steps are
    multiples of four. Four rows meet four steps at a time, in a tile of columns whose sums (buffer, steps x TILE) stay in the
    nearest cache; each sum runs over the rows in the order of `_gather`. The fixed distances in the buffer show the compiler
    that nothing overlaps."""
    steps = memories.shape[0]
    out[:] = 0.0
    for left in range(0, first, TILE):
        buffer[:] = 0.0
        for row in range(left, first, 4):
            start, length = offset[row] + left, stop[row]
            width = min(TILE, length - left)
            r0 = T[start : start + width]
            r1 = T[start + length : start + length + width]
            r2 = T[start + 2 * length : start + 2 * length + width]
            r3 = T[start + 3 * length : start + 3 * length + width]
            for step in range(0, steps, 4):
                m0, m1, m2, m3 = memories[step], memories[step + 1], memories[step + 2], memories[step + 3]
                a0, a1, a2, a3 = m0[row], m0[row + 1], m0[row + 2], m0[row + 3]
                b0, b1, b2, b3 = m1[row], m1[row + 1], m1[row + 2], m1[row + 3]
                c0, c1, c2, c3 = m2[row], m2[row + 1], m2[row + 2], m2[row + 3]
                d0, d1, d2, d3 = m3[row], m3[row + 1], m3[row + 2], m3[row + 3]
                if (a0 == 0.0 and a1 == 0.0 and a2 == 0.0 and a3 == 0.0 and b0 == 0.0 and b1 == 0.0 and b2 == 0.0 and b3 == 0.0
                        and c0 == 0.0 and c1 == 0.0 and c2 == 0.0 and c3 == 0.0 and d0 == 0.0 and d1 == 0.0 and d2 == 0.0
                        and d3 == 0.0):
                    continue
                b = buffer[step * TILE : (step + 4) * TILE]
                for j in range(width):
                    t0, t1, t2, t3 = r0[j], r1[j], r2[j], r3[j]
                    b[j] = a3 * t3 + (a2 * t2 + (a1 * t1 + (a0 * t0 + b[j])))
                    b[TILE + j] = b3 * t3 + (b2 * t2 + (b1 * t1 + (b0 * t0 + b[TILE + j])))
                    b[2 * TILE + j] = c3 * t3 + (c2 * t2 + (c1 * t1 + (c0 * t0 + b[2 * TILE + j])))
                    b[3 * TILE + j] = d3 * t3 + (d2 * t2 + (d1 * t1 + (d0 * t0 + b[3 * TILE + j])))
        for step in range(steps):
            for j in range(min(TILE, first - left)):
                out[step, left + j] = buffer[step * TILE + j]


@njit(cache=True, parallel=True)
def _pull(block, blocks, memories, T, offset, stop, first, out):
    """For several steps to come, whose memories (steps, slots) are known: what the rows before `first` will pull."""
    for b in prange(blocks):
        buffer = np.empty(memories.shape[0] * TILE, T.dtype)
        for i in range(b * block, min((b + 1) * block, len(T))):
            _pull_sample(T[i], memories, offset, stop, first, buffer, out[i])


@njit(cache=True, parallel=True)
def _shares(weight, row, out):
    """out (count,): weight times sum_J |T_nJ|."""
    for i in prange(len(weight)):
        response = 0.0
        if weight[i] > 0.0:
            for j in range(row.shape[1]):
                response += abs(np.float64(row[i, j]))
        out[i] = weight[i] * response


class Samples:
    """A range of samples of one replica at step n, in blocks of `block` samples. A weight of 0 marks an empty place."""

    ARRAYS = ("h", "s", "H", "G", "X", "T", "row", "Y", "Y_past", "weight", "label", "h0")

    def __init__(self, problem: Problem, history: History, draws: Draws, weight: np.ndarray, block: int,
                 keys: tuple[np.uint64, np.uint64], stein: bool, dtype=np.float64):
        count, slots = len(draws.h), history.slots
        self.problem, self.block, self.keys, self.stein = problem, block, keys, stein
        self.offset, self.stop = history.offset, history.stop
        self.blocks = -(-count // block)
        self.h, self.s = np.empty(count), np.empty(count)
        self.H, self.G, self.X = (np.zeros((count, slots)) for _ in range(3))
        self.T, self.row = np.zeros((count, history.packed), dtype), np.zeros((count, slots), dtype)
        self.Y, self.Y_past = np.zeros(count), np.zeros((count, slots if stein else 0))
        self.fields = Fields(*(np.empty(count) for _ in range(4)))
        self._evaluate = make_fields(problem.loss)
        self._ahead = np.zeros((count, 0, slots), dtype)  # what the rows before `_pulled` pull at the steps from there on
        self._sums = np.empty((self.blocks, SCALARS + 2 * slots))
        self._start(draws, weight)

    def _start(self, draws: Draws, weight: np.ndarray) -> None:
        self.weight, self.label, self.h0 = weight.copy(), draws.label.astype(np.int64), draws.h0.copy()
        self.sign, self.z = draws.sign, draws.z
        self.n, self._used = 0, 0  # slots in use, rounded up to what a row holds
        self._looks_ahead, self._pulled = False, 0
        self.h[:], self.s[:] = draws.h, draws.s

    def restart(self, draws: Draws, weight: np.ndarray) -> None:
        """As many other samples, at step 0, in the same arrays: fresh ones cost more than they hold."""
        for array in (self.H, self.G, self.X, self.T, self.row, self.Y, self.Y_past):
            array[...] = 0.0
        self._start(draws, weight)

    def row_sums(self, m: float) -> np.ndarray:
        """(blocks, SCALARS + 2 slots): weighted sums for row n, given m_n. Sets the present Fields."""
        self._evaluate(self.weight, self.h, self.h0, m, self.s, self.problem.gradient_scale, *self.fields)
        v, g, gp, g_h0 = self.fields
        _row_sums(self.block, self._used, self.weight, self.h0, self.h, m, self.problem.eta, v, g, gp, g_h0, self.G, self.row,
                  self.Y, self.stein, self._sums)
        return self._sums

    def advance(self, m: float, drive: Drive, plan: Plan) -> None:
        """From step n to n+1; `plan` is what History.push(n) said."""
        p, f = self.problem, self.fields
        _advance(self.block, self.blocks, self.n, p.eta, drive, plan.merges, plan.slot, self.offset, self.stop,
                 (p.batch_fraction, p.p_on, p.p_off, p.batch), self.keys[0], self.keys[1], self.weight, self.label, self.sign,
                 self.z, f.g, f.gp, f.g_h0, m, self.stein, self.h, self.s, self.H, self.G, self.X, self.T, self.row, self.Y,
                 self.Y_past, self._ahead, self.n - self._pulled if self._looks_ahead else -1, self._pulled)
        self.n, self._used = self.n + 1, int(self.stop[plan.slot])

    def split(self, key: np.uint64, places: int, spare: int, threshold: float) -> None:
        """Copy samples whose share of the response exceeds the threshold into empty places; pools of `places` lines."""
        shares = np.empty(len(self.h))
        _shares(self.weight, self.row, shares)
        chosen = splitting.pairs(shares, self.weight, places, spare, threshold)
        old, new = chosen.T
        self.weight[old] *= 0.5
        splitting.copy(self.own().values(), old, new)
        self.label[new] = splitting.labels(self.label[old], key, self.n)

    def own(self) -> Mapping[str, np.ndarray]:
        """The state, one line per place: what a checkpoint holds."""
        return {name: getattr(self, name) for name in self.ARRAYS}

    def restore(self, own: Mapping[str, np.ndarray], n: int) -> None:
        """Take up the state of step n."""
        for name, array in own.items():
            getattr(self, name)[...] = array
        self.n, self._used = n, len(self.stop)

    def look_ahead(self, memories: np.ndarray) -> None:
        """The memories (steps, slots) of the steps to come are known (iteration, full history): pull the present past
        for all of them at once, which reads the tangents once instead of once a step. n: a multiple of four."""
        steps, slots = -(-len(memories) // GROUP) * GROUP, memories.shape[1]
        padded = np.zeros((steps, slots), self.T.dtype)
        padded[: len(memories)] = memories
        if self._ahead.shape[1] < steps:
            self._ahead = np.empty((len(self.h), steps, slots), self.T.dtype)
        _pull(self.block, self.blocks, padded, self.T, self.offset, self.stop, self.n, self._ahead)
        self._looks_ahead, self._pulled = True, self.n
