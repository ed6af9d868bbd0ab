"""Compute and draw a figure of the companion papers. Parameters are in runs/, pictures go to runs/out/figures/, each with
its numbers in a CSV file of the same name; the main numbers are printed.

--quick uses smaller sizes and fewer instances (seconds instead of minutes).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from dmft.core import command
from dmft.core.errors import FileError, UserError, did_you_mean
from dmft.core.parallel import world
from dmft.core.progress import say
from reproduction.companions.arnaboldi import exits
from reproduction.companions.arnaboldi import numbers as arnaboldi
from reproduction.companions.arnaboldi import tables as arnaboldi_tables
from reproduction.companions.benarous import numbers as benarous
from reproduction.companions.benarous import tables as benarous_tables
from reproduction.companions.bocchi import numbers as bocchi
from reproduction.companions.bocchi import tables as bocchi_tables
from reproduction.companions.loureiro import numbers as loureiro
from reproduction.companions.loureiro import tables as loureiro_tables
from reproduction.companions.table import NumberRow, write_csv


class CompanionFigure(NamedTuple):
    """A figure: the function that computes its numbers (quick or not), the one that makes rows of them, "paper.function" of its
    drawing, and one line on what the figure shows."""

    numbers: Callable[[bool], Any]
    rows: Callable[[Any], list[NumberRow]]
    drawing: str
    shows: str

    def drawn_by(self) -> Callable[[Any, Path], None]:
        """The drawing function, imported when a picture is drawn: the list of figures is shown without matplotlib."""
        paper, _, function = self.drawing.partition(".")
        return getattr(import_module(f"reproduction.companions.{paper}.drawing"), function)


_COMPANION_TABLE: dict[str, tuple[Callable[[bool], Any], Callable[[Any], list[NumberRow]], str, str]] = {
    "arnaboldi1": (arnaboldi.figure1, arnaboldi_tables.paths, "arnaboldi.draw_paths",
                   "one unit: SGD and SDE from one start, exit times"),
    "arnaboldi2": (arnaboldi.figure2, arnaboldi_tables.ratios, "arnaboldi.draw_ratios", "measured exit times over formulas"),
    "arnaboldi3": (arnaboldi.figure3, arnaboldi_tables.largest, "arnaboldi.draw_largest",
                   "largest overlap, second layer fixed or trained"),
    "arnaboldi4": (arnaboldi.figure4, arnaboldi_tables.runs, "arnaboldi.draw_runs", "ODE and SGD, five and twenty units"),
    "arnaboldi5": (arnaboldi.figure5, arnaboldi_tables.paths, "arnaboldi.draw_paths", "two units: SGD and SDE from one start"),
    "arnaboldi6": (exits.figure6, arnaboldi_tables.surface, "arnaboldi.draw_landscape",
                   "landscape of one unit, the spectrum at the start"),
    "exits": (exits.exits, arnaboldi_tables.exits, "arnaboldi.draw_exits", "exit times of the chain against every formula"),
    "escape": (arnaboldi.scalings, arnaboldi_tables.scalings, "arnaboldi.draw_scalings",
               "escape by exponent, ODE distance, gain by width"),
    "benarous1": (benarous.figure1, benarous_tables.spiked, "benarous.draw_spiked", "spiked matrices and tensors"),
    "benarous2": (benarous.figure2, benarous_tables.mixture, "benarous.draw_mixture", "binary Gaussian mixture"),
    "benarous3": (benarous.figure3, benarous_tables.mixture, "benarous.draw_mixture", "XOR Gaussian mixture"),
    "bocchi1": (bocchi.figure1, bocchi_tables.overlaps, "bocchi.draw_overlaps", "order parameters, ODE and chain"),
    "bocchi2": (bocchi.figure2, bocchi_tables.rates, "bocchi.draw_rates", "optimal learning rate"),
    "bocchi3": (bocchi.figure3, bocchi_tables.selection, "bocchi.draw_selection",
                "the selected solution, conserved S(t) (figures 3, 4)"),
    "bocchi5": (bocchi.figure5, bocchi_tables.dimensions, "bocchi.draw_dimensions", "degrees of freedom, manifold (figures 5, 6)"),
    "loureiro": (loureiro.regimes, loureiro_tables.regimes, "loureiro.draw_regimes",
                 "regimes of erf committees, mean-field reduction"),
}
COMPANION_FIGURES = {name: CompanionFigure(*figure) for name, figure in _COMPANION_TABLE.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="name of a figure")
    parser.add_argument("--list", action="store_true", help="list the figures")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("-o", "--output", metavar="FILE.png", type=Path, help="picture (default: runs/out/figures/NAME.png)")
    parser.add_argument("--quiet", action="store_true", help="no messages")


def run(options: argparse.Namespace) -> int:
    if options.list or options.name is None:
        for name, figure in COMPANION_FIGURES.items() if world().is_root else ():
            print(f"{name:<12} {figure.shows}")
        return command.EXIT_DONE
    if options.name not in COMPANION_FIGURES:
        raise UserError(f"no figure '{options.name}' (onepass figure --list){did_you_mean(options.name, COMPANION_FIGURES)}")
    output = options.output or command.OUT / "figures" / f"{options.name}.png"
    if output.is_dir():
        raise FileError(f"-o {output}: is a folder; name the picture, for example {output / options.name}.png")
    figure = COMPANION_FIGURES[options.name]
    begin = time.monotonic()
    say(f"{options.name}: {figure.shows}", quiet=options.quiet)
    draw = figure.drawn_by()  # before the work: without matplotlib the command ends here
    data = figure.numbers(options.quick)  # on every rank, since ensembles are spread over the ranks
    world().from_root(lambda: _write(figure, draw, data, output, options.quiet))
    say(f"drew {output}, numbers in {output.with_suffix('.csv')}, {time.monotonic() - begin:.0f} s", quiet=options.quiet)
    return command.EXIT_DONE


def _write(figure: CompanionFigure, draw: Callable[[Any, Path], None], data: Any, output: Path, quiet: bool) -> None:
    draw(data, output)
    rows, table = figure.rows(data), output.with_suffix(".csv")
    write_csv(rows, table)
    for row in rows:
        if row.printed and not quiet:
            print(row.text())
