"""When |m| first reaches a level b at dimension N, from a random start: first passage of the Gaussian process sqrt(N) m.

P(t_b <= t) = P(|X_k| >= b sqrt(N) for some t_k <= t), with X a centred Gaussian process of covariance V, whose paths are drawn.
P(|X(t)| >= b sqrt(N)) = erfc(b sqrt(N/(2 V(t)))) is a lower bound, which becomes sharp once one growing mode dominates. If V ~ v
exp(2 gamma t),

    P(t_b <= t) = erfc( exp(-gamma (t - t_N))/sqrt(2) ) ,     t_N = ln(N b^2/v)/(2 gamma)

with median t_N + 0.394/gamma: times that grow as ln(N)/(2 gamma). The theory is linear in m, so that b must be small.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from dmft.core.errors import DmftWarning, UserError

PATHS = 20_000  # that are drawn
HIGHEST = 0.5  # levels above are outside the theory, which is linear in m
MEDIAN = 0.3940  # gamma (t - t_N) at P = 1/2
# V counts as growing exponentially over the last half of the times where it grows at least GROWS-fold, one mode dominates (the
# squared correlation of X between its ends is at least ONE_MODE), and the rates of its two halves differ by at most STEADY of their
# mean.
GROWS, ONE_MODE, STEADY = 2.0, 0.8, 0.25


@dataclass(frozen=True)
class Growth:
    """V ~ v exp(2 rate t) over the last half of the times."""

    rate: float  # gamma
    v: float

    def time(self, b: float, N: int) -> float:
        """Median time to reach b at dimension N."""
        return float((np.log(N * b**2 / self.v) / 2 + MEDIAN) / self.rate)


@dataclass(frozen=True)
class EscapeLaw:
    """The law of the first time at which |m| >= b, on the times t (P,)."""

    b: float
    N: int
    t: np.ndarray
    probability: np.ndarray  # that it has been reached by t, from sampled paths
    probability_error: np.ndarray  # standard error from the finite number of paths
    bound: np.ndarray  # erfc, a lower bound of the probability
    growth: Growth | None  # where V grows exponentially

    def time(self, share: float = 0.5) -> float:
        """When that share of runs has reached b, linear between times; NaN if that is after the last time."""
        reached = np.flatnonzero(self.probability >= share)
        if not len(reached):
            return float("nan")
        i = int(reached[0])
        if i == 0:
            return float(self.t[0])
        low, high = self.probability[i - 1], self.probability[i]
        return float(self.t[i - 1] + (self.t[i] - self.t[i - 1]) * (share - low) / (high - low))


def growth_of(t: np.ndarray, V: np.ndarray, exact: np.ndarray) -> Growth | None:
    """The exponential growth of V (P, P) over the last half of the times t (P,); None where V grows otherwise, or several modes
    mix. exact (P,): which columns of V are entries at single times."""
    late = np.flatnonzero(t >= t[-1] / 2)
    diagonal = np.diag(V)[late]
    if len(late) < 4 or not np.all(diagonal > 0) or diagonal[-1] < GROWS * diagonal[0]:
        return None
    log, middle = np.log(diagonal), len(late) // 2
    rates = [np.polyfit(t[late][part], log[part], 1)[0] / 2 for part in (slice(None, middle), slice(middle, None))]
    first, last = np.flatnonzero(exact & (t <= t[late[0]]))[-1], late[-1]
    shared = V[last, first] ** 2 / (V[last, last] * V[first, first])
    if min(rates) <= 0 or abs(rates[1] - rates[0]) > STEADY * sum(rates) / 2 or shared < ONE_MODE:
        return None
    slope, start = np.polyfit(t[late], log, 1)
    return Growth(float(slope / 2), float(np.exp(start)))


def check_level(b: float, N: int) -> None:
    """UserError for a level or a dimension that makes no sense; a warning for a level outside the theory."""
    if not (np.isfinite(b) and b > 0):
        raise UserError(f"escape: level b = {b:g} must be above 0 (and below {HIGHEST:g}, where m still moves linearly)")
    if N < 2:
        raise UserError(f"escape: dimension N = {N} must be 2 at least")
    if b > HIGHEST:
        warnings.warn(f"escape: level b = {b:g} is above {HIGHEST:g}: the theory is linear in m, and holds for small m "
                      "alone", DmftWarning, stacklevel=4)


def first_passage(t: np.ndarray, X: np.ndarray, variance: np.ndarray, b: float, N: int, growth: Growth | None = None) -> EscapeLaw:
    """The law of the first time at which |X| >= b sqrt(N) from paths X (paths, P) on the times t; variance (P,): V(t, t)."""
    check_level(b, N)
    known = np.isfinite(variance)
    share = np.mean(np.maximum.accumulate(np.abs(X[:, known]) >= b * np.sqrt(N), axis=1), axis=0)
    bound = scipy.special.erfc(b * np.sqrt(N / (2 * np.maximum(variance[known], 1e-300))))
    return EscapeLaw(b, N, t[known], share, np.sqrt(share * (1 - share) / len(X)), bound, growth)
