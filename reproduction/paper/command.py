"""Make a figure of the paper: compute its data, or reuse what is there, then draw it (PDF and PNG).

Data and pictures go to runs/out/NAME/SIZE/. Without --quick or --full the size is between the two. --full takes the
paper's sizes: days on one machine. --commands prints one command per result instead of running them, for mpirun or
other machines, --submit the same for Slurm; once the results are there, the same call of `dmft figure` only draws.

examples:
  dmft figure --list
  dmft figure fig2 --quick                    minutes
  dmft figure fig2 --full --commands          what to run elsewhere
  dmft figure fig2 --full --submit | sh       one Slurm job per result (dmft submit)
  dmft figure all --quick
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.cli import main as theory_command
from dmft.core.command import EXIT_DONE, OUT, once
from dmft.core.errors import UserError
from dmft.core.parallel import world
from dmft.core.progress import say
from reproduction.paper import FIGURES, validation
from reproduction.paper.computations import Command, computations, load, make
from reproduction.paper.figure import PaperFigure, get
from reproduction.paper.findings import caption, shares, table
from sgd_sim.cli import main as simulation_command
from workbench.cli.extras import needs_pictures

FIGURE_COMMANDS: dict[str, Command] = {"theory": theory_command, "simulation": simulation_command}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"{', '.join(FIGURES)} or all")
    parser.add_argument("--list", action="store_true", help="list the figures")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a smaller version in minutes; the caption says what is smaller")
    size.add_argument("--full", action="store_true", help="the paper's sizes")
    parser.add_argument("--commands", action="store_true", help="print the commands that make the data, run none")
    parser.add_argument("--submit", action="store_true", help="print the dmft submit commands for them, run none")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="device that computes the results (docs/gpu.md)")
    parser.add_argument("--no-caption", action="store_true", help="leave the caption out of the picture; it is printed anyway")
    parser.add_argument("--force", action="store_true", help="compute again what is there already")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, default=OUT, help="where results go (default runs/out)")


def run(options: argparse.Namespace) -> int:
    if options.list or options.name is None:
        if not options.list:
            raise UserError("which figure? dmft figure --list shows them")
        _print([f"{figure.name:<11}{figure.about}" for figure in FIGURES.values()])
        return EXIT_DONE
    size = "quick" if options.quick else "full" if options.full else "standard"
    figures = list(FIGURES.values()) if options.name == "all" else [get(FIGURES, options.name)]
    for figure in figures:
        if options.commands or options.submit:
            todo = computations(figure, size, options.output, options.device)
            _print([one.submission if options.submit else one.command for one in todo])
            continue
        if figure.panels:
            needs_pictures()
        with once():
            code = make(figure, size, FIGURE_COMMANDS, options.force, options.quiet, lambda text: say(text, quiet=options.quiet),
                        options.output, options.device)
        if code:
            return code
        if world().is_root:
            _show(figure, size, options.output, not options.no_caption)
    return EXIT_DONE


def _print(lines: list[str]) -> None:
    if world().is_root:
        print("\n".join(lines))


def _show(figure: PaperFigure, size: str, out: Path, with_caption: bool) -> None:
    data = load(figure, size, out)
    _print(validation.table(data) if figure is validation.VALIDATION else table(figure, data))
    if not figure.panels:
        return
    from reproduction.paper.drawing import draw  # matplotlib is an extra
    text = caption(figure.about, figure.note, computations(figure, size, out), computations(figure, "full", out))
    text += f" {shares(data)}" if figure.shares else ""
    paths = [out / figure.name / size / f"{figure.name}{suffix}" for suffix in (".png", ".pdf")]
    draw(figure, data, f"{figure.name} ({size}). {text}" if with_caption else "", paths)
    _print([f"{figure.name} ({size}). {text}"])
    _print([f"picture: {path}" for path in paths])
