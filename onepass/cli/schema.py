"""Print the JSON Schema of run files of one-pass SGD, for editors: see `dmft schema --help`.

examples:
  onepass schema > onepass.schema.json
"""

from __future__ import annotations

import argparse
import json

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from onepass.json_schema import run_file_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        print(json.dumps(run_file_schema(), indent=2))
    return EXIT_DONE
