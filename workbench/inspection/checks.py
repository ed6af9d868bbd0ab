"""Is a result sound? Numbers that must be small, each with its bound and what it means when the bound is exceeded."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.model import registry
from dmft.model.curves import name_of_curve
from dmft.model.data import fixed_norm
from dmft.model.network_constraints import NetworkConstraint
from dmft.model.runfile import Run
from dmft.result.concerns import IDENTITY_SHARE, UNSTABLE_SHARE, identity, largest
from dmft.result.systematic import REMEDIES, Systematic, systematic_errors
from dmft.result.theory import Kernels, Theory
from dmft.solvers.resources import blocks_per_level, can_be_halved
from workbench.inspection.aging import shown_waiting_times
from workbench.inspection.kinds import Opened, ResultCheck, kind_of

_NOT_RANDOM = ("m", "loss", "columns/C", "columns/chi")  # whose errors are told where nothing is random


def checks(opened: Opened) -> list[ResultCheck]:
    """All checks that this kind of file allows."""
    return kind_of(opened.header).checks(opened.result)


def theory_checks(theory: Theory) -> list[ResultCheck]:
    """Identities, bias, lost and unstable samples, residuals, and the kernels."""
    return [*_theory(theory), *_kernels(theory.kernels, theory.run), *_temperatures(theory)]


def _below(value: float, bound: float) -> bool | None:
    return None if np.isnan(value) else value <= bound


def _theory(theory: Theory) -> list[ResultCheck]:
    fixed, eta = fixed_norm(theory.run.problem) is not None, theory.run.algorithm.first_rate
    found = []
    if fixed:
        scale = max(largest(theory.nu_hat), 1e-300)
        gap = largest(theory.nu_hat - theory.nu_hat_direct) / scale
        found.append(ResultCheck("nu_hat: A.29 against A.19, largest relative gap", gap, None,
                           f"O(eta), here eta = {eta:g}: a large gap says that the learning rate is coarse"))
    if fixed and theory.sampled:
        z, bound, share = identity(theory)
        fine = None if np.isnan(z) else z <= bound or share <= IDENTITY_SHARE
        found.append(ResultCheck("nu_hat: exact identity, largest deviation in standard errors", z, fine,
                           f"chance makes {bound:.3g} of it, bounded tangents {100 * IDENTITY_SHARE:.0f} % of alpha <g h> (here "
                           f"{100 * share:.2g} %): beyond both, take more samples or a smaller learning rate", told=True))
    if not theory.sampled:
        return found + _closed_estimates(theory)
    found += _estimates(theory, ("m" if theory.V is None else "V",))
    weight = largest(theory.unstable)
    found.append(ResultCheck("weight of samples with learning_rate * v'' > 2", weight, _below(weight, UNSTABLE_SHARE),
                       "the explicit step is unstable for them: take a smaller learning rate", told=True))
    if theory.lost is not None and theory.outcome != "diverged":     # what was lost then is not in the means
        weight = largest(theory.lost)
        found.append(ResultCheck("weight of lost samples", weight, _below(weight, 0.0),
                           "they left their trapping region and count no more; simulations of N far below "
                           f"{theory.dimension_bound:.2g} have no such samples, larger ones diverge: take a smaller learning rate",
                           told=True))
    if theory.history is not None and len(theory.history):
        last = largest(np.array([line[np.isfinite(line)][-1:] for line in theory.history.T if np.isfinite(line).any()]))
        bound = theory.run.theory.tolerance
        found.append(ResultCheck("residual of the last sweep", last, last <= bound or theory.outcome == "noise floor",
                           "not converged: raise max_sweeps, lower mixing, or march"))
    return found


def _closed_estimates(theory: Theory) -> list[ResultCheck]:
    """What blocks cost where nothing is random, and there is no bias; that it is not known where there is no companion."""
    asked, what = theory.run.theory, "by the blocks of the history"
    per_level = blocks_per_level(asked.history, asked.blocks_per_level, theory.run.algorithm.steps, 0, 0)
    if not asked.companions and can_be_halved(per_level):
        return [ResultCheck(f"error {what}", np.nan, None, "not known: theory.companions = false")]
    told = {name: theory.history_error[name] for name in _NOT_RANDOM if name in theory.history_error}
    return [ResultCheck(f"error of {name_of_curve(name, theory.attrs)} {what}", largest(error), None,
                        "the largest; take more blocks_per_level") for name, error in told.items()]


def _estimates(theory: Theory, main: tuple[str, ...]) -> list[ResultCheck]:
    """What companions tell of the main curves, and of others where it shows; that nothing is known where there are none."""
    if not theory.run.theory.companions:
        return [ResultCheck("finite-sample bias and error by the blocks of the history", np.nan, None,
                            "not known: theory.companions = false")]
    return [_systematic(one) for one in systematic_errors(theory.datasets) if one.shows or one.name in main]


def _systematic(one: Systematic) -> ResultCheck:
    """An estimated systematic error over the error bar: fine below it, a warning where it is not chance, and in between told."""
    what = f"{one.title} over its error bar"
    if np.isnan(one.ratio):
        why = "not known: the companions with half the samples diverged" if one.unknown else "one replica has no error bar"
        return ResultCheck(what, one.ratio, None, why)
    if not one.shows:
        return ResultCheck(what, one.ratio, True if one.ratio <= 1.0 else None, f"its own error is {one.noise:.2g} of the bar")
    if not one.certain:
        return ResultCheck(what, one.ratio, None, f"{one}; may be chance")
    return ResultCheck(what, one.ratio, False, f"{one}, error bar {one.bar:.2g}: {REMEDIES[one.what]}", told=True)


def _kernels(kernels: Kernels, run: Run) -> list[ResultCheck]:
    reached = np.isfinite(np.diag(kernels.M_C))
    if not reached.any():
        return []
    C, M_R, R = (getattr(kernels, name)[np.ix_(reached, reached)] for name in ("C", "M_R", "R"))
    single = reached & kernels.exact  # averages over cells of t' are no covariance
    M_C = kernels.M_C[np.ix_(single, single)]
    eigenvalues = np.linalg.eigvalsh((M_C + M_C.T) / 2)
    least, most = float(eigenvalues[0]), float(eigenvalues[-1])
    found = [ResultCheck("smallest eigenvalue of M_C over the largest", least / most if most > 0 else 0.0,
                   least >= -1e-4 * most, "M_C is no covariance: the history may be compressed too much (blocks_per_level)"),
             ResultCheck("M_R and R on and above the diagonal", max(largest(np.triu(M_R)), largest(np.triu(R))),
                   not (np.triu(M_R).any() or np.triu(R).any()), "responses must be causal: the file was changed")]
    if (norm := fixed_norm(run.problem)) is not None:
        off = largest(np.diag(C) / norm - 1.0)
        found.append(ResultCheck(_off("C(t,t)", norm), off, off < 1e-6, "the sphere is left: rounding, or a divergence"))
    return found


def _off(name: str, norm: float) -> str:
    """How far a number is off the norm that a constraint fixes, as a share of it."""
    return f"{name} - 1" if norm == 1.0 else f"{name}/{norm:.6g} - 1"


def _temperatures(theory: Theory) -> list[ResultCheck]:
    """Effective temperatures at the end, from some waiting times on, where the run asked for them."""
    if theory.columns is None or theory.columns.T_eff is None:
        return []
    found, told = theory.fdt(), []
    bath = found.bath[np.isfinite(found.bath)][-1:]
    for j in shown_waiting_times(theory.columns):
        t, T, error = found.at_end(j)
        if np.isfinite(T):
            told.append(ResultCheck(f"T_eff({t:g}, {found.t_w[j]:g})", T, None, f"+- {error:.2g}; bath a T = {bath[0]:.3g}"))
    return told


def network_checks(theory: Theory) -> list[ResultCheck]:
    """Norms that a constraint fixes, bias, and the kernels of a network."""
    network, found = theory.run.network, []
    if registry.find(NetworkConstraint.key, network.constraint) and (constraint := network.make_constraint()).rescales:
        off = largest(np.array([constraint.deviation(C) for C in theory.C]))
        found.append(ResultCheck(f"C(t,t) off what constraint = {constraint.name} fixes", off, off < 1e-6,
                                 "rounding, or a divergence"))
    found += _estimates(theory, ("m", "C"))
    M_R, R = theory.kernels.M_R, theory.kernels.R
    above = np.triu_indices(len(R))
    causal = max(largest(M_R[above]), largest(R[above]))
    return [*found, ResultCheck("M_R and R on and above the diagonal", causal, causal == 0.0 or np.isnan(causal),
                                "responses must be causal: the file was changed")]


def simulation_checks(result: Any, threshold: float) -> list[ResultCheck]:
    """Diverged instances, the norm where it is fixed, and the share of instances whose loss ends below a threshold."""
    diverged, solved = solved_check(result, threshold)
    if (norm := fixed_norm(result.run.problem)) is None:
        return [diverged, solved]
    off = largest(result.q / norm - 1.0)
    return [diverged, ResultCheck(_off("q", norm), off, off < 1e-5, "weights left the sphere"), solved]


def solved_check(result: Any, threshold: float) -> list[ResultCheck]:
    """Diverged instances, and the share of those whose loss ends below a threshold."""
    share, solved = float(result.diverged.mean()), result.share_below(threshold)
    return [ResultCheck("share of diverged instances", share, share == 0.0, "the learning rate is too large for some landscapes"),
            ResultCheck(f"share of instances with loss < {threshold:g} at the end", float(solved.share[-1]), None,
                        f"between {solved.low[-1]:.3f} and {solved.high[-1]:.3f} with 95 % confidence")]
