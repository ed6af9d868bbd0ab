"""The losses v(f, y) of one sample, with their derivatives, as functions that Numba can inline.

f is the student's field, y the label (the teacher's field h0, or what the data model makes of it); primes are derivatives
in f. Run files name a loss; `register_loss` adds a user's own. The losses of classification are in classification.py.

Those of the package are register_jitable, not njit: a function compiled by itself would defeat Numba's on-disk cache of its caller,
which every process would compile again.
"""

from __future__ import annotations

from typing import ClassVar

from numba.extending import register_jitable

from dmft.core.user_functions import check_own_name
from dmft.model import classification as classification  # its losses register themselves
from dmft.model import registry
from dmft.model.loss import Loss, Scalar
from dmft.model.loss_family import LossFamily, checked_loss


@register_jitable
def _phase_v(f, y):
    d = f * f - y * y
    return 0.25 * d * d


@register_jitable
def _phase_dv(f, y):
    return f * (f * f - y * y)


@register_jitable
def _phase_d2v(f, y):
    return 3.0 * f * f - y * y


@register_jitable
def _phase_dv_dy(f, y):
    return -2.0 * f * y


# The same over 1 + y^2, which bounds the curvature from below by -1.
@register_jitable
def _normalised_v(f, y):
    d = f * f - y * y
    return 0.25 * d * d / (1.0 + y * y)


@register_jitable
def _normalised_dv(f, y):
    return f * (f * f - y * y) / (1.0 + y * y)


@register_jitable
def _normalised_d2v(f, y):
    return (3.0 * f * f - y * y) / (1.0 + y * y)


@register_jitable
def _normalised_dv_dy(f, y):
    return -2.0 * f * y * (1.0 + f * f) / (1.0 + y * y) ** 2


@register_jitable
def _linear_v(f, y):
    return 0.5 * (f - y) ** 2


@register_jitable
def _linear_dv(f, y):
    return f - y


@register_jitable
def _linear_d2v(f, y):
    return 1.0 + 0.0 * f


@register_jitable
def _linear_dv_dy(f, y):
    return -1.0 + 0.0 * f


# Phase retrieval with labels y = h0^2: v = (f^2 - y)^2/4.
@register_jitable
def _square_v(f, y):
    return 0.25 * (f * f - y) ** 2


@register_jitable
def _square_dv(f, y):
    return f * (f * f - y)


@register_jitable
def _square_d2v(f, y):
    return 3.0 * f * f - y


@register_jitable
def _square_dv_dy(f, y):
    return -f + 0.0 * y


PHASE = Loss("phase_retrieval", _phase_v, _phase_dv, _phase_d2v, _phase_dv_dy, labels="abs", accepts=("abs", "square"))
PHASE_OF_SQUARES = Loss("phase_retrieval", _square_v, _square_dv, _square_d2v, _square_dv_dy, labels="square",
                        accepts=("square",))
NORMALISED = Loss("normalised_phase_retrieval", _normalised_v, _normalised_dv, _normalised_d2v, _normalised_dv_dy, labels="abs",
                  accepts=("abs",))
LINEAR = Loss("linear", _linear_v, _linear_dv, _linear_d2v, _linear_dv_dy, labels="field", convex=True)


class PhaseRetrieval(LossFamily, name="phase_retrieval"):
    """(f^2 - y^2)^2/4 for labels |h0|; (f^2 - y)^2/4 for labels h0^2."""

    def make(self, labels: str = "") -> Loss:
        return PHASE_OF_SQUARES if labels == "square" else PHASE


class NormalisedPhaseRetrieval(LossFamily, name="normalised_phase_retrieval"):
    """(f^2 - y^2)^2/(4 (1 + y^2)) for labels |h0|."""

    def make(self, labels: str = "") -> Loss:
        return NORMALISED


class Linear(LossFamily, name="linear"):
    """(f - y)^2/2."""

    def make(self, labels: str = "") -> Loss:
        return LINEAR


def built_in(name: str) -> bool:
    """Whether a loss comes with the package."""
    family = registry.find("loss", name)
    return family is not None and family.built_in


def get_loss(name: registry.Named) -> Loss:
    """The loss of that name, its keys at their defaults, or of a table with its keys; UserError when there is none."""
    return registry.make(LossFamily, name).make()


def register_loss(name: str, v: Scalar, dv: Scalar, d2v: Scalar, dv_dy: Scalar | None = None, cuda: str = "",
                  labels: str = "", convex: bool = False) -> Loss:
    """Make a user's loss known under `name`: elementwise v, dv/df and d2v/df2 of (f, y).

    `labels` says what the label of a sample is, and what the prediction: "field" (h0 and f), "abs" (|h0| and |f|; v must be even in
    y, which may carry the sign of h0), "square" (h0^2 and f^2) or "sign" (the signs of both). It is the default of run files with
    this loss, and decides what errors on new samples mean; without it y = h0, and results have no error on new samples.

    The functions are compiled here, and the derivatives compared with finite differences, so that a mistake is found at once
    and not in a wrong result. Without dv_dy a central difference of dv in y is used. A loss that jumps in y (as sign(y) does), at
    labels that a run reaches, is solved without the Stein control variate, which would miss the jump; one whose dv jumps in f is
    refused by the theory, whose result would be wrong without a warning: smooth it. For device = "gpu" the functions are
    translated to CUDA (dmft/core/to_cuda.py). What cannot be translated is told when a GPU is asked for; `cuda` is for such
    losses: CUDA C++ that defines loss_v, loss_dv, loss_d2v and loss_dv_dy of (f, y) as templates over the floating-point type.
    Either source is compared with the Python functions on the GPU.
    `convex` says that v is convex in f for every label: dmft.fixed_point then tells where gradient descent ends.
    """
    check_own_name("register_loss", name, [each for each in registry.names("loss") if built_in(each)])
    loss = checked_loss(f"register_loss: {name!r}", name, v, dv, d2v, dv_dy, cuda, labels, convex)

    class Registered(LossFamily, name=name):
        """The loss under its name."""

        built_in: ClassVar[bool] = False

        def make(self, labels: str = "") -> Loss:
            return loss

    return loss
