"""Finding a signal in a rough landscape

Gradient descent on the spiked matrix-tensor model from an overlap of one millionth, for several strengths of the matrix.
Below the threshold 1/Δ₂ = 1.37 it stays among threshold states; above it the overlap grows at the rate that the Hessian of
these states gives, and ends where the statics says (dashed).
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

import dmft


def end_point(inverse):
    """m = χ φ'(m) with χ² = (1 - m²)/f'(1)."""
    return brentq(lambda m: np.sqrt((1 - m**2) / (inverse + 0.25)) * (inverse + 0.25 * m) - 1, 0.3, 0.999)


figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for number, inverse in enumerate((1.2, 1.6, 2.0, 2.5, 3.0)):
    run = dmft.Experiment(data="p_spin", Delta_2=1 / inverse, Delta_p=4.0, m0=1e-6, kind="gd", learning_rate=0.1, t_max=400.0)
    theory = dmft.solve(run, quiet=True)
    axes.semilogy(theory.t, theory.m, color=f"C{number}", label=f"1/Δ₂ = {inverse:g}")
    if inverse > 1.366:
        axes.axhline(end_point(inverse), color=f"C{number}", linestyle="--", linewidth=0.8)
axes.set(xlabel="t", ylabel="overlap m with the signal", ylim=(1e-6, 1.5))
axes.legend(loc="center right")
