"""How the work of samples is cut up for a card."""

from __future__ import annotations

from typing import NamedTuple


class Tiling(NamedTuple):
    """How the work of a step is cut up for a card. It changes results by rounding alone."""

    own: int = 4  # fours of samples that a thread sums up: a part of a block has at most own x 128 samples; 8 at most
    ahead: int = 4  # slots of the past, of four samples, that a thread loads before it uses them
    rows_ahead: int = 8  # rows of tangents, of four samples, that a thread loads before it uses them
    warps: int = 4  # warps of a block of threads, 8 at most
    equations: int = 512  # threads of a block that does the equations of a solution
    row_shares: int = 8  # warps of a block that share out the rows of the tangents of the same samples, where these are few
    spread: int = 10_000  # warps that sum up the rows side by side, about: enough that those which finish last cost little


TILING = Tiling()
