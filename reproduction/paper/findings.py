"""What a figure's data say in numbers: end points, shares of solved runs, distance of theory and simulation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from dmft.model.runfile import Run
from dmft.result.comparison import Comparison, compare
from reproduction.paper.computations import Computation, Data
from reproduction.paper.figure import PaperFigure, Series, plain_text
from reproduction.paper.numbers import Lines, Numbers, Runs
from sgd_sim.result import SOLVED

HIGH = 0.9  # the time to reach this overlap is reported

# Keys whose values a caption states, in this order: (key, words).
TOLD_KEYS = (("simulation.dimension", "N"), ("simulation.instances", "instances"), ("algorithm.t_max", "t up to"),
        ("theory.samples", "samples"), ("theory.replicas", "replicas"))


@dataclass(frozen=True)
class Agreement:
    """Largest |z| of theory against simulation over common times t > 0, and what chance allows (99 %)."""

    observable: str
    worst: float
    bound: float
    until: float


def against(theory: Lines, simulations: list[Runs], observable: str) -> Comparison:
    """Theory against one simulation, or several at different N extrapolated to infinity."""
    return compare(observable, theory.curve(observable), [sim.curve(observable) for sim in simulations],
                   [sim.run.simulation.dimension for sim in simulations], 1e-3 * theory.run.algorithm.first_rate)


def agreement(theory: Lines, simulation: Runs, observable: str) -> Agreement | None:
    """How far apart they are; None where they share no time with error bars."""
    found = against(theory, [simulation], observable)
    good = np.isfinite(found.z) & np.isfinite(found.theory.error) & (found.t > 0.0)  # a single replica has no error bar
    if not good.any():
        return None
    return Agreement(observable, float(np.abs(found.z[good]).max()), found.bound, float(found.t[good].max()))


def table(figure: PaperFigure, data: Mapping[str, Data]) -> list[str]:
    """One line per series: where it ends, how many runs found the teacher, and how theory compares."""
    ridge = any(panel.observable == "mse_fresh" for panel in figure.panels)
    rows = [f"{'series':<22} {'N':>5} {'runs':>4} {'t':>5} {'mean m':>17} {'median':>7} {'med. loss':>9} {'loss < 1e-7':>25} "
            f"{'m = 0.9 at':>10}" + (f" {'mse':>17} {'its rise':>17}" if ridge else "") + "  theory"]
    for name, found in data.items():
        sim, theory = found.simulation, found.theory
        if sim is None:
            continue
        m, loss, (share, low, high) = sim.curves["m"], sim.curves["loss"], sim.share()
        text = (f"{name:<22} {sim.run.simulation.dimension:5d} {sim.instances:4d} {sim.t[-1]:5g} "
                f"{m['mean'][-1]:8.4f} +- {m['error'][-1]:.4f} {m['median'][-1]:7.4f} {loss['median'][-1]:9.2g} "
                f"{100 * share:5.1f} % ({100 * low:4.1f} to {100 * high:5.1f} %) {first_passage(sim.t, m['median'], HIGH):10.3g}")
        if ridge:
            mse = sim.curves["mse_fresh"]
            text += f" {mse['mean'][-1]:8.4f} +- {mse['error'][-1]:.4f} {sim.rise[0]:8.4f} +- {sim.rise[1]:.4f}"
        if theory is not None:
            text += "  " + ", ".join(_agreement_text(theory, sim, observable) for observable in ("m", "loss"))
        rows.append(text)
    return rows


def first_passage(t: np.ndarray, values: np.ndarray, level: float) -> float:
    """The first recorded time at which a curve is above the level; NaN when it never is."""
    above = np.flatnonzero(values > level)
    return float(t[above[0]]) if above.size else float("nan")


def _agreement_text(theory: Lines, simulation: Runs, observable: str) -> str:
    found = agreement(theory, simulation, observable)
    if found is None:
        return f"{observable}: no common times"
    return f"{observable}: max |z| = {found.worst:.1f} to t = {found.until:g} (99 % bound {found.bound:.1f})"


def shares(data: Mapping[str, Data]) -> str:
    """A sentence for the caption: the share of runs of each series that found the teacher by the end."""
    told = []
    for found in data.values():
        if found.simulation is not None:
            share, low, high = found.simulation.share()
            told.append(f"{plain_text(found.series.label).split(',')[0]} {100 * share:.1f} % "
                        f"({100 * low:.1f} to {100 * high:.1f} %)")
    return f"Training loss below {SOLVED:g} at the end (95 % interval): {', '.join(told)}."


def caption(title: str, note: str, planned: list[Computation], full: list[Computation], data: Mapping[str, Data]) -> str:
    """What is shown, with which parameters, and what is smaller than in the paper: as ranges over the series, in plain text. What
    is planned and not there, or not to its end, is told, too."""
    there = [(one, found) for one in planned if (found := _numbers(one, data)) is not None]
    ours = [one for one, _ in there]
    said = [_parameters([one.run() for one in planned])]
    for half, word in (("simulation", "Simulation"), ("theory", "Theory")):
        mine, theirs = ([one.run() for one in some if one.half == half] for some in (ours, full))
        if mine:
            told = [_told(mine, theirs, key, words) for key, words in TOLD_KEYS if key.split(".")[0] in (half, "algorithm")]
            said.append(f"{word}: {', '.join(told)}.")
    shown = {one.series.name: one.series.label for one in planned}
    left_out = dict.fromkeys(_named(one.series, shown.values()) for one in full if one.series.name not in shown)
    if left_out:
        said.append(f"Left out at this size, to save time: {'; '.join(left_out)}.")
    if any(one.half == "theory" for one in full) and not any(one.half == "theory" for one in planned):
        said.append("No theory at this size.")
    labels = list(shown.values())
    repeated = [label for label in labels if labels.count(label) > 1]
    absent = [f"{one.half} of {_named(one.series, repeated)}" for one in planned if one not in ours]
    early = [f"theory of {_named(one.series, repeated)} to t = {found.t[-1]:g}" for one, found in there
             if one.half == "theory" and found.t[-1] < (1.0 - 1e-4) * one.run().algorithm.t_max]
    said += [f"Not computed: {'; '.join(absent)}."] if absent else []
    said += [f"Not computed to the end: {'; '.join(early)}."] if early else []
    bands = "Bands and bars: 2 standard errors."
    head = title[0].upper() + title[1:] + "."
    return " ".join([head, *said, *([note] if note else []), bands])


def _numbers(one: Computation, data: Mapping[str, Data]) -> Numbers | None:
    """What was computed of it, where it is there."""
    return getattr(data[one.series.name], one.half) if one.series.name in data else None


def _named(series: Series, others: Collection[str]) -> str:
    """The label of a series, with its changes if another series has the same label."""
    changed = ", ".join(f"{key.partition('.')[2]} = {value}" for key, value in series.changes.items())
    return plain_text(series.label) + (f" ({changed})" if series.label in others and changed else "")


def _parameters(runs: list[Run]) -> str:
    """alpha, start, learning rate, and when the temperature is switched off."""
    told = [f"alpha = {_range(sorted({run.problem.alpha for run in runs}))}"]
    warm = sorted({run.problem.m0 for run in runs if run.problem.m0 is not None})
    told += [f"m0 = {_range(warm)}"] if warm else [f"{runs[0].problem.start} start"]
    told.append(f"eta = {_range(sorted({run.algorithm.first_rate for run in runs}))}")
    off = sorted({t for run in runs for t in _switched_off(run.algorithm.temperature)})
    if off:
        told.append(f"temperature switched off at t = {_range(off)}")
    return ", ".join(told) + "."


def _switched_off(temperature: object) -> list[float]:
    """The time from which on a schedule [[time, T], ...] is T = 0; None for a constant."""
    if not isinstance(temperature, (list, tuple)) or len(temperature) < 2:
        return []
    (time, last), warm = temperature[-1], any(value > 0 for _, value in temperature)
    return [float(time)] if last == 0 and warm else []


def _told(ours: list[Run], theirs: list[Run], key: str, words: str) -> str:
    section, name = key.split(".")
    values, full = (sorted({getattr(getattr(run, section), name) for run in runs}) for runs in (ours, theirs))
    return f"{words} {_range(values)}" + (f" (full size {_range(full)})" if full and values != full else "")


def _range(values: list[float]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}"
