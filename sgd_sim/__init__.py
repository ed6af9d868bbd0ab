"""Direct simulation of the learning dynamics at finite dimension: the independent baseline of the theory."""

from dmft.core.parallel import world

world()  # first of all: see dmft/cli/__init__.py

from sgd_sim.result import SimulationResult, load  # noqa: E402
from sgd_sim.simulation import simulate  # noqa: E402

__all__ = ["SimulationResult", "load", "simulate"]
