"""Print the JSON Schema of run files of one-pass SGD, for editors: see `dmft schema --help`.

examples:
  onepass schema > onepass.schema.json
"""

from __future__ import annotations

import argparse

from dmft.core.subcommands import print_json
from onepass.json_schema import run_file_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> int:
    return print_json(run_file_schema())
