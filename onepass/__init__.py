"""One-pass SGD in low-dimensional terms: ODE, SDE, exact finite-dimensional chain and direct simulation."""

from dmft.core import parallel

parallel.begin()  # MPI must start before the imports that follow fill the memory

from dmft.model.activations import register_activation  # noqa: E402
from onepass.effective.check import check_effective  # noqa: E402
from onepass.effective.dynamics import EffectiveDynamics, fixed_point, linearise  # noqa: E402
from onepass.effective.localizable import localizability  # noqa: E402
from onepass.effective.problem import Problem, built_in_problem  # noqa: E402
from onepass.effective.rescaled import Rescaled  # noqa: E402
from onepass.mixtures.binary_mixture import BinaryMixture  # noqa: E402
from onepass.mixtures.mixture_model import GaussianMixture  # noqa: E402
from onepass.mixtures.xor_mixture import XorMixture  # noqa: E402
from onepass.networks import exit_times, hermite, landscape  # noqa: E402
from onepass.networks.named import Committee, MultiIndexNetwork, QuadraticNetwork  # noqa: E402
from onepass.networks.network import Network  # noqa: E402
from onepass.result import Ensemble, Trajectory, load  # noqa: E402
from onepass.spiked.near_zero import SpikedNearZero  # noqa: E402
from onepass.spiked.tensor import SpikedTensor  # noqa: E402

__all__ = [
    "BinaryMixture",
    "Committee",
    "EffectiveDynamics",
    "Ensemble",
    "GaussianMixture",
    "MultiIndexNetwork",
    "Network",
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


def __dir__() -> list[str]:
    return list(__all__)
