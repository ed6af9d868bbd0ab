"""One-pass SGD in low-dimensional terms: ODE, SDE, exact finite-dimensional chain and direct simulation."""

from onepass.binary_mixture import BinaryMixture
from onepass.check import check_effective
from onepass.committee import Committee
from onepass.effective import EffectiveDynamics, fixed_point, linearise
from onepass.localizable import localizability
from onepass.problem import Problem, built_in_problem
from onepass.quadratic import QuadraticNetwork
from onepass.rescaled import Rescaled
from onepass.result import Ensemble, Trajectory, load
from onepass.spiked import SpikedTensor
from onepass.spiked_near_zero import SpikedNearZero
from onepass.xor_mixture import XorMixture
from sgd_sim.activations import register_activation

__all__ = [
    "BinaryMixture",
    "Committee",
    "EffectiveDynamics",
    "Ensemble",
    "Problem",
    "QuadraticNetwork",
    "Rescaled",
    "SpikedNearZero",
    "SpikedTensor",
    "Trajectory",
    "XorMixture",
    "built_in_problem",
    "check_effective",
    "fixed_point",
    "linearise",
    "load",
    "localizability",
    "register_activation",
]
