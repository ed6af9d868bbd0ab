"""Compute and draw a figure of the companion papers. Parameters are in runs/, pictures go to runs/out/figures/.

--quick takes smaller sizes and fewer instances (seconds instead of minutes).
"""

from __future__ import annotations

import argparse
import difflib
import time
from pathlib import Path

from dmft.core import command
from dmft.core.errors import UserError
from dmft.core.parallel import world
from dmft.core.progress import say
from onepass.papers.arnaboldi import drawing as arnaboldi_drawing
from onepass.papers.arnaboldi import numbers as arnaboldi
from onepass.papers.benarous import drawing as benarous_drawing
from onepass.papers.benarous import numbers as benarous
from onepass.papers.bocchi import drawing as bocchi_drawing
from onepass.papers.bocchi import numbers as bocchi
from onepass.papers.loureiro import drawing as loureiro_drawing
from onepass.papers.loureiro import numbers as loureiro

# name: (numbers, drawing, what it shows)
FIGURES = {
    "arnaboldi1": (arnaboldi.figure1, arnaboldi_drawing.draw_paths, "one unit: SGD and SDE from one start, exit times"),
    "arnaboldi2": (arnaboldi.figure2, arnaboldi_drawing.draw_ratios, "measured exit times over formulas"),
    "arnaboldi3": (arnaboldi.figure3, arnaboldi_drawing.draw_largest, "largest overlap, second layer fixed or trained"),
    "arnaboldi4": (arnaboldi.figure4, arnaboldi_drawing.draw_runs, "ODE and SGD, five and twenty units"),
    "arnaboldi5": (arnaboldi.figure5, arnaboldi_drawing.draw_paths, "two units: SGD and SDE from one start"),
    "escape": (arnaboldi.scalings, arnaboldi_drawing.draw_scalings, "escape by exponent, ODE distance, gain by width"),
    "benarous1": (benarous.figure1, benarous_drawing.draw_spiked, "spiked matrices and tensors"),
    "benarous2": (benarous.figure2, benarous_drawing.draw_mixture, "binary Gaussian mixture"),
    "benarous3": (benarous.figure3, benarous_drawing.draw_mixture, "XOR Gaussian mixture"),
    "bocchi1": (bocchi.figure1, bocchi_drawing.draw_overlaps, "order parameters, ODE and chain"),
    "bocchi2": (bocchi.figure2, bocchi_drawing.draw_rates, "optimal learning rate"),
    "bocchi3": (bocchi.figure3, bocchi_drawing.draw_selection, "the selected solution, conserved S(t) (figures 3, 4)"),
    "bocchi5": (bocchi.figure5, bocchi_drawing.draw_dimensions, "degrees of freedom, manifold (figures 5, 6)"),
    "loureiro": (loureiro.regimes, loureiro_drawing.draw_regimes, "regimes of erf committees, mean-field reduction"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="name of a figure")
    parser.add_argument("--list", action="store_true", help="list the figures")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("-o", "--output", metavar="FILE.png", type=Path, help="picture (default: runs/out/figures/NAME.png)")
    parser.add_argument("--quiet", action="store_true", help="no messages")


def run(options: argparse.Namespace) -> int:
    return world().from_root(lambda: _figure(options))


def _figure(options: argparse.Namespace) -> int:
    if options.list or options.name is None:
        for name, (_, _, what) in FIGURES.items():
            print(f"{name:<12} {what}")
        return command.EXIT_DONE
    if options.name not in FIGURES:
        near = difflib.get_close_matches(options.name, FIGURES, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UserError(f"no figure '{options.name}' (onepass figure --list){hint}")
    numbers, drawing, what = FIGURES[options.name]
    begin = time.monotonic()
    say(f"{options.name}: {what}", quiet=options.quiet)
    data = numbers(options.quick)
    output = options.output or command.OUT / "figures" / f"{options.name}.png"
    drawing(data, output)
    say(f"drew {output} in {time.monotonic() - begin:.0f} s", quiet=options.quiet)
    return command.EXIT_DONE

