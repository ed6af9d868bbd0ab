"""The causal march: all samples go forward together, each row of the kernels is estimated just before it is used.

It takes one sweep, without damping, and there is nothing to converge. The state is an explicit set of arrays (`shared`,
`per_sample`, `per_tangent`), which is what a checkpoint holds and `restore` takes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from dmft.core.device import Gpu
from dmft.core.packing import Guide
from dmft.core.tree import nest
from dmft.equations.blocks import push_steps
from dmft.equations.history import History
from dmft.equations.kernels import Kept, Wanted, enter_row, history_for
from dmft.equations.on_card import ESCAPED, EXPLODED, MOST_SLOTS, can_be_translated
from dmft.equations.random_start import OverlapKernels
from dmft.equations.rows import CARRIED, CURVE_NAMES, curve_table, enter_all_curves, escaped, exploded
from dmft.equations.steps import all_next_numbers
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.equations.weights import WeightDynamics
from dmft.model.experiment import Experiment
from dmft.samples.card_steps import CardSteps
from dmft.samples.clones import Clones
from dmft.samples.gpu import BLOCKS, Card, GpuSamples
from dmft.samples.guides import guide_of_past, guide_of_tangents
from dmft.samples.process import Samples
from dmft.samples.sampling import Sampling, draw
from dmft.samples.snapshots import SampleSnapshots, on_host
from dmft.samples.state import Past
from dmft.samples.tiling import TILING, Tiling
from dmft.solvers.blocks import Blocks, Summing, blocks_for, card_blocks, estimators_of, normalised
from dmft.solvers.forward import Forward


def march_blocks(sampling: Sampling, comm: Summing, gpu: Gpu | Card | None) -> Blocks:
    """The samples of a march in blocks; on a card there are fewer blocks, which are larger."""
    sizes = sampling.total, sampling.carriers, comm
    return card_blocks(*sizes, BLOCKS) if gpu else blocks_for(*sizes)


def card_has_equations(e: Experiment, wanted: Wanted, history: History, tiling: Tiling = TILING) -> bool:
    """Whether a card that has the samples of a march can do the equations of a step as well."""
    elsewhere = e.update.looks_ahead or e.start.random or e.observables or e.clones or wanted.temperatures
    return bool(not elsewhere and not len(wanted.snapshots)
                and history.slots <= (MOST_SLOTS if history.full else tiling.equations) and can_be_translated(e.constraint))


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
        self.table, self.curves = curve_table(experiment)
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
        weight = normalised(draws.weight, blocks, comm, draws.stratum, experiment.data.strata)
        rest = draws, weight, blocks.size, sampling, dtype
        self.samples: Samples | GpuSamples = Samples(experiment, self.history, *rest) if gpu is None else GpuSamples(
            gpu if isinstance(gpu, Card) else Card(gpu), self.weights, *rest, tiling,
            self.use if self.equations_on_card(tiling) else None)
        self.overlaps = OverlapKernels(experiment.steps, self.history.slots) if experiment.start.random else None
        self.clones: Clones | None = None
        if experiment.clones and isinstance(self.samples, Samples):  # a card has none (model/support.py)
            self.clones = Clones(experiment, self.history, self.samples, sampling)
        self.snapshots = SampleSnapshots(wanted.snapshots, wanted.visited, blocks.lines.stop - blocks.lines.start,
                                         bool(experiment.heat_n.any()))

    def equations_on_card(self, tiling: Tiling) -> bool:
        """Whether a card that has the samples does the equations of a step as well."""
        return card_has_equations(self.experiment, self.wanted, self.history, tiling)

    @property
    def _steps(self) -> CardSteps | None:
        """Where the card does them."""
        if not isinstance(self.samples, GpuSamples):
            return None
        self.samples.company.begin()
        return self.samples.company.steps

    @property
    def company(self) -> Hashable:
        return self.samples.company if isinstance(self.samples, GpuSamples) else self

    def terms_of(self, solvers: Sequence[March]) -> list[np.ndarray]:
        if isinstance(self.samples, GpuSamples):
            self.samples.company.begin()  # which gives every solution its place
            return self.samples.company.terms([march.weights.at for march in solvers], self.overlaps is not None)
        present = self.weights.m, self.weights.b, self.weights.m_w
        lines = [self.samples.row_sums(*present)]
        if self.experiment.observables:
            lines.append(self.samples.averaged_sums(*present))
        if self.clones is not None:
            lines.append(self.clones.sums(self.weights.m, self.weights.b))
        if self.overlaps is not None:
            lines.append(self.samples.overlap_sums())
        return [each[None] for each in lines]

    def take_of(self, solvers: Sequence[March], totals: list[np.ndarray]) -> None:
        """Estimate row n of each from the sums over all blocks, record it, and go to n+1 (the last row is only recorded)."""
        if steps := self._steps:
            steps.launch([march.weights.at for march in solvers], self.n, totals[0])
            self.take_steps(solvers)
            return
        sound = [k for k, march in enumerate(solvers) if not march._explodes(k, totals)]
        if len(sound) < len(solvers):
            solvers, totals = [solvers[k] for k in sound], [total[sound] for total in totals]
        if not solvers:
            return
        weights, n, sums = self.weights, self.weights.n, totals[0]
        places = np.array([march.weights.at for march in solvers])
        weights.estimate_rows(places, sums, self.use)
        weights.steps_from_rows(places, True)
        for k, (march, norm) in enumerate(zip(solvers, weights.numbers["norm"][places].tolist(), strict=True)):
            march._keep_sums(n, k, totals)
            march.diverged = escaped(norm, weights.estimator.largest)
        kept = [march.weights.as_it_is() for march in solvers] if n - self.experiment.hidden in self._kept_rows else []
        C_12 = self.clones.C_12 if self.clones else np.nan
        moving = [march for march in solvers if not march.diverged] if n < self.experiment.steps else []
        if moving:
            self._move(n, moving, totals)
        for march, past in zip(solvers, kept, strict=False):  # that could wait for the launch
            enter_row(march.kernels, march.columns, march.kept, past, march.weights.row)
        weights.curve_rows(places, sums, self.use, C_12)
        if (column := n - self.experiment.hidden) >= 0:
            for k, (march, at) in enumerate(zip(solvers, places, strict=True)):
                march.table[: len(CURVE_NAMES), column] = weights.solutions.curves[at]
                if self.experiment.observables:
                    march.table[len(CURVE_NAMES) :, column] = totals[1][k]
        if moving:
            weights.advance_rows(np.array([march.weights.at for march in moving]), True)
            self._look_ahead(n, moving)

    # --- whole steps on a card ---------------------------------------------------------------------------------

    def launch_steps(self, solvers: Sequence[March]) -> bool:
        if steps := self._steps:
            steps.launch([march.weights.at for march in solvers], self.n)
        return steps is not None

    def take_steps(self, solvers: Sequence[March]) -> bool:
        assert (steps := self._steps) is not None
        for n in steps.next_rows():
            self._take_rows(n, [march for march in solvers if not march.diverged], steps)
        return steps.launch_more()

    def _take_rows(self, n: int, solvers: list[March], steps: CardSteps) -> None:
        """Enter row n of these solutions, as the card found it."""
        weights, hidden = self.weights, self.experiment.hidden
        places = np.array([march.weights.at for march in solvers], np.int64)
        found, kept, column = steps.found(n), n - hidden in self._kept_rows, n - hidden
        for march, outcome in zip(solvers, found[places, 0].tolist(), strict=True):
            march.diverged = outcome in (EXPLODED, ESCAPED)
        if EXPLODED in found[places, 0]:
            solvers = [march for march in solvers if found[march.weights.at, 0] != EXPLODED]
            places = np.array([march.weights.at for march in solvers], np.int64)
        sums = steps.taken(found, places, kept)
        enter_all_curves(places, sums, self.use, np.nan, steps.given(n), weights.solutions)
        for march in solvers if kept else ():
            enter_row(march.kernels, march.columns, march.kept, march.weights, march.weights.row)
        for march in solvers if column >= 0 else ():
            march.table[: len(CURVE_NAMES), column] = weights.solutions.curves[march.weights.at]
        if any(march.diverged for march in solvers):
            solvers = [march for march in solvers if not march.diverged]
            places = np.array([march.weights.at for march in solvers], np.int64)
        if n < self.experiment.steps:
            push_steps(n, places, self.history.rule, self.history.tables)
            all_next_numbers(places, weights.solutions)

    def _of_pairs(self, totals: list[np.ndarray]) -> np.ndarray:
        """Of the sums over all blocks, those of clones."""
        return totals[-1 if self.overlaps is None else -2]

    def _explodes(self, k: int, totals: list[np.ndarray]) -> bool:
        """Whether line k of the sums says that the solution has diverged; notes it."""
        bounds = self.weights.estimator
        self.diverged = bool(exploded(totals[0][k], bounds.largest, bounds.most_lost)
                             or self.clones and not np.isfinite(self._of_pairs(totals)).all())
        return self.diverged

    def _keep_sums(self, n: int, k: int, totals: list[np.ndarray]) -> None:
        """Keep what is wanted of row n besides curves and kernels. totals: sums, of this solution in line k."""
        weights = self.weights
        if len(self.wanted.snapshots):
            self.snapshots.take(weights, weights.step_found(), self.samples, weights.m_w)
        if self.overlaps is not None:
            self.overlaps.rows.enter(n, self.overlaps.estimate(weights, totals[-1][k], totals[0][k, CARRIED], self.use),
                                     weights.number("a"))

    def _move(self, n: int, solvers: Sequence[March], totals: list[np.ndarray]) -> None:
        """Take the samples of these solutions to step n+1; on a card they will have been summed up there, too."""
        weights, history, places = self.weights, self.history, [march.weights.at for march in solvers]
        pair = self.clones.pair_step(weights.row, weights.step_found(), self._of_pairs(totals)[0]) if self.clones else None
        push_steps(n, np.array(places), history.rule, history.tables)
        if isinstance(self.samples, GpuSamples):
            self.samples.company.order_move(places, n)
            if not weights.looks_ahead:
                self.samples.company.launch(places, places, n + 1, *weights.coming)
            return
        self.samples.advance(pair.drive if pair else weights.drive, history.plan)
        if self.clones and pair:
            self.clones.enter(pair, history.plan)

    def _look_ahead(self, n: int, solvers: Sequence[March]) -> None:
        """What waits for step n+1 of the weights."""
        if isinstance(self.samples, GpuSamples) and self.weights.looks_ahead:
            places = [march.weights.at for march in solvers]
            self.samples.company.launch(places, places, n + 1, *self.weights.coming)
        for march in solvers:
            if march.overlaps is not None:
                march.overlaps.forget(march.history.plan.joins)

    def random_start(self) -> dict[str, np.ndarray]:
        """OverlapRows by name; empty where the start is not random."""
        return {} if self.overlaps is None else self.overlaps.rows._asdict()

    def shared(self) -> dict[str, Any]:
        if steps := self._steps:
            steps.fetch()
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

    def guides(self) -> tuple[dict[str, Guide], dict[str, Guide]]:
        if self.history.full:
            return super().guides()
        past = guide_of_past(self.history)
        of_samples = {f"past/{name}": past for name in Past._fields if name != "Y" or self.samples.stein}
        return of_samples, {"T": guide_of_tangents(self.history), "row": past}

    def take_samples(self, per_sample: Mapping[str, np.ndarray], per_tangent: Mapping[str, np.ndarray]) -> None:
        self.samples.restore(per_sample, per_tangent, self.weights.n)

    def restore(self, shared: Mapping[str, Any], per_sample: Mapping[str, np.ndarray],
                per_tangent: Mapping[str, np.ndarray]) -> None:
        """As of Causal, and the snapshots and clones."""
        if steps := self._steps:
            steps.fetch()
        super().restore(shared, per_sample, per_tangent)
        if steps:
            steps.changed()
        if self.clones:
            self.clones.restore(per_sample, nest(shared)["clones"])
        if len(self.wanted.snapshots):
            self.snapshots.restore(per_sample, nest(shared)["snapshots"])
