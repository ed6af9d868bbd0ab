"""One-pass SGD on spiked tensors (Ben Arous et al. 2022, section 3), on vectors of full length.

Data Y = lambda v^(k) + W with W an i.i.d. Gaussian tensor and v the first unit vector, loss ||Y - x^(k)||^2 + beta |x|^2.
The gradient is -2k lambda m^{k-1} v + 2k R^{2k-2} x + 2 beta x - 2 G with m = x_1, R = |x|, and G, the gradient of
<W, x^(k)>, exactly Gaussian of covariance k [R^{2k-2} I + (k-1) R^{2k-4} x x^T]: a step takes O(n), not O(n^k).
`matrix_gradient` builds the n x n matrix W instead, for order 2: the literal algorithm, against which the rest is tested.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def gaussian_gradient(x, order, signal, ridge, rng, out):
    """Gradient (n,) of the loss at x (n,) for a fresh Y, written to out; G = sqrt(k) R^{k-1} [z + (sqrt(k)-1) e e.z], e = x/R."""
    n = x.size
    square = 0.0
    along = 0.0
    for i in range(n):
        z = rng.standard_normal()
        out[i] = z
        square += x[i] * x[i]
        along += z * x[i]
    noise = 2.0 * np.sqrt(order) * square ** (0.5 * (order - 1))
    radial = 2.0 * order * square ** (order - 1) + 2.0 * ridge
    if square > 0.0:
        radial -= noise * (np.sqrt(order) - 1.0) * along / square
    for i in range(n):
        out[i] = radial * x[i] - noise * out[i]
    out[0] -= 2.0 * order * signal * x[0] ** (order - 1)


@njit(cache=True, nogil=True)
def matrix_gradient(x, order, signal, ridge, rng, out):
    """The same for order 2 from the matrix itself: grad <W, x x^T> = (W + W^T) x, entry by entry of a fresh W."""
    n = x.size
    square = 0.0
    for i in range(n):
        square += x[i] * x[i]
    for i in range(n):
        out[i] = (4.0 * square + 2.0 * ridge) * x[i]
    for i in range(n):
        for j in range(n):
            w = rng.standard_normal()
            out[i] -= 2.0 * w * x[j]
            out[j] -= 2.0 * w * x[i]
    out[0] -= 2.0 * order * signal * x[0]


@njit(cache=True, nogil=True)
def advance(x, steps, delta, order, signal, ridge, rng):
    """Take SGD steps x <- x - delta grad, in place."""
    gradient = np.empty_like(x)
    for _ in range(steps):
        gaussian_gradient(x, order, signal, ridge, rng, gradient)
        x -= delta * gradient


@njit(cache=True, nogil=True)
def advance_matrix(x, steps, delta, order, signal, ridge, rng):
    """`advance` with literal matrices (order 2), O(n^2) a step."""
    gradient = np.empty_like(x)
    for _ in range(steps):
        matrix_gradient(x, order, signal, ridge, rng, gradient)
        x -= delta * gradient


def start_vector(m: float, r2: float, dimension: int) -> np.ndarray:
    """A vector with x.v = m and |x - m v|^2 = r2. The law is invariant under rotations that fix v: any one will do."""
    x = np.zeros(dimension)
    x[0], x[1] = m, np.sqrt(r2)
    return x


def statistics(x: np.ndarray) -> np.ndarray:
    """(m, r2) of a vector."""
    return np.array([x[0], x[1:] @ x[1:]])
