"""A run that solves in a moment, and a way to stop it."""

from __future__ import annotations

from pathlib import Path

import dmft
import sgd_sim
from tests.run_files import run_text

SMALL = 'title = "small"\n' + run_text(
    t_max=0.4, theory={"samples": 200, "replicas": 4}, simulation={"dimension": 40, "instances": 12})


class StopAfter:
    """A stop wish that comes after some polls: 1 for SIGTERM's, 2 for an interrupt."""

    def __init__(self, polls: int, flag: int = 1):
        self.left, self.flag = polls, flag

    @property
    def flags(self) -> int:
        self.left -= 1
        return self.flag if self.left < 0 else 0


def solved_and_simulated(run: dmft.Run, folder: Path) -> Path:
    """The folder, with theory.h5 and sim.h5 of a run."""
    dmft.solve(run, output=folder / "theory.h5")
    sgd_sim.simulate(run, output=folder / "sim.h5")
    return folder
