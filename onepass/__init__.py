"""One-pass SGD in low-dimensional terms: ODE, SDE, exact finite-dimensional chain and direct simulation."""

from onepass.quadratic import QuadraticNetwork
from onepass.result import Ensemble, Trajectory, load

__all__ = ["Ensemble", "QuadraticNetwork", "Trajectory", "load"]
