"""[problem] of a run file: the data, the loss, the start and the constraint, by the names and keys of their classes."""

from __future__ import annotations

from dataclasses import dataclass

from dmft.core.schema import number, option
from dmft.model.classification import Door
from dmft.model.constraints import Ridge
from dmft.model.mixture import Clusters, Mixture
from dmft.model.registry import Named, key_of, named
from dmft.model.schedules import Setting
from dmft.model.starts import Spectral, Warm
from dmft.model.teacher import Teacher


@dataclass(frozen=True)
class ProblemConfig:
    """[problem]: the data, the loss and the start."""

    alpha: float = option(number(0.0, above=True), doc="samples per dimension")
    loss: Named = named("loss", "phase_retrieval", "phase_retrieval, normalised_phase_retrieval, linear, logistic, smooth_hinge, "
                        "door or a registered name")
    door: float = key_of(Door, "door")
    data: Named = named("data", "teacher", "labels by a teacher, or Gaussian clusters on one axis")
    labels: Named = key_of(Teacher, "labels")
    label_noise: float = key_of(Teacher, "label_noise")
    flip: float = key_of(Teacher, "flip")
    clusters: Clusters = key_of(Mixture, "clusters", ())
    bias: bool = key_of(Mixture, "bias")
    start: Named = named("start", "warm", "random: m of order 1/sqrt(N); spectral: the leading eigenvector of weighted data")
    preprocessing: str = key_of(Spectral, "preprocessing")
    m0: float | None = key_of(Warm, "m0")
    constraint: Named = named("constraint", "sphere", "what keeps the weights bounded")
    ridge: Setting = key_of(Ridge, "ridge", 0.0)
    start_variance: float = key_of(Ridge, "start_variance")
