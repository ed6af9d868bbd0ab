"""A run that solves in a moment, and a way to stop it."""

from __future__ import annotations

SMALL = """
title = "small"
[problem]
alpha = 3.0
m0 = 0.5
[algorithm]
kind = "persistent_sgd"
learning_rate = 0.02
t_max = 0.4
batch_fraction = 0.5
persistence = 1.0
[theory]
samples = 200
replicas = 4
[simulation]
dimension = 40
instances = 12
"""


class StopAfter:
    """A stop wish that comes after some polls."""

    def __init__(self, polls: int):
        self.left = polls

    @property
    def flags(self) -> int:
        self.left -= 1
        return 1 if self.left < 0 else 0
