"""Write one page for the browser: curves with bands, theory over simulation, kernels with a waiting-time slider, tables.

The page needs no network and no other file, and takes any number of result files and checkpoints of running jobs.

examples:
  dmft report runs/out/demo.theory.h5 runs/out/demo.simulation.h5 -o report.html
  dmft report study.h5 -o study.html --title "Convergence at alpha = 2" --notes "before the change of the sampler"
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from workbench import api
from workbench.cli.extras import needs_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="result files or checkpoints")
    parser.add_argument("-o", "--output", metavar="FILE.html", type=Path, required=True, help="the page")
    parser.add_argument("--title", default="", help="title of the page (default: the titles of the runs)")
    parser.add_argument("--notes", default="", help="a paragraph below the title")
    parser.add_argument("--force", action="store_true", help="overwrite an existing page")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        needs_report()
        place = api.report(options.files, options.output, force=options.force, title=options.title, notes=options.notes)
        print(f"report: {place}")
    return EXIT_DONE
