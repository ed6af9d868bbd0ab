"""Print what to cite for a run, as BibTeX: the software, and the papers of the theory, data model, start and algorithm that the run
uses; of a run file of onepass those of its model.

examples:
  dmft cite runs/demo.toml
  dmft cite runs/gmm2/logistic.toml >> paper.bib
  onepass cite runs/arnaboldi/figure1.toml
"""

from __future__ import annotations

import argparse

from dmft.core import schema
from dmft.core.command import EXIT_DONE, run_file_options
from dmft.core.parallel import world
from dmft.core.references import citation
from dmft.model.references import references_of
from dmft.model.runfile import load_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_file_options(parser)


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        of_onepass = "model" in schema.read_toml(schema.read_text(options.run), str(options.run))
        print(citation(_onepass(options) if of_onepass else references_of(load_run(options.run, options.overrides))))
    return EXIT_DONE


def _onepass(options: argparse.Namespace) -> list[tuple[str, str]]:
    from onepass.references import onepass_references
    from onepass.runfile import load_run

    return onepass_references(load_run(options.run, options.overrides))
