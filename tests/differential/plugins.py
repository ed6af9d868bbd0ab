"""Losses as users register them: every kind of labels, even and not, with a jump in the label and with a slope that jumps."""

from __future__ import annotations

import numpy as np
from numba import njit

import dmft
from dmft.model.links import register_link

SOFT_ABS, CUT_SQUARE, HUBER, BUMP, MARGIN, HINGE = ("diff_soft_abs", "diff_cut_square", "diff_huber", "diff_bump", "diff_margin",
                                                    "diff_hinge")
WRONG_SIDE = "diff_wrong_side"      # an observable
FADED = "diff_faded"                # a label of networks whose noise is a factor
# loss: what its labels are, as registered
PLUGINS = {SOFT_ABS: "abs", CUT_SQUARE: "square", HUBER: "field", BUMP: "", MARGIN: "sign", HINGE: "sign"}
# Compiled here, so that whoever registers them again does not compile them again: v, dv, d2v.
FUNCTIONS = {name: tuple(map(njit, functions)) for name, functions in {
    SOFT_ABS: (lambda f, y: 0.5 * (np.sqrt(f * f + 0.1) - np.sqrt(y * y + 0.1)) ** 2,
               lambda f, y: f - f * np.sqrt(y * y + 0.1) / np.sqrt(f * f + 0.1),
               lambda f, y: 1.0 - 0.1 * np.sqrt(y * y + 0.1) / (f * f + 0.1) ** 1.5),
    CUT_SQUARE: (lambda f, y: 0.25 * (f * f - y) ** 2 if y < 3.0 else 0.0 * f,
                 lambda f, y: f * (f * f - y) if y < 3.0 else 0.0 * f,
                 lambda f, y: 3.0 * f * f - y if y < 3.0 else 0.0 * f),
    HUBER: (lambda f, y: np.sqrt(1.0 + (f - y) ** 2) - 1.0, lambda f, y: (f - y) / np.sqrt(1.0 + (f - y) ** 2),
            lambda f, y: (1.0 + (f - y) ** 2) ** -1.5),
    BUMP: (lambda f, y: 1.0 - np.exp(-0.5 * (f - y) ** 2), lambda f, y: (f - y) * np.exp(-0.5 * (f - y) ** 2),
           lambda f, y: (1.0 - (f - y) ** 2) * np.exp(-0.5 * (f - y) ** 2)),
    MARGIN: (lambda f, y: 0.5 * (1.0 - y * f) ** 2, lambda f, y: -y * (1.0 - y * f), lambda f, y: y * y + 0.0 * f),
    HINGE: (lambda f, y: max(1.0 - y * f, 0.0), lambda f, y: -y if y * f < 1.0 else 0.0, lambda f, y: 0.0 * f),
}.items()}


_wrong_side = njit(lambda f, y, h0: 1.0 if f * h0 < 0 else 0.0)


def _faded(u, k, zeta):
    return (1.0 + zeta) * np.tanh(u[0])


def register() -> None:
    """Register them, an observable, and a label of networks."""
    register_link(FADED, _faded)
    dmft.register_observable(WRONG_SIDE, _wrong_side, label="wrong side", meaning="share on the wrong side")
    for name, functions in FUNCTIONS.items():
        dmft.register_loss(name, *functions, labels=PLUGINS[name], convex=name in (HUBER, MARGIN))
