"""Where gradient descent ends on a convex loss: the static fixed point of the theory, without samples (docs/data-models.md).

At long times h = zeta - V g with V = lim eta sum_k R(n, k). With D = sd^2, omega = sd (m k + sqrt(Q) xi) + b and Q = q - m^2,

    f + D V v'(f, y) = omega ,  gh = v'(f, y)          (f: the field of a training sample, gh a function of omega and y)
    m = alpha V (m <D dgh/domega> - <sd k gh>) ,   Q = alpha V^2 <D gh^2> ,
    1/V = lambda + alpha <D dgh/domega> ,   <gh> = 0 where b is learnt.

On the sphere q = 1 is given and lambda, the multiplier, is found. Averages are integrals over omega alone, given which the law of
k and y is known; they are cut where v'' jumps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dmft.core.errors import RunError
from dmft.model.experiment import Experiment
from dmft.model.loss import Loss
from dmft.model.mixture import Mixture
from dmft.model.runfile import Run
from dmft.model.teacher import Teacher

PANEL, REACH, NODES = 0.5, 10.0, 16  # panels of omega, in standard deviations, and nodes in each
TOLERANCE, MOST_ROUNDS = 1e-13, 20_000
NEWTON = 80


@dataclass(frozen=True)
class ConvexLimit:
    """The end of gradient descent. V: integrated response; nu_hat: the ridge, or the multiplier of the sphere."""

    m: float
    q: float
    V: float
    nu_hat: float
    b: float
    loss: float
    training_error: float | None  # where labels are signs
    errors: dict[str, float]  # on new samples: error or mse


class _Averages(NamedTuple):
    """Over training samples at given m, q, V, b."""

    pull: float  # m <D dgh/domega> - <sd k gh>
    squares: float  # <D gh^2>
    stiffness: float  # <D dgh/domega>
    push: float  # <gh>
    push_slope: float  # <dgh/domega>
    loss: float
    wrong: float


class _Part(NamedTuple):
    """Samples of one label: nodes of omega with weights that add up to their share, and <k | omega, y> (not for clusters)."""

    omega: np.ndarray
    weight: np.ndarray
    y: float
    D: float
    k: np.ndarray | None
    c: float


def fixed_point(run: Run) -> ConvexLimit:
    """The long-time limit of gradient descent of a run. RunError where there is none in closed form."""
    experiment = Experiment.from_run(run)
    data = experiment.data
    if not data.loss.convex:
        raise RunError(f'[problem] loss = "{data.loss.name}": not convex, so gradient descent has no end that could be computed '
                       "beforehand; linear, logistic and smooth_hinge have")
    if len(experiment.losses) > 1 or np.any(experiment.ridge_n != experiment.ridge_n[0]):
        raise RunError("[algorithm] phase: the limit is known for one loss and one ridge; leave out what changes them")
    if run.algorithm.kind != "gd" or np.any(experiment.temperature > 0):
        raise RunError(f'[algorithm] kind = "{run.algorithm.kind}": mini-batches and heat keep the weights moving; the limit is '
                       'that of kind = "gd" at temperature 0')
    return _solve(experiment)


def known_limits(run: Run) -> dict[str, float]:
    """The limit of every curve that has one, by name; empty where there is no fixed point in closed form."""
    try:
        found = fixed_point(run)
    except RunError:
        return {}
    return {"m": found.m, "q": found.q, "loss": found.loss, "nu_hat": found.nu_hat, "b": found.b, **found.errors,
            **({"training_error": found.training_error} if found.training_error is not None else {})}


def _solve(e: Experiment) -> ConvexLimit:
    """Iterate the equations, damped by one half."""
    data, alpha, sphere = e.data, e.alpha, e.constraint.fixes_norm
    m, q, V, b, nu = 0.1, 1.0, 1.0, 0.0, e.constraint.decay
    for _ in range(MOST_ROUNDS):
        a = _averages(data, m, q, V, b)
        m_new = alpha * V * a.pull
        if sphere:
            V_new = np.sqrt(max(1.0 - m**2, 1e-300) / (alpha * a.squares))
            q_new, nu_new = 1.0, 1.0 / V - alpha * a.stiffness
        else:
            V_new, nu_new = 1.0 / (nu + alpha * a.stiffness), nu
            q_new = alpha * V**2 * a.squares + m**2
        b_new = b - a.push / a.push_slope if data.bias else 0.0
        if sphere:
            m_new = np.clip(m_new, -0.999999, 0.999999)
        step = np.array([m_new - m, q_new - q, V_new - V, b_new - b])
        m, q, V, b, nu = m + 0.5 * step[0], q + 0.5 * step[1], V + 0.5 * step[2], b + 0.5 * step[3], nu_new
        if not np.all(np.isfinite(step)) or q > 1e12 or V > 1e12:
            break
        if np.max(np.abs(step)) < TOLERANCE * max(1.0, q, V):
            a = _averages(data, m, q, V, b)
            errors = {name: float(value) for name, value in data.errors(np.array(m), np.array(q), b).items()}
            return ConvexLimit(float(m), float(q), float(V), float(nu), float(b), float(a.loss),
                              float(a.wrong) if data.classifies else None, errors)
    raise RunError("[problem]: no fixed point was found: the weights grow without bound (separable labels without a ridge), or the "
                   "sphere pulls outwards; take a larger ridge")


# --- averages ---------------------------------------------------------------------------------------------

def _averages(data: Teacher | Mixture, m: float, q: float, V: float, b: float) -> _Averages:
    if isinstance(data, Teacher) and not data.classifies:
        return _moments(data, m, q, V, b)
    return _integrals(data, m, q, V, b)


def _moments(data: Teacher, m: float, q: float, V: float, b: float) -> _Averages:
    """The square loss with labels that are numbers: gh = (omega - y)/(1 + V), so that <k y> and <y^2> are all it takes."""
    ky = 1.0 if data.kind == "field" else 0.0
    yy = (3.0 if data.kind == "square" else 1.0) + data.label_noise
    slope = 1.0 / (1.0 + V)
    squares = slope**2 * (q - 2.0 * m * ky + yy)
    return _Averages(m * slope - slope * (m - ky), squares, slope, 0.0, slope, 0.5 * squares, np.nan)


def _integrals(data: Teacher | Mixture, m: float, q: float, V: float, b: float) -> _Averages:
    """Labels that are a sign, or belong to a cluster."""
    total = np.zeros(7)
    loss = data.loss
    for part in _parts(data, m, q, V, b):
        y, DV = np.full_like(part.omega, part.y), part.D * V
        f = prox(loss, part.omega, y, DV)
        gh, curvature = loss.dv(f, y), loss.d2v(f, y)
        slope = curvature / (1.0 + DV * curvature)
        score = f * f - loss.threshold**2 if loss.threshold > 0 else f
        # <sd k gh> of a cluster is <c gh> + m <D dgh/domega>, by parts in the noise along w0
        pull = -part.c * gh if part.k is None else m * slope - part.k * gh
        terms = (pull, part.D * gh**2, part.D * slope, gh, slope, loss.v(f, y), 1.0 * (y * score < 0))
        total += [part.weight @ term for term in terms]
    return _Averages(*total)


def _parts(data: Teacher | Mixture, m: float, q: float, V: float, b: float) -> Iterator[_Part]:
    if isinstance(data, Mixture):
        for c, probability, label, D in data.clusters:
            omega, weight = _nodes(data.loss, c * m + b, np.sqrt(D * q), label, D * V)
            yield _Part(omega, probability * weight, label, D, None, c)
        return
    # k given omega ~ N(0, q) is N(m omega/q, Q/q); the label is the sign of k + sqrt(Delta) zeta, perhaps flipped
    left, p = max(q - m**2, 1e-300) / q, data.flip
    spread = np.sqrt(left + data.label_noise)
    for y in (1.0, -1.0):
        omega, weight = _nodes(data.loss, 0.0, np.sqrt(q), y, V)
        mean = m * omega / q
        share = p + (1.0 - 2.0 * p) * ndtr(y * mean / spread)
        bump = left / spread * np.exp(-0.5 * (mean / spread)**2) / np.sqrt(2.0 * np.pi)
        k = p * mean + (1.0 - 2.0 * p) * (mean * ndtr(y * mean / spread) + y * bump)
        yield _Part(omega, weight * share, y, 1.0, k / np.maximum(share, 1e-300), 0.0)


def _nodes(loss: Loss, centre: float, spread: float, y: float, DV: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of omega ~ N(centre, spread^2), in panels that end where v'' jumps or f changes sign."""
    kinks = [(y * at + DV * loss.dv(y * at, y) - centre) / spread for at in (0.0, *loss.kinks)]
    ends = np.unique(np.concatenate([np.arange(-REACH, REACH + PANEL / 2, PANEL), [x for x in kinks if abs(x) < REACH]]))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = 0.5 * np.diff(ends)[:, None]
    x = (ends[:-1, None] + half * (nodes + 1.0)).ravel()
    weight = (half * weights).ravel() * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
    return centre + spread * x, weight


def prox(loss: Loss, omega: np.ndarray, y: np.ndarray, DV: float) -> np.ndarray:
    """f with f + D V v'(f, y) = omega, for a convex loss: Newton's method between bounds."""
    other = omega - DV * loss.dv(omega, y)
    low, high = np.minimum(omega, other), np.maximum(omega, other)
    f = 0.5 * (low + high)
    for _ in range(NEWTON):
        gap = f + DV * loss.dv(f, y) - omega
        low, high = np.where(gap < 0, f, low), np.where(gap < 0, high, f)
        new = f - gap / (1.0 + DV * loss.d2v(f, y))
        new = np.where((new < low) | (new > high), 0.5 * (low + high), new)
        if np.max(np.abs(new - f)) < 1e-15 * (1.0 + np.max(np.abs(f))):
            return new
        f = new
    return f
