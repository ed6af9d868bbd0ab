"""How many samples and replicas a wanted accuracy takes, from a theory that is there: noise and bias apart.

A replica of K samples scatters by s with s^2 ~ 1/K, and is off by a bias ~ 1/K that more replicas do not lower. So the bias asks
for samples, and what is left of the target for replicas.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dmft.core.errors import UserError
from dmft.model.runfile import Run, changes
from dmft.result.theory import Theory

SHARE = 0.5  # of the target that the bias may take
CERTAIN = 2.0  # errors of the bias that are added to it, since it is an estimate
FEWEST_REPLICAS = 4  # replicas, for an error bar
ROUND = 1000  # samples come in multiples of this
PILOT_REPLICAS, PILOT_SAMPLES = 8, 2000


class Target(NamedTuple):
    """An accuracy: of which curve, absolute or as a share of its value, and when."""

    curve: str
    size: float
    relative: bool
    t: float

    @classmethod
    def parse(cls, text: str) -> Target:
        """From "m:0.2%@5" or "loss:0.001@5"."""
        found = re.fullmatch(r"(\w+):([0-9.eE+-]+)(%?)@([0-9.eE+-]+)", text.strip())
        try:
            curve, size, percent, t = found.groups()  # type: ignore[union-attr]
            target = cls(curve, float(size) / (100.0 if percent else 1.0), bool(percent), float(t))
        except (AttributeError, ValueError):
            raise UserError(f"--target {text!r}: write CURVE:ERROR@TIME, e.g. m:0.2%@5 or loss:0.001@5") from None
        if not target.size > 0.0 or not target.t > 0.0:
            raise UserError(f"--target {text!r}: error and time must be above 0")
        return target


class Accuracy(NamedTuple):
    """What a theory knows of a curve at a time."""

    value: float
    spread: float  # of one replica
    bias: float  # of a replica; NaN where it is not known
    bias_error: float
    samples: int
    replicas: int


class SamplePlan(NamedTuple):
    """Samples and replicas, and what they should give."""

    samples: int
    replicas: int
    noise: float
    bias: float
    wanted: float


def pilot_of(run: Run, target: Target, most: int = PILOT_SAMPLES) -> Run:
    """A cheap run, of at most so many samples, that tells scatter and bias."""
    if target.t > run.algorithm.t_max:
        raise UserError(f"--target: t = {target.t:g} is beyond algorithm.t_max = {run.algorithm.t_max:g}")
    samples = min(most, run.theory.samples)
    return run.replace({"theory.samples": samples, "theory.replicas": PILOT_REPLICAS, "theory.target_error": 0.0,
                        "theory.waiting_times": [], "theory.kernel_points": 0, "theory.snapshots": [], "theory.hessian": False,
                        "theory.fdt": False, "theory.companions": True, "algorithm.t_max": target.t})


def replicas_for_target(run: Run, pilot: Theory) -> tuple[int, float]:
    """How many replicas meet theory.target_error, which bounds the largest error of m, or of V from a random start, over all
    times; and the largest bias that is certain, which replicas do not lower. From a pilot with fewer samples, or as many."""
    name, share = "m" if pilot.V is None else "V", pilot.run.theory.samples / run.theory.samples
    error, count = float(np.nanmax(pilot.curves[f"{name}_error"])), int(pilot.averaged.sum())
    if not np.isfinite(error):
        raise UserError("theory.target_error: a pilot has no error bars: it diverged")
    bias, bias_error = (np.asarray(pilot.bias[key]) if key in pilot.bias else np.zeros(1) for key in (name, f"{name}_error"))
    certain = np.where(np.abs(bias) > CERTAIN * bias_error, np.abs(bias), 0.0)
    replicas = int(np.ceil(count * share * (error / run.theory.target_error) ** 2))
    return max(replicas, run.theory.replicas), float(np.nanmax(certain, initial=0.0)) * share


def same_problem(run: Run, theory: Theory) -> None:
    """UserError where a theory is one of another problem than the run."""
    found = [f"{key} {old} / {new}" for key, old, new in changes(run, theory.run)
             if key.startswith(("problem.", "network.", "algorithm.")) and key != "algorithm.t_max"]
    if found:
        raise UserError(f"--from: a theory of another run: {', '.join(found)}")


def accuracy(theory: Theory, target: Target) -> Accuracy:
    """Read off a theory. UserError where it does not have the curve, the time, or error bars."""
    if not theory.sampled:
        raise UserError("--target: nothing is sampled here, errors are 0, and there is nothing to plan; see dmft converge")
    if target.curve not in theory.names or theory.curves[target.curve].ndim != 1:
        raise UserError(f"--target: the theory has no curve '{target.curve}'; it has "
                        f"{', '.join(name for name in theory.names if theory.curves[name].ndim == 1)}")
    if not theory.t[0] < target.t <= theory.t[-1] * (1 + 1e-9):
        raise UserError(f"--target: t = {target.t:g} is outside the theory, which ends at t = {theory.t[-1]:g}")
    i, replicas = max(int(np.argmin(np.abs(theory.t - target.t))), 1), int(theory.averaged.sum())
    value, error = (float(theory.curves[f"{target.curve}{ending}"][i]) for ending in ("", "_error"))
    if not np.isfinite(value) or not np.isfinite(error):
        raise UserError(f"--target: {target.curve}({target.t:g}) has no error bar in the theory: it diverged, or has one replica")
    told = (theory.bias.get(f"{target.curve}{ending}") for ending in ("", "_error"))
    bias, bias_error = (float(array[i]) if array is not None else np.nan for array in told)
    return Accuracy(value, error * replicas**0.5, bias, bias_error, theory.run.theory.samples, replicas)


def plan(known: Accuracy, target: Target) -> SamplePlan:
    """The fewest samples, from those of the theory on, for which the bias takes its share of the target, with so many replicas that
    the noise takes no more than the rest, added in squares."""
    wanted = target.size * (abs(known.value) if target.relative else 1.0)
    if not wanted > 0.0:
        raise UserError(f"--target: {target.curve}({target.t:g}) is 0; give an error without %")
    at_worst = abs(np.nan_to_num(known.bias)) + CERTAIN * np.nan_to_num(known.bias_error)
    scale = max(at_worst / (SHARE * wanted), 1.0)
    samples = int(-(-known.samples * scale // ROUND) * ROUND)
    bias, spread = known.bias * known.samples / samples, known.spread * (known.samples / samples) ** 0.5
    left = (1.0 - SHARE**2) ** 0.5 * wanted
    replicas = max(FEWEST_REPLICAS, 2 * int(np.ceil(0.5 * (spread / left) ** 2)))
    return SamplePlan(samples, replicas, spread / replicas**0.5, bias, wanted)
