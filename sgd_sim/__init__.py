"""Direct simulation of the learning dynamics at finite dimension: the independent baseline of the theory."""

from dmft.core import parallel

parallel.begin()  # MPI must start before the imports that follow fill the memory

from sgd_sim.result import SimulationResult, load  # noqa: E402
from sgd_sim.simulation import simulate  # noqa: E402

__all__ = ["SimulationResult", "load", "simulate"]


def __dir__() -> list[str]:
    return list(__all__)
