"""Samples of the effective process: `row_sums` and `advance`. Eqs. [dmft-h], [dmft-T].

`row_sums` gives what row n of the kernels needs, one line per block of samples; `advance` takes the samples from
step n to n+1 once the row is known. The march and the iteration are two loops over these two operations. The functions
of one sample, in the order of a step, are `draw_noise`, `next_field`, `next_control`, `next_tangents` and `merge_past`;
dmft/equations/reference.py has the same equations without blocks.

Per sample the past is kept as sums over the slots of a History: of h, g, chi and the tangents (tangents.py). Random
numbers are functions of (stream, sample, step), so nothing of them is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core.streams import normal2
from dmft.equations.history import GROUP, History, Plan
from dmft.equations.noise import dot
from dmft.equations.rows import (
    CARRIED,
    GG,
    GH,
    GK,
    GP,
    GROUPS,
    LABEL,
    PUSH,
    RESPONSE,
    RESPONSE2,
    SCALARS,
    UNSTABLE,
    WILD,
    WRONG,
    V,
)
from dmft.equations.weights import Drive
from dmft.model.experiment import Experiment
from dmft.model.minibatches import next_weight
from dmft.model.teacher import SMOOTH
from dmft.samples.fields import Fields, Learning, make_fields
from dmft.samples.nesterov import Behind, look_ahead_of
from dmft.samples.sampling import Draws, Sampling
from dmft.samples.tangents import (
    BOUND,
    MOST,
    STABLE,
    TINY,
    WIDE,
    Ahead,
    Tangents,
    gather,
    merge_packed,
    merge_vector,
    pull,
)


class SampleState(NamedTuple):
    """Where the samples stand at step n, each (count,)."""

    weight: np.ndarray
    name: np.ndarray  # names the random numbers of a sample
    line: np.ndarray  # where its tangents are, -1 for a sample without
    sign: np.ndarray  # -1 for the mirror image of a pair
    k: np.ndarray  # coefficient of the input along w0
    y: np.ndarray  # label
    sd: np.ndarray  # spread of the input
    h: np.ndarray
    s: np.ndarray  # mini-batch weight
    Y: np.ndarray  # response of h_n to h0 through the label alone, of the control variate


class Past(NamedTuple):
    """Sums over the steps of each block of the history, each (count, slots)."""

    H: np.ndarray  # of h
    G: np.ndarray  # of g
    X: np.ndarray  # of chi
    Y: np.ndarray  # of the control variate's Y; (count, 0) where it is not used


class Step(NamedTuple):
    """Where step n goes: the new slot, blocks to merge, and how rows of tangents lie (equations/history.py)."""

    n: int
    eta: float
    merges: np.ndarray
    slot: int
    offset: np.ndarray
    stop: np.ndarray
    beta: float  # of step n + 1, with Nesterov's momentum


MOVING = ("h", "s", "Y")  # of SampleState; the rest is drawn again


def by_name(state: SampleState, past: Past) -> dict[str, np.ndarray]:
    """The arrays with a line per sample that a step changes, as "part/name"."""
    parts = {"state": {name: getattr(state, name) for name in MOVING}, "past": past._asdict()}
    return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


class Keys(NamedTuple):
    """Streams of a solution."""

    noise: np.uint64
    batch: np.uint64


@njit(cache=True)
def _sum_block(first, last, used, state, learning, fields, past, row, m, eta, stein, identity, classes, line):
    """line (SCALARS + GROUPS slots): sums over samples first .. last-1, in order."""
    slots = past.G.shape[1]
    line[:] = 0.0
    for i in range(first, last):
        w, g, gp = state.weight[i], fields.g[i], fields.gp[i]
        wg, wgp = w * g, w * gp
        line[GP] += wgp
        line[GK] += wg * state.k[i]
        line[V] += w * fields.v[i]
        line[GH] += wg * (state.h[i] + m * state.k[i])
        line[GG] += wg * g
        if stein:
            line[LABEL] += wgp * state.Y[i] + w * fields.g_y[i]
            if abs(state.Y[i]) > WIDE:
                line[WILD] += w
        else:
            line[LABEL] += learning.direct[i] * g
        if eta * gp > STABLE:
            line[UNSTABLE] += w
        for j in range(used):
            line[SCALARS + j] += wg * past.G[i, j]
        t = state.line[i]
        if t >= 0:
            line[CARRIED] += w
            if identity:  # bounded: what is missed, the identity puts back
                response = 0.0
                for j in range(used):
                    response += abs(np.float64(row[t, j]))
                if response > MOST:
                    wgp *= MOST / response
                total = 0.0
                for j in range(used):
                    total += np.float64(row[t, j])
                line[RESPONSE] += wgp * total
                line[RESPONSE2] += wgp * total * (wgp * total) / w
            for j in range(used):
                line[SCALARS + slots + j] += wgp * row[t, j]
        if identity:
            for j in range(used):
                line[SCALARS + 2 * slots + j] += wg * past.H[i, j]
    if classes:
        for i in range(first, last):
            line[WRONG] += state.weight[i] * learning.wrong[i]
            line[PUSH] += state.weight[i] * fields.g[i] / state.sd[i]


@njit(cache=True, parallel=True)
def _row_sums(block, used, state, learning, fields, past, row, m, eta, stein, identity, classes, out):
    """out (blocks, SCALARS + GROUPS slots): sums over the samples of each block; the last block may be shorter."""
    count = len(state.h)
    for b in prange(out.shape[0]):
        _sum_block(b * block, min((b + 1) * block, count), used, state, learning, fields, past, row, m, eta, stein,
                   identity, classes, out[b])


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
def next_tangents(t, tangents, ahead, memory, drive, gp, eta, offset, stop, used, out):
    """out_J = T_{n+1,J} for the sources before step n, of the sample whose tangents are in line t. Eq. [dmft-T]."""
    if ahead.step < 0:
        out[:] = 0.0
    else:
        out[:] = ahead.sums[t, ahead.step, :used]
    gather(tangents.T[t], memory, offset, stop, ahead.first, used, out)
    slope = drive.a * (drive.keep - eta * gp)
    for j in range(used):
        out[j] = slope * tangents.row[t, j] + drive.a * eta * out[j]
        if abs(out[j]) < TINY:
            out[j] = 0.0
    if eta * gp > STABLE:
        for j in range(used):
            out[j] = min(max(out[j], -BOUND), BOUND)


@njit(cache=True, inline="always")
def next_control(i, state, past, fields, drive, eta, used):
    """Y_{n+1}, the response of h_{n+1} to h0 through the label alone, for the control variate of mu. Eq. [stein]."""
    response = dot(drive.memory, past.Y[i], used) - fields.gp[i] * state.Y[i] - fields.g_y[i]
    following = drive.a * (drive.keep * state.Y[i] + eta * response)
    return min(max(following, -BOUND), BOUND) if eta * fields.gp[i] > STABLE else following


@njit(cache=True, inline="always")
def merge_past(i, merges, past, stein):
    """Blocks of the history that become one, in the past of a sample. Eq. [dyadic]."""
    for k in range(merges.shape[0]):
        older, newer, into = merges[k, 0], merges[k, 1], merges[k, 2]
        merge_vector(past.H[i], older, newer, into)
        merge_vector(past.G[i], older, newer, into)
        merge_vector(past.X[i], older, newer, into)
        if stein:
            merge_vector(past.Y[i], older, newer, into)


@njit(cache=True, inline="always")
def enter_tangents(t, step, tangents, following, source, used):
    """Merge blocks in the tangents of line t, put row n into the past, and make row n+1, with its new source, the present."""
    for k in range(step.merges.shape[0]):
        older, newer, into = step.merges[k, 0], step.merges[k, 1], step.merges[k, 2]
        merge_packed(tangents.T[t], older, newer, into, step.offset, step.stop)
        merge_vector(tangents.row[t], older, newer, into)
        merge_vector(following, older, newer, into)
    for j in range(used):
        tangents.T[t, step.offset[step.slot] + j] = tangents.row[t, j]
        tangents.row[t, j] = following[j]
    tangents.row[t, step.slot] = source


@njit(cache=True)
def _advance_block(first, last, step, drive, chain, keys, state, past, tangents, fields, z_first, ahead, behind, stein):
    """Samples first .. last-1 from step n to n+1."""
    n, eta, slot = step.n, step.eta, step.slot
    used = step.stop[slot]  # no slot beyond holds anything yet
    nesterov = len(behind.h) > 0
    following = np.empty(used, tangents.T.dtype)
    memory = drive.memory.astype(tangents.T.dtype)
    for j in range(used):
        if abs(memory[j]) < TINY:
            memory[j] = 0.0
    for i in range(first, last):
        g, gp, t = fields.g[i], fields.gp[i], state.line[i]
        chi, xi = draw_noise(i, state, past, z_first, keys.noise, drive, n, used)
        h_next = next_field(i, state, past, g, chi, xi, drive, eta, used)
        if stein:
            Y_next = next_control(i, state, past, fields, drive, eta, used)
        if t >= 0:
            next_tangents(t, tangents, ahead, memory, drive, gp, eta, step.offset, step.stop, used, following)
            source = -drive.a * eta * gp
            if nesterov:
                look_ahead_of(t, step, behind, following, source, used)
                source *= 1.0 + step.beta
            enter_tangents(t, step, tangents, following, source, used)
        merge_past(i, step.merges, past, stein)
        if nesterov:
            h_next, behind.h[i] = (1.0 + step.beta) * h_next - step.beta * behind.h[i], h_next
            if stein:
                Y_next, behind.Y[i] = (1.0 + step.beta) * Y_next - step.beta * behind.Y[i], Y_next
        # step n enters the past, n+1 becomes the present
        past.H[i, slot], past.G[i, slot], past.X[i, slot] = state.h[i], g, chi
        if stein:
            past.Y[i, slot] = state.Y[i]
            state.Y[i] = Y_next
        state.h[i] = h_next
        state.s[i] = next_weight(chain, state.s[i], keys.batch, state.name[i], n)


@njit(cache=True, parallel=True)
def _advance(block, blocks, step, drive, chain, keys, state, past, tangents, fields, z_first, ahead, behind, stein):
    """All samples, block by block. (Numba drops writes to arrays of a tuple inside a prange, so that the work is a function.)"""
    count = len(state.h)
    for b in prange(blocks):
        _advance_block(b * block, min((b + 1) * block, count), step, drive, chain, keys, state, past, tangents, fields, z_first,
                       ahead, behind, stein)


class Samples:
    """A range of samples of one solution at step n, in blocks of `block` samples."""

    def __init__(self, experiment: Experiment, history: History, draws: Draws, weight: np.ndarray, block: int, sampling: Sampling,
                 dtype=np.float64):
        count, slots = len(draws.h), history.slots
        self.experiment, self.block, self.keys = experiment, block, Keys(*sampling.keys)
        self.stein, self.identity = sampling.stein and experiment.stein and experiment.data.control == SMOOTH, sampling.identity
        self.classes = experiment.data.classifies or experiment.data.bias
        self.offset, self.stop = history.offset, history.stop
        self.blocks, self.count = -(-count // block), count
        integers = {"name": np.int64, "line": np.int64}
        self.state = SampleState(*(np.zeros(count, integers.get(name, np.float64)) for name in SampleState._fields))
        self.past = Past(*(np.zeros((count, width)) for width in (slots, slots, slots, slots if self.stein else 0)))
        carriers = int(np.count_nonzero(draws.carrier))
        self.tangents = Tangents(np.zeros((carriers, history.packed), dtype), np.zeros((carriers, slots), dtype))
        nesterov = experiment.update.nesterov
        self.behind = Behind(np.zeros(count if nesterov else 0), np.zeros(count if nesterov and self.stein else 0),
                             np.zeros((carriers, slots) if nesterov else (0, 0), dtype))
        self.fields = Fields(*(np.empty(count) for _ in Fields._fields))
        self._evaluate = [make_fields(loss) for loss in experiment.losses]
        self._ahead = np.zeros((carriers, 0, slots), dtype)
        self._sums = np.empty((self.blocks, SCALARS + GROUPS * slots))
        self._start(draws, weight)

    def _start(self, draws: Draws, weight: np.ndarray) -> None:
        self.z = draws.z
        self.n, self._used = 0, 0  # slots in use, rounded up to what a row holds
        self._looks_ahead, self._ahead_from = False, 0
        start = {**draws._asdict(), "weight": weight, "line": lines_of(draws.carrier), "Y": 0.0}
        self.learning = Learning(np.array(draws.slope), draws.jump + weight * draws.shift, np.zeros(self.count))
        for name, array in zip(SampleState._fields, self.state, strict=True):
            array[:] = start[name]
        self.behind.h[:] = draws.h[: len(self.behind.h)]

    def holds(self, draws: Draws) -> bool:
        """Whether `restart` can take these samples: as many of them, and as many with tangents."""
        return len(draws.h) == self.count and np.count_nonzero(draws.carrier) == len(self.tangents.row)

    def restart(self, draws: Draws, weight: np.ndarray) -> None:
        """Reset to step 0 with new samples, reusing the arrays (allocating is slower than zeroing)."""
        for array in (*self.past, *self.tangents, *self.behind):
            array[...] = 0.0
        self._start(draws, weight)

    def row_sums(self, m: float, b: float = 0.0, m_w: float | None = None) -> np.ndarray:
        """(blocks, SCALARS + GROUPS slots): weighted sums for row n, given m_n, the intercept, and with Nesterov's momentum the
        overlap of the weights, at which the training loss is taken. Sets the present Fields, which `advance` uses."""
        e, step = self.experiment, min(self.n, self.experiment.steps - 1)
        self._evaluate[e.loss_n[self.n]](self.state, self.learning, m, b, e.scale_n[step], self.classes,
                                          self.behind.h if e.update.nesterov else self.state.h, m if m_w is None else m_w,
                                          self.fields)
        _row_sums(self.block, self._used, self.state, self.learning, self.fields, self.past, self.tangents.row, m,
                  e.eta_n[step], self.stein, self.identity, self.classes, self._sums)
        return self._sums

    def advance(self, drive: Drive, plan: Plan) -> None:
        """From step n to n+1; `plan` is what History.push(n) said."""
        step = Step(self.n, self.experiment.eta_n[self.n], plan.merges, plan.slot, self.offset, self.stop,
                    self.experiment.update.lookahead(self.n + 1))
        ahead = Ahead(self._ahead, self.n - self._ahead_from if self._looks_ahead else -1, self._ahead_from)
        chain = self.experiment.batches.chain(self.n)
        _advance(self.block, self.blocks, step, drive, chain, self.keys, self.state, self.past, self.tangents, self.fields,
                 self.z, ahead, self.behind, self.stein)
        self.n, self._used = self.n + 1, int(self.stop[plan.slot])

    def own(self) -> Mapping[str, np.ndarray]:
        """What a checkpoint holds with a line per sample."""
        weights = {f"behind/{name}": array for name, array in (("h", self.behind.h), ("Y", self.behind.Y)) if len(array)}
        return by_name(self.state, self.past) | weights

    def carried(self) -> Mapping[str, np.ndarray]:
        """What a checkpoint holds with a line per sample with tangents."""
        return self.tangents._asdict() | ({"behind": self.behind.row} if len(self.behind.h) else {})

    def restore(self, own: Mapping[str, np.ndarray], carried: Mapping[str, np.ndarray], n: int) -> None:
        """Take up the state of step n."""
        for mine, stored in ((self.own(), own), (self.carried(), carried)):
            for name, array in mine.items():
                array[...] = stored[name]
        self.n, self._used = n, len(self.stop)

    def look_ahead(self, memories: np.ndarray) -> None:
        """Precompute the memory sums of the next steps over rows already stored, given their memories (steps, slots), as the
        iteration knows them: tangents are then read once instead of once a step. n: a multiple of four; full history."""
        steps, slots = -(-len(memories) // GROUP) * GROUP, memories.shape[1]
        padded = np.zeros((steps, slots), self.tangents.T.dtype)
        padded[: len(memories)] = memories
        if self._ahead.shape[1] < steps:
            self._ahead = np.empty((len(self.tangents.T), steps, slots), self.tangents.T.dtype)
        pull(padded, self.tangents.T, self.offset, self.stop, self.n, self._ahead)
        self._looks_ahead, self._ahead_from = True, self.n


def lines_of(carrier: np.ndarray) -> np.ndarray:
    """Where the tangents of each sample are, in order; -1 for a sample without."""
    return np.where(carrier, np.cumsum(carrier) - 1, -1)
