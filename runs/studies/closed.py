"""Recovery of a signal in the spiked matrix-tensor model, p = 3: does a vanishing overlap grow, by gradient descent and by Langevin
dynamics at T = 1 (Bayes-optimal)?

From m0 = 1e-40 the overlap is linear for ever, and its rate of growth between t/2 and t is taken. Lines are the thresholds: of
gradient descent [closed-threshold], 1/Delta_2 = 1/2 + sqrt(1 + 4 (p-1)/Delta_p)/2; at temperature T, where threshold states have an
overlap q with f''(q) (1-q)^2 = T^2 and m grows if phi''(0) (1-q) > T, Delta_2 = sqrt(Delta_p/2) below 1, else 1. At finite t growth
has a head start of order 1/t.
"""

from __future__ import annotations

import numpy as np
from options import read_options

import dmft
from workbench.plots.style import BLACK, new_figure, save

ALGORITHMS = {"gradient descent": {"kind": "gd"}, "Langevin, T = 1": {"kind": "langevin", "temperature": 1.0}}


def threshold(kind: str, inverse_p: np.ndarray) -> np.ndarray:
    """1/Delta_2 above which a vanishing overlap grows, for p = 3, from 1/Delta_p."""
    return 0.5 + 0.5 * np.sqrt(1 + 8 * inverse_p) if kind == "gd" else np.maximum(np.sqrt(2 * inverse_p), 1.0)


def rate(inverse_2: float, inverse_p: float, t_max: float, algorithm: dict) -> float:
    """d log m/dt over the second half of a run."""
    run = dmft.Experiment(data="p_spin", Delta_2=1 / inverse_2, Delta_p=1 / inverse_p, m0=1e-40, learning_rate=0.05, t_max=t_max,
                          history="dyadic", blocks_per_level=8, **algorithm)
    m = dmft.solve(run, quiet=True).m
    return float(np.log(m[-1] / m[len(m) // 2]) / (t_max / 2))


def main() -> None:
    options = read_options(__doc__, "a grid of 3 x 3 to t = 10: seconds")
    count, t_max = (3, 10.0) if options.quick else (9, 100.0)
    inverse_p, inverse_2 = np.linspace(0.25, 2.25, count), np.linspace(0.75, 2.75, count)
    figure = new_figure(11.0, 4.6)
    for axis, (name, algorithm) in zip(figure.subplots(1, 2), ALGORITHMS.items()):
        rates = np.array([[rate(y, x, t_max, algorithm) for x in inverse_p] for y in inverse_2])
        bound = float(np.abs(rates).max())
        mesh = axis.pcolormesh(inverse_p, inverse_2, rates, cmap="PuOr", vmin=-bound, vmax=bound, shading="nearest")
        fine = np.linspace(inverse_p[0], inverse_p[-1], 200)
        axis.plot(fine, threshold(algorithm["kind"], fine), color=BLACK, label="threshold")
        axis.set(title=name, xlabel=r"$1/\Delta_3$", ylabel=r"$1/\Delta_2$", ylim=(0.62, 2.88))
        axis.legend(loc="upper left")
        figure.colorbar(mesh, ax=axis, label=r"rate of growth of $m$")
        print(f"{name}: 1/Delta_2 at which the rate is 2/t, and the threshold")
        for x, column in zip(inverse_p, rates.T):
            grown = column > 2 / t_max
            i = int(np.argmax(grown)) if grown.any() else len(column)
            at = np.nan if not 0 < i < len(column) else np.interp(2 / t_max, column[i - 1 : i + 1], inverse_2[i - 1 : i + 1])
            print(f"  1/Delta_3 = {x:5.3f}: {at:6.3f} {float(threshold(algorithm['kind'], x)):6.3f}")
    options.output.mkdir(parents=True, exist_ok=True)
    picture = options.output / "closed.png"
    save(figure, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
