"""Compute and draw a figure of the companion papers. Parameters are in runs/, pictures go to runs/out/figures/.

--quick takes smaller sizes and fewer instances (seconds instead of minutes).
"""

from __future__ import annotations

import argparse
import difflib
import time
from importlib import import_module
from pathlib import Path

from dmft.core import command
from dmft.core.errors import UserError
from dmft.core.parallel import world
from dmft.core.progress import say

# name: (numbers, drawing, what it shows)
FIGURES = {
    "arnaboldi1": ("figures.arnaboldi.figure1", "arnaboldi.draw_paths", "one unit: SGD and SDE from one start, exit times"),
    "arnaboldi2": ("figures.arnaboldi.figure2", "arnaboldi.draw_ratios", "measured exit times over formulas"),
    "arnaboldi3": ("figures.arnaboldi.figure3", "arnaboldi.draw_largest", "largest overlap, second layer fixed or trained"),
    "arnaboldi4": ("figures.arnaboldi.figure4", "arnaboldi.draw_runs", "ODE and SGD, five and twenty units"),
    "arnaboldi5": ("figures.arnaboldi.figure5", "arnaboldi.draw_paths", "two units: SGD and SDE from one start"),
    "escape": ("figures.arnaboldi.scalings", "arnaboldi.draw_scalings", "escape by exponent, ODE distance, gain by width"),
    "benarous1": ("figures.benarous.figure1", "benarous.draw_spiked", "spiked matrices and tensors"),
    "benarous2": ("figures.benarous.figure2", "benarous.draw_mixture", "binary Gaussian mixture"),
    "benarous3": ("figures.benarous.figure3", "benarous.draw_mixture", "XOR Gaussian mixture"),
    "bocchi1": ("figures.bocchi.figure1", "bocchi.draw_overlaps", "order parameters, ODE and chain"),
    "bocchi2": ("figures.bocchi.figure2", "bocchi.draw_rates", "optimal learning rate"),
    "bocchi3": ("figures.bocchi.figure3", "bocchi.draw_selection", "the selected solution, conserved S(t) (figures 3, 4)"),
    "bocchi5": ("figures.bocchi.figure5", "bocchi.draw_dimensions", "degrees of freedom, manifold (figures 5, 6)"),
    "loureiro": ("figures.loureiro.regimes", "loureiro.draw_regimes", "regimes of erf committees, mean-field reduction"),
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
    data = _function(f"onepass.{numbers}")(options.quick)
    output = options.output or command.OUT / "figures" / f"{options.name}.png"
    _function(f"dmft.plots.{drawing}")(data, output)
    say(f"drew {output} in {time.monotonic() - begin:.0f} s", quiet=options.quiet)
    return command.EXIT_DONE


def _function(name: str):
    module, _, function = name.rpartition(".")
    return getattr(import_module(module), function)
