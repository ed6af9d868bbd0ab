"""A figure as data: which runs it needs, at which sizes, and what its panels show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dmft.core.errors import UserError

SIZES = ("quick", "standard", "full")
Changes = Mapping[str, Any]  # {"section.key": value}, as after --set


@dataclass(frozen=True)
class Series:
    """One experiment: a run file of the figure's folder (or FOLDER/NAME), with changes if it is part of a scan.

    shade: place in a scan, 0 to 1, for the colour; None takes the colour of the algorithm. tint: strength of that
    colour. theory, simulation: which halves are computed. of: the figure whose series of this name it is, with run, sizes and
    numbers. whole: of its theory every solution and the columns at waiting times are kept, too.
    """

    name: str
    run: str
    label: str
    changes: Changes = field(default_factory=dict)
    shade: float | None = None
    tint: float = 1.0
    theory: bool = True
    simulation: bool = True
    of: PaperFigure | None = None
    whole: bool = False


@dataclass(frozen=True)
class Size:
    """Changes of the run files at one size of a figure, for each half; `only`: names of the series to keep (empty: all).

    theory = None leaves the theory out. `by_series` holds further changes for both halves of single series, `theory_by_series` for
    their theory.
    """

    simulation: Changes = field(default_factory=dict)
    theory: Changes | None = field(default_factory=dict)
    only: tuple[str, ...] = ()
    by_series: Mapping[str, Changes] = field(default_factory=dict)
    theory_by_series: Mapping[str, Changes] = field(default_factory=dict)

    def changes(self, half: str, series: str) -> dict[str, Any] | None:
        """Of a half of a series; None where the size leaves it out."""
        mine = self.simulation if half == "simulation" else self.theory
        if mine is None:
            return None
        more = self.theory_by_series.get(series, {}) if half == "theory" else {}
        return {**mine, **self.by_series.get(series, {}), **more}


@dataclass(frozen=True)
class Panel:
    """One pair of axes: an observable of some series against t.

    statistic: mean | median | instances (a run a line) | solutions (of the theory, likewise) | correlation (C at waiting times, of
    the first series that has it). inset: a second observable in a corner.
    overlaps_line: draw (B.8) at the overlaps of each run, averaged over runs, in black over the error measured on fresh samples.
    """

    title: str
    series: tuple[str, ...]
    observable: str = "m"
    statistic: str = "mean"
    log_y: bool = False
    inset: str = ""
    overlaps_line: bool = False
    legend: bool = True


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper: `columns` panels in a row; `about` says what the paper shows; full: the sizes of the run files."""

    name: str
    about: str
    series: tuple[Series, ...]
    panels: tuple[Panel, ...]
    columns: int
    sizes: Mapping[str, Size]
    note: str = ""  # added to the caption: choices that the paper does not fix
    shares: bool = False  # add the share of runs that found the teacher to the caption

    def __post_init__(self) -> None:
        names = {series.name for series in self.series}
        unknown = {name for panel in self.panels for name in panel.series} - names
        unknown |= {name for size in self.sizes.values() for name in (*size.only, *size.by_series, *size.theory_by_series)} - names
        if unknown or set(self.sizes) != set(SIZES):
            raise ValueError(f"{self.name}: unknown series {sorted(unknown)} or sizes {sorted(self.sizes)}")

    def chosen(self, size: str) -> tuple[Series, ...]:
        """The series that this size computes."""
        only = self.sizes[size].only
        return tuple(series for series in self.series if not only or series.name in only)


def plain_text(label: str) -> str:
    """A label without its LaTeX, for a terminal: "SGD, $\\ell = 0.5$" -> "SGD, l = 0.5"."""
    return label.replace(r"\ell", "l").replace("\\", "").replace("$", "")


def scan(count: int) -> list[float]:
    """Shades, from 0 to 1, of the `count` values of a scan."""
    return [i / max(count - 1, 1) for i in range(count)]


def get(figures: Mapping[str, PaperFigure], name: str) -> PaperFigure:
    """A figure by its name."""
    if name not in figures:
        raise UserError(f"no figure '{name}'; there are {', '.join(figures)} (dmft figure --list describes them)")
    return figures[name]
