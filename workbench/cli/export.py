"""Write the contents of a file as tables: curves, replicas or instances, kernels, with meaning and unit of each column.

examples:
  dmft export runs/out/demo.theory.h5 --csv tables/
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world
from workbench.inspection.opening import open_file
from workbench.inspection.tables import export_csv


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a result file or a checkpoint")
    parser.add_argument("--csv", metavar="DIR", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        folder = options.csv
        if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not options.force)):
            raise FileError(f"{folder}: exists; --force writes into a folder that is not empty")
        for path in export_csv(open_file(options.file), folder):
            print(path)
    return EXIT_DONE
