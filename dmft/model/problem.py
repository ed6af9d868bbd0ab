"""[problem] of a run file: the data, the loss, the start and the constraint, by the names and keys of their classes."""

from __future__ import annotations

from dataclasses import dataclass

from dmft.core.schema import array, number, option, text
from dmft.model.classification import Door
from dmft.model.constraints import Ridge
from dmft.model.mixture import Clusters, Mixture
from dmft.model.p_spin import PSpin, Terms
from dmft.model.registry import Named, key_of, named
from dmft.model.schedules import Setting
from dmft.model.starts import Spectral, Warm
from dmft.model.teacher import Teacher


@dataclass(frozen=True)
class ProblemConfig:
    """[problem]: the data, the loss and the start."""

    alpha: float = option(number(0.0, above=True), 1.0, "number of samples per dimension")
    loss: Named = named("loss", "phase_retrieval", "loss of one sample")
    door: float = key_of(Door, "door")
    data: Named = named("data", "teacher", "where samples come from: labels given by a teacher, Gaussian clusters on one axis "
                        "(mixture), or an energy without samples (p_spin)")
    labels: Named = key_of(Teacher, "labels")
    label_noise: float = key_of(Teacher, "label_noise")
    flip: float = key_of(Teacher, "flip")
    clusters: Clusters = key_of(Mixture, "clusters", ())
    bias: bool = key_of(Mixture, "bias")
    powers: Terms = key_of(PSpin, "powers")
    signal: Terms = key_of(PSpin, "signal")
    Delta_2: float = key_of(PSpin, "Delta_2")
    Delta_p: float = key_of(PSpin, "Delta_p")
    order: int = key_of(PSpin, "order")
    start: Named = named("start", "warm", "where learning starts: at overlap m0 (warm), at random with m of order 1/sqrt(N), or "
                         "at the leading eigenvector of weighted data (spectral)")
    preprocessing: str = key_of(Spectral, "preprocessing")
    m0: float | None = key_of(Warm, "m0")  # with [network] a matrix
    start_overlap: str = key_of(Warm, "start_overlap")
    constraint: Named = named("constraint", "sphere", "what keeps the weights bounded")
    ridge: Setting = key_of(Ridge, "ridge", 0.0)
    start_variance: float = key_of(Ridge, "start_variance")
    label: str = option(text, "network", "with [network]: labels given by a second network, or by a named function of the fields")
    Q0: tuple[tuple[float, ...], ...] = option(array("a matrix of numbers", 2, number()), (), "with [network]: Gram matrix of the "
                                               "start normal to the directions; empty: unit norms")
