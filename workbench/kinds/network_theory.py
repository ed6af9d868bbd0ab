"""Files of the theory of networks: curves that are matrices are shown by their components."""

from __future__ import annotations

from typing import ClassVar

from dmft.result.theory import Theory
from workbench.inspection.checks import network_checks
from workbench.inspection.kinds import Opened, ResultCheck
from workbench.kinds.theory import TheoryFile


class NetworkTheoryFile(TheoryFile):
    """Means and errors over replicas, component by component."""

    sort: ClassVar[str] = "theory of a network"
    counted: ClassVar[str] = "loss"

    def checks(self, result: Theory) -> list[ResultCheck]:
        return network_checks(result)

    def warnings(self, opened: Opened) -> list[str]:
        return self.of_replicas(opened)


KIND = NetworkTheoryFile()
