"""Systematic errors of a theory beside its error bars, by one rule for everything that shows a result: the bias of finitely many
samples and what blocks of the history cost, of every curve and of the columns.

An estimate is judged as a whole, each entry in units of its error bar: rms(estimate/bar) / rms(its error/bar). If all entries move
as one this is a Student variable, and large less often otherwise; single entries may have far too small an error by chance. Two
sizes count. An estimate *shows* where it is larger than the error bar and than BIAS_SIGMAS of its own errors: it is then printed
beside the result. It is *certain* where chance makes none of all estimates that large in all but SYSTEMATIC_CHANCE of results: then
there is a warning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dmft.core.averages import ERROR_ROUNDING
from dmft.files.layouts import IDENTITIES, TOLD
from dmft.result.comparison import chance_bounds
from dmft.result.statistics import BIAS, HISTORY_ERROR, Arrays

BIAS_SIGMAS = 1.5
SYSTEMATIC_CHANCE = 0.05
BAR_FLOOR = 0.1  # of the root mean square of all error bars: some are far too small by chance
WORDS = {BIAS: "finite-sample bias", HISTORY_ERROR: "error by the blocks of the history"}
REMEDIES = {BIAS: "take more samples, not more replicas", HISTORY_ERROR: "take more blocks_per_level, or more samples"}


class Systematic(NamedTuple):
    """An estimate of one dataset; NaN throughout where it is not known."""

    what: str  # BIAS or HISTORY_ERROR
    name: str  # of a curve, or columns/C
    ratio: float  # rms(estimate / error bar)
    noise: float  # the same of its own error
    certain: bool  # larger than the error bar, and than chance explains
    value: float  # the estimate that is largest beside its error bar, and where
    error: float
    bar: float
    at: str
    unknown: bool = False  # companions diverged where the result did not

    @property
    def shows(self) -> bool:
        """Whether it is larger than the error bar, and than its own errors explain."""
        return self.ratio > max(1.0, BIAS_SIGMAS * self.noise)

    @property
    def title(self) -> str:
        """What it is of which dataset."""
        return f"{WORDS[self.what]} of {self.name}"

    def __str__(self) -> str:
        return f"{self.value:+.2g} +- {self.error:.2g} at {self.at}"


def systematic_errors(arrays: Arrays) -> list[Systematic]:
    """The estimates of a result from the datasets of its file, those that are largest beside their error bars first. Residuals of
    identities have none: they are exactly 0 with infinitely many samples, and their size is what they say."""
    named = [(what, name) for what in TOLD for key in arrays for group, _, name in (key.partition("/"),) if group == what
             if name not in IDENTITIES and {name, f"{name}_error", f"{what}/{name}_error"} <= set(arrays)]
    m = arrays.get("replicas/m", np.zeros((1, 1)))
    replicas = np.isfinite(m.reshape(len(m), -1)).all(axis=1).sum()
    found = []
    for what, name in named:
        count = int(arrays.get(f"state/{what}/count", (replicas,))[0])
        bound = chance_bounds(len(named), np.array(max(count - 1, 1)), SYSTEMATIC_CHANCE)
        found.append(_judged(arrays, what, name, float(bound)))
    return sorted(found, key=lambda one: -np.nan_to_num(one.ratio, nan=-1.0))


def shown(arrays: Arrays) -> list[str]:
    """Lines for people: what a result is off by beyond its error bars."""
    return [f"{one.title}: {one}, error bar {one.bar:.2g}" + ("" if one.certain else "; may be chance")
            for one in systematic_errors(arrays) if one.shows]


def _judged(arrays: Arrays, what: str, name: str, bound: float) -> Systematic:
    """The estimate of one dataset. bound: |z| that is certain."""
    value, bar, estimate, error = (arrays[f"{group}{name}{ending}"].ravel() for group in ("", f"{what}/")
                                   for ending in ("", "_error"))
    unknown = bool(np.any(np.isnan(estimate) & np.isfinite(value)))
    known = np.flatnonzero(np.isfinite(estimate) & np.isfinite(error) & np.isfinite(bar))
    if unknown or not known.size:
        return Systematic(what, name, np.nan, np.nan, False, np.nan, np.nan, np.nan, "", unknown)
    unit = np.hypot(bar[known], max(BAR_FLOOR * float(np.sqrt(np.mean(bar[known] ** 2))), ERROR_ROUNDING))
    size, own = (np.abs(array[known]) / unit for array in (estimate, error))
    ratio, noise = (float(np.sqrt(np.mean(array**2))) for array in (size, own))
    i = known[np.argmax(np.where(size > BIAS_SIGMAS * own, size, 0.0))]
    certain = ratio > max(bound * noise, BIAS_SIGMAS * noise, 1.0)
    return Systematic(what, name, ratio, noise, certain, float(estimate[i]), float(error[i]), float(bar[i]),
                      _place(arrays, name, int(i)))


def _place(arrays: Arrays, name: str, i: int) -> str:
    """Where entry i of a dataset lies, in words."""
    if "/" not in name:
        return f"t = {arrays['t'][i // max(arrays[name][0].size, 1)]:g}"
    entry = int(np.prod(arrays[name].shape[2:]))  # of a network, whose entries are matrices
    row, wait = divmod(i // entry, arrays["columns/t_w"].size)
    return f"t = {arrays['columns/t'][row]:g}, t_w = {arrays['columns/t_w'][wait]:g}"
