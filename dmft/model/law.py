"""What a data model is: the law of (k, y, sd) of a sample, x = sd (k w0/sqrt(N) + part normal to w0), together with the loss
v(f, y) of the field f = x.w/sqrt(N) + b, what a prediction is, and the errors on new samples that follow from m, q and b. Those of
the package are in teacher.py and mixture.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from dmft.core.errors import UserError
from dmft.model.channels import Channel, Metric
from dmft.model.loss_family import even_in_field
from dmft.model.losses import PHASE, Loss
from dmft.model.registry import Physics


class Labelled(NamedTuple):
    """Samples as their data model draws them, each (count,)."""

    k: np.ndarray  # coefficient of the input along w0, in units of sd
    y: np.ndarray  # label
    sd: np.ndarray  # spread of the input
    slope: np.ndarray  # dy/dh0, where labels are smooth
    shift: np.ndarray  # k - h0
    stratum: np.ndarray  # which of `strata` the sample is in


class Jump(NamedTuple):
    """Where labels jump from -1 to +1 as h0 grows: pairs of samples at h0 = k, with weight `size` on the difference."""

    k: np.ndarray
    size: float


class DataModel(Physics, key="data"):
    """What theory and simulator ask a data model for."""

    loss: Loss = dataclasses.field(default=PHASE, kw_only=True)  # that of the run, which data.py puts here
    bias = False  # whether an intercept b is learnt
    clustered: ClassVar[bool] = False  # whether labels belong to clusters, not to a teacher
    taught: ClassVar[bool] = False  # whether x ~ N(0, I), with labels of `channel`, label_noise and flip: what dmft/statics knows
    sampled: ClassVar[bool] = True  # whether there are samples: without, the kernels are functions of C and R (model/p_spin.py)
    needs: ClassVar[tuple[str, ...]] = ("alpha",)
    meanings: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # what a curve means here, where that differs from the table of curves
    draws: ClassVar[int] = 0  # how many uniform numbers a sample needs besides the one for h0
    strata: ClassVar[tuple[float, ...]] = (1.0,)  # shares that the weights of the samples keep exactly

    @property
    def text(self) -> str:
        """The data in a few words, beside alpha."""
        return ""

    @property
    def channel(self) -> Channel:
        """What the labels are."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The name of the labels."""
        return self.channel.name

    @property
    def control(self) -> str:
        """Which control variate mu has, of channels.py."""
        raise NotImplementedError

    @property
    def classifies(self) -> bool:
        """Whether labels are +1 and -1."""
        return self.channel.classifies

    @property
    def plain(self) -> bool:
        """Whether y = h0: w0 is then a solution without error."""
        return False

    @property
    def even(self) -> bool:
        """Whether v(f, y) = v(-f, y): samples may then come in mirrored pairs, and m = 0 stays 0."""
        return even_in_field(self.loss) and not self.bias

    def even_in_teacher(self, loss: Loss) -> bool:
        """Whether h0 and -h0 are equally likely given the loss of a sample, where a phase learns with `loss`: from a random start
        m is then of order 1/sqrt(N)."""
        raise NotImplementedError

    def by_parts(self, loss: Loss) -> bool:
        """Whether the control variate of mu, by parts in h0, holds for a loss."""
        raise NotImplementedError

    def smooth(self, loss: Loss) -> bool:
        """Whether v' has no jump in f at labels that samples reach."""
        raise NotImplementedError

    def tells(self, place: str) -> str:
        """Which key tells the sign of h0, where a loss is at `place`."""
        return place.removeprefix("[problem] ")

    def draw(self, h0: np.ndarray, u: np.ndarray) -> Labelled:
        """Samples from h0 (count,), standard normals perhaps drawn too wide and weighted, and uniforms u (count, draws)."""
        raise NotImplementedError

    def rows(self, h0: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
        """The raw definition, for the simulator: labels (rows,) of data z whose fields z.w0/sqrt(N) are h0, and, where rows are
        centre w0/sqrt(N) + spread z, these two (rows,)."""
        return self.draw(h0, u).y, None

    def jump(self, u: np.ndarray) -> Jump:
        """The jump of the labels, averaged over their noise. u: uniforms (count, draws)."""
        return Jump(np.zeros(len(u)), 0.0)

    def errors(self, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> dict[str, np.ndarray]:
        """Errors on new samples by name. Eq. [mse]."""
        raise NotImplementedError

    def generalization(self, f: Metric, m: np.ndarray, q: np.ndarray, b: np.ndarray | float = 0.0) -> np.ndarray:
        """Average of f(label, prediction) over a new sample, eq. B.6."""
        raise NotImplementedError

    def average_of_fields(self, f: Metric, m: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Average of f(h0, h) over the fields of teacher and student on a new sample."""
        raise UserError(f'generalization: data = "{self.name}" has no fields of a teacher; leave fields=True out')

