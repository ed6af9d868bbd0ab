"""Samples of the effective process: `row_sums` and `advance`. Eqs. [dmft-h], [dmft-T].

`row_sums` gives what row n of the kernels needs, one line per block of samples; `advance` takes the samples from
step n to n+1 once the row is known. The march and the iteration are two loops over these two operations. The functions
of one sample, in the order of a step, are `draw_noise`, `next_field`, `next_tangents`, `next_control` and `merge`;
dmft/equations/reference.py has the same equations without blocks.

Per sample the past is kept as sums over the slots of a History: of h, g, chi and the tangents (tangents.py). Random
numbers are functions of (stream, sample, step), so nothing of them is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core.streams import normal2
from dmft.equations.history import GROUP, History, Plan
from dmft.equations.noise import dot
from dmft.equations.rows import GG, GH, GK, GP, SCALARS, STEIN, STEIN_COV, STEIN_GAP2, UNSTABLE, V
from dmft.equations.weights import Drive
from dmft.model.experiment import Experiment
from dmft.model.losses import Loss
from dmft.model.minibatches import next_weight
from dmft.samples import splitting
from dmft.samples.sampling import Draws
from dmft.samples.tangents import BOUND, STABLE, TINY, Ahead, Tangents, gather, merge_packed, pull, shares


class SampleState(NamedTuple):
    """Where the samples stand at step n, each (count,)."""

    weight: np.ndarray  # 0 marks an empty place
    name: np.ndarray  # names the random numbers of a sample
    sign: np.ndarray  # -1 for the mirror image of a pair
    k: np.ndarray  # coefficient of the input along w0
    y: np.ndarray  # label
    sd: np.ndarray  # spread of the input
    h: np.ndarray
    s: np.ndarray  # mini-batch weight
    Y: np.ndarray  # dh_n/dh0 along the path, of the control variate


class Past(NamedTuple):
    """Sums over the steps of each block of the history, each (count, slots)."""

    H: np.ndarray  # of h
    G: np.ndarray  # of g
    X: np.ndarray  # of chi
    Y: np.ndarray  # of the control variate's Y; (count, 0) where it is not used


class Fields(NamedTuple):
    """The loss at the present step, each (count,): v, g = (s/l) sd v', g' = (s/l) sd^2 v'', and (s/l) sd dv'/dy."""

    v: np.ndarray
    g: np.ndarray
    gp: np.ndarray
    g_y: np.ndarray


class Step(NamedTuple):
    """Where step n goes: the new slot, blocks to merge, and how rows of tangents lie (equations/history.py)."""

    n: int
    m: float
    eta: float
    merges: np.ndarray
    slot: int
    offset: np.ndarray
    stop: np.ndarray


def by_name(state: SampleState, past: Past, tangents: Tangents) -> dict[str, np.ndarray]:
    """The arrays of some samples as "part/name"."""
    parts = {"state": state._asdict(), "past": past._asdict(), "tangents": tangents._asdict()}
    return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


class Keys(NamedTuple):
    """Streams of a solution."""

    noise: np.uint64
    batch: np.uint64


@lru_cache
def make_fields(loss: Loss):
    """Elementwise evaluation of Fields, compiled once for a loss."""
    v, dv, d2v, dv_dy = loss.v, loss.dv, loss.d2v, loss.dv_dh0

    @njit
    def fields(state, m, scale, out):
        for i in range(len(state.h)):
            if state.weight[i] == 0.0:  # an empty place
                continue
            sd = state.sd[i]
            field, batch = sd * (state.h[i] + m * state.k[i]), scale * state.s[i] * sd
            out.v[i] = v(field, state.y[i])
            out.g[i] = batch * dv(field, state.y[i])
            out.gp[i] = batch * sd * d2v(field, state.y[i])
            out.g_y[i] = batch * dv_dy(field, state.y[i])

    return fields


@njit(cache=True, parallel=True)
def _row_sums(block, used, state, fields, G, row, m, eta, stein, out):
    """out (blocks, SCALARS + 2 slots): sums over the samples of each block; the last block may be shorter."""
    slots, count = G.shape[1], len(state.h)
    for b in prange(out.shape[0]):
        line = out[b]
        line[:] = 0.0
        for i in range(b * block, min((b + 1) * block, count)):
            w = state.weight[i]
            if w == 0.0:
                continue
            g, gp = fields.g[i], fields.gp[i]
            wg, wgp = w * g, w * gp
            line[GP] += wgp
            line[GK] += wg * state.k[i]
            line[V] += w * fields.v[i]
            line[GH] += wg * (state.h[i] + m * state.k[i])
            line[GG] += wg * g
            if stein:
                direct = g * state.k[i]
                other = gp * (state.Y[i] + m) + fields.g_y[i]
                line[STEIN] += w * other
                line[STEIN_GAP2] += w * (direct - other) ** 2
                line[STEIN_COV] += w * direct * (direct - other)
            if eta * gp > STABLE:
                line[UNSTABLE] += w
            for j in range(used):
                line[SCALARS + j] += wg * G[i, j]
            for j in range(used):
                line[SCALARS + slots + j] += wgp * row[i, j]


@njit(cache=True, inline="always")
def draw_noise(i, state, past, z_first, noise_key, drive, n, used):
    """chi_n given the past of this sample, and the normal of its heat. Eq. [dmft-chi]."""
    z, xi = normal2(noise_key, state.name[i], n)
    z *= state.sign[i]
    if n < z_first.shape[1]:
        z = z_first[i, n]
    return dot(drive.chi_weights, past.X[i], used) + drive.chi_sd * z, xi


@njit(cache=True, inline="always")
def next_field(i, state, past, g, chi, xi, drive, eta, used):
    """h_{n+1}: the effective process. Eq. [dmft-h]."""
    memory = dot(drive.memory, past.H[i], used)
    return drive.a * (drive.keep * state.h[i] + eta * (memory + chi - g) + drive.thermal * state.sign[i] * xi)


@njit(cache=True, inline="always")
def next_tangents(i, tangents, ahead, memory, drive, gp, eta, offset, stop, used, out):
    """out_J = T_{n+1,J} for the sources before step n. Eq. [dmft-T]."""
    if ahead.step < 0:
        out[:] = 0.0
    else:
        out[:] = ahead.sums[i, ahead.step, :used]
    gather(tangents.T[i], memory, offset, stop, ahead.first, used, out)
    slope = drive.a * (drive.keep - eta * gp)
    for j in range(used):
        out[j] = slope * tangents.row[i, j] + drive.a * eta * out[j]
        if abs(out[j]) < TINY:
            out[j] = 0.0
    if eta * gp > STABLE:
        for j in range(used):
            out[j] = min(max(out[j], -BOUND), BOUND)


@njit(cache=True, inline="always")
def next_control(i, state, past, fields, drive, m, eta, used):
    """Y_{n+1} = dh_{n+1}/dh0 along the path, for the control variate of mu. Eq. [stein]."""
    response = dot(drive.memory, past.Y[i], used) - fields.gp[i] * (state.Y[i] + m) - fields.g_y[i]
    following = drive.a * (drive.keep * state.Y[i] + eta * response)
    return min(max(following, -BOUND), BOUND) if eta * fields.gp[i] > STABLE else following


@njit(cache=True)
def _merge_vector(v, older, newer, into):
    v[into] = v[older] + v[newer]
    v[older] = 0.0
    v[newer] = 0.0


@njit(cache=True, inline="always")
def merge(i, merges, past, tangents, following, offset, stop, stein):
    """Blocks of the history that become one, in everything that a sample keeps of its past. Eq. [dyadic]."""
    for k in range(merges.shape[0]):
        older, newer, into = merges[k, 0], merges[k, 1], merges[k, 2]
        merge_packed(tangents.T[i], older, newer, into, offset, stop)
        _merge_vector(past.H[i], older, newer, into)
        _merge_vector(past.G[i], older, newer, into)
        _merge_vector(past.X[i], older, newer, into)
        _merge_vector(tangents.row[i], older, newer, into)
        _merge_vector(following, older, newer, into)
        if stein:
            _merge_vector(past.Y[i], older, newer, into)


@njit(cache=True)
def _advance_block(first, last, step, drive, chain, keys, state, past, tangents, fields, z_first, ahead, stein):
    """Samples first .. last-1 from step n to n+1."""
    n, m, eta, merges, slot, offset, stop = step
    used = stop[slot]  # no slot beyond holds anything yet
    following = np.empty(used, tangents.T.dtype)
    memory = drive.memory.astype(tangents.T.dtype)
    for j in range(used):
        if abs(memory[j]) < TINY:
            memory[j] = 0.0
    for i in range(first, last):
        if state.weight[i] == 0.0:
            continue
        g, gp = fields.g[i], fields.gp[i]
        chi, xi = draw_noise(i, state, past, z_first, keys.noise, drive, n, used)
        h_next = next_field(i, state, past, g, chi, xi, drive, eta, used)
        next_tangents(i, tangents, ahead, memory, drive, gp, eta, offset, stop, used, following)
        if stein:
            Y_next = next_control(i, state, past, fields, drive, m, eta, used)
        merge(i, merges, past, tangents, following, offset, stop, stein)
        # step n enters the past, n+1 becomes the present
        for j in range(used):
            tangents.T[i, offset[slot] + j] = tangents.row[i, j]
            tangents.row[i, j] = following[j]
        tangents.row[i, slot] = -drive.a * eta * gp
        past.H[i, slot], past.G[i, slot], past.X[i, slot] = state.h[i], g, chi
        if stein:
            past.Y[i, slot] = state.Y[i]
            state.Y[i] = Y_next
        state.h[i] = h_next
        state.s[i] = next_weight(chain, state.s[i], keys.batch, state.name[i], n)


@njit(cache=True, parallel=True)
def _advance(block, blocks, step, drive, chain, keys, state, past, tangents, fields, z_first, ahead, stein):
    """All samples, block by block. (Numba drops writes to arrays of a tuple inside a prange, so that the work is a function.)"""
    count = len(state.h)
    for b in prange(blocks):
        _advance_block(b * block, min((b + 1) * block, count), step, drive, chain, keys, state, past, tangents, fields, z_first,
                       ahead, stein)


class Samples:
    """A range of samples of one solution at step n, in blocks of `block` samples. A weight of 0 marks an empty place."""

    def __init__(self, experiment: Experiment, history: History, draws: Draws, weight: np.ndarray, block: int,
                 keys: tuple[np.uint64, np.uint64], stein: bool, dtype=np.float64):
        count, slots = len(draws.h), history.slots
        self.experiment, self.block, self.keys, self.stein = experiment, block, Keys(*keys), stein
        self.offset, self.stop = history.offset, history.stop
        self.blocks, self.count = -(-count // block), count
        self.chain = experiment.batch.chain()
        integers = {"name": np.int64}
        self.state = SampleState(*(np.zeros(count, integers.get(name, np.float64)) for name in SampleState._fields))
        self.past = Past(*(np.zeros((count, width)) for width in (slots, slots, slots, slots if stein else 0)))
        self.tangents = Tangents(np.zeros((count, history.packed), dtype), np.zeros((count, slots), dtype))
        self.fields = Fields(*(np.empty(count) for _ in range(4)))
        self._evaluate = make_fields(experiment.data.loss)
        self._ahead = np.zeros((count, 0, slots), dtype)
        self._sums = np.empty((self.blocks, SCALARS + 2 * slots))
        self._start(draws, weight)

    def _start(self, draws: Draws, weight: np.ndarray) -> None:
        self.z = draws.z
        self.n, self._used = 0, 0  # slots in use, rounded up to what a row holds
        self._looks_ahead, self._ahead_from = False, 0
        start = {**draws._asdict(), "weight": weight, "Y": 0.0}
        for name, array in zip(SampleState._fields, self.state, strict=True):
            array[:] = start[name]

    def restart(self, draws: Draws, weight: np.ndarray) -> None:
        """Reset to step 0 with new samples, reusing the arrays (allocating is slower than zeroing)."""
        for array in (*self.past, *self.tangents):
            array[...] = 0.0
        self._start(draws, weight)

    def row_sums(self, m: float) -> np.ndarray:
        """(blocks, SCALARS + 2 slots): weighted sums for row n, given m_n. Sets the present Fields, which `advance` uses."""
        self._evaluate(self.state, m, self.experiment.gradient_scale, self.fields)
        _row_sums(self.block, self._used, self.state, self.fields, self.past.G, self.tangents.row, m, self.experiment.eta,
                  self.stein, self._sums)
        return self._sums

    def advance(self, m: float, drive: Drive, plan: Plan) -> None:
        """From step n to n+1; `plan` is what History.push(n) said."""
        step = Step(self.n, m, self.experiment.eta, plan.merges, plan.slot, self.offset, self.stop)
        ahead = Ahead(self._ahead, self.n - self._ahead_from if self._looks_ahead else -1, self._ahead_from)
        _advance(self.block, self.blocks, step, drive, self.chain, self.keys, self.state, self.past, self.tangents, self.fields,
                 self.z, ahead, self.stein)
        self.n, self._used = self.n + 1, int(self.stop[plan.slot])

    def split(self, key: np.uint64, places: int, spare: int, threshold: float) -> None:
        """Copy samples whose share of the response exceeds the threshold into empty places; pools of `places` lines."""
        share = np.empty(self.count)
        shares(self.state.weight, self.tangents.row, share)
        chosen = splitting.pairs(share, self.state.weight, places, spare, threshold)
        old, new = chosen.T
        self.state.weight[old] *= 0.5
        splitting.copy(self.own().values(), old, new)
        self.state.name[new] = splitting.new_names(self.state.name[old], key, self.n)

    def own(self) -> Mapping[str, np.ndarray]:
        """The state, one line per place: what a checkpoint holds."""
        return by_name(self.state, self.past, self.tangents)

    def restore(self, own: Mapping[str, np.ndarray], n: int) -> None:
        """Take up the state of step n."""
        for name, array in self.own().items():
            array[...] = own[name]
        self.n, self._used = n, len(self.stop)

    def look_ahead(self, memories: np.ndarray) -> None:
        """Precompute the memory sums of the next steps over rows already stored, given their memories (steps, slots), as the
        iteration knows them: tangents are then read once instead of once a step. n: a multiple of four; full history."""
        steps, slots = -(-len(memories) // GROUP) * GROUP, memories.shape[1]
        padded = np.zeros((steps, slots), self.tangents.T.dtype)
        padded[: len(memories)] = memories
        if self._ahead.shape[1] < steps:
            self._ahead = np.empty((self.count, steps, slots), self.tangents.T.dtype)
        pull(self.block, self.blocks, padded, self.tangents.T, self.offset, self.stop, self.n, self._ahead)
        self._looks_ahead, self._ahead_from = True, self.n
