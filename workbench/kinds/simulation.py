"""Files of the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import sgd_sim
from dmft.core import store
from dmft.result.comparison import Curve
from sgd_sim.result import SOLVED, SimulationResult
from workbench.inspection.by_component import by_component
from workbench.inspection.checks import simulation_checks
from workbench.inspection.kinds import FileKind, Opened, ResultCheck


class SimulationFile(FileKind):
    """Curves of every instance."""

    sort: ClassVar[str] = "simulation"

    def read(self, header: store.Stored) -> SimulationResult:
        return sgd_sim.load(header.path)

    def curves(self, result: SimulationResult) -> dict[str, Curve]:
        return by_component(result.t, result.mean(), result.error(), result.curves, result.instances)

    def checks(self, result: SimulationResult) -> list[ResultCheck]:
        return simulation_checks(result, SOLVED)

    def share_done(self, opened: Opened) -> float:
        return opened.result.states.progress(opened.result.run.algorithm.steps)

    def progress(self, opened: Opened) -> dict[str, Any]:
        return {"instances_done": opened.result.states.instances_finished(opened.result.run.algorithm.steps)}

    def warnings(self, opened: Opened) -> list[str]:
        return ["one instance: no error bars"] if opened.result.instances < 2 else []

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import simulation  # matplotlib is an extra
        return simulation.draw(opened.result, path)


KIND = SimulationFile()
