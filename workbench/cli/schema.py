"""Print the JSON Schema of run files. Editors that know TOML (VS Code with Even Better TOML, Neovim and Helix with taplo) then
complete keys and names and mark mistakes: save it beside your run files, and begin these with the line

  #:schema ./run.schema.json

examples:
  dmft schema > run.schema.json
"""

from __future__ import annotations

import argparse
import json

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from dmft.model.json_schema import run_file_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        print(json.dumps(run_file_schema(), indent=2))
    return EXIT_DONE
