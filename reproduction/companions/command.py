"""Compute and draw a figure of the companion papers. Parameters are in runs/, pictures go to runs/out/figures/, each with
its numbers in a CSV file of the same name; the main numbers are printed.

--quick uses smaller sizes and fewer instances (seconds instead of minutes).
"""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dmft.core import command
from dmft.core.errors import FileError, UserError
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


# Drawings are imported when a picture is drawn: the list of figures is shown without matplotlib.
def _arnaboldi() -> ModuleType:
    from reproduction.companions.arnaboldi import drawing

    return drawing


def _benarous() -> ModuleType:
    from reproduction.companions.benarous import drawing

    return drawing


def _bocchi() -> ModuleType:
    from reproduction.companions.bocchi import drawing

    return drawing


def _loureiro() -> ModuleType:
    from reproduction.companions.loureiro import drawing

    return drawing


class CompanionFigure(NamedTuple):
    """A figure: the function that computes its numbers (quick or not), the one that makes rows of them, one that returns the
    drawing function (so that matplotlib is imported late), and one line on what the figure shows."""

    numbers: Callable[[bool], Any]
    rows: Callable[[Any], list[NumberRow]]
    drawing: Callable[[], Callable[[Any, Path], None]]
    shows: str


COMPANION_FIGURES = {
    "arnaboldi1": CompanionFigure(
        arnaboldi.figure1, arnaboldi_tables.paths, lambda: _arnaboldi().draw_paths,
        "one unit: SGD and SDE from one start, exit times",
    ),
    "arnaboldi2": CompanionFigure(
        arnaboldi.figure2, arnaboldi_tables.ratios, lambda: _arnaboldi().draw_ratios,
        "measured exit times over formulas",
    ),
    "arnaboldi3": CompanionFigure(
        arnaboldi.figure3, arnaboldi_tables.largest, lambda: _arnaboldi().draw_largest,
        "largest overlap, second layer fixed or trained",
    ),
    "arnaboldi4": CompanionFigure(
        arnaboldi.figure4, arnaboldi_tables.runs, lambda: _arnaboldi().draw_runs,
        "ODE and SGD, five and twenty units",
    ),
    "arnaboldi5": CompanionFigure(
        arnaboldi.figure5, arnaboldi_tables.paths, lambda: _arnaboldi().draw_paths,
        "two units: SGD and SDE from one start",
    ),
    "arnaboldi6": CompanionFigure(
        exits.figure6, arnaboldi_tables.surface, lambda: _arnaboldi().draw_landscape,
        "landscape of one unit, the spectrum at the start",
    ),
    "exits": CompanionFigure(
        exits.exits, arnaboldi_tables.exits, lambda: _arnaboldi().draw_exits,
        "exit times of the chain against every formula",
    ),
    "escape": CompanionFigure(
        arnaboldi.scalings, arnaboldi_tables.scalings, lambda: _arnaboldi().draw_scalings,
        "escape by exponent, ODE distance, gain by width",
    ),
    "benarous1": CompanionFigure(
        benarous.figure1, benarous_tables.spiked, lambda: _benarous().draw_spiked,
        "spiked matrices and tensors",
    ),
    "benarous2": CompanionFigure(
        benarous.figure2, benarous_tables.mixture, lambda: _benarous().draw_mixture,
        "binary Gaussian mixture",
    ),
    "benarous3": CompanionFigure(
        benarous.figure3, benarous_tables.mixture, lambda: _benarous().draw_mixture,
        "XOR Gaussian mixture",
    ),
    "bocchi1": CompanionFigure(
        bocchi.figure1, bocchi_tables.overlaps, lambda: _bocchi().draw_overlaps,
        "order parameters, ODE and chain",
    ),
    "bocchi2": CompanionFigure(
        bocchi.figure2, bocchi_tables.rates, lambda: _bocchi().draw_rates,
        "optimal learning rate",
    ),
    "bocchi3": CompanionFigure(
        bocchi.figure3, bocchi_tables.selection, lambda: _bocchi().draw_selection,
        "the selected solution, conserved S(t) (figures 3, 4)",
    ),
    "bocchi5": CompanionFigure(
        bocchi.figure5, bocchi_tables.dimensions, lambda: _bocchi().draw_dimensions,
        "degrees of freedom, manifold (figures 5, 6)",
    ),
    "loureiro": CompanionFigure(
        loureiro.regimes, loureiro_tables.regimes, lambda: _loureiro().draw_regimes,
        "regimes of erf committees, mean-field reduction",
    ),
}


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
        near = difflib.get_close_matches(options.name, COMPANION_FIGURES, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UserError(f"no figure '{options.name}' (onepass figure --list){hint}")
    output = options.output or command.OUT / "figures" / f"{options.name}.png"
    if output.is_dir():
        raise FileError(f"-o {output}: is a folder; name the picture, for example {output / options.name}.png")
    figure = COMPANION_FIGURES[options.name]
    begin = time.monotonic()
    say(f"{options.name}: {figure.shows}", quiet=options.quiet)
    draw = figure.drawing()  # before the work: without matplotlib the command ends here
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
