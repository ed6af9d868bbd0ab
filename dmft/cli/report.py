"""Write one page for the browser: curves with bands, theory over simulation, kernels with a waiting-time slider, tables.

The page needs no network and no other file. Any result files and live checkpoints, side by side.

examples:
  dmft report runs/out/demo.theory.h5 runs/out/demo.simulation.h5 -o report.html
  dmft report study.h5 -o study.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="result files or checkpoints")
    parser.add_argument("-o", "--output", metavar="FILE.html", type=Path, required=True, help="the page")
    parser.add_argument("--force", action="store_true", help="overwrite an existing page")


def run(options: argparse.Namespace) -> int:
    from dmft.inspection.opening import open_file
    from dmft.report import write_report

    if world().is_root:
        if options.output.exists() and not options.force:
            raise FileError(f"{options.output}: exists; --force overwrites it")
        write_report([open_file(path) for path in options.files], options.output)
        print(f"report: {options.output}")
    return EXIT_DONE
