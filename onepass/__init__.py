"""One-pass SGD in low-dimensional terms: ODE, SDE, exact finite-dimensional chain and direct simulation."""

from onepass.effective.check import check_effective
from onepass.effective.dynamics import EffectiveDynamics, fixed_point, linearise
from onepass.effective.localizable import localizability
from onepass.effective.problem import Problem, built_in_problem
from onepass.effective.rescaled import Rescaled
from onepass.mixtures.binary_mixture import BinaryMixture
from onepass.mixtures.xor_mixture import XorMixture
from onepass.networks import exit_times, hermite, landscape
from onepass.networks.committee import Committee
from onepass.networks.multi_index import MultiIndexNetwork
from onepass.networks.quadratic import QuadraticNetwork
from onepass.result import Ensemble, Trajectory, load
from onepass.spiked.near_zero import SpikedNearZero
from onepass.spiked.tensor import SpikedTensor
from sgd_sim.models.activations import register_activation

__all__ = [
    "BinaryMixture",
    "Committee",
    "EffectiveDynamics",
    "Ensemble",
    "MultiIndexNetwork",
    "Problem",
    "QuadraticNetwork",
    "Rescaled",
    "SpikedNearZero",
    "SpikedTensor",
    "Trajectory",
    "XorMixture",
    "built_in_problem",
    "check_effective",
    "exit_times",
    "fixed_point",
    "hermite",
    "landscape",
    "linearise",
    "load",
    "localizability",
    "register_activation",
]
