"""The data model of a run file's [problem]."""

from __future__ import annotations

from dmft.model.classification import door
from dmft.model.losses import PHASE, PHASE_OF_SQUARES, Loss, get_loss
from dmft.model.mixture import Mixture
from dmft.model.runfile import ProblemConfig
from dmft.model.teacher import Teacher

DataModel = Teacher | Mixture


def loss_of(problem: ProblemConfig) -> Loss:
    """The loss of a run, in the form that belongs to its labels and to its width."""
    loss = get_loss(problem.loss)
    if loss.name == "door":
        return door(problem.door)
    return PHASE_OF_SQUARES if loss is PHASE and problem.labels == "square" else loss


def data_of(problem: ProblemConfig) -> DataModel:
    """The data model of a run."""
    loss = loss_of(problem)
    if problem.data == "mixture":
        return Mixture(loss, problem.clusters, problem.bias)
    return Teacher(loss, problem.labels, problem.label_noise, problem.flip)
