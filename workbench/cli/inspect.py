"""Show what is in a file: any result of the project, or the checkpoint of a run under way.

examples:
  dmft inspect runs/out/demo.theory.h5
  dmft inspect runs/out/demo.theory.h5.checkpoint       how far a live run has come, and how long it will take
  dmft inspect FILE.h5 --json | jq .warnings
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from workbench.inspection.facts import facts
from workbench.inspection.opening import open_file
from workbench.inspection.page import page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a result file or a checkpoint")
    parser.add_argument("--json", action="store_true", help="print the same as JSON, for scripts")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        found = facts(open_file(options.file))
        print(json.dumps(found, indent=1, allow_nan=False) if options.json else page(found))
    return EXIT_DONE
