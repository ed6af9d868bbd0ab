"""A solution in a few words, for titles."""

from __future__ import annotations

from dmft.result.theory import Theory


def solution_text(theory: Theory) -> str:
    """What was solved and by how many samples, for the title of a picture."""
    count = len(theory.replicas["m"])
    bands = "bands: 2 standard errors" if count > 1 else "one replica, no error bands"
    by = f"{count} x {theory.run.theory.samples} samples, {theory.outcome}; {bands}" if theory.sampled else theory.outcome
    return f"{theory.run.summary}, {by}"
