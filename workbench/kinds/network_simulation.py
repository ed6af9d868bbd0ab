"""Files of the simulator of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from sgd_sim.result import SOLVED, SimulationResult
from workbench.inspection.checks import solved_check
from workbench.inspection.kinds import Opened, ResultCheck
from workbench.kinds.simulation import SimulationFile


class NetworkSimulationFile(SimulationFile):
    """Curves of every instance, component by component."""

    sort: ClassVar[str] = "simulation of a network"

    def checks(self, result: SimulationResult) -> list[ResultCheck]:
        return solved_check(result, SOLVED)

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import network  # matplotlib is an extra
        run = opened.result.run
        return network.draw(run, self.curves(opened.result), f"instances of N = {run.simulation.dimension}", path)


KIND = NetworkSimulationFile()
