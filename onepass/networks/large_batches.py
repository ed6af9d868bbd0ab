"""SGD with batches of a number of samples proportional to d: a map of the overlaps in steps of finite length.

A step of length h (in the time of network.py) moves w_j by h times its mean kick E[C_j x] (per unit time), which lies in the span
of all weights, plus noise of the order gamma of a single sample. With (own, along)_j = E[C_j L] on the fields L = (l, ls), of
covariance Omega, E[C_j x].E[C_l x] = (own, along)_j Omega^-1 (own, along)_l^T, so
    M -> M + h (along - lambda M),   Q -> Q + h (own - lambda Q + transposed + square) + h^2 D Omega^-1 D^T,
D = (own, along) less the decay; on the sphere norms are then set to one. For h -> 0 this is the ODE. It is the limit of the
multi-pass theory at alpha -> infinity, eta alpha = p h (from_theory.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmft.core.errors import RunError
from onepass.networks import overlaps
from onepass.networks.network import Network
from onepass.result import Trajectory


def descend(net: Network, initial: Mapping[str, np.ndarray], step: float, count: int) -> Trajectory:
    """`count` steps of length `step`; the result has the time of every step, the start included."""
    if net.friction > 0.0:
        raise RunError("friction: large batches have no velocity here; take it out")
    if not (step > 0.0 and count >= 1):
        raise RunError(f"step = {step:g}, count = {count}; need a step > 0 and at least one of them")
    x, layout = [net.start(initial)], net.layout
    for _ in range(count):
        s = layout.unpack(x[-1])
        b, om = net.bracket_means(x[-1]), overlaps.omega(s["M"], s["Q"], net.P)
        _, along, own, _ = net.averages.means(s, net.rate(s))
        decay = net.weight_decay * net.rate(s)
        D = np.concatenate([own - decay * s["Q"], along - decay * s["M"]], axis=-1)     # (p, p + k)
        moved = {name: s[name] + step * b[name] for name in b}
        moved["Q"] = moved["Q"] + step**2 * D @ np.linalg.pinv(om, hermitian=True) @ D.T
        x.append(layout.pack({**moved, **overlaps.on_sphere(moved)} if net.sphere else moved))
    t = step * np.arange(count + 1)
    return Trajectory(t, net.with_observables(layout.unpack(np.array(x))), "large batches", net.to_toml(), {"outcome": "done"})
