"""Print the JSON Schema of run files. Editors that know TOML (VS Code with Even Better TOML, Neovim and Helix with taplo) then
complete keys and names and mark mistakes: save it beside your run files, and begin these with the line

  #:schema ./run.schema.json

examples:
  dmft schema > run.schema.json
"""

from __future__ import annotations

import argparse

from dmft.core.subcommands import print_json
from dmft.model.json_schema import run_file_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> int:
    return print_json(run_file_schema())
