"""Samples of the effective process of a committee: `row_sums` and `advance`, as samples/process.py has them for one unit.

Per sample the past is kept as sums over slots of a History, unit fastest: H, G, X (count, slots p). Eqs. [c-h], [c-chi], [c-T].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import cfunc, njit, prange

from dmft.committee.control import add_control, advance_control
from dmft.committee.draws import UnitDraws
from dmft.committee.formulas import pushed_field, unit_field
from dmft.committee.nesterov import UnitsAtWeights
from dmft.committee.rows import SumPlaces, sums_in_use
from dmft.committee.state import UnitState
from dmft.committee.tangents import add_response, advance_tangents, merge_wide
from dmft.committee.weights import UnitDrive, UnitPoint
from dmft.core.compiled import INNER, UNCOUNTED
from dmft.core.streams import normal2
from dmft.core.tree import overwrite
from dmft.equations.history import History, Plan
from dmft.equations.noise import add_scaled, dot
from dmft.model.activations import apply
from dmft.model.experiment import Experiment
from dmft.model.loss import Loss
from dmft.model.losses import built_in
from dmft.model.minibatches import own_weight
from dmft.model.network import TwoLayer
from dmft.model.sample_averages import averages
from dmft.samples.averages import AveragedOver, averaged_sums
from dmft.samples.formulas import batch_of
from dmft.samples.sampling import Sampling, tangent_indices
from dmft.samples.state import Randomness, Step
from dmft.samples.tangents import Bounds


class Units(NamedTuple):
    """Where the samples stand at step n; each (count,) unless told."""

    weight: np.ndarray
    batch_index: np.ndarray
    noise_index: np.ndarray
    sign: np.ndarray
    tangent_index: np.ndarray  # in the arrays of tangents, -1 for a sample without
    kappa: np.ndarray  # (count, k)
    y: np.ndarray
    slope: np.ndarray  # (count, k) dphi/dkappa
    h: np.ndarray  # (count, p)
    s: np.ndarray
    Y: np.ndarray  # (count, k, p) of [c-stein]


class UnitPast(NamedTuple):
    """Sums over the steps of each block, each (count, slots p) unless told; precision as of samples/state.py."""

    H: np.ndarray
    G: np.ndarray
    X: np.ndarray
    Y: np.ndarray  # (count, k, slots p), or (count, k, 0) without [c-stein]


class UnitTangents(NamedTuple):
    """Tangents of the samples that have them, with c columns for every slot (tangents.py)."""

    T: np.ndarray  # (carriers, packed p c)
    row: np.ndarray  # (carriers, p, slots c)
    E: np.ndarray  # (carriers, p, c)
    following: np.ndarray  # (blocks, p, slots c + p) room for the next row


class UnitFields(NamedTuple):
    """The loss at the present step: g = (s/l) dv/dh, and g' = curve d d^T + diag(bend). Eq. [c-model]."""

    v: np.ndarray  # (count,)
    g: np.ndarray  # (count, p)
    d: np.ndarray  # (count, p) a_r s'(h_r)
    curve: np.ndarray  # (count,) (s/l) l''
    bend: np.ndarray  # (count, p) (s/l) l' a_r s''(h_r)
    push: np.ndarray  # (count, p) (s/l) dv/da
    mixed: np.ndarray  # (count,) (s/l) dl'/dy


class UnitTerms(NamedTuple):
    """What the sums of a row are made of."""

    used: int
    identity: bool
    stein: bool
    y_outlier: float  # as in Bounds
    tangent_sum_max: float


@cache
def output_functions(loss: Loss) -> tuple:
    """v, dv, d2v and dv_dy of the output loss l(f, y) as C functions."""
    v, dv, d2v, dv_dy = loss.v, loss.dv, loss.d2v, loss.dv_dy
    compiled = cfunc("float64(float64, float64)", cache=built_in(loss.name), error_model="numpy")
    return (compiled(lambda f, y: v(f, y)), compiled(lambda f, y: dv(f, y)), compiled(lambda f, y: d2v(f, y)),
            compiled(lambda f, y: dv_dy(f, y)))


@njit(cache=True, nogil=True)
def _fields(activation, loss, units, m, a, beta, scale, out):
    """Fill UnitFields at h~ = h + m kappa, elementwise. activation: s, s', s'' and whether it has kinks instead; loss: as of
    `output_functions`. Eq. [c-model]."""
    (s, ds, d2s, kinked), (v, dv, d2v, dv_dy) = activation, loss
    h, kappa, y, batch = units.h, units.kappa, units.y, units.s
    count, p = h.shape
    for i in range(count):
        f = 0.0
        for r in range(p):
            field = unit_field(h[i, r], beta[r], m[r], kappa[i], kappa.shape[1])
            value = s(field)
            f += a[r] * value  # [c-model]
            out.push[i, r] = value
            out.d[i, r] = a[r] * ds(field)  # [c-model]
            out.bend[i, r] = 0.0 if kinked else a[r] * d2s(field)  # [c-model]
        weight = batch_of(scale, batch[i], 1.0)
        c = weight * dv(f, y[i])  # [c-model]
        out.v[i] = v(f, y[i])
        out.curve[i] = weight * d2v(f, y[i])  # [c-model]
        out.mixed[i] = weight * dv_dy(f, y[i])
        for r in range(p):
            out.g[i, r] = c * out.d[i, r]
            out.bend[i, r] *= c
            out.push[i, r] *= c


@njit(**INNER)
def _sum_block(first, last, places, units, fields, past, tangents, terms, numbers, groups):
    """Sums over samples first .. last-1, in order, into numbers (numbers,) and groups (3 p, slots p); see rows.SumPlaces."""
    used, identity, stein, outlier, most = terms
    weights, kappa, h, tangent_index, G, H = units.weight, units.kappa, units.h, units.tangent_index, past.G, past.H
    g, d, curve, bend = fields.g, fields.d, fields.curve, fields.bend
    p, k = g.shape[1], kappa.shape[1]
    for j in range(len(numbers)):
        numbers[j] = 0.0
    for r in range(groups.shape[0]):
        for j in range(groups.shape[1]):
            groups[r, j] = 0.0
    for i in range(first, last):
        w = weights[i]
        numbers[places[7]] += w * fields.v[i]
        for r in range(p):
            wg = w * g[i, r]
            for q in range(p):
                numbers[places[0] + r * p + q] += w * curve[i] * d[i, r] * d[i, q]
                numbers[places[2] + r * p + q] += wg * h[i, q]
                numbers[places[3] + r * p + q] += wg * g[i, q]
            numbers[places[0] + r * p + r] += w * bend[i, r]
            for t in range(k):
                numbers[places[1] + r * k + t] += wg * kappa[i, t]
            numbers[places[4] + r] += w * fields.push[i, r]
            numbers[places[5] + r] += wg
            add_scaled(groups[r], wg, G[i], used * p)
            if identity:
                add_scaled(groups[2 * p + r], wg, H[i], used * p)
        t = tangent_index[i]
        if t >= 0:
            numbers[places[9]] += w
            add_response(w, tangents.row[t], tangents.E[t], (d[i], curve[i], bend[i]), used, most if identity else np.inf,
                         groups[p : 2 * p], numbers, places[6], places[8])
        if stein:
            add_control(w, units.Y[i], (d[i], curve[i], bend[i]), fields.mixed[i], units.slope[i], outlier, numbers, places[10],
                        places[11])


@njit(**UNCOUNTED, parallel=True)
def _row_sums(block, places, units, fields, past, tangents, terms, numbers, groups):
    """numbers (blocks, numbers), groups (blocks, 3 p, slots p): sums over the samples of each block."""
    count = len(units.h)
    for b in prange(numbers.shape[0]):
        _sum_block(b * block, min((b + 1) * block, count), places, units, fields, past, tangents, terms, numbers[b], groups[b])


@njit(**INNER)
def _advance_units(first, last, step, drive, chain, random, units, past, fields, room):
    """Samples first .. last-1 without their tangents from step n to n+1. room (4, p). Eqs. [c-h], [c-chi]."""
    A, keep, memory, chi_weights, chi_root = drive.A, drive.keep, drive.memory, drive.chi_weights, drive.chi_root
    h, s, batch_index, noise_index, sign, g = units.h, units.s, units.batch_index, units.noise_index, units.sign, fields.g
    n, eta, slot, merges, p = step.n, step.eta, step.slot, step.merges, h.shape[1]
    z_first, changes = random.z_first, random.changes
    used, known, given = step.stop[slot] * p, changes.shape[1], z_first.shape[1]
    z, xi, chi, u = room[0], room[1], room[2], room[3]
    for i in range(first, last):
        H, G, X = past.H[i], past.G[i], past.X[i]
        for r in range(p):
            z[r], xi[r] = normal2(random.noise, noise_index[i], n * p + r)
            z[r] = z_first[i, n * p + r] if n * p + r < given else sign[i] * z[r]
            xi[r] *= sign[i]
        for r in range(p):
            chi[r] = dot(chi_weights[r], X, used)  # [c-chi]
            for q in range(r + 1):
                chi[r] += chi_root[r, q] * z[q]  # [c-chi]
        for r in range(p):
            u[r] = pushed_field(eta, dot(memory[r], H, used), chi[r], g[i, r], drive.thermal, xi[r])
            for q in range(p):
                u[r] += keep[r, q] * h[i, q]
        if step.stein:
            advance_control(units.Y[i], past.Y[i], (fields.d[i], fields.curve[i], fields.bend[i]), fields.mixed[i], units.slope[i],
                            drive, step, used, z)
        if len(merges):
            merge_wide(H, merges, p)
            merge_wide(G, merges, p)
            merge_wide(X, merges, p)
        for r in range(p):
            H[slot * p + r], G[slot * p + r], X[slot * p + r] = h[i, r], g[i, r], chi[r]
        for r in range(p):
            h[i, r] = 0.0
            for q in range(p):
                h[i, r] += A[r, q] * u[q]  # [c-h]
        s[i] = own_weight(chain, s[i], random.batch, batch_index[i], n, known, changes[i])


@njit(**INNER)
def _advance_carried(first, last, step, drive, units, tangents, fields, following):
    """The tangents of samples first .. last-1 from step n to n+1."""
    used = step.stop[step.slot]
    for i in range(first, last):
        t = units.tangent_index[i]
        if t >= 0:
            advance_tangents(tangents.T[t], tangents.row[t], tangents.E[t], (fields.d[i], fields.curve[i], fields.bend[i]), drive,
                             step, used, following)


@njit(**UNCOUNTED, parallel=True)
def _advance(of_tangents, step, drive, chain, random, units, past, tangents, fields, room):
    """All samples, block by block: either their tangents, or everything else."""
    count, block, following = len(units.h), step.block, tangents.following
    for b in prange(room.shape[0]):
        first, last = b * block, min((b + 1) * block, count)
        if of_tangents:
            _advance_carried(first, last, step, drive, units, tangents, fields, following[b])
        else:
            _advance_units(first, last, step, drive, chain, random, units, past, fields, room[b])


class CommitteeSamples:
    """A range of samples of one solution at step n, in blocks of `block` samples. full: whether all columns of the tangents are
    kept, in place of their product with one sign vector. dtype: as of samples.process.Samples."""

    def __init__(self, experiment: Experiment, network: TwoLayer, history: History, draws: UnitDraws, weight: np.ndarray,
                 block: int, sampling: Sampling, full: bool, dtype=np.float64):
        (count, k), p, slots = draws.kappa.shape, network.units, history.slots
        self.experiment, self.network, self.block, self.blocks = experiment, network, block, -(-count // block)
        self.stein = sampling.stein and experiment.stein
        self.identity, self.bounds = sampling.identity, Bounds.of(sampling.estimator)
        self.offset, self.stop, self.n, self.used = history.offset, history.stop, 0, 0
        self.places = SumPlaces.of(network)
        self.random = Randomness(*sampling.keys, draws.z, draws.changes, np.zeros(0))
        self.units = Units(weight, draws.batch_index, draws.noise_index, draws.sign, tangent_indices(draws.carrier), draws.kappa,
                           draws.y, draws.slope, np.ascontiguousarray(draws.h), np.array(draws.s, float), np.zeros((count, k, p)))
        self.past = UnitPast(np.zeros((count, slots * p), dtype), np.zeros((count, slots * p)), np.zeros((count, slots * p), dtype),
                             np.zeros((count, k, slots * p if self.stein else 0), dtype))
        carriers, c = int(np.count_nonzero(draws.carrier)), p if full else 1
        E = np.broadcast_to(np.eye(p), (carriers, p, p)).copy() if full else draws.probe[draws.carrier][:, :, None].copy()
        T, row = np.zeros((carriers, history.packed * p * c), dtype), np.zeros((carriers, p, slots * c), dtype)
        self.tangents = UnitTangents(T, row, E, np.empty((self.blocks, p, slots * c + p), dtype))
        self.at_weights = UnitsAtWeights(self.units.h.copy(), np.zeros((count, k, p)), np.zeros_like(row)) \
            if experiment.update.looks_ahead else None
        g, d, bend, push = (np.empty((count, p)) for _ in range(4))
        self.fields = UnitFields(np.empty(count), g, d, np.empty(count), bend, push, np.empty(count))
        self._numbers = np.empty((self.blocks, self.places.numbers))
        self._groups = np.empty((self.blocks, 3 * p, slots * p))
        self._room = np.empty((self.blocks, 4, p))

    def _evaluate(self, units: Units, m: np.ndarray, state: UnitState, out: UnitFields) -> None:
        """Fill UnitFields at m, a_n and beta_n."""
        e, step, s = self.experiment, min(self.n, self.experiment.steps - 1), self.network.activation
        activation = (s.s, s.ds, s.ds if s.d2s is None else s.d2s, s.d2s is None)
        loss = output_functions(e.losses[e.loss_n[self.n]])
        _fields(activation, loss, units, m, state.a, state.beta, float(e.scale_n[step]), out)

    def row_sums(self, state: UnitState, used: int) -> np.ndarray:
        """(blocks, numbers + 3 p used): weighted sums for row n, at m_n, a_n and beta_n, with the first `used` entries of the past.
        Sets the fields of `advance`. The training loss is that of the weights."""
        self._evaluate(self.units, state.m, state, self.fields)
        if self.at_weights:
            there = UnitFields(*map(np.empty_like, self.fields))
            self._evaluate(self.units._replace(h=self.at_weights.h), state.m_w, state, there)
            self.fields.v[:] = there.v
        if self.network.kinked:
            self.fields.curve[:] = 0.0  # without s'' there is no derivative of g: the response comes by [c-ibp] alone
        terms = UnitTerms(self.used, self.identity, self.stein, self.bounds.y_outlier, self.bounds.tangent_sum_max)
        of = self.block, self.places.starts, self.units, self.fields, self.past, self.tangents
        _row_sums(*of, terms, self._numbers, self._groups)
        return sums_in_use(self._numbers, self._groups, used)

    def begin_sums(self, point: UnitPoint | UnitState) -> None:
        """No-op on the CPU; GpuUnits starts its kernels here, asynchronously."""

    @property
    def columns(self) -> int:
        """c, the columns of the tangents."""
        return self.tangents.E.shape[2]

    def averaged_sums(self, state: UnitState) -> np.ndarray:
        """(blocks, averages): weighted sums of the experiment's observables over outputs f at the weights."""
        u = self.units
        h, m = (self.at_weights.h, state.m_w) if self.at_weights else (u.h, state.m)
        f = apply(self.network.activation.s, h + u.kappa @ m.T + state.beta) @ state.a
        samples = AveragedOver(u.weight, np.ascontiguousarray(u.kappa[:, 0]), u.y, np.ones_like(u.y), u.s)
        return averaged_sums(averages(self.experiment.observables), self.block, samples, f, 0.0, 0.0)

    def advance(self, drive: UnitDrive, plan: Plan) -> None:
        """From step n to n+1; `plan` is what History.push(n) said."""
        step = Step.to(plan, self)
        drive = UnitDrive._make(np.ascontiguousarray(each) if isinstance(each, np.ndarray) else each for each in drive)
        chain = self.experiment.batches.chain(self.n)
        for of_tangents in (True, False):
            _advance(of_tangents, step, drive, chain, self.random, self.units, self.past, self.tangents, self.fields, self._room)
        if self.at_weights:
            self.at_weights.look_ahead(self.units.h, self.units.Y, self.tangents.row, plan.merges, self.columns,
                                       self.experiment.update.lookahead(self.n + 1), drive)
        self.n, self.used = self.n + 1, int(self.stop[plan.slot])

    def per_sample(self) -> Mapping[str, np.ndarray]:
        """What a checkpoint holds with a line per sample."""
        behind = {"behind/h": self.at_weights.h, "behind/Y": self.at_weights.Y} if self.at_weights else {}
        return {"state/h": self.units.h, "state/s": self.units.s, "state/Y": self.units.Y,
                **{f"past/{name}": x for name, x in self.past._asdict().items()}, **behind}

    def per_tangent(self) -> Mapping[str, np.ndarray]:
        """What a checkpoint holds with a line per sample with tangents."""
        return {"T": self.tangents.T, "row": self.tangents.row, **({"behind": self.at_weights.row} if self.at_weights else {})}

    def restore(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray], n: int) -> None:
        """Take up the state of step n."""
        overwrite(self.per_sample(), per_sample)
        overwrite(self.per_tangent(), per_tangent)
        self.n, self.used = n, len(self.stop)
