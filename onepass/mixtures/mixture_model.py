"""The common part of the mixture models: layout, validity, drift from the integrals, noise, chain and SGD; and the mixture of any
width, activation and number of directions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from dmft.core import streams
from dmft.core.errors import RunError
from dmft.model.activations import RELU, activation
from onepass.effective.dynamics import EffectiveModel
from onepass.layout import StatisticsLayout
from onepass.mixtures import mixture
from onepass.mixtures.relu_integrals import relu_integrals, sobol_nodes
from onepass.networks.activation_kinds import check_integrable
from onepass.process import KernelProcess
from sgd_sim.models import mixtures as sgd

ERROR_POINTS = 12       # log2 of the points of a classification error


@cache
def _layout(p: int, r: int) -> StatisticsLayout:
    return StatisticsLayout({"v": (p,), "m": (p,) if r == 1 else (p, r), "R": (p, p)}, frozenset({"R"}))


class MixtureModel(EffectiveModel):
    """A network of `neurons` units on a mixture of 2 `directions` Gaussians with `labels` (directions, 2), s = +1 first.

    Subclasses are frozen dataclasses with snr, ridge, step and quadrature. `class_weights` and `class_labels`
    (directions, 2), None for the default: other probabilities of the Gaussians, and other labels between 0 and 1."""

    neurons: int
    directions: int
    labels: np.ndarray
    activation: Any = "relu"
    slide_width: ClassVar[float] = 1e-8  # see mixture.limit_integrals
    noise_points: ClassVar[int] = 10  # log2 of the quasi-Monte-Carlo points of the noise covariance (error about 1 %)

    snr: float
    ridge: float
    quadrature: int
    class_weights: tuple[tuple[float, ...], ...] | None
    class_labels: tuple[tuple[float, ...], ...] | None

    def __post_init__(self):
        if not self.snr > 0:
            raise RunError(f"snr = {self.snr}; need a number > 0 (inf allowed)")
        if not (self.ridge >= 0 and np.isfinite(self.ridge)):
            raise RunError(f"ridge = {self.ridge}; need a finite number >= 0")
        if not (self.step >= 0 and np.isfinite(self.step)):
            raise RunError(f"step = {self.step}; need a finite number >= 0 (0: the population flow)")
        for name in ("class_weights", "class_labels"):
            if getattr(self, name) is None:
                continue
            array = np.asarray(getattr(self, name), float)
            if array.shape != self.labels.shape:
                raise RunError(f"{name} has shape {array.shape}; expected {self.labels.shape}: a line per direction, +mean first")
            if not (np.isfinite(array).all() and array.min() >= 0.0):
                raise RunError(f"{name} = {array.tolist()}; need finite numbers >= 0")
            object.__setattr__(self, name, tuple(map(tuple, array.tolist())))
        if self.class_weights is not None and abs(np.sum(self.class_weights) - 1.0) > 1e-9:
            raise RunError(f"class_weights = {np.array(self.class_weights).tolist()}; probabilities must sum to 1")
        if self.class_labels is not None and np.max(self.class_labels) > 1.0:
            raise RunError(f"class_labels = {np.array(self.class_labels).tolist()}; labels lie between 0 and 1 (cross-entropy)")

    @property
    def classes(self) -> np.ndarray:
        """Labels and probabilities of the Gaussians, (directions, 2, 2)."""
        labels = self.labels if self.class_labels is None else np.array(self.class_labels)
        weights = np.full(labels.shape, 1.0 / labels.size) if self.class_weights is None else np.array(self.class_weights)
        return np.stack([labels, weights], axis=-1)

    def check_plain(self, what: str) -> None:
        """RunError if the classes are not those of the paper, for which alone `what` is known."""
        if self.class_weights is not None or self.class_labels is not None:
            raise RunError(f"{what} is known for equal class weights and the usual labels; fixed_point(...) finds points of others")

    @property
    def functions(self) -> tuple[Any, Any]:
        """s and s' of the neurons."""
        found = activation(self.activation)
        return found.s, mixture.right_step if found is RELU else found.ds

    def integrals(self, v: np.ndarray, m: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, ...]:
        """es (p,), A (p, r), Ap (p, p), B (p, p) at finite snr, for m (p, r), with 2^quadrature quasi-Monte-Carlo points: for ReLU
        free of jumps (relu_integrals.py)."""
        if activation(self.activation) is RELU:
            A, Ap, B = relu_integrals(v, m, R, self.snr, sobol_nodes(self.neurons, self.quadrature), self.classes)
            return np.sum(m * A, axis=1) + np.diagonal(Ap), A, Ap, B
        nodes = mixture.normal_nodes(self.directions + self.neurons, self.quadrature)
        return mixture.point_integrals(*self.functions, v, m, R, self.snr, self.classes, nodes)[:4]

    def ode_options(self, **options: Any) -> dict[str, Any]:
        """A stiff integrator at infinite snr; at finite snr the drift is known to about 1e-5 and has small kinks at the
        quasi-Monte-Carlo points, so that a low order and rtol >= 1e-6 are best."""
        if np.isinf(self.snr):
            return {"rtol": 1e-8, "atol": 1e-10, **options, "method": "LSODA"}
        return {"method": "RK45", "atol": 1e-9, **options, "rtol": max(options.get("rtol", 0.0), 1e-6)}

    def classification_error(self, statistics: dict[str, np.ndarray]) -> np.ndarray:
        """Probability (...) that the more likely label of the network is the wrong one, on new data."""
        flat = self.layout.pack(statistics)
        out, nodes = np.empty(flat.shape[:-1]), mixture.normal_nodes(self.directions + self.neurons, ERROR_POINTS)
        for index in np.ndindex(out.shape):
            out[index] = mixture.point_integrals(*self.functions, *self.split(flat[index]), self.snr, self.classes, nodes)[4]
        return out

    @property
    def layout(self) -> StatisticsLayout:
        return _layout(self.neurons, self.directions)

    def split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """v (p,), m (p, r), R (p, p) of one flat vector, as new contiguous arrays."""
        arrays = self.layout.unpack(x)
        return arrays["v"].copy(), arrays["m"].reshape(self.neurons, self.directions).copy(), arrays["R"]

    def join(self, v: np.ndarray, m: np.ndarray, R: np.ndarray) -> np.ndarray:
        """The inverse of `split`."""
        return self.layout.pack({"v": v, "m": m.reshape(self.layout.shapes["m"]), "R": R})

    @property
    def start_variance(self) -> float:
        """N times the variance of a weight at a random start."""
        return 1.0

    def random_start(self, dimension: int, instances: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Statistics of v ~ N(0, I), W iid N(0, start_variance/N), instances first; those of an instance depend on its number
        alone. R is a Wishart matrix, drawn by its triangular root, so that the cost does not depend on N."""
        p, r = self.neurons, self.directions
        spread = np.sqrt(self.start_variance / dimension)
        v, m, root = np.empty((instances, p)), np.empty((instances,) + self.layout.shapes["m"]), np.empty((instances, p, p))
        for i in range(instances):
            rng = streams.generator(seed, "mixture-start", i)
            v[i] = rng.standard_normal(p)
            m[i] = spread * rng.standard_normal(m.shape[1:])
            root[i] = np.tril(rng.standard_normal((p, p)), -1) + np.diag(np.sqrt(rng.chisquare(dimension - r - np.arange(p))))
        return {"v": v, "m": m, "R": spread**2 * root @ np.swapaxes(root, -1, -2)}

    def validate(self, arrays: dict[str, np.ndarray], dimension: int | None) -> None:
        lowest = np.min(np.linalg.eigvalsh(arrays["R"]))
        if lowest < -1e-10 * max(1.0, np.max(np.abs(arrays["R"]))):
            raise RunError(f"initial R is not a covariance: its smallest eigenvalue is {lowest:.3g}")
        m = arrays["m"].reshape(arrays["m"].shape[: arrays["v"].ndim] + (self.directions,))
        norms = np.diagonal(arrays["R"], axis1=-2, axis2=-1) + np.sum(m**2, axis=-1)
        if np.isfinite(self.snr) and np.any(norms <= 0.0):
            raise RunError("initial: a neuron has m = 0 and R = 0; W = 0 has no activation law at finite snr, give it a little R")
        least = self.directions + self.neurons
        if dimension is not None and dimension < least:
            raise RunError(f"dimension = {dimension}; need at least {least}: {self.directions} means and {self.neurons} neurons")

    def check_deterministic(self, x0: np.ndarray) -> None:
        opposite = np.array_equal(self.classes[:, 0], self.classes[:, 1])       # Gaussians at +mean and -mean are alike, as of XOR
        if opposite and not np.any(self.layout.unpack(x0)["m"]):
            warnings.warn("m = 0 at t = 0: the ODE stays there; start from m != 0 (random_start), or use chain(...)", stacklevel=4)

    def _f_and_g(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Population drift f and corrector g, each (..., size)."""
        f, g = np.empty(x.shape), np.empty(x.shape)
        for index in np.ndindex(x.shape[:-1]):
            v, m, R = self.split(x[index])
            if np.isinf(self.snr):
                kinked = activation(self.activation) is RELU
                es, A = mixture.limit_integrals(*self.functions, kinked, v, m, self.classes, self.slide_width)
                Ap = B = np.zeros_like(R)
            else:
                es, A, Ap, B = self.integrals(v, m, R)
            f[index], g[index] = mixture.assemble_drift(v, m, R, es, A, Ap, B, self.ridge, self.step / self.snr)
        return f, g

    def population_drift(self, x: np.ndarray) -> np.ndarray:
        return self._f_and_g(x)[0]

    def corrector(self, x: np.ndarray) -> np.ndarray:
        return self._f_and_g(x)[1]

    def drift(self, x: np.ndarray) -> np.ndarray:
        f, g = self._f_and_g(x)
        return g - f

    def covariance(self, x: np.ndarray) -> np.ndarray:
        nodes = mixture.normal_nodes(self.directions + self.neurons, self.noise_points)
        out = np.empty(x.shape + x.shape[-1:])
        for index in np.ndindex(x.shape[:-1]):
            out[index] = mixture.gradient_covariance(*self.functions, *self.split(x[index]), self.snr, self.classes, nodes)
        return out

    def retract(self, x: np.ndarray) -> np.ndarray:
        """Set negative eigenvalues of R to zero: the noise of a finite step can produce them."""
        for index in np.ndindex(x.shape[:-1]):
            v, m, R = self.split(x[index])
            values, vectors = np.linalg.eigh(R)
            if values[0] < 0.0:
                x[index] = self.join(v, m, (vectors * np.maximum(values, 0.0)) @ vectors.T)
        return x

    def chain_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        rng = streams.generator(seed, "mixture-chain", instance)
        args = ((self.time_step(dimension), self.ridge, self.snr), self.classes, *self.functions, dimension, rng)
        return KernelProcess(mixture.chain_advance, self.split(x0), args, self.join)

    def sgd_process(self, x0: np.ndarray, dimension: int, seed: int, instance: int) -> KernelProcess:
        rng = streams.generator(seed, "mixture-sgd", instance)
        v, m, R = self.split(x0)
        args = (self.time_step(dimension), self.ridge, self.snr, self.classes, *self.functions, rng)

        def read(v: np.ndarray, W: np.ndarray) -> np.ndarray:
            return self.join(*sgd.statistics(v, W, self.directions))

        return KernelProcess(sgd.advance, (v, sgd.start_weights(m, R, dimension)), args, read)


@dataclass(frozen=True)
class GaussianMixture(MixtureModel):
    """X ~ N(+-e_q, I/snr), q one of as many directions as `class_labels` (directions, 2; +mean first) has lines; network
    sigma(v.s(W X)) with any number of neurons and any activation, delta = step/N.

    Statistics v (p,), m (p, directions), R (p, p). `quadrature`: log2 of the quasi-Monte-Carlo points of the drift (13: errors
    of 1e-6 to 1e-4 for ReLU and smooth activations, 1e-3 where another s' jumps). At infinite snr it is exact."""

    snr: float
    ridge: float
    neurons: int = 2
    class_labels: tuple[tuple[float, ...], ...] = ((1.0, 1.0), (0.0, 0.0))
    activation: Any = "relu"
    step: float = 1.0
    quadrature: int = 13
    class_weights: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.neurons < 1:
            raise RunError(f"neurons = {self.neurons}; need at least 1")
        if np.ndim(self.class_labels) != 2 or np.shape(self.class_labels)[1] != 2:
            raise RunError(f"class_labels = {self.class_labels}; need a line of two labels per direction, +mean first")
        check_integrable(activation(self.activation))
        super().__post_init__()

    @property
    def labels(self) -> np.ndarray:  # type: ignore[override]
        return np.array(self.class_labels, float)

    @property
    def directions(self) -> int:  # type: ignore[override]
        return len(self.class_labels)

    @property
    def layout(self) -> StatisticsLayout:
        p, r = self.neurons, self.directions
        return StatisticsLayout({"v": (p,), "m": (p, r), "R": (p, p)}, frozenset({"R"}))
