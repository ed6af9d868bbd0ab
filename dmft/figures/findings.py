"""What a figure's data say in numbers: end points, shares of solved runs, distance of theory and simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dmft.comparison import Comparison, Curve, compare, instances_curve
from dmft.core.config import Run, changes
from dmft.figures.jobs import Data, Job
from dmft.result import Theory
from sgd_sim import SimulationResult
from sgd_sim.cli import SOLVED

# What a caption tells when a size changes it, in the order of telling: (key, words).
TOLD = (("simulation.dimension", "N"), ("simulation.instances", "instances"), ("algorithm.t_max", "t up to"),
        ("theory.samples", "samples"), ("theory.replicas", "replicas"))


@dataclass(frozen=True)
class Agreement:
    """Largest |z| of theory against simulation over common times t > 0, and what chance allows (99 %)."""

    observable: str
    worst: float
    bound: float
    until: float

    @property
    def within(self) -> bool:
        return self.worst <= self.bound


def theory_curve(theory: Theory, name: str) -> Curve:
    """A curve of the theory, with its number of replicas."""
    return Curve(theory.t, theory.curves[name], theory.curves[f"{name}_error"], len(theory.replicas["m"]))


def against(theory: Theory, simulations: list[SimulationResult], observable: str) -> Comparison:
    """Theory against one simulation, or several at different N carried to infinity."""
    curves = [instances_curve(sim.t, getattr(sim, observable)) for sim in simulations]
    eta = theory.run.algorithm.learning_rate
    return compare(observable, theory_curve(theory, observable), curves,
                   [sim.run.simulation.dimension for sim in simulations], 1e-3 * eta)


def agreement(theory: Theory, simulation: SimulationResult, observable: str) -> Agreement | None:
    """How far apart they are; None where they share no time with error bars."""
    found = against(theory, [simulation], observable)
    good = np.isfinite(found.z) & (found.t > 0.0)
    if not good.any():
        return None
    return Agreement(observable, float(np.abs(found.z[good]).max()), found.bound, float(found.t[good].max()))


def table(data: Mapping[str, Data]) -> list[str]:
    """One line a series: where it ends, how many runs found the teacher, and how theory compares."""
    rows = [f"{'series':<24} {'N':>5} {'runs':>5} {'t':>6} {'mean m':>17} {'median m':>9} {'median loss':>12} {'loss < 1e-7':>22}"
            "  theory"]
    for name, found in data.items():
        sim, theory = found.simulation, found.theory
        text = f"{name:<24} "
        if sim is not None:
            mean, error, median, share = sim.mean(), sim.error(), sim.median(), sim.share_below(SOLVED)
            text += (f"{sim.run.simulation.dimension:5d} {sim.instances:5d} {sim.t[-1]:6g} {mean.m[-1]:8.4f} +- {error.m[-1]:.4f} "
                     f"{median.m[-1]:9.4f} {median.loss[-1]:12.3g} {100 * share.share[-1]:5.0f} % "
                     f"({100 * share.low[-1]:3.0f} to {100 * share.high[-1]:3.0f} %)")
        if sim is not None and theory is not None:
            text += "  " + ", ".join(_agreement_text(theory, sim, observable) for observable in ("m", "loss"))
        rows.append(text)
    return rows


def _agreement_text(theory: Theory, simulation: SimulationResult, observable: str) -> str:
    found = agreement(theory, simulation, observable)
    if found is None:
        return f"{observable}: no common times"
    return f"{observable}: max |z| = {found.worst:.1f} to t = {found.until:g} (99 % bound {found.bound:.1f})"


def caption(title: str, note: str, jobs: list[Job], full: list[Job]) -> str:
    """What is shown, and what is smaller than in the paper: as ranges over the series."""
    said = []
    reference = {(job.series.name, job.half): job.run() for job in full}
    for half, word in (("simulation", "Simulation"), ("theory", "Theory")):
        pairs = [(job.run(), reference.get((job.series.name, half))) for job in jobs if job.half == half]
        smaller = [text for key, words in TOLD if key.split(".")[0] in (half, "algorithm")
                   and (text := _told(pairs, key, words))]
        if smaller:
            said.append(f"{word}: {', '.join(smaller)}.")
    left_out = len({job.series.name for job in full} - {job.series.name for job in jobs})
    if left_out:
        said.append(f"{left_out} of the series are left out.")
    if any(job.half == "theory" for job in full) and not any(job.half == "theory" for job in jobs):
        said.append("No theory.")
    head = title[0].upper() + title[1:] + "."
    return " ".join([head, *said, *([note] if note else [])])


def _told(pairs: list[tuple[Run, Run | None]], key: str, words: str) -> str:
    section, name = key.split(".")
    ours = sorted({getattr(getattr(run, section), name) for run, _ in pairs})
    theirs = sorted({getattr(getattr(other, section), name) for _, other in pairs if other is not None})
    differs = any(other is not None and key in {change[0] for change in changes(other, run)} for run, other in pairs)
    if not ours:
        return ""
    return f"{words} {_range(ours)}" + (f" (full size {_range(theirs)})" if differs and theirs else "")


def _range(values: list[float]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}"
