"""The numbers that somebody chose: what the default estimator returns at a finite number of samples depends on them, its limit of
many samples does not. docs/notes/tuning.md tells of each what half and double of it do to m and to its error.

They come as arguments, into compiled code too, so that a study can change any of them without compiling anything again:

    dmft.solve(run, estimator=dmft.Estimator(ridge_prior=4.0))
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from dmft.core.errors import UserError


def _chosen(value: float, does: str, why: str) -> Any:
    """A field: its default, what it does, and why it has this value or where that was measured."""
    return field(default=value, metadata={"does": does, "why": why})


@dataclass(frozen=True)
class Estimator:
    """How row n of the kernels is made of samples: draws, tangents, the ridge of [ibp], the control variate of [stein], and the
    guards against samples and rounding that would spoil a solution."""

    # How samples start: eq. [draws].
    sobol_steps: int = _chosen(
        10, "first steps whose normals behind chi are part of the Sobol set",
        "later normals gain nothing; part of the scrambling, so that other values are other random numbers")
    sobol_changes: int = _chosen(
        4, "first changes of a persistent mini-batch weight that are part of the Sobol set", "as sobol_steps")
    start_width: float = _chosen(
        1.2, "factor by which h0 and h(0) are drawn too wide where barriers do not matter, and beyond barrier_width_upto",
        "g ~ h^3 lives in the tails; much wider, and samples start where the explicit step is unstable")
    field_width: float = _chosen(1.1, "the same for the field, on losses with barriers", "variance of m (performance.md)")
    barrier_width: float = _chosen(
        2.0, "the same for what is independent of the field", "samples on a barrier carry the noise of late times (performance.md)")
    barrier_width_upto: float = _chosen(
        2.5, "up to where barrier_width holds",
        "samples with the largest h0 are on chaotic orbits for ever where steps are large, and none of them may weigh much")
    warm_overlap: float = _chosen(
        0.7, "m0/sqrt(q) from which on nothing is done about barriers", "close to the teacher hardly a sample is on one")
    random_h0_width: float = _chosen(1.4, "factor for h0 of random starts", "there are averages with the weight h0^2")
    random_h0_max: float = _chosen(
        6.0, "where h0 of random starts is cut off", "its weight is negligible, and the explicit step of most runs is still stable")
    least_carriers: int = _chosen(
        512, "least number of samples with tangents (or all, if fewer)", "they give the shape of a row of the response")
    jump_pairs: float = _chosen(0.25, "pairs of samples on a jump of the labels, per sample", "chosen, not fitted")

    # Tangents T and the response Y: eqs. [dmft-T], [stein].
    tangent_flush: float = _chosen(
        1e-18, "responses below this are zero", "products of two of them would be denormal in single precision, and slow")
    tangent_max: float = _chosen(
        10.0, "largest |T| and |Y| that a step with eta g' > 2 leaves",
        "a single overshoot is sound and stays well below; who keeps overshooting is on a chaotic orbit, whose tangent grows while "
        "the average response does not")
    tangent_sum_max: float = _chosen(
        10.0, "largest sum_J |T_nJ| with which a sample counts where [ibp] completes the response", "no tail is left")
    y_outlier: float = _chosen(1.0, "|Y| from which on a sample is on its way out of a barrier", "see control_fade_weight")
    y_max: float = _chosen(
        100.0, "largest |Y|",
        "on a barrier Y grows to 10^4 and more, and one sample would move the whole solution; moves m of GD by 0.0001 "
        "(performance.md)")

    # The ridge of the identity: eqs. [ibp], [random-ibp].
    ridge_prior: float = _chosen(
        2.0, "variance of g'_n sum_k T_nk over samples that eps assumes",
        "fixed, because a fitted one is biased: solutions that miss the tail also look quiet")
    ridge_alike: float = _chosen(0.2, "that variance as sampled below which all samples respond alike", "a linear loss has 0")
    ridge_floor: float = _chosen(
        1e-5, "least eps, in units of the mean of Q on its diagonal",
        "once nothing is left to learn the residual holds what blocks of the history cost; the loss of a solved run falls to "
        "rounding so, and to 1e-22 with 1e-13 (persistence 2, t = 250, tuning.md)")
    trusted_share: float = _chosen(
        1 / 16, "largest share of samples with tangents that counts in eps, where the loss is not convex",
        "chosen, not fitted: what bounded tangents miss does not become less with their number (validation.md)")
    least_trusted: int = _chosen(128, "and least number of samples that counts", "as trusted_share")
    most_trusted: int = _chosen(1024, "and largest number of samples that counts", "what tangents miss then vanishes as K grows")
    ridge_stale: float = _chosen(
        2.0, "factor by which eps may be off before the Cholesky factor is made again, and by which it is raised where Q + eps S "
        "is not positive", "changes no coefficient by more than that")
    ridge_decay: float = _chosen(0.99, "factor a step by which a raised eps comes down", "slow beside a step, fast beside a run")
    ridge_max: float = _chosen(
        1e6, "eps at which raising it stops", "makes any Q positive; beyond it Q is not finite, and the solution has diverged")
    random_trust: float = _chosen(
        256.0, "factor by which the ridge of K1 is smaller",
        "bounded tangents miss more of K1; between 64 and 8192 V(t = 1) of GD changes by 3 % (random-starts.md)")

    # The control variate of mu: eq. [stein].
    control_fade_weight: float = _chosen(
        0.02, "weight p of samples beyond y_outlier at which it has faded, as 1/(1 + (p/.)^4)",
        "near a barrier Y has the tail of T")
    control_fade_gradient: float = _chosen(
        1e-4, "ratio of the noises of <g k> and of the response at which it has faded",
        "the noise of the response stays, that of <g k> falls with <g^2>; by the spread of m (performance.md)")
    control_fade_time: float = _chosen(
        20.0, "time t at which it has faded on losses with barriers, as 1/(1 + (t/.)^4)",
        "who leaves a barrier late has a Y that has grown exponentially (runs/longtimes/README.md)")

    # Guards: eqs. [lost], [dmft-chi].
    lost_step: float = _chosen(
        4.0, "step of a field, in units of 1 + |f| + |y|, beyond which a sample is lost if the next one is as long",
        "within the trapping region of phase retrieval a step moves f by 2 |f| at most")
    most_lost: float = _chosen(
        1e-4, "weight of lost samples beyond which a solution has diverged",
        "simulations of a few thousand dimensions would have such samples too, and what is left is the theory of none of them")
    largest: float = _chosen(
        1e60, "sums beyond this have diverged",
        "no step with a reasonable learning rate comes back; sums of g^2 ~ h^6 overflow soon")
    jitter: float = _chosen(1e-9, "variance of the white part of chi, in units of M_C(n,n)", "M_C is nearly singular")
    least_of_jitter: float = _chosen(
        0.01, "share of the jitter that variances, and pivots of Cholesky factors, are set to where rounding made them smaller",
        "what is left of a variance is never below the jitter but for rounding, so that it only has to be positive; chosen, not "
        "fitted")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value >= 0:
                raise UserError(f"Estimator: {each.name} = {value!r}: must not be negative")

    def __str__(self) -> str:
        """What differs from the default, as it is said in Python; empty for the default."""
        return ", ".join(f"{each.name}={value!r}" for each in fields(self) if (value := getattr(self, each.name)) != each.default)


ESTIMATOR = Estimator()
