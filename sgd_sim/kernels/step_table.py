"""A run as plain numbers for compiled loops: flags, which hold for all steps, and the settings of every single step."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit
from numba.core.errors import NumbaError

from dmft.core.compiled import UNCOUNTED, said_by
from dmft.core.errors import UserError
from dmft.core.syntax import bound
from dmft.model.curves import CurveDefinition
from dmft.model.experiment import Experiment, observables_of
from dmft.model.losses import Loss, built_in, get_loss
from dmft.model.minibatches import CHAIN_CYCLIC, MiniBatch
from dmft.model.runfile import Run
from dmft.model.sample_averages import averages
from sgd_sim.kernels import minibatch


class RunFlags(NamedTuple):
    """What holds for all steps: labels, constraint, kind of mini-batch, and what the update rule needs."""

    anchored: bool        # labels are h0, and fields are computed from the deviation from w0
    power: float          # the error on fresh samples compares |h|^power with the label, or with |h0|^power (0: h itself)
    bias: bool            # an intercept is learnt
    batch: int            # kind of mini-batch
    remembers: bool       # a step needs the weights of the step before
    looks_ahead: bool     # gradients are taken at another point than the weights
    rescaling: int        # address of the constraint's factor of the weights, as a function of their |w|^2/N; 0: none


class StepTable(NamedTuple):
    """The settings of every step 0..steps (nothing is drawn or moved at the last), or one entry if all steps are alike."""

    eta: np.ndarray
    ridge: np.ndarray
    scale: np.ndarray         # 1/l, or 1 without rescaling
    noise: np.ndarray         # standard deviation of the thermal noise
    inertia: np.ndarray       # A, B and l of the update rule
    recoil: np.ndarray
    lookahead: np.ndarray
    enter: np.ndarray         # thresholds of random words: of P(s = 1) in a first draw, P(0 -> 1), P(1 -> 0)
    switch_on: np.ndarray
    switch_off: np.ndarray
    v: np.ndarray             # addresses of the compiled functions of the loss
    dv: np.ndarray
    is_wrong: np.ndarray
    loss: np.ndarray          # number of the loss
    averages: np.ndarray      # (observables,) addresses, at all steps
    draws: np.ndarray         # (.., 3): first and last place of the mini-batch in an order of all rows, and the key of that order


class StepSettings(NamedTuple):
    """The settings of one step."""

    eta: float
    ridge: float
    scale: float
    noise: float
    inertia: float
    recoil: float
    lookahead: float
    enter: int
    switch_on: int
    switch_off: int
    v: int
    dv: int
    is_wrong: int
    loss: int
    first_place: int
    last_place: int
    order: int


@njit(**UNCOUNTED, nogil=True)
def settings_of(table, step):
    """The settings of a step."""
    k = min(step, table.eta.size - 1)
    draw = table.draws[min(step, table.draws.shape[0] - 1)]
    return StepSettings(table.eta[k], table.ridge[k], table.scale[k], table.noise[k], table.inertia[k], table.recoil[k],
                        table.lookahead[k], table.enter[k], table.switch_on[k], table.switch_off[k], table.v[k], table.dv[k],
                        table.is_wrong[k], table.loss[k], draw[0], draw[1], draw[2])


@cache
def _compiled(loss: Loss):
    """v, dv and is_wrong (1 or 0) of a loss as C functions; cached, since kernels hold their addresses."""
    v, dv, is_wrong = loss.v, loss.dv, loss.is_wrong
    compiled = cfunc("float64(float64, float64)", cache=built_in(loss.name), error_model="numpy")
    return (compiled(lambda f, y: v(f, y)), compiled(lambda f, y: dv(f, y)),
            compiled(lambda f, y: 1.0 if is_wrong(f, y) else 0.0))


@cache
def _compiled_value(curve: CurveDefinition):
    """The value of an observable as a C function."""
    value = curve.value
    compiled = cfunc("float64(float64, float64, float64)", cache=not curve.source, error_model="numpy")
    return compiled(lambda f, y, h0: 1.0 * value(f, y, h0))


@cache
def _rescaling(constraint: Any):
    """The factor of the weights of a constraint as a C function of |w|^2/N."""
    try:
        return cfunc("float64(float64)", error_model="numpy")(bound(constraint.scale))
    except NumbaError as error:
        raise UserError(f'constraint "{constraint.name}": scale(q) does not compile to a number: {said_by(error)}') from None


def compiled_loss(loss: Loss) -> tuple[Any, Any]:
    """v and dv of a loss as C functions."""
    return _compiled(loss)[:2]


def make_flags(run: Run) -> RunFlags:
    """The flags of a run."""
    experiment = Experiment.from_run(run)
    data, update = experiment.data, experiment.update
    constraint: Any = experiment.constraint
    return RunFlags(data.plain, data.channel.power, data.bias, minibatch.drawn_as(experiment.batch), not update.plain,
                    update.looks_ahead, int(_rescaling(constraint).address or 0) if constraint.rescales else 0)


def make_table(run: Run, samples: int) -> StepTable:
    """The settings of all steps of a run with `samples` data rows."""
    names = [run.problem.loss, *(phase["loss"] for phase in run.algorithm.phase if "loss" in phase)]
    known = tuple(get_loss(name) for name in names), averages(observables_of(run))
    return _table(run, samples, *known)     # the cache must notice a name registered anew


@lru_cache(maxsize=4)
def _table(run: Run, samples: int, _: tuple[Loss, ...], observed: tuple[CurveDefinition, ...]) -> StepTable:
    """`make_table`, kept for a run, its losses and its observables."""
    experiment, kind = Experiment.from_run(run), make_flags(run).batch
    steps, which = experiment.steps, experiment.loss_n
    addresses = np.array([[function.address for function in _compiled(loss)] for loss in experiment.losses])
    update, noise = experiment.update, np.sqrt(experiment.heat_n)
    columns = [experiment.eta_n, experiment.ridge_n, experiment.scale_n, noise, update.A, update.B, update.ahead,
               *_chances(experiment)]
    alike = len(experiment.losses) == 1 and all(np.all(column == column[0]) for column in columns)
    columns = [column[:1] if alike else np.append(column, column[-1]) for column in columns]
    which = which[:1] if alike else which
    columns += [*addresses[which].T, which, np.array([_compiled_value(curve).address for curve in observed], np.int64)]
    draws = np.zeros((1, 3), np.int64)
    if kind in minibatch.FIXED_SIZE:
        batches, epochs = experiment.batches, kind == minibatch.EPOCHS
        draws = np.concatenate([_places(law, epochs, np.flatnonzero(batches.which == k), samples)
                                for k, law in enumerate(batches.laws)])
        draws = np.append(draws[np.argsort(draws[:, 3]), :3], [[0, 0, steps]], axis=0)
    return StepTable(*map(np.ascontiguousarray, [*columns, draws]))


def _chances(experiment: Experiment) -> list[np.ndarray]:
    """(3, steps) thresholds of the draw of every step. The transition from s(n-1) to s(n) is that of the chain of step n-1."""
    batches, which = experiment.batches, experiment.batches.which
    if len(batches.laws) == 1:
        chances = (batches.law(0).fraction, batches.chain(0).p_on, batches.chain(0).p_off)
        # full, not broadcast, which cannot be written: kernels would be compiled for arrays of this kind, too
        return [np.full(experiment.steps, minibatch.threshold(p), np.int64) for p in chances]
    pairs = np.append(-1, which[:-1] * len(batches.laws) + which[1:])     # the first step has no predecessor
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    chains = [batches.chain(max(0, int(n) - 1)) for n in first]
    moves = np.array([[minibatch.threshold(p) for p in (chain.p_on, chain.p_off)] for chain in chains], np.int64)
    enter = np.array([minibatch.threshold(law.fraction) for law in batches.laws], np.int64)
    return [enter[which], *moves[inverse.reshape(-1)].T]


def _places(law: MiniBatch, epochs: bool, step: np.ndarray, samples: int) -> np.ndarray:
    """(steps, 4) for mini-batches of fixed size: first and last place in an order of all rows, the key of that order (new for every
    step or epoch, or one for all), and the step. The steps of an epoch divide all rows as evenly as possible."""
    if not epochs:
        first, last, key = np.zeros_like(step), np.full_like(step, max(1, round(law.fraction * samples))), step
    else:
        chain = law.chain()
        since = (step - chain.begin) % chain.period
        first, last = since * samples // chain.period, (since + 1) * samples // chain.period
        key = np.full_like(step, chain.begin) if chain.kind == CHAIN_CYCLIC else step - since
    return np.stack([first, last, key, step], axis=1)
