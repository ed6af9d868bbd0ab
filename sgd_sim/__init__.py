"""Direct simulation of the learning dynamics at finite dimension: the independent baseline of the theory."""

from sgd_sim.result import SimulationResult, load
from sgd_sim.simulation import simulate

__all__ = ["SimulationResult", "load", "simulate"]
