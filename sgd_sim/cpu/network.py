"""One instance of a network on its own data: p weight vectors, one pass over the rows for all of them. Eq. [c-step].

The weights are kept in float64; a pass rounds them to float32, as the data are. Gradients of a block of rows are added in float32,
and blocks in float64. After the weights an instance has its second layer and its intercepts, which are trained or not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmft.core import streams
from dmft.model.activations import apply
from dmft.model.experiment import Experiment
from dmft.model.network import TwoLayer
from dmft.model.runfile import Run
from dmft.model.sample_averages import averages
from sgd_sim.cpu.by_rows import block_rows
from sgd_sim.cpu.dynamics import add_noise
from sgd_sim.cpu.lanes import make_noise
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.fast_normals import BLOCK, buffers
from sgd_sim.kernels.formulas import coefficient, keep_of, moved, point_ahead, pushed, rate_of
from sgd_sim.kernels.rows import aligned, padded
from sgd_sim.kernels.step_table import compiled_loss, make_table, settings_of
from sgd_sim.landscape import draw_directions, make_landscape
from sgd_sim.recording import flattened
from sgd_sim.states import NOT_STARTED, States


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def pass_over_units(data, labels, weight, network, functions, everything, moves, scale, height, sums):
    """Outputs f (M,) of the rows, of the mini-batch or of everything, and where `moves` gradients of their losses: total (p, N),
    sums of g_mu x_mu, and pushes (2, p), of a and beta. weight (M,): mini-batch; network: W (p, padded N) float32, a and beta;
    functions: s, s' and dv; height: rows of a block, whose gradients partial (p, padded N) holds. A row is read once for all
    units."""
    (W, a, beta), (s, ds, dv), (partial, total, pushes, outputs) = network, functions, sums
    p, n = W.shape[0], total.shape[1]
    root, fields = 1.0 / np.sqrt(n), np.empty(p)
    total[:] = 0.0
    pushes[:] = 0.0
    for first in range(0, len(labels), height):
        partial[:] = np.float32(0.0)
        for mu in range(first, min(first + height, len(labels))):
            if not everything and weight[mu] == 0:
                continue
            x, f = data[mu], 0.0
            for r in range(p):
                w, dot = W[r], np.float32(0.0)
                for i in range(x.size):
                    dot += w[i] * x[i]
                fields[r] = root * np.float64(dot) + beta[r]
                f += a[r] * s(fields[r])
            outputs[mu] = f
            if not moves or weight[mu] == 0:
                continue
            c = coefficient(scale, weight[mu], dv(f, labels[mu]))
            for r in range(p):
                push = c * a[r] * ds(fields[r])  # [c-step]
                pushes[0, r] += c * s(fields[r])
                pushes[1, r] += push
                line, factor = partial[r], np.float32(push)
                for i in range(x.size):
                    line[i] += factor * x[i]
        if moves:
            for r in range(p):
                for i in range(n):
                    total[r, i] += partial[r, i]


def start_units(network: TwoLayer, directions: np.ndarray, seed: int, instance: int) -> np.ndarray:
    """w (p, N) at t = 0: m0 w* plus a part normal to the directions (k, N) with exactly the Gram matrix Q0. Eq. [c-start]."""
    n = directions.shape[1]
    z = streams.generator(seed, "simulation/start", instance).standard_normal((network.units, n))
    normal, _ = np.linalg.qr((z - (z @ directions.T / n) @ directions).T)
    values, vectors = np.linalg.eigh(network.Q0)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return network.m0 @ directions + np.sqrt(n) * root @ normal.T  # [c-start]


class NetworkTrajectory:
    """One instance on its own data, from its start or from its saved state. A Stepper."""

    def __init__(self, run: Run, instance: int, states: States, threads: bool):
        simulation, experiment = run.simulation, Experiment.from_run(run)
        assert experiment.network is not None
        self.run, self.instance, self.experiment, self.network = run, instance, experiment, experiment.network
        seed, self.n, p = simulation.seed, simulation.dimension, self.network.units
        landscape = make_landscape(seed, instance, self.n, run.problem.alpha, threads, simulation.precision)
        found = draw_directions(landscape, seed, instance, self.network)
        self.data, self.directions, self.labels, self.test_labels = landscape.data, *found
        self.test, samples = landscape.test[:len(self.test_labels), :self.n].astype(np.float64), self.labels.size
        self.table, self.kind = make_table(run, samples), minibatch.drawn_as(experiment.batch)
        self.noise = make_noise(seed, instance)
        self.thermal = [self.noise.thermal, *(streams.key(seed, "simulation/thermal", instance, r) for r in range(1, p))]
        self.h0 = self.data[:samples, : self.n] @ self.directions[0] / np.sqrt(self.n)
        self.record, self.curves = states.record, states.curves[instance].copy()
        self.kept, self.kept_w, self.pairs = states.kept, states.kept_w[instance].copy(), states.pairs[instance].copy()
        self.step, self.diverged_at = int(states.step[instance]), -1
        self.remembers = states.before.shape[1] > 0
        if self.step == NOT_STARTED:
            start = start_units(self.network, self.directions, seed, instance)
            self.parameters, self.step = np.concatenate([start.ravel(), self.network.a, self.network.beta]), 0
            self.before = self.parameters.copy()
        else:
            self.parameters = states.w[instance].copy()
            self.before = states.before[instance].copy() if self.remembers else self.parameters.copy()
        self.s = states.s[instance].copy() if states.s.shape[1] else np.ones(samples, np.uint8)
        self.order, self.words = minibatch.make_order(samples), minibatch.make_words(samples)
        self.W = aligned((p, padded(self.n)))
        self.W[:] = 0.0
        self.partial, self.total, self.pushes = aligned((p, padded(self.n))), np.empty((p, self.n)), np.empty((2, p))
        self.outputs, self.scratch = np.empty(samples), (np.empty(BLOCK), buffers())

    @property
    def finished(self) -> bool:
        """True if it has diverged."""
        return self.diverged_at >= 0

    @property
    def weights(self) -> np.ndarray:
        """w (p, N), a view."""
        return self.parameters[: self.network.units * self.n].reshape(-1, self.n)

    @property
    def shared(self) -> np.ndarray:
        """a and beta (2, p), a view."""
        return self.parameters[self.network.units * self.n :].reshape(2, -1)

    def advance(self, last: int) -> None:
        """Go on to step `last`; a record at `last` is made again, with the same numbers, when the run continues."""
        for step in range(self.step, last + 1):
            column = int(np.searchsorted(self.record, step))
            wanted = column < self.record.size and self.record[column] == step
            if step == last and not wanted:
                break
            settings = settings_of(self.table, step)
            if step < last:
                self._draw(settings, step)
            moves = step < last
            if wanted or not settings.lookahead:
                self._pass(settings, self.weights, wanted, moves and not settings.lookahead)
            if wanted:
                self._record(column)
            if not np.isfinite(self.parameters).all() or wanted and not np.isfinite(self.curves[:, column]).all():
                self.diverged_at = step
                self.curves[:, column:] = np.nan
                break
            if moves:
                self._update(settings, step)
        self.step = last

    def _draw(self, settings, step: int) -> None:
        """The mini-batch of a step, into s."""
        if self.kind in (minibatch.BERNOULLI, minibatch.PERSISTENT):
            minibatch.draw_rows(self.kind, self.s, 0, self.s.size, self.noise.batch, step, settings.enter, settings.switch_on,
                                settings.switch_off, self.words)
        elif self.kind != minibatch.FULL:
            minibatch.draw_fixed_size(self.kind, self.s, settings.first_place, settings.last_place, self.noise.batch,
                                      settings.order, self.order)

    def _pass(self, settings, at: np.ndarray, everything: bool, moves: bool) -> None:
        """Outputs at weights (p, N), and gradients where the weights move."""
        self.W[:, : self.n] = at
        activation, (a, beta) = self.network.activation, self.shared
        _, dv = compiled_loss(self.experiment.losses[settings.loss])
        pass_over_units(self.data, self.labels, self.s, (self.W, a, beta), (activation.s, activation.ds, dv), everything, moves,
                        settings.scale, block_rows(self.labels.size), (self.partial, self.total, self.pushes, self.outputs))

    def _record(self, column: int) -> None:
        """m, C, a, beta, the training loss and the error on fresh samples."""
        W, (a, beta), loss = self.weights, self.shared, self.experiment.losses[self.experiment.loss_n[self.record[column]]]
        f = apply(self.network.activation.s, self.test @ W.T / np.sqrt(self.n) + beta) @ a
        values = {"m": W @ self.directions.T / self.n, "C": W @ W.T / self.n, "a": a, "beta": beta,
                  "loss": np.mean([loss.v(x, y) for x, y in zip(self.outputs, self.labels)]),
                  "mse_fresh": np.mean((f - self.test_labels) ** 2)}
        told = self.experiment.observables
        values |= {one.name: np.mean([one.value(*sample) for sample in zip(self.outputs, self.labels, self.h0)])
                   for one in averages(told)}
        self.curves[:, column] = flattened(values, told)
        self._pair(column)

    def _pair(self, column: int) -> None:
        """C(t, t') (p, p) of the recorded step t with the kept steps t' up to it. Eq. [sim-pairs]."""
        step, size = self.record[column], self.weights.size
        self.kept_w[self.kept == step] = self.parameters
        for j in np.flatnonzero(self.kept <= step):
            before = self.kept_w[j, :size].reshape(-1, self.n).astype(np.float64)
            self.pairs[0, column, j] = self.weights @ before.T / self.n  # [sim-pairs]

    def _update(self, settings, step: int) -> None:
        """One step of all parameters from the gradients of the last pass, or of one at the point ahead. Eqs. [c-step],
        [momentum]."""
        W, network = self.weights, self.network
        before = self.before[: W.size].reshape(W.shape)
        if settings.lookahead:  # records are made at w, the gradient is taken at the point ahead
            self._pass(settings, point_ahead(settings.lookahead, W, before), False, True)
        keep, rate = keep_of(settings.inertia, settings.eta, settings.ridge), rate_of(settings.eta, self.n)
        new = moved(keep, settings.recoil, settings.lookahead, rate, W, before, self.total)  # [c-step]
        if self.remembers:
            self.before[:] = self.parameters
        if settings.noise > 0.0:
            for r in range(len(new)):
                add_noise(new[r], settings.noise, self.thermal[r], step, *self.scratch)
        W[:] = network.constraint.projection(new @ new.T / self.n) @ new  # [c-step], [c-a]
        if network.trained:
            rates = np.array([network.train, network.train_intercepts]) * settings.eta / self.experiment.eta_0
            self.shared[:] = pushed(self.shared, rates[:, None], self.pushes, self.n)  # [c-second]

    def post(self, states: States) -> None:
        """Copy where the instance stands into the states; what diverged has no weights any more."""
        i, lives = self.instance, not self.finished
        states.step[i], states.diverged_at[i] = self.step if lives else self.diverged_at, self.diverged_at
        states.curves[i], states.w[i] = self.curves, self.parameters if lives else 0.0
        if self.remembers:
            states.before[i] = self.before if lives else 0.0
        if states.s.shape[1]:
            states.s[i] = self.s
        if self.kept.size:
            states.pairs[i], states.kept_w[i] = self.pairs, self.kept_w
