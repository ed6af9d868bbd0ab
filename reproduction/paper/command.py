"""Make figures of the paper: compute its data, or reuse what is there, then draw it (PDF and PNG).

Data and pictures go to runs/out/NAME/SIZE/. Without --quick or --full the size is between the two. --full takes the
paper's sizes: minutes a figure on a GPU, days on a CPU. --commands prints one command per result instead of running them,
for mpirun or other machines, --submit the same for Slurm; once the results are there, the same call of `dmft figure` only draws.

With --numbers DIR means, medians, shares and errors of every finished result are kept as DIR/NAME/SERIES.HALF.json, and
what is kept is not computed again: so all figures can be made piece by piece, on several days or machines (`make
reproduce`). --scale 0.05 makes everything smaller, to try it on a CPU. --draw computes nothing and draws what is there.

examples:
  dmft figure --list
  dmft figure fig2 --quick                    minutes
  dmft figure fig2 --full --commands          what to run elsewhere
  dmft figure fig2 --full --submit | sh       one Slurm job per result (dmft submit)
  dmft figure all --quick
  dmft figure paper --full --device gpu --no-companions --numbers docs/numbers --time-limit 0:30:00
  dmft figure fig2 --full --numbers docs/numbers --draw
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dmft.cli import main as theory_command
from dmft.core.command import EXIT_DONE, OUT, once, seconds
from dmft.core.errors import UserError
from dmft.core.parallel import world
from dmft.core.progress import say
from dmft.core.stopping import EXIT_STOPPED
from reproduction.paper import FIGURES, PAPER, validation
from reproduction.paper.computations import Command, Data, Way, computations, load, make
from reproduction.paper.dimensions import dimensions_table
from reproduction.paper.figure import PaperFigure, get
from reproduction.paper.findings import caption, shares, table
from sgd_sim.cli import main as simulation_command
from workbench.cli.extras import can_draw, needs_pictures

FIGURE_COMMANDS: dict[str, Command] = {"theory": theory_command, "simulation": simulation_command}
# Figures whose table is their own.
OWN_TABLES: dict[str, Callable[[Mapping[str, Data]], list[str]]] = {"validation": validation.table, "dimensions": dimensions_table}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"{', '.join(FIGURES)}, paper (those of the paper) or all")
    parser.add_argument("--list", action="store_true", help="list the figures")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a smaller version in minutes; the caption says what is smaller")
    size.add_argument("--full", action="store_true", help="the paper's sizes")
    parser.add_argument("--commands", action="store_true", help="print the commands that make the data, run none")
    parser.add_argument("--submit", action="store_true", help="print the dmft submit commands for them, run none")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="device that computes the results (docs/gpu.md)")
    parser.add_argument("--no-caption", action="store_true", help="leave the caption out of the picture; it is printed anyway")
    parser.add_argument("--numbers", metavar="DIR", type=Path, help="keep the numbers of finished results there; skip what is kept")
    parser.add_argument("--scale", metavar="X", type=float, default=1.0, help="dimension, runs, samples and time times X <= 1")
    parser.add_argument("--no-companions", dest="companions", action="store_false",
                        help="the theory without the solutions that estimate its bias and history error: half the time")
    parser.add_argument("--time-limit", metavar="HH:MM:SS", help="stop after this time (exit 75); the same command continues")
    parser.add_argument("--draw", action="store_true", help="compute nothing, draw what is there")
    parser.add_argument("--force", action="store_true", help="compute again what is there already")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, default=OUT, help="where results go (default runs/out)")


def run(options: argparse.Namespace) -> int:
    if options.list or not options.names:
        if not options.list:
            raise UserError("which figure? dmft figure --list shows them")
        _print([f"{figure.name:<11}{figure.about}" for figure in FIGURES.values()])
        return EXIT_DONE
    size, way = "quick" if options.quick else "full" if options.full else "standard", _way(options)
    several = {"all": tuple(FIGURES), "paper": PAPER}
    for figure in [get(FIGURES, name) for word in options.names for name in several.get(word, (word,))]:
        if options.commands or options.submit:
            todo = computations(figure, size, way)
            _print([one.submission if options.submit else one.command for one in todo])
            continue
        if way.numbers is None and figure.panels:
            needs_pictures()    # with --numbers a machine without matplotlib computes what another one draws
        code = EXIT_DONE
        if not options.draw:
            with once():
                code = make(figure, size, FIGURE_COMMANDS, lambda text: say(text, quiet=options.quiet), way)
        if code not in (EXIT_DONE, EXIT_STOPPED):
            return code
        if world().is_root:
            _show(figure, size, way, not options.no_caption)
        if code:
            return code
    return EXIT_DONE


def _way(options: argparse.Namespace) -> Way:
    """How the figures are computed, as the options say."""
    if not 0.0 < options.scale <= 1.0:
        raise UserError(f"--scale {options.scale:g}: must be above 0, and 1 at most")
    limit = seconds(options.time_limit)
    return Way(options.output, options.device, options.scale, options.numbers, options.companions,
               None if limit is None else time.time() + limit, options.force, options.quiet)


def _print(lines: list[str]) -> None:
    if world().is_root:
        print("\n".join(lines))


def _show(figure: PaperFigure, size: str, way: Way, with_caption: bool) -> None:
    """Table and picture of what is there."""
    data = load(figure, size, way)
    _print(OWN_TABLES[figure.name](data) if figure.name in OWN_TABLES else table(figure, data))
    if not figure.panels or not data or not can_draw():
        return
    from reproduction.paper.drawing import draw  # matplotlib is an extra
    ours, full = computations(figure, size, way), computations(figure, "full", replace(way, scale=1.0))
    text = caption(figure.about, figure.note, ours, full, data)
    text += f" {shares(data)}" if figure.shares else ""
    paths = [way.out / figure.name / size / f"{figure.name}{suffix}" for suffix in (".png", ".pdf")]
    draw(figure, data, f"{figure.name} ({size}). {text}" if with_caption else "", paths)
    _print([f"{figure.name} ({size}). {text}"])
    _print([f"picture: {path}" for path in paths])
