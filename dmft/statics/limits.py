"""Where gradient descent ends on a convex loss: the static fixed point of the theory, without samples (docs/data-models.md).

At long times h = zeta - V g with V = lim eta sum_k R(n, k). With D = sd^2, omega = sd (m k + sqrt(Q) xi) + b and Q = q - m^2,

    f + D V v'(f, y) = omega ,  gh = v'(f, y)          (f: the field of a training sample, gh a function of omega and y)
    m = alpha V (m <D dgh/domega> - <sd k gh>) ,   Q = alpha V^2 <D gh^2> ,
    1/V = lambda + alpha <D dgh/domega> ,   <gh> = 0 where b is learnt.

On the sphere q = 1 is given (or the norm that another constraint fixes) and lambda, the multiplier, is found. Averages are those of
limit_averages.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import root

from dmft.core.errors import RunError, UserError
from dmft.model.experiment import Experiment
from dmft.model.runfile import Run
from dmft.statics.limit_averages import averages

FIXED_POINT_TOLERANCE = 1e-12
DAMPING = (0.5, 0.1, 0.02)  # share of the new point in the iteration; the next one where the last made it swing ever wider
ROUNDS, POWELL_TRIES = 40, 8  # rounds of the iteration before Powell's method, and how often the two are tried
LARGEST, TINY = 1e6, 1e-9  # bounds of Q and V; TINY also of the slope that moves the intercept
NOWHERE = ("[problem]: no fixed point was found: the weights grow without bound (separable labels without a ridge), or the sphere "
           "pulls outwards; take a larger ridge")


@dataclass(frozen=True)
class ConvexLimit:
    """The end of gradient descent. response: of the weights to a constant force, V of the equations; nu_hat: the ridge, or the
    multiplier of the sphere."""

    m: float
    q: float
    response: float
    nu_hat: float
    b: float
    loss: float
    training_error: float | None  # where labels are signs
    errors: dict[str, float]  # on new samples: error or mse

    @property
    def cosine(self) -> float:
        """Of the angle between the weights and the teacher, m/sqrt(q); that of the posterior mean is `BayesOptimal.cosine`."""
        return self.m / np.sqrt(self.q) if self.q > 0 else 0.0


def fixed_point(run: Run) -> ConvexLimit:
    """The long-time limit of gradient descent of a run. RunError where there is none in closed form."""
    if run.has_network:
        raise RunError("[network]: gradient descent of a network has no end that could be computed beforehand")
    experiment = Experiment.from_run(run)
    data = experiment.data
    if not data.sampled:
        raise RunError(f'[problem] data = "{data.name}": the limit is that of a convex loss of samples; docs/closed-models.md says '
                       "where descent ends here")
    if not (data.taught or data.clustered):
        raise RunError(f'[problem] data = "{data.name}": where descent ends is known for a teacher and for clusters alone')
    if not data.loss.convex:
        raise RunError(f'[problem] loss = "{data.loss.name}": not convex, so gradient descent has no end that could be computed '
                       "beforehand; linear, logistic, smooth_hinge and losses registered with convex=True have")
    if experiment.constraint.rescales and not experiment.constraint.fixes_norm:
        raise RunError(f'[problem] constraint = "{experiment.constraint.name}": the limit is known where the norm is fixed or '
                       "free; take sphere or ridge")
    if len(experiment.losses) > 1:
        raise RunError("[algorithm] phase: the limit is known for one loss; leave out what changes it")
    if np.any(experiment.ridge_n != experiment.ridge_n[0]):
        raise RunError("[problem] ridge: it changes in time, and the limit is known for one ridge; give a number")
    draws = run.algorithm.make_kind().draws
    if draws or np.any(experiment.temperature > 0):
        key = f'kind = "{run.algorithm.kind}"' if draws else "temperature > 0"
        raise RunError(f'[algorithm] {key}: mini-batches and heat keep the weights moving; the limit is that of kind = "gd" at '
                       "temperature 0")
    return _solve(experiment)


def known_limits(run: Run) -> dict[str, float]:
    """The limit of every curve that has one, by name; empty where there is no fixed point in closed form."""
    try:
        found = fixed_point(run)
    except UserError:  # no closed form, or a loss that is not registered here
        return {}
    return {"m": found.m, "q": found.q, "loss": found.loss, "nu_hat": found.nu_hat, "b": found.b, **found.errors,
            **({"training_error": found.training_error} if found.training_error is not None else {})}


def _solve(e: Experiment) -> ConvexLimit:
    """The fixed point by damped iteration, with more damping where it swings ever wider: clusters of small spread have a map for m
    of large negative slope. Where V grows too there is no fixed point."""
    for damping in DAMPING:
        point, converged = _iterated(e, damping)
        if converged:
            return _limit(e, point)
        if not point[2] <= LARGEST:
            break
    raise RunError(NOWHERE)


def _iterated(e: Experiment, damping: float) -> tuple[np.ndarray, bool]:
    """(m, Q, V, b) by damped iteration until Powell's method takes over, because a sphere near its free minimum, or a small ridge,
    converges slowly; and whether that converged, or the point left all bounds. RunError where it does neither."""
    point = np.array([0.1, 1.0, 1.0, 0.0])
    for _ in range(POWELL_TRIES):
        for _ in range(ROUNDS):
            point = point + damping * (_mapped(e, point)[0] - point)
            if not np.all(np.isfinite(point)) or max(point[1], point[2]) > LARGEST:
                return point, False
        found = root(lambda x: _mapped(e, x)[0] - x, point, tol=1e-15)
        left = _mapped(e, found.x)[0] - found.x
        if np.all(np.isfinite(left)) and np.max(np.abs(left)) < FIXED_POINT_TOLERANCE * max(1.0, *found.x[1:3]):
            return found.x, True
    raise RunError(NOWHERE)


def _mapped(e: Experiment, point: np.ndarray) -> tuple[np.ndarray, float]:
    """(m, Q, V, b) by the right-hand sides at (m, Q, V, b), and the multiplier."""
    m, Q, V, b = point
    Q, V = max(Q, TINY), max(V, TINY)  # Powell's method may step beyond
    nu, alpha, norm = float(e.ridge_n[0]), e.alpha, e.constraint.norm
    if norm is not None:
        m = np.clip(m, TINY - np.sqrt(norm), np.sqrt(norm) - TINY)
        Q = norm - m**2
    a = averages(e.data, m, Q + m * m, V, b)
    # Far from the fixed point, where Powell's method may look, all samples can be on flat parts of v'.
    m_new, b_new = alpha * V * a.m_hat, b - a.push / max(a.push_slope, TINY) if e.data.bias else 0.0
    if norm is not None:
        return np.array([m_new, Q, np.sqrt(Q / (alpha * a.squares)), b_new]), 1.0 / V - alpha * a.stiffness
    return np.array([m_new, alpha * V**2 * a.squares, 1.0 / (nu + alpha * a.stiffness), b_new]), nu


def _limit(e: Experiment, point: np.ndarray) -> ConvexLimit:
    """Everything that is known at the fixed point."""
    m, Q, V, b = map(float, point)
    q = Q + m * m if e.constraint.norm is None else e.constraint.norm
    a = averages(e.data, m, q, V, b)
    errors = {name: float(value) for name, value in e.data.errors(np.array(m), np.array(q), b).items()}
    wrong = float(a.wrong) if e.data.classifies else None
    return ConvexLimit(m, q, V, float(_mapped(e, point)[1]), b, float(a.loss), wrong, errors)
