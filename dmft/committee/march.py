"""The march of a committee: all samples go forward together, each row of the kernels is estimated just before it is used.

A solver as solvers/march.py is one: the same replicas, checkpoints and ranks carry it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dmft.committee.card_matrices import MATRICES_ON_CARD, CardMatrices
from dmft.committee.draws import draw_units
from dmft.committee.gpu import MOST_BLOCKS, GpuUnits, UnitTiling
from dmft.committee.kernels import PastSteps, empty_kernels, enter_units
from dmft.committee.longer import UnitLonger
from dmft.committee.rows import RowEstimates
from dmft.committee.samples import CommitteeSamples
from dmft.committee.steps import bounded, sound
from dmft.committee.weights import UnitWeights
from dmft.core.device import Gpu
from dmft.equations.history import History
from dmft.equations.ibp import trusted_share
from dmft.equations.kernels import Kept, Wanted, history_for
from dmft.equations.rows import InUse
from dmft.model.experiment import Experiment
from dmft.model.network import TwoLayer
from dmft.samples.sampling import Sampling
from dmft.solvers.blocks import LARGEST_BLOCK_COUNT, Summing, blocks_for, card_blocks, normalised
from dmft.solvers.forward import Forward


def committee_sampling(network: TwoLayer, sampling: Sampling) -> Sampling:
    """How a solution is sampled: activations with a kink have no tangents. With several units mu is not estimated by parts in kappa
    where the identity completes the response, whose noise would be more than is gained (docs/networks.md). Eq. [c-stein]."""
    if not network.by_parts or network.units > 1 and sampling.identity:
        sampling = replace(sampling, parts=sampling.parts - {"stein"})
    if not network.kinked:
        return sampling
    return replace(sampling, tangents=0.0, estimator=replace(sampling.estimator, least_carriers=0))


def committee_bytes(network: TwoLayer, history: History, sampling: Sampling, dtype: type, share: float = 1.0) -> float:
    """Resident bytes of a solution on a rank with this share of its samples, with one sign vector per sample with tangents. Every
    rank has all of Q, R, M_C, the factors (a card so many copies of them), and the sums over all blocks. Eq. [c-probe]."""
    p, item, size = network.units, np.dtype(dtype).itemsize, history.slots * network.units
    control = (item * size + 16.0 * p) * network.directions if sampling.stein else 0.0
    samples = sampling.samples * (8.0 * size + 2.0 * item * size + control + 8.0 * (8 * p + 16))
    blocks = min(sampling.samples / 8, LARGEST_BLOCK_COUNT) * 48.0 * p * size
    tangents = sampling.carriers * item * (history.packed * p + 2.0 * size)
    return share * (samples + tangents) + MATRICES_ON_CARD * 8.0 * size**2 + blocks


class CommitteeMarch(Forward):
    """One solution of a network at step n = 0 .. steps. full_tangents: all columns of tangents, in place of [c-probe], on the CPU;
    gpu: where the samples are, if not there."""

    shown: ClassVar[str] = "loss"
    weights: UnitWeights
    samples: CommitteeSamples | GpuUnits

    def __init__(self, experiment: Experiment, sampling: Sampling, per_level: int | None, wanted: Wanted, comm: Summing,
                 dtype=np.float64, full_tangents: bool = False, gpu: Gpu | None = None, tiling: UnitTiling | None = None):
        assert experiment.network is not None
        self.experiment, self.network, self.comm = experiment, experiment.network, comm
        self.per_level, self.wanted = per_level, wanted
        network, sampling = self.network, committee_sampling(self.network, sampling)
        self.history = history_for(experiment, per_level, wanted)
        self.kept = Kept.of(self.history, 0, wanted)
        matrices = CardMatrices(gpu, self.history, network.units) if gpu and self.history.full else None
        self.weights = UnitWeights(experiment, network, self.history, sampling.estimator, matrices)
        sizes = sampling.samples, sampling.carriers, comm
        self.blocks = card_blocks(*sizes, MOST_BLOCKS) if gpu else blocks_for(*sizes)
        carriers, samples = sampling.carriers, sampling.samples
        trusted = trusted_share(carriers, samples, sampling.estimator) if carriers else 0.0
        by, share = sampling.estimator, max(carriers, 1) / samples
        self.use = InUse(sampling.stein and experiment.stein, sampling.identity, share, trusted, by.control_fade_gradient,
                         by.control_fade_time if network.bends else np.inf)
        draws = draw_units(experiment, network, sampling, self.blocks.indices())
        weight = normalised(np.ones(len(draws.y)), self.blocks, comm)
        arguments = network, self.history, draws, weight, self.blocks.size, sampling
        self.samples = (GpuUnits(gpu, experiment, *arguments[1:], dtype, tiling) if gpu else
                        CommitteeSamples(experiment, *arguments, full_tangents, dtype))
        self.exchangeable = network.exchangeable
        self.rows = RowEstimates(self.weights, self.samples.places, self.use, self.exchangeable)
        p, k = network.units, network.directions
        shapes = {"m": (p, k), "C": (p, p), "a": (p,), "beta": (p,), "loss": (), "delta_nu": (p, p), "mu": (p, k), "ibp_gap": ()}
        shapes |= dict.fromkeys(experiment.observables, ())
        self.curves = {name: np.full((experiment.steps + 1, *shape), np.nan) for name, shape in shapes.items()}
        self.kernels, self.columns = self.empty_kernels()

    def terms(self) -> list[np.ndarray]:
        state, samples = self.weights.state, self.samples
        lines = [samples.row_sums(state, self.weights.used)]
        if self.experiment.observables:
            lines.append(samples.averaged_sums(state))
        return lines

    def take(self, totals: list[np.ndarray]) -> None:
        """Estimate row n from the sums over all blocks, record it, and go to n+1 (the last row is only recorded)."""
        weights, sums, n, places = self.weights, totals[0], self.weights.n, self.samples.places
        largest = weights.estimator.largest
        if not bounded(sums, largest):
            self.diverged = True
            return
        found = self.rows.estimate(sums)
        after, steps = weights.step_from_row(found.row, found.noise), PastSteps.of(self.history)
        self.diverged = not sound(after.S, after.drive.A, largest)
        plan = self.history.push(n) if n < self.experiment.steps and not self.diverged else None
        if plan is not None:  # first of all: a card then works beside what follows
            self.samples.advance(after.drive, plan)
            pushes = sums[places.push], sums[places.g]
            point = weights.point_after(after, *(np.full_like(x, x.mean()) if self.exchangeable else x for x in pushes))
            self.samples.begin_sums(point)
        values = {"m": weights.m_w, "C": weights.C_now, "a": weights.state.a, "beta": weights.state.beta,
                  "loss": sums[places.v], "delta_nu": found.row.delta_nu, "mu": found.row.mu, "ibp_gap": found.residual}
        values |= zip(self.experiment.observables, totals[1] if self.experiment.observables else (), strict=True)
        for name, value in values.items():
            self.curves[name][n] = value
        enter_units(self.kernels, self.columns, self.kept, weights, found.row, steps)
        if plan is not None:
            weights.advance(after, point, plan)

    def empty_kernels(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        return empty_kernels(self.kept, self.network.units)

    def longer_than(self, earlier: History) -> UnitLonger:
        return UnitLonger(earlier, self.history, self.network.units, self.samples.columns)

    def per_sample(self) -> Mapping[str, np.ndarray]:
        return self.samples.per_sample()

    def per_tangent(self) -> Mapping[str, np.ndarray]:
        return self.samples.per_tangent()

    def take_samples(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray]) -> None:
        self.samples.restore(per_sample, per_tangent, self.n)
