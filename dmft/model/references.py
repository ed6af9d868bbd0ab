"""Which papers a run rests on: its theory, data model, start and algorithm."""

from __future__ import annotations

from dmft.model.data import is_sampled
from dmft.model.runfile import Run
from dmft.model.starts import SPECTRAL

THEORY, MIXTURES = "mignacco2021stochasticity", "mignacco2020dynamical"
P_SPIN, SPIKED = ("crisanti1993spherical", "cugliandolo1993analytical"), "sarao2019passed"


def references_of(run: Run) -> list[tuple[str, str]]:
    """(key of dmft.core.references, reason) of everything to cite for a run, without repetition, the theory first."""
    what = {"persistent_sgd": "the theory, and persistent SGD"}.get(run.algorithm.kind, "the theory")
    found = [(THEORY, what)] if is_sampled(run.problem) else [
        (key, "dynamics of spherical p-spin models") for key in P_SPIN]
    if run.problem.data == "p_spin" and (run.problem.signal or not run.problem.powers):
        found.append((SPIKED, "the spiked matrix-tensor model"))
    if run.problem.data == "mixture" or run.problem.loss == "logistic":
        found.append((MIXTURES, "Gaussian mixtures" if run.problem.data == "mixture" else "classification with the logistic loss"))
    if run.problem.start == SPECTRAL:
        found.append(("mondelli2019fundamental", "the spectral start"))
    if run.algorithm.has_momentum and run.algorithm.make_rule().name == "heavy_ball":
        found.append(("polyak1964some", "momentum (heavy ball)"))
    return found
