"""Draw what is in a file: any result of the project, or the checkpoint of a run under way.

examples:
  dmft plot runs/out/demo.theory.h5                     picture beside the file
  dmft plot runs/out/demo.simulation.h5 -o demo.pdf
  dmft plot heat.theory.h5 --view fdt                   chi against C, effective temperatures
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from workbench.cli.extras import needs_pictures
from workbench.inspection.kinds import VIEWS, kind_of
from workbench.inspection.opening import open_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a result file or a checkpoint")
    parser.add_argument("-o", "--output", metavar="FILE.png", type=Path,
                        help="the picture; the name gives the format (default: FILE.png)")
    parser.add_argument("--view", choices=tuple(VIEWS), help="; ".join(f"{name}: {view.meaning}" for name, view in VIEWS.items()))


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        needs_pictures()
        opened = open_file(options.file)
        output = options.output or Path(str(opened.path).removesuffix(".checkpoint").removesuffix(".h5") + ".png")
        kind = kind_of(opened.header)
        if options.view:
            kind.draw_view(opened, options.view, output)
        else:
            kind.draw(opened, output)
        print(f"picture: {output}")
    return EXIT_DONE
