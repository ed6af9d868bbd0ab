"""What the samples of a solution carry from step to step: where they stand, their past, and the loss at the present step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SampleState(NamedTuple):
    """Where the samples stand at step n, each (count,)."""

    weight: np.ndarray
    name: np.ndarray  # names the mini-batches of a sample
    noise_name: np.ndarray  # names its normals
    sign: np.ndarray  # of these normals
    line: np.ndarray  # where its tangents are, -1 for a sample without
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


MOVING = ("h", "s", "Y")  # of SampleState; the rest is drawn again


def by_name(state: SampleState, past: Past) -> dict[str, np.ndarray]:
    """The arrays with a line per sample that a step changes, as "part/name"."""
    parts = {"state": {name: getattr(state, name) for name in MOVING}, "past": past._asdict()}
    return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
