"""Files of the theory of networks: curves that are matrices are shown by their components."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dmft.result.comparison import Curve
from dmft.result.theory import Theory
from workbench.inspection.by_component import by_component
from workbench.inspection.checks import network_checks
from workbench.inspection.kinds import Opened, ResultCheck
from workbench.kinds.theory import TheoryFile


class NetworkTheoryFile(TheoryFile):
    """Means and errors over replicas, component by component."""

    sort: ClassVar[str] = "theory of a network"

    def curves(self, result: Theory) -> dict[str, Curve]:
        errors = {name: result.curves[f"{name}_error"] for name in result.names}
        return by_component(result.t, result.curves, errors, result.names, int(result.averaged.sum()))

    def checks(self, result: Theory) -> list[ResultCheck]:
        return network_checks(result)

    def progress(self, opened: Opened) -> dict[str, Any]:
        result, finished = opened.result, opened.header.shapes.get("finished/replicas/loss", (0,))[0]
        reached = [int(np.isfinite(loss).sum()) for loss in result.replicas["loss"][finished:]]
        return {"replicas_done": finished, "replicas_under_way": [{"t": float(result.t[n - 1]) if n else 0.0} for n in reached]}

    def warnings(self, opened: Opened) -> list[str]:
        result, outcome = opened.result, str(opened.header.attrs.get("outcome", ""))
        found = [*result.warnings, *(["one replica: no error bars"] if len(result.replicas["loss"]) < 2 else [])]
        if result.diverged and not outcome.startswith("diverged"):
            found.append(f"{result.diverged} of {len(result.replicas['loss'])} replicas diverged; "
                         "means and errors are those of the others")
        return found

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import network  # matplotlib is an extra
        run = opened.result.run
        return network.draw(run, self.curves(opened.result), f"replicas of {run.theory.samples} samples", path)


KIND = NetworkTheoryFile()
