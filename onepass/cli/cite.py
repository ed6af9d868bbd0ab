"""Print what to cite for a run, as BibTeX: the software and the papers of its model.

examples:
  onepass cite runs/arnaboldi/figure1.toml
"""

from __future__ import annotations

import argparse

from dmft.core.command import EXIT_DONE, set_options
from dmft.core.parallel import world
from dmft.core.references import citation
from onepass import runfile
from onepass.references import references_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    set_options(parser)


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        print(citation(references_of(runfile.load_run(options.run, options.overrides))))
    return EXIT_DONE
