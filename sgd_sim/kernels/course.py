"""A run as plain numbers for compiled loops: the rule, which holds for all steps, and the settings of every single step."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numba import cfunc, njit

from dmft.model.curves import CurveDefinition
from dmft.model.experiment import Experiment, observables_of
from dmft.model.losses import Loss, built_in, get_loss
from dmft.model.minibatches import Epochs, MiniBatch
from dmft.model.runfile import Run
from dmft.model.sample_averages import averages
from sgd_sim.kernels import minibatch
from sgd_sim.kernels.formulas import HEAVY_BALL, NESTEROV, NO_MOMENTUM


class Rule(NamedTuple):
    """What holds for all steps: labels, constraint, kinds of mini-batch and of momentum."""

    absolute: bool        # True: the error on fresh samples is that of |h| (losses blind to the sign); False: that of h
    anchored: bool        # labels are h0, and fields are computed from the deviation from w0
    power: float          # where labels are not h0, the error on fresh samples compares |h|^power with them (0: h itself)
    bias: bool            # an intercept is learnt
    sphere: bool
    batch: int            # kind of mini-batch
    momentum: int


class Course(NamedTuple):
    """The settings of every step 0..steps (nothing is drawn or moved at the last), or one entry if all steps are alike."""

    eta: np.ndarray
    ridge: np.ndarray
    scale: np.ndarray         # 1/l, or 1 without rescaling
    noise: np.ndarray         # sqrt(2 T eta (1 - beta))
    beta: np.ndarray
    enter: np.ndarray         # thresholds of random words: of P(s = 1) in a first draw, P(0 -> 1), P(1 -> 0)
    switch_on: np.ndarray
    switch_off: np.ndarray
    v: np.ndarray             # addresses of the compiled functions of the loss
    dv: np.ndarray
    is_wrong: np.ndarray
    loss: np.ndarray          # number of the loss
    averages: np.ndarray      # (observables,) addresses, at all steps
    draws: np.ndarray         # (.., 3): first and last place of the mini-batch in an order of all rows, and the key of that order


class Pace(NamedTuple):
    """The settings of one step."""

    eta: float
    ridge: float
    scale: float
    noise: float
    beta: float
    enter: int
    switch_on: int
    switch_off: int
    v: int
    dv: int
    is_wrong: int
    first_place: int
    last_place: int
    order: int


@njit(cache=True, nogil=True)
def pace_of(course, step):
    """The Pace of a step."""
    k = min(step, course.eta.size - 1)
    draw = course.draws[min(step, course.draws.shape[0] - 1)]
    return Pace(course.eta[k], course.ridge[k], course.scale[k], course.noise[k], course.beta[k], course.enter[k],
                course.switch_on[k], course.switch_off[k], course.v[k], course.dv[k], course.is_wrong[k], draw[0], draw[1], draw[2])


@cache
def _compiled(loss: Loss):
    """v, dv and is_wrong (1 or 0) of a loss as C functions; cached, since kernels hold their addresses."""
    v, dv, is_wrong = loss.v, loss.dv, loss.is_wrong
    compiled = cfunc("float64(float64, float64)", cache=built_in(loss.name))
    return (compiled(lambda f, y: v(f, y)), compiled(lambda f, y: dv(f, y)),
            compiled(lambda f, y: 1.0 if is_wrong(f, y) else 0.0))


@cache
def _compiled_value(curve: CurveDefinition):
    """The value of an observable as a C function."""
    value = curve.value
    compiled = cfunc("float64(float64, float64, float64)", cache=not curve.source)
    return compiled(lambda f, y, h0: 1.0 * value(f, y, h0))


def make_rule(run: Run) -> Rule:
    """The rule of a run."""
    experiment = Experiment.from_run(run)
    data, powers = experiment.data, {"abs": 1.0, "square": 2.0}
    update = experiment.update
    momentum = NO_MOMENTUM if update.plain else NESTEROV if update.nesterov else HEAVY_BALL
    return Rule(data.kind != "field", data.plain, powers.get(data.kind, 0.0), data.bias,
                experiment.constraint.fixes_norm, minibatch.kind_of(experiment.batch, run.algorithm.minibatch), momentum)


def make_course(run: Run, samples: int) -> Course:
    """The settings of all steps of a run with `samples` data rows."""
    names = [run.problem.loss, *(phase["loss"] for phase in run.algorithm.phase if "loss" in phase)]
    known = tuple(get_loss(name) for name in names), averages(observables_of(run))
    return _course(run, samples, *known)     # the cache must notice a name registered anew


@lru_cache(maxsize=4)
def _course(run: Run, samples: int, _: tuple[Loss, ...], observed: tuple[CurveDefinition, ...]) -> Course:
    """`make_course`, kept for a run, its losses and its observables."""
    experiment, kind = Experiment.from_run(run), make_rule(run).batch
    steps, which = experiment.steps, experiment.loss_n
    addresses = np.array([[function.address for function in _compiled(loss)] for loss in experiment.losses])
    noise = np.sqrt(2.0 * experiment.temperature * experiment.eta_n * (1.0 - experiment.update.beta))
    columns = [experiment.eta_n, experiment.ridge_n, experiment.scale_n, noise, experiment.update.beta, *_chances(experiment)]
    alike = len(experiment.losses) == 1 and all(np.all(column == column[0]) for column in columns)
    columns = [column[:1] if alike else np.append(column, column[-1]) for column in columns]
    which = which[:1] if alike else which
    columns += [*addresses[which].T, which, np.array([_compiled_value(curve).address for curve in observed], np.int64)]
    draws = np.zeros((1, 3), np.int64)
    if kind in minibatch.FIXED_SIZE:
        batches = experiment.batches
        draws = np.concatenate([_places(law, np.flatnonzero(batches.which == k), samples) for k, law in enumerate(batches.laws)])
        draws = np.append(draws[np.argsort(draws[:, 3]), :3], [[0, 0, steps]], axis=0)
    return Course(*map(np.ascontiguousarray, [*columns, draws]))


def _chances(experiment: Experiment) -> list[np.ndarray]:
    """(3, steps) thresholds of the draw of every step. The transition from s(n-1) to s(n) is that of the chain of step n-1."""
    batches, which = experiment.batches, experiment.batches.which
    if len(batches.laws) == 1:
        chances = (batches.law(0).fraction, batches.chain(0).p_on, batches.chain(0).p_off)
        return [np.broadcast_to(np.int64(minibatch.threshold(p)), experiment.steps) for p in chances]
    pairs = np.append(-1, which[:-1] * len(batches.laws) + which[1:])     # the first step has no predecessor
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    chains = [batches.chain(max(0, int(n) - 1)) for n in first]
    moves = np.array([[minibatch.threshold(p) for p in (chain.p_on, chain.p_off)] for chain in chains], np.int64)
    enter = np.array([minibatch.threshold(law.fraction) for law in batches.laws], np.int64)
    return [enter[which], *moves[inverse.reshape(-1)].T]


def _places(law: MiniBatch, step: np.ndarray, samples: int) -> np.ndarray:
    """(steps, 4) for mini-batches of fixed size: first and last place in an order of all rows, the key of that order (new for every
    step or epoch, or one for all), and the step. The steps of an epoch divide all rows as evenly as possible."""
    if not isinstance(law, Epochs):
        first, last, key = np.zeros_like(step), np.full_like(step, max(1, round(law.fraction * samples))), step
    else:
        since = (step - law.begin) % law.period
        first, last = since * samples // law.period, (since + 1) * samples // law.period
        key = np.full_like(step, law.begin) if law.cyclic else step - since
    return np.stack([first, last, key, step], axis=1)
