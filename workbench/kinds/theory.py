"""Files of the theory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dmft.core import store
from dmft.model.data import fixed_norm
from dmft.result.comparison import Curve
from dmft.result.theory import Theory, theory_of
from workbench.inspection.by_component import by_component
from workbench.inspection.checks import theory_checks
from workbench.inspection.kinds import FileKind, Opened, ResultCheck


class TheoryFile(FileKind):
    """Means and errors over replicas."""

    sort: ClassVar[str] = "theory"
    counted: ClassVar[str] = "m"  # the curve by which replicas, and their steps, are counted

    def read(self, header: store.Stored) -> Theory:
        if not header.is_checkpoint:
            return theory_of(store.load(header.path))
        from workbench.inspection.live import partial_theory  # runs under way need the solver, whose imports take long

        return partial_theory(header)

    def curves(self, result: Theory) -> dict[str, Curve]:
        errors = {name: result.curves[f"{name}_error"] for name in result.names}
        return by_component(result.t, result.curves, errors, result.names, int(result.averaged.sum()))

    def checks(self, result: Theory) -> list[ResultCheck]:
        return theory_checks(result)

    def progress(self, opened: Opened) -> dict[str, Any]:
        finished = opened.header.shapes.get(f"finished/replicas/{self.counted}", (0,))[0]   # includes those that diverged
        result, reached = opened.result, [int(np.isfinite(each).sum()) for each in opened.result.replicas[self.counted][finished:]]
        return {"replicas_done": finished, "replicas_under_way": [{"t": float(result.t[n - 1]) if n else 0.0} for n in reached]}

    def of_replicas(self, opened: Opened) -> list[str]:
        """Warnings of the result, of too few replicas, and of those that diverged."""
        result, count = opened.result, len(opened.result.replicas[self.counted])
        found = [*result.warnings, *(["one replica: no error bars"] if count < 2 and result.sampled else [])]
        if result.diverged and not str(opened.header.attrs.get("outcome", "")).startswith("diverged"):
            found.append(f"{result.diverged} of {count} replicas diverged; means and errors are those of the others")
        return found

    def warnings(self, opened: Opened) -> list[str]:
        result, outcome, found = opened.result, str(opened.header.attrs.get("outcome", "")), self.of_replicas(opened)
        if result.columns is None and not result.kernels.exact.all():
            found.append("a file of version 0.2 or before: its kernels are averages over blocks of t', written at single times; "
                         "solve it again for columns C(t, t_w)")
        norm = fixed_norm(result.run.problem)
        if norm is not None and np.nanmax(np.abs(result.m), initial=0.0) > np.sqrt(norm) + 1e-9:
            found.append(f"|m| exceeds {np.sqrt(norm):g}, the norm of the weights")
        if not opened.live and np.isnan(result.m).any() and "diverged" not in outcome:
            found.append("m holds NaN although the run did not diverge")
        return found

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import theory  # matplotlib is an extra
        return theory.draw(opened.result, path)


KIND = TheoryFile()
