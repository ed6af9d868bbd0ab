"""The law of the fields: what every sample of the effective process is at some steps, and what the Hessian there needs of its past.

Kept beside the samples while they march, and part of checkpoints; a line per sample, so that ranks change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from dmft.core.streams import normal2
from dmft.core.tree import overwrite
from dmft.equations.weights import StepFromRow, WeightDynamics
from dmft.samples.gpu import GpuSamples
from dmft.samples.lost import GONE
from dmft.samples.process import Samples
from dmft.samples.state import SampleState

CONSTANT = ("weight", "k", "y", "sd")  # of SampleState, what a sample is at all times


def on_host(samples: Samples | GpuSamples) -> SampleState:
    """The state of samples at step n, with h of the weights; copied where it is on a card."""
    state = samples.state._replace(h=samples.at_weights.h) if samples.at_weights else samples.state
    return state if isinstance(samples, Samples) else SampleState(*(samples.gpu.get(array) for array in state))


def gradients(samples: Samples | GpuSamples) -> np.ndarray:
    """g of every sample at step n, after `row_sums`."""
    return samples.fields.g if isinstance(samples, Samples) else samples.gpu.get(samples.g)[: samples.count]


def _normals_of(samples: Samples | GpuSamples) -> tuple[np.ndarray, np.ndarray]:
    """What the normals of every sample are drawn by: its index in their stream, and their sign."""
    found = samples.state.noise_index, samples.state.sign
    return found if isinstance(samples, Samples) else (samples.gpu.get(found[0]), samples.gpu.get(found[1]))


@njit(cache=True)
def _add_heat(size, key, index, sign, n, total):
    """Add size times the thermal normals of step n, as `own_normals` draws them, to total (count,)."""
    for i in range(len(total)):
        total[i] += size * sign[i] * normal2(key, index[i], n)[1]


class SampleSnapshots:
    """Fields and mini-batches of the samples of a rank at steps (S,), NaN where a step has not been reached; at visited steps (V,)
    the fields h + m k, the sums of gradients since the visited step before, and C between them. With heat also the fields xi of the
    noise of the weights since the visited step before, a vector of norm sqrt(N), and its overlaps with the weights."""

    def __init__(self, steps: np.ndarray, visited: np.ndarray, count: int, heat: bool):
        self.steps, self.visited = steps, visited
        self.f, self.s = (np.full((len(steps), count), np.nan) for _ in range(2))
        self.h, self.g = (np.zeros((len(visited), count)) for _ in range(2))
        self.gram = np.zeros((len(visited), len(visited)))
        self.scale = 1.0  # A_n, what w_n has been multiplied by since the last visited step
        self.xi = np.zeros((len(visited) if heat else 0, count))
        self.heat = np.zeros((len(self.xi), len(self.xi)))  # (V, V) w_n.xi_j/N at visited steps n and j
        self.pushes = np.zeros((2, visited[-1] if len(self.xi) else 0))  # of every step: covariance of its noise with the sum it is
        # part of, per response of the weights, and the square that it adds to that sum
        self.names = (*(("h", "g") if len(visited) else ()), *(("xi",) if len(self.xi) else ()))

    def take(self, weights: WeightDynamics, after: StepFromRow, samples: Samples | GpuSamples, m: float) -> None:
        """Keep what is wanted of the present step, after its row is known; before the step is made."""
        step = weights.n - weights.experiment.hidden
        if step in self.steps or step in self.visited:
            state = on_host(samples)
            for i in np.flatnonzero(self.steps == step):
                self.f[i], self.s[i] = state.sd * (state.h + m * state.k) + weights.b, state.s
                self.f[i, state.s == GONE] = np.nan
            for i in np.flatnonzero(self.visited == step):
                self.h[i] = state.h + m * state.k
                self._enter_gram(int(i), weights)
                if len(self.xi):
                    self._enter_heat(int(i), weights)
        if len(self.visited) and 0 <= step < self.visited[-1]:
            now, drive = weights.settings, after.drive
            if step in self.visited:
                self.scale = 1.0  # of a new sum; with a ridge that of the whole run would leave all range
            following = self.scale * drive.a * (1.0 - now.eta * now.ridge)
            ahead, share = np.searchsorted(self.visited, step, side="right"), drive.a / following
            self.g[ahead] += now.eta * share * gradients(samples)
            if len(self.xi) and drive.thermal:
                _add_heat(share * drive.thermal, samples.keys[0], *_normals_of(samples), weights.n, self.xi[ahead])
                self.pushes[:, step] = share * drive.thermal**2 / now.eta, (share * drive.thermal) ** 2
            self.scale = following  # [hess-snapshots]

    def _enter_gram(self, i: int, weights: WeightDynamics) -> None:
        """C(n, k) of visited step i with those before it, each of which is a block by itself."""
        state, history = weights.state, weights.history
        slots = history.order[np.searchsorted(history.first[history.order], self.visited[:i] + weights.experiment.hidden)]
        row = np.append(state.Q_row[slots] + weights.m * state.m_past[slots], weights.number("Q_now") + weights.m**2)
        self.gram[i, : i + 1] = self.gram[: i + 1, i] = row

    def _enter_heat(self, i: int, weights: WeightDynamics) -> None:
        """Overlaps of the weights of visited step i with the noise between visited steps before it, whose fields get a norm; the
        noise of variance heat has the overlap heat Gam(n, k)/eta_k with w_n. Eq. [hess-heat]."""
        history, eta_0 = weights.history, weights.experiment.eta_0
        first, size = (each[history.order] for each in (history.first - weights.experiment.hidden, history.size))
        sums = np.concatenate([[0.0], np.cumsum(self.pushes[0])])
        known = first >= 0
        first, size, response = first[known], size[known], eta_0 * weights.state.R_row[history.order[known]]
        gaps = np.searchsorted(self.visited, first, side="right")
        np.add.at(self.heat[i], gaps, (sums[first + size] - sums[first]) / size * response)  # [hess-heat]
        norm = np.sqrt([self.pushes[1, start:end].sum() for start, end in zip(self.visited[:i], self.visited[1 : i + 1])])
        self.heat[i, 1 : i + 1] /= np.maximum(norm, 1e-300)
        if i:
            self.xi[i] /= max(norm[-1], 1e-300)

    def per_sample(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds, a line per sample."""
        return {f"snapshots/{name}": getattr(self, name).T for name in ("f", "s", *self.names)}

    def shared(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds besides, the same on every rank."""
        return {"gram": self.gram, "scale": np.array(self.scale), "heat": self.heat, "pushes": self.pushes}

    @property
    def between(self) -> dict[str, np.ndarray]:
        """What a result keeps of pairs of visited steps, (V, V) each."""
        return {name: array for name in ("gram", "heat") if (array := getattr(self, name)).size}

    def restore(self, per_sample: Mapping[str, np.ndarray], shared: Mapping[str, Any]) -> None:
        """Take over what `per_sample` and `shared` gave."""
        overwrite({f"snapshots/{name}": getattr(self, name).T for name in ("f", "s", *self.names)}, per_sample)
        overwrite({name: getattr(self, name) for name in ("gram", "heat", "pushes")}, shared)
        self.scale = float(shared["scale"])

    def found(self, state: SampleState) -> dict[str, np.ndarray]:
        """All that a result keeps, a line per sample: f and s (samples, S), h, g and xi (samples, V) where wanted, and what
        does not change (samples,)."""
        return ({name: getattr(self, name).T.copy() for name in ("f", "s", *self.names)}
                | {name: np.array(getattr(state, name)) for name in CONSTANT})
