"""Draw what is in a file: any result of the project, or the checkpoint of a run under way.

examples:
  dmft plot runs/out/demo.theory.h5                     picture beside the file
  dmft plot runs/out/demo.simulation.h5 -o demo.pdf
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a result file or a checkpoint")
    parser.add_argument("-o", "--output", metavar="FILE.png", type=Path,
                        help="the picture; the name gives the format (default: FILE.png)")


def run(options: argparse.Namespace) -> int:
    from dmft.inspection.opening import open_file

    if world().is_root:
        opened = open_file(options.file)
        output = options.output or Path(str(opened.path).removesuffix(".checkpoint").removesuffix(".h5") + ".png")
        draw_file(opened, output)
        print(f"picture: {output}")
    return EXIT_DONE


def draw_file(opened, output: Path) -> None:
    """The picture that suits the kind of file."""
    if opened.kind == "theory":
        from dmft.plots.theory import draw
        draw(opened.result, output)
    elif opened.kind == "simulation":
        from dmft.plots.simulation import draw as draw_simulation
        draw_simulation(opened.result, output)
    elif opened.kind == "onepass":
        from dmft.inspection.curves import curves_of
        from dmft.plots.onepass import draw as draw_onepass
        draw_onepass(curves_of(opened), f"{opened.path.name}: {opened.result.source}", output)
    elif opened.kind == "convergence":
        from dmft.plots.convergence import draw as draw_study
        draw_study(opened.result, output)
    else:
        from dmft.plots.scan import draw as draw_sweep
        draw_sweep(opened.result, opened.result.axis(), output)
