"""Samples that leave their trapping region. Eq. [lost].

For losses that grow faster than h^2 there are, at any learning rate, fields from which every explicit step leads further out than
the last: with v' ~ h^3 such a sample overflows within a few steps. These fields lie in the tail of the Gaussian, and draws from a
broadened law (sampling.py) reach them with a weight of 1e-8 or so, which no simulation of reasonable size contains. Such a sample
is lost: from then on it feels and exerts no force, so that M_C stays the Gram matrix of one set of samples, and its weight is
counted.
"""

from __future__ import annotations

from numba.extending import register_jitable

# Mini-batch weight of a lost sample, for all later steps; any other is >= 0.
GONE = -1.0


@register_jitable
def leaves(step, field, y, most):
    """Whether a gradient step moves a field further than any step that stays in the trapping region, by more than `most` (lost_step
    of equations/tuning.py). Where the next step, with a mini-batch weight of one, does so again, it does not come back.
    Eq. [lost]."""
    return abs(step) > most * (1.0 + abs(field) + abs(y))  # [lost]
