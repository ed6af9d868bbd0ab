"""What the samples of a solution carry from step to step: where they stand, their past, and the loss at the present step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dmft.equations.history import Plan


class SampleState(NamedTuple):
    """Where the samples stand at step n, each (count,)."""

    weight: np.ndarray
    batch_index: np.ndarray  # in the stream of mini-batches
    noise_index: np.ndarray  # in the stream of normals
    sign: np.ndarray  # of these normals
    tangent_index: np.ndarray  # in the arrays of tangents, -1 for a sample without
    k: np.ndarray  # coefficient of the input along w0
    y: np.ndarray  # label
    sd: np.ndarray  # spread of the input
    h: np.ndarray
    s: np.ndarray  # mini-batch weight; GONE for a sample that is lost
    Y: np.ndarray  # response of h_n to h0 through the label alone, of the control variate


class Learning(NamedTuple):
    """What the averages need besides, each (count,)."""

    slope: np.ndarray  # derivative of the label in h0
    direct: np.ndarray  # weight of g in what mu has besides E_n, where that needs no Y
    wrong: np.ndarray  # 1 where the predicted label is not y, at the present step


class Past(NamedTuple):
    """Sums over the steps of each block of the history, each (count, slots).

    With a dyadic history H, X and Y are in single precision, as the tangents are: that rounding of chi is small beside the white
    part which every chi_n carries (equations/noise.py). G is in double always: M_C is positive as the Gram matrix of one set of g,
    and sums of g that are rounded as blocks merge would make pivots negative that the jitter does not outweigh."""

    H: np.ndarray  # of h
    G: np.ndarray  # of g
    X: np.ndarray  # of chi
    Y: np.ndarray  # of the control variate's Y; (count, 0) where it is not used


class Fields(NamedTuple):
    """The loss at the present step, each (count,): v, g = (s/l) sd v', g' = (s/l) sd^2 v'', and (s/l) sd dv'/dy dy/dh0."""

    v: np.ndarray
    g: np.ndarray
    gp: np.ndarray
    g_y: np.ndarray


class Step(NamedTuple):
    """Where step n goes: the new slot, blocks to merge, and how rows of tangents lie (equations/history.py)."""

    n: int
    eta: float
    stein: bool
    block: int  # samples of a block
    merges: np.ndarray
    slot: int
    offset: np.ndarray
    stop: np.ndarray
    # as in Bounds (a prange takes no tuple within a tuple)
    tangent_flush: float
    tangent_max: float
    y_max: float

    @classmethod
    def to(cls, plan: Plan, samples: Any) -> Step:
        """The step from where the samples (Samples or CommitteeSamples) are."""
        bounds = samples.bounds
        return cls(samples.n, float(samples.experiment.eta_n[samples.n]), samples.stein, samples.block, plan.merges, plan.slot,
                   samples.offset, samples.stop, bounds.tangent_flush, bounds.tangent_max, bounds.y_max)


class RowTerms(NamedTuple):
    """What the sums of a row are made of."""

    m: float
    eta: float
    stein: bool
    identity: bool
    classes: bool
    y_outlier: float  # as in Bounds
    tangent_sum_max: float


class Randomness(NamedTuple):
    """What noise and mini-batches of the samples are drawn from: keys of the streams, and what is drawn already."""

    noise: np.uint64
    batch: np.uint64
    z_first: np.ndarray  # (count, steps) the first normals of chi
    changes: np.ndarray  # (count, changes) of the mini-batch
    shift: np.ndarray  # (count,) of chi, where clones tell of it, or (0,)


MOVING = ("h", "s", "Y")  # of SampleState; the rest is drawn again


def by_name(state: SampleState, past: Past) -> dict[str, np.ndarray]:
    """The arrays with a line per sample that a step changes, as "part/name"."""
    parts = {"state": {name: getattr(state, name) for name in MOVING}, "past": past._asdict()}
    return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
