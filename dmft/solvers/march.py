"""The causal march: all samples go forward together, each row of the kernels is estimated just before it is used.

It takes one sweep, without damping, and there is nothing to converge. The state is an explicit set of arrays (`shared`,
`per_sample`, `per_tangent`), which is what a checkpoint holds and `restore` takes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dmft.core.device import Gpu
from dmft.core.tree import nest
from dmft.equations.kernels import Kept, Wanted, enter_row, history_for
from dmft.equations.random_start import OverlapKernels
from dmft.equations.rows import CARRIED, PUSH, curve_row, curves_of, escaped, estimate_row, exploded
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.equations.weights import WeightDynamics
from dmft.model.experiment import Experiment
from dmft.samples.clones import Clones
from dmft.samples.gpu import BLOCKS, Card, GpuSamples
from dmft.samples.launches import TILING, Tiling
from dmft.samples.process import Samples
from dmft.samples.sampling import Sampling, draw
from dmft.samples.snapshots import SampleSnapshots, on_host
from dmft.solvers.blocks import (
    Blocks,
    Summing,
    blocks_for,
    card_blocks,
    estimators_of,
    normalised,
)
from dmft.solvers.forward import Forward


def march_blocks(sampling: Sampling, comm: Summing, gpu: Gpu | Card | None) -> Blocks:
    """The samples of a march in blocks; on a card there are fewer blocks, which are larger."""
    sizes = sampling.total, sampling.carriers, comm
    return card_blocks(*sizes, BLOCKS) if gpu else blocks_for(*sizes)


class Causal(Forward):
    """A solution of one unit; how it comes by row n is that of a subclass."""

    weights: WeightDynamics

    def __init__(self, experiment: Experiment, per_level: int | None, wanted: Wanted, comm: Summing,
                 estimator: Estimator = ESTIMATOR):
        self.experiment, self.wanted, self.comm = experiment, wanted, comm
        self.per_level = per_level
        self.history = history_for(experiment, per_level, wanted)
        self.kept = Kept.of(self.history, experiment.hidden, wanted)
        self._kept_rows = frozenset(np.union1d(self.kept.grid, self.kept.times).tolist())
        self.weights = WeightDynamics(experiment, self.history, estimator)
        self.curves = {name: np.full(experiment.steps + 1 - experiment.hidden, np.nan) for name in curves_of(experiment)}
        self.kernels, self.columns = self.empty_kernels()

    def empty_kernels(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        return self.kept.empty(self.wanted.temperatures)


class March(Causal):
    """The solution whose rows are estimated from samples. gpu: a card, where others may go by the same launches."""

    def __init__(self, experiment: Experiment, sampling: Sampling, per_level: int | None, wanted: Wanted, comm: Summing,
                 dtype=np.float64, gpu: Gpu | Card | None = None, tiling: Tiling = TILING):
        super().__init__(experiment, per_level, wanted, comm, sampling.estimator)
        self.sampling = sampling
        self.blocks = blocks = march_blocks(sampling, comm, gpu)
        self.use = estimators_of(experiment, sampling)
        draws = draw(experiment, sampling, blocks.indices())
        kind = partial(GpuSamples, gpu if isinstance(gpu, Card) else Card(gpu), tiling=tiling) if gpu else Samples
        weight = normalised(draws.weight, blocks, comm, draws.stratum, experiment.data.strata)
        self.samples = kind(experiment, self.history, draws, weight, blocks.size, sampling, dtype)
        self.overlaps = OverlapKernels(experiment.steps, self.history.slots) if experiment.start.random else None
        self.clones: Clones | None = None
        if experiment.clones and isinstance(self.samples, Samples):  # a card has none (model/support.py)
            self.clones = Clones(experiment, self.history, self.samples, sampling)
        self.snapshots = SampleSnapshots(wanted.snapshots, wanted.visited, blocks.lines.stop - blocks.lines.start,
                                         bool(experiment.heat_n.any()))

    @property
    def company(self) -> Hashable:
        return self.samples.company if isinstance(self.samples, GpuSamples) else self

    def launch(self) -> None:
        if isinstance(self.samples, GpuSamples):
            self.samples.launch()

    def terms(self) -> list[np.ndarray]:
        present = self.weights.m, self.weights.b, self.weights.m_w
        lines = [self.samples.row_sums(*present)]
        if self.experiment.observables:
            lines.append(self.samples.averaged_sums(*present))
        if self.clones is not None:
            lines.append(self.clones.sums(self.weights.m, self.weights.b))
        return lines if self.overlaps is None else [*lines, self.samples.overlap_sums()]

    def take(self, totals: list[np.ndarray]) -> None:
        """Estimate row n from the sums over all blocks, record it, and go to n+1 (the last row is only recorded)."""
        weights, experiment, n = self.weights, self.experiment, self.weights.n
        m, sums, averaged = weights.m_w, totals[0], totals[1] if experiment.observables else np.empty(0)
        bounds = weights.estimator
        of_pairs = totals[-1 if self.overlaps is None else -2] if self.clones else np.zeros(0)
        if exploded(sums, bounds.largest, bounds.most_lost) or not np.isfinite(of_pairs).all():
            self.diverged = True
            return
        estimate = estimate_row(weights, sums, self.use)
        row, after = estimate.row, weights.step_from_row(estimate.row, noise=estimate.noise)
        if n >= experiment.hidden:
            C_12 = self.clones.C_12 if self.clones else np.nan
            figures = curve_row(experiment, n, m, weights.q, estimate, sums, after, weights.b, averaged, C_12)
            for name, curve in self.curves.items():
                curve[n - experiment.hidden] = figures[name]
        if len(self.wanted.snapshots):
            self.snapshots.take(weights, after, self.samples, m)
        if n - experiment.hidden in self._kept_rows:
            enter_row(self.kernels, self.columns, self.kept, weights, row)
        if self.overlaps is not None:
            self.overlaps.rows.enter(n, self.overlaps.estimate(weights, totals[-1], sums[CARRIED], self.use), after.drive.a)
        if escaped(after.norm, bounds.largest):
            self.diverged = True
        elif n < experiment.steps:
            pair = self.clones.pair_step(row, after, of_pairs) if self.clones else None
            plan = self.history.push(n)
            self.samples.advance(pair.drive if pair else after.drive, plan)
            if self.clones and pair:
                self.clones.enter(pair, plan)
            weights.advance(row, after.next, plan)
            if self.overlaps is not None:
                self.overlaps.forget(plan.joins)
            if experiment.data.bias:
                weights.push_intercept(sums[PUSH])
            self.samples.begin_sums(weights.m, weights.b, weights.m_w)

    def random_start(self) -> dict[str, np.ndarray]:
        """OverlapRows by name; empty where the start is not random."""
        return {} if self.overlaps is None else self.overlaps.rows._asdict()

    def shared(self) -> dict[str, Any]:
        snapshots = {"snapshots": self.snapshots.shared()} if len(self.wanted.snapshots) else {}
        return super().shared() | snapshots | ({"clones": self.clones.shared()} if self.clones else {})

    def per_sample(self) -> Mapping[str, np.ndarray]:
        arrays: Any = self.samples.per_sample()  # read by name, one after the other
        snapshots = self.snapshots.per_sample() if len(self.wanted.snapshots) else {}
        return ChainMap(snapshots, self.clones.per_sample() if self.clones else {}, arrays)

    def snapshot(self) -> dict[str, np.ndarray]:
        """What a result keeps of the samples of this rank, a line each; empty where nothing is asked for."""
        return self.snapshots.found(on_host(self.samples)) if len(self.wanted.snapshots) else {}

    def per_tangent(self) -> Mapping[str, np.ndarray]:
        return self.samples.per_tangent()

    def take_samples(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray]) -> None:
        self.samples.restore(per_sample, per_tangent, self.weights.n)

    def restore(self, shared: Mapping[str, Any], per_sample: Mapping[str, np.ndarray],
                per_tangent: Mapping[str, np.ndarray]) -> None:
        """As of Causal, and the snapshots and clones."""
        super().restore(shared, per_sample, per_tangent)
        if self.clones:
            self.clones.restore(per_sample, nest(shared)["clones"])
        if len(self.wanted.snapshots):
            self.snapshots.restore(per_sample, nest(shared)["snapshots"])
