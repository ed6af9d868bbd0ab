"""Bayes-optimal learning at the alpha of a run, whatever its loss and algorithm: reference values from scalar state evolution.

When the law w0 ~ N(0, I) is known beforehand, the posterior mean of w0 has m = q (one number, the overlap), which solves

    q/(1 - q) = qh(q) = alpha E[g^2] ,   g = (E[h0 | omega, y] - omega)/V ,  V = 1 - q ,  h0 ~ N(omega, V) ,  omega ~ N(0, q) .

The smallest stable solution is what approximate message passing reaches from no knowledge, the best of the known fast algorithms;
the one of largest free entropy, by the area between the two sides, is what unlimited time could reach. For two clusters
with labels of their own each sample is a noisy measurement of w0, so that q/(1 - q) = alpha <c^2>/Delta. docs/data-models.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from dmft.core.errors import RunError, UserError
from dmft.model.data import data_of
from dmft.model.information import Information
from dmft.model.runfile import Run

NEARLY = 1e-9  # 1 - q of the last point of the grid, next to perfect recovery
# Overlaps between which solutions are searched.
GRID = np.concatenate([[1e-7], np.linspace(0.0, 1.0, 161)[1:-1], 1.0 - np.geomspace(1e-3, NEARLY, 13)])


@dataclass(frozen=True)
class BayesOptimal:
    """overlap: m = q of the posterior mean that message passing reaches; best_overlap: that of unlimited time. Errors on new
    samples at both, by name (mse: of the best prediction of the label, error: share of wrong labels). thresholds: alpha_WR, from
    which on something is learnt from nothing; alpha_IT, alpha_AMP: where best_overlap and overlap jump to (near) recovery."""

    overlap: float
    best_overlap: float
    errors: dict[str, float]
    best_errors: dict[str, float]
    thresholds: dict[str, float] = field(default_factory=dict)

    @property
    def cosine(self) -> float:
        """Of the angle between the posterior mean and the teacher, sqrt(overlap)."""
        return self.overlap**0.5

    @property
    def best_cosine(self) -> float:
        """The same with unlimited time."""
        return self.best_overlap**0.5


def bayes(run: Run) -> BayesOptimal:
    """The Bayes-optimal performance for the data of a run. RunError where it is not built in."""
    if run.has_network:
        raise RunError("[network]: Bayes-optimal learning is known for a teacher with one direction alone")
    data: Any = data_of(run.problem)
    alpha = run.problem.alpha
    if not data.sampled:
        raise RunError(f'[problem] data = "{data.name}": there are no samples to learn from, and nothing Bayes-optimal is built in')
    if data.clustered:
        return _two_clusters(data, alpha)
    tells = information(data)
    overlap, best = solutions(tells, alpha)
    return BayesOptimal(overlap, best, _errors(data, overlap), _errors(data, best),
                        thresholds(tells, data.label_noise == 0) if data.channel.even else {})


def known_bayes(run: Run) -> dict[str, float]:
    """Bayes-optimal errors on new samples by name, as message passing reaches them; empty where they are not known."""
    if run.has_network:  # whose labels are not those that [problem] alone describes
        return {}
    try:
        data: Any = data_of(run.problem)
        if data.clustered:
            return _two_clusters(data, run.problem.alpha).errors
        return _errors(data, solutions(information(data), run.problem.alpha)[0])
    except UserError:  # not built in, or a loss that is not registered here
        return {}


# --- teachers ----------------------------------------------------------------------------------------------------------

def information(data: Any) -> Information:
    """qh(q)/alpha for the labels of a teacher. RunError where it is not built in."""
    if not data.taught:
        raise RunError(f'[problem] data = "{data.name}": Bayes-optimal learning is built in for a teacher and for two clusters')
    channel, noise = data.channel, data.label_noise
    tells = channel.information(noise, data.flip)
    if tells is None:
        raise RunError(f'[problem] labels = "{channel.name}"{" with label_noise" if noise else ""}: Bayes-optimal learning is not '
                       'built in for these; "abs" has it, and channels that say how much a label tells (docs/extending.md)')
    return tells


def solutions(channel: Information, alpha: float) -> tuple[float, float]:
    """(overlap of message passing, best overlap): the smallest solution that is stable, and the one of largest free entropy."""
    def gain(q: float) -> float:  # (1 - q) times the difference of the two sides: finite at q = 1
        return (1.0 - q) * alpha * channel(q) - q

    values = np.array([gain(q) for q in GRID])
    found, area, areas = [0.0] if values[0] <= 0 else [], 0.0, [0.0] if values[0] <= 0 else []
    for i in range(len(GRID) - 1):
        low, high = GRID[i], GRID[i + 1]
        area += 0.5 * (values[i] / (1.0 - low) + values[i + 1] / (1.0 - high)) * (high - low)
        if values[i] > 0 >= values[i + 1]:
            found.append(float(brentq(gain, low, high, xtol=1e-14)))
            areas.append(area)
    if values[-1] > 0:
        found.append(1.0)
        areas.append(area)
    return found[0], found[int(np.argmax(areas))]


def thresholds(channel: Information, exact: bool) -> dict[str, float]:
    """Thresholds of labels that do not tell the sign of h0. alpha(q) = q/((1-q) qh(q)/alpha) is the alpha at which q is a solution:
    alpha_WR is where it starts; where it turns back, message passing jumps (alpha_AMP), and by equal areas the best (alpha_IT).
    Without noise recovery is perfect from alpha = 1 on: near q = 1 both sides go as alpha/(1-q) and 1/(1-q)."""
    def at(q: float) -> float:
        return q / ((1.0 - q) * channel(q))

    values = np.array([at(q) for q in GRID])
    known = {"alpha_WR": float(values[0])}
    turns = [i for i in range(1, len(GRID) - 1) if values[i] >= values[i - 1] and values[i] > values[i + 1]]
    if not turns:
        return known
    top = turns[0]
    peak = minimize_scalar(lambda q: -at(q), bounds=(GRID[top - 1], GRID[top + 1]), method="bounded", options={"xatol": 1e-10})
    known["alpha_AMP"] = -float(peak.fun)
    if exact:
        return known | {"alpha_IT": 1.0}
    low, high = float(values[top:].min()), known["alpha_AMP"]
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if solutions(channel, middle)[1] > peak.x else (middle, high)
    return known | {"alpha_IT": high}


def _errors(data: Any, q: float) -> dict[str, float]:
    """The least error of any prediction from a field omega ~ N(0, q) with h0 ~ N(omega, 1 - q)."""
    return data.channel.least_errors(q, data.label_noise, data.flip)


# --- clusters ----------------------------------------------------------------------------------------------------------

def _two_clusters(data: Any, alpha: float) -> BayesOptimal:
    """Two clusters of equal spread with labels of their own: the posterior of w0 is Gaussian, and a new sample belongs where
    P(c) exp(c f/Delta - c^2 q/(2 Delta)) is larger, f ~ N(c q, Delta q)."""
    labels = {label for _, _, label, _ in data.clusters}
    if len(data.clusters) != 2 or len(labels) != 2 or len({D for *_, D in data.clusters}) != 1:
        raise RunError("[problem] clusters: Bayes-optimal learning is built in for two clusters of equal Delta with labels of "
                       "their own (unequal spreads tell the clusters apart by |x| alone)")
    (c1, p1, _, D), (c2, p2, _, _) = sorted(data.clusters, reverse=True)
    told = alpha * (p1 * c1**2 + p2 * c2**2) / D
    q = told / (1.0 + told)
    if c1 == c2 or q == 0:
        error = min(p1, p2)
    else:
        edge = ((c1**2 - c2**2) * q / 2.0 + D * np.log(p2 / p1)) / (c1 - c2)  # of f: cluster 1 above
        error = float(p1 * ndtr((edge - c1 * q) / np.sqrt(D * q)) + p2 * ndtr((c2 * q - edge) / np.sqrt(D * q)))
    return BayesOptimal(q, q, {"error": error}, {"error": error})
