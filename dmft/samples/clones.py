"""Two copies of a run with the same data and start, and other mini-batches and heat: the pair process. Eq. [dmft-pair].

Every sample of a march gets a second path. It feels the kernels that the first paths estimate, and has a mini-batch and heat of its
own. The noises chi of both are drawn in turn, each given the past of both, from their joint covariance alpha <g g>, which as the
Gram matrix of one set of samples is positive. (A second path that only listened to the first would miss that the noise of the
first is correlated with what the second has seen before.) One copy does not respond to the other, so that C_12 obeys the equation
of C with the correlation alpha <g_1 g_2> in the place of M_C and without heat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from dmft.core import streams
from dmft.core.compiled import INNER, UNCOUNTED
from dmft.core.streams import uniform2
from dmft.core.tree import overwrite
from dmft.equations.blocks import NONE
from dmft.equations.history import History, Plan
from dmft.equations.noise import conditional, dot, factor_rows, least_share
from dmft.equations.recursion import merge_matrices, merge_vectors
from dmft.equations.weights import Drive, NextRow, Row, StepFromRow, WeightDynamics
from dmft.model.experiment import Experiment
from dmft.model.minibatches import own_weight
from dmft.samples.fields import make_fields
from dmft.samples.lost import GONE
from dmft.samples.process import Samples, merge_past, next_field, own_normals
from dmft.samples.sampling import Sampling
from dmft.samples.state import Fields, Past, Randomness

CROSS_NOW, CLONE_NOW = range(2)  # of the sums: <g_1 g_2> and <g_2 g_2> at step n
PAIR_SCALARS = 2
PAIR_GROUPS = 3  # a column for every slot: g_1 times past g_2, g_2 times past g_1, g_2 times past g_2
KEPT_OF_CLONES = ("h", "s", "H", "G", "X")  # what a checkpoint holds, with a line per sample


class Pair(NamedTuple):
    """What follows from row n of both copies."""

    cross: Row  # the row with alpha <g_1 g_2> in the place of M_C
    following: NextRow  # of Q_12
    drive: Drive  # of the first copies
    first: np.ndarray  # (2 slots,) covariance of chi_n of the first copy with the past of both, and its variance
    first_now: float
    own: np.ndarray  # the same of the second copy
    own_now: float


class Move(NamedTuple):
    """A step of the second copies: what it has of a Drive, its noise given both pasts, and where it enters the past."""

    n: int
    eta: float
    a: float
    keep: float
    thermal: float
    noise_sd: float
    memory: np.ndarray  # (slots,)
    from_first: np.ndarray  # (slots,) weights of the noise of the first copy, that of step n among it
    from_own: np.ndarray  # (slots,)
    merges: np.ndarray
    slot: int
    used: int


@njit(**UNCOUNTED, parallel=True)
def _pair_sums(block, used, weight, g, G, other_g, other_G, out):
    """out (blocks, PAIR_SCALARS + PAIR_GROUPS slots): weighted sums over the samples of each block, in order. g, G: of the first
    copies."""
    slots = G.shape[1]
    for b in prange(out.shape[0]):
        _sum_block(b * block, min((b + 1) * block, len(g)), used, slots, weight, g, G, other_g, other_G, out[b])


@njit(**INNER)
def _sum_block(first, last, used, slots, weight, g, G, other_g, other_G, line):
    line[:] = 0.0
    for i in range(first, last):
        line[CROSS_NOW] += weight[i] * g[i] * other_g[i]
        line[CLONE_NOW] += weight[i] * other_g[i] * other_g[i]
        for k, (now, past) in enumerate(((g, other_G), (other_g, G), (other_g, other_G))):
            factor, begin = weight[i] * now[i], PAIR_SCALARS + k * slots
            for j in range(used):
                line[begin + j] += factor * past[i, j]


@njit(**UNCOUNTED)
def _lend(weights, used, X, shift):
    """What the noise of the first copies has from the past X of the second ones, into shift (count,). Eq. [dmft-pair]."""
    for i in range(len(shift)):
        shift[i] = dot(weights, X[i], used)


@njit(**UNCOUNTED, parallel=True)
def _advance(block, blocks, move, chain, random, state, past, first_X, g):
    """All second copies, block by block."""
    for b in prange(blocks):
        _advance_block(b * block, min((b + 1) * block, len(g)), move, chain, random, state, past, first_X, g)


@njit(**INNER)
def _advance_block(first, last, move, chain, random, state, past, first_X, g):
    h, s, batch_index, noise_index, sign = state.h, state.s, state.batch_index, state.noise_index, state.sign
    H, G, X, merges, slot = past.H, past.G, past.X, move.merges, move.slot
    for i in range(first, last):
        z, xi = own_normals(i, noise_index, sign, random, move.n)
        merge_past(X[i], merges)
        chi = dot(move.from_first, first_X[i], move.used) + dot(move.from_own, X[i], move.used) + move.noise_sd * z  # [dmft-pair]
        following = next_field(h[i], g[i], chi, xi, H[i], move, move.eta, move.used)
        merge_past(H[i], merges)
        merge_past(G[i], merges)
        H[i, slot], G[i, slot], X[i, slot] = h[i], g[i], chi
        h[i] = following
        s[i] = own_weight(chain, s[i], random.batch, batch_index[i], move.n, 0, random.changes[i]) if s[i] >= 0.0 else GONE


def _both(order: np.ndarray, slots: int) -> np.ndarray:
    """Places of the noises of both copies in order of time, those of the first copy before the second's."""
    return np.stack([order, order + slots], axis=1).ravel()


class Clones:
    """The second copies of the samples of a march, and C_12. `sums` and `close` belong to row n, `enter` takes them to n+1."""

    def __init__(self, experiment: Experiment, history: History, samples: Samples, sampling: Sampling):
        self.experiment, self.history, self.samples, self.estimator = experiment, history, samples, sampling.estimator
        self.weights = WeightDynamics(experiment, history, sampling.estimator)  # of Q_12 in the place of Q
        name, slots = sampling.name, history.slots
        noise, batch = (streams.key(sampling.seed, purpose, *name) for purpose in ("chi of clones", "batch of clones"))
        nothing = np.zeros((samples.count, 0))
        self.random = Randomness(noise, batch, nothing, nothing.astype(np.int64), np.zeros(0))
        state, dtype = samples.state, samples.past.X.dtype
        u = np.array([uniform2(self.random.batch, index, 0)[0] for index in state.batch_index])
        s = experiment.batch.first(u, self.random.batch, state.batch_index)
        self.state = state._replace(h=state.h.copy(), s=s, Y=np.zeros_like(state.h))
        H, G, X = (np.zeros((samples.count, slots), kind) for kind in (dtype, np.float64, dtype))
        self.past = Past(H, G, X, np.zeros((samples.count, 0), dtype))
        self.fields = Fields(*(np.empty(samples.count) for _ in Fields._fields))
        self._evaluate = [make_fields(loss) for loss in experiment.losses]
        # Of both noises, those of the first copy in the first `slots` places: covariance of sums over blocks and its factor, in
        # order of time, in which the first copy comes before the second.
        self.covariance, self.factor = (np.zeros((2 * slots, 2 * slots)) for _ in range(2))
        self.jitter, self.known = np.zeros(2 * slots), 0  # rows of the factor that are right

    @property
    def C_12(self) -> float:
        """Overlap of the two copies at step n."""
        return self.weights.q

    def sums(self, m: float, b: float) -> np.ndarray:
        """(blocks, PAIR_SCALARS + PAIR_GROUPS slots): what row n needs; after `Samples.row_sums`."""
        e, samples, n = self.experiment, self.samples, self.samples.n
        step = min(n, e.steps - 1)
        self._evaluate[e.loss_n[n]](self.state, samples.learning, m, b, e.eta_n[step], e.scale_n[step], False, samples.lost_step,
                                     self.fields)
        out = np.empty((samples.blocks, PAIR_SCALARS + PAIR_GROUPS * self.history.slots))
        both = samples.fields.g, samples.past.G, self.fields.g, self.past.G
        _pair_sums(samples.block, samples.used, self.state.weight, *both, out)
        return out

    def pair_step(self, row: Row, after: StepFromRow, sums: np.ndarray) -> Pair:
        """What follows from row n, before step n enters the past: row n of the correlation between the copies and row n+1 of Q_12,
        that of Q without heat; and what drives the first copies, whose noise is drawn given both pasts. Eqs. [dmft-pair],
        [dmft-Q]."""
        alpha, slots, samples = self.experiment.alpha, self.history.slots, self.samples
        products = alpha * sums[PAIR_SCALARS:].reshape(PAIR_GROUPS, slots)
        now, variance = alpha * sums[:PAIR_SCALARS]
        cross = row._replace(M_C=products[:2].mean(axis=0), M_C_now=now)  # [dmft-pair]; the copies may be exchanged
        step, a = self.weights.unscaled(cross), after.drive.a
        following = NextRow(a * step.x, a * step.x_now, a**2 * (step.q_u - self.weights.settings.heat), a * step.r,
                            after.next.R_last, after.next.m, 0.0)
        first, own = np.concatenate([row.M_C, products[0]]), np.concatenate([products[1], products[2]])
        weights, noise_sd = self._given(_both(self.history.order, slots), first, row.M_C_now)
        samples.shift = np.empty(samples.count)
        _lend(weights[slots:], samples.used, self.past.X, samples.shift)
        return Pair(cross, following, after.drive._replace(chi_weights=weights[:slots], chi_sd=noise_sd),
                    first, row.M_C_now, own, variance)

    def enter(self, pair: Pair, plan: Plan) -> None:
        """Take the second copies and Q_12 to step n+1, after the samples have got there by `pair.drive`."""
        n, slots, drive, slot, samples = self.weights.n, self.history.slots, pair.drive, plan.slot, self.samples
        merges = np.concatenate([plan.merges, np.where(plan.merges == NONE, NONE, plan.merges + slots)])
        merge_matrices(merges, (self.covariance,))
        merge_vectors(merges, (pair.first, pair.own, self.jitter))
        self.known = min([self.known, *(2 * at for at in plan.joins)])
        self._place(slot, pair.first, pair.first_now)
        pair.own[slot] = pair.cross.M_C_now
        weights, noise_sd = self._given(_both(self.history.order, slots)[:-1], pair.own, pair.own_now)
        self._place(slots + slot, pair.own, pair.own_now)
        move = Move(n, float(self.experiment.eta_n[n]), drive.a, drive.keep, drive.thermal, noise_sd, drive.memory, weights[:slots],
                    weights[slots:], plan.merges, slot, int(samples.stop[slot]))
        _advance(samples.block, samples.blocks, move, self.experiment.batches.chain(n), self.random, self.state, self.past,
                 samples.past.X, self.fields.g)
        self.weights.advance(pair.cross, pair.following, plan)

    def _given(self, order: np.ndarray, covariances: np.ndarray, variance: float) -> tuple[np.ndarray, float]:
        """Weights (2 slots,) and standard deviation of a noise given those listed in `order`. Eqs. [dmft-pair], [dmft-chi]."""
        jitter, least, weights = self.estimator.jitter, least_share(self.estimator), np.zeros(len(covariances))
        factor_rows(self.covariance, self.jitter, order, self.factor, self.known, least)
        self.known = len(order)
        left = conditional(self.factor, order, covariances, variance * (1 + jitter), np.empty((1, len(order))), weights)
        return weights, float(np.sqrt(max(left, least * variance)))

    def _place(self, place: int, row: np.ndarray, now: float) -> None:
        """Enter a noise into the covariance."""
        self.covariance[place], self.covariance[:, place], self.covariance[place, place] = row, row, now
        self.jitter[place] = self.estimator.jitter * now

    def per_sample(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds, a line per sample."""
        return {f"clones/{name}": getattr(self.past if name in Past._fields else self.state, name) for name in KEPT_OF_CLONES}

    def shared(self) -> dict[str, Any]:
        """What a checkpoint holds besides, the same on every rank."""
        return {"weights": self.weights.state.arrays(), "covariance": self.covariance, "factor": self.factor,
                "jitter": self.jitter, "known": np.array(self.known)}

    def restore(self, per_sample: Mapping[str, np.ndarray], shared: Mapping[str, Any]) -> None:
        """Take over what `per_sample` and `shared` gave."""
        overwrite(self.per_sample(), per_sample)
        self.weights.restore(shared["weights"])
        overwrite({name: getattr(self, name) for name in ("covariance", "factor", "jitter")}, shared)
        self.known = int(shared["known"])
