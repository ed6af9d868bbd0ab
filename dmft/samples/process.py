"""Samples of the effective process: `row_sums` and `advance`. Eqs. [dmft-h], [dmft-T].

`row_sums` gives what row n of the kernels needs, one line per block of samples; `advance` takes the samples from
step n to n+1 once the row is known; march and iteration are two loops over these. The functions of one sample, in the order of a
step, are `next_tangents` and `enter_tangents`, for all samples that have tangents, then `own_normals`, `draw_noise`, `next_field`,
`next_control` and `merge_past`; dmft/equations/reference.py has the same equations without blocks.

Per sample the past is kept as sums over slots of a History; random numbers are functions of (stream, sample, step), not stored.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import njit, prange

from dmft.core.compiled import INNER, UNCOUNTED
from dmft.core.streams import normal2
from dmft.core.tree import overwrite
from dmft.equations.history import SLOT_GROUP, History, Plan
from dmft.equations.noise import add_scaled, dot
from dmft.equations.recursion import merge_vector
from dmft.equations.rows import (
    CARRIED,
    GG,
    GH,
    GK,
    GP,
    GROUPS,
    LABEL,
    LOSSES,
    LOST,
    PUSH,
    RESPONSE,
    RESPONSE2,
    SCALARS,
    UNSTABLE,
    WILD,
    WRONG,
)
from dmft.equations.weights import Drive
from dmft.model.channels import SMOOTH
from dmft.model.experiment import Experiment
from dmft.model.minibatches import own_weight
from dmft.model.sample_averages import averages
from dmft.samples.averages import averaged_sums
from dmft.samples.fields import make_fields
from dmft.samples.formulas import (
    clipped,
    flushed,
    label_moment_of,
    moment_of,
    most_of_control,
    moved_control,
    moved_field,
    overshoots,
    push_of,
    raw_field,
    square_of,
    tangent_slope,
    tangent_source,
)
from dmft.samples.lost import GONE
from dmft.samples.nesterov import AtWeights
from dmft.samples.overlap_sums import overlap_sums
from dmft.samples.sampling import Draws, Sampling, tangent_indices
from dmft.samples.state import Fields, Learning, Past, Randomness, RowTerms, SampleState, Step, by_name
from dmft.samples.tangents import Bounds, MovingTangents, Tangents, bounded, gather, merge_packed, precompute


@njit(**INNER)
def _sum_block(first, last, used, state, learning, fields, past, row, terms, line):
    """line (SCALARS + GROUPS slots): sums over samples first .. last-1, in order."""
    m, eta, stein, identity, classes, outlier, most = terms
    weights, tangent_index, k, h, s, Y = state.weight, state.tangent_index, state.k, state.h, state.s, state.Y
    v, g_all, gp_all, g_y, G, H = fields.v, fields.g, fields.gp, fields.g_y, past.G, past.H
    direct, slots = learning.direct, past.G.shape[1]
    line[:] = 0.0
    products, responses, overlaps = (line[SCALARS : SCALARS + slots], line[SCALARS + slots : SCALARS + 2 * slots],
                                     line[SCALARS + 2 * slots :])
    # Sums of one number stay in registers: the compiler cannot know that no other array overlaps with the line.
    sum_gp = sum_gk = sum_v = sum_gh = sum_gg = label = wild = unstable = lost = 0.0
    carried = sum_response = sum_response2 = 0.0
    for i in range(first, last):
        w, g, gp = weights[i], g_all[i], gp_all[i]
        wg, wgp = w * g, w * gp
        sum_gp += wgp
        sum_gk += moment_of(w, g, k[i])
        sum_v += w * v[i]  # [loss]
        sum_gh += moment_of(w, g, raw_field(h[i], m, k[i]))
        sum_gg += moment_of(w, g, g)
        if stein:
            label += label_moment_of(w, gp, Y[i], g_y[i])
            if abs(Y[i]) > outlier:
                wild += w
        else:
            label += direct[i] * g
        if overshoots(eta, gp):
            unstable += w
        if s[i] < 0.0:
            lost += w  # [lost]
        add_scaled(products, wg, G[i], used)
        t = tangent_index[i]
        if t >= 0:
            carried += w
            if identity:
                total, share = bounded(row[t], used, most)
                wgp *= share
                sum_response += wgp * total
                sum_response2 += square_of(wgp * total, w)
            add_scaled(responses, wgp, row[t], used)
        if identity:
            add_scaled(overlaps, wg, H[i], used)
    line[GP], line[GK], line[LOSSES], line[GH], line[GG] = sum_gp, sum_gk, sum_v, sum_gh, sum_gg
    line[LABEL], line[WILD], line[UNSTABLE], line[LOST] = label, wild, unstable, lost
    line[CARRIED], line[RESPONSE], line[RESPONSE2] = carried, sum_response, sum_response2
    if classes:
        for i in range(first, last):
            line[WRONG] += state.weight[i] * learning.wrong[i]
            line[PUSH] += push_of(state.weight[i], fields.g[i], state.sd[i])


@njit(**UNCOUNTED, parallel=True)
def _row_sums(block, used, state, learning, fields, past, row, terms, out):
    """out (blocks, SCALARS + GROUPS slots): sums over the samples of each block; the last block may be shorter."""
    count = len(state.h)
    for b in prange(out.shape[0]):
        _sum_block(b * block, min((b + 1) * block, count), used, state, learning, fields, past, row, terms, out[b])


@njit(cache=True, inline="always")
def own_normals(i, noise_index, sign, random, n):
    """The normals of chi and of the heat of sample i at step n; the first ones of chi may be given."""
    z, xi = normal2(random.noise, noise_index[i], n)
    z *= sign[i]
    if n < random.z_first.shape[1]:
        z = random.z_first[i, n]
    return z, sign[i] * xi


@njit(cache=True, inline="always")
def draw_noise(z, X, chi_weights, chi_sd, used):
    """chi_n of a sample given its past X. Eq. [dmft-chi]."""
    return dot(chi_weights, X, used) + chi_sd * z  # [dmft-chi]


@njit(cache=True, inline="always")
def next_field(h, g, chi, xi, H, drive, eta, used):
    """h_{n+1} of a sample with past H: the effective process. Eq. [dmft-h]."""
    return moved_field(drive.a, drive.keep, eta, drive.thermal, h, dot(drive.memory, H, used), chi, g, xi)


@njit(cache=True, inline="always")
def next_control(Y, gp, g_y, Y_past, drive, step, used):
    """Y_{n+1}, the response of h_{n+1} to h0 through the label alone, for the control variate of mu. Eq. [stein]."""
    following = moved_control(drive.a, drive.keep, step.eta, Y, dot(drive.memory, Y_past, used), gp, g_y)
    return clipped(following, most_of_control(step.eta, gp, step.tangent_max, step.y_max))


@njit(cache=True, inline="always")
def next_tangents(T, row, gp, memory, drive, step, first, used, out):
    """out_J = T_{n+1,J} for the sources before step n, from tangents T and row n of a sample; memory: that of the drive in their
    precision; out holds the memory sums over the rows before `first`. Eq. [dmft-T]."""
    a, eta, tiny, most = drive.a, step.eta, step.tangent_flush, step.tangent_max
    gather(T, memory, step.offset, step.stop, first, used, out)
    slope = tangent_slope(a, drive.keep, eta, gp)
    for j in range(used):
        out[j] = flushed(slope * row[j] + a * eta * out[j], tiny)  # [dmft-T]
    if overshoots(eta, gp):
        for j in range(used):
            out[j] = clipped(out[j], most)


@njit(cache=True, inline="always")
def merge_past(v, merges):
    """Blocks of the history that become one, in a past of a sample. Eq. [dyadic]."""
    for k in range(merges.shape[0]):
        merge_vector(v, merges[k, 0], merges[k, 1], merges[k, 2])  # [dyadic]


@njit(cache=True, inline="always")
def enter_tangents(T, row, following, source, step, used):
    """Merge blocks in the tangents T of a sample, put row n into the past, and make row n+1, with its new source, the present."""
    merges, slot, offset, stop = step.merges, step.slot, step.offset, step.stop
    for k in range(merges.shape[0]):
        merge_packed(T, merges[k, 0], merges[k, 1], merges[k, 2], offset, stop)
    merge_past(row, merges)
    merge_past(following, merges)
    newest = T[offset[slot] : offset[slot] + used]
    for j in range(used):
        newest[j] = row[j]
    for j in range(used):
        row[j] = following[j]
    row[slot] = source


@njit(**INNER)
def _advance_tangents(first, last, step, drive, state, tangents, fields, following, rounded):
    """The tangents of samples first .. last-1 from step n to n+1. following, rounded (slots,): room for the next row and for the
    memory in their precision."""
    tangent_index, gp_all, memory, sums = state.tangent_index, fields.gp, drive.memory, tangents.sums
    T, row = tangents.T, tangents.row
    a, eta, ahead_step, ahead_first = drive.a, step.eta, tangents.step, tangents.first
    used = step.stop[step.slot]  # no slot beyond holds anything yet
    for j in range(used):
        rounded[j] = memory[j]
        rounded[j] = flushed(rounded[j], step.tangent_flush)
    for i in range(first, last):
        gp, t = gp_all[i], tangent_index[i]
        if t >= 0:
            T_t, row_t = T[t], row[t]
            for j in range(used):
                following[j] = 0.0 if ahead_step < 0 else sums[t, ahead_step, j]
            next_tangents(T_t, row_t, gp, rounded, drive, step, ahead_first, used, following)
            enter_tangents(T_t, row_t, following, tangent_source(a, eta, gp), step, used)


@njit(**INNER)
def _advance_block(first, last, step, drive, chain, random, state, past, fields):
    """Samples first .. last-1 without their tangents from step n to n+1."""
    n, eta, slot, merges, stein = step.n, step.eta, step.slot, step.merges, step.stein
    h, s, Y, batch_index, noise_index, sign = state.h, state.s, state.Y, state.batch_index, state.noise_index, state.sign
    g_all, gp_all, g_y, chi_weights, chi_sd = fields.g, fields.gp, fields.g_y, drive.chi_weights, drive.chi_sd
    H, G, X, Y_past = past.H, past.G, past.X, past.Y
    changes, shift, batch_key = random.changes, random.shift, random.batch
    used, known = step.stop[slot], changes.shape[1]
    for i in range(first, last):
        g, gp, H_i, X_i = g_all[i], gp_all[i], H[i], X[i]
        z, xi = own_normals(i, noise_index, sign, random, n)
        chi = draw_noise(z, X_i, chi_weights, chi_sd, used) + (shift[i] if len(shift) else 0.0)
        h_next = next_field(h[i], g, chi, xi, H_i, drive, eta, used)
        if stein:
            Y_i = Y_past[i]
            Y_next = next_control(Y[i], gp, g_y[i], Y_i, drive, step, used)
            merge_past(Y_i, merges)
            Y_i[slot], Y[i] = Y[i], Y_next
        if len(merges):
            merge_past(H_i, merges)
            merge_past(G[i], merges)
            merge_past(X_i, merges)
        # step n enters the past, n+1 becomes the present
        H_i[slot], G[i, slot], X_i[slot] = h[i], g, chi
        h[i] = h_next
        s[i] = own_weight(chain, s[i], batch_key, batch_index[i], n, known, changes[i]) if s[i] >= 0.0 else GONE


@njit(**UNCOUNTED, parallel=True)
def _advance(of_tangents, blocks, step, drive, chain, random, state, past, tangents, fields):
    """All samples, block by block: either their tangents, or everything else. (Numba drops writes to arrays of a tuple inside a
    prange, so that the work is in functions; and a second prange would take seconds to compile.)"""
    count, block, room = len(state.h), step.block, tangents.room
    for b in prange(blocks):
        first, last = b * block, min((b + 1) * block, count)
        if of_tangents:
            _advance_tangents(first, last, step, drive, state, tangents, fields, room[b, 0], room[b, 1])
        else:
            _advance_block(first, last, step, drive, chain, random, state, past, fields)


class Samples:
    """A range of samples of one solution at step n, in blocks of `block` samples. dtype: precision of the tangents and of the past,
    g excepted (state.Past)."""

    def __init__(self, experiment: Experiment, history: History, draws: Draws, weight: np.ndarray, block: int, sampling: Sampling,
                 dtype=np.float64):
        count, slots = len(draws.h), history.slots
        self.experiment, self.block, self.keys = experiment, block, sampling.keys
        self.stein, self.identity = sampling.stein and experiment.stein and experiment.data.control == SMOOTH, sampling.identity
        self.classes = experiment.data.classifies or experiment.data.bias
        self.averages = averages(experiment.observables)
        self.offset, self.stop = history.offset, history.stop
        self.bounds, self.lost_step = Bounds.of(sampling.estimator), sampling.estimator.lost_step
        self.blocks, self.count = -(-count // block), count
        integers = dict.fromkeys(("batch_index", "noise_index", "tangent_index"), np.int64)
        self.state = SampleState(*(np.zeros(count, integers.get(name, np.float64)) for name in SampleState._fields))
        self.past = Past(H=np.zeros((count, slots), dtype), G=np.zeros((count, slots)), X=np.zeros((count, slots), dtype),
                         Y=np.zeros((count, slots if self.stein else 0), dtype))
        carriers = int(np.count_nonzero(draws.carrier))
        self.tangents = Tangents(np.zeros((carriers, history.packed), dtype), np.zeros((carriers, slots), dtype))
        self.fields = Fields(*(np.empty(count) for _ in Fields._fields))
        self._evaluate = [make_fields(loss) for loss in experiment.losses]
        self.at_weights = AtWeights(np.zeros(count), np.zeros(count), np.zeros((carriers, slots), dtype)) \
            if experiment.update.looks_ahead else None
        self._ahead = np.zeros((carriers, 0, slots), dtype)
        self._sums = np.empty((self.blocks, SCALARS + GROUPS * slots))
        self._room = np.empty((self.blocks, 2, slots), dtype)
        self._start(draws, weight)

    def _start(self, draws: Draws, weight: np.ndarray) -> None:
        self.z, self.changes, self.shift = draws.z, draws.changes, np.zeros(0)
        self.n, self.used = 0, 0  # slots in use, rounded up to what a row holds
        self._looks_ahead, self._ahead_from = False, 0
        start = {**draws._asdict(), "weight": weight, "tangent_index": tangent_indices(draws.carrier), "Y": 0.0}
        self.learning = Learning(np.array(draws.slope), draws.jump + weight * draws.shift, np.zeros(self.count))
        for name, array in zip(SampleState._fields, self.state, strict=True):
            array[:] = start[name]
        if self.at_weights:
            self.at_weights.h[:], self.at_weights.Y[:], self.at_weights.row[:] = draws.h, 0.0, 0.0

    def restart(self, draws: Draws, weight: np.ndarray) -> None:
        """Reset to step 0 with new samples, reusing the arrays (allocating is slower than zeroing)."""
        for array in (*self.past, *self.tangents):
            array[...] = 0.0
        self._start(draws, weight)

    def row_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> np.ndarray:
        """(blocks, SCALARS + GROUPS slots): weighted sums for row n, given m_n and the intercept. Sets the Fields of `advance`.
        m_w: overlap of the weights, where that is another (Nesterov); the training loss is theirs."""
        e, step = self.experiment, min(self.n, self.experiment.steps - 1)
        eta = e.eta_n[step]
        self._evaluate[e.loss_n[self.n]](self.state, self.learning, m, b, eta, e.scale_n[step], self.classes, self.lost_step,
                                          self.fields)
        if self.at_weights:
            weights, scratch = self.state._replace(h=self.at_weights.h, s=self.state.s.copy(), Y=self.state.Y.copy()), Fields(*map(
                np.empty_like, self.fields))
            self._evaluate[e.loss_n[self.n]](weights, self.learning, m_w, b, eta, e.scale_n[step], self.classes, self.lost_step,
                                              scratch)
            self.fields.v[:] = scratch.v
        terms = RowTerms(m, eta, self.stein, self.identity, self.classes, self.bounds.y_outlier, self.bounds.tangent_sum_max)
        _row_sums(self.block, self.used, self.state, self.learning, self.fields, self.past, self.tangents.row, terms, self._sums)
        return self._sums

    def averaged_sums(self, m: float, b: float = 0.0, m_w: float = 0.0) -> np.ndarray:
        """(blocks, averages): weighted sums of the experiment's observables, at the weights; after `row_sums`."""
        h, m = (self.at_weights.h, m_w) if self.at_weights else (self.state.h, m)
        return averaged_sums(self.averages, self.block, self.state, h, m, b)

    def overlap_sums(self) -> np.ndarray:
        """(blocks, OVERLAP_SCALARS + GROUPS slots): what row n of K1 and Z needs, for random starts; after `row_sums`."""
        return overlap_sums(self.block, self.used, self.state, self.fields, self.past, self.tangents.row, self.identity,
                            self.bounds.tangent_sum_max)

    def advance(self, drive: Drive, plan: Plan) -> None:
        """From step n to n+1; `plan` is what History.push(n) said."""
        step = Step.to(plan, self)
        ahead = self.n - self._ahead_from if self._looks_ahead else -1
        tangents = MovingTangents(*self.tangents, self._ahead, ahead, self._ahead_from, self._room)
        chain, random = self.experiment.batches.chain(self.n), Randomness(*self.keys, self.z, self.changes, self.shift)
        for of_tangents in (True, False):  # one after the other, because tangents are then read as one stream
            _advance(of_tangents, self.blocks, step, drive, chain, random, self.state, self.past, tangents, self.fields)
        if self.at_weights:
            beta = self.experiment.update.lookahead(self.n + 1)
            self.at_weights.look_ahead(self.state.h, self.state.Y, self.tangents.row, plan.merges, beta, drive.drift)
        self.n, self.used = self.n + 1, int(self.stop[plan.slot])

    def per_sample(self) -> Mapping[str, np.ndarray]:
        """What a checkpoint holds with a line per sample."""
        return by_name(self.state, self.past) | (self.at_weights.arrays() if self.at_weights else {})

    def per_tangent(self) -> Mapping[str, np.ndarray]:
        """What a checkpoint holds with a line per sample with tangents."""
        return self.tangents._asdict() | ({"behind": self.at_weights.row} if self.at_weights else {})

    def restore(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray], n: int) -> None:
        """Take up the state of step n."""
        overwrite(self.per_sample(), per_sample)
        overwrite(self.per_tangent(), per_tangent)
        self.n, self.used = n, len(self.stop)

    def precompute_memory(self, memories: np.ndarray) -> None:
        """Precompute the memory sums of the next steps over rows already stored, given their memories (steps, slots), as the
        iteration knows them: tangents are then read once instead of once a step. n: a multiple of four; full history."""
        steps, slots = -(-len(memories) // SLOT_GROUP) * SLOT_GROUP, memories.shape[1]
        padded = np.zeros((steps, slots), self.tangents.T.dtype)
        padded[: len(memories)] = memories
        if self._ahead.shape[1] < steps:
            self._ahead = np.empty((len(self.tangents.T), steps, slots), self.tangents.T.dtype)
        precompute(padded, self.tangents.T, self.offset, self.stop, self.n, self._ahead)
        self._looks_ahead, self._ahead_from = True, self.n
