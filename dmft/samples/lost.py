"""Samples that leave their trapping region. Eq. [lost].

For losses that grow faster than h^2 any learning rate has fields from which the explicit step jumps further out than it came, and
further still the next time: v' ~ h^3 takes such a sample beyond all numbers within a few steps. Such fields lie in the tail of the
Gaussian, and draws from a broadened law (sampling.py) reach them with a weight of 1e-8 or so, which no simulation of reasonable
size contains. Such a sample is lost: from then on it feels and exerts no force, so that M_C stays the Gram matrix of one set of
samples, and its weight is counted.
"""

from __future__ import annotations

from numba import njit

# Within the trapping region of phase retrieval a gradient step moves a field f by 2 |f| at most. A sample that is moved by more
# than LEAVES times (1 + |f| + |y|), to where the next step with a mini-batch weight of one would do so again,
# does not come back.
LEAVES = 4.0
# Mini-batch weight of a lost sample: it stays, and any other is >= 0.
GONE = -1.0


@njit(cache=True, inline="always")
def leaves(step, field, y):
    """Whether a gradient step moves a field further than any that stays in its trapping region."""
    return abs(step) > LEAVES * (1.0 + abs(field) + abs(y))
